/*
 * gadget - instructions that the program already contains, for the first system call in it.
 *
 * Before anything of ours is mapped, the only code that can run is the program's own. Two pieces are
 * enough: "syscall; ret", and a way into rt_sigreturn, which every program that handles signals has
 * (its SA_RESTORER), or "pop rax; ret" in its place.
 */
#ifndef WATCHCTL_TARGET_INJECT_GADGET_H
#define WATCHCTL_TARGET_INJECT_GADGET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/base/error.h"

struct gadgets {
	uint64_t syscall_ret;
	uint64_t sigreturn; /* mov $15, %eax; syscall. 0: none, then pop_rax_ret is not 0 */
	uint64_t pop_rax_ret;
};

/* WC_ENOTSUP when the program's code holds no such instructions. */
struct wc_error *gadgets_find(pid_t pid, struct gadgets *ret);

/*
 * Whether they are in the memory of @pid now. To be asked once the thread that is to use them stands still:
 * until then it may have executed another program.
 */
bool gadgets_are_there(pid_t pid, const struct gadgets *g);

/*
 * The words that must lie at rsp, directly below the frame, when syscall_ret is entered: the way from its
 * ret to rt_sigreturn. Returns how many (at most 4); the frame follows the last.
 */
unsigned int gadgets_chain(const struct gadgets *g, uint64_t word[4]);

#endif
