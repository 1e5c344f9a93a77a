/*
 * lldb_guard - a process that guards us while LLDB has breakpoints in a program: if we are killed, it removes
 * them and detaches from the program, which continues. Without it, LLDB's server would end with us, the
 * breakpoints would stay in the code, and the next one hit would kill the program.
 *
 * It keeps the connection between LLDB and its server open, so that the server lives, and threads that have hit
 * a breakpoint stay stopped, until all breakpoints are removed.
 */
#ifndef WATCHCTL_STEP_LLDB_LLDB_GUARD_H
#define WATCHCTL_STEP_LLDB_LLDB_GUARD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lldb_guard;

#define LLDB_GUARD_FDS 4096

/* Files that are sockets. */
struct lldb_sockets {
	bool is[LLDB_GUARD_FDS];
};

void lldb_sockets_look(struct lldb_sockets *ret);

/*
 * After LLDB is connected with its server: by the sockets that were not there @before. NULL: it cannot be had
 * (no memory, no processes left).
 */
struct lldb_guard *lldb_guard_new(pid_t pid, const struct lldb_sockets *before);

/* Before a breakpoint is set at @address, where byte @original belongs; false: no memory. */
bool lldb_guard_add(struct lldb_guard *g, uint64_t address, uint8_t original);

/* After it is taken out. */
void lldb_guard_remove(struct lldb_guard *g, uint64_t address);

/* The program is let go of, as it was found. Accepts NULL. */
void lldb_guard_free(struct lldb_guard *g);

#ifdef __cplusplus
}
#endif

#endif
