/*
 * A poll goes over all rings and moves what is whole into one buffer, so that the program has its room back
 * at once; then tag_events.c merges.
 *
 * Counts. A ring counts each capture that it was asked for, and each that it had no room for; the control
 * block those for which there was no ring. What is missing from the sum at the end was begun and never
 * finished.
 */
#include "watchctl/trace/tags/tag_collector.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <x86intrin.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/base/time/tsc_clock.h"
#include "watchctl/base/time/tsc_usable.h"
#include "watchctl/trace/tags/tag_events.h"

#define BUFFER (4u << 20)     /* of one poll */
#define SHARE_MIN (64u << 10) /* of it, for one ring */
#define POLL_MIN_NS 100000ull
#define REPORT_NS 200000000ull	    /* how often losses are reported */
#define STRAGGLERS_NS 20000000ull   /* how long the end waits for captures that were being written */
#define LEASE_MAX_NS 60000000000ull /* of others: what is more is not believed */
#define DRAIN_NS 2000000000ull	    /* how long the end goes on with one that still captures */

struct tag_collector {
	struct capture_descriptor program;
	struct tag_settings settings;
	struct tag_events events;
	uint64_t session, reported_ns, lease;
	enum tag_state state;
	bool started, stopped;
	bool lapsed; /* the program had switched itself off for a while */
	bool ended;  /* it says that nothing more will come */
	bool let_go; /* and we have taken all, and told it so */

	struct tag_ring_state *ring; /* CAPTURE_RINGS */
	uint32_t nrings, first;	     /* where the next poll begins */
	uint64_t listed[CAPTURE_RINGS];

	uint64_t no_ring_before, no_ring;
	uint64_t retired_calls, retired_lost; /* of rings whose place another one took */
	uint64_t reported_full, reported_no_ring;
	struct tag_counts counts; /* final, when stopped */
};

/* The program's memory */

static bool get(const struct tag_collector *c, uint64_t addr, void *buf, size_t len)
{
	return c->events.host.memory.read(c->events.host.memory.ctx, addr, buf, len);
}

static bool set(const struct tag_collector *c, uint64_t addr, const void *buf, size_t len)
{
	return c->events.host.memory.write(c->events.host.memory.ctx, addr, buf, len);
}

/* Reports the program that its collector is alive, at the time stamp @now. */
static void keep_alive(const struct tag_collector *c, uint64_t now)
{
	set(c, c->program.control + offsetof(struct capture_control, heartbeat), &now, sizeof(now));
}

/* Members of the control block, by their offsets. */
static bool set_u64(const struct tag_collector *c, size_t offset, uint64_t value)
{
	return set(c, c->program.control + offset, &value, sizeof(value));
}

static bool set_u32(const struct tag_collector *c, size_t offset, uint32_t value)
{
	return set(c, c->program.control + offset, &value, sizeof(value));
}

#define CONTROL(member) offsetof(struct capture_control, member)

/* All of it but the list of rings. */
static bool get_control(const struct tag_collector *c, struct capture_control *ret)
{
	return get(c, c->program.control, ret, CONTROL(ring));
}

static bool set_flag(const struct tag_collector *c, uint32_t on)
{
	return set(c, c->program.flag, &on, sizeof(on));
}

/* Whether the program's memory is still what we began with. */
static bool session_is_ours(const struct tag_collector *c)
{
	uint64_t session;

	return get(c, c->program.control + CONTROL(session), &session, sizeof(session)) &&
	       session == c->session;
}

static struct wc_error *note(struct tag_collector *c, const char *text)
{
	struct trace_event e = { .type = EVENT_NOTE, .time_ns = monotonic_ns(), .note = { text } };

	return tag_events_put(&c->events, &e);
}

static struct wc_error *note_jump(struct tag_collector *c)
{
	char text[250];

	return c->events.has_clock && tsc_clock_tell_jump(&c->events.clock, text, sizeof(text))
		       ? note(c, text)
		       : NULL;
}

/* Opening */

static bool lies_in(uint64_t addr, uint64_t size, uint64_t align, uint64_t start, uint64_t end)
{
	return addr >= start && addr < end && end - addr >= size && !(addr % align);
}

struct wc_error *tag_collector_open(const struct tag_host *host, uint64_t descriptor, uint64_t start,
				    uint64_t end, struct tag_collector **ret)
{
	struct capture_descriptor d;
	struct tag_collector *c;
	uint64_t ended;

	*ret = NULL;
	if (!host->memory.read(host->memory.ctx, descriptor, &d, sizeof(d)))
		return wc_error_new(WC_ETARGET, "the memory of libstackwalk in the program cannot be read");
	if (d.magic != CAPTURE_MAGIC || d.size < sizeof(d))
		return wc_error_new(
			WC_ETARGET,
			"the program has no valid descriptor of libstackwalk at the expected address");
	if (d.version != CAPTURE_VERSION)
		return wc_error_new(
			WC_ENOTSUP,
			"the program was linked with another version of libstackwalk (its protocol is %u, "
			"this watchctl's is %u): use the watchctl of that version, or link the program "
			"again",
			d.version, CAPTURE_VERSION);
	/* The flag may have been moved into the program itself, by a copy relocation. */
	if (!d.flag || d.flag % sizeof(uint32_t) ||
	    !lies_in(d.control, sizeof(struct capture_control), 8, start, end) ||
	    !lies_in(d.names, sizeof(struct capture_name) * CAPTURE_NAMES, 4, start, end))
		return NULL;
	if (!host->memory.read(host->memory.ctx, d.control + CONTROL(ended), &ended, sizeof(ended)) || ended)
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return &wc_enomem;
	c->program = d;
	c->ring = calloc(CAPTURE_RINGS, sizeof(*c->ring));
	if (!tag_events_init(&c->events, host, d.names, BUFFER) || !c->ring) {
		tag_collector_free(c);
		return &wc_enomem;
	}
	*ret = c;
	return NULL;
}

void tag_collector_free(struct tag_collector *c)
{
	if (!c)
		return;
	free(c->ring);
	tag_events_deinit(&c->events);
	free(c);
}

uint64_t tag_collector_flag(const struct tag_collector *c)
{
	return c->program.flag;
}

/* Starting */

static void pause_ns(uint64_t ns)
{
	nanosleep(&(struct timespec){ .tv_nsec = (long)ns }, NULL);
}

static uint64_t ticks(const struct tag_collector *c, uint64_t ns)
{
	return (uint64_t)((double)ns * (double)(c->events.clock.tsc - c->events.clock.tsc0) /
			  (double)(c->events.clock.ns - c->events.clock.ns0));
}

static bool is_silent(const struct tag_collector *c, const struct capture_control *k)
{
	uint64_t lease = k->lease, most = ticks(c, LEASE_MAX_NS), now = __rdtsc();

	if (lease > most)
		lease = most;
	return !k->session || (now > k->heartbeat ? now - k->heartbeat : k->heartbeat - now) > lease;
}

static struct wc_error *busy(uint32_t pid)
{
	struct wc_error *err = wc_error_new(WC_ENOTSUP,
					    "another collector already reads the captures of this program: "
					    "process %u; end that one first",
					    pid);

	if (err != &wc_enomem)
		err->sys_errno = EBUSY;
	return err;
}

/* One that was killed leaves its session behind: its lease runs out while we wait. */
static struct wc_error *wait_for_place(const struct tag_collector *c, const volatile int *stop)
{
	struct capture_control k = { 0 };
	uint64_t beat = 0;
	bool first = true;

	for (;; first = false) {
		if (!get_control(c, &k))
			return wc_error_new(WC_ETARGET, "the program has ended");
		if (is_silent(c, &k))
			return NULL;
		if (!first && k.heartbeat != beat)
			return busy(k.collector);
		if (stop && *stop)
			return wc_error_new(
				WC_EFAIL,
				"interrupted before the collection began: watchctl was waiting for the previous "
				"collector (process %u), which seems to have died",
				k.collector);
		beat = k.heartbeat;
		pause_ns(5 * TAG_POLL_MAX_NS);
	}
}

static uint64_t new_session(void)
{
	uint64_t s;

	if (getrandom(&s, sizeof(s), GRND_NONBLOCK) != sizeof(s))
		s = __rdtsc() ^ monotonic_ns() << 32;
	return s | 1;
}

static void begin_ring(struct tag_collector *c, uint32_t i, bool skip)
{
	struct tag_ring_state *s = &c->ring[i];

	if (s->listed == c->listed[i])
		return;
	/* A ring lives as long as the program: another in its place is the program's own doing. */
	c->retired_calls += tag_ring_calls(&s->r);
	c->retired_lost += tag_ring_lost(&s->r);
	*s = (struct tag_ring_state){ .listed = c->listed[i] };
	if (tag_ring_begin(&s->r, &c->events.host.memory, s->listed, skip))
		return;
	if (s->r.size) /* it is one, and could not be written to now: it is met again */
		*s = (struct tag_ring_state){ 0 };
	else
		s->r = (struct tag_ring){ .lies = true };
}

/* Those that are new in the program's list. */
static bool look_for_rings(struct tag_collector *c, uint32_t n, bool skip)
{
	uint32_t i;

	if (n > CAPTURE_RINGS)
		n = CAPTURE_RINGS;
	if (n < c->nrings)
		n = c->nrings;
	if (n && !get(c, c->program.control + CONTROL(ring), c->listed, n * sizeof(c->listed[0])))
		return false;
	c->nrings = n;
	for (i = 0; i < n; i++)
		if (c->listed[i])
			begin_ring(c, i, skip);
	return true;
}

static bool set_up(struct tag_collector *c, const struct capture_control *k)
{
	c->no_ring_before = c->no_ring = k->no_ring;
	c->lease = ticks(c, c->settings.lease_ns);
	return look_for_rings(c, k->nrings, true) && set_u32(c, CONTROL(frames_max), c->settings.frames) &&
	       set_u32(c, CONTROL(ring_size), (uint32_t)c->settings.ring_size) &&
	       set_u32(c, CONTROL(collector), c->settings.pid) && set_u64(c, CONTROL(lease), c->lease) &&
	       set_u64(c, CONTROL(heartbeat), __rdtsc()) && set_u64(c, CONTROL(session), c->session) &&
	       session_is_ours(c) && set_flag(c, 1);
}

struct wc_error *tag_collector_start(struct tag_collector *c, const struct tag_settings *s,
				     const volatile int *stop)
{
	struct capture_control k;
	struct wc_error *err;
	char text[300];

	c->settings = *s;
	c->session = new_session();
	c->events.has_clock = tsc_usable();
	tsc_clock_sample(&c->events.clock);
	err = wait_for_place(c, stop);
	if (err)
		return err;
	tsc_clock_sample(&c->events.clock);
	c->events.start_ns = c->events.polled_ns = c->reported_ns = monotonic_ns();
	if (!get_control(c, &k) || !set_up(c, &k)) {
		if (get_control(c, &k) && k.session && k.session != c->session) /* two began at once */
			return busy(k.collector);
		return wc_error_new(WC_ETARGET,
				    "the memory of libstackwalk in the program cannot be changed");
	}
	c->started = true;
	if (c->events.has_clock)
		return NULL;
	snprintf(
		text, sizeof(text),
		"times cannot be taken from the time stamp counter, for %s: the times of captures are those at "
		"which they were collected",
		tsc_unusable_why());
	return note(c, text);
}

/* Polling */

struct harvest {
	bool more;
	double fill; /* of the fullest ring, 0..1 */
};

/* Fills the buffer. False: the memory is gone. */
static bool take_rings(struct tag_collector *c, struct harvest *ret)
{
	size_t used = 0, share = c->nrings ? BUFFER / c->nrings : BUFFER;
	uint32_t i;

	if (share < SHARE_MIN)
		share = SHARE_MIN;
	for (i = 0; i < c->nrings; i++) {
		uint32_t at = (c->first + i) % c->nrings;
		struct tag_ring_state *s = &c->ring[at];
		size_t room = BUFFER - used < share ? BUFFER - used : share, len;
		uint64_t tail = s->r.tail;

		if (!s->r.address || s->r.lies)
			continue;
		if (room < TAG_RING_ROOM_MIN) {
			ret->more = true;
			c->first = at;
			break;
		}
		if (!tag_ring_take(&s->r, &c->events.host.memory, c->events.buffer + used, room,
				   c->events.polled_ns, &len))
			return false;
		if (len)
			tag_events_add_run(&c->events, s, used, used + len);
		used += len;
		if (s->r.lies)
			continue;
		ret->more |= len && room - len < TAG_RING_ROOM_MIN;
		if ((double)(s->r.head - tail) / (double)s->r.size > ret->fill)
			ret->fill = (double)(s->r.head - tail) / (double)s->r.size;
	}
	return true;
}

static uint64_t sum_full(const struct tag_collector *c)
{
	uint64_t n = c->retired_lost;
	uint32_t i;

	for (i = 0; i < c->nrings; i++)
		n += tag_ring_lost(&c->ring[i].r);
	return n;
}

static uint64_t sum_calls(const struct tag_collector *c)
{
	uint64_t n = c->retired_calls + (c->no_ring - c->no_ring_before);
	uint32_t i;

	for (i = 0; i < c->nrings; i++)
		n += tag_ring_calls(&c->ring[i].r);
	return n;
}

static struct wc_error *report_lost(struct tag_collector *c, uint64_t count, uint64_t *reported,
				    const char *why)
{
	struct trace_event e = { .type = EVENT_LOST, .time_ns = c->events.polled_ns };

	if (count <= *reported)
		return NULL;
	e.lost = (struct lost_event){ WATCH_CAPTURES, count - *reported, why };
	*reported = count;
	return tag_events_put(&c->events, &e);
}

/* Where the program went before we had read all, what is missing may have been complete. */
static const char *why_unfinished(const struct tag_collector *c)
{
	if (c->state == TAGS_COLLECTING)
		return "begun, but never completed";
	return c->state == TAGS_TAKEN_OVER ? "not read before another collector took over"
					   : "not read before the program was gone";
}

static struct wc_error *report_losses(struct tag_collector *c)
{
	struct wc_error *err = report_lost(c, sum_full(c), &c->reported_full, "the thread's ring was full");

	c->reported_ns = c->events.polled_ns;
	if (err)
		return err;
	return report_lost(c, c->no_ring - c->no_ring_before, &c->reported_no_ring,
			   "there was no ring for the thread");
}

static uint64_t next_wait(const struct tag_collector *c, const struct harvest *h, uint64_t elapsed_ns)
{
	double wait;

	if (h->more)
		return 0;
	/* As long as it takes to fill a quarter of the ring that fills fastest. */
	wait = h->fill > 0 ? (double)elapsed_ns * 0.25 / h->fill : (double)TAG_POLL_MAX_NS;
	if (wait < (double)POLL_MIN_NS)
		return POLL_MIN_NS;
	return wait < (double)TAG_POLL_MAX_NS ? (uint64_t)wait : TAG_POLL_MAX_NS;
}

/* It switched itself off because we had not come for too long: stopped, or starved. */
static struct wc_error *switch_on_again(struct tag_collector *c)
{
	c->lapsed = true;
	if (!set_flag(c, 1))
		return NULL;
	return note(
		c,
		"the program had stopped recording captures, because watchctl did not read them in time: later "
		"captures are missing, and their number is not known; it records again");
}

static enum tag_state check_session(struct tag_collector *c, struct capture_control *k)
{
	if (!get_control(c, k))
		return TAGS_GONE;
	if (k->session == c->session)
		return TAGS_COLLECTING;
	/* Zeros are a program that nobody has ever collected from: another one, by exec. */
	return k->lease || k->collector ? TAGS_TAKEN_OVER : TAGS_GONE;
}

static bool anything_unfinished(const struct tag_collector *c)
{
	uint32_t i;

	for (i = 0; i < c->nrings; i++)
		if (c->ring[i].r.address && !c->ring[i].r.lies && c->ring[i].r.head != c->ring[i].r.tail)
			return true;
	return false;
}

/* A sink may be slow, one that reads debug information: the program is told meanwhile that we live. */
static struct wc_error *put_runs(struct tag_collector *c)
{
	struct wc_error *err;

	tag_events_begin(&c->events);
	for (;;) {
		err = tag_events_merge(&c->events, c->lease / 8);
		if (err || !c->events.nruns)
			return err;
		if (!c->stopped && !c->let_go)
			keep_alive(c, __rdtsc());
	}
}

static struct wc_error *poll_once(struct tag_collector *c, struct tag_poll *ret)
{
	struct capture_control k = { 0 };
	struct harvest h = { 0 };
	uint64_t last = c->events.polled_ns, before = c->events.recorded, begin = monotonic_ns();
	struct wc_error *err = NULL;
	uint32_t flag = 1;

	c->events.polled_ns = begin;
	c->state = check_session(c, &k);
	if (c->state == TAGS_COLLECTING && !c->stopped && !c->settings.shared_flag)
		get(c, c->program.flag, &flag, sizeof(flag));
	if (c->state == TAGS_COLLECTING &&
	    (!set_u64(c, CONTROL(heartbeat), __rdtsc()) || !look_for_rings(c, k.nrings, false) ||
	     !take_rings(c, &h) || !session_is_ours(c)))
		c->state = check_session(c, &k) == TAGS_TAKEN_OVER ? TAGS_TAKEN_OVER : TAGS_GONE;
	if (c->state != TAGS_COLLECTING) {
		tag_events_drop_runs(&c->events);
		*ret = (struct tag_poll){ .state = c->state };
		return NULL;
	}
	c->no_ring = k.no_ring;
	c->ended = k.ended != 0;
	tsc_clock_sample(&c->events.clock);
	c->events.polled_ns = c->events.clock.ns;
	err = note_jump(c);
	if (err)
		return err;
	if (c->ended && !h.more && !anything_unfinished(c)) { /* a slow sink must not make it wait */
		set_u64(c, CONTROL(session), 0);
		c->let_go = true;
	}
	if (c->events.host.taken && c->events.nruns)
		err = c->events.host.taken(c->events.host.ctx);
	if (!err)
		err = put_runs(c);
	if (!err && !flag && !c->ended)
		err = switch_on_again(c);
	if (!err && c->events.polled_ns - c->reported_ns > REPORT_NS)
		err = report_losses(c);
	*ret = (struct tag_poll){
		.state = c->state,
		.wait_ns = next_wait(c, &h, begin - last),
		.until_ns = h.more ? 0 : begin,
		.captures = c->events.recorded - before,
	};
	return err;
}

struct wc_error *tag_collector_poll(struct tag_collector *c, struct tag_poll *ret)
{
	struct wc_error *err;

	*ret = (struct tag_poll){ .state = c->started ? c->state : TAGS_GONE };
	if (!c->started || c->stopped || c->state != TAGS_COLLECTING)
		return NULL;
	err = poll_once(c, ret);
	if (err || !c->ended || c->state != TAGS_COLLECTING)
		return err;
	/* It waits for us, and is gone then. */
	err = tag_collector_stop(c);
	c->state = ret->state = TAGS_GONE;
	return err;
}

/* Stopping */

/* What is still not whole never will be: what lies behind it need not wait any longer. */
static void lose_patience(struct tag_collector *c)
{
	uint32_t i;

	for (i = 0; i < c->nrings; i++)
		c->ring[i].r.hurry = true;
}

/*
 * Until the rings are empty; a capture that is just being written gets a moment to end. One that never ends
 * costs a poll each, and no more time than one that captures all the time.
 */
static struct wc_error *drain(struct tag_collector *c)
{
	uint64_t begin = monotonic_ns();
	struct tag_poll p = { 0 };
	struct wc_error *err;

	do {
		if (c->events.polled_ns - begin > STRAGGLERS_NS && c->events.polled_ns > begin)
			lose_patience(c);
		err = poll_once(c, &p);
		if (err || p.state != TAGS_COLLECTING)
			return err;
		if (p.wait_ns && anything_unfinished(c))
			pause_ns(POLL_MIN_NS);
	} while ((!p.wait_ns || anything_unfinished(c)) && c->events.polled_ns - begin < DRAIN_NS);
	return NULL;
}

static void tag_collector_settle(struct tag_collector *c)
{
	uint64_t known, calls = sum_calls(c);

	c->counts = (struct tag_counts){
		.in_order = c->state == TAGS_COLLECTING,
		.has_counted = c->state == TAGS_COLLECTING && !c->lapsed,
		.recorded = c->events.recorded,
		.lost_full = sum_full(c),
		.lost_no_ring = c->no_ring - c->no_ring_before,
	};
	known = c->counts.recorded + c->counts.lost_full + c->counts.lost_no_ring;
	if (calls > known)
		c->counts.lost_unfinished = calls - known;
	c->counts.counted = known + c->counts.lost_unfinished;
}

/* Takes the rest, and leaves the program as if nobody had collected. */
static struct wc_error *end_session(struct tag_collector *c)
{
	struct wc_error *err;

	if (c->let_go || c->state != TAGS_COLLECTING)
		return NULL;
	if (!session_is_ours(c)) {
		c->state = TAGS_GONE;
		return NULL;
	}
	if (!c->settings.shared_flag)
		set_flag(c, 0);
	err = drain(c);
	if (session_is_ours(c))
		set_u64(c, CONTROL(session), 0);
	return err;
}

struct wc_error *tag_collector_stop(struct tag_collector *c)
{
	struct wc_error *err, *reported;
	uint64_t none = 0;

	if (!c->started || c->stopped)
		return NULL;
	c->stopped = true;
	err = end_session(c);
	tag_collector_settle(c);
	reported = report_losses(c);
	if (!reported)
		reported = report_lost(c, c->counts.lost_unfinished, &none, why_unfinished(c));
	return wc_error_first(err, reported);
}

void tag_collector_counts(const struct tag_collector *c, struct tag_counts *ret)
{
	*ret = c->counts;
}

void tag_collector_forget_stacks(struct tag_collector *c)
{
	tag_events_forget_stacks(&c->events);
}
