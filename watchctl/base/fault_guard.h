/*
 * fault_guard - lives on when a library faults over a file that it reads: libdw and libelf read files of
 * programs that nobody vouches for, through mappings that whoever cuts the file makes unreadable.
 *
 * What was under way is left as it was at the fault: its memory and files are lost, and whatever the library
 * holds of that file must not be touched again. So this is a second door, for what cannot be done in a
 * process of its own (symbol_workers), and not a way to handle errors.
 */
#ifndef WATCHCTL_BASE_FAULT_GUARD_H
#define WATCHCTL_BASE_FAULT_GUARD_H

#include <stdbool.h>

/* Once, in the main thread, by programs; without it faults are deadly, as tests want them. */
void fault_guard_install(void);

/* False: @run was left because of SIGSEGV, SIGBUS or SIGFPE. Guards may stand in guards: the inner one
 * counts. */
bool fault_guarded(void (*run)(void *ctx), void *ctx);

#endif
