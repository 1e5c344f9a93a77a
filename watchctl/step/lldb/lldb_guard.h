/*
 * lldb_guard - a process that watches over us while LLDB has breakpoints in a program: when we are killed, it
 * takes them out and then lets go of the program, which runs on. Without it, LLDB's server ends with us, the
 * breakpoints stay in the code, and the next one kills the program.
 *
 * It holds on to the connection between LLDB and its server, so that the server lives, and the threads that
 * have met a breakpoint stand still, until all is put right.
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
