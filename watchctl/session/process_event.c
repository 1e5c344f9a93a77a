#include "watchctl/session/process_event.h"

#include <time.h>

#include "watchctl/base/clock.h"
#include "watchctl/target/proc/proc_words.h"

static struct wc_error *put(const struct process_event *p, uint64_t time_ns, struct event_sink sink)
{
	struct trace_event e = { .type = EVENT_PROCESS, .time_ns = time_ns, .process = *p };

	e.process.realtime_ns = clock_ns(CLOCK_REALTIME) - (monotonic_ns() - time_ns);
	return sink.put(sink.ctx, &e);
}

struct wc_error *process_event_put(pid_t pid, struct event_sink sink)
{
	struct proc_words words;

	proc_words_read(pid, &words);
	return put(&(struct process_event){ .pid = pid,
					    .comm = words.comm,
					    .exe = words.exe,
					    .cmdline = words.cmdline,
					    .host = words.host },
		   monotonic_ns(), sink);
}

struct wc_error *process_event_put_child(pid_t pid, pid_t parent, const char *comm, uint64_t time_ns,
					 struct event_sink sink)
{
	return put(&(struct process_event){ .pid = pid, .parent = parent, .comm = comm }, time_ns, sink);
}
