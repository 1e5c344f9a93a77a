/*
 * Spans are kept sorted and without overlaps: a lookup is the last answer of that part of the addresses, or a binary search. The stack that
 * grows reaches below the mapping that was there when the log told about it; nothing else lies within
 * STACK_GROWTH below it (the kernel keeps a gap of 128 MB and more there).
 */
#include "watchctl/view/diff/diff_space.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/bisect.h"
#include "watchctl/base/vec.h"
#include "watchctl/view/diff/base/diff_hash.h"

#define STACK_GROWTH (100u << 20)
/* Addresses of position-independent programs, of libraries and of stacks begin here; few numbers do. */
#define LOOKS_LIKE_ADDRESS 0x550000000000u

const char *diff_base_name(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path;
}

const char *diff_module_name(const char *path, const char *program)
{
	const char *base = diff_base_name(path);

	return base && program && !strcmp(base, program) ? "/" : base;
}

/* The first span that ends behind @addr. */
static size_t find_span(const struct diff_space *s, uint64_t addr)
{
	size_t low = BISECT(s->n, i, s->v[i].end <= addr);
	return low;
}

static bool insert_at(struct diff_space *s, size_t at, const struct diff_span *span)
{
	if (!vec_reserve((void **)&s->v, &s->cap, s->n + 1, sizeof(*s->v)))
		return false;
	memmove(s->v + at + 1, s->v + at, (s->n - at) * sizeof(*s->v));
	s->v[at] = *span;
	s->n++;
	return true;
}

/* Takes [start, end) out of what is there. */
static bool cut_out(struct diff_space *s, uint64_t start, uint64_t end)
{
	size_t i = find_span(s, start);

	while (i < s->n && s->v[i].start < end) {
		struct diff_span *v = &s->v[i], behind = *v;

		if (v->start < start && v->end > end) {
			v->end = start;
			behind.start = end;
			return insert_at(s, i + 1, &behind);
		}
		if (v->start < start) {
			v->end = start;
			i++;
		} else if (v->end > end) {
			v->start = end;
			break;
		} else {
			memmove(v, v + 1, (s->n - i - 1) * sizeof(*v));
			s->n--;
		}
	}
	return true;
}

static bool add_span(struct diff_space *s, const struct diff_span *span)
{
	memset(s->cache, 0, sizeof(s->cache));
	if (span->end <= span->start)
		return true;
	return cut_out(s, span->start, span->end) && insert_at(s, find_span(s, span->start), span);
}

bool diff_space_add_module(struct diff_space *s, const struct module *m)
{
	const char *path = m->path ? m->path : "";
	struct diff_span span = {
		.start = m->start,
		.end = m->end,
		.kind = PLACE_STATIC,
		.bias = m->bias,
		.module = diff_mix_text(1, diff_module_name(path, s->program)),
		.name = (uint32_t)s->nmodules,
	};
	struct diff_module copy = { .path = strdup(path), .build_id_len = m->build_id_len };

	memcpy(copy.build_id, m->build_id, sizeof(copy.build_id));
	if (!copy.path || !vec_push(s->module, s->nmodules, s->modules_cap, copy)) {
		free(copy.path);
		return false;
	}
	return add_span(s, &span);
}

/* Modules know more about their mappings: what lies in one stays theirs. */
bool diff_space_add_region(struct diff_space *s, const struct region_event *r)
{
	struct diff_span span = {
		.start = r->start,
		.end = r->end,
		.kind = r->kind == REGION_STACK ? PLACE_STACK : PLACE_DYNAMIC,
	};
	size_t i = find_span(s, r->start);

	while (i < s->n && s->v[i].start < span.end && span.start < span.end) {
		if (s->v[i].kind != PLACE_STATIC) {
			i++;
			continue;
		}
		if (span.start < s->v[i].start) {
			struct region_event part = { .kind = r->kind,
						     .start = span.start,
						     .end = s->v[i].start };
			uint64_t behind = s->v[i].end;

			if (!diff_space_add_region(s, &part))
				return false;
			span.start = behind;
		} else {
			span.start = s->v[i].end;
		}
		i = find_span(s, span.start);
	}
	return span.start >= span.end || add_span(s, &span);
}

bool diff_space_add_stack(struct diff_space *s, uint64_t start, uint64_t end)
{
	return diff_space_add_region(
		s, &(struct region_event){ .kind = REGION_STACK, .start = start, .end = end });
}

struct diff_place diff_space_search(struct diff_space *s, uint64_t addr, bool typed)
{
	const size_t i = find_span(s, addr);
	const struct diff_span *span = i < s->n ? &s->v[i] : NULL;

	if (span && addr < span->start)
		span = span->kind == PLACE_STACK && span->start - addr < STACK_GROWTH ? span : NULL;
	if (span) {
		s->hint[diff_space_hint(addr)] = (uint32_t)i;
		return (struct diff_place){ span->kind, span->module, addr - span->bias };
	}
	if (typed || addr >= LOOKS_LIKE_ADDRESS)
		return (struct diff_place){ PLACE_DYNAMIC, 0, 0 };
	return (struct diff_place){ PLACE_NONE, 0, 0 };
}

uint64_t diff_space_site(struct diff_space *s, uint64_t addr)
{
	size_t at = (addr * 0x9e3779b97f4a7c15u) >> 52;
	struct diff_place p;

	if (s->no_offsets)
		return 0;
	if (s->cache[at].addr == addr)
		return s->cache[at].site;
	p = diff_space_find(s, addr, true);
	s->cache[at].addr = addr;
	s->cache[at].site = p.kind == PLACE_STATIC ? diff_mix(p.module, p.offset) : 0;
	return s->cache[at].site;
}

void diff_space_deinit(struct diff_space *s)
{
	size_t i;

	for (i = 0; i < s->nmodules; i++)
		free(s->module[i].path);
	free(s->module);
	free(s->v);
	*s = (struct diff_space){ 0 };
}
