#include "watchctl/trace/tags/tag_ring.h"

#include <string.h>

#include "watchctl/code/unwind/unwind_rule.h"

/* A record is written in nanoseconds, unless its thread does not run meanwhile. */
#define WRITING_NS 20000000ull	  /* with others behind it: its thread has run, but for a signal handler */
#define PATIENCE_NS 1000000000ull /* with none */
#define HEAD_WORDS (sizeof(struct capture_record) / 8)

typedef uint64_t __attribute__((aligned(1), may_alias)) any_word;

/* Upwards, word by word; single bytes only where no record is. */
static void copy_up(void *to, const void *from, size_t len)
{
	const volatile any_word *word = from;
	const volatile uint8_t *byte;
	size_t i;

	for (i = 0; i < len / 8; i++) {
		uint64_t v = word[i];

		memcpy((uint8_t *)to + 8 * i, &v, sizeof(v));
	}
	byte = (const volatile uint8_t *)from + 8 * i;
	for (i *= 8; i < len; i++)
		((uint8_t *)to)[i] = *byte++;
}

static bool read_self(void *ctx, uint64_t addr, void *buf, size_t len)
{
	copy_up(buf, (const void *)(uintptr_t)addr, len);
	return true;
}

/* What is written are single numbers, at their natural alignment. */
static bool write_self(void *ctx, uint64_t addr, const void *buf, size_t len)
{
	uint64_t wide;
	uint32_t narrow;

	if (len == sizeof(wide)) {
		memcpy(&wide, buf, sizeof(wide));
		__atomic_store_n((uint64_t *)(uintptr_t)addr, wide, __ATOMIC_RELEASE);
		return true;
	}
	if (len != sizeof(narrow))
		return false;
	memcpy(&narrow, buf, sizeof(narrow));
	__atomic_store_n((uint32_t *)(uintptr_t)addr, narrow, __ATOMIC_RELEASE);
	return true;
}

const struct tag_memory tag_memory_self = { read_self, write_self, NULL };

static bool is_ring_size(uint64_t size)
{
	return size >= CAPTURE_RING_MIN && size <= CAPTURE_RING_MAX && !(size & (size - 1));
}

static bool positions_fit(const struct capture_ring *h, uint64_t tail)
{
	return !(h->head % 8) && !(tail % 8) && h->head - tail <= h->size;
}

static bool write_tail(const struct tag_ring *r, const struct tag_memory *m)
{
	return m->write(m->ctx, r->address + offsetof(struct capture_ring, tail), &r->tail, sizeof(r->tail));
}

bool tag_ring_begin(struct tag_ring *r, const struct tag_memory *m, uint64_t address, bool skip)
{
	struct capture_ring h;

	if (address % 64 || !m->read(m->ctx, address, &h, sizeof(h)) || !is_ring_size(h.size))
		return false;
	*r = (struct tag_ring){
		.address = address,
		.size = h.size,
		.head = h.head,
		.tail = skip ? h.head : h.tail,
		.owner = h.owner,
		.lies = !positions_fit(&h, skip ? h.head : h.tail),
	};
	if (skip) {
		r->calls_before = r->calls = h.calls;
		r->lost_before = r->lost = h.lost;
		return r->lies || write_tail(r, m);
	}
	return true;
}

/* The record at @buf is that of @position, whole, and what it says of itself agrees. */
static bool is_whole(const uint8_t *buf, size_t len, uint64_t position)
{
	struct capture_record r;
	unsigned int need;

	if (len < sizeof(r))
		return false;
	memcpy(&r, buf, sizeof(r));
	if (r.position != (uint32_t)(position / 8) || r.words < HEAD_WORDS || 8u * r.words > len)
		return false;
	if (r.flags & CAPTURE_OWNER)
		return r.flags == CAPTURE_OWNER && r.words >= HEAD_WORDS + 2;
	need = HEAD_WORDS + !!(r.flags & CAPTURE_HAS_VALUE) + r.nframes;
	return !(r.flags & ~(CAPTURE_NAMED | CAPTURE_HAS_VALUE)) && r.nframes >= 1 &&
	       r.nframes <= CAPTURE_FRAMES && need <= r.words && r.walk_end <= WALK_END_NOT_ASCENDING;
}

/* How many bytes of whole records there are, of those that begin before @limit. Counts the captures. */
static size_t whole_records(const uint8_t *buf, size_t len, size_t limit, uint64_t position,
			    uint64_t *captures)
{
	const struct capture_record *r;
	size_t at = 0;

	while (at < limit && is_whole(buf + at, len - at, position + at)) {
		r = (const struct capture_record *)(const void *)(buf + at);
		*captures += !(r->flags & CAPTURE_OWNER);
		at += 8u * r->words;
	}
	return at;
}

static bool read_data(const struct tag_ring *r, const struct tag_memory *m, uint64_t position, void *buf,
		      size_t len)
{
	uint64_t at = r->address + CAPTURE_RING_HEAD + (position & (r->size - 1));

	return m->read(m->ctx, at, buf, len);
}

/* Bytes from @position to where the data begins anew. */
static size_t lap_left(const struct tag_ring *r, uint64_t position)
{
	return r->size - (position & (r->size - 1));
}

/*
 * Of the @n bytes at tail, those that are whole records. At the end of the data, the last record reaches
 * over it: the one behind it begins that much after the beginning.
 */
static bool take_whole(struct tag_ring *r, const struct tag_memory *m, uint8_t *buf, size_t n, size_t *ret)
{
	size_t lap = lap_left(r, r->tail), first = n, done;

	if (first > lap + CAPTURE_RECORD_MAX)
		first = lap + CAPTURE_RECORD_MAX;
	if (!read_data(r, m, r->tail, buf, first))
		return false;
	done = whole_records(buf, first, lap, r->tail, &r->recorded);
	if (done >= lap && done < n) {
		if (!read_data(r, m, r->tail + done, buf + done, n - done))
			return false;
		done += whole_records(buf + done, n - done, n - done, r->tail + done, &r->recorded);
	}
	*ret = done;
	return true;
}

/* The first whole record in [@from, @end); @end when there is none. */
static bool find_whole(const struct tag_ring *r, const struct tag_memory *m, uint8_t *buf, uint64_t from,
		       uint64_t end, uint64_t *ret)
{
	while (from < end) {
		size_t lap = lap_left(r, from), len = end - from, at;

		if (len > lap + CAPTURE_RECORD_MAX)
			len = lap + CAPTURE_RECORD_MAX;
		if (!read_data(r, m, from, buf, len))
			return false;
		for (at = 0; at < lap && at < len; at += 8) {
			if (is_whole(buf + at, len - at, from + at)) {
				*ret = from + at;
				return true;
			}
		}
		from += at;
	}
	*ret = end;
	return true;
}

/* Keeps in r->overdue the head of a while ago. What begins before it had time enough. */
static void remember_head(struct tag_ring *r, uint64_t now_ns)
{
	if (now_ns - r->marked_ns < WRITING_NS)
		return;
	r->overdue = r->marked;
	r->marked = r->head;
	r->marked_ns = now_ns;
}

/*
 * The record at tail is not whole, though the head, @n bytes or more behind it, is further on. It is passed
 * over for the sake of those behind it when it has had time enough, or when the room becomes scarce. When
 * there are none, nobody is kept waiting: then its thread may have been stopped just there.
 */
static bool pass_over(struct tag_ring *r, const struct tag_memory *m, uint8_t *buf, size_t n, uint64_t now_ns,
		      bool *ret)
{
	bool overdue = r->hurry || r->tail < r->overdue || r->head - r->tail > r->size / 2;
	uint64_t next, end = r->tail + n;

	*ret = false;
	if (!r->stuck_ns)
		r->stuck_ns = now_ns;
	if (!find_whole(r, m, buf, r->tail + 8, end, &next))
		return false;
	if (next == end ? !r->hurry && now_ns - r->stuck_ns < PATIENCE_NS : !overdue)
		return true;
	r->tail = next;
	r->stuck_ns = 0;
	*ret = true;
	return true;
}

/* Fills @buf, until there is no more or no room for more. */
static bool take_all(struct tag_ring *r, const struct tag_memory *m, uint8_t *buf, size_t room,
		     uint64_t now_ns, size_t *len)
{
	size_t n, done;
	bool passed;

	for (;;) {
		n = r->head - r->tail < room - *len ? r->head - r->tail : room - *len;
		if (!n)
			return true;
		if (!take_whole(r, m, buf + *len, n, &done))
			return false;
		if (done) {
			r->stuck_ns = 0;
			r->tail += done;
			*len += done;
			continue;
		}
		if (n < r->head - r->tail && n < TAG_RING_ROOM_MIN)
			return true; /* it may be only the buffer that is too short */
		if (!pass_over(r, m, buf + *len, n, now_ns, &passed))
			return false;
		if (!passed)
			return true;
	}
}

bool tag_ring_take(struct tag_ring *r, const struct tag_memory *m, uint8_t *buf, size_t room, uint64_t now_ns,
		   size_t *len)
{
	uint64_t tail = r->tail;
	struct capture_ring h;

	*len = 0;
	if (!m->read(m->ctx, r->address, &h, sizeof(h)))
		return false;
	r->calls = h.calls;
	r->lost = h.lost;
	r->lies |= h.size != r->size || !positions_fit(&h, r->tail);
	if (r->lies)
		return true;
	r->head = h.head;
	remember_head(r, now_ns);
	if (!take_all(r, m, buf, room & ~(size_t)7, now_ns, len))
		return false;
	return r->tail == tail || write_tail(r, m);
}

uint64_t tag_ring_calls(const struct tag_ring *r)
{
	return r->calls - r->calls_before;
}

uint64_t tag_ring_lost(const struct tag_ring *r)
{
	return r->lost - r->lost_before;
}
