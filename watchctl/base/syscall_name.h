/*
 * syscall_name - names of system calls of x86-64, as the kernel headers of the building machine number them
 * (asm/unistd_64.h; the table is made by tools/syscalls.mk).
 */
#ifndef WATCHCTL_BASE_SYSCALL_NAME_H
#define WATCHCTL_BASE_SYSCALL_NAME_H

/* "read"; NULL: none of that number is known. Constant. */
const char *syscall_name(int number);

#endif
