#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/base/time/tsc_clock.h"
#include "watchctl/engine/intake/intake_impl.h"

#define PASS_NS 20000000ull /* how long one pass may take */
#define LOOK_NS 1000000ull  /* while handing out: how often it looks for new records */
#define QUEUE_MAX 4096u
#define TAKE_MAX (4u * QUEUE_MAX) /* records in one go: of those that are dropped, there may be any number */

/*
 * A further step comes at once, but for a busy machine: it may run others between the two traps, or between
 * our two looks at the records. So it is waited for this long, and for so many looks.
 */
#define STEP_NS 200000000ull
#define STEP_LOOKS 3u
#define STEP_PAUSE_NS 200000

static struct wc_error *put(void *ctx, const struct trace_event *event)
{
	return intake_put(ctx, event);
}

void intake_arm(struct intake *in, unsigned int i, const struct watchpoint *w)
{
	struct intake_watch *iw = &in->watch[i];

	watch_home_deinit(&iw->home);
	*iw = (struct intake_watch){ .w = *w };
	if (in->facts)
		watch_home_look(&iw->home, code_facts_modules(in->facts), w, NULL, 0);
	if (!w->want_size) {
		iw->w.want_addr = w->addr;
		iw->w.want_size = w->size;
	}
	if (w->filter) {
		iw->filter = *w->filter;
		iw->w.filter = &iw->filter;
	}
}

/* Empties the ring into the queue. */
static struct wc_error *take_all_in(struct intake *in, bool *any)
{
	const struct wire_record *r;
	struct wc_error *err = NULL;
	unsigned int n;

	if (!in->ring.area)
		return NULL;
	tsc_clock_sample(&in->clock);
	intake_take_late_hook(in);
	for (n = 0; !err && !in->hook_hit && !in->corrupt && in->queued < QUEUE_MAX && n < TAKE_MAX; n++) {
		enum ring_result result = ring_next(&in->ring, &r);

		in->corrupt = result == RING_CORRUPT;
		if (result != RING_RECORD)
			break;
		*any = true;
		err = intake_take_in(in, r);
		if (in->queued % 32 == 0)
			ring_release(&in->ring);
	}
	ring_release(&in->ring);
	return err;
}

/* The next one to be handed out may get a further step yet; not when so many came after it. */
static bool is_unfinished(const struct intake *in, uint64_t now)
{
	const struct queued_access *q = &in->queue[in->handed];

	return in->handed < in->queued && q->goes_on && in->queued - in->handed <= INTAKE_STEPS_APART &&
	       (now < q->step_ns + STEP_NS || in->looks < q->step_look + STEP_LOOKS);
}

/* What waits must not take the place of what comes. */
static void move_to_front(struct intake *in)
{
	memmove(in->queue, in->queue + in->handed, (in->queued - in->handed) * sizeof(*in->queue));
	in->queued -= in->handed;
	in->handed = 0;
}

struct wc_error *intake_report_departures(struct intake *in, uint64_t n)
{
	struct wc_error *err = in->begun ? code_facts_hear(in->facts) : NULL;

	departures_were(&in->departures, n);
	return err ? err : departures_report_all(&in->departures, (struct event_sink){ put, in });
}

void intake_forget(struct intake *in, unsigned int i)
{
	in->watch[i].w.size = 0;
	in->watch[i].w.hook = false;
}

struct wc_error *intake_pass(struct intake *in, bool *any)
{
	uint64_t end, looked;
	struct wc_error *err;

	*any = false;
	if (!in->begun)
		return NULL;
	*any = in->queued > in->handed;
	in->looks++;
	code_facts_bound(in->facts);
	followed_bound(&in->who);
	err = code_facts_hear(in->facts);
	if (!err)
		err = departures_report(&in->departures, (struct event_sink){ put, in });
	if (!err)
		err = take_all_in(in, any);
	looked = monotonic_ns();
	end = looked + PASS_NS;
	while (!err && in->handed < in->queued && !is_unfinished(in, looked)) {
		uint64_t now;

		err = intake_hand_out_one(in);
		now = in->handed % 16 ? looked : monotonic_ns();
		if (err || now - looked < LOOK_NS)
			continue;
		looked = now;
		err = take_all_in(in, any);
		if (now > end)
			break;
	}
	if (in->handed == in->queued)
		in->handed = in->queued = 0;
	if (!err && !*any)
		err = intake_catch_up_idle(in);
	if (!err && is_unfinished(in, looked)) {
		move_to_front(in);
		nanosleep(&(struct timespec){ .tv_nsec = STEP_PAUSE_NS }, NULL);
	}
	return err;
}

bool intake_has_room(const struct intake *in)
{
	return in->queued < QUEUE_MAX;
}

struct wc_error *intake_take(struct intake *in, const struct wire_record *r)
{
	tsc_clock_sample(&in->clock);
	return intake_take_in(in, r);
}

struct wc_error *intake_init(struct intake *in, pid_t pid, const struct engine_options *o,
			     struct event_sink sink, const struct wire_area *area,
			     const struct wire_control *layout)
{
	struct wc_error *err;

	in->pid = pid;
	in->frames = o->frames;
	in->sink = sink;
	followed_init(&in->who, pid, (struct event_sink){ put, in });
	in->queue = calloc(QUEUE_MAX, sizeof(*in->queue));
	tsc_clock_sample(&in->clock);
	if (!in->queue || (layout && !ring_init(&in->ring, area, layout->ring_offset, layout->ring_size,
						layout->commit_key)))
		return &wc_enomem;
	err = intake_code_init(in, area, o->follow_fork);
	in->begun = in->facts;
	return err;
}

void intake_deinit(struct intake *in)
{
	followed_deinit(&in->who);
	ring_deinit(&in->ring);
	code_facts_free(in->facts);
	free(in->queue);
	for (unsigned int i = 0; i < WIRE_WATCHES; i++)
		watch_home_deinit(&in->watch[i].home);
	*in = (struct intake){ 0 };
}
