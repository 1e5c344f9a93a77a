/* proc_words - what a process calls itself, for logs. */
#ifndef WATCHCTL_TARGET_PROC_PROC_WORDS_H
#define WATCHCTL_TARGET_PROC_PROC_WORDS_H

#include <sys/types.h>

/* Empty where it cannot be read; cut where it does not fit. */
struct proc_words {
	char comm[64];
	char exe[4096];	    /* path of its program */
	char cmdline[4096]; /* arguments joined by spaces */
	char host[256];	    /* of this machine */
};

void proc_words_read(pid_t pid, struct proc_words *ret);

/* Of one thread, @buf of @len > 0 bytes. */
void proc_thread_name(pid_t pid, pid_t tid, char *buf, size_t len);

#endif
