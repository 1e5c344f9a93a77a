/*
 * hold - a thread waits until the controller has armed what this hit makes possible (a library was loaded, a
 * pointer leads elsewhere). For a limited time, in all; and where it was waited for in vain, nobody waits
 * any more until the controller has come past that place of the ring: it may be stopped, or blocked by a
 * disk.
 */
#include "handler/handler.h"
#include "handler/sys.h"

#define FUTEX_WAIT 0
#define LOOK_NS 2000000	      /* a controller that does not share the memory cannot wake us */
#define SILENCE_NS 300000000u /* so long without a heartbeat it counts as gone */

static bool is_before(uint64_t a, uint64_t b)
{
	return (int64_t)(a - b) < 0;
}

/* False: it lags behind, or has been waited for long enough. */
static bool wait_until_done(struct wire_control *ctl, uint64_t end)
{
	struct timespec64 look = { 0, LOOK_NS };
	uint64_t start = monotonic_ns(), beat = __atomic_load_n(&ctl->heartbeat, __ATOMIC_RELAXED);
	uint64_t heard = start, now = start;

	while (now - start < ctl->patience_ns && now - heard < SILENCE_NS) {
		uint64_t done = __atomic_load_n(&ctl->done, __ATOMIC_ACQUIRE), last = beat;

		if (!is_before(done, end))
			return true;
		if (is_before(done, __atomic_load_n(&ctl->behind, __ATOMIC_RELAXED)))
			return false;
		sys4(NR_FUTEX, &ctl->done, FUTEX_WAIT, (uint32_t)done, &look);
		now = monotonic_ns();
		beat = __atomic_load_n(&ctl->heartbeat, __ATOMIC_RELAXED);
		if (beat != last)
			heard = now;
	}
	__atomic_store_n(&ctl->behind, __atomic_load_n(&ctl->head, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
	return false;
}

void handler_hold(struct wire_control *ctl, uint64_t end)
{
	if (!wait_until_done(ctl, end))
		__atomic_fetch_add(&ctl->unheld, 1, __ATOMIC_RELAXED);
}
