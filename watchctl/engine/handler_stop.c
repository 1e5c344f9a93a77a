#include <stddef.h>
#include <time.h>

#include "watchctl/base/clock.h"
#include "watchctl/engine/handler_engine.h"
#include "watchctl/target/proc.h"

#define SETTLE_MS 30u
#define FLUSH_MS 100u

static void keep_first(struct wc_error **first, struct wc_error *err)
{
	if (*first)
		wc_error_free(err);
	else
		*first = err;
}

/* Once no more hits can come: the ring to its end, whatever the sink says to it. */
struct wc_error *handler_drain_all(struct engine *e)
{
	struct wc_error *err = NULL;
	bool any;

	do {
		handler_beat(e);
		keep_first(&err, handler_take(e, &any));
		handler_let_go(e);
	} while (any);
	return err;
}

uint64_t handler_outstanding(const struct engine *e)
{
	uint64_t sum = 0, known, counted;
	unsigned int i;

	for (i = 0; i < WIRE_WATCHES; i++) {
		const struct armed_watch *a = &e->watch[i];
		uint64_t filtered, lost;

		if (!a->armed || a->w.slot >= 0)
			continue;
		handler_dropped(e, i, &filtered, &lost);
		known = e->intake.watch[i].seen + filtered + lost;
		counted = a->disabled ? a->counted : perf_bp_count(&a->perf) - a->self_tests;
		sum += counted > known ? counted - known : 0;
	}
	known = kernel_recorder_suppressed(e->guard);
	return sum > known ? sum - known : 0;
}

static struct wc_error *settle(struct engine *e, unsigned int timeout_ms)
{
	struct wc_error *err = handler_drain_all(e);
	uint64_t end = monotonic_ns() + timeout_ms * 1000000ull;

	while (!e->intake.corrupt && handler_outstanding(e) && !handler_all_ended(e) &&
	       monotonic_ns() < end) {
		nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
		keep_first(&err, handler_drain_all(e));
	}
	return err;
}

static bool flush_all(struct engine *e)
{
	bool all = inject_flush(&e->inj);
	size_t i;

	for (i = 0; i < e->children.n; i++) {
		struct injection inj = handler_of_child(e, e->children.v[i]);

		all &= inject_flush(&inj);
	}
	return all;
}

static bool any_pending(const struct engine *e)
{
	bool pending = inject_has_pending(e->pid);
	size_t i;

	for (i = 0; i < e->children.n && !pending; i++)
		pending = inject_has_pending(e->children.v[i]);
	return pending;
}

/* Every watch disarmed; now every hit must have arrived, or be known never to arrive. */
struct wc_error *handler_stop(struct engine *e)
{
	struct wc_error *err;
	unsigned int i;

	handler_let_go(e);
	for (i = 0; i < WIRE_WATCHES; i++)
		handler_disable(&e->watch[i]);
	err = settle(e, SETTLE_MS);
	handler_find_children(e);
	e->stopped = true;
	e->settled = true;
	if (e->gone || handler_all_ended(e) || (!handler_outstanding(e) && !handler_has_ptrace_watch(e)))
		return err;
	e->settled = flush_all(e);
	keep_first(&err, settle(e, FLUSH_MS));
	for (i = 0; i < FLUSH_MS && any_pending(e); i++) {
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		keep_first(&err, handler_drain_all(e));
	}
	e->settled = e->settled && !any_pending(e);
	return err;
}
