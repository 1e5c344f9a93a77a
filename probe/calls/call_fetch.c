#include "probe/calls/call_fetch.h"

#include <stdbool.h>
#include <stddef.h>

#include "probe/probe.h"
#include "probe/wire.h"

#define PAGE 4096u
#define HEAD 3u /* bytes in front of a value */
#define RSP 7u
#define REGISTER_BYTES 32u
#define FXSAVE_BYTES 512u /* Intel SDM vol. 1, table 10-2 */
#define FXSAVE_ST_AT 32u

extern struct probe_shared *probe_shared __attribute__((visibility("hidden")));

struct fetching {
	const struct call_fetch_source *source;
	uint8_t *to, *end, *dirty;
	uint8_t *begin;
	uint16_t at[CALL_FETCHES]; /* of each fetch, from @begin on */
	uint32_t n;
};

/* Whole words, and up to 7 bytes more than @len are written. */
static void copy_words(uint8_t *to, const void *from, uint32_t len)
{
	const uint8_t *f = from;
	uint64_t word;

	for (uint32_t i = 0; i < len; i += sizeof(word)) {
		__builtin_memcpy(&word, f + i, sizeof(word));
		__builtin_memcpy(to + i, &word, sizeof(word));
	}
}

static void copy_bytes(uint8_t *to, const uint8_t *from, uint32_t len)
{
	uint32_t i = 0;
	uint64_t word;

	for (; i + sizeof(word) <= len; i += sizeof(word)) {
		__builtin_memcpy(&word, from + i, sizeof(word));
		__builtin_memcpy(to + i, &word, sizeof(word));
	}
	for (; i < len; i++) {
		to[i] = from[i];
		__asm__ volatile(""); /* no call of memcpy */
	}
}

/* Room for @len bytes of a value, and what may be written behind it. */
static bool has_room(const struct fetching *f, uint32_t len)
{
	return (uint64_t)(f->end - f->to) >= (uint64_t)HEAD + len + CALL_VALUES_SLACK;
}

static void none(struct fetching *f, enum call_got why)
{
	*f->to++ = (uint8_t)why;
}

/* @len bytes are at f->to + HEAD. */
static void got(struct fetching *f, enum call_got how, uint32_t len)
{
	const uint16_t n = (uint16_t)len;

	f->to[0] = (uint8_t)how;
	__builtin_memcpy(f->to + 1, &n, sizeof(n));
	f->to += HEAD + len;
}

/*
 * Vector registers: they are read where the program has left them, and none is written. The one function that may do so by its name
 * (watchctl/patch/probe/probe_code.c).
 */

#define XMM(n)                                                                       \
	case n:                                                                      \
		__asm__ volatile("movups %%xmm" #n ", (%0)" : : "r"(to) : "memory"); \
		return 16;
#define YMM(n)                                                                        \
	case n:                                                                       \
		__asm__ volatile("vmovups %%ymm" #n ", (%0)" : : "r"(to) : "memory"); \
		return 32;
#define EACH(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12) M(13) M(14) M(15)

__attribute__((always_inline)) static inline uint32_t read_xmm(uint32_t reg, uint8_t *to)
{
	switch (reg) {
		EACH(XMM)
	default:
		return 0;
	}
}

__attribute__((always_inline)) static inline uint32_t read_ymm(uint32_t reg, uint8_t *to)
{
	switch (probe_shared->ymm_at ? reg : UINT32_MAX) {
		EACH(YMM)
	default:
		return 0;
	}
}

__attribute__((always_inline)) static inline uint32_t read_x87(uint32_t reg, uint8_t *to)
{
	_Alignas(16) uint8_t image[FXSAVE_BYTES];

	if (reg >= 8)
		return 0;
	__asm__ volatile("fxsave64 (%0)" : : "r"(image) : "memory");
	copy_words(to, image + FXSAVE_ST_AT + 16 * reg, 16);
	for (uint32_t i = 10; i < 16; i++)
		to[i] = 0;
	return 16;
}

uint32_t probe_reads_vector_(uint8_t op, uint32_t reg, uint8_t *to)
	__attribute__((noinline, visibility("hidden")));

/* The bytes of a register; 0: there is no such. */
uint32_t probe_reads_vector_(uint8_t op, uint32_t reg, uint8_t *to)
{
	switch (op) {
	case CALL_FETCH_XMM:
		return read_xmm(reg, to);
	case CALL_FETCH_YMM:
		return read_ymm(reg, to);
	case CALL_FETCH_X87:
		return read_x87(reg, to);
	default:
		return 0;
	}
}

/* The same, of all kinds of them. */
static uint32_t get_register(const struct fetching *f, const struct call_fetch *q, uint8_t *to)
{
	if (q->op != CALL_FETCH_GPR)
		return probe_reads_vector_(q->op, q->reg, to);
	if (q->reg >= 16)
		return 0;
	copy_words(to, &f->source->regs[q->reg], 8);
	return 8;
}

static void fetch_register(struct fetching *f, const struct call_fetch *q)
{
	uint8_t bytes[REGISTER_BYTES];
	uint32_t have;

	/* As most are. */
	if (q->op == CALL_FETCH_GPR && q->reg < 16 && q->len <= 8 && !q->offset && q->len) {
		copy_words(f->to + HEAD, &f->source->regs[q->reg], 8);
		got(f, CALL_GOT, q->len);
		return;
	}
	have = get_register(f, q, bytes);
	if (q->offset < 0 || (uint32_t)q->offset > have || q->len > have - (uint32_t)q->offset || !q->len) {
		none(f, CALL_GOT_NONE);
		return;
	}
	copy_bytes(f->to + HEAD, bytes + q->offset, q->len);
	got(f, CALL_GOT, q->len);
}

/* Memory */

/* The end of the stack that the thread stands on; 0: not known. */
static uint64_t stack_end(const struct fetching *f)
{
	const struct call_thread_place *p = f->source->place;
	const uint64_t sp = f->source->regs[RSP];
	uint64_t tcb;

	if (sp < p->stack_start || sp >= p->stack_end)
		return 0;
	if (p->stack_is_main)
		return p->stack_end;
	/* psABI for x86-64, 3.4.2, and Drepper's ELF Handling for TLS, 3.4.2: the block begins with its own address. */
	if (!probe_shared->tid_at)
		return 0;
	__asm__ volatile("movq %%fs:0, %0" : "=r"(tcb));
	return tcb > sp && tcb <= p->stack_end ? tcb : 0;
}

/* Above where the thread stands: that is there. */
static bool is_on_stack(const struct fetching *f, uint64_t at, uint32_t len)
{
	return at >= f->source->regs[RSP] && at + len > at && at + len <= stack_end(f);
}

static bool is_fixed(const struct call_shared *s, uint64_t at, uint32_t len)
{
	const uint32_t n = s->nfixed <= CALL_FIXED ? s->nfixed : CALL_FIXED;

	for (uint32_t i = 0; i < n; i++)
		if (at >= s->fixed[i].start && at < s->fixed[i].end && len <= s->fixed[i].end - at)
			return true;
	return false;
}

/* By itself what is surely there; of all else the kernel knows whether it is. */
static bool read_memory(const struct fetching *f, uint8_t *to, uint64_t from, uint32_t len)
{
	if (!is_on_stack(f, from, len) && !is_fixed(f->source->shared, from, len))
		return probe_read(to, (const void *)from, len);
	copy_bytes(to, (const uint8_t *)from, len);
	return true;
}

static enum call_got unread(void)
{
	return probe_shared->flags & PROBE_NO_SYSCALLS ? CALL_GOT_NONE : CALL_GOT_FAULT;
}

static void wrote(struct fetching *f, const uint8_t *end)
{
	if (end > f->dirty)
		f->dirty = (uint8_t *)end;
}

static void fetch_memory(struct fetching *f, uint64_t at, uint32_t len)
{
	const bool ok = len && read_memory(f, f->to + HEAD, at, len);

	wrote(f, f->to + HEAD + len);
	if (ok)
		got(f, CALL_GOT, len);
	else
		none(f, len ? unread() : CALL_GOT_NONE);
}

/* Where a NUL is, or @n. */
static uint32_t length_of(const uint8_t *s, uint32_t n)
{
	uint32_t i = 0;

	while (i < n && s[i])
		i++;
	return i;
}

/* A page at a time: what lies behind the string need not be there. One byte more than is wanted: it may be the NUL. */
static void fetch_string(struct fetching *f, uint64_t at, uint32_t len)
{
	const uint32_t cap = len + 1;
	uint8_t *to = f->to + HEAD;
	uint32_t n = 0, some, i;

	wrote(f, to + cap);
	while (n < cap) {
		some = (uint32_t)(PAGE - (at + n) % PAGE);
		if (some > cap - n)
			some = cap - n;
		if (!read_memory(f, to + n, at + n, some))
			break;
		i = length_of(to + n, some);
		if (i < some) {
			got(f, CALL_GOT, n + i);
			return;
		}
		n += some;
	}
	if (!n)
		none(f, unread());
	else
		got(f, CALL_GOT_SOME, n < len ? n : len);
}

/* The pointer that an earlier fetch gave. CALL_GOT: there is one. */
static enum call_got base_of(const struct fetching *f, const struct call_fetch *q, uint64_t *ret)
{
	const uint8_t *b = q->base < f->n ? f->begin + f->at[q->base] : NULL;
	uint16_t len;

	if (!b)
		return CALL_GOT_NONE;
	if (*b != CALL_GOT)
		return *b == CALL_GOT_FAULT ? CALL_GOT_FAULT : CALL_GOT_NONE;
	__builtin_memcpy(&len, b + 1, sizeof(len));
	if (len < sizeof(*ret))
		return CALL_GOT_NONE;
	__builtin_memcpy(ret, b + HEAD, sizeof(*ret));
	return *ret ? CALL_GOT : CALL_GOT_NULL;
}

static void follow(struct fetching *f, const struct call_fetch *q)
{
	uint64_t at = 0;
	const enum call_got how = base_of(f, q, &at);

	if (how != CALL_GOT)
		none(f, how);
	else if (q->op == CALL_FETCH_MEMORY)
		fetch_memory(f, at + (uint64_t)(int64_t)q->offset, q->len);
	else
		fetch_string(f, at + (uint64_t)(int64_t)q->offset, q->len);
}

static void fetch_errno(struct fetching *f)
{
	const long at = f->source->shared->errno_at;
	uint32_t value;

	if (!at) {
		none(f, CALL_GOT_NONE);
		return;
	}
	__asm__ volatile("movl %%fs:(%1), %0" : "=r"(value) : "r"(at));
	__builtin_memcpy(f->to + HEAD, &value, sizeof(value));
	got(f, CALL_GOT, sizeof(value));
}

static void fetch_one(struct fetching *f, const struct call_fetch *q)
{
	switch (q->op) {
	case CALL_FETCH_GPR:
	case CALL_FETCH_XMM:
	case CALL_FETCH_YMM:
	case CALL_FETCH_X87:
		fetch_register(f, q);
		break;
	case CALL_FETCH_STACK:
		fetch_memory(f, f->source->regs[RSP] + (uint64_t)(int64_t)q->offset, q->len);
		break;
	case CALL_FETCH_MEMORY:
	case CALL_FETCH_STRING:
		follow(f, q);
		break;
	case CALL_FETCH_ERRNO:
		fetch_errno(f);
		break;
	default:
		none(f, CALL_GOT_NONE);
	}
}

uint8_t *call_fetch_all(const struct call_fetch_source *s, const struct call_plan *plan, uint8_t *to,
			uint8_t *end, uint8_t **dirty)
{
	const uint32_t n = plan->n <= CALL_FETCHES ? plan->n : CALL_FETCHES;
	struct fetching f;

	f.source = s;
	f.begin = f.to = f.dirty = to;
	f.end = end;
	for (f.n = 0; f.n < n; f.n++) {
		const struct call_fetch *q = &plan->fetch[f.n];

		/* Of a string one byte more is read. */
		if (!has_room(&f, (q->len > REGISTER_BYTES ? q->len : REGISTER_BYTES) + 1))
			break;
		f.at[f.n] = (uint16_t)(f.to - to);
		fetch_one(&f, q);
	}
	wrote(&f, f.to + CALL_VALUES_SLACK);
	*dirty = f.dirty < end ? f.dirty : end;
	return f.to;
}
