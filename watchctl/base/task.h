/*
 * task - which of a process's threads stands for it.
 */
#ifndef WATCHCTL_BASE_TASK_H
#define WATCHCTL_BASE_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The fields of /proc/PID/stat (proc(5)) behind the name, from the state on, of thread @tid of process @pid,
 * or with @tid 0 of the process, into @buf. NULL: there is no such thread.
 */
const char *task_stat(pid_t pid, pid_t tid, char *buf, size_t len);

/* When the process began (field 22), in clock ticks since boot. False: there is no such process. */
bool task_start_ticks(pid_t pid, uint64_t *ret);

/* What a process that began at this moment would have. */
uint64_t task_ticks_now(void);

/*
 * A thread of process @pid through which its memory, map and files can be reached: @pid itself, but where its
 * first thread has ended before the others (pthread_exit() in main) the kernel shows none of them under that
 * number. @pid, too, where no thread is left.
 */
pid_t task_with_memory(pid_t pid);

#endif
