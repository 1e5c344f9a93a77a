/*
 * Each CPU has a cursor: the packet that it is in, and its next event there. A heap has those cursors that have an event, the
 * earliest on top. Names of the beginning, those of the oldest generation from where is read, come before all of them.
 *
 * Packets are read, not mapped: who cuts a file must not be able to make us fault.
 */
#include "watchctl/trace/flow/flow_reader.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/trace/flow/flow_decode.h"
#include "watchctl/trace/flow/flow_packets.h"

#define NO_GENERATION UINT64_MAX

struct cursor {
	struct flow_list *list;
	size_t at;	     /* the next packet */
	int fd;		     /* -1, or the file of the packet that was read last */
	uint64_t generation; /* whose file it is */
	bool is_torn;	     /* events are missing in front of the packet: this is to be told */
	uint64_t now_ns;     /* of the next event */
	uint32_t tid;
	uint32_t *word; /* the next event */
	uint32_t *end;
	struct flow_packet *packet;
};

struct flow_reader {
	struct flow_packets packets;
	struct cursor *cursor; /* one for each list */
	struct cursor *names;  /* that of the names, or NULL */
	bool is_begin;	       /* names of the beginning come */
	uint64_t names_generation;
	struct cursor **heap;
	size_t nheap;
};

/* Packets */

static bool read_whole(int fd, const struct flow_place *place, struct flow_packet *p)
{
	uint8_t *to = (uint8_t *)p;
	size_t got = 0;
	ssize_t n;

	while (got < place->bytes &&
	       (n = pread(fd, to + got, place->bytes - got, (off_t)(place->offset + got))) > 0)
		got += (size_t)n;
	return got == place->bytes && p->packet_bits / 8 == place->bytes &&
	       flow_packet_checksum(p, place->bytes) == p->crc32c;
}

static void use_file(struct flow_reader *r, struct cursor *c, uint32_t generation)
{
	if (c->fd >= 0 && c->generation == generation)
		return;
	if (c->fd >= 0)
		close(c->fd);
	c->fd = flow_packets_file(&r->packets, generation, c->list->cpu);
	c->generation = generation;
}

/* False: it is damaged, and nothing in it is believed. */
static bool enter_packet(struct flow_reader *r, struct cursor *c, struct flow_place *place)
{
	use_file(r, c, place->generation);
	if (c->fd < 0 || !read_whole(c->fd, place, c->packet)) {
		if (!place->is_bad)
			flow_packets_note_gap(&r->packets,
					      c->fd < 0 ? "a flight recorder has removed a file meanwhile"
							: "a packet is not what was written");
		place->is_bad = true;
		return false;
	}
	c->word = c->packet->word;
	c->end = c->word + (place->bytes - sizeof(*c->packet)) / sizeof(*c->word);
	c->now_ns = place->begin_ns;
	c->tid = c->packet->tid;
	return true;
}

/* Where damage was not found in front of @place. Behind a packet that is damaged its number says nothing. */
static void note_gap(struct flow_reader *r, const struct cursor *c, struct flow_place *place)
{
	const bool is_known = place->is_noted || (c->at > 1 && place[-1].is_bad);

	if (place->follows_gap && !is_known)
		flow_packets_note_gap(&r->packets, "packets are missing");
	place->is_noted = true;
}

static bool next_packet(struct flow_reader *r, struct cursor *c)
{
	while (c->at < c->list->n) {
		struct flow_place *place = &c->list->place[c->at++];

		if (place->follows_gap && c->at > 1)
			c->is_torn = true;
		if (enter_packet(r, c, place)) {
			note_gap(r, c, place);
			return true;
		}
		c->is_torn = true;
	}
	c->word = c->end = NULL;
	return false;
}

/* Events of a CPU */

/* The rest of the packet cannot be read: its checksum is right, so it is of a newer version. */
static void leave_packet(struct flow_reader *r, struct cursor *c)
{
	flow_packets_note_gap(&r->packets, "there are events that this version does not know");
	c->word = c->end;
	c->is_torn = true;
}

static uint32_t words_left(const struct cursor *c)
{
	return (uint32_t)(c->end - c->word);
}

/* Of the event at c->word; 0: it is none. */
static uint32_t words_at(const struct cursor *c)
{
	const uint32_t left = words_left(c), words = flow_words(c->word[0], left > 1 ? c->word[1] : 0);

	return words <= left ? words : 0;
}

/* To the event at c->word, or the first one behind it. False: there are no more. */
static bool settle(struct flow_reader *r, struct cursor *c)
{
	for (;;) {
		if (c->word == c->end && !next_packet(r, c))
			return false;
		if (c->is_torn)
			return true; /* to be told first */
		if (c->word == c->end)
			continue;
		if (!words_at(c)) {
			leave_packet(r, c);
			continue;
		}
		if ((*c->word & FLOW_ID_MASK) != FLOW_EXTENDED) {
			c->now_ns = flow_time_after(c->now_ns, *c->word);
			return true;
		}
		c->now_ns = flow_time(c->word);
		c->word += FLOW_TIME_WORDS;
	}
}

/* A gap is told as a `lost` without a number. */
static void take_gap(struct cursor *c, struct flow_event *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->id = FLOW_LOST;
	ret->time_ns = c->now_ns;
	ret->cpu = c->list->cpu;
	ret->tid = -1;
	c->is_torn = false;
}

static void take(struct cursor *c, struct flow_event *ret)
{
	if (c->is_torn) {
		take_gap(c, ret);
		return;
	}
	flow_decode(c->word, ret);
	ret->time_ns = c->now_ns;
	ret->cpu = c->list->cpu;
	ret->tid = (int32_t)c->tid;
	c->tid = flow_runs_then(c->word, c->tid);
	c->word += words_at(c);
}

/* The heap */

static bool is_before(const struct cursor *a, const struct cursor *b)
{
	return a->now_ns != b->now_ns ? a->now_ns < b->now_ns : a->list->cpu < b->list->cpu;
}

static void sift_down(struct flow_reader *r, size_t i)
{
	struct cursor *const c = r->heap[i];

	for (;;) {
		size_t child = 2 * i + 1;

		if (child + 1 < r->nheap && is_before(r->heap[child + 1], r->heap[child]))
			child++;
		if (child >= r->nheap || !is_before(r->heap[child], c))
			break;
		r->heap[i] = r->heap[child];
		i = child;
	}
	r->heap[i] = c;
}

static void fill_heap(struct flow_reader *r)
{
	r->nheap = 0;
	for (size_t i = 0; i < r->packets.n; i++)
		if (!(r->is_begin && &r->cursor[i] == r->names) && settle(r, &r->cursor[i]))
			r->heap[r->nheap++] = &r->cursor[i];
	for (size_t i = r->nheap / 2; i-- > 0;)
		sift_down(r, i);
}

/* The names of the beginning are over: those that came later have their place among the others. */
static void end_of_begin(struct flow_reader *r)
{
	r->is_begin = false;
	fill_heap(r);
}

static bool is_of_begin(const struct flow_reader *r)
{
	const struct cursor *c = r->names;

	return c->at && c->list->place[c->at - 1].generation <= r->names_generation;
}

bool flow_reader_next(struct flow_reader *r, struct flow_event *ret)
{
	if (r->is_begin) {
		if (settle(r, r->names) && is_of_begin(r)) {
			take(r->names, ret);
			return true;
		}
		end_of_begin(r);
	}
	if (!r->nheap)
		return false;
	take(r->heap[0], ret);
	if (!settle(r, r->heap[0]))
		r->heap[0] = r->heap[--r->nheap];
	if (r->nheap)
		sift_down(r, 0);
	return true;
}

/* Seeking */

/* The first packet of @l that ends at or behind @time_ns. */
static size_t packet_at(const struct flow_list *l, uint64_t time_ns)
{
	size_t low = 0, high = l->n;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (l->place[middle].end_ns < time_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Those from which @c goes on at @time_ns, with all events before it in the same packet stepped over. */
static void cursor_seek(struct flow_reader *r, struct cursor *c, uint64_t time_ns)
{
	c->at = packet_at(c->list, time_ns);
	c->word = c->end = NULL;
	while (settle(r, c) && c->now_ns < time_ns) {
		if (c->is_torn) {
			c->is_torn = false;
			continue;
		}
		c->tid = flow_runs_then(c->word, c->tid);
		c->word += words_at(c);
	}
	c->is_torn = false;
}

/* The generation that has @time_ns, as far as there are names of it: its first packet of names. */
static size_t names_at(const struct flow_list *l, uint64_t time_ns)
{
	size_t first = 0;

	for (size_t i = 0; i < l->n && l->place[i].begin_ns <= time_ns; i++)
		if (l->place[i].generation != l->place[first].generation)
			first = i;
	return first;
}

static void names_seek(struct flow_reader *r, uint64_t time_ns)
{
	struct cursor *c = r->names;

	r->is_begin = c && c->list->n;
	if (!r->is_begin)
		return;
	c->at = names_at(c->list, time_ns);
	c->word = c->end = NULL;
	c->is_torn = false;
	r->names_generation = c->list->place[c->at].generation;
}

void flow_reader_seek(struct flow_reader *r, uint64_t time_ns)
{
	for (size_t i = 0; i < r->packets.n; i++)
		if (&r->cursor[i] != r->names)
			cursor_seek(r, &r->cursor[i], time_ns);
	names_seek(r, time_ns);
	if (!r->is_begin)
		fill_heap(r);
}

/* Opening */

static struct wc_error *no_events(const char *path, const struct flow_packets *p)
{
	if (p->damage.why)
		return wc_error_new(WC_ELOG, "the log %s has no system events that can be read: %s", path,
				    p->damage.why);
	if (p->is_described)
		return wc_error_hint(wc_error_new(WC_ELOG,
						  "the log %s is a recording of the system's events, and has "
						  "none: its recorder ended before it wrote any",
						  path),
				     "record again");
	return wc_error_hint(
		wc_error_new(WC_ELOG, "the log %s has no system events: it is a recording of other things",
			     path),
		"`watchctl report %s` shows them", path);
}

static struct wc_error *make_cursors(struct flow_reader *r)
{
	const size_t n = r->packets.n;

	r->cursor = calloc(n, sizeof(*r->cursor));
	r->heap = calloc(n, sizeof(struct cursor *));
	if (!r->cursor || !r->heap)
		return &wc_enomem;
	for (size_t i = 0; i < n; i++) {
		struct cursor *c = &r->cursor[i];

		*c = (struct cursor){ .list = &r->packets.list[i],
				      .fd = -1,
				      .generation = NO_GENERATION,
				      .tid = UINT32_MAX,
				      .packet = malloc(FLOW_PACKET_BYTES) };
		if (c->list->cpu == FLOW_CPU_NAMES)
			r->names = c;
	}
	for (size_t i = 0; i < n; i++)
		if (!r->cursor[i].packet)
			return &wc_enomem;
	return NULL;
}

static bool has_packets(const struct flow_packets *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->list[i].n)
			return true;
	return false;
}

struct wc_error *flow_reader_open(const char *path, struct flow_reader **ret)
{
	scoped(flow_reader_closep) struct flow_reader *r = calloc(1, sizeof(*r));
	struct wc_error *err;

	if (!r)
		return &wc_enomem;
	err = flow_packets_open(path, &r->packets);
	if (err)
		return err;
	if (!has_packets(&r->packets))
		return no_events(path, &r->packets);
	err = make_cursors(r);
	if (err)
		return err;
	names_seek(r, 0);
	if (!r->is_begin)
		fill_heap(r);
	*ret = take_ptr(r);
	return NULL;
}

static void free_cursors(struct flow_reader *r)
{
	for (size_t i = 0; r->cursor && i < r->packets.n; i++) {
		if (r->cursor[i].packet && r->cursor[i].fd >= 0)
			close(r->cursor[i].fd);
		free(r->cursor[i].packet);
	}
	free(r->cursor);
	free(r->heap);
}

void flow_reader_close(struct flow_reader *r)
{
	if (!r)
		return;
	free_cursors(r);
	flow_packets_deinit(&r->packets);
	free(r);
}

void flow_reader_closep(struct flow_reader **r)
{
	flow_reader_close(*r);
}

/* Knowledge from the heads */

static void span_of(const struct flow_list *l, struct flow_span *s)
{
	const struct flow_place *first = l->place, *last = l->place + l->n - 1;

	s->cpus++;
	s->lost += last->discarded;
	if (!s->begin_ns || first->begin_ns < s->begin_ns)
		s->begin_ns = first->begin_ns;
	if (last->end_ns > s->end_ns)
		s->end_ns = last->end_ns;
}

void flow_reader_span(const struct flow_reader *r, struct flow_span *ret)
{
	*ret = (struct flow_span){ .realtime_ns = r->packets.id.realtime_ns,
				   .bytes = r->packets.bytes,
				   .is_ring = r->packets.first_generation > 0 };
	for (size_t i = 0; i < r->packets.n; i++)
		if (r->packets.list[i].n && r->packets.list[i].cpu != FLOW_CPU_NAMES)
			span_of(&r->packets.list[i], ret);
}

void flow_reader_damage(const struct flow_reader *r, struct flow_damage *ret)
{
	*ret = r->packets.damage;
}
