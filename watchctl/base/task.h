/*
 * task - which of a process's threads stands for it.
 */
#ifndef WATCHCTL_BASE_TASK_H
#define WATCHCTL_BASE_TASK_H

#include <sys/types.h>

/*
 * A thread of process @pid through which its memory, map and files can be reached: @pid itself, but where its
 * first thread has ended before the others (pthread_exit() in main) the kernel shows none of them under that
 * number. @pid, too, where no thread is left.
 */
pid_t task_with_memory(pid_t pid);

#endif
