#include "watchctl/cli/output/log_settle.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/trace/event.h"
#include "watchctl/trace/log/tracelog.h"

#define PAUSE_NS 2000000
#define PAUSES 2500u
#define EVENTS_READ 64u /* the process is among the first */

/* 0: the log does not say, yet. */
static pid_t process_of(const char *log)
{
	scoped(tracelog_reader_closep) struct tracelog_reader *r = NULL;
	struct wc_error *err = tracelog_reader_open(log, &r);
	enum log_outcome outcome = LOG_EVENT;
	struct trace_event e;
	pid_t pid = 0;

	for (unsigned int i = 0; !err && !pid && outcome == LOG_EVENT && i < EVENTS_READ; i++) {
		err = tracelog_next(r, &e, &outcome);
		if (!err && outcome == LOG_EVENT && e.type == EVENT_PROCESS)
			pid = e.process.pid;
	}
	wc_error_free(err);
	return pid;
}

static bool has_ended(pid_t pid)
{
	return pid > 0 && ((kill(pid, 0) < 0 && errno == ESRCH) || proc_is_ending(pid, pid));
}

void log_settle(const char *log)
{
	if (!tracelog_is_recording(log) || !has_ended(process_of(log)))
		return;
	for (unsigned int i = 0; i < PAUSES && tracelog_is_recording(log); i++)
		nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
}
