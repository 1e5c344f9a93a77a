/*
 * The program owns the memory that captures are collected from, and may write anything there: what is taken
 * out is whole and inside our own copy, and every poll comes to its end.
 *
 * Input: 1 byte of flags; 2 bytes of `head` and 2 of `tail` in 8-byte words; 1 byte that spoils the ring's
 * size; the rest is the ring's data. Where the flags say so, every record that the sizes lead to gets the
 * position that the library would write: noise alone never would. Flag 2 goes through a whole collector,
 * names and all.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/code/unwind/unwind_rule.h"
#include "watchctl/trace/tags/tag_collector.h"

#define SIZE CAPTURE_RING_MIN
#define ROOM (SIZE + 8192u)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct program {
	struct capture_descriptor descriptor;
	uint32_t flag;
	struct capture_control control;
	struct capture_name names[CAPTURE_NAMES];
	_Alignas(64) uint8_t ring[CAPTURE_RING_HEAD + SIZE + 4096];
};

static bool gone;	      /* the program */
static volatile uint64_t sum; /* so that the reads are made */

static void require(bool claim)
{
	if (!claim)
		abort();
}

static bool inside(const struct program *p, uint64_t addr, size_t len)
{
	uint64_t start = (uintptr_t)p;

	return !gone && addr >= start && addr - start <= sizeof(*p) && len <= sizeof(*p) - (addr - start);
}

static bool read_memory(void *ctx, uint64_t addr, void *buf, size_t len)
{
	if (!inside(ctx, addr, len))
		return false;
	memcpy(buf, (const void *)(uintptr_t)addr, len);
	return true;
}

static bool write_memory(void *ctx, uint64_t addr, const void *buf, size_t len)
{
	if (!inside(ctx, addr, len))
		return false;
	memcpy((void *)(uintptr_t)addr, buf, len);
	return true;
}

/* Follows the sizes, as the library would have laid the records. */
static void stamp(uint8_t *ring, uint64_t from, uint64_t to)
{
	while (from < to) {
		uint8_t *at = ring + CAPTURE_RING_HEAD + (from & (SIZE - 1));
		uint32_t position = (uint32_t)(from / 8);

		memcpy(at, &position, sizeof(position));
		if (!at[4])
			return;
		from += 8u * at[4];
	}
}

static void check_records(const uint8_t *buf, size_t len)
{
	size_t at = 0, next;

	while (at < len) {
		const struct capture_record *r = tag_record_next(buf, at, &next);
		unsigned int values = !!(r->flags & CAPTURE_HAS_VALUE), i;

		require(next > at && next <= len);
		if (!(r->flags & CAPTURE_OWNER)) {
			require(r->nframes >= 1 && r->nframes <= CAPTURE_FRAMES);
			require(8u * (3 + values + r->nframes) <= next - at);
			require(r->walk_end <= WALK_END_NOT_ASCENDING);
		}
		for (i = 0; i < values + r->nframes; i++)
			sum += r->rest[i];
		at = next;
	}
	require(at == len);
}

static void drain(struct program *p)
{
	const struct tag_memory memory = { read_memory, write_memory, p };
	uint64_t now = 1, taken = 0, tail;
	struct tag_ring r;
	uint8_t *buf;
	size_t len;

	if (!tag_ring_begin(&r, &memory, (uintptr_t)p->ring, false))
		return;
	do {
		buf = malloc(ROOM); /* its own, so that a read beyond is seen */
		tail = r.tail;
		require(buf && tag_ring_take(&r, &memory, buf, ROOM, now, &len));
		check_records(buf, len);
		free(buf);
		now += 600000000;
		taken += len;
		require(taken <= SIZE);
	} while (!r.lies && (r.tail != tail || r.stuck_ns));
	require(r.lies || r.tail == r.head || r.tail > r.head);
}

static struct wc_error *put(void *ctx, const struct trace_event *e)
{
	uint32_t i;

	if (e->type == EVENT_TAG && e->tag.name)
		sum += strlen(e->tag.name);
	if (e->type == EVENT_THREAD)
		sum += strlen(e->thread.comm);
	if (e->type == EVENT_CAPTURE) {
		require(e->capture.nframes >= 1 && e->capture.nframes <= STACK_MAX);
		for (i = 0; i < e->capture.nframes; i++)
			sum += e->capture.frame[i];
	}
	return NULL;
}

static void name_thread(void *ctx, uint32_t owner, struct tag_thread *ret)
{
	ret->pid = 1;
}

/* Everything is laid after the start, as by a program that began to lie then. */
static void collect(struct program *p, const struct program *lies)
{
	struct tag_table tags = { 0 };
	const struct tag_host host = { .memory = { read_memory, write_memory, p },
				       .sink = { put, NULL },
				       .tags = &tags,
				       .thread = name_thread };
	const struct tag_settings settings = { 64, SIZE, 1, 1000000000, false };
	struct tag_collector *c = NULL;
	struct tag_counts counts;
	struct tag_poll poll;
	int i;

	require(!tag_collector_open(&host, (uintptr_t)p, (uintptr_t)p, (uintptr_t)(p + 1), &c) && c);
	require(!tag_collector_start(c, &settings, NULL));
	memcpy(p->ring, lies->ring, sizeof(p->ring));
	memcpy(p->names, lies->ring, sizeof(p->names) < sizeof(p->ring) ? sizeof(p->names) : sizeof(p->ring));
	p->control.ring[0] = (uintptr_t)p->ring;
	p->control.ring[1] = (uintptr_t)p->ring + SIZE / 2; /* in the middle of the other's data */
	p->control.nrings = 2;
	for (i = 0; i < 3; i++)
		require(!tag_collector_poll(c, &poll));
	gone = true; /* at the end it would be waited for: too long for a fuzzer */
	require(!tag_collector_stop(c));
	gone = false;
	tag_collector_counts(c, &counts);
	require(counts.counted ==
		counts.recorded + counts.lost_full + counts.lost_no_ring + counts.lost_unfinished);
	tag_collector_free(c);
	tag_table_deinit(&tags);
}

static struct program *new_program(void)
{
	struct program *p = aligned_alloc(64, sizeof(*p));

	require(p);
	memset(p, 0, sizeof(*p));
	p->descriptor = (struct capture_descriptor){
		.magic = CAPTURE_MAGIC,
		.version = CAPTURE_VERSION,
		.size = sizeof(p->descriptor),
		.flag = (uintptr_t)&p->flag,
		.control = (uintptr_t)&p->control,
		.names = (uintptr_t)p->names,
	};
	return p;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct program *p, *other;
	struct capture_ring *r;
	size_t n;

	if (size < 6)
		return 0;
	p = new_program();
	r = (struct capture_ring *)p->ring;
	r->head = 8ull * (data[1] | data[2] << 8);
	r->tail = 8ull * (data[3] | data[4] << 8);
	r->size = data[5] & 0x80 ? SIZE + data[5] : SIZE;
	r->calls = data[5];
	n = size - 6 < SIZE ? size - 6 : SIZE;
	memcpy(p->ring + CAPTURE_RING_HEAD, data + 6, n);
	if (data[0] & 1)
		stamp(p->ring, r->tail, r->head);
	if (data[0] & 2) {
		other = new_program();
		collect(other, p);
		free(other);
	} else {
		drain(p);
	}
	free(p);
	return 0;
}
