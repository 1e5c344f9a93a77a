/*
 * The sweep decodes each section from its start, and begins anew at each start of a function, so that data between
 * functions, which decodes to nonsense, cannot get a function out of step.
 *
 * All marks err on one side: what is marked as a target without being one costs a better tactic, what is not marked
 * and is one costs a program its life. So targets of jumps that were decoded from data count, too.
 */
#include "watchctl/patch/plan/code_map.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/bisect.h"
#include "watchctl/base/vec.h"
#include "watchctl/patch/plan/code_map_impl.h"

void code_map_deinit(struct code_map *m)
{
	for (size_t i = 0; i < m->nparts; i++)
		free(m->part[i].mark);
	free(m->part);
	free(m->function);
	free(m->padding);
	free(m->reference);
	free(m->jump);
	*m = (struct code_map){ 0 };
}

void code_map_add_part(struct code_map *m, uint64_t start, const uint8_t *bytes, size_t len, bool is_stubs)
{
	struct code_part p = { start, bytes, len, is_stubs, calloc(len ? len : 1, 1) };

	if (p.mark && vec_push(m->part, m->nparts, m->part_cap, p))
		return;
	free(p.mark);
	m->failed = true;
}

void code_map_add_function(struct code_map *m, uint64_t start, uint64_t end, const char *name)
{
	struct map_function f = { start, end < start ? start : end, name, 0 };

	m->failed |= !vec_push(m->function, m->nfunctions, m->function_cap, f);
}

struct code_part *code_map_part(const struct code_map *m, uint64_t addr)
{
	size_t low = BISECT(m->nparts, i, m->part[i].start <= addr);
	return low && addr - m->part[low - 1].start < m->part[low - 1].len ? &m->part[low - 1] : NULL;
}

unsigned int code_map_marks(const struct code_map *m, uint64_t addr)
{
	const struct code_part *p = code_map_part(m, addr);

	return p ? p->mark[addr - p->start] : 0;
}

void code_map_mark(struct code_map *m, uint64_t addr, unsigned int mark)
{
	struct code_part *p = code_map_part(m, addr);

	if (p)
		p->mark[addr - p->start] |= mark;
}

struct map_function *code_map_function(const struct code_map *m, uint64_t addr)
{
	size_t low = BISECT(m->nfunctions, i, m->function[i].start <= addr);
	return low && addr < m->function[low - 1].end ? &m->function[low - 1] : NULL;
}

bool code_map_insn(const struct code_map *m, uint64_t addr, struct insn_brief *ret)
{
	const struct code_part *p = code_map_part(m, addr);

	return p && insn_scan(p->bytes + (addr - p->start), p->len - (addr - p->start), addr, ret);
}

bool code_map_before(const struct code_map *m, uint64_t addr, uint64_t *ret)
{
	const struct code_part *p = code_map_part(m, addr);
	uint64_t at = addr;

	if (!p)
		return false;
	while (at > p->start && addr - at < 15) {
		unsigned int mark = p->mark[--at - p->start];

		if (!(mark & MARK_KNOWN))
			return false;
		if (mark & MARK_START) {
			*ret = at;
			return true;
		}
	}
	return false;
}

/* Functions */

static int compare_parts(const void *a, const void *b)
{
	const struct code_part *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Of several names of one function the plain one is what people know: "malloc", not "__libc_malloc". */
static int compare_names(const char *a, const char *b)
{
	size_t x = a ? strspn(a, "_") : SIZE_MAX, y = b ? strspn(b, "_") : SIZE_MAX;

	if (x != y || !a || !b)
		return x < y ? -1 : x > y;
	return strcmp(a, b);
}

/* Of those that begin at one place, the one with a name, then the longest. */
static int compare_functions(const void *a, const void *b)
{
	const struct map_function *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (!x->name != !y->name)
		return x->name ? -1 : 1;
	if (x->end != y->end)
		return x->end > y->end ? -1 : 1;
	return compare_names(x->name, y->name);
}

static void mark_function(struct code_map *m, const struct map_function *f)
{
	struct code_part *p = code_map_part(m, f->start);
	uint64_t at, end;

	if (!p)
		return;
	end = f->end - p->start < p->len ? f->end - p->start : p->len;
	p->mark[f->start - p->start] |= MARK_ENTRY;
	for (at = f->start - p->start; at < end; at++)
		p->mark[at] |= MARK_KNOWN;
}

/*
 * Leaves one of those that begin at one place, and none that is a mere label in another. Each ends where the next one
 * begins; what is behind a function within another is counted to the inner one.
 */
static void cut_functions(struct code_map *m)
{
	uint64_t end = 0;
	size_t n = 0;

	for (size_t i = 0; i < m->nfunctions; i++) {
		struct map_function f = m->function[i];
		struct map_function *last = n ? &m->function[n - 1] : NULL;

		if (f.start == f.end && f.start < end)
			continue;
		end = f.end > end ? f.end : end;
		f.end = end;
		if (last && last->start == f.start) {
			last->end = f.end;
			continue;
		}
		if (last && last->end > f.start)
			last->end = f.start;
		m->function[n++] = f;
	}
	m->nfunctions = n;
}

#define EXTENT_MOST 0x4000u /* bytes of a function that is looked at for its end */

/*
 * Where the code that begins at @start ends, as far as it goes from there to @limit: behind the instruction that does not go on to the next
 * one, and that no jump before it leads beyond. @start: that is not to be seen.
 */
static uint64_t extent_of(const struct code_map *m, uint64_t start, uint64_t limit)
{
	uint64_t at = start, farthest = start;
	struct insn_brief i;

	if (limit - start > EXTENT_MOST)
		limit = start + EXTENT_MOST;
	while (at < limit && code_map_insn(m, at, &i) && at + i.len <= limit) {
		const bool jumps = i.flow == INSN_JUMP || i.flow == INSN_COND;

		if (jumps && i.has_target && i.target > farthest && i.target < limit)
			farthest = i.target;
		at += i.len;
		if ((i.flow == INSN_RET || i.flow == INSN_JUMP) && at > farthest)
			return at;
	}
	return start;
}

/* Symbols of assembly often have no size; those of crtbegin.o, which each program has, are such. */
static void find_extents(struct code_map *m)
{
	uint64_t known = 0;

	for (size_t i = 0; i < m->nfunctions; i++) {
		struct map_function *f = &m->function[i];
		const struct code_part *p = code_map_part(m, f->start);
		size_t next = i + 1;

		while (next < m->nfunctions && m->function[next].start == f->start)
			next++;
		if (f->start == f->end && f->start >= known && p && next == i + 1) {
			uint64_t limit = p->start + p->len;

			if (next < m->nfunctions && m->function[next].start < limit)
				limit = m->function[next].start;
			f->end = extent_of(m, f->start, limit);
		}
		if (f->end > known)
			known = f->end;
	}
}

static void put_functions(struct code_map *m)
{
	if (!m->nfunctions)
		return;
	qsort(m->function, m->nfunctions, sizeof(*m->function), compare_functions);
	find_extents(m);
	for (size_t i = 0; i < m->nfunctions; i++)
		mark_function(m, &m->function[i]);
	cut_functions(m);
}

/* The sweep */

struct sweep {
	struct code_map *m;
	struct code_part *p;
	size_t next;	   /* function, the next to begin */
	uint64_t padding;  /* where unreached bytes begin; 0: they are reached */
	bool is_unreached; /* execution does not come here from the instruction before */
};

static void end_padding(struct sweep *s, uint64_t at)
{
	struct code_padding p = { s->padding, (uint32_t)(at - s->padding) };

	if (s->padding && p.len >= 2)
		s->m->failed |= !vec_push(s->m->padding, s->m->npaddings, s->m->padding_cap, p);
	s->padding = 0;
}

/* A load of code's bytes; a call or jump through them is one, too. */
static void mark_data(struct code_map *m, uint64_t addr)
{
	for (uint64_t i = 0; i < 8; i++)
		code_map_mark(m, addr + i, MARK_DATA);
}

static void add_reference(struct sweep *s, uint64_t from, uint64_t to)
{
	struct code_reference r = { from, to };

	if (to >= s->m->start && to < s->m->end)
		s->m->failed |= !vec_push(s->m->reference, s->m->nreferences, s->m->reference_cap, r);
}

static void take_address(struct sweep *s, uint64_t at, uint64_t addr)
{
	if (code_map_part(s->m, addr))
		code_map_mark(s->m, addr, MARK_TAKEN);
	else
		add_reference(s, at, addr);
}

static void take_references(struct sweep *s, uint64_t at, const struct insn_brief *i)
{
	if (i->has_rip && i->is_lea)
		take_address(s, at, i->refers);
	else if (i->has_rip && !i->is_nop && code_map_part(s->m, i->refers))
		mark_data(s->m, i->refers);
	/* In a program that is not relocated, a number may be an address. */
	if (i->has_imm && s->m->is_fixed && i->imm >= s->m->start && i->imm < s->m->end)
		take_address(s, at, i->imm);
}

static void take_target(struct sweep *s, const struct insn_brief *i)
{
	unsigned int mark = i->flow == INSN_CALL ? MARK_CALL : MARK_JUMP;

	if (i->target - s->p->start < s->p->len)
		s->p->mark[i->target - s->p->start] |= mark;
	else
		code_map_mark(s->m, i->target, mark);
}

static void take_insn(struct sweep *s, uint64_t at, const struct insn_brief *i)
{
	struct code_map *m = s->m;

	m->ninstructions++;
	s->p->mark[at - s->p->start] |= MARK_START;
	if (i->has_target)
		take_target(s, i);
	else if (i->flow == INSN_JUMP && !i->has_rip && !s->p->is_stubs)
		m->failed |= !vec_push(m->jump, m->njumps, m->jump_cap, at);
	if (i->has_rip || i->has_imm)
		take_references(s, at, i);
	if (s->is_unreached && (i->is_nop || i->is_int3)) {
		s->padding = s->padding ? s->padding : at;
		return;
	}
	end_padding(s, at);
	s->is_unreached = i->flow == INSN_JUMP || i->flow == INSN_RET || i->flow == INSN_STOP;
}

/* How far the next instruction may reach: not into the next function. */
static uint64_t limit_at(struct sweep *s, uint64_t at)
{
	const struct code_map *m = s->m;
	uint64_t end = s->p->start + s->p->len;

	while (s->next < m->nfunctions && m->function[s->next].start <= at)
		s->next++;
	return s->next < m->nfunctions && m->function[s->next].start < end ? m->function[s->next].start : end;
}

/*
 * A function begins within the instruction: it is none. Unwind tables have the way back from signals begin a byte early, so that a
 * return address less 1 is found in it.
 */
static bool holds_entry(const struct sweep *s, uint64_t at, unsigned int len)
{
	for (unsigned int i = 1; i < len; i++)
		if (s->p->mark[at + i - s->p->start] & MARK_ENTRY)
			return true;
	return false;
}

static void sweep_part(struct sweep *s)
{
	uint64_t at = s->p->start, end = at + s->p->len, limit = at;

	s->is_unreached = true;
	while (at < end && !s->m->failed) {
		const uint8_t *bytes = s->p->bytes + (at - s->p->start);
		struct insn_brief i;

		if (at >= limit) {
			limit = limit_at(s, at);
			end_padding(s, at);
		}
		if (s->p->mark[at - s->p->start] & MARK_ENTRY) {
			end_padding(s, at);
			s->is_unreached = false;
		}
		if (!insn_scan(bytes, limit - at, at, &i) || holds_entry(s, at, i.len)) {
			end_padding(s, at);
			s->is_unreached = false;
			at++;
			continue;
		}
		take_insn(s, at, &i);
		at += i.len;
	}
	end_padding(s, end);
}

bool code_map_scan(struct code_map *m)
{
	struct sweep s = { .m = m };

	if (m->nparts)
		qsort(m->part, m->nparts, sizeof(*m->part), compare_parts);
	put_functions(m);
	for (size_t i = 0; i < m->nparts; i++) {
		s.p = &m->part[i];
		sweep_part(&s);
	}
	return !m->failed;
}
