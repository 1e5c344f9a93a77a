/*
 * The writer keeps one packet in memory, its first TRACELOG_PACKET_HEAD bytes reserved for the
 * header. An event is encoded at the end; when the packet has become too large by that, what was
 * there before is written out and the new event moves to the front of the next packet.
 */
#include "watchctl/trace/tracelog.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/base/write_all.h"
#include "watchctl/trace/tracelog_encode.h"
#include "watchctl/trace/tracelog_format.h"

/* Distinct stacks remembered; beyond that all are forgotten, and later written anew. */
#define STACKS_BYTES_MAX (64u << 20)
#define PROCESSES_MAX (1u << 17) /* likewise, threads */

struct seen_stack {
	struct seen_stack *next; /* same hash */
	uint32_t id;
	uint32_t nframes;
	uint8_t walk_end;
	uint64_t frame[];
};

struct tracelog_writer {
	char *path;
	int fd;
	uint8_t uuid[16];
	uint64_t file_size; /* whole packets only */
	bool failed;

	struct encoder packet;
	uint64_t begin, end; /* times of the first and last event in the packet */
	uint64_t last_time;
	uint64_t discarded;

	struct map64 stacks; /* hash -> struct seen_stack */
	size_t stacks_bytes;
	uint32_t next_stack;
	struct map64 processes; /* tid -> pid, as a reader has it */
};

/* Packets */

static struct wc_error *abandon(struct tracelog_writer *w, int err)
{
	w->failed = true;
	/* Half a packet would only be noise to a reader; if this fails too, the reader copes with it. */
	if (ftruncate(w->fd, w->file_size) < 0)
		err = err ? err : errno;
	return wc_error_hint(wc_error_errno(WC_ELOG, err, "cannot write the log %s", w->path),
			     "the %llu bytes written before are whole and can be reported; to record more, "
			     "free space or choose another place for the log",
			     (unsigned long long)w->file_size);
}

/* Writes the first @len bytes of the packet; the events behind them, if any, start the next one. */
static struct wc_error *write_packet(struct tracelog_writer *w, size_t len)
{
	int err;

	encode_packet_head(&w->packet, len, &(struct packet_head){ w->uuid, w->begin, w->end, w->discarded });
	err = write_all(w->fd, w->packet.buf, len);
	if (err)
		return abandon(w, err);
	w->file_size += len;
	encode_next_packet(&w->packet, len);
	return NULL;
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
	if (w->packet.len > TRACELOG_PACKET_SIZE && start > TRACELOG_PACKET_HEAD) {
		err = write_packet(w, start);
		if (err)
			return err;
		start = TRACELOG_PACKET_HEAD;
	}
	if (start == TRACELOG_PACKET_HEAD)
		w->begin = time_ns;
	w->end = time_ns;
	return NULL;
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

static void forget_stacks(struct tracelog_writer *w)
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

static struct wc_error *write_stack(struct tracelog_writer *w, const struct stack_ref *a, uint32_t id,
				    uint64_t time_ns)
{
	size_t start = event_begin(w);

	encode_stack(&w->packet, id, a);
	return event_end(w, start, TRACELOG_ID_STACK, time_ns);
}

/* The id of @a, which is in the log when this returns. */
static struct wc_error *stack_id(struct tracelog_writer *w, const struct stack_ref *a, uint64_t time_ns,
				 uint32_t *ret)
{
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
		forget_stacks(w);
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

/* Captures */

static bool remember_process(struct tracelog_writer *w, int32_t pid, int32_t tid)
{
	/* Whose process is not known here any more is told again: a program may claim any number of threads.
	 */
	if (w->processes.n > PROCESSES_MAX)
		map64_deinit(&w->processes);
	return map64_put(&w->processes, (uint32_t)tid, (void *)(uintptr_t)(uint32_t)pid);
}

/* A capture carries its tid alone: what a reader makes of that must be @pid. */
static struct wc_error *know_process(struct tracelog_writer *w, int32_t pid, int32_t tid, uint64_t time_ns)
{
	size_t start;

	if ((uint32_t)(uintptr_t)map64_get(&w->processes, (uint32_t)tid) == (uint32_t)pid)
		return NULL;
	if (!remember_process(w, pid, tid))
		return &wc_enomem;
	start = event_begin(w);
	encode_thread_process(&w->packet, pid, tid);
	return event_end(w, start, TRACELOG_ID_THREAD_PROCESS, time_ns);
}

static struct wc_error *put_capture(struct tracelog_writer *w, const struct trace_event *e)
{
	const struct capture_event *k = &e->capture;
	const struct stack_ref stack = { k->walk_end, k->nframes, k->frame };
	uint64_t time_ns = e->time_ns > w->last_time ? e->time_ns : w->last_time;
	struct wc_error *err;
	size_t start;
	uint32_t id;

	assert(k->nframes >= 1 && k->nframes <= STACK_MAX);
	err = know_process(w, k->pid, k->tid, time_ns);
	if (!err)
		err = stack_id(w, &stack, time_ns, &id);
	if (err)
		return err;
	start = event_begin(w);
	encode_capture(&w->packet, k, id, time_ns - e->time_ns);
	return event_end(w, start, k->has_value ? TRACELOG_ID_CAPTURE_VALUE : EVENT_CAPTURE, time_ns);
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
	case EVENT_STOOD:
		*pid = e->stood.pid;
		*tid = e->stood.tid;
		return true;
	default:
		return false;
	}
}

static bool stack_of(const struct trace_event *e, struct stack_ref *ret)
{
	switch (e->type) {
	case EVENT_ACCESS:
		*ret = (struct stack_ref){ e->access.walk_end, e->access.nframes, e->access.frame };
		return true;
	case EVENT_CALL:
		*ret = (struct stack_ref){ e->call.walk_end, e->call.nframes, e->call.frame };
		return true;
	case EVENT_STOOD:
		*ret = (struct stack_ref){ e->stood.walk_end, e->stood.nframes, e->stood.frame };
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
	assert(ref.nframes <= STACK_MAX && (ref.nframes || e->type == EVENT_CALL));
	if (ref.nframes)
		return stack_id(w, &ref, e->time_ns, stack);
	*stack = TRACELOG_NO_STACK + ref.walk_end;
	return NULL;
}

static uint16_t id_of(const struct trace_event *e)
{
	return e->type == EVENT_RETURN && e->ret.has_error ? TRACELOG_ID_RETURN_ERROR : (uint16_t)e->type;
}

/* The sink */

static struct wc_error *writer_put(void *ctx, const struct trace_event *e)
{
	struct tracelog_writer *w = ctx;
	struct wc_error *err;
	uint32_t stack = 0;
	size_t start;

	if (w->failed)
		return wc_error_new(WC_ELOG, "the log %s was given up after a write error", w->path);
	if (e->type == EVENT_CAPTURE)
		return put_capture(w, e);
	err = put_before(w, e, &stack);
	if (err)
		return err;
	if (e->type == EVENT_LOST)
		w->discarded += e->lost.count;
	if (e->type == EVENT_THREAD && !remember_process(w, e->thread.pid, e->thread.tid))
		return &wc_enomem;
	start = event_begin(w);
	encode_fields(&w->packet, e, stack);
	return event_end(w, start, id_of(e), e->time_ns);
}

struct event_sink tracelog_writer_sink(struct tracelog_writer *w)
{
	return (struct event_sink){ .put = writer_put, .ctx = w };
}

struct wc_error *tracelog_writer_flush(struct tracelog_writer *w)
{
	if (w->failed || w->packet.len == TRACELOG_PACKET_HEAD)
		return NULL;
	return write_packet(w, w->packet.len);
}

/* Opening and closing */

static void make_uuid(uint8_t uuid[16])
{
	if (getrandom(uuid, 16, 0) != 16) {
		uint64_t seed[2] = { clock_ns(CLOCK_REALTIME), getpid() };

		memcpy(uuid, seed, 16);
	}
	uuid[6] = (uuid[6] & 0x0f) | 0x40; /* RFC 4122: random */
	uuid[8] = (uuid[8] & 0x3f) | 0x80;
}

static int create_file(int dir, const char *name)
{
	return openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

static struct wc_error *write_metadata(struct tracelog_writer *w, int dir)
{
	uint64_t real = clock_ns(CLOCK_REALTIME), mono = monotonic_ns();
	scoped(freep) char *text = NULL;
	scoped(closep) int fd = -1;
	char host[256] = "";
	int err;

	gethostname(host, sizeof(host) - 1);
	text = tracelog_metadata_text(w->uuid, real > mono ? real - mono : 0, host);
	if (!text)
		return &wc_enomem;
	fd = create_file(dir, "metadata");
	err = fd < 0 ? errno : write_all(fd, text, strlen(text));
	if (err)
		return wc_error_errno(WC_ELOG, err, "cannot write the metadata of the log %s", w->path);
	return NULL;
}

/* Fills the fresh directory; what it made is removed by the caller on error. */
static struct wc_error *create_files(struct tracelog_writer *w)
{
	scoped(closep) int dir = open(w->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct wc_error *err;

	if (dir < 0)
		return wc_error_errno(WC_ELOG, errno, "cannot open the log's directory %s", w->path);
	err = write_metadata(w, dir);
	if (!err) {
		w->fd = create_file(dir, "events");
		if (w->fd < 0)
			err = wc_error_errno(WC_ELOG, errno, "cannot create the log %s", w->path);
	}
	if (err) {
		unlinkat(dir, "metadata", 0);
		unlinkat(dir, "events", 0);
	}
	return err;
}

static struct wc_error *make_directory(const char *path)
{
	if (mkdir(path, 0700) == 0)
		return NULL;
	if (errno == EEXIST)
		return wc_error_new(WC_ELOG, "log %s exists already; choose another name or remove it", path);
	if (errno == ENOENT)
		return wc_error_new(WC_ELOG,
				    "cannot create the log %s: the directory it should be in does not exist",
				    path);
	return wc_error_errno(WC_ELOG, errno, "cannot create the log %s", path);
}

static void writer_free(struct tracelog_writer *w)
{
	if (w->fd >= 0)
		close(w->fd);
	forget_stacks(w);
	map64_deinit(&w->processes);
	free(w->packet.buf);
	free(w->path);
	free(w);
}

struct wc_error *tracelog_writer_open(const char *path, struct tracelog_writer **ret)
{
	struct tracelog_writer *w = calloc(1, sizeof(*w));
	struct wc_error *err;

	if (!w)
		return &wc_enomem;
	w->fd = -1;
	w->path = strdup(path);
	w->packet.len = TRACELOG_PACKET_HEAD;
	make_uuid(w->uuid);
	if (!w->path || !vec_reserve((void **)&w->packet.buf, &w->packet.cap, 2 * TRACELOG_PACKET_SIZE, 1)) {
		writer_free(w);
		return &wc_enomem;
	}

	err = make_directory(path);
	if (!err) {
		err = create_files(w);
		if (err)
			rmdir(path);
	}
	if (err) {
		writer_free(w);
		return err;
	}
	*ret = w;
	return NULL;
}

struct wc_error *tracelog_writer_close(struct tracelog_writer *w)
{
	struct wc_error *err;

	if (!w)
		return NULL;
	err = tracelog_writer_flush(w);
	/* A network file system may report the failed write only here. */
	if (close(take_fd(w->fd)) < 0 && !err && !w->failed)
		err = wc_error_errno(WC_ELOG, errno, "cannot complete the log %s", w->path);
	writer_free(w);
	return err;
}

void tracelog_writer_closep(struct tracelog_writer **w)
{
	wc_error_free(tracelog_writer_close(*w));
}

void tracelog_writer_discard(struct tracelog_writer *w)
{
	int dir;

	if (!w)
		return;
	dir = open(w->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir >= 0) {
		unlinkat(dir, "metadata", 0);
		unlinkat(dir, "events", 0);
		close(dir);
		rmdir(w->path);
	}
	close(take_fd(w->fd));
	writer_free(w);
}
