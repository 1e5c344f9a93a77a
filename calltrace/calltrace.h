/*
 * calltrace - what a program that was built with the call tracer can say to it. Link libcalltrace; without a log
 * (CALLTRACE_OUTPUT is not set, or could not be made) all of this does nothing.
 *
 *	CALLTRACE_OUTPUT=PATH	the log to make. In PATH %p is the process's number, %e the program's name, %% a %
 *	CALLTRACE_ENABLE=0	record nothing until calltrace_enable()
 *
 * Thread safe; not to be called from signal handlers.
 */
#ifndef CALLTRACE_CALLTRACE_H
#define CALLTRACE_CALLTRACE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Records from now on, in all threads. 0, or -ENOENT: there is no log. */
int calltrace_enable(void);

/* Records no more, until calltrace_enable(). Calls that are open then end, for the log, when they are found gone. */
void calltrace_disable(void);

/* 1 while entries and exits are recorded, else 0. */
int calltrace_enabled(void);

/*
 * Hands all that was recorded so far, by any thread, to the kernel: a crash cannot lose it any more. 0 or a negative
 * errno, -ENOENT: there is no log.
 */
int calltrace_flush(void);

#ifdef __cplusplus
}
#endif

#endif
