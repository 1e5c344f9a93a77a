/*
 * The reader trusts nothing in the file: every size is checked against what is there, every
 * number against its range. Each step consumes at least a header, so any input comes to an end.
 * Behind a damaged packet the next whole one is read. What its events refer to may be gone: an access whose
 * stack was lost comes without its callers, and what refers to a watch, thread, tag or function that was lost
 * is left out, and counted. In a flight recorder that ends with the file; the next one re-emits what it needs.
 *
 * A log of version 2 or later is read packet by packet: one whose checksum is not right, or that is not
 * whole, is damaged from its first byte on. Older ones are read event by event.
 */
#include "watchctl/trace/log/tracelog_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/trace/log/tracelog_check.h"
#include "watchctl/trace/log/tracelog_damage.h"
#include "watchctl/trace/log/tracelog_files.h"

#define WINDOW (256u << 10) /* is read at once */
#define POSITION_BITS 48    /* of the offset; above it, which file */

/* What a packet that is being written looks like. */
static const char cut_head[] = "it ends in the middle of a packet's header";
static const char cut_packet[] = "it ends in the middle of a packet";

static const char empty_file[] = "a file of it is empty";
static const char empty_log[] = "it has no events: nothing was written, or what was is gone";

/* Where it ends */

static void tracelog_reader_finish(struct tracelog_reader *r, enum log_outcome state, uint64_t at,
				   const char *why)
{
	r->state = state;
	if (state == LOG_TRUNCATED) {
		r->ignored = r->file[r->current].size - at;
		r->why = why;
	}
}

static void enter_file(struct tracelog_reader *r, size_t i)
{
	r->done += r->file[r->current].size;
	r->current = i;
	r->packet_at = r->next_packet = r->buf_at = 0;
	r->pos = r->end = r->buf_len = 0;
	r->partial = r->reemitting = r->torn = false;
	if (r->has_before)
		tracelog_decoder_next_file(&r->decoder);
	else
		tracelog_decoder_forget(&r->decoder);
}

/*
 * Whoever follows a flight recorder for days does not keep what that has removed: neither the descriptors
 * nor, on the disk, the bytes.
 */
static void close_removed(struct tracelog_reader *r)
{
	struct stat st;
	size_t i;

	for (i = 0; i < r->current; i++) {
		struct log_file *f = &r->file[i];

		if (f->fd < 0 || fstat(f->fd, &st) < 0 || st.st_nlink)
			continue;
		close(take_fd(f->fd));
		if (r->again && r->again_file == i) {
			tracelog_reader_close(r->again);
			r->again = NULL;
		}
	}
}

/* Goes on in the next file; @why: the rest of this one, from @at on, cannot be read. */
static void next_file(struct tracelog_reader *r, uint64_t at, const char *why)
{
	const struct log_file *f = &r->file[r->current], *next = f + 1;

	if (r->next_packet && !r->torn) /* it was read: the first one of all says nothing again */
		r->has_before = true;
	if (why)
		tracelog_miss(r, f->size - at, why);
	else if (!f->size) /* how large it was is not known: as large as the one before */
		tracelog_miss(r, r->current && f[-1].size ? f[-1].size : 1, empty_file);
	if (next->number != f->number + 1) { /* how large they were is not known: as large as this one */
		uint64_t bytes = (next->number - f->number - 1) * (f->size ? f->size : 1);

		tracelog_miss(r, bytes, "the recorder removed them before they were read");
		r->outrun += r->following ? bytes : 0;
	}
	enter_file(r, r->current + 1);
	if (r->following)
		close_removed(r);
}

/*
 * The log is empty, and nobody writes into it. Or its last file is, though its recorder ended in order: one that is
 * killed may have begun a file.
 */
static bool is_hollow(const struct tracelog_reader *r)
{
	if (!r->has_packet)
		return r->dir < 0 || (!tracelog_mark_held(r->dir, NULL) && !tracelog_has_flow(r->dir));
	return !r->file[r->current].size && (r->dir < 0 || !tracelog_mark_exists(r->dir));
}

/* The files that are known have been read to @at of the last one; @why: what is there cannot be read. */
static struct wc_error *last_end(struct tracelog_reader *r, uint64_t at, const char *why, bool *wait)
{
	bool cut = why == cut_head || why == cut_packet, more = false;
	bool recording = (r->following || cut) && r->dir >= 0 && tracelog_mark_held(r->dir, NULL);
	struct wc_error *err = NULL;

	/* First whether somebody records, then whether there is more: in this order nothing is overlooked. */
	if (r->following)
		err = tracelog_reader_look(r, &more);
	if (err || more)
		return err;
	if (recording && r->following)
		*wait = true;
	else if (recording) /* the packet is being written: without it the log is whole */
		tracelog_reader_finish(r, LOG_END, at, NULL);
	else if (!why && is_hollow(r))
		tracelog_reader_finish(r, LOG_TRUNCATED, at, r->has_packet ? empty_file : empty_log);
	else
		tracelog_reader_finish(r, why ? LOG_TRUNCATED : LOG_END, at, why);
	return NULL;
}

static struct wc_error *file_end(struct tracelog_reader *r, uint64_t at, const char *why, bool *wait)
{
	if (r->current + 1 == r->nfiles)
		return last_end(r, at, why, wait);
	next_file(r, at, why);
	return NULL;
}

/* Bytes */

bool tracelog_reader_bytes(struct tracelog_reader *r, const struct log_file *f, uint64_t at, void *buf,
			   size_t len, struct wc_error **err)
{
	uint8_t *p = buf;

	*err = NULL;
	if (f->mem) {
		memcpy(buf, f->mem + at, len);
		return true;
	}
	while (len) {
		ssize_t n = pread(f->fd, p, len, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			*err = wc_error_errno(WC_ELOG, errno, "cannot read the log %s", r->path);
		if (n <= 0)
			return false;
		p += n;
		at += (uint64_t)n;
		len -= (size_t)n;
	}
	return true;
}

/* Has the @len bytes at @at of the current file in the buffer, from *@ret on. Fails as above. */
static bool tracelog_reader_load(struct tracelog_reader *r, uint64_t at, size_t len, uint8_t **ret,
				 struct wc_error **err)
{
	const struct log_file *f = &r->file[r->current];
	size_t want = len > WINDOW ? len : WINDOW;

	*err = NULL;
	if (at < r->buf_at || at - r->buf_at > r->buf_len || r->buf_len - (at - r->buf_at) < len) {
		if (want > f->size - at)
			want = (size_t)(f->size - at);
		r->buf_len = 0;
		if (!vec_reserve((void **)&r->buf, &r->buf_cap, want ? want : 1, 1)) {
			*err = &wc_enomem;
			return false;
		}
		if (!tracelog_reader_bytes(r, f, at, r->buf, want, err))
			return false;
		r->buf_at = at;
		r->buf_len = want;
	}
	*ret = r->buf + (at - r->buf_at);
	return true;
}

/* Packets */

const char *tracelog_check_head(const struct tracelog_identity *id, const uint8_t *head)
{
	uint64_t content = tracelog_head_u64(head, TRACELOG_OFF_CONTENT);
	uint64_t packet = tracelog_head_u64(head, TRACELOG_OFF_PACKET);
	uint64_t least = id->major > 1 ? TRACELOG_PACKET_START : TRACELOG_PACKET_HEAD;
	uint32_t magic, stream;

	memcpy(&magic, head, sizeof(magic));
	memcpy(&stream, head + TRACELOG_OFF_STREAM, sizeof(stream));
	if (magic != TRACELOG_MAGIC)
		return "there is no packet where one should start";
	if (memcmp(head + TRACELOG_OFF_UUID, id->uuid, sizeof(id->uuid)) != 0)
		return "a packet belongs to another log";
	if (stream != 0 || content > packet || content < 8 * least || content % 8 || packet % 8 ||
	    packet / 8 > TRACELOG_PACKET_MAX)
		return "the header of a packet is damaged";
	return NULL;
}

bool tracelog_checksum_fits(const uint8_t *packet, size_t len)
{
	uint16_t id;
	uint32_t sum;

	memcpy(&id, packet + TRACELOG_PACKET_HEAD, sizeof(id));
	memcpy(&sum, packet + TRACELOG_OFF_CHECKSUM, sizeof(sum));
	return id == TRACELOG_ID_CHECKSUM && sum == tracelog_packet_checksum(packet, len);
}

static const char became_shorter[] = "it became shorter while it was read";

/* What a packet that was lost may have said is not known from here on. */
static void tear(struct tracelog_reader *r, uint64_t at, uint64_t found, const char *why)
{
	const bool begins = r->ring && r->file[r->current].number > 0 && !at;

	tracelog_miss(r, found - at, why);
	r->torn = true;
	r->decoder.torn = true;
	/* Where what is re-emitted ends may be lost too: until something happens, what is about an earlier time
	 * may be told for the second time. */
	if (begins || r->reemitting) {
		r->reemitting = true;
		r->reports_past = false;
	}
	r->partial = false;
	r->next_packet = found;
	r->pos = r->end = 0;
}

/* The file is damaged at @at: goes on at the next whole packet from @from on, or in the next file, or ends. */
static struct wc_error *damaged(struct tracelog_reader *r, uint64_t at, uint64_t from, const char *why,
				bool *wait)
{
	struct wc_error *err;
	uint64_t found;

	if (!tracelog_find_packet(r, &r->file[r->current], from, &found, &err))
		return err ? err : file_end(r, at, why, wait);
	tear(r, at, found, why);
	return NULL;
}

/* Loads the packet at next_packet, or of an old log the part of it that exists; or goes on, or ends. */
static struct wc_error *load_packet(struct tracelog_reader *r, bool *wait)
{
	const uint64_t at = r->next_packet, left = r->file[r->current].size - at;
	uint64_t packet, content, time_ns;
	struct wc_error *err;
	const char *why;
	uint8_t *p;

	if (left == 0)
		return file_end(r, at, NULL, wait);
	if (left < TRACELOG_PACKET_HEAD)
		return file_end(r, at, cut_head, wait);
	if (!tracelog_reader_load(r, at, TRACELOG_PACKET_HEAD, &p, &err))
		return err ? err : file_end(r, at, became_shorter, wait);
	why = tracelog_check_head(&r->id, p);
	if (why)
		return damaged(r, at, at + 1, why, wait);

	packet = tracelog_head_u64(p, TRACELOG_OFF_PACKET) / 8;
	content = tracelog_head_u64(p, TRACELOG_OFF_CONTENT) / 8;
	/* Of a log that is followed, or has checksums, a packet counts when all of it is there: until then,
	 * each step looks at its header again. */
	r->partial = packet > left && r->id.major == 1 && !r->following;
	if (packet > left && !r->partial)
		return damaged(r, at, at + 1, cut_packet, wait);
	if (content > left)
		content = left;
	if (!tracelog_reader_load(r, at, content, &p, &err))
		return err ? err : file_end(r, at, became_shorter, wait);
	if (r->id.major > 1 && !tracelog_checksum_fits(p, content))
		return damaged(r, at, at + 1, "a packet is damaged: its checksum is not right", wait);
	time_ns = tracelog_packet_time(&r->id, p, content);
	if (r->id.major > 1 && !tracelog_comes_later(r, p, content))
		return damaged(r, at, at + 1, "a packet is older than the one before it", wait);
	if (r->id.major > 1) /* older packets have none, and may be shorter */
		memcpy(&r->last_sum, p + TRACELOG_OFF_CHECKSUM, sizeof(r->last_sum));
	tracelog_goes_on(r, time_ns);
	r->has_packet = true;
	r->packet_at = at;
	r->next_packet = at + (r->partial ? left : packet);
	r->pos = r->id.major > 1 ? TRACELOG_PACKET_START : TRACELOG_PACKET_HEAD;
	r->end = content;
	return NULL;
}

/* Events */

/* Takes the event at pos; false when it is not whole, *@why then says so. */
static bool take_event(struct tracelog_reader *r, struct tracelog_raw *ret, const char **why)
{
	size_t left = r->end - r->pos;
	uint8_t *p = r->buf + (r->packet_at - r->buf_at) + r->pos;
	uint32_t size = 0;

	if (left >= TRACELOG_EVENT_HEAD)
		memcpy(&size, p + TRACELOG_OFF_SIZE, sizeof(size));
	if (size < TRACELOG_EVENT_HEAD || size > left) {
		/* A zero size in a cut packet is damage as well, but "cut" is what the user can act on. */
		*why = r->partial ? "it ends in the middle of an event" : "an event is damaged";
		return false;
	}
	memcpy(&ret->id, p, sizeof(ret->id));
	memcpy(&ret->time_ns, p + TRACELOG_OFF_TIME, sizeof(ret->time_ns));
	ret->payload = p + TRACELOG_EVENT_HEAD;
	ret->len = size - TRACELOG_EVENT_HEAD;
	r->last_ns = ret->time_ns;
	r->last_at = r->packet_at + r->pos;
	r->last_file = r->current;
	r->pos += size;
	return true;
}

/* What the beginning of a file re-emits: is it news to whoever reads? */
static bool is_news(const struct tracelog_reader *r, enum event_type type)
{
	if (!r->reemitting)
		return true;
	if (r->has_before)
		return false;
	/* These two are about an earlier time: reported to those who did not see it. */
	return r->reports_past || (type != EVENT_LOST && type != EVENT_NOTE);
}

/* An event was decoded; DECODE_SKIPPED: nothing for whoever reads. */
static enum decode_result look_at(struct tracelog_reader *r, enum decode_result what, enum event_type type)
{
	switch (what) {
	case DECODE_REEMITTED_BEGIN:
		r->reemitting = true;
		r->reports_past = !r->has_any;
		return DECODE_SKIPPED;
	case DECODE_REEMITTED_END:
		r->reemitting = false;
		r->has_before = true;
		return DECODE_SKIPPED;
	case DECODE_EVENT:
		/* Such an event is never re-emitted. */
		if (r->reemitting && r->torn && event_is(type, EVENT_HAPPENS))
			r->reemitting = false;
		return is_news(r, type) ? DECODE_EVENT : DECODE_SKIPPED;
	case DECODE_UNKNOWN:
		r->left_out++;
		return DECODE_SKIPPED;
	default:
		return what;
	}
}

/* One step: DECODE_SKIPPED also when a packet was loaded or the end was found. */
static struct wc_error *tracelog_reader_step(struct tracelog_reader *r, struct trace_event *ret,
					     enum decode_result *what, bool *wait)
{
	uint64_t at = r->packet_at + r->pos, from = r->id.major > 1 ? r->next_packet : at + 1;
	struct tracelog_raw raw;
	struct wc_error *err;
	const char *why;

	*what = DECODE_SKIPPED;
	if (r->pos == r->end)
		return r->partial ? file_end(r, at, cut_packet, wait) : load_packet(r, wait);
	if (!take_event(r, &raw, &why))
		return damaged(r, at, from, why, wait);
	err = tracelog_decode(&r->decoder, &raw, ret, what);
	if (err)
		return err;
	*what = look_at(r, *what, ret->type);
	if (*what == DECODE_EVENT && ret->type == EVENT_PROCESS && ret->process.realtime_ns > ret->time_ns)
		r->realtime_ns = ret->process.realtime_ns - ret->time_ns;
	return *what == DECODE_DAMAGED ? damaged(r, at, from, "an event is damaged", wait) : NULL;
}

struct wc_error *tracelog_next(struct tracelog_reader *r, struct trace_event *ret, enum log_outcome *outcome)
{
	enum decode_result what;
	struct wc_error *err;
	bool wait = false;

	while (r->state == LOG_EVENT && !wait) {
		err = tracelog_reader_step(r, ret, &what, &wait);
		if (err)
			return err;
		if (what == DECODE_EVENT) {
			r->has_any = true;
			break;
		}
	}
	*outcome = wait ? LOG_WAIT : r->state;
	return NULL;
}

void tracelog_follow(struct tracelog_reader *r)
{
	if (r->dir >= 0)
		r->following = true;
}

double tracelog_progress(const struct tracelog_reader *r)
{
	uint64_t all = 0, at = r->done + r->packet_at + r->pos;
	size_t i;

	if (r->state != LOG_EVENT)
		return 1;
	for (i = 0; i < r->nfiles; i++)
		all += r->file[i].size;
	return at < all ? (double)at / (double)all : 1;
}

uint64_t tracelog_missed(const struct tracelog_reader *r, const char **why)
{
	if (why)
		*why = r->why_missed;
	return r->missed;
}

bool tracelog_is_rest(const struct tracelog_reader *r)
{
	return r->ring && r->file[0].number > 0;
}

uint64_t tracelog_ignored(const struct tracelog_reader *r, const char **why)
{
	if (why)
		*why = r->why;
	return r->ignored;
}

/* Reading again */

uint64_t tracelog_position(const struct tracelog_reader *r)
{
	return (uint64_t)r->last_file << POSITION_BITS | r->last_at;
}

/* The whole event at @at, into r->one; false: there is none any more, or *@err. */
static bool load_one(struct tracelog_reader *r, uint64_t at, struct tracelog_raw *ret, struct wc_error **err)
{
	const struct log_file *f = &r->file[0];
	uint8_t head[TRACELOG_EVENT_HEAD];
	uint32_t size;

	*err = NULL;
	if (at > f->size || f->size - at < sizeof(head) ||
	    !tracelog_reader_bytes(r, f, at, head, sizeof(head), err))
		return false;
	memcpy(&size, head + TRACELOG_OFF_SIZE, sizeof(size));
	if (size < sizeof(head) || size > TRACELOG_PACKET_MAX || size > f->size - at)
		return false;
	if (!vec_reserve((void **)&r->one, &r->one_cap, size, 1)) {
		*err = &wc_enomem;
		return false;
	}
	if (!tracelog_reader_bytes(r, f, at, r->one, size, err))
		return false;
	memcpy(&ret->id, head, sizeof(ret->id));
	memcpy(&ret->time_ns, head + TRACELOG_OFF_TIME, sizeof(ret->time_ns));
	ret->payload = r->one + sizeof(head);
	ret->len = size - sizeof(head);
	return true;
}

/* A second reader, at the beginning of the file @i. */
static struct wc_error *again_from_start(struct tracelog_reader *r, size_t i)
{
	scoped(tracelog_reader_closep) struct tracelog_reader *again = NULL;
	struct log_file f = r->file[i];
	struct wc_error *err;

	err = tracelog_reader_new(r->path, &again);
	if (err)
		return err;
	again->id = r->id;
	again->ring = again->decoder.ring = r->ring;
	if (f.fd >= 0) {
		f.fd = dup(f.fd);
		if (f.fd < 0)
			return wc_error_errno(WC_ELOG, errno, "cannot read the log %s again", r->path);
	}
	if (!vec_push(again->file, again->nfiles, again->cap, f)) {
		if (f.fd >= 0)
			close(f.fd);
		return &wc_enomem;
	}
	tracelog_reader_close(r->again);
	r->again = take_ptr(again);
	r->again_file = i;
	return NULL;
}

/*
 * The numbers of stacks mean something in one file only, and what they mean is reported in it: the file is read
 * from its beginning up to the event, or from where the last such request has come to.
 */
static struct wc_error *read_again_in_file(struct tracelog_reader *r, size_t i, uint64_t at,
					   struct trace_event *ret, enum log_outcome *outcome)
{
	struct wc_error *err = NULL;
	enum log_outcome got;

	*outcome = LOG_TRUNCATED;
	if (i >= r->nfiles || (r->file[i].fd < 0 && !r->file[i].mem))
		return NULL;
	if (!r->again || r->again_file != i || r->again->last_at >= at || r->again->state != LOG_EVENT)
		err = again_from_start(r, i);
	while (!err) {
		err = tracelog_next(r->again, ret, &got);
		if (err || got != LOG_EVENT || r->again->last_at > at)
			break;
		if (r->again->last_at == at) {
			*outcome = LOG_EVENT;
			break;
		}
	}
	return err;
}

struct wc_error *tracelog_read_again(struct tracelog_reader *r, uint64_t position, struct trace_event *ret,
				     enum log_outcome *outcome)
{
	const uint64_t at = position & ((1ull << POSITION_BITS) - 1);
	enum decode_result what;
	struct tracelog_raw raw;
	struct wc_error *err;

	if (r->ring || r->decoder.watch_moved)
		return read_again_in_file(r, position >> POSITION_BITS, at, ret, outcome);
	*outcome = LOG_TRUNCATED;
	if (position >> POSITION_BITS || !load_one(r, at, &raw, &err))
		return position >> POSITION_BITS ? NULL : err;
	err = tracelog_decode(&r->decoder, &raw, ret, &what);
	if (!err && what == DECODE_EVENT)
		*outcome = LOG_EVENT;
	return err;
}
