/*
 * Each ring's records are in order of time already, nearly: a signal handler's may come before those of the
 * code that it interrupted, by less than that code took for one capture.
 */
#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>

#include "watchctl/trace/tags/tag_events.h"

#define NO_NAME "(unnamed)" /* there was no room for its name in the program */

struct wc_error *tag_events_put(struct tag_events *v, const struct trace_event *e)
{
	struct wc_error *err = v->muted ? NULL : v->host.sink.put(v->host.sink.ctx, e);

	v->muted |= err != NULL;
	return err;
}

bool tag_events_init(struct tag_events *v, const struct tag_host *host, uint64_t names, size_t buffer)
{
	*v = (struct tag_events){ .host = *host, .names = names };
	v->run = calloc(CAPTURE_RINGS, sizeof(*v->run));
	v->buffer = malloc(buffer);
	return v->run && v->buffer;
}

void tag_events_deinit(struct tag_events *v)
{
	free(v->run);
	free(v->buffer);
}

/* From records to events */

static uint64_t time_of(const struct tag_events *v, uint64_t tsc)
{
	uint64_t t;

	if (!v->has_clock)
		return v->polled_ns;
	/* The program's word: a time from the future, or from before the start, is not believed. */
	if (tsc >= v->clock.tsc)
		return v->polled_ns;
	if (tsc < v->clock.tsc0)
		return v->start_ns;
	t = tsc_clock_ns(&v->clock, tsc);
	if (t > v->polled_ns)
		return v->polled_ns;
	return t < v->start_ns ? v->start_ns : t;
}

static struct wc_error *report_thread(struct tag_events *v, struct tag_ring_state *s, const char *comm,
				      uint64_t time_ns)
{
	struct trace_event e = { .type = EVENT_THREAD, .time_ns = time_ns };

	s->thread = (struct tag_thread){ .tid = (pid_t)s->r.owner };
	memcpy(s->thread.comm, comm, strnlen(comm, COMM_LEN));
	v->host.thread(v->host.ctx, s->r.owner, &s->thread);
	s->known = true;
	e.thread =
		(struct thread_event){ .pid = s->thread.pid, .tid = s->thread.tid, .comm = s->thread.comm };
	return tag_events_put(v, &e);
}

static struct wc_error *take_owner(struct tag_events *v, struct tag_ring_state *s,
				   const struct capture_record *r)
{
	char comm[COMM_LEN + 1] = "";

	memcpy(comm, r->rest, COMM_LEN);
	s->r.owner = (uint32_t)r->tag;
	return report_thread(v, s, comm, time_of(v, r->tsc));
}

/* What the program calls it; "": nothing that could be read. */
static void read_name(const struct tag_events *v, uint32_t i, char name[CAPTURE_NAME_LEN])
{
	struct capture_name n;
	size_t len = 0;

	if (v->host.memory.read(v->host.memory.ctx, v->names + i * sizeof(n), &n, sizeof(n)) && n.len)
		while (len < n.len && len < CAPTURE_NAME_LEN - 1 && n.text[len]) {
			name[len] = n.text[len];
			len++;
		}
	name[len] = '\0';
}

static struct wc_error *named_tag(struct tag_events *v, uint64_t i, uint64_t time_ns, uint32_t *ret)
{
	char name[CAPTURE_NAME_LEN] = NO_NAME;
	struct wc_error *err;

	if (i >= CAPTURE_NAMES)
		i = 0;
	if (!v->name_id[i]) {
		if (i)
			read_name(v, (uint32_t)i, name);
		err = tag_table_name(v->host.tags, name, &v->host.sink, time_ns, ret);
		if (err)
			return err;
		v->name_id[i] = *ret + 1;
	}
	*ret = v->name_id[i] - 1;
	return NULL;
}

static struct wc_error *tag_events_know(struct tag_events *v, const struct capture_event *k, uint64_t time_ns)
{
	uint64_t h = 0;
	uint32_t i;

	if (!v->host.know)
		return NULL;
	for (i = 0; i < k->nframes; i++) {
		h = (h ^ k->frame[i]) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	if (v->seen[h % TAG_STACKS] == h)
		return NULL;
	v->seen[h % TAG_STACKS] = h;
	return v->host.know(v->host.ctx, k->frame, k->nframes, time_ns);
}

void tag_events_forget_stacks(struct tag_events *v)
{
	memset(v->seen, 0, sizeof(v->seen));
}

static struct wc_error *put_capture(struct tag_events *v, struct tag_ring_state *s,
				    const struct capture_record *r)
{
	struct trace_event e = { .type = EVENT_CAPTURE, .time_ns = time_of(v, r->tsc) };
	bool has_value = r->flags & CAPTURE_HAS_VALUE;
	struct wc_error *err = s->known ? NULL : report_thread(v, s, "", e.time_ns);

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
		err = named_tag(v, r->tag, e.time_ns, &e.capture.tag);
	else if (!err)
		err = tag_table_number(v->host.tags, r->tag, &v->host.sink, e.time_ns, &e.capture.tag);
	if (!err)
		err = tag_events_know(v, &e.capture, e.time_ns);
	if (!err)
		err = tag_events_put(v, &e);
	v->recorded += !err;
	return err;
}

/* Merging: a heap of runs, the one with the earliest record at its top. */

static uint64_t run_tsc(const struct tag_events *v, const struct tag_run *r)
{
	size_t next;

	return tag_record_next(v->buffer, r->at, &next)->tsc;
}

static void sift_down(struct tag_events *v, uint32_t i)
{
	for (;;) {
		uint32_t child = 2 * i + 1, least = i;
		struct tag_run swap;

		if (child < v->nruns && run_tsc(v, &v->run[child]) < run_tsc(v, &v->run[least]))
			least = child;
		if (child + 1 < v->nruns && run_tsc(v, &v->run[child + 1]) < run_tsc(v, &v->run[least]))
			least = child + 1;
		if (least == i)
			return;
		swap = v->run[i];
		v->run[i] = v->run[least];
		v->run[least] = swap;
		i = least;
	}
}

void tag_events_add_run(struct tag_events *v, struct tag_ring_state *ring, size_t at, size_t end)
{
	v->run[v->nruns++] = (struct tag_run){ ring, at, end };
}

void tag_events_drop_runs(struct tag_events *v)
{
	v->nruns = 0;
}

void tag_events_begin(struct tag_events *v)
{
	for (uint32_t i = v->nruns / 2; i-- > 0;)
		sift_down(v, i);
}

struct wc_error *tag_events_merge(struct tag_events *v, uint64_t ticks)
{
	uint64_t begin = __rdtsc();
	struct wc_error *err = NULL;

	while (!err && v->nruns && !v->muted && __rdtsc() - begin <= ticks) {
		struct tag_run *top = &v->run[0];
		const struct capture_record *r = tag_record_next(v->buffer, top->at, &top->at);

		err = r->flags & CAPTURE_OWNER ? take_owner(v, top->ring, r) : put_capture(v, top->ring, r);
		if (top->at == top->end)
			*top = v->run[--v->nruns];
		sift_down(v, 0);
	}
	v->muted |= err != NULL;
	if (v->muted)
		v->nruns = 0;
	return err;
}
