#include "watchctl/engine/intake/thread_ends.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "watchctl/base/clock.h"

#define WRITES_NS 10000000ull /* so long after its end is reported the kernel may still write for a thread */

static void add_end(struct thread_ends *e, uint64_t from, uint64_t to)
{
	e->end[e->n % THREAD_ENDS].from = from;
	e->end[e->n++ % THREAD_ENDS].to = to;
}

void thread_ends_born(struct thread_ends *e, pid_t tid, uint64_t time_ns)
{
	uint64_t i = e->nyoung++ % THREAD_ENDS;

	e->young[i].tid = tid;
	e->young[i].born_ns = e->young[i].alive_ns = time_ns;
}

void thread_ends_ended(struct thread_ends *e, pid_t tid, uint64_t time_ns)
{
	unsigned int i;

	for (i = 0; i < THREAD_ENDS; i++)
		if (e->young[i].tid == tid)
			e->young[i].tid = 0;
	add_end(e, time_ns, time_ns);
}

/* Those that have ended meanwhile did so since they were seen alive. */
static void look_at_young(struct thread_ends *e, pid_t pid, uint64_t before_ns)
{
	unsigned int i;

	for (i = 0; i < e->nyoung && i < THREAD_ENDS; i++) {
		uint64_t now;

		if (!e->young[i].tid || e->young[i].alive_ns >= before_ns)
			continue;
		now = monotonic_ns();
		if (syscall(SYS_tgkill, pid, e->young[i].tid, 0)) {
			add_end(e, e->young[i].alive_ns, now);
			e->young[i].tid = 0;
		} else {
			e->young[i].alive_ns = now;
		}
	}
}

bool thread_ends_any(struct thread_ends *e, pid_t pid, uint64_t after_ns, uint64_t before_ns)
{
	uint64_t i;

	look_at_young(e, pid, before_ns);
	for (i = 0; i < e->n && i < THREAD_ENDS; i++)
		if (e->end[i].to + WRITES_NS > after_ns && e->end[i].from < before_ns)
			return true;
	return false;
}
