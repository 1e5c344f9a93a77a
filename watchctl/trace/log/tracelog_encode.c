/* Fields are put in the order in which tracelog_decode.c takes them; see the metadata for their types. */
#include "watchctl/trace/log/tracelog_encode.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "watchctl/base/vec.h"
#include "watchctl/trace/log/tracelog_check.h"
#include "watchctl/trace/log/tracelog_encode_probe.h"
#include "watchctl/trace/log/tracelog_encode_step.h"
#include "watchctl/trace/log/tracelog_put.h"

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

/* "RED=0,GREEN=1". A name that would break that form is left out: its values show as numbers. */
static void put_enumerators(struct encoder *c, const struct value_type *t)
{
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

static void put_process(struct encoder *c, const struct process_event *p)
{
	put_u32(c, p->pid);
	put_u64(c, p->realtime_ns);
	put_string(c, p->comm);
	put_string(c, p->exe);
	put_string(c, p->cmdline);
	put_string(c, p->host);
	put_u32(c, p->parent);
}

static void put_thread(struct encoder *c, const struct thread_event *t)
{
	put_u32(c, t->pid);
	put_u32(c, t->tid);
	put_string(c, t->comm);
	put_u32(c, t->creator);
	put_u64(c, t->creating_call);
	put_u64(c, t->stack_start);
	put_u64(c, t->stack_end);
}

static void put_module(struct encoder *c, const struct module *m, int32_t pid)
{
	put_u64(c, m->start);
	put_u64(c, m->end);
	put_u64(c, m->bias);
	put_u8(c, m->deleted);
	put_string(c, m->path);
	put_build_id(c, m->build_id, m->build_id_len);
	put_u32(c, pid);
}

static void put_watch(struct encoder *c, const struct watch_event *e)
{
	put_u32(c, e->id);
	put_u64(c, e->addr);
	put_u32(c, e->size);
	put_u8(c, e->access);
	put_u32(c, e->threads);
	put_u32(c, e->threads_armed);
	put_u8(c, e->verified);
	put_u8(c, e->kernel);
	put_u8(c, e->has_value);
	put_u64(c, e->has_value ? e->value : 0);
	put_u32(c, e->slot);
	put_u8(c, e->type.kind);
	put_u8(c, e->type.enum_signed);
	put_u8(c, e->type.bit_offset);
	put_u8(c, e->type.bit_size);
	put_string(c, e->name);
	put_string(c, e->full_name);
	put_string(c, e->engine);
	put_string(c, e->module);
	put_string(c, e->type.name);
	put_enumerators(c, &e->type);
	put_u8(c, e->per_thread);
	put_string(c, e->filter);
	put_string(c, e->why);
	put_u8(c, e->steps_trap);
	put_u8(c, e->withheld);
}

static void put_code(struct encoder *c, const struct code_fact *f)
{
	assert(f->before_len <= INSN_MAX && f->at_len <= INSN_MAX);
	put_u64(c, f->pc);
	put_u64(c, f->function_start);
	put_u8(c, f->before_len);
	encode_bytes(c, f->before, f->before_len);
	put_u8(c, f->at_len);
	encode_bytes(c, f->at, f->at_len);
}

static void put_access(struct encoder *c, const struct access_event *a, uint64_t time_ns, uint32_t stack)
{
	put_u64(c, time_ns);
	put_u32(c, a->watch);
	put_u32(c, a->pid);
	put_u32(c, a->tid);
	put_u64(c, a->addr);
	put_u32(c, a->size);
	put_u8(c, a->old_uncertain ? TRACELOG_OLD_UNCERTAIN : a->has_old);
	put_u8(c, a->has_new);
	put_u8(c, a->displaced);
	put_u64(c, a->has_old ? a->old_value : 0);
	put_u64(c, a->has_new ? a->new_value : 0);
	put_u32(c, stack);
	encode_bytes(c, a->regs.r, sizeof(a->regs.r));
	put_u8(c, a->in_kernel);
	put_u8(c, a->kernel_kind);
	put_u32(c, a->in_kernel ? a->syscall : -1);
	put_string(c, a->kernel_function);
	put_u8(c, a->withheld);
	put_u8(c, a->known_kind);
	put_u8(c, a->known_in_caller);
	put_u64(c, a->known_insn);
}

static void put_summary(struct encoder *c, const struct summary_event *s)
{
	put_u32(c, s->watch);
	put_u8(c, s->has_counted);
	put_u64(c, s->has_counted ? s->counted : 0);
	put_u64(c, s->recorded);
	put_u64(c, s->lost);
	put_u64(c, s->filtered);
	put_u64(c, s->duration_ns);
}

static void put_lost(struct encoder *c, const struct lost_event *l)
{
	put_u32(c, l->watch);
	put_u64(c, l->count);
	put_string(c, l->why);
}

/* A number has its digits for a name: babeltrace2 shows the last string in place of an empty one. */
static void put_tag(struct encoder *c, const struct tag_event *t)
{
	char digits[24];

	snprintf(digits, sizeof(digits), "%llu", (unsigned long long)t->number);
	put_u32(c, t->id);
	put_u8(c, t->name != NULL);
	put_u64(c, t->name ? 0 : t->number);
	put_string(c, t->name ? t->name : digits);
}

static void put_symbol(struct encoder *c, const struct symbol_event *s)
{
	put_u64(c, s->address);
	put_u64(c, s->start);
	put_string(c, s->path);
	put_build_id(c, s->build_id, s->build_id_len);
	put_u32(c, s->nfunctions);
	for (uint32_t i = 0; i < s->nfunctions; i++) {
		put_u32(c, s->function[i].line);
		put_string(c, s->function[i].name);
		put_string(c, s->function[i].file);
	}
}

void encode_fields(struct encoder *c, const struct trace_event *e, uint32_t stack)
{
	switch (e->type) {
	case EVENT_PROCESS:
		return put_process(c, &e->process);
	case EVENT_THREAD:
		return put_thread(c, &e->thread);
	case EVENT_MODULE:
	case EVENT_MODULE_GONE:
		return put_module(c, &e->module, e->module_pid);
	case EVENT_WATCH:
		return put_watch(c, &e->watch);
	case EVENT_CODE:
		return put_code(c, &e->code);
	case EVENT_ACCESS:
		return put_access(c, &e->access, e->time_ns, stack);
	case EVENT_LOST:
		return put_lost(c, &e->lost);
	case EVENT_NOTE:
		return put_string(c, e->note.text);
	case EVENT_SUMMARY:
		return put_summary(c, &e->summary);
	case EVENT_TAG:
		return put_tag(c, &e->tag);
	case EVENT_SYMBOL:
		return put_symbol(c, &e->symbol);
	case EVENT_RECORDING:
	case EVENT_TYPE:
	case EVENT_FUNCTION:
	case EVENT_REGION:
	case EVENT_RANGE:
	case EVENT_CALL:
	case EVENT_RETURN:
	case EVENT_STEP:
	case EVENT_SIGNAL:
	case EVENT_BLOCKED:
	case EVENT_INPUT:
		return encode_step_fields(c, e, stack);
	case EVENT_PROBE_SITE:
	case EVENT_PROBE_TOTAL:
		return encode_probe_fields(c, e);
	case EVENT_CAPTURE: /* see encode_capture() */
	case EVENT_PROBE:   /* see encode_probe() */
	case EVENT_MISSING: /* not recorded */
		break;
	}
	assert(!"an event type that the log does not know");
}

void encode_stack(struct encoder *c, uint32_t id, const struct stack_ref *s)
{
	put_u32(c, id);
	put_u8(c, s->walk_end);
	put_u32(c, s->nframes);
	encode_bytes(c, s->frame, s->nframes * sizeof(*s->frame));
}

void encode_capture(struct encoder *c, const struct capture_event *e, uint32_t stack, uint64_t before_ns)
{
	if (before_ns > TRACELOG_BEFORE_MAX) /* three days: no queue is that long */
		before_ns = TRACELOG_BEFORE_MAX;
	put_u32(c, e->tag);
	put_u32(c, e->tid);
	put_u32(c, stack);
	encode_bytes(c, &before_ns, TRACELOG_BEFORE_BYTES);
	if (e->has_value)
		put_u64(c, e->value);
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
