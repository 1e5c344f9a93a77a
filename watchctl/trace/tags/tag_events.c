/*
 * Each ring's records are in order of time already, nearly: a signal handler's may come before those of the
 * code that it interrupted, by less than that code took for one capture.
 */
#include <string.h>
#include <x86intrin.h>

#include "watchctl/trace/tags/tag_collector_impl.h"

#define NO_NAME "(unnamed)" /* there was no room for its name in the program */

struct wc_error *tag_put(struct tag_collector *c, const struct trace_event *e)
{
	struct wc_error *err = c->muted ? NULL : c->host.sink.put(c->host.sink.ctx, e);

	c->muted |= err != NULL;
	return err;
}

/* From records to events */

static uint64_t time_of(const struct tag_collector *c, uint64_t tsc)
{
	uint64_t t;

	if (!c->has_clock)
		return c->polled_ns;
	/* The program's word: a time from the future, or from before the start, is not believed. */
	if (tsc >= c->clock.tsc)
		return c->polled_ns;
	if (tsc < c->clock.tsc0)
		return c->start_ns;
	t = tsc_clock_ns(&c->clock, tsc);
	if (t > c->polled_ns)
		return c->polled_ns;
	return t < c->start_ns ? c->start_ns : t;
}

static struct wc_error *report_thread(struct tag_collector *c, struct tag_ring_state *s, const char *comm,
				      uint64_t time_ns)
{
	struct trace_event e = { .type = EVENT_THREAD, .time_ns = time_ns };

	s->thread = (struct tag_thread){ .tid = (pid_t)s->r.owner };
	memcpy(s->thread.comm, comm, strnlen(comm, COMM_LEN));
	c->host.thread(c->host.ctx, s->r.owner, &s->thread);
	s->known = true;
	e.thread =
		(struct thread_event){ .pid = s->thread.pid, .tid = s->thread.tid, .comm = s->thread.comm };
	return tag_put(c, &e);
}

static struct wc_error *take_owner(struct tag_collector *c, struct tag_ring_state *s,
				   const struct capture_record *r)
{
	char comm[COMM_LEN + 1] = "";

	memcpy(comm, r->rest, COMM_LEN);
	s->r.owner = (uint32_t)r->tag;
	return report_thread(c, s, comm, time_of(c, r->tsc));
}

/* What the program calls it; "": nothing that could be read. */
static void read_name(const struct tag_collector *c, uint32_t i, char name[CAPTURE_NAME_LEN])
{
	struct capture_name n;
	size_t len = 0;

	if (tag_get(c, c->program.names + i * sizeof(n), &n, sizeof(n)) && n.len)
		while (len < n.len && len < CAPTURE_NAME_LEN - 1 && n.text[len]) {
			name[len] = n.text[len];
			len++;
		}
	name[len] = '\0';
}

static struct wc_error *named_tag(struct tag_collector *c, uint64_t i, uint64_t time_ns, uint32_t *ret)
{
	char name[CAPTURE_NAME_LEN] = NO_NAME;
	struct wc_error *err;

	if (i >= CAPTURE_NAMES)
		i = 0;
	if (!c->name_id[i]) {
		if (i)
			read_name(c, (uint32_t)i, name);
		err = tag_table_name(c->host.tags, name, &c->host.sink, time_ns, ret);
		if (err)
			return err;
		c->name_id[i] = *ret + 1;
	}
	*ret = c->name_id[i] - 1;
	return NULL;
}

static struct wc_error *tag_events_know(struct tag_collector *c, const struct capture_event *k,
					uint64_t time_ns)
{
	uint64_t h = 0;
	uint32_t i;

	if (!c->host.know)
		return NULL;
	for (i = 0; i < k->nframes; i++) {
		h = (h ^ k->frame[i]) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	if (c->seen[h % TAG_STACKS] == h)
		return NULL;
	c->seen[h % TAG_STACKS] = h;
	return c->host.know(c->host.ctx, k->frame, k->nframes, time_ns);
}

void tag_collector_forget_stacks(struct tag_collector *c)
{
	memset(c->seen, 0, sizeof(c->seen));
}

static struct wc_error *put_capture(struct tag_collector *c, struct tag_ring_state *s,
				    const struct capture_record *r)
{
	struct trace_event e = { .type = EVENT_CAPTURE, .time_ns = time_of(c, r->tsc) };
	bool has_value = r->flags & CAPTURE_HAS_VALUE;
	struct wc_error *err = s->known ? NULL : report_thread(c, s, "", e.time_ns);

	e.capture = (struct capture_event){
		.pid = s->thread.pid,
		.tid = s->thread.tid,
		.has_value = has_value,
		.value = has_value ? r->rest[0] : 0,
		.walk_end = r->walk_end,
		.nframes = r->nframes,
		.frame = r->rest + has_value,
	};
	if (!err && (r->flags & CAPTURE_NAMED))
		err = named_tag(c, r->tag, e.time_ns, &e.capture.tag);
	else if (!err)
		err = tag_table_number(c->host.tags, r->tag, &c->host.sink, e.time_ns, &e.capture.tag);
	if (!err)
		err = tag_events_know(c, &e.capture, e.time_ns);
	if (!err)
		err = tag_put(c, &e);
	c->recorded += !err;
	return err;
}

/* Merging: a heap of runs, the one with the earliest record at its top. */

static uint64_t run_tsc(const struct tag_collector *c, const struct tag_run *r)
{
	size_t next;

	return tag_record_next(c->buffer, r->at, &next)->tsc;
}

static void sift_down(struct tag_collector *c, uint32_t i)
{
	for (;;) {
		uint32_t child = 2 * i + 1, least = i;
		struct tag_run swap;

		if (child < c->nruns && run_tsc(c, &c->run[child]) < run_tsc(c, &c->run[least]))
			least = child;
		if (child + 1 < c->nruns && run_tsc(c, &c->run[child + 1]) < run_tsc(c, &c->run[least]))
			least = child + 1;
		if (least == i)
			return;
		swap = c->run[i];
		c->run[i] = c->run[least];
		c->run[least] = swap;
		i = least;
	}
}

struct wc_error *tag_put_runs(struct tag_collector *c)
{
	struct wc_error *err = NULL;
	uint64_t now, reported = __rdtsc();
	uint32_t i;

	for (i = c->nruns / 2; i-- > 0;)
		sift_down(c, i);
	while (!err && c->nruns && !c->muted) {
		struct tag_run *top = &c->run[0];
		const struct capture_record *r = tag_record_next(c->buffer, top->at, &top->at);

		err = r->flags & CAPTURE_OWNER ? take_owner(c, top->ring, r) : put_capture(c, top->ring, r);
		now = __rdtsc();
		if (now - reported > c->lease / 8 && !c->stopped &&
		    !c->let_go) { /* a slow sink: one that reads debug information */
			reported = now;
			tag_keep_alive(c, now);
		}
		if (top->at == top->end)
			*top = c->run[--c->nruns];
		sift_down(c, 0);
	}
	c->nruns = 0;
	c->muted |= err != NULL;
	return err;
}
