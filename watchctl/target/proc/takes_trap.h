/*
 * takes_trap - programs that install a SIGTRAP handler of their own when they start, known by what is in
 * their executable. A handler of ours that is put into one before that is replaced by theirs, which then gets
 * the signals of our hits, and as a rule ends the program.
 */
#ifndef WATCHCTL_TARGET_PROC_TAKES_TRAP_H
#define WATCHCTL_TARGET_PROC_TAKES_TRAP_H

#include <sys/types.h>

/* What installs it, to follow "the program's"; NULL: nothing that is known here. */
const char *takes_trap(pid_t pid);

#endif
