#include "watchctl/step/insn/fetch_run.h"

#include <string.h>

#include "watchctl/trace/call_values.h"

#define PAGE 4096u
#define WINDOW 1024u /* stack parameters that lie no farther apart are read at once */

/* The stack parameters of a list; len 0: they are to be read one by one. */
struct window {
	uint64_t start;
	uint32_t len;
	uint8_t bytes[WINDOW];
};

struct run {
	const struct fetch_list *list;
	const struct fetch_source *source;
	struct window window;
	struct fetched *ret;
};

static uint32_t room(const struct run *r)
{
	return PLAN_BYTES - r->ret->nbytes;
}

static uint8_t *fetch_run_place(const struct run *r)
{
	return r->ret->bytes + r->ret->nbytes;
}

/* @len bytes were put into fetch_run_place(). */
static void done(struct run *r, uint32_t i, enum value_state state, uint32_t len)
{
	r->ret->state[i] = (uint8_t)state;
	r->ret->at[i] = (uint16_t)r->ret->nbytes;
	r->ret->len[i] = (uint16_t)len;
	r->ret->nbytes += len;
}

static void done_bytes(struct run *r, uint32_t i, const uint8_t *bytes, uint32_t len)
{
	if (len > room(r)) {
		done(r, i, VALUE_NONE, 0);
		return;
	}
	memcpy(fetch_run_place(r), bytes, len);
	done(r, i, VALUE_OK, len);
}

static void run_register(struct run *r, uint32_t i, const struct fetch *f)
{
	const struct fetch_source *s = r->source;
	uint8_t bytes[64] = { 0 };
	uint32_t size = 0;

	if (f->op == FETCH_GPR && f->reg < WREG_COUNT) {
		size = 8;
		memcpy(bytes, &s->regs->r[f->reg], size);
	} else if (f->op == FETCH_X87) {
		size = s->x87 && s->x87(s->ctx, f->reg, bytes) ? 16 : 0;
	} else if (f->op == FETCH_XMM || f->op == FETCH_YMM) {
		size = s->vector && s->vector(s->ctx, f->reg, bytes) ? sizeof(bytes) : 0;
	}
	if (f->offset < 0 || (uint32_t)f->offset > size || f->len > size - (uint32_t)f->offset || !f->len)
		done(r, i, VALUE_NONE, 0);
	else
		done_bytes(r, i, bytes + f->offset, f->len);
}

/* The pointer that an earlier fetch gave; false: there is none, and *why it says so. */
static bool base_pointer(const struct run *r, uint32_t i, const struct fetch *f, uint64_t *ret,
			 enum value_state *why)
{
	const struct fetched *got = r->ret;

	*why = VALUE_NONE;
	if (f->base >= i)
		return false;
	if (got->state[f->base] == VALUE_UNREADABLE)
		*why = VALUE_UNREADABLE;
	if (got->state[f->base] != VALUE_OK || got->len[f->base] < sizeof(*ret))
		return false;
	memcpy(ret, got->bytes + got->at[f->base], sizeof(*ret));
	if (!*ret)
		*why = VALUE_NULL;
	return *ret;
}

static void run_read(struct run *r, uint32_t i, uint64_t address, uint32_t len)
{
	if (!len || len > room(r))
		done(r, i, VALUE_NONE, 0);
	else if (memory_read(&r->source->memory, address, fetch_run_place(r), len))
		done(r, i, VALUE_OK, len);
	else
		done(r, i, VALUE_UNREADABLE, 0);
}

static void run_stack(struct run *r, uint32_t i, const struct fetch *f)
{
	uint64_t address = r->source->entry_sp + (uint64_t)(int64_t)f->offset;

	if (r->window.len)
		done_bytes(r, i, r->window.bytes + (address - r->window.start), f->len);
	else
		run_read(r, i, address, f->len);
}

/* How many of @cap bytes can be read, page by page, up to the first NUL byte. */
static uint32_t read_pages(const struct memory_view *m, uint64_t address, uint8_t *buf, uint32_t cap)
{
	uint32_t n = 0;

	while (n < cap) {
		uint32_t len = (uint32_t)(PAGE - (address + n) % PAGE);

		if (len > cap - n)
			len = cap - n;
		if (!memory_read(m, address + n, buf + n, len))
			break;
		if (memchr(buf + n, '\0', len))
			return n + len;
		n += len;
	}
	return n;
}

/* One byte more than is wanted is read, if it fits: it may be the NUL byte. */
static void run_string(struct run *r, uint32_t i, uint64_t address, uint32_t len)
{
	const struct memory_view *m = &r->source->memory;
	uint32_t cap = len + 1 < room(r) ? len + 1 : room(r), n = cap;
	const uint8_t *nul;

	if (!cap) {
		done(r, i, VALUE_NONE, 0);
		return;
	}
	if (address + cap < address || !memory_read(m, address, fetch_run_place(r), cap))
		n = read_pages(m, address, fetch_run_place(r), cap);
	nul = memchr(fetch_run_place(r), '\0', n);
	if (nul)
		done(r, i, VALUE_OK, (uint32_t)(nul - fetch_run_place(r)));
	else if (!n)
		done(r, i, VALUE_UNREADABLE, 0);
	else if (n == cap && cap < len)
		done(r, i, VALUE_NONE, 0);
	else
		done(r, i, VALUE_CUT, n < len ? n : len);
}

static void run_one(struct run *r, uint32_t i)
{
	const struct fetch *f = &r->list->v[i];
	const struct fetch_source *s = r->source;
	enum value_state why;
	uint64_t pointer;

	switch (f->op) {
	case FETCH_GPR:
	case FETCH_XMM:
	case FETCH_YMM:
	case FETCH_X87:
		run_register(r, i, f);
		break;
	case FETCH_STACK:
		run_stack(r, i, f);
		break;
	case FETCH_MEMORY:
	case FETCH_STRING:
		if (!base_pointer(r, i, f, &pointer, &why))
			done(r, i, why, 0);
		else if (f->op == FETCH_MEMORY)
			run_read(r, i, pointer + (uint64_t)(int64_t)f->offset, f->len);
		else
			run_string(r, i, pointer + (uint64_t)(int64_t)f->offset, f->len);
		break;
	case FETCH_ERRNO:
		if (s->errno_address)
			run_read(r, i, s->errno_address, sizeof(int32_t));
		else
			done(r, i, VALUE_NONE, 0);
		break;
	default:
		done(r, i, VALUE_NONE, 0);
	}
}

void fetch_again(const struct fetch *f, uint64_t pointer, const struct fetch_source *s, struct fetched *ret)
{
	struct run r = { .source = s, .ret = ret };
	const uint64_t address = pointer + (uint64_t)(int64_t)f->offset;

	ret->n = 1;
	ret->nbytes = 0;
	if (f->op == FETCH_MEMORY)
		run_read(&r, 0, address, f->len);
	else if (f->op == FETCH_STRING)
		run_string(&r, 0, address, f->len);
	else
		done(&r, 0, VALUE_NONE, 0);
}

/* Stack parameters are neighbours as a rule: one read is enough for all. */
static void read_window(struct run *r)
{
	int64_t low = INT64_MAX, high = INT64_MIN;
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->list->n; i++) {
		const struct fetch *f = &r->list->v[i];

		if (f->op != FETCH_STACK)
			continue;
		n++;
		low = f->offset < low ? f->offset : low;
		high = f->offset + f->len > high ? f->offset + f->len : high;
	}
	if (n < 2 || high - low > WINDOW)
		return;
	r->window.start = r->source->entry_sp + (uint64_t)low;
	if (memory_read(&r->source->memory, r->window.start, r->window.bytes, (size_t)(high - low)))
		r->window.len = (uint32_t)(high - low);
}

void fetch_run(const struct fetch_list *l, const struct fetch_source *s, struct fetched *ret)
{
	struct run r;

	r.list = l;
	r.source = s;
	r.window.len = 0;
	r.ret = ret;
	ret->n = l->n;
	ret->nbytes = 0;
	read_window(&r);
	for (uint32_t i = 0; i < l->n; i++)
		run_one(&r, i);
}
