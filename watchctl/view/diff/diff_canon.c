/*
 * What makes a value of one run differ from that of another though nothing is wrong:
 *
 *  - addresses. In a module, they are compared as module and offset. On a stack and in dynamic memory only
 * that they lie there is compared; which allocation it is, and where on the stack, is weak.
 *  - memory that has not been written yet: what a pointer leads to, where the function may be the one to
 * write it. In it, words that look like addresses or like random bits (a stack protector's canary) are weak,
 * and so is a single number; bytes between members, and behind the end of a string in an array, are never
 * looked at.
 *  - numbers that the kernel gives out: process ids stand for the n-th task that the log names; times are
 * weak.
 *
 * Any of these that is judged too strictly costs a report of something that is no difference; too loosely, a
 * difference that goes unseen there and shows itself in a later call.
 */
#include "watchctl/view/diff/diff_canon.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"
#include "watchctl/trace/rows/event_copy.h"
#include "watchctl/view/diff/base/diff_hash.h"

#define DEPTH_MAX 8
#define ELEMENTS_MAX 256u

/* What tokens stand for, so that a pointer never equals a number. */
enum token_mark {
	MARK_NUMBER = 1,
	MARK_NULL,
	MARK_STATIC,
	MARK_STACK,
	MARK_DYNAMIC,
	MARK_TASK,
	MARK_STATE,
	MARK_TEXT
};

/* One walk over a value. */
struct walk {
	struct diff_canon *c;
	struct diff_tokens *out;
	const uint8_t *base; /* the object that members lie in */
	uint32_t base_len;
	uint32_t skew; /* how far behind a multiple of 8 it lay in the program */
	const char *member;
	bool weak;	   /* all of it */
	bool may_be_unset; /* it may be memory that nobody has written yet */
	bool is_pointee;
	const bool *unset; /* of each byte of base; NULL: none is */
	bool is_unset;	   /* what comes next */
	bool after;	   /* what was written since is marked; the rest does not count */
	unsigned int depth;
};

static void list_token(const struct walk *w, enum token_kind kind, bool weak, uint64_t value, uint64_t raw)
{
	struct diff_tokens *o = w->out;
	struct diff_token t = { .kind = kind,
				.weak = (weak || w->weak) && !w->c->weak_counts,
				.is_pointee = w->is_pointee,
				.unset = w->is_unset && !w->c->weak_counts,
				.value = value,
				.raw = raw,
				.member = w->member };

	if (!vec_push(o->v, o->n, o->cap, t))
		o->no_memory = true;
}

static void put(const struct walk *w, enum token_kind kind, bool weak, uint64_t value, uint64_t raw)
{
	struct diff_tokens *o = w->out;

	if ((weak || w->weak || w->is_unset) && !w->c->weak_counts)
		o->weak = diff_mix(o->weak, value);
	else
		o->strong = diff_mix(o->strong, value);
	if (o->list)
		list_token(w, kind, weak, value, raw);
}

static void put_mark(const struct walk *w, bool weak, enum token_mark mark, uint64_t v, uint64_t raw)
{
	put(w, TOKEN_EXACT, weak, diff_mix(mark, v), raw);
}

/* None of the @size bytes at @p is known to have been written. */
static bool is_unset(const struct walk *w, const uint8_t *p, uint32_t size)
{
	size_t at = (size_t)(p - w->base), i;

	if (!w->unset || !size || at + size > w->base_len)
		return false;
	for (i = at; i < at + size; i++)
		if (!w->unset[i])
			return false;
	return true;
}

static uint64_t diff_canon_load(const uint8_t *p, uint32_t n)
{
	uint64_t v = 0;
	uint32_t half;

	/* Of the usual sizes without a way through memory, which would cost more than all else. */
	if (n >= sizeof(v)) {
		memcpy(&v, p, sizeof(v));
		return v;
	}
	if (n == sizeof(half)) {
		memcpy(&half, p, sizeof(half));
		return half;
	}
	memcpy(&v, p, n);
	return v;
}

/* A canary, a mangled pointer, bits of a random generator: most bytes are different, and it is not a small
 * number. */
static bool looks_random(uint64_t v)
{
	uint8_t seen[32] = { 0 };
	unsigned int distinct = 0, i;

	if (v < 1ull << 48 || v > UINT64_MAX - (1ull << 48))
		return false;
	for (i = 0; i < 8; i++) {
		uint8_t byte = (uint8_t)(v >> 8 * i);

		distinct += !(seen[byte / 8] >> byte % 8 & 1);
		seen[byte / 8] |= 1 << byte % 8;
	}
	return distinct >= 6;
}

/* The aligned eight bytes around @p, in memory that may be unset, are what is left of something else. */
static bool is_residue(const struct walk *w, const uint8_t *p)
{
	size_t at = ((size_t)(p - w->base) + w->skew) / 8 * 8;
	uint64_t word;

	if (at < w->skew || at - w->skew + 8 > w->base_len)
		return false;
	word = diff_canon_load(w->base + (at - w->skew), 8);
	return diff_space_kind(&w->c->space, word, false) != PLACE_NONE || looks_random(word);
}

static void put_address(const struct walk *w, uint64_t v, bool typed)
{
	struct diff_place p = diff_space_find(&w->c->space, v, typed);

	switch (p.kind) {
	case PLACE_NONE:
		put_mark(w, false, v ? MARK_NUMBER : MARK_NULL, v, v);
		return;
	case PLACE_STATIC:
		put_mark(w, w->c->space.no_offsets, MARK_STATIC,
			 w->c->space.no_offsets ? p.module : diff_mix(p.module, p.offset), v);
		return;
	case PLACE_STACK:
		put_mark(w, false, MARK_STACK, 0, v);
		return;
	case PLACE_DYNAMIC:
		put_mark(w, false, MARK_DYNAMIC, 0, v);
		if (!w->c->no_heap)
			put_mark(w, true, MARK_DYNAMIC, (uint64_t)(uintptr_t)map64_get(&w->c->heap, v), v);
		return;
	}
}

static void put_integer(const struct walk *w, const struct diff_type *t, uint64_t v, uint32_t size,
			const uint8_t *at)
{
	bool weak = t->is_moving || (w->may_be_unset && at && is_residue(w, at));
	uintptr_t task;

	if (size == 8 && !t->is_moving && diff_space_kind(&w->c->space, v, false) > PLACE_NONE) {
		put_address(w, v, false);
		return;
	}
	task = t->is_pid ? (uintptr_t)map64_get(&w->c->tasks, v) : 0;
	if (task) {
		put_mark(w, false, MARK_TASK, task, v);
		return;
	}
	put(w, TOKEN_INTEGER, weak, diff_mix(MARK_NUMBER, v), v);
}

static void put_float(const struct walk *w, const uint8_t *p, uint32_t size)
{
	double d = 0;
	uint64_t bits;
	float f;

	if (size == 4) {
		memcpy(&f, p, 4);
		d = f;
	} else if (size == 8) {
		memcpy(&d, p, 8);
	} else {
		put(w, TOKEN_EXACT, w->may_be_unset, diff_mix_bytes(MARK_NUMBER, p, size < 10 ? size : 10),
		    diff_canon_load(p, size));
		return;
	}
	if (isnan(d))
		d = (double)NAN;
	memcpy(&bits, &d, sizeof(bits));
	put(w, TOKEN_FLOAT, w->may_be_unset && is_residue(w, p), diff_mix(MARK_NUMBER, bits), bits);
}

/* Bytes of which nothing is known: words that look like addresses are compared as such. */
static void put_words(struct walk *w, const uint8_t *p, uint32_t size)
{
	uint32_t i;

	for (i = 0; i < size; i += 8) {
		uint64_t v = diff_canon_load(p + i, size - i < 8 ? size - i : 8);

		if (diff_space_kind(&w->c->space, v, false) > PLACE_NONE)
			put_address(w, v, false);
		else
			put(w, TOKEN_EXACT, false, diff_mix(MARK_NUMBER, v), v);
	}
}

static void put_text(const struct walk *w, const uint8_t *p, uint32_t len, bool weak)
{
	uint64_t h = diff_mix_bytes(MARK_TEXT, p, len);

	put(w, TOKEN_EXACT, weak, h, h);
}

static void put_value(struct walk *w, const struct diff_type *t, const uint8_t *p, uint32_t size);

static void put_member(struct walk *w, const struct type_member *m, const uint8_t *p, uint32_t size)
{
	const struct diff_type *t = diff_canon_type(w->c, m->type);
	const char *outer = w->member;
	uint64_t v;

	if (!t || m->offset > size || t->e.size > size - m->offset)
		return;
	if (m->name && *m->name)
		w->member = m->name;
	if (m->bit_size) {
		v = diff_canon_load(p + m->offset, size - m->offset) >> m->bit_offset;
		v &= m->bit_size < 64 ? (1ull << m->bit_size) - 1 : UINT64_MAX;
		w->is_unset = is_unset(w, p + m->offset, t->e.size);
		put_integer(w, t, v, 4, p + m->offset);
		w->is_unset = false;
	} else {
		put_value(w, t, p + m->offset, t->e.size);
	}
	w->member = outer;
}

static bool is_character(const struct diff_type *t)
{
	return t->e.size == 1 &&
	       (t->e.kind == TYPE_CHAR || t->e.kind == TYPE_SIGNED || t->e.kind == TYPE_UNSIGNED);
}

static void put_array(struct walk *w, const struct diff_type *t, const uint8_t *p, uint32_t size)
{
	const struct diff_type *element = diff_canon_type(w->c, t->e.target);
	uint32_t i, n;

	if (!element || !element->e.size)
		return;
	if (is_character(element)) {
		n = (uint32_t)strnlen((const char *)p, size);
		w->is_unset = w->after && is_unset(w, p, n < size ? n + 1 : n);
		put_text(w, p, n, w->may_be_unset);
		w->is_unset = false;
		return;
	}
	n = size / element->e.size;
	for (i = 0; i < n && i < ELEMENTS_MAX; i++)
		put_value(w, element, p + (size_t)i * element->e.size, element->e.size);
}

static void put_parts(struct walk *w, const struct diff_type *t, const uint8_t *p, uint32_t size)
{
	bool was_weak = w->weak;
	uint32_t i;

	if (w->depth == DEPTH_MAX)
		return;
	w->depth++;
	w->weak |= t->is_moving;
	if (t->e.kind == TYPE_ARRAY)
		put_array(w, t, p, size);
	for (i = 0; t->e.kind == TYPE_STRUCT && i < t->e.nmembers; i++)
		put_member(w, &t->e.member[i], p, size);
	if (t->e.kind == TYPE_UNION) {
		/* Which member counts is not known: the bytes of another one may never have been written. */
		w->weak = true;
		put_words(w, p, size);
	}
	w->weak = was_weak;
	w->depth--;
}

static void put_scalar(struct walk *w, const struct diff_type *t, const uint8_t *p, uint32_t size)
{
	switch (t->e.kind) {
	case TYPE_BOOL:
		put_integer(w, t, diff_canon_load(p, size) != 0, 1, p);
		return;
	case TYPE_SIGNED:
	case TYPE_UNSIGNED:
	case TYPE_CHAR:
	case TYPE_ENUM:
		if (size <= 8)
			put_integer(w, t, diff_canon_load(p, size), size, p);
		else
			put_words(w, p, size);
		return;
	case TYPE_FLOAT:
		put_float(w, p, size);
		return;
	case TYPE_POINTER:
	case TYPE_STRING:
		if (size == 8)
			put_address(w, diff_canon_load(p, 8), true);
		return;
	case TYPE_STRUCT:
	case TYPE_UNION:
	case TYPE_ARRAY:
		return; /* no scalars */
	case TYPE_REGISTER:
	case TYPE_UNKNOWN: {
		bool was_weak = w->weak;

		w->weak = true;
		put_words(w, p, size);
		w->weak = was_weak;
		return;
	}
	case TYPE_VOID:
	case TYPE_CODE:
		return;
	}
}

static bool has_parts(enum type_kind kind)
{
	return kind == TYPE_STRUCT || kind == TYPE_ARRAY;
}

static void put_value(struct walk *w, const struct diff_type *t, const uint8_t *p, uint32_t size)
{
	if (has_parts(t->e.kind) || t->e.kind == TYPE_UNION) {
		put_parts(w, t, p, size);
		return;
	}
	w->is_unset = is_unset(w, p, size);
	put_scalar(w, t, p, size);
	w->is_unset = false;
}

/* What people write: no character of control but white space. */
static bool is_text(const uint8_t *p, uint32_t len)
{
	uint32_t i;

	for (i = 0; i < len; i++)
		if (p[i] < 0x20 ? !isspace(p[i]) : p[i] == 0x7f)
			return false;
	return true;
}

/*
 * Of a text that is not finished the rest is whatever was there, up to any length. So where bytes are reported
 * apart it is byte by byte, the NUL byte too, each of which was written or was not.
 */
static void put_bytes(struct walk *w, const struct call_value *v, bool weak)
{
	uint32_t n = v->to_len + (v->to_state == VALUE_OK), i;

	if (!w->out->list && !(w->unset && memchr(w->unset, 1, n))) {
		put_mark(w, weak, MARK_STATE, v->to_state, v->to_state);
		put_text(w, v->to, v->to_len, weak);
		return;
	}
	for (i = 0; i < n; i++) {
		uint8_t byte = i < v->to_len ? v->to[i] : 0;

		w->is_unset = w->unset && w->unset[i];
		put(w, TOKEN_EXACT, weak, diff_mix(diff_mix(MARK_TEXT, i), byte), byte);
	}
	w->is_unset = false;
}

static void put_string(struct walk *w, const struct diff_type *t, const struct call_value *v,
		       unsigned int flags, bool is_result)
{
	bool trusted = t->to_const || is_result || (!(flags & CANON_OVER) && is_text(v->to, v->to_len));

	put_bytes(w, v, !trusted);
}

static bool is_text_array(const struct diff_canon *c, const struct diff_type *t)
{
	const struct diff_type *element = t->e.kind == TYPE_ARRAY ? diff_canon_type(c, t->e.target) : NULL;

	return element && is_character(element);
}

static void put_pointee(struct walk *w, const struct diff_type *t, const struct call_value *v,
			unsigned int flags, bool is_result)
{
	const struct diff_type *target = diff_canon_type(w->c, t->e.target);
	uint32_t len = v->to_len;

	w->is_pointee = true;
	w->weak |= t->is_moving;
	if (v->to_state != VALUE_OK && v->to_state != VALUE_CUT) {
		put_mark(w, !t->to_const, MARK_STATE, v->to_state, v->to_state);
		return;
	}
	w->base = v->to;
	w->base_len = len;
	w->skew = v->size == 8 ? (uint32_t)(diff_canon_load(v->bytes, 8) % 8) : 0;
	w->unset = is_result || len > CALL_POINTEE_MAX ? NULL : w->out->unset;
	if (t->e.kind == TYPE_STRING) {
		put_string(w, t, v, flags, is_result);
		return;
	}
	if (!target)
		return;
	if (!t->to_const) {
		/* The callee may be there to fill it. */
		w->weak |=
			!has_parts(target->e.kind) || (flags & CANON_OVER) || (w->c->no_frames && !is_result);
	}
	/* A text is all there; of other memory that is shown in some length, the end may be anything. */
	w->may_be_unset = !(t->to_const && is_text_array(w->c, target) && memchr(v->to, '\0', len));
	if (has_parts(target->e.kind) || (target->e.size && len >= target->e.size))
		put_value(w, target, v->to, target->e.size && len > target->e.size ? target->e.size : len);
}

void diff_canon_put_after(struct diff_canon *c, const struct diff_type *t, const struct call_value *v,
			  struct diff_tokens *ret)
{
	const struct diff_type *target = diff_canon_type(c, t->e.target);
	const uint32_t len = v->to_len;
	struct walk w = { .c = c,
			  .out = ret,
			  .base = v->to,
			  .base_len = len,
			  .is_pointee = true,
			  .weak = t->is_moving,
			  .unset = ret->unset,
			  .after = true };

	if (v->to_state != VALUE_OK && v->to_state != VALUE_CUT)
		put_mark(&w, false, MARK_STATE, v->to_state, v->to_state);
	else if (t->e.kind == TYPE_STRING)
		put_bytes(&w, v, false);
	else if (target && (has_parts(target->e.kind) || (target->e.size && len >= target->e.size)))
		put_value(&w, target, v->to, target->e.size && len > target->e.size ? target->e.size : len);
}

/* A process or thread id may be in it, as that of a mutex's owner. */
static void put_half(const struct walk *w, uint64_t v)
{
	const uintptr_t task = (uintptr_t)map64_get(&w->c->tasks, v);

	put(w, TOKEN_INTEGER, false, task ? diff_mix(MARK_TASK, task) : diff_mix(MARK_NUMBER, v), v);
}

void diff_canon_put_words(struct diff_canon *c, const uint8_t *bytes, uint32_t len, struct diff_tokens *ret)
{
	struct walk w = { .c = c, .out = ret };
	uint32_t i, k, n;

	for (i = 0; i < len; i += 8) {
		n = len - i < 8 ? len - i : 8;
		if (diff_space_kind(&c->space, diff_canon_load(bytes + i, n), false) > PLACE_NONE)
			put_address(&w, diff_canon_load(bytes + i, n), false);
		else
			for (k = 0; k < n; k += 4)
				put_half(&w, diff_canon_load(bytes + i + k, n - k < 4 ? n - k : 4));
	}
}

void diff_canon_put(struct diff_canon *c, const struct diff_type *t, const struct call_value *v,
		    unsigned int flags, bool is_result, struct diff_tokens *ret)
{
	struct walk w = { .c = c, .out = ret };
	int64_t pid;

	if (v->state != VALUE_OK) {
		put_mark(&w, false, MARK_STATE, v->state, v->state);
		return;
	}
	w.base = v->bytes;
	w.base_len = v->size;
	w.weak = flags & (CANON_MEMORY | (is_result ? CANON_RESULT_NOISE : CANON_PARAMS_NOISE));
	if (is_result && (flags & CANON_RESULT_PID) && (v->size == 4 || v->size == 8)) {
		pid = v->size == 4 ? (int32_t)diff_canon_load(v->bytes, 4)
				   : (int64_t)diff_canon_load(v->bytes, 8);
		put_mark(&w, false, MARK_TASK, pid > 0 ? 1 : pid, (uint64_t)pid);
		return;
	}
	if (t->e.kind == TYPE_STRING) {
		/* Its text says more than whether it lies in the heap or in the program. */
		uint64_t at = v->size == 8 ? diff_canon_load(v->bytes, 8) : 0;
		bool is_address = at && diff_space_kind(&c->space, at, true) != PLACE_NONE;

		put_mark(&w, false, is_address ? MARK_DYNAMIC : MARK_NUMBER, is_address ? 0 : at, at);
	} else {
		put_value(&w, t, v->bytes, v->size);
	}
	if ((t->e.kind == TYPE_POINTER || t->e.kind == TYPE_STRING) && !ret->no_pointee)
		put_pointee(&w, t, v, flags, is_result);
}

bool diff_canon_add_task(struct diff_canon *c, int32_t id)
{
	uint64_t key = (uint32_t)id;

	return map64_get(&c->tasks, key) || map64_put(&c->tasks, key, (void *)(uintptr_t)(c->tasks.n + 1));
}

static void free_type(void *value)
{
	struct diff_type *t = value, *older;

	for (; t; t = older) {
		older = t->older;
		free(t->event);
		free(t);
	}
}

void diff_canon_deinit(struct diff_canon *c)
{
	map64_deinit_values(&c->types, free_type);
	map64_deinit(&c->tasks);
	map64_deinit(&c->heap);
	diff_space_deinit(&c->space);
}

static bool has_word(const char *text, size_t len, const char *word)
{
	size_t n = strlen(word), i;

	for (i = 0; i + n <= len; i++)
		if (!memcmp(text + i, word, n) &&
		    (i == 0 || !(isalnum((unsigned char)text[i - 1]) || text[i - 1] == '_')) &&
		    (i + n == len || !(isalnum((unsigned char)text[i + n]) || text[i + n] == '_')))
			return true;
	return false;
}

static bool names_any(const char *text, const char *const *words)
{
	for (; *words; words++)
		if (has_word(text, strlen(text), *words))
			return true;
	return false;
}

/* The type that is written in @len characters: "const char" is, "const char *" is not. */
static bool is_const(const char *name, size_t len)
{
	const char *star = memrchr(name, '*', len), *from = star ? star + 1 : name;

	return has_word(from, len - (size_t)(from - name), "const");
}

static void read_name(struct diff_type *t)
{
	static const char *const times[] = { "time_t",	"__time_t",  "clock_t",	    "__clock_t", "timespec",
					     "timeval", "itimerval", "itimerspec",  "tm",	 "timex",
					     "rusage",	"tms",	     "suseconds_t", NULL };
	static const char *const files[] = { "ino_t", "__ino_t", "ino64_t", "__ino64_t", NULL };
	static const char *const pids[] = { "pid_t", "__pid_t", "pthread_t", NULL };
	const char *name = t->e.name, *star;

	if (!name)
		return;
	t->is_moving = names_any(name, times) || names_any(name, files);
	t->is_pid = names_any(name, pids);
	star = strrchr(name, t->e.kind == TYPE_POINTER && !strchr(name, '*') ? '&' : '*');
	t->to_const = star && is_const(name, (size_t)(star - name));
}

/* A pointer whose own name does not tell may lead to a type whose name does. */
static void read_target(struct diff_canon *c, struct diff_type *t)
{
	const struct diff_type *target = diff_canon_type(c, t->e.target);

	if ((t->e.kind == TYPE_POINTER || t->e.kind == TYPE_STRING) && target && target->e.name)
		t->to_const |= is_const(target->e.name, strlen(target->e.name));
	if (t->e.kind == TYPE_POINTER && target)
		t->is_moving |= target->is_moving;
}

bool diff_canon_add_type(struct diff_canon *c, const struct type_event *from)
{
	const struct trace_event event = { .type = EVENT_TYPE, .type_info = *from };
	struct diff_type *t = calloc(1, sizeof(*t)), *old = map64_get(&c->types, from->id);

	if (!t)
		return false;
	t->event = event_dup(&event);
	if (!t->event || !map64_put(&c->types, from->id, t)) {
		free_type(t);
		return false;
	}
	t->e = t->event->type_info;
	if (from->id < CANON_NEAR_TYPES)
		c->near[from->id] = t;
	/* Functions refer to it. */
	t->older = old;
	read_name(t);
	read_target(c, t);
	return true;
}
