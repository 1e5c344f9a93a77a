#include "watchctl/target/stop/stop_wait.h"

#include <sched.h>
#include <stdint.h>
#include <sys/wait.h>

#include "watchctl/base/clock.h"

#define SPIN_NS 50000ull
#define HOT_NS 100000ull /* a wait that sleeps takes longer than one that spins */
#define NO_SPIN_STOPS 1000u
#define SHARED_STOPS 64u

/*
 * While stops come one upon the other, looking for the next costs less than being woken up by it, for us and
 * for the thread that waits for us. Not so where both share a CPU: then the first look after giving way finds
 * it, and a plain wait does the same with one system call less. Where others want the CPU as well, a look
 * that gives way to them can take long: then it is left alone for a while. 0: nothing came.
 */
static pid_t spin(struct stop_wait *w, stop_take_fn take, void *ctx, int *status)
{
	uint64_t start = 0, before = 0, now = 0;

	while (now - start < SPIN_NS) {
		pid_t tid;

		sched_yield();
		tid = take(ctx, status, WNOHANG);
		if (tid) {
			w->found_at_once = start ? 0 : w->found_at_once + 1;
			return tid;
		}
		before = now;
		now = monotonic_ns(); /* not asked for where the first look is enough */
		if (!start)
			start = before = now;
	}
	if (now - before > SPIN_NS)
		w->no_spin = NO_SPIN_STOPS;
	w->hot = false;
	return 0;
}

pid_t stop_wait_next(struct stop_wait *w, stop_take_fn take, void *ctx, int *status)
{
	bool shares_cpu = w->found_at_once >= SHARED_STOPS;
	pid_t tid = w->hot && !shares_cpu ? spin(w, take, ctx, status) : 0;
	uint64_t start;

	if (tid)
		return tid;
	if (shares_cpu && ++w->found_at_once == 2 * SHARED_STOPS)
		w->found_at_once = SHARED_STOPS - 1; /* may have changed: looked at again */
	start = monotonic_ns();
	tid = take(ctx, status, 0);
	if (w->no_spin)
		w->no_spin--;
	else
		w->hot = monotonic_ns() - start < HOT_NS;
	return tid;
}
