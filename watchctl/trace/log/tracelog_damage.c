/*
 * Behind a damaged packet the next one is looked for by what all packets of a log begin with: the magic number and
 * the log's uuid, twenty bytes that nothing else has. It is taken when its header makes sense, its checksum is right
 * (version 1 has none) and it is not older than what was read: a piece of the log that was copied to another place
 * is no part of the order.
 *
 * A hostile log can claim a packet of 16 MiB every 64 bytes: how much is summed up on such claims is bounded.
 */
#include "watchctl/trace/log/tracelog_damage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/vec.h"

#define WINDOW (256u << 10)
#define GAPS_MAX 1000u /* kept apart; what comes behind them is added to the last one */
#define PATTERN 20u    /* magic and uuid */
#define CHECK_TIMES 4  /* the size of the log, which may be summed up in vain */
#define CHECK_LEAST (64ull << 20)
#define NSEC_PER_SEC 1000000000ull

/* What is missing */

void tracelog_miss(struct tracelog_reader *r, uint64_t bytes, const char *why)
{
	bool merges = r->ngaps >= GAPS_MAX || (r->ngaps && !r->gap[r->ngaps - 1].to_ns);

	r->has_before = false;
	r->missed += bytes;
	if (!r->why_missed)
		r->why_missed = why;
	/* Nothing was read since the one before; or there are too many, or no memory, to tell them apart. */
	if (!merges && vec_push(r->gap, r->ngaps, r->gaps_cap,
				(struct log_gap){ .bytes = bytes, .from_ns = r->last_ns, .why = why }))
		return;
	if (!r->ngaps)
		return;
	r->gap[r->ngaps - 1].bytes += bytes;
	r->gap[r->ngaps - 1].to_ns = 0;
}

void tracelog_goes_on(struct tracelog_reader *r, uint64_t time_ns)
{
	struct log_gap *last = r->ngaps ? &r->gap[r->ngaps - 1] : NULL;

	if (last && !last->to_ns)
		last->to_ns = time_ns;
}

/* Looking for a packet */

uint64_t tracelog_packet_time(const struct tracelog_identity *id, const uint8_t *packet, uint64_t content)
{
	size_t at = id->major > 1 ? TRACELOG_PACKET_START : TRACELOG_PACKET_HEAD;

	return content >= at + TRACELOG_EVENT_HEAD ? tracelog_head_u64(packet, at + TRACELOG_OFF_TIME) : 0;
}

bool tracelog_comes_later(const struct tracelog_reader *r, const uint8_t *packet, uint64_t content)
{
	uint64_t time_ns = tracelog_packet_time(&r->id, packet, content);
	uint32_t sum;

	memcpy(&sum, packet + TRACELOG_OFF_CHECKSUM, sizeof(sum));
	/* All events of a small packet may be of one moment: then its copy is not older, but equal. */
	return !time_ns || time_ns > r->last_ns || (time_ns == r->last_ns && sum != r->last_sum);
}

/* Whether the packet that seems to begin at @at is one. */
static bool is_packet(struct tracelog_reader *r, const struct log_file *f, uint64_t at, struct wc_error **err)
{
	uint8_t head[TRACELOG_PACKET_HEAD];
	scoped(freep) uint8_t *packet = NULL;
	uint64_t content, size;
	bool is;

	if (f->size - at < TRACELOG_PACKET_HEAD ||
	    !tracelog_reader_bytes(r, f, at, head, TRACELOG_PACKET_HEAD, err) ||
	    tracelog_check_head(&r->id, head))
		return false;
	size = tracelog_head_u64(head, TRACELOG_OFF_PACKET) / 8;
	content = tracelog_head_u64(head, TRACELOG_OFF_CONTENT) / 8;
	if (size > f->size - at || content > r->may_check)
		return false;
	packet = malloc(content);
	if (!packet)
		*err = &wc_enomem;
	if (!packet || !tracelog_reader_bytes(r, f, at, packet, content, err))
		return false;
	is = r->id.major == 1 ||
	     (tracelog_checksum_fits(packet, content) && tracelog_comes_later(r, packet, content));
	if (!is)
		r->may_check -= content;
	return is;
}

static void allow_checks(struct tracelog_reader *r)
{
	size_t i;

	if (r->may_check_set)
		return;
	r->may_check_set = true;
	r->may_check = CHECK_LEAST;
	for (i = 0; i < r->nfiles; i++)
		r->may_check += CHECK_TIMES * r->file[i].size;
}

bool tracelog_find_packet(struct tracelog_reader *r, const struct log_file *f, uint64_t from, uint64_t *ret,
			  struct wc_error **err)
{
	const uint32_t magic = TRACELOG_MAGIC;
	scoped(freep) uint8_t *window = malloc(WINDOW);
	uint8_t pattern[PATTERN];

	*err = window ? NULL : &wc_enomem;
	memcpy(pattern, &magic, sizeof(magic));
	memcpy(pattern + TRACELOG_OFF_UUID, r->id.uuid, sizeof(r->id.uuid));
	allow_checks(r);
	if (!*err && from < f->size && is_packet(r, f, from, err)) {
		*ret = from;
		return true;
	}
	if (*err)
		return false;
	while (window && from < f->size && f->size - from >= TRACELOG_PACKET_HEAD) {
		size_t n = f->size - from < WINDOW ? (size_t)(f->size - from) : WINDOW;
		const uint8_t *p = window;

		if (!tracelog_reader_bytes(r, f, from, window, n, err))
			return false;
		while ((p = memmem(p, n - (size_t)(p - window), pattern, PATTERN))) {
			*ret = from + (uint64_t)(p - window);
			if (is_packet(r, f, *ret, err))
				return true;
			if (*err)
				return false;
			p++;
		}
		from += n < WINDOW ? n : n - (PATTERN - 1);
	}
	return false;
}

/* For whoever reads */

size_t tracelog_gaps(const struct tracelog_reader *r, const struct log_gap **ret)
{
	*ret = r->gap;
	return r->ngaps;
}

void tracelog_damage(const struct tracelog_reader *r, struct log_damage *ret)
{
	*ret = (struct log_damage){
		.ignored = r->ignored,
		.why = r->why,
		.missed = r->missed,
		.outrun = r->outrun,
		.why_missed = r->why_missed,
		.last_ns = r->last_ns,
		.left_out = r->left_out,
		.ngaps = r->ngaps,
		.realtime_ns = r->realtime_ns,
	};
	if (r->ngaps) {
		ret->from_ns = r->gap[0].from_ns;
		ret->to_ns = r->gap[r->ngaps - 1].to_ns;
	}
}

static void time_text(uint64_t time_ns, uint64_t realtime_ns, char *buf, size_t cap)
{
	const uint64_t ns = time_ns + realtime_ns;
	const time_t sec = (time_t)(ns / NSEC_PER_SEC);
	char text[32];
	struct tm tm;

	if (realtime_ns && localtime_r(&sec, &tm) && strftime(text, sizeof(text), "%H:%M:%S", &tm))
		snprintf(buf, cap, "%s.%06llu", text, (unsigned long long)(ns % NSEC_PER_SEC / 1000));
	else
		snprintf(buf, cap, "%llu.%06llu s of the clock", (unsigned long long)(time_ns / NSEC_PER_SEC),
			 (unsigned long long)(time_ns % NSEC_PER_SEC / 1000));
}

void log_span_text(uint64_t from_ns, uint64_t to_ns, uint64_t realtime_ns, char *buf, size_t cap)
{
	const uint64_t us = to_ns > from_ns ? (to_ns - from_ns) / 1000 : 0;
	char from[64], to[64];

	time_text(from_ns, realtime_ns, from, sizeof(from));
	time_text(to_ns, realtime_ns, to, sizeof(to));
	if (from_ns && to_ns)
		snprintf(buf, cap, "from %s to %s (%llu.%06llu s)", from, to,
			 (unsigned long long)(us / 1000000), (unsigned long long)(us % 1000000));
	else if (from_ns)
		snprintf(buf, cap, "from %s on", from);
	else if (to_ns)
		snprintf(buf, cap, "up to %s", to);
	else
		snprintf(buf, cap, "at an unknown time");
}

bool log_damage_is(const struct log_damage *d)
{
	return d->why || d->why_missed || d->why_calls;
}

static void end_text(const struct log_damage *d, char *buf, size_t cap)
{
	char span[160];

	if (!d->ignored) {
		snprintf(buf, cap, "%s", d->why);
		return;
	}
	log_span_text(d->last_ns, 0, d->realtime_ns, span, sizeof(span));
	snprintf(buf, cap, "the last %llu bytes were ignored, because %s%s%s%s",
		 (unsigned long long)d->ignored, d->why, d->last_ns ? " (nothing is known " : "",
		 d->last_ns ? span : "", d->last_ns ? ")" : "");
}

static void middle_text(const struct log_damage *d, char *buf, size_t cap)
{
	char span[160];

	log_span_text(d->from_ns, d->to_ns, d->realtime_ns, span, sizeof(span));
	if (d->ngaps > 1)
		snprintf(buf, cap,
			 "about %llu bytes in it are missing, at %zu places %s; the first because %s",
			 (unsigned long long)d->missed, d->ngaps, span, d->why_missed);
	else
		snprintf(buf, cap, "about %llu bytes in it are missing, %s: %s",
			 (unsigned long long)d->missed, span, d->why_missed);
}

static void calls_text(const struct log_damage *d, char *buf, size_t cap)
{
	int n = snprintf(buf, cap, "of the calls, ");

	if (d->call_packets || d->call_bytes)
		n += snprintf(
			buf + n, cap - (size_t)n,
			"%llu packets in the middle of files and %llu bytes at their ends cannot be read",
			(unsigned long long)d->call_packets, (unsigned long long)d->call_bytes);
	if (d->calls_left_out)
		n += snprintf(buf + n, cap - (size_t)n, "%s%llu are left out",
			      d->call_packets || d->call_bytes ? ", " : "",
			      (unsigned long long)d->calls_left_out);
	snprintf(buf + n, cap - (size_t)n, ": %s", d->why_calls);
}

void log_damage_text(const struct log_damage *d, char *buf, size_t cap)
{
	char middle[400] = "", end[400] = "", left_out[200] = "", calls[400] = "";

	if (d->why_missed)
		middle_text(d, middle, sizeof(middle));
	if (d->why)
		end_text(d, end, sizeof(end));
	if (d->left_out)
		snprintf(left_out, sizeof(left_out),
			 "; %llu later events are left out: what they refer to was in the missing part",
			 (unsigned long long)d->left_out);
	if (d->why_calls)
		calls_text(d, calls, sizeof(calls));
	snprintf(buf, cap, "%s%s%s%s%s%s", middle, *middle && *end ? "; " : "", end, left_out,
		 (d->why || d->why_missed) && *calls ? "; " : "", calls);
}

struct wc_error *log_damage_error(const char *path, const struct log_damage *d)
{
	char text[1500];

	if (!log_damage_is(d))
		return NULL;
	log_damage_text(d, text, sizeof(text));
	return wc_error_new(WC_ELOG, "the log %s is not whole: %s", path, text);
}
