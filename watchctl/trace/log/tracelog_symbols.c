/*
 * The file has the packets of LOG/events (tracelog_format.h) and the same stream class, so that any CTF
 * reader takes it for a second stream of the trace. It is written as LOG/.symbols.PID, which CTF readers
 * skip, and renamed. A log of an older minor version does not describe the event `symbol`: that is appended
 * to its metadata first, in the same way.
 */
#include "watchctl/trace/log/tracelog_symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/write_all.h"
#include "watchctl/trace/log/tracelog.h"
#include "watchctl/trace/log/tracelog_encode.h"
#include "watchctl/trace/log/tracelog_format.h"
#include "watchctl/trace/log/tracelog_member.h"

struct tracelog_symbols {
	char *path;
	int dir, fd;
	char name[32]; /* in dir, until it is renamed */
	struct tracelog_identity id;
	uint64_t time_ns;
	char *metadata; /* which lack the description of the event; NULL: they have it */
	bool has_packet;
	struct encoder packet;
};

/* Reading */

/* NULL: it is. */
static const char *why_not_whole(const struct tracelog_reader *r)
{
	struct log_damage d;

	tracelog_damage(r, &d);
	return d.why_missed ? d.why_missed : d.why;
}

struct wc_error *tracelog_symbols_read(const char *path, struct event_sink sink, const char **why)
{
	scoped(tracelog_reader_closep) struct tracelog_reader *r = NULL;
	enum log_outcome outcome = LOG_EVENT;
	struct wc_error *err;
	struct trace_event e;

	*why = NULL;
	err = tracelog_reader_open_symbols(path, &r);
	while (!err && r) {
		err = tracelog_next(r, &e, &outcome);
		if (err || outcome != LOG_EVENT)
			break;
		if (e.type == EVENT_SYMBOL)
			err = sink.put(sink.ctx, &e);
	}
	if (!err && r)
		*why = why_not_whole(r);
	return err;
}

/* Writing */

static struct wc_error *cannot_write(const struct tracelog_symbols *s, int err)
{
	return wc_error_hint(wc_error_errno(WC_ELOG, err, "cannot add names to the log %s", s->path),
			     "the log is as it was before");
}

static struct wc_error *write_bytes(const struct tracelog_symbols *s, int fd, const void *buf, size_t len)
{
	int err = write_all(fd, buf, len);

	return err ? cannot_write(s, err) : NULL;
}

struct wc_error *tracelog_symbols_create(const char *path, uint64_t time_ns, struct tracelog_symbols **ret)
{
	scoped(tracelog_symbols_discardp) struct tracelog_symbols *s = calloc(1, sizeof(*s));
	scoped(freep) char *metadata = NULL;
	struct wc_error *err;
	int failed;

	if (!s)
		return &wc_enomem;
	s->fd = s->dir = -1;
	s->time_ns = time_ns;
	s->path = strdup(path);
	if (!s->path)
		return &wc_enomem;
	s->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dir < 0)
		return wc_error_errno(WC_ELOG, errno, "cannot open the log %s", path);
	err = tracelog_metadata_read(s->dir, s->path, &s->id, &metadata);
	if (err || !metadata)
		return err;
	if (!strstr(metadata, "name = \"symbol\";"))
		s->metadata = take_ptr(metadata);
	snprintf(s->name, sizeof(s->name), ".symbols.%d", getpid());
	failed = tracelog_create_beside(s->dir, s->name, &s->fd);
	if (failed)
		return cannot_write(s, failed);
	encode_packet_begin(&s->packet, s->id.major);
	*ret = take_ptr(s);
	return NULL;
}

/* Writes the first @len bytes of the packet; what is behind them begins the next one. */
static struct wc_error *write_packet(struct tracelog_symbols *s, size_t len)
{
	struct wc_error *err;

	encode_packet_head(&s->packet, len, &(struct packet_head){ s->id.uuid, s->time_ns, s->time_ns, 0 },
			   s->id.major);
	err = write_bytes(s, s->fd, s->packet.buf, len);
	if (err)
		return err;
	encode_next_packet(&s->packet, len, s->id.major);
	s->has_packet = true;
	return NULL;
}

struct wc_error *tracelog_symbols_put(struct tracelog_symbols *s, const struct symbol_event *e)
{
	const struct trace_event event = { .type = EVENT_SYMBOL, .time_ns = s->time_ns, .symbol = *e };
	size_t first = encode_packet_start(s->id.major), start = encode_event_begin(&s->packet);

	encode_fields(&s->packet, &event, 0);
	if (s->packet.no_memory)
		return &wc_enomem;
	/* Names that no reader would take: the address goes without. */
	if (s->packet.len - start > TRACELOG_PACKET_MAX - first) {
		s->packet.len = start;
		return NULL;
	}
	encode_event_head(&s->packet, start, EVENT_SYMBOL, s->time_ns);
	if (s->packet.len > TRACELOG_PACKET_SIZE && start > first)
		return write_packet(s, start);
	return NULL;
}

struct wc_error *tracelog_symbols_commit(struct tracelog_symbols *s)
{
	struct wc_error *err = NULL;
	int failed;

	/* An empty file would be one that was cut: without a name, a packet without events. */
	if (s->packet.len > encode_packet_start(s->id.major) || !s->has_packet)
		err = write_packet(s, s->packet.len);
	/* A reader sees the description before the first event that needs it. */
	failed = !err && s->metadata
			 ? tracelog_metadata_append(s->dir, s->metadata, tracelog_symbol_event_text)
			 : 0;
	if (failed)
		err = cannot_write(s, failed);
	if (!err && (fsync(s->fd) < 0 || renameat(s->dir, s->name, s->dir, "symbols") < 0))
		err = cannot_write(s, errno);
	if (!err)
		s->name[0] = '\0'; /* it stays */
	tracelog_symbols_discard(s);
	return err;
}

void tracelog_symbols_discard(struct tracelog_symbols *s)
{
	if (!s)
		return;
	if (s->fd >= 0) {
		close(s->fd);
		if (s->name[0])
			unlinkat(s->dir, s->name, 0);
	}
	if (s->dir >= 0)
		close(s->dir);
	free(s->packet.buf);
	free(s->metadata);
	free(s->path);
	free(s);
}

void tracelog_symbols_discardp(struct tracelog_symbols **s)
{
	tracelog_symbols_discard(*s);
}
