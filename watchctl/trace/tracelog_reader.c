/*
 * The reader trusts nothing in the file: every size is checked against what is there, every
 * number against its range. Each step consumes at least a header, so any input comes to an end.
 * Damage ends the log at that point: stacks and names that later events need may be gone.
 */
#include "watchctl/trace/tracelog.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/trace/tracelog_decode.h"
#include "watchctl/trace/tracelog_format.h"

#define METADATA_MAX (1u << 20)

struct tracelog_reader {
	char *path;
	int fd;		    /* -1: from memory */
	const uint8_t *mem; /* NULL: from fd */
	uint64_t size;	    /* of the events, when opened */
	uint8_t uuid[16];

	uint64_t packet_at;   /* offset in the file of the packet in buf */
	uint64_t next_packet; /* ... of the one after it */
	uint8_t *buf;
	size_t cap;
	size_t pos, end;  /* of the events left in buf */
	bool partial;	  /* the file ends inside this packet */
	uint64_t last_at; /* offset in the file of the event that was taken last */
	uint8_t *again;	  /* an event that is read again */
	size_t again_cap;

	struct tracelog_decoder decoder;
	enum log_outcome state; /* LOG_EVENT until the end is reached */
	uint64_t ignored;
	const char *why;
};

static void finish(struct tracelog_reader *r, enum log_outcome state, uint64_t at, const char *why)
{
	r->state = state;
	if (state == LOG_TRUNCATED) {
		r->ignored = r->size - at;
		r->why = why;
	}
}

/* False: the file is shorter than it was, or cannot be read; *err tells which (NULL: shorter). */
static bool read_at(struct tracelog_reader *r, uint64_t at, void *buf, size_t len, struct wc_error **err)
{
	uint8_t *p = buf;

	*err = NULL;
	if (r->mem) {
		memcpy(buf, r->mem + at, len);
		return true;
	}
	while (len) {
		ssize_t n = pread(r->fd, p, len, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			*err = wc_error_errno(WC_ELOG, errno, "cannot read the log %s", r->path);
		if (n <= 0)
			return false;
		p += n;
		at += n;
		len -= n;
	}
	return true;
}

static uint64_t head_u64(const uint8_t *head, size_t off)
{
	uint64_t v;

	memcpy(&v, head + off, sizeof(v));
	return v;
}

static const char *check_head(const struct tracelog_reader *r, const uint8_t *head)
{
	uint64_t content = head_u64(head, TRACELOG_OFF_CONTENT);
	uint64_t packet = head_u64(head, TRACELOG_OFF_PACKET);
	uint32_t magic, stream;

	memcpy(&magic, head, sizeof(magic));
	memcpy(&stream, head + TRACELOG_OFF_STREAM, sizeof(stream));
	if (magic != TRACELOG_MAGIC)
		return "there is no packet where one should start";
	if (memcmp(head + TRACELOG_OFF_UUID, r->uuid, sizeof(r->uuid)) != 0)
		return "a packet belongs to another log";
	if (stream != 0 || content > packet || content < 8 * TRACELOG_PACKET_HEAD || content % 8 ||
	    packet % 8 || packet / 8 > TRACELOG_PACKET_MAX)
		return "the header of a packet is damaged";
	return NULL;
}

/* Loads the packet at next_packet, or the part of it that exists; or sets the final state. */
static struct wc_error *load_packet(struct tracelog_reader *r)
{
	uint64_t at = r->next_packet, left = r->size - at, packet, content;
	uint8_t head[TRACELOG_PACKET_HEAD];
	struct wc_error *err;
	const char *why;

	if (left == 0) {
		finish(r, LOG_END, at, NULL);
		return NULL;
	}
	if (left < sizeof(head)) {
		finish(r, LOG_TRUNCATED, at, "it ends in the middle of a packet's header");
		return NULL;
	}
	if (!read_at(r, at, head, sizeof(head), &err))
		goto gone;
	why = check_head(r, head);
	if (why) {
		finish(r, LOG_TRUNCATED, at, why);
		return NULL;
	}

	packet = head_u64(head, TRACELOG_OFF_PACKET) / 8;
	content = head_u64(head, TRACELOG_OFF_CONTENT) / 8;
	r->partial = packet > left;
	if (content > left)
		content = left;
	if (!vec_reserve((void **)&r->buf, &r->cap, content, 1))
		return &wc_enomem;
	if (!read_at(r, at, r->buf, content, &err))
		goto gone;
	r->packet_at = at;
	r->next_packet = at + (r->partial ? left : packet);
	r->pos = TRACELOG_PACKET_HEAD;
	r->end = content;
	return NULL;

gone:
	if (!err)
		finish(r, LOG_TRUNCATED, at, "it became shorter while it was read");
	return err;
}

/* Takes the event at pos; false when it is not whole, the state then says so. */
static bool take_event(struct tracelog_reader *r, struct tracelog_raw *ret)
{
	size_t left = r->end - r->pos;
	const uint8_t *p = r->buf + r->pos;
	uint32_t size = 0;

	if (left >= TRACELOG_EVENT_HEAD)
		memcpy(&size, p + TRACELOG_OFF_SIZE, sizeof(size));
	if (size < TRACELOG_EVENT_HEAD || size > left) {
		/* A zero size in a cut packet is damage as well, but "cut" is what the user can act on. */
		finish(r, LOG_TRUNCATED, r->packet_at + r->pos,
		       r->partial ? "it ends in the middle of an event" : "an event is damaged");
		return false;
	}
	memcpy(&ret->id, p, sizeof(ret->id));
	memcpy(&ret->time_ns, p + TRACELOG_OFF_TIME, sizeof(ret->time_ns));
	ret->payload = r->buf + r->pos + TRACELOG_EVENT_HEAD;
	ret->len = size - TRACELOG_EVENT_HEAD;
	r->last_at = r->packet_at + r->pos;
	r->pos += size;
	return true;
}

/* One step: DECODE_SKIPPED also when a packet was loaded or the end was found. */
static struct wc_error *step(struct tracelog_reader *r, struct trace_event *ret, enum decode_result *what)
{
	struct tracelog_raw raw;
	struct wc_error *err;
	size_t start = r->pos;

	*what = DECODE_SKIPPED;
	if (r->pos == r->end) {
		if (!r->partial)
			return load_packet(r);
		finish(r, LOG_TRUNCATED, r->packet_at + r->pos, "it ends in the middle of a packet");
		return NULL;
	}
	if (!take_event(r, &raw))
		return NULL;
	err = tracelog_decode(&r->decoder, &raw, ret, what);
	if (!err && *what == DECODE_DAMAGED)
		finish(r, LOG_TRUNCATED, r->packet_at + start, "an event is damaged");
	return err;
}

struct wc_error *tracelog_next(struct tracelog_reader *r, struct trace_event *ret, enum log_outcome *outcome)
{
	enum decode_result what;
	struct wc_error *err;

	while (r->state == LOG_EVENT) {
		err = step(r, ret, &what);
		if (err)
			return err;
		if (what == DECODE_EVENT)
			break;
	}
	*outcome = r->state;
	return NULL;
}

uint64_t tracelog_position(const struct tracelog_reader *r)
{
	return r->last_at;
}

/* The whole event at @at, into r->again; false: there is none any more, or *@err. */
static bool load_again(struct tracelog_reader *r, uint64_t at, struct tracelog_raw *ret,
		       struct wc_error **err)
{
	uint8_t head[TRACELOG_EVENT_HEAD];
	uint32_t size;

	*err = NULL;
	if (at > r->size || r->size - at < sizeof(head) || !read_at(r, at, head, sizeof(head), err))
		return false;
	memcpy(&size, head + TRACELOG_OFF_SIZE, sizeof(size));
	if (size < sizeof(head) || size > TRACELOG_PACKET_MAX || size > r->size - at)
		return false;
	if (!vec_reserve((void **)&r->again, &r->again_cap, size, 1)) {
		*err = &wc_enomem;
		return false;
	}
	if (!read_at(r, at, r->again, size, err))
		return false;
	memcpy(&ret->id, head, sizeof(ret->id));
	memcpy(&ret->time_ns, head + TRACELOG_OFF_TIME, sizeof(ret->time_ns));
	ret->payload = r->again + sizeof(head);
	ret->len = size - sizeof(head);
	return true;
}

struct wc_error *tracelog_read_again(struct tracelog_reader *r, uint64_t position, struct trace_event *ret,
				     enum log_outcome *outcome)
{
	enum decode_result what;
	struct tracelog_raw raw;
	struct wc_error *err;

	*outcome = LOG_TRUNCATED;
	if (!load_again(r, position, &raw, &err))
		return err;
	err = tracelog_decode(&r->decoder, &raw, ret, &what);
	if (!err && what == DECODE_EVENT)
		*outcome = LOG_EVENT;
	return err;
}

uint64_t tracelog_ignored(const struct tracelog_reader *r, const char **why)
{
	if (why)
		*why = r->why;
	return r->ignored;
}

static struct wc_error *reader_new(const char *path, struct tracelog_reader **ret)
{
	struct tracelog_reader *r = calloc(1, sizeof(*r));

	if (!r)
		return &wc_enomem;
	r->fd = -1;
	r->path = strdup(path);
	if (!r->path) {
		free(r);
		return &wc_enomem;
	}
	*ret = r;
	return NULL;
}

struct wc_error *tracelog_reader_open_memory(const char *metadata, size_t metadata_len, const uint8_t *events,
					     size_t events_len, struct tracelog_reader **ret)
{
	scoped(tracelog_reader_closep) struct tracelog_reader *r = NULL;
	static const uint8_t nothing;
	struct wc_error *err;

	err = reader_new("(memory)", &r);
	if (err)
		return err;
	err = tracelog_metadata_parse(r->path, metadata, metadata_len, r->uuid);
	if (err)
		return err;
	r->mem = events ? events : &nothing;
	r->size = events_len;
	*ret = take_ptr(r);
	return NULL;
}

static struct wc_error *open_directory(const char *path, int *ret)
{
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir >= 0) {
		*ret = dir;
		return NULL;
	}
	if (errno == ENOENT)
		return wc_error_new(WC_ELOG, "there is no log %s", path);
	if (errno == ENOTDIR)
		return wc_error_new(WC_ELOG, "%s is not a log: a log is a directory", path);
	return wc_error_errno(WC_ELOG, errno, "cannot open the log %s", path);
}

/* O_NONBLOCK: a fifo by that name must not hang us; it is refused by the type check. */
static struct wc_error *open_member(int dir, const char *path, const char *name, int *ret, uint64_t *size)
{
	scoped(closep) int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0 && errno == ENOENT)
		return wc_error_new(WC_ELOG, "%s is not a log of watchctl: it has no file `%s`", path, name);
	if (fd < 0 || fstat(fd, &st) < 0)
		return wc_error_errno(WC_ELOG, errno, "cannot open %s/%s", path, name);
	if (!S_ISREG(st.st_mode))
		return wc_error_new(WC_ELOG, "%s is not a log of watchctl: %s/%s is not a regular file", path,
				    path, name);
	*size = st.st_size;
	*ret = take_fd(fd);
	return NULL;
}

static struct wc_error *read_metadata(struct tracelog_reader *r, int dir)
{
	scoped(freep) char *text = NULL;
	scoped(closep) int fd = -1;
	struct wc_error *err;
	uint64_t size;
	size_t len = 0;
	ssize_t n;

	err = open_member(dir, r->path, "metadata", &fd, &size);
	if (err)
		return err;
	if (size > METADATA_MAX)
		size = METADATA_MAX;
	text = malloc(size + 1);
	if (!text)
		return &wc_enomem;
	while (len < size && (n = read(fd, text + len, size - len)) > 0)
		len += n;
	return tracelog_metadata_parse(r->path, text, len, r->uuid);
}

static struct wc_error *open_log(const char *path, const char *member, struct tracelog_reader **ret)
{
	scoped(tracelog_reader_closep) struct tracelog_reader *r = NULL;
	scoped(closep) int dir = -1;
	struct wc_error *err;

	err = reader_new(path, &r);
	if (!err)
		err = open_directory(path, &dir);
	if (!err)
		err = read_metadata(r, dir);
	if (!err)
		err = open_member(dir, path, member, &r->fd, &r->size);
	if (err)
		return err;
	posix_fadvise(r->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	*ret = take_ptr(r);
	return NULL;
}

struct wc_error *tracelog_reader_open(const char *path, struct tracelog_reader **ret)
{
	return open_log(path, "events", ret);
}

struct wc_error *tracelog_reader_open_symbols(const char *path, struct tracelog_reader **ret)
{
	scoped(closep) int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	*ret = NULL;
	if (dir >= 0 && faccessat(dir, "symbols", F_OK, 0) < 0 && errno == ENOENT)
		return NULL;
	return open_log(path, "symbols", ret);
}

void tracelog_reader_close(struct tracelog_reader *r)
{
	if (!r)
		return;
	if (r->fd >= 0)
		close(r->fd);
	tracelog_decoder_deinit(&r->decoder);
	free(r->buf);
	free(r->again);
	free(r->path);
	free(r);
}

void tracelog_reader_closep(struct tracelog_reader **r)
{
	tracelog_reader_close(*r);
}
