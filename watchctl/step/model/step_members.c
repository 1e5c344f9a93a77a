#include "watchctl/step/model/step_members.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "watchctl/base/error.h"

#define WORD 8u
#define PATH_MAX_LEN 255u
#define TEXT_MAX 256u /* of an array of characters that is one text */
#define DEPTH_MAX 32u

struct split {
	struct step_members *m;
	const struct members_run *r;
	struct wc_error *(*each)(void *ctx, const struct changed_member *c);
	void *ctx;
	char path[PATH_MAX_LEN + 1];
	unsigned int depth;
	struct wc_error *err;
};

/* The part [at, end) of the variable, inside of that which has the path of the moment and begins at @base. */
struct part {
	uint32_t id;
	uint64_t at, end, base;
};

static const struct type_event *type_of(const struct split *s, uint32_t id)
{
	return id == NO_TYPE ? NULL : s->m->ops->type(s->m->planner, id);
}

static bool is_known(const struct members_run *r, uint64_t at, uint64_t end)
{
	return at >= r->offset && end <= (uint64_t)r->offset + r->len;
}

/* Cuts [*at, *end) to what of it is in @r. False: nothing is. */
static bool clip(const struct members_run *r, uint64_t *at, uint64_t *end)
{
	const uint64_t last = (uint64_t)r->offset + r->len;

	*at = *at < r->offset ? r->offset : *at;
	*end = *end > last ? last : *end;
	return *at < *end;
}

static bool has_changed(const struct members_run *r, uint64_t at, uint64_t end)
{
	if (!clip(r, &at, &end))
		return false;
	for (; at < end; at++)
		if (r->changed[at - r->offset])
			return true;
	return false;
}

static void put(struct split *s, const struct changed_member *c)
{
	if (!s->err)
		s->err = s->each(s->ctx, c);
}

/* The words of [at, end) that have changed, as many at once as follow each other. */
static void put_words(struct split *s, uint64_t at, uint64_t end, uint64_t base)
{
	const struct members_run *r = s->r;
	uint64_t from = 0, next;
	bool open = false;

	if (!clip(r, &at, &end))
		return;
	for (; at < end; at = next) {
		const uint64_t word = (at / WORD + 1) * WORD;
		bool changed;

		next = word < end ? word : end;
		changed = has_changed(r, at, next);
		if (changed && !open)
			from = at;
		open |= changed;
		if (open && (!changed || next == end)) {
			put(s, &(struct changed_member){ .path = s->path,
							 .type = NO_TYPE,
							 .offset = (uint32_t)(from - base),
							 .bytes = r->bytes + (from - r->offset),
							 .len = (uint32_t)((changed ? next : at) - from) });
			open = false;
		}
	}
}

static void put_leaf(struct split *s, const struct part *p, uint32_t size)
{
	const struct members_run *r = s->r;

	if (!has_changed(r, p->at, p->at + size))
		return;
	put(s,
	    &(struct changed_member){
		    .path = s->path, .type = p->id, .bytes = r->bytes + (p->at - r->offset), .len = size });
}

static void split(struct split *s, const struct part *p);

/* Bit fields */

static bool is_signed(const struct type_event *t)
{
	return t->kind == TYPE_SIGNED || (t->kind == TYPE_ENUM && t->is_signed);
}

/* @n bits from @bit on, which lie in 8 bytes. */
static uint64_t load_bits(const uint8_t *bytes, unsigned int bit, unsigned int n)
{
	uint64_t v = 0;

	memcpy(&v, bytes, (bit + n + 7) / 8);
	v >>= bit;
	return n < 64 ? v & ((1ull << n) - 1) : v;
}

static void split_bits(struct split *s, const struct type_member *m, uint64_t at)
{
	const struct type_event *type = type_of(s, m->type);
	const unsigned int bits = m->bit_size;
	const uint64_t first = at + m->bit_offset / 8, end = at + (m->bit_offset + bits + 7u) / 8;
	const uint8_t *bytes = s->r->bytes + (first - s->r->offset);
	const uint8_t *changed = s->r->changed + (first - s->r->offset);
	uint64_t v;

	if (!is_known(s->r, first, end) || !type || !type->size || type->size > sizeof(v) ||
	    end - first > sizeof(v)) {
		put_words(s, first, end, first);
		return;
	}
	if (!load_bits(changed, m->bit_offset % 8, bits))
		return;
	v = load_bits(bytes, m->bit_offset % 8, bits);
	if (is_signed(type) && bits < 64 && v >> (bits - 1) & 1)
		v |= ~0ull << bits;
	put(s, &(struct changed_member){
		       .path = s->path, .type = m->type, .bytes = (const uint8_t *)&v, .len = type->size });
}

/* Objects */

/* C++'s class without members, where others lie, too. */
static bool is_empty(const struct type_event *type)
{
	return type->kind == TYPE_STRUCT && !type->nmembers && type->size == 1;
}

static uint32_t size_of(const struct split *s, const struct type_member *m)
{
	const struct type_event *type = type_of(s, m->type);

	return type && !is_empty(type) ? type->size : 0;
}

/* The bytes that @m is in, from the beginning of its object. */
static void extent(const struct split *s, const struct type_member *m, uint64_t *at, uint64_t *end)
{
	*at = m->offset + m->bit_offset / 8u;
	*end = m->bit_size ? m->offset + (m->bit_offset + m->bit_size + 7u) / 8 : *at + size_of(s, m);
}

/* False: the path would be too long. */
static bool append(struct split *s, size_t *len, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static bool append(struct split *s, size_t *len, const char *fmt, ...)
{
	int n;
	va_list ap;

	*len = strlen(s->path);
	va_start(ap, fmt);
	n = vsnprintf(s->path + *len, sizeof(s->path) - *len, fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof(s->path) - *len)
		return true;
	s->path[*len] = '\0';
	return false;
}

static void split_member(struct split *s, const struct type_member *m, const struct part *of)
{
	const bool is_named = m->name && *m->name;
	struct part p = { .id = m->type };
	size_t len;

	extent(s, m, &p.at, &p.end);
	p.at += of->at;
	p.end += of->at;
	p.base = is_named ? p.at : of->base;
	if (!has_changed(s->r, p.at, p.end) || (m->bit_size && !is_named))
		return;
	if (!append(s, &len, "%s%s", is_named ? "." : "", is_named ? m->name : "")) {
		put_words(s, p.at, p.end, of->base);
		return;
	}
	if (m->bit_size)
		split_bits(s, m, of->at + m->offset);
	else
		split(s, &p);
	s->path[len] = '\0';
}

static bool is_covered(const struct split *s, const struct type_event *type, uint64_t at)
{
	for (uint32_t i = 0; i < type->nmembers; i++) {
		uint64_t start, end;

		extent(s, &type->member[i], &start, &end);
		if (start < at + WORD && end > at)
			return true;
	}
	return false;
}

/* A whole word without a member is more than padding: what the compiler has put there (a pointer to a vtable). */
static void split_hidden(struct split *s, const struct type_event *type, const struct part *p)
{
	for (uint64_t at = 0; at + WORD <= type->size; at += WORD)
		if (has_changed(s->r, p->at + at, p->at + at + WORD) && !is_covered(s, type, at))
			put_words(s, p->at + at, p->at + at + WORD, p->base);
}

static void split_struct(struct split *s, const struct type_event *type, const struct part *p)
{
	if (is_empty(type))
		return;
	if (!type->nmembers || type->nmembers == TYPE_MEMBERS_MAX) {
		put_words(s, p->at, p->end, p->base); /* they are not known, or not all */
		return;
	}
	for (uint32_t i = 0; i < type->nmembers; i++)
		split_member(s, &type->member[i], p);
	split_hidden(s, type, p);
}

static void split_array(struct split *s, const struct type_event *type, const struct part *p)
{
	const struct type_event *element = type_of(s, type->target);
	uint64_t from = p->at, to = p->at + type->size;
	size_t len;

	if (!element || !element->size || (element->kind == TYPE_CHAR && element->size == 1)) {
		if (element && type->size && type->size <= TEXT_MAX && is_known(s->r, from, to))
			put_leaf(s, p, type->size);
		else
			put_words(s, from, to, p->base);
		return;
	}
	if (!clip(s->r, &from, &to))
		return;
	for (uint64_t i = (from - p->at) / element->size; p->at + i * element->size < to; i++) {
		const uint64_t at = p->at + i * element->size;
		const struct part e = { .id = type->target, .at = at, .end = at + element->size, .base = at };

		if (e.end > p->end || !has_changed(s->r, e.at, e.end))
			continue;
		if (!append(s, &len, "[%llu]", (unsigned long long)i)) {
			put_words(s, e.at, e.end, p->base);
			continue;
		}
		split(s, &e);
		s->path[len] = '\0';
	}
}

static void split(struct split *s, const struct part *p)
{
	const struct type_event *type = type_of(s, p->id);

	if (!type || !type->size || s->depth == DEPTH_MAX || type->kind == TYPE_UNION ||
	    type->kind == TYPE_UNKNOWN) {
		put_words(s, p->at, p->end, p->base);
		return;
	}
	s->depth++;
	if (type->kind == TYPE_STRUCT)
		split_struct(s, type, p);
	else if (type->kind == TYPE_ARRAY)
		split_array(s, type, p);
	else if (type->size <= TEXT_MAX && is_known(s->r, p->at, p->at + type->size))
		put_leaf(s, p, type->size);
	else
		put_words(s, p->at, p->end, p->base);
	s->depth--;
}

/* Variables */

static struct wc_error *look_up(struct step_members *m, const struct step_global *of, uint32_t *ret)
{
	const uintptr_t have = (uintptr_t)map64_get(&m->known, (uintptr_t)of->name);
	struct wc_error *err = NULL;

	*ret = NO_TYPE;
	if (have) {
		*ret = (uint32_t)(have - 1);
		return NULL;
	}
	if (!m->ops->variable || m->lookups == MEMBERS_LOOKUPS_MAX)
		return NULL;
	m->lookups++;
	err = m->ops->variable(m->planner, of->module, of->start, of->name, ret);
	if (!err && !map64_put(&m->known, (uintptr_t)of->name, (void *)((uintptr_t)*ret + 1)))
		err = &wc_enomem;
	return err;
}

struct wc_error *step_members_split(struct step_members *m, const struct members_run *r,
				    struct wc_error *(*each)(void *ctx, const struct changed_member *c),
				    void *ctx)
{
	struct split s = { .m = m, .r = r, .each = each, .ctx = ctx };
	const uint64_t size = r->of->end - r->of->start;
	const struct type_event *type;
	struct part p = { 0 };
	struct wc_error *err = look_up(m, r->of, &p.id);

	if (err)
		return err;
	snprintf(s.path, sizeof(s.path), "%s", r->of->name);
	type = type_of(&s, p.id);
	/* A definition elsewhere may be of another size than what the linker has kept. */
	p.end = type && type->size && type->size <= size ? type->size : 0;
	if (p.end)
		split(&s, &p);
	put_words(&s, p.end, size, 0);
	return s.err;
}

void step_members_deinit(struct step_members *m)
{
	map64_deinit(&m->known);
}
