/*
 * walkers - unwinders of others, made to walk the same stopped thread: its registers as they were handed to
 * us, its memory as process_vm_readv() gives it. None of them traces the process, which a debugger may do.
 */
#ifndef TESTS_ORACLE_WALKERS_H
#define TESTS_ORACLE_WALKERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/code/memory_view.h"
#include "watchctl/code/regs.h"

#define DEPTH 256

struct walk {
	uint64_t frame[DEPTH];
	unsigned int n;
};

/* How many frames the two have in common, from the innermost on. */
unsigned int walk_common(const struct walk *a, const struct walk *b);
bool walk_same(const struct walk *a, const struct walk *b);

/* @pid, by reference, is the view's context. */
struct memory_view walkers_memory(pid_t *pid);

/* libunwind. One process at a time; what it remembers of the modules is dropped by _forget. */
void walkers_unwind_forget(void);
void walkers_unwind(pid_t pid, const struct regs *regs, struct walk *ret);

/* elfutils' libdwfl, as eu-stack uses it; slow. */
void walkers_dwfl(pid_t pid, const struct regs *regs, struct walk *ret);

#endif
