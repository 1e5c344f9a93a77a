/*
 * The collector against a program that is played here, by hand, from the words of capture_wire.h alone: what
 * is captured arrives, in order of time; what is lost is counted; what lies does no harm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>

#include "tests/unit/own_clock.h"
#include "watchctl/base/clock.h"
#include "watchctl/code/unwind/capture_wire.h"
#include "watchctl/code/unwind/unwind_rule.h"
#include "watchctl/trace/tags/tag_collector.h"

#define OK(call)                                                               \
	do {                                                                   \
		struct wc_error *err_ = (call);                                \
		if (err_)                                                      \
			fail_msg("%s:%d: %s", __FILE__, __LINE__, err_->text); \
	} while (0)

#define RINGS 4
#define RING_SIZE CAPTURE_RING_MIN
#define RING_BYTES (CAPTURE_RING_HEAD + RING_SIZE + 4096)
#define EVENTS 4096
#define FRAMES 8
#define WRITES 64

/* What a program with the library has in its memory. */
struct program {
	struct capture_descriptor descriptor;
	uint32_t flag;
	struct capture_control control;
	struct capture_name names[CAPTURE_NAMES];
	_Alignas(64) uint8_t ring[RINGS][RING_BYTES];
};

struct seen_event {
	struct trace_event e;
	char text[200];
	uint64_t frame[FRAMES];
};

struct scene {
	struct program *p;
	struct tag_table tags;
	struct tag_host host;
	struct tag_collector *c;
	struct seen_event event[EVENTS];
	size_t n;
	uint64_t written[WRITES]; /* addresses, in order */
	size_t nwritten;
	unsigned int asked; /* how often know() was called */
	unsigned int beats; /* of the collector's heart: one a poll */
	uint64_t beat_ns;   /* so much of our clock goes by with each */
	bool gone;	    /* the memory */
	bool another_polls; /* the heartbeat moves by itself */
	bool sink_fails;
};

static bool inside(const struct scene *s, uint64_t addr, size_t len)
{
	uint64_t start = (uintptr_t)s->p, size = sizeof(*s->p);

	return !s->gone && addr >= start && addr - start <= size && len <= size - (addr - start);
}

static bool read_memory(void *ctx, uint64_t addr, void *buf, size_t len)
{
	struct scene *s = ctx;

	if (s->another_polls)
		s->p->control.heartbeat = __rdtsc();
	if (!inside(s, addr, len))
		return false;
	memcpy(buf, (const void *)(uintptr_t)addr, len);
	return true;
}

static bool write_memory(void *ctx, uint64_t addr, const void *buf, size_t len)
{
	struct scene *s = ctx;

	if (!inside(s, addr, len))
		return false;
	memcpy((void *)(uintptr_t)addr, buf, len);
	if (addr == (uintptr_t)&s->p->control.heartbeat) {
		s->beats++;
		own_clock_skip(s->beat_ns);
	}
	if (s->nwritten < WRITES)
		s->written[s->nwritten++] = addr;
	return true;
}

static struct wc_error *put(void *ctx, const struct trace_event *e)
{
	struct scene *s = ctx;
	struct seen_event *k = &s->event[s->n];
	const char *text = e->type == EVENT_NOTE     ? e->note.text
			   : e->type == EVENT_THREAD ? e->thread.comm
			   : e->type == EVENT_TAG    ? e->tag.name
			   : e->type == EVENT_LOST   ? e->lost.why
						     : NULL;

	if (s->sink_fails)
		return wc_error_new(WC_ELOG, "no space");
	assert_true(s->n < EVENTS);
	k->e = *e;
	if (text)
		snprintf(k->text, sizeof(k->text), "%s", text);
	if (e->type == EVENT_CAPTURE)
		memcpy(k->frame, e->capture.frame,
		       8 * (e->capture.nframes < FRAMES ? e->capture.nframes : FRAMES));
	s->n++;
	return NULL;
}

static struct wc_error *know(void *ctx, const uint64_t *frame, uint32_t n, uint64_t time_ns)
{
	((struct scene *)ctx)->asked++;
	assert_true(n >= 1 && frame[0]);
	return NULL;
}

/* As if the program lived in a namespace: its 7 is our 1007. */
static void name_thread(void *ctx, uint32_t owner, struct tag_thread *ret)
{
	ret->pid = 1000;
	ret->tid = (pid_t)owner + 1000;
	if (!ret->comm[0])
		strcpy(ret->comm, "from proc");
}

static int setup(void **state)
{
	struct scene *s = calloc(1, sizeof(*s));
	struct program *p = aligned_alloc(64, sizeof(*p));

	memset(p, 0, sizeof(*p));
	p->descriptor = (struct capture_descriptor){
		.magic = CAPTURE_MAGIC,
		.version = CAPTURE_VERSION,
		.size = sizeof(p->descriptor),
		.flag = (uintptr_t)&p->flag,
		.control = (uintptr_t)&p->control,
		.names = (uintptr_t)p->names,
	};
	s->p = p;
	s->host = (struct tag_host){
		.memory = { read_memory, write_memory, s },
		.sink = { put, s },
		.tags = &s->tags,
		.know = know,
		.thread = name_thread,
		.ctx = s,
	};
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	struct scene *s = *state;

	tag_collector_free(s->c);
	tag_table_deinit(&s->tags);
	free(s->p);
	free(s);
	return 0;
}

/* The program's side */

static struct capture_ring *ring(const struct scene *s, int i)
{
	return (struct capture_ring *)s->p->ring[i];
}

static struct capture_ring *make_ring(const struct scene *s, int i, uint32_t owner)
{
	struct capture_ring *r = ring(s, i);

	r->size = RING_SIZE;
	r->owner = owner;
	s->p->control.ring[i] = (uintptr_t)r;
	if (s->p->control.nrings <= (uint32_t)i)
		s->p->control.nrings = i + 1;
	return r;
}

static struct capture_record *at(struct capture_ring *r, uint64_t position)
{
	return (struct capture_record *)((uint8_t *)r + CAPTURE_RING_HEAD + (position & (r->size - 1)));
}

/* Room for @words words at the head; NULL: full. */
static struct capture_record *reserve(struct capture_ring *r, uint32_t words, uint64_t *position)
{
	*position = r->head;
	if (r->head + 8 * words - r->tail > r->size)
		return NULL;
	r->head += 8 * words;
	return at(r, *position);
}

static void finish(struct capture_record *k, uint64_t position, uint32_t words)
{
	k->position = (uint32_t)(position / 8);
	k->words = words;
}

/* A capture as the library makes it; false: lost, because the ring is full. */
static bool capture(struct capture_ring *r, uint64_t tsc, uint64_t tag, uint8_t flags, uint64_t value,
		    unsigned int nframes)
{
	uint32_t words = 3 + !!(flags & CAPTURE_HAS_VALUE) + nframes, i;
	uint64_t position, *rest;
	struct capture_record *k = reserve(r, words, &position);

	r->calls++;
	if (!k) {
		r->lost++;
		return false;
	}
	*k = (struct capture_record){ .nframes = nframes, .flags = flags, .tsc = tsc, .tag = tag };
	rest = k->rest;
	if (flags & CAPTURE_HAS_VALUE)
		*rest++ = value;
	for (i = 0; i < nframes; i++)
		rest[i] = 0x400000 + tag * 16 + i;
	finish(k, position, words);
	return true;
}

static void own(struct capture_ring *r, uint32_t tid, const char *name)
{
	uint64_t position;
	struct capture_record *k = reserve(r, 5, &position);

	r->owner = tid;
	*k = (struct capture_record){ .flags = CAPTURE_OWNER, .tsc = __rdtsc(), .tag = tid };
	memset(k->rest, 0, 16);
	memcpy(k->rest, name, strlen(name));
	finish(k, position, 5);
}

static void name_tag(const struct scene *s, int i, const char *name)
{
	s->p->names[i].claimed = 1;
	strcpy(s->p->names[i].text, name);
	s->p->names[i].len = strlen(name) + 1;
}

/* The collector's side */

static struct wc_error *open_it(struct scene *s)
{
	return tag_collector_open(&s->host, (uintptr_t)&s->p->descriptor, (uintptr_t)s->p,
				  (uintptr_t)(s->p + 1), &s->c);
}

static struct wc_error *start_it(struct scene *s)
{
	static const struct tag_settings settings = {
		.frames = 16, .ring_size = RING_SIZE, .pid = 4242, .lease_ns = 300000000
	};

	return tag_collector_start(s->c, &settings, NULL);
}

static void start(struct scene *s)
{
	OK(open_it(s));
	assert_non_null(s->c);
	OK(start_it(s));
	assert_int_equal(s->n, 0);
	s->nwritten = 0;
}

static struct tag_poll poll(struct scene *s)
{
	struct tag_poll p;

	OK(tag_collector_poll(s->c, &p));
	return p;
}

static struct tag_counts stop(struct scene *s)
{
	struct tag_counts c;

	OK(tag_collector_stop(s->c));
	tag_collector_counts(s->c, &c);
	return c;
}

/* The @i-th of that type. */
static const struct seen_event *seen(const struct scene *s, enum event_type type, size_t i)
{
	size_t k;

	for (k = 0; k < s->n; k++)
		if (s->event[k].e.type == type && !i--)
			return &s->event[k];
	return NULL;
}

static size_t how_many(const struct scene *s, enum event_type type)
{
	size_t k, n = 0;

	for (k = 0; k < s->n; k++)
		n += s->event[k].e.type == type;
	return n;
}

static uint64_t lost_as(const struct scene *s, const char *why)
{
	uint64_t n = 0;
	size_t k;

	for (k = 0; k < s->n; k++)
		if (s->event[k].e.type == EVENT_LOST && strstr(s->event[k].text, why)) {
			assert_int_equal(s->event[k].e.lost.watch, WATCH_CAPTURES);
			n += s->event[k].e.lost.count;
		}
	return n;
}

#define MS 1000000u

/* Tests */

static void captures_arrive_with_all_they_have_in_order_of_time(void **state)
{
	struct scene *s = *state;
	const struct seen_event *k;
	uint64_t t, before;
	int i;

	start(s);
	name_tag(s, 1, "cache-miss");
	before = monotonic_ns();
	for (i = 0; i < 2; i++)
		own(make_ring(s, i, 7 + i), 7 + i, i ? "worker" : "app");
	t = __rdtsc();
	while (__rdtsc() < t + 5000)
		;
	assert_true(capture(ring(s, 0), t + 1000, 1, CAPTURE_NAMED, 0, 3));
	assert_true(capture(ring(s, 1), t + 2000, UINT64_MAX, CAPTURE_HAS_VALUE, 5, 2));
	assert_true(capture(ring(s, 0), t + 3000, 1, CAPTURE_NAMED | CAPTURE_HAS_VALUE, 6, 3));
	assert_true(capture(ring(s, 1), t + 4000, 0, 0, 0, 1));
	assert_int_equal(poll(s).captures, 4);

	assert_int_equal(how_many(s, EVENT_THREAD), 2);
	k = seen(s, EVENT_THREAD, 1);
	assert_int_equal(k->e.thread.pid, 1000);
	assert_int_equal(k->e.thread.tid, 1008);
	assert_string_equal(k->text, "worker");
	assert_int_equal(how_many(s, EVENT_TAG), 3);
	assert_string_equal(seen(s, EVENT_TAG, 0)->text, "cache-miss");
	assert_int_equal(seen(s, EVENT_TAG, 1)->e.tag.number, UINT64_MAX);
	assert_int_equal(how_many(s, EVENT_CAPTURE), 4);
	for (i = 0; i < 4; i++) {
		static const uint64_t values[] = { 0, 5, 6, 0 }, frames[] = { 3, 2, 3, 1 };
		static const uint64_t tags[] = { 0, 1, 0, 2 };

		k = seen(s, EVENT_CAPTURE, i);
		assert_int_equal(k->e.capture.tag, tags[i]);
		assert_int_equal(k->e.capture.pid, 1000);
		assert_int_equal(k->e.capture.tid, 1007 + i % 2);
		assert_int_equal(k->e.capture.has_value, i == 1 || i == 2);
		assert_int_equal(k->e.capture.value, values[i]);
		assert_int_equal(k->e.capture.nframes, frames[i]);
		assert_int_equal(k->e.capture.walk_end, WALK_END_COMPLETE);
		assert_true(k->e.time_ns >= before && k->e.time_ns <= monotonic_ns());
		assert_true(!i || k->e.time_ns >= seen(s, EVENT_CAPTURE, i - 1)->e.time_ns);
	}
	assert_int_equal(seen(s, EVENT_CAPTURE, 0)->frame[2], 0x400000 + 16 + 2);
	assert_int_equal(ring(s, 0)->tail, ring(s, 0)->head);
	assert_int_equal(s->asked, 3); /* one stack came twice */
	tag_collector_forget_stacks(s->c);
	capture(ring(s, 0), __rdtsc(), 1, CAPTURE_NAMED, 0, 3);
	poll(s);
	assert_int_equal(s->asked, 4);
}

static size_t index_of(const struct scene *s, const void *addr)
{
	size_t i;

	for (i = 0; i < s->nwritten && s->written[i] != (uintptr_t)addr; i++)
		;
	assert_true(i < s->nwritten);
	return i;
}

static void the_flag_is_set_last_and_old_records_are_passed_over(void **state)
{
	struct scene *s = *state;
	struct capture_control *k = &s->p->control;
	struct capture_ring *r = make_ring(s, 0, 7);
	struct tag_counts c;
	uint64_t begun;

	own(r, 7, "old");
	capture(r, 1, 1, 0, 0, 1);
	r->lost = 3;
	r->calls += 3;
	OK(open_it(s));
	assert_int_equal(s->p->flag, 0);
	begun = __rdtsc();
	OK(start_it(s));
	assert_int_equal(s->p->flag, 1);
	assert_int_equal(r->tail, r->head);
	assert_int_not_equal(k->session, 0);
	assert_int_equal(k->frames_max, 16);
	assert_int_equal(k->ring_size, RING_SIZE);
	assert_int_equal(k->collector, 4242);
	assert_true(k->lease > 0 && k->heartbeat >= begun && k->heartbeat <= __rdtsc());
	assert_true(index_of(s, &s->p->flag) == s->nwritten - 1);
	assert_true(index_of(s, &r->tail) < index_of(s, &k->session));
	poll(s);
	assert_int_equal(how_many(s, EVENT_CAPTURE), 0);
	/* Whose it is, was said before; its owner is in its head. */
	capture(r, __rdtsc(), 2, 0, 0, 1);
	c = stop(s);
	assert_int_equal(seen(s, EVENT_CAPTURE, 0)->e.capture.tid, 1007);
	assert_string_equal(seen(s, EVENT_THREAD, 0)->text, "from proc");
	assert_true(c.has_counted);
	assert_int_equal(c.counted, 1);
	assert_int_equal(c.recorded, 1);
	assert_int_equal(how_many(s, EVENT_LOST), 0);
	assert_int_equal(s->p->flag, 0);
	assert_int_equal(k->session, 0);
}

/* Twenty times around, with records of all lengths: every one, once, whole, across the end of the data. */
static void records_go_around_the_end_of_the_ring(void **state)
{
	struct scene *s = *state;
	struct capture_ring *r;
	uint64_t value = 0, want = 0;
	struct tag_counts c;
	size_t i;

	start(s);
	r = make_ring(s, 0, 7);
	r->head = r->tail = 64; /* not at the beginning of the data */
	own(r, 7, "t");
	while (r->head < 20ull * RING_SIZE) {
		s->n = 0;
		while (capture(r, __rdtsc(), 9, CAPTURE_HAS_VALUE, value, 1 + value % CAPTURE_FRAMES))
			value++;
		poll(s);
		for (i = 0; i < how_many(s, EVENT_CAPTURE); i++, want++) {
			const struct seen_event *k = seen(s, EVENT_CAPTURE, i);

			assert_int_equal(k->e.capture.value, want);
			assert_int_equal(k->e.capture.nframes, 1 + want % CAPTURE_FRAMES);
			assert_int_equal(k->frame[0], 0x400000 + 9 * 16);
		}
		assert_int_equal(want, value);
		assert_int_equal(r->tail, r->head);
	}
	assert_true(value > 500);
	c = stop(s);
	assert_int_equal(c.recorded, value);
	assert_int_equal(c.counted, value + r->lost);
	assert_int_equal(c.lost_full, r->lost);
	assert_true(c.has_counted);
}

static void losses_are_reported_and_the_sum_is_right(void **state)
{
	struct scene *s = *state;
	struct capture_ring *r;
	struct tag_counts c;
	unsigned int i;

	start(s);
	r = make_ring(s, 0, 7);
	for (i = 0; i < 1000; i++)
		capture(r, __rdtsc(), 1, 0, 0, 5);
	s->p->control.no_ring = 17;
	c = stop(s);
	assert_true(c.has_counted);
	assert_int_equal(c.counted, 1017);
	assert_int_equal(c.recorded, RING_SIZE / 64);
	assert_int_equal(c.lost_full, 1000 - RING_SIZE / 64);
	assert_int_equal(c.lost_no_ring, 17);
	assert_int_equal(c.lost_unfinished, 0);
	assert_int_equal(lost_as(s, "full"), c.lost_full);
	assert_int_equal(lost_as(s, "no ring"), 17);
}

static void an_abandoned_record_is_passed_over_after_a_moment_and_costs_itself_alone(void **state)
{
	struct scene *s = *state;
	struct capture_record *abandoned;
	struct capture_ring *r;
	struct tag_counts c;
	uint64_t position;

	start(s);
	r = make_ring(s, 0, 7);
	capture(r, __rdtsc(), 1, 0, 0, 2);
	abandoned = reserve(r, 20, &position);
	r->calls++;
	abandoned->tsc = 0x1111; /* begun */
	capture(r, __rdtsc(), 2, 0, 0, 2);
	own_clock_stop();
	assert_int_equal(poll(s).captures, 1);
	assert_int_equal(poll(s).captures, 0);
	own_clock_skip(50 * MS);
	poll(s);
	own_clock_skip(50 * MS);
	poll(s);
	own_clock_go();
	assert_int_equal(how_many(s, EVENT_CAPTURE), 2);
	capture(r, __rdtsc(), 3, 0, 0, 2);
	c = stop(s);
	assert_int_equal(c.recorded, 3);
	assert_int_equal(c.lost_unfinished, 1);
	assert_int_equal(c.counted, 4);
	assert_int_equal(lost_as(s, "never completed"), 1);
}

static void what_a_program_takes_with_it_was_not_read_and_is_not_blamed_on_its_threads(void **state)
{
	struct scene *s = *state;
	struct capture_ring *r;
	uint64_t position;

	start(s);
	r = make_ring(s, 0, 7);
	capture(r, __rdtsc(), 1, 0, 0, 2);
	reserve(r, 20, &position);
	r->calls++;
	poll(s);
	s->gone = true;
	assert_int_equal(poll(s).state, TAGS_GONE);
	assert_int_equal(stop(s).lost_unfinished, 1);
	assert_int_equal(lost_as(s, "never completed"), 0);
	assert_int_equal(lost_as(s, "before the program was gone"), 1);
}

/* It waits 20 ms for all of them, and then has a poll for each. */
static void the_end_does_not_wait_for_what_was_abandoned(void **state)
{
	struct scene *s = *state;
	struct capture_ring *r;
	uint64_t position;
	struct tag_counts c;
	int i;

	start(s);
	r = make_ring(s, 0, 7);
	for (i = 0; i < 5; i++) {
		reserve(r, 9, &position);
		r->calls++;
		capture(r, __rdtsc(), 2, 0, 0, 2);
	}
	reserve(r, 9, &position); /* with none behind it: only the end has no patience with that one */
	r->calls++;
	own_clock_stop();
	s->beat_ns = MS;
	s->beats = 0;
	c = stop(s);
	own_clock_go();
	assert_in_range(s->beats, 20, 20 + 6 + 4);
	assert_int_equal(c.recorded, 5);
	assert_int_equal(c.lost_unfinished, 6);
	assert_int_equal(c.counted, 11);
}

static void a_record_that_is_being_written_is_waited_for(void **state)
{
	struct scene *s = *state;
	struct capture_record *k;
	struct capture_ring *r;
	uint64_t position;

	start(s);
	r = make_ring(s, 0, 7);
	k = reserve(r, 5, &position);
	r->calls++;
	*k = (struct capture_record){ .nframes = 1, .tsc = __rdtsc(), .tag = 1 };
	k->rest[0] = 0x1234;
	capture(r, __rdtsc(), 2, 0, 0, 2); /* of the signal handler that interrupts it */
	assert_int_equal(poll(s).captures, 0);
	finish(k, position, 5);
	assert_int_equal(poll(s).captures, 2);
	assert_int_equal(seen(s, EVENT_CAPTURE, 0)->frame[0], 0x1234);
}

static void a_ring_that_is_handed_on_has_the_threads_that_it_names(void **state)
{
	struct scene *s = *state;
	struct capture_ring *r;
	int i;

	start(s);
	r = make_ring(s, 0, 7);
	for (i = 0; i < 3; i++) {
		char name[8];

		snprintf(name, sizeof(name), "t%d", i);
		own(r, 50 + i, name);
		capture(r, __rdtsc(), 1, 0, 0, 1);
	}
	poll(s);
	for (i = 0; i < 3; i++) {
		assert_int_equal(seen(s, EVENT_CAPTURE, i)->e.capture.tid, 1050 + i);
		assert_int_equal(seen(s, EVENT_THREAD, i)->e.thread.tid, 1050 + i);
	}
}

static void a_collector_that_is_at_work_is_named_and_left_alone(void **state)
{
	struct scene *s = *state;
	struct wc_error *err;

	s->p->control.session = 77;
	s->p->control.collector = 4711;
	s->p->control.lease = 30000000000;
	s->p->flag = 1;
	s->another_polls = true;
	OK(open_it(s));
	err = start_it(s);
	assert_non_null(err);
	assert_int_equal(err->kind, WC_ENOTSUP);
	assert_int_equal(err->sys_errno, EBUSY);
	assert_non_null(strstr(err->text, "process 4711"));
	wc_error_free(err);
	assert_int_equal(s->nwritten, 0);
}

static void one_that_was_killed_is_followed_when_its_lease_is_over(void **state)
{
	struct scene *s = *state;
	uint64_t last, lease = 1000000000; /* ticks: less than a second */

	OK(open_it(s));
	s->p->control.session = 77;
	s->p->control.lease = lease;
	s->p->control.heartbeat = last = __rdtsc();
	s->p->flag = 1;
	OK(start_it(s));
	assert_true(s->p->control.heartbeat - last > lease);
	assert_int_not_equal(s->p->control.session, 77);
	assert_int_equal(s->p->flag, 1);
}

static void one_who_takes_over_is_noticed(void **state)
{
	struct scene *s = *state;
	struct capture_ring *r;
	struct tag_counts c;

	start(s);
	r = make_ring(s, 0, 7);
	capture(r, __rdtsc(), 1, 0, 0, 1);
	assert_int_equal(poll(s).captures, 1);
	s->p->control.session = 99;
	capture(r, __rdtsc(), 1, 0, 0, 1);
	s->nwritten = 0;
	assert_int_equal(poll(s).state, TAGS_TAKEN_OVER);
	c = stop(s);
	assert_false(c.has_counted);
	assert_int_equal(c.recorded, 1);
	assert_int_equal(s->nwritten, 0); /* it is another's now */
	assert_int_equal(s->p->flag, 1);
}

static void a_program_that_dies_or_executes_another_ends_the_collection(void **state)
{
	struct scene *s = *state;
	struct capture_ring *r;
	struct tag_counts c;

	start(s);
	r = make_ring(s, 0, 7);
	capture(r, __rdtsc(), 1, 0, 0, 1);
	assert_int_equal(poll(s).captures, 1);
	memset(&s->p->control, 0, sizeof(s->p->control)); /* the same program, executed again */
	assert_int_equal(poll(s).state, TAGS_GONE);
	s->gone = true;
	assert_int_equal(poll(s).state, TAGS_GONE);
	c = stop(s);
	assert_false(c.has_counted);
	assert_int_equal(c.recorded, 1);
}

static void a_program_that_ends_in_good_order_gives_its_last_captures(void **state)
{
	struct scene *s = *state;
	struct capture_ring *r;
	struct tag_counts c;
	struct tag_poll p;

	start(s);
	r = make_ring(s, 0, 7);
	capture(r, __rdtsc(), 1, 0, 0, 1);
	s->p->flag = 0;
	s->p->control.ended = 1;
	p = poll(s);
	assert_int_equal(p.state, TAGS_GONE);
	assert_int_equal(p.captures, 1);
	assert_int_equal(s->p->control.session, 0); /* it may go */
	assert_int_equal(how_many(s, EVENT_NOTE), 0);
	s->gone = true;
	c = stop(s);
	assert_true(c.has_counted);
	assert_int_equal(c.counted, 1);
	tag_collector_free(s->c);
	s->gone = false;
	OK(open_it(s)); /* nobody begins with it again */
	assert_null(s->c);
}

static void one_that_switched_itself_off_is_switched_on_again_and_that_is_reported(void **state)
{
	struct scene *s = *state;

	start(s);
	s->p->flag = 0;
	poll(s);
	assert_int_equal(s->p->flag, 1);
	assert_non_null(strstr(seen(s, EVENT_NOTE, 0)->text, "is not known"));
	assert_false(stop(s).has_counted);
}

static void another_version_is_refused_and_one_not_relocated_is_not_ready(void **state)
{
	struct scene *s = *state;
	struct wc_error *err;

	s->p->descriptor.control = 0x4000; /* as in the file */
	OK(open_it(s));
	assert_null(s->c);
	s->p->descriptor.version = CAPTURE_VERSION + 1;
	err = open_it(s);
	assert_non_null(err);
	assert_int_equal(err->kind, WC_ENOTSUP);
	wc_error_free(err);
	s->p->descriptor.magic = 0;
	err = open_it(s);
	assert_non_null(err);
	assert_int_equal(err->kind, WC_ETARGET);
	wc_error_free(err);
}

static void a_busy_ring_is_polled_sooner_and_an_idle_one_every_20_ms(void **state)
{
	struct scene *s = *state;
	struct capture_ring *r;
	uint64_t wait;

	start(s);
	r = make_ring(s, 0, 7);
	own_clock_stop();
	assert_int_equal(poll(s).wait_ns, TAG_POLL_MAX_NS);
	own_clock_skip(10 * MS);
	while (capture(r, __rdtsc(), 1, 0, 0, 5))
		;
	wait = poll(s).wait_ns; /* it fills in 10 ms: again when it will be a quarter full */
	own_clock_go();
	assert_in_range(wait, 2 * MS, 3 * MS);
}

static void what_a_program_lies_about_does_no_harm(void **state)
{
	static const uint64_t wild[] = { 1, 0x40, UINT64_MAX & ~63ull, 0x7fffffffff40 };
	struct scene *s = *state;
	struct capture_record *k;
	struct capture_ring *r;
	struct tag_counts c;
	uint64_t position;
	int i;

	start(s);
	/* Rings that are none. */
	for (i = 0; i < 4; i++)
		s->p->control.ring[10 + i] = wild[i];
	s->p->control.nrings = UINT32_MAX;
	make_ring(s, 1, 8)->size = 12345;
	/* One whose head is too far. */
	r = make_ring(s, 2, 9);
	r->head = r->tail + r->size + 8;
	/* A record with more frames than words, then a good one; a name that is none, and one without an end.
	 */
	r = make_ring(s, 0, 7);
	k = reserve(r, 4, &position);
	*k = (struct capture_record){ .nframes = 100, .tsc = __rdtsc() };
	finish(k, position, 4);
	capture(r, UINT64_MAX, 500, CAPTURE_NAMED, 0, 1);
	memset(&s->p->names[3], 0xff, sizeof(s->p->names[3]));
	capture(r, 0, 3, CAPTURE_NAMED, 0, 1);
	capture(r, 0, UINT64_MAX, CAPTURE_NAMED, 0, 1);
	poll(s);
	own_clock_skip(1050 * MS);
	poll(s);
	poll(s);
	assert_int_equal(how_many(s, EVENT_CAPTURE), 3);
	for (i = 0; i < 3; i++)
		assert_true(seen(s, EVENT_CAPTURE, i)->e.time_ns <= monotonic_ns());
	assert_int_equal(strlen(seen(s, EVENT_TAG, 1)->text), CAPTURE_NAME_LEN - 1);
	assert_string_equal(seen(s, EVENT_TAG, 2)->text, "(unnamed)");
	r->calls = 0; /* fewer than it had recorded */
	c = stop(s);
	assert_int_equal(c.recorded, 3);
	assert_int_equal(c.counted, c.recorded + c.lost_full + c.lost_no_ring + c.lost_unfinished);
}

static void an_error_of_the_sink_is_returned_once_and_the_program_set_free(void **state)
{
	struct scene *s = *state;
	struct capture_ring *r;
	struct wc_error *err;
	struct tag_poll p;

	start(s);
	r = make_ring(s, 0, 7);
	capture(r, __rdtsc(), 1, 0, 0, 1);
	s->sink_fails = true;
	err = tag_collector_poll(s->c, &p);
	assert_non_null(err);
	assert_string_equal(err->text, "no space");
	wc_error_free(err);
	capture(r, __rdtsc(), 1, 0, 0, 1);
	OK(tag_collector_stop(s->c));
	assert_int_equal(s->p->flag, 0);
	assert_int_equal(s->p->control.session, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(captures_arrive_with_all_they_have_in_order_of_time),
		TEST(the_flag_is_set_last_and_old_records_are_passed_over),
		TEST(records_go_around_the_end_of_the_ring),
		TEST(losses_are_reported_and_the_sum_is_right),
		TEST(an_abandoned_record_is_passed_over_after_a_moment_and_costs_itself_alone),
		TEST(what_a_program_takes_with_it_was_not_read_and_is_not_blamed_on_its_threads),
		TEST(the_end_does_not_wait_for_what_was_abandoned),
		TEST(a_record_that_is_being_written_is_waited_for),
		TEST(a_ring_that_is_handed_on_has_the_threads_that_it_names),
		TEST(a_collector_that_is_at_work_is_named_and_left_alone),
		TEST(one_that_was_killed_is_followed_when_its_lease_is_over),
		TEST(one_who_takes_over_is_noticed),
		TEST(a_program_that_dies_or_executes_another_ends_the_collection),
		TEST(a_program_that_ends_in_good_order_gives_its_last_captures),
		TEST(one_that_switched_itself_off_is_switched_on_again_and_that_is_reported),
		TEST(another_version_is_refused_and_one_not_relocated_is_not_ready),
		TEST(a_busy_ring_is_polled_sooner_and_an_idle_one_every_20_ms),
		TEST(what_a_program_lies_about_does_no_harm),
		TEST(an_error_of_the_sink_is_returned_once_and_the_program_set_free),
	};

	return cmocka_run_group_tests_name("tag_collector", tests, NULL, NULL);
}
