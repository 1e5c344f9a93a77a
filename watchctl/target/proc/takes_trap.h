/*
 * takes_trap - programs that install their own SIGTRAP handler when they start, recognised by the contents of
 * their executable. It replaces a handler that we have placed before, then receives the signals of our hits,
 * and usually ends the program.
 */
#ifndef WATCHCTL_TARGET_PROC_TAKES_TRAP_H
#define WATCHCTL_TARGET_PROC_TAKES_TRAP_H

#include <sys/types.h>

/* What installs it, to follow "the program's"; NULL: nothing that is known here. */
const char *takes_trap(pid_t pid);

#endif
