#include "watchctl/trace/calls/call_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/write_all.h"
#include "watchctl/trace/calls/call_metadata.h"
#include "watchctl/trace/log/tracelog_files.h"

struct call_writer {
	char *path;
	int dir;
	struct tracelog_identity id;
	atomic_uint files;
};

struct call_file {
	struct call_writer *w;
	int fd; /* -1: there is no packet yet */
	int err;
	bool is_told; /* of err */
	pid_t pid, tid;
	uint32_t packets;
	uint64_t size;	    /* of what was written */
	uint64_t discarded; /* events */
	uint64_t reported;  /* of them, in the packet that was written last */
	uint64_t begin_ns;
	uint32_t words; /* in the packet that are no events */
	struct call_packet *packet;
};

static struct wc_error *call_cannot_write(const char *path, int err)
{
	return wc_error_errno(WC_ELOG, err, "cannot write calls to the log %s", path);
}

static void call_writer_closep(struct call_writer **w)
{
	call_writer_close(*w);
}

struct wc_error *call_writer_open(const char *path, struct call_writer **ret)
{
	scoped(call_writer_closep) struct call_writer *w = calloc(1, sizeof(*w));
	struct wc_error *err;

	if (!w)
		return &wc_enomem;
	w->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	w->path = strdup(path);
	if (!w->path)
		return &wc_enomem;
	if (w->dir < 0)
		return wc_error_errno(WC_ELOG, errno, "cannot open the log %s", path);
	err = call_metadata_describe(w->dir, w->path, &w->id);
	if (!err)
		*ret = take_ptr(w);
	return err;
}

void call_writer_close(struct call_writer *w)
{
	if (!w)
		return;
	if (w->dir >= 0)
		close(w->dir);
	free(w->path);
	free(w);
}

/* Streams */

static void stream_empty(struct call_stream *s)
{
	s->at = s->file->packet->event;
	s->end = s->at + CALL_PACKET_EVENTS;
	s->file->words = 0;
}

struct wc_error *call_stream_open(struct call_writer *w, pid_t pid, pid_t tid, struct call_stream *ret)
{
	struct call_file *f = calloc(1, sizeof(*f));
	struct call_packet *packet = aligned_alloc(4096, CALL_PACKET_BYTES);

	if (!f || !packet) {
		free(f);
		free(packet);
		return &wc_enomem;
	}
	*packet = (struct call_packet){
		.magic = TRACELOG_MAGIC, .stream_id = CALL_STREAM_ID, .pid = pid, .tid = tid
	};
	memcpy(packet->uuid, w->id.uuid, sizeof(packet->uuid));
	*f = (struct call_file){ .w = w, .fd = -1, .pid = pid, .tid = tid, .packet = packet };
	*ret = (struct call_stream){ .file = f };
	/* The first event finds no room, and begins a packet. */
	ret->at = ret->end = packet->event;
	return NULL;
}

static int create_file(struct call_file *f)
{
	char name[TRACELOG_NAME_MAX];

	/* Numbers of another writer of the same log are taken. */
	do {
		snprintf(name, sizeof(name), TRACELOG_CALLS "%010u", atomic_fetch_add(&f->w->files, 1));
		f->fd = tracelog_file_create(f->w->dir, name);
	} while (f->fd < 0 && errno == EEXIST);
	return f->fd < 0 ? errno : 0;
}

/* A packet that could not be written whole is cut off again. */
static void write_packet(struct call_stream *s)
{
	struct call_file *f = s->file;
	struct call_packet *p = f->packet;
	uint64_t n = (uint64_t)(s->at - p->event), len = sizeof(*p) + n * sizeof(*p->event);

	p->begin_ns = f->begin_ns;
	p->end_ns = s->last_ns;
	p->content_bits = p->packet_bits = len * 8;
	p->discarded = f->discarded;
	p->packet = f->packets;
	p->crc32c = call_packet_checksum(p, len);
	if (!f->err && f->fd < 0)
		f->err = create_file(f);
	if (!f->err) {
		f->err = write_all(f->fd, p, len);
		if (f->err && ftruncate(f->fd, (off_t)f->size) < 0)
			f->size += len; /* nothing reads it: its checksum does not fit */
	}
	if (f->err) {
		f->discarded += n - f->words;
	} else {
		f->size += len;
		f->packets++;
		f->reported = f->discarded;
	}
	stream_empty(s);
}

void call_stream_turn(struct call_stream *s, uint64_t *time_ns)
{
	if (*time_ns < s->last_ns)
		*time_ns = s->last_ns;
	if (s->at < s->end && (*time_ns - s->last_ns) >> 32 == 0 && s->at > s->file->packet->event)
		return;
	if (s->at > s->file->packet->event)
		write_packet(s);
	stream_empty(s);
	s->file->begin_ns = *time_ns;
}

/* With errno in front, where there is one. */
static uint32_t bytes_of(const struct call_besides *b)
{
	return b->values_len + (b->has_error ? (uint32_t)sizeof(b->error) : 0);
}

static uint32_t words_of(uint32_t bytes)
{
	return (bytes + 7) / 8;
}

static void put_values(struct call_stream *s, uint64_t time_ns, uint32_t function,
		       const struct call_besides *b)
{
	const uint32_t bytes = bytes_of(b), words = words_of(bytes);
	uint8_t *to;

	*s->at++ = call_pack(CALL_MORE, time_ns, 1 + words);
	*s->at++ = call_values_word(b->has_error, bytes, function);
	s->at[words - 1] = 0;
	to = (uint8_t *)s->at;
	if (b->has_error) {
		memcpy(to, &b->error, sizeof(b->error));
		to += sizeof(b->error);
	}
	memcpy(to, b->values, b->values_len);
	s->at += words;
}

void call_stream_put_with(struct call_stream *s, enum call_what what, uint64_t time_ns, uint32_t function,
			  const struct call_besides *b)
{
	const uint32_t bytes = bytes_of(b);
	const uint32_t more = (b->mark ? 2 : 0) + (bytes ? 2 + words_of(bytes) : 0);

	if (s->end - s->at <= more)
		s->end = s->at; /* it is full */
	if (s->at == s->end || (time_ns - s->last_ns) >> 32)
		call_stream_turn(s, &time_ns);
	if (b->mark) {
		*s->at++ = call_pack(CALL_MORE, time_ns, 1);
		*s->at++ = b->mark;
	}
	if (bytes)
		put_values(s, time_ns, function, b);
	*s->at++ = call_pack(what, time_ns, function);
	s->file->words += more;
	s->last_ns = time_ns;
}

void call_stream_lost(struct call_stream *s, uint64_t count)
{
	s->file->discarded += count;
}

struct wc_error *call_stream_flush(struct call_stream *s)
{
	struct call_file *f = s->file;

	if (s->at > f->packet->event)
		write_packet(s);
	/* The next event begins a packet, whenever it comes. */
	s->at = s->end = f->packet->event;
	if (!f->err || f->is_told)
		return NULL;
	f->is_told = true;
	return wc_error_hint(call_cannot_write(f->w->path, f->err),
			     "%llu calls and returns of thread %d are not in it",
			     (unsigned long long)f->discarded, f->tid);
}

struct wc_error *call_stream_close(struct call_stream *s)
{
	struct call_file *f = s->file;
	struct wc_error *err = call_stream_flush(s);

	/* A packet without events says what is missing at the end. */
	if (!f->err && f->discarded > f->reported) {
		f->begin_ns = s->last_ns;
		write_packet(s);
	}
	if (f->fd >= 0)
		close(f->fd);
	free(f->packet);
	free(f);
	*s = (struct call_stream){ 0 };
	return err;
}
