/*
 * The writer keeps one packet in memory, its first TRACELOG_PACKET_START bytes reserved for the header and
 * the checksum. An event is encoded at the end; when the packet has become too large by that, what was there
 * before is written out and the new event moves to the front of the next packet.
 *
 * A flight recorder goes on to the next file between two events that were put, never between an event and
 * what is reported for its sake.
 */
#include "watchctl/trace/log/tracelog_writer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "watchctl/base/clock.h"
#include "watchctl/trace/log/tracelog_encode_probe.h"
#include "watchctl/trace/log/tracelog_files.h"

/* Distinct stacks remembered; beyond that all are forgotten, and later written anew. */
#define STACKS_BYTES_MAX (64u << 20)
#define PROCESSES_MAX (1u << 17) /* likewise, threads */

#define TIME_SHARE 16	    /* of the time to keep that a file gets */
#define REEMITTED_SHARE 8   /* of the bound, at most, that the beginning of each file may take */
#define REEMITTED_OF_FILE 4 /* a file has at least so many times what its beginning takes */

struct seen_stack {
	struct seen_stack *next; /* same hash */
	uint32_t id;
	uint32_t nframes;
	uint8_t walk_end;
	uint64_t frame[];
};

/* Packets */

/* Writes the first @len bytes of the packet; the events behind them, if any, start the next one. */
static struct wc_error *write_packet(struct tracelog_writer *w, size_t len)
{
	const struct packet_head head = { w->uuid, w->begin, w->end, w->discarded };
	struct wc_error *err;

	encode_packet_head(&w->packet, len, &head, TRACELOG_MAJOR);
	err = tracelog_ring_write(&w->files, w->packet.buf, len, w->end);
	if (err) {
		w->failed = true;
		return err;
	}
	encode_next_packet(&w->packet, len, TRACELOG_MAJOR);
	return NULL;
}

static struct wc_error *write_rest(struct tracelog_writer *w)
{
	return w->packet.len > TRACELOG_PACKET_START ? write_packet(w, w->packet.len) : NULL;
}

/* Reserves the event's header and returns where it is. */
static size_t event_begin(struct tracelog_writer *w)
{
	w->packet.no_memory = false;
	return encode_event_begin(&w->packet);
}

static struct wc_error *event_end(struct tracelog_writer *w, size_t start, uint16_t id, uint64_t time_ns)
{
	struct wc_error *err;

	if (w->packet.no_memory) {
		w->packet.len = start;
		return &wc_enomem;
	}
	if (time_ns < w->last_time)
		time_ns = w->last_time;
	w->last_time = time_ns;

	encode_event_head(&w->packet, start, id, time_ns);
	if (w->packet.len > w->packet_max && start > TRACELOG_PACKET_START) {
		err = write_packet(w, start);
		if (err)
			return err;
		start = TRACELOG_PACKET_START;
	}
	if (start == TRACELOG_PACKET_START)
		w->begin = time_ns;
	w->end = time_ns;
	return NULL;
}

static struct wc_error *put_reported(struct tracelog_writer *w, const struct reported *t, uint16_t id,
				     uint64_t time_ns)
{
	size_t start = event_begin(w);

	encode_bytes(&w->packet, t->fields, t->len);
	return event_end(w, start, id, time_ns);
}

/* Stacks */

static uint64_t stack_hash(const struct stack_ref *a)
{
	uint64_t h = a->nframes * 0x9e3779b97f4a7c15u + a->walk_end;
	uint32_t i;

	for (i = 0; i < a->nframes; i++) {
		h = (h ^ a->frame[i]) * 0xff51afd7ed558ccdu;
		h ^= h >> 33;
	}
	return h;
}

void tracelog_forget_stacks(struct tracelog_writer *w)
{
	struct seen_stack *s, *next;
	size_t i;

	for (i = 0; i < w->stacks.cap; i++) {
		for (s = w->stacks.slot[i].used ? w->stacks.slot[i].value : NULL; s; s = next) {
			next = s->next;
			free(s);
		}
	}
	map64_deinit(&w->stacks);
	w->stacks_bytes = 0;
}

static struct wc_error *report_code_again(struct tracelog_writer *w, uint64_t pc, uint64_t time_ns)
{
	const struct reported *t = reemit_code(&w->reemit, pc);

	return t ? put_reported(w, t, TRACELOG_ID_CODE_AGAIN, time_ns) : NULL;
}

static struct wc_error *write_stack(struct tracelog_writer *w, const struct stack_ref *a, uint32_t id,
				    uint64_t time_ns)
{
	struct wc_error *err = NULL;
	size_t start;
	uint32_t i;

	for (i = 0; w->ring && i < a->nframes && !err; i++)
		err = report_code_again(w, a->frame[i], time_ns);
	if (err)
		return err;
	start = event_begin(w);
	encode_stack(&w->packet, id, a);
	return event_end(w, start, TRACELOG_ID_STACK, time_ns);
}

/* Of an event that comes from a damaged log: the stack that it had is not known. */
static struct stack_ref storable(const struct stack_ref *a)
{
	static const uint64_t unknown;
	struct stack_ref s = *a;

	if (s.walk_end == WALK_END_LOST)
		s.walk_end = WALK_END_UNREADABLE;
	if (!s.nframes) {
		s.nframes = 1;
		s.frame = &unknown;
	}
	return s;
}

/* The id of @stack, which is in the log when this returns. */
static struct wc_error *stack_id(struct tracelog_writer *w, const struct stack_ref *stack, uint64_t time_ns,
				 uint32_t *ret)
{
	const struct stack_ref as_stored = storable(stack), *a = &as_stored;
	uint64_t hash = stack_hash(a);
	struct seen_stack *first = map64_get(&w->stacks, hash), *s;
	size_t bytes = a->nframes * sizeof(*a->frame);
	struct wc_error *err;

	for (s = first; s; s = s->next) {
		if (s->nframes == a->nframes && s->walk_end == a->walk_end &&
		    !memcmp(s->frame, a->frame, bytes)) {
			*ret = s->id;
			return NULL;
		}
	}
	if (w->stacks_bytes > STACKS_BYTES_MAX) {
		tracelog_forget_stacks(w);
		first = NULL;
	}

	s = malloc(sizeof(*s) + bytes);
	if (!s)
		return &wc_enomem;
	*s = (struct seen_stack){
		.next = first, .id = w->next_stack, .nframes = a->nframes, .walk_end = a->walk_end
	};
	memcpy(s->frame, a->frame, bytes);
	err = write_stack(w, a, s->id, time_ns);
	if (!err && !map64_put(&w->stacks, hash, s))
		err = &wc_enomem;
	if (err) {
		free(s);
		return err;
	}
	w->stacks_bytes += sizeof(*s) + bytes;
	w->next_stack++;
	*ret = s->id;
	return NULL;
}

/* Threads */

static bool remember_process(struct tracelog_writer *w, int32_t pid, int32_t tid)
{
	/* Whose process is not known here any more is re-emitted: a program may claim any number of threads.
	 */
	if (w->processes.n > PROCESSES_MAX)
		map64_deinit(&w->processes);
	w->last_tid = tid;
	w->last_pid = pid;
	return map64_put(&w->processes, (uint32_t)tid, (void *)(uintptr_t)(uint32_t)pid);
}

/* An event that carries its tid alone: what a reader makes of that must be @pid. */
static struct wc_error *know_process(struct tracelog_writer *w, int32_t pid, int32_t tid, uint64_t time_ns)
{
	const struct reported *t;
	size_t start;

	if (w->last_tid == tid && w->last_pid == pid)
		return NULL;
	if ((uint32_t)(uintptr_t)map64_get(&w->processes, (uint32_t)tid) == (uint32_t)pid) {
		w->last_tid = tid;
		w->last_pid = pid;
		return NULL;
	}
	if (!remember_process(w, pid, tid))
		return &wc_enomem;
	reemit_seen(&w->reemit, pid);
	t = reemit_thread(&w->reemit, pid, tid);
	if (t)
		return put_reported(w, t, TRACELOG_ID_THREAD_AGAIN, time_ns);
	start = event_begin(w);
	encode_thread_process(&w->packet, pid, tid);
	return event_end(w, start, TRACELOG_ID_THREAD_PROCESS, time_ns);
}

/* Captures */

static struct wc_error *report_tag_again(struct tracelog_writer *w, uint32_t tag, uint64_t time_ns)
{
	const struct reported *t = w->ring ? reemit_tag(&w->reemit, tag) : NULL;

	return t ? put_reported(w, t, TRACELOG_ID_TAG_AGAIN, time_ns) : NULL;
}

static struct wc_error *put_capture(struct tracelog_writer *w, const struct trace_event *e)
{
	const struct capture_event *k = &e->capture;
	const struct stack_ref stack = { k->walk_end, k->nframes, k->frame };
	uint64_t time_ns = e->time_ns > w->last_time ? e->time_ns : w->last_time;
	struct wc_error *err;
	size_t start;
	uint32_t id;

	assert(k->nframes <= STACK_MAX && (k->nframes || k->walk_end == WALK_END_LOST));
	err = know_process(w, k->pid, k->tid, time_ns);
	if (!err)
		err = report_tag_again(w, k->tag, time_ns);
	if (!err)
		err = stack_id(w, &stack, time_ns, &id);
	if (err)
		return err;
	start = event_begin(w);
	encode_capture(&w->packet, e, id, time_ns - e->time_ns);
	return event_end(w, start,
			 k->has_value  ? TRACELOG_ID_CAPTURE_VALUE
			 : k->withheld ? TRACELOG_ID_CAPTURE_WITHHELD
				       : EVENT_CAPTURE,
			 time_ns);
}

/* Accesses */

/*
 * A hit: an access of some of the bytes of a watch, as most are. What is special has fields for all. So has that of a
 * watch that has moved: where it was then must not depend on an event that may be lost with another packet.
 */
static bool is_hit(const struct tracelog_writer *w, const struct access_event *a, uint64_t before_ns)
{
	const struct tracelog_watch *watch = &w->watch[a->watch % TRACELOG_HIT_WATCHES];

	return a->watch < TRACELOG_HIT_WATCHES && watch->known && !watch->moved && !a->in_kernel &&
	       !a->withheld && !a->old_uncertain && a->addr >= watch->addr &&
	       a->addr - watch->addr < watch->size && watch->size <= WATCH_SIZE_MAX &&
	       before_ns <= UINT32_MAX;
}

static struct wc_error *put_access(struct tracelog_writer *w, const struct trace_event *e)
{
	const struct access_event *a = &e->access;
	const struct stack_ref stack = { a->walk_end, a->nframes, a->frame };
	uint64_t time_ns = e->time_ns > w->last_time ? e->time_ns : w->last_time;
	struct hit_ref hit = { 0 };
	struct wc_error *err;
	size_t start;
	bool is;

	assert(a->nframes >= 1 && a->nframes <= STACK_MAX);
	is = is_hit(w, a, time_ns - e->time_ns);
	err = is || w->ring ? know_process(w, a->pid, a->tid, time_ns) : NULL;
	if (!err)
		err = stack_id(w, &stack, time_ns, &hit.stack);
	if (!err && w->ring && a->regs.r[WREG_RIP] != a->frame[0])
		err = report_code_again(w, a->regs.r[WREG_RIP], time_ns);
	if (err)
		return err;
	start = event_begin(w);
	if (!is) {
		encode_fields(&w->packet, e, hit.stack);
		return event_end(w, start, EVENT_ACCESS, time_ns);
	}
	hit.watch_addr = w->watch[a->watch].addr;
	hit.before_ns = (uint32_t)(time_ns - e->time_ns);
	encode_hit(&w->packet, a, &hit);
	return event_end(w, start, TRACELOG_ID_HIT, time_ns);
}

/* Probes */

static struct wc_error *put_probe(struct tracelog_writer *w, const struct trace_event *e)
{
	const struct probe_event *p = &e->probe;
	const struct stack_ref stack = { p->walk_end, p->nframes, p->frame };
	uint64_t time_ns = e->time_ns > w->last_time ? e->time_ns : w->last_time;
	uint32_t id = TRACELOG_NO_STACK +
		      (p->walk_end == WALK_END_LOST ? (uint8_t)WALK_END_UNREADABLE : p->walk_end);
	struct wc_error *err;
	size_t start;

	assert(p->nframes <= STACK_MAX);
	err = know_process(w, p->pid, p->tid, time_ns);
	if (!err && p->nframes)
		err = stack_id(w, &stack, time_ns, &id);
	if (err)
		return err;
	start = event_begin(w);
	encode_probe(&w->packet, p, id, time_ns - e->time_ns);
	return event_end(w, start, EVENT_PROBE, time_ns);
}

/* Step recordings */

/* Whose process a reader knows from earlier events: those of a step recording come in great numbers. */
static bool thread_of(const struct trace_event *e, int32_t *pid, int32_t *tid)
{
	switch (e->type) {
	case EVENT_CALL:
		*pid = e->call.pid;
		*tid = e->call.tid;
		return true;
	case EVENT_RETURN:
		*pid = e->ret.pid;
		*tid = e->ret.tid;
		return true;
	case EVENT_STEP:
		*pid = e->step.pid;
		*tid = e->step.tid;
		return true;
	case EVENT_SIGNAL:
		*pid = e->signal.pid;
		*tid = e->signal.tid;
		return true;
	case EVENT_BLOCKED:
		*pid = e->blocked.pid;
		*tid = e->blocked.tid;
		return true;
	default:
		return false;
	}
}

static bool stack_of(const struct trace_event *e, struct stack_ref *ret)
{
	switch (e->type) {
	case EVENT_CALL:
		*ret = (struct stack_ref){ e->call.walk_end, e->call.nframes, e->call.frame };
		return true;
	case EVENT_BLOCKED:
		*ret = (struct stack_ref){ e->blocked.walk_end, e->blocked.nframes, e->blocked.frame };
		return true;
	default:
		return false;
	}
}

/* What the event refers to is in the log when this returns. */
static struct wc_error *put_before(struct tracelog_writer *w, const struct trace_event *e, uint32_t *stack)
{
	struct wc_error *err = NULL;
	struct stack_ref ref;
	int32_t pid, tid;

	if (thread_of(e, &pid, &tid))
		err = know_process(w, pid, tid, e->time_ns);
	if (err || !stack_of(e, &ref))
		return err;
	assert(ref.nframes <= STACK_MAX &&
	       (ref.nframes || e->type == EVENT_CALL || ref.walk_end == WALK_END_LOST));
	if (ref.nframes || e->type != EVENT_CALL)
		return stack_id(w, &ref, e->time_ns, stack);
	if (ref.walk_end == WALK_END_LOST)
		ref.walk_end = WALK_END_UNREADABLE;
	*stack = TRACELOG_NO_STACK + ref.walk_end;
	return NULL;
}

static uint16_t id_of(const struct trace_event *e)
{
	return e->type == EVENT_RETURN && e->ret.has_error ? TRACELOG_ID_RETURN_ERROR : (uint16_t)e->type;
}

/* The files of a flight recorder */

static void forget_what_the_file_has(struct tracelog_writer *w)
{
	tracelog_forget_stacks(w);
	w->next_stack = 0;
	map64_deinit(&w->processes);
	w->last_tid = w->last_pid = 0;
}

static struct wc_error *put_reemitted(struct tracelog_writer *w, enum tracelog_reemitted what,
				      uint64_t time_ns)
{
	const uint8_t field = (uint8_t)what;
	size_t start = event_begin(w);

	encode_bytes(&w->packet, &field, sizeof(field));
	return event_end(w, start, TRACELOG_ID_REEMITTED, time_ns);
}

static struct wc_error *reemit_one(void *ctx, const struct reported *t)
{
	struct tracelog_writer *w = ctx;

	return put_reported(w, t, t->id, w->last_time);
}

/* The file before is whole, and ends earlier: whoever reads them by their times reads them in order. */
static struct wc_error *begin_file(struct tracelog_writer *w)
{
	const struct reported_sink sink = { reemit_one, w };
	struct wc_error *err = write_rest(w);

	if (!err)
		err = tracelog_ring_next(&w->files);
	if (err) {
		w->failed = true;
		return err;
	}
	forget_what_the_file_has(w);
	w->file_begin = 0;
	w->last_time++;
	err = put_reemitted(w, REEMITTED_BEGIN, w->last_time);
	if (!err)
		err = reemit_all(&w->reemit, w->files.next_number - 1, w->last_time, sink);
	if (!err)
		err = put_reemitted(w, REEMITTED_END, w->last_time);
	w->reemitted_size = w->files.file[w->files.nfiles - 1].size + w->packet.len;
	return err;
}

static uint64_t file_limit(const struct tracelog_writer *w)
{
	uint64_t limit = tracelog_ring_file_limit(&w->files), least = REEMITTED_OF_FILE * w->reemitted_size;

	return limit > least ? limit : least;
}

/* An event of @time_ns belongs into the next file. */
static bool is_full(const struct tracelog_writer *w, uint64_t time_ns)
{
	const struct tracelog_bounds *b = &w->files.bounds;

	if (!w->file_begin)
		return false;
	if (w->files.file[w->files.nfiles - 1].size + w->packet.len > file_limit(w))
		return true;
	return b->keep_ns && time_ns > w->file_begin && time_ns - w->file_begin > b->keep_ns / TIME_SHARE;
}

static struct wc_error *turn(struct tracelog_writer *w, uint64_t time_ns)
{
	struct wc_error *err = NULL;

	if (is_full(w, time_ns)) {
		err = begin_file(w);
		tracelog_ring_expire(&w->files, w->last_time);
	}
	if (!w->file_begin)
		w->file_begin = time_ns > w->last_time ? time_ns : w->last_time + 1;
	return err;
}

/* What @e reports will be re-emitted: the @len bytes at @fields. */
static struct wc_error *tracelog_writer_keep(struct tracelog_writer *w, const struct trace_event *e,
					     const uint8_t *fields, size_t len)
{
	const uint64_t bytes = w->files.bounds.bytes;
	struct wc_error *err = reemit_keep(&w->reemit, e, fields, len);

	if (!err && bytes && w->reemit.bytes > bytes / REEMITTED_SHARE)
		reemit_shrink(&w->reemit);
	if (err || !bytes || w->reemit.bytes <= bytes / REEMITTED_SHARE)
		return err;
	w->failed = true;
	return wc_error_hint(wc_error_new(WC_ELOG,
					  "the bound of %llu bytes is too small for the log %s: what each of "
					  "its files must repeat takes %zu bytes by now",
					  (unsigned long long)bytes, w->path, w->reemit.bytes),
			     "allow at least %zu bytes; what was written so far can be reported",
			     2 * REEMITTED_SHARE * w->reemit.bytes);
}

/* The sink */

static void remember_watch(struct tracelog_writer *w, const struct watch_event *e)
{
	struct tracelog_watch *watch;

	if (e->id >= TRACELOG_HIT_WATCHES)
		return;
	watch = &w->watch[e->id];
	watch->moved |= watch->known && watch->addr != e->addr;
	watch->addr = e->addr;
	watch->size = e->size;
	watch->known = true;
}

static struct wc_error *put_other(struct tracelog_writer *w, const struct trace_event *e)
{
	struct wc_error *err;
	uint32_t stack = 0;
	size_t start;

	err = put_before(w, e, &stack);
	if (err)
		return err;
	if (e->type == EVENT_LOST)
		w->discarded += e->lost.count;
	else if (e->type == EVENT_WATCH)
		remember_watch(w, &e->watch);
	else if (e->type == EVENT_THREAD && !remember_process(w, e->thread.pid, e->thread.tid))
		return &wc_enomem;
	start = event_begin(w);
	encode_fields(&w->packet, e, stack);
	if (w->ring && !w->packet.no_memory) {
		size_t fields = start + TRACELOG_EVENT_HEAD;

		err = tracelog_writer_keep(w, e, w->packet.buf + fields, w->packet.len - fields);
		if (err) {
			w->packet.len = start;
			return err;
		}
	}
	return event_end(w, start, id_of(e), e->time_ns);
}

static struct wc_error *writer_put(void *ctx, const struct trace_event *e)
{
	struct tracelog_writer *w = ctx;
	struct wc_error *err = NULL;

	if (w->failed)
		return wc_error_new(WC_ELOG, "the log %s was given up after a write error", w->path);
	if (w->ring)
		err = turn(w, e->time_ns);
	if (err)
		return err;
	if (event_is(e->type, EVENT_RECORDED))
		w->reemit.has_begun = true;
	switch (e->type) {
	case EVENT_ACCESS:
		return put_access(w, e);
	case EVENT_CAPTURE:
		return put_capture(w, e);
	case EVENT_PROBE:
		return put_probe(w, e);
	case EVENT_MISSING: /* a note before it says the same */
		return NULL;
	default:
		return put_other(w, e);
	}
}

struct event_sink tracelog_writer_sink(struct tracelog_writer *w)
{
	return (struct event_sink){ .put = writer_put, .ctx = w };
}

/* What is too old goes also while nothing happens. */
static struct wc_error *let_old_go(struct tracelog_writer *w, uint64_t now)
{
	if (is_full(w, now)) {
		struct wc_error *err = begin_file(w);

		if (!err)
			err = write_rest(w);
		if (err)
			return err;
	}
	tracelog_ring_expire(&w->files, now);
	return NULL;
}

/* What is written to a file without a name is lost when we close it. */
static struct wc_error *check_there(struct tracelog_writer *w)
{
	struct stat st;

	if (fstat(w->files.fd, &st) < 0 || st.st_nlink)
		return NULL;
	w->failed = true;
	return wc_error_new(WC_ELOG, "the log %s was removed while it was being written", w->path);
}

struct wc_error *tracelog_writer_flush(struct tracelog_writer *w)
{
	uint64_t now = monotonic_ns();
	struct wc_error *err;

	if (w->failed)
		return NULL;
	err = write_rest(w);
	if (!err)
		err = check_there(w);
	if (!err && w->ring)
		err = let_old_go(w, now);
	if (!err && w->mark >= 0)
		tracelog_mark_flushed(w->mark, now);
	return err;
}
