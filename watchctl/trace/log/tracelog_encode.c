#include "watchctl/trace/log/tracelog_encode.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "watchctl/base/vec.h"
#include "watchctl/trace/log/tracelog_check.h"
#include "watchctl/trace/call_values.h"
#include "watchctl/trace/log/tracelog_put.h"
#include "watchctl/trace/log/tracelog_rows.h"

void encode_bytes(struct encoder *c, const void *bytes, size_t n)
{
	if (!n)
		return;
	if (c->no_memory || !vec_reserve((void **)&c->buf, &c->cap, c->len + n, 1)) {
		c->no_memory = true;
		return;
	}
	memcpy(c->buf + c->len, bytes, n);
	c->len += n;
}

static void patch(struct encoder *c, size_t at, const void *bytes, size_t n)
{
	memcpy(c->buf + at, bytes, n);
}

size_t encode_packet_start(unsigned int major)
{
	return major == 1 ? TRACELOG_PACKET_HEAD : TRACELOG_PACKET_START;
}

void encode_packet_begin(struct encoder *c, unsigned int major)
{
	static const uint8_t zero[TRACELOG_PACKET_START];

	encode_bytes(c, zero, encode_packet_start(major));
}

static void put_checksum(struct encoder *c, size_t len, uint64_t time_ns)
{
	uint16_t id = TRACELOG_ID_CHECKSUM;
	uint32_t size = TRACELOG_EVENT_HEAD + sizeof(uint32_t), sum;

	patch(c, TRACELOG_PACKET_HEAD, &id, sizeof(id));
	patch(c, TRACELOG_PACKET_HEAD + TRACELOG_OFF_TIME, &time_ns, sizeof(time_ns));
	patch(c, TRACELOG_PACKET_HEAD + TRACELOG_OFF_SIZE, &size, sizeof(size));
	sum = tracelog_packet_checksum(c->buf, len);
	patch(c, TRACELOG_OFF_CHECKSUM, &sum, sizeof(sum));
}

void encode_packet_head(struct encoder *c, size_t len, const struct packet_head *h, unsigned int major)
{
	uint32_t magic = TRACELOG_MAGIC, stream = 0;
	uint64_t bits = (uint64_t)len * 8;

	patch(c, 0, &magic, sizeof(magic));
	patch(c, TRACELOG_OFF_UUID, h->uuid, 16);
	patch(c, TRACELOG_OFF_STREAM, &stream, sizeof(stream));
	patch(c, TRACELOG_OFF_BEGIN, &h->begin, sizeof(h->begin));
	patch(c, TRACELOG_OFF_END, &h->end, sizeof(h->end));
	patch(c, TRACELOG_OFF_CONTENT, &bits, sizeof(bits));
	patch(c, TRACELOG_OFF_PACKET, &bits, sizeof(bits));
	patch(c, TRACELOG_OFF_DISCARDED, &h->discarded, sizeof(h->discarded));
	if (major > 1)
		put_checksum(c, len, h->begin);
}

void encode_next_packet(struct encoder *c, size_t len, unsigned int major)
{
	size_t start = encode_packet_start(major);

	memmove(c->buf + start, c->buf + len, c->len - len);
	c->len = start + (c->len - len);
}

size_t encode_event_begin(struct encoder *c)
{
	static const uint8_t zero[TRACELOG_EVENT_HEAD];
	size_t start = c->len;

	encode_bytes(c, zero, sizeof(zero));
	return start;
}

void encode_event_head(struct encoder *c, size_t start, uint16_t id, uint64_t time_ns)
{
	uint32_t size = (uint32_t)(c->len - start);

	patch(c, start, &id, sizeof(id));
	patch(c, start + TRACELOG_OFF_SIZE, &size, sizeof(size));
	patch(c, start + TRACELOG_OFF_TIME, &time_ns, sizeof(time_ns));
}

void put_build_id(struct encoder *c, const uint8_t *id, size_t len)
{
	static const char digit[] = "0123456789abcdef";
	char hex[2 * BUILD_ID_MAX + 1];
	unsigned int i;

	for (i = 0; i < len && i < BUILD_ID_MAX; i++) {
		hex[2 * i] = digit[id[i] >> 4];
		hex[2 * i + 1] = digit[id[i] & 15];
	}
	hex[2 * i] = '\0';
	put_string(c, hex);
}

/* By hand */

/* "RED=0,GREEN=1". A name that would break that form is left out: its values show as numbers. */
static void put_watch_enumerators(struct encoder *c, const struct trace_event *e)
{
	const struct value_type *t = &e->watch.type;
	size_t start = c->len, i;
	char number[24];

	for (i = 0; i < t->nenumerators && c->len - start < TRACELOG_STRING_MAX / 2; i++) {
		const char *name = t->enumerators[i].name;
		int n = snprintf(number, sizeof(number), "=%lld", (long long)t->enumerators[i].value);

		if (!name || !*name || strpbrk(name, ",=") || strlen(name) > TRACELOG_STRING_MAX / 4)
			continue;
		if (c->len > start)
			put_u8(c, ',');
		encode_bytes(c, name, strlen(name));
		encode_bytes(c, number, n);
	}
	put_u8(c, 0);
}

static void put_access_has_old(struct encoder *c, const struct trace_event *e)
{
	put_u8(c, e->access.old_uncertain ? TRACELOG_OLD_UNCERTAIN : e->access.has_old);
}

static void put_tag_has_name(struct encoder *c, const struct trace_event *e)
{
	put_u8(c, e->tag.name != NULL);
}

static void put_tag_number(struct encoder *c, const struct trace_event *e)
{
	put_u64(c, e->tag.name ? 0 : e->tag.number);
}

/* A number has its digits for a name: babeltrace2 shows the last string in place of an empty one. */
static void put_tag_name(struct encoder *c, const struct trace_event *e)
{
	char digits[24];

	snprintf(digits, sizeof(digits), "%llu", (unsigned long long)e->tag.number);
	put_string(c, e->tag.name ? e->tag.name : digits);
}

/* By the rows of tracelog_rows.h */

struct put_refs {
	uint32_t stack;
	uint64_t before_ns;
};

#define PUT(kind, ...) PUT_##kind(__VA_ARGS__)
#define PUT_FIELD(wire, name, member) put_##wire(c, e->member);
#define PUT_FIELD_IF(wire, name, member, there, otherwise) put_##wire(c, e->there ? e->member : (otherwise));
#define PUT_HAND(wire, name, hook) put_##hook(c, e);
#define PUT_BYTES(name, length, member, len) \
	assert(e->len <= sizeof(e->member)); \
	put_u8(c, e->len);                   \
	encode_bytes(c, e->member, e->len);
#define PUT_POINTED(wire, name, length, member, len, max) \
	assert(e->len <= (max));                          \
	put_##wire(c, e->len);                            \
	encode_bytes(c, e->member, e->len);
#define PUT_BUILD_ID(name, member, len) put_build_id(c, e->member, e->len);
#define PUT_BUILD_ID_OF(name, member, len) put_build_id(c, e->member, e->len);
#define PUT_STACK(...) put_u32(c, refs->stack);
#define PUT_BEFORE(...) encode_bytes(c, &refs->before_ns, TRACELOG_BEFORE_BYTES);
#define PUT_MORE(...)

/* The number comes before them, and is known after: those that do not fit are left out. */
#define PUT_LIST(name, number, member, n, max, bytes, kept, rows)     \
	{                                                             \
		size_t at = c->len;                                   \
		uint32_t i = 0;                                       \
                                                                      \
		assert(e->n <= (max));                                \
		put_u32(c, 0);                                        \
		for (; i < e->n && c->len - at < (bytes); i++) {      \
			const typeof(*e->member) *it = &e->member[i]; \
			rows(ITEM)                                    \
		}                                                     \
		if (!c->no_memory)                                    \
			patch(c, at, &i, sizeof(i));                  \
	}
#define ITEM(kind, ...) ITEM_##kind(__VA_ARGS__)
#define ITEM_FIELD(wire, name, member) put_##wire(c, it->member);

#define DEFINE_PUT_EVENT(type, number, name, rows)                                   \
	_Static_assert((type) == (number), "the number of " #name);                  \
	static void put_event_##name(struct encoder *c, const struct trace_event *e, \
				     const struct put_refs *refs)                    \
	{                                                                            \
		(void)refs;                                                          \
		rows(PUT)                                                            \
	}
#define CHECK_NUMBER(type, number, name, rows) _Static_assert((type) == (number), "the number of " #name);
#define NOTHING(...)

LOG_EVENTS(DEFINE_PUT_EVENT, CHECK_NUMBER, CHECK_NUMBER, NOTHING)

#define CASE_PUT(type, number, name, rows) \
	case type:                         \
		return put_event_##name(c, e, refs);

static void put_event(struct encoder *c, unsigned int id, const struct trace_event *e,
		      const struct put_refs *refs)
{
	switch (id) {
		LOG_EVENTS(CASE_PUT, NOTHING, NOTHING, NOTHING)
	default:
		assert(!"an event that is not written so");
	}
}

void encode_fields(struct encoder *c, const struct trace_event *e, uint32_t stack)
{
	const struct put_refs refs = { .stack = stack };
	bool has_error = e->type == EVENT_RETURN && e->ret.has_error;

	put_event(c, has_error ? TRACELOG_ID_RETURN_ERROR : (unsigned int)e->type, e, &refs);
}

void encode_stack(struct encoder *c, uint32_t id, const struct stack_ref *s)
{
	put_u32(c, id);
	put_u8(c, s->walk_end);
	put_u32(c, s->nframes);
	encode_bytes(c, s->frame, s->nframes * sizeof(*s->frame));
}

void encode_capture(struct encoder *c, const struct trace_event *e, uint32_t stack, uint64_t before_ns)
{
	const struct put_refs refs = {
		.stack = stack,
		/* three days: no queue is that long */
		.before_ns = before_ns > TRACELOG_BEFORE_MAX ? TRACELOG_BEFORE_MAX : before_ns,
	};

	put_event(c, e->capture.has_value ? TRACELOG_ID_CAPTURE_VALUE : EVENT_CAPTURE, e, &refs);
}

void encode_thread_process(struct encoder *c, int32_t pid, int32_t tid)
{
	put_u32(c, pid);
	put_u32(c, tid);
}

void encode_hit(struct encoder *c, const struct access_event *a, const struct hit_ref *h)
{
	struct tracelog_hit hit = {
		.watch = (uint8_t)a->watch,
		.flags = (uint8_t)((a->addr - h->watch_addr) << TRACELOG_HIT_OFFSET_SHIFT),
		.size = (uint8_t)a->size,
		.tid = a->tid,
		.stack = h->stack,
		.before_ns = h->before_ns,
	};

	if (a->displaced)
		hit.flags |= TRACELOG_HIT_DISPLACED;
	if (a->has_old) {
		hit.flags |= TRACELOG_HIT_OLD;
		hit.old_value = a->old_value;
	}
	if (a->has_new) {
		hit.flags |= TRACELOG_HIT_NEW;
		hit.new_value = a->new_value;
	}
	memcpy(hit.regs, a->regs.r, sizeof(hit.regs));
	encode_bytes(c, &hit, sizeof(hit));
}
