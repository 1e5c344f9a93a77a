#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"
#include "watchctl/code/insn/insn_scan.h"
#include "watchctl/code/symbols/code_image.h"
#include "watchctl/patch/plan/patch_landings.h"
#include "watchctl/patch/plan/patch_sites_impl.h"

struct search {
	const struct patch_query *q;
	const struct pattern_binding *binding;
	const struct patch_module *m;
	struct found_sites *ret;
	uint32_t pattern;		     /* that is being looked for */
	const struct map_function *function; /* the last one that was asked for */
	bool wanted;			     /* it is */
};

void found_sites_deinit(struct found_sites *s)
{
	free(s->v);
	*s = (struct found_sites){ 0 };
}

static bool is_wanted(struct search *s, const struct map_function *f)
{
	if (!s->q->function)
		return true;
	if (!s->function || f != s->function) {
		s->function = f;
		s->wanted = patch_names_wants(s->q, f);
	}
	return s->wanted;
}

/* A program may have a piece of a file mapped once more, elsewhere (node has, of its own): there, only that is there. */
static bool is_mapped(const struct module *m, uint64_t addr)
{
	return addr + m->bias >= m->start && addr + m->bias < m->end;
}

static void add(struct search *s, uint64_t addr, bool disputed)
{
	struct found_site f = { addr, s->pattern, disputed };

	if (is_mapped(&s->m->module, addr) && is_wanted(s, code_map_function(&s->m->map, addr)))
		s->ret->failed |= !vec_push(s->ret->v, s->ret->n, s->ret->cap, f);
}

/* Code */

static void match_at(struct search *s, const struct code_part *p, uint64_t addr, size_t len,
		     const struct insn_brief *i)
{
	for (uint32_t k = 0; k < s->q->npatterns; k++) {
		const struct pattern *pattern = &s->q->pattern[k];
		enum pattern_match m;

		if (pattern->kind != PATTERN_CODE && pattern->kind != PATTERN_MASK)
			continue;
		m = pattern_match(pattern, &s->binding[k], p->bytes + (addr - p->start), len, addr, i);
		if (m == PATTERN_NO)
			continue;
		s->pattern = k;
		add(s, addr, m == PATTERN_DISPUTED);
		return;
	}
}

/* All instructions of @p. What matches ends where its function does. */
static void search_part(struct search *s, const struct code_part *p)
{
	uint64_t at = p->start, end = p->start + p->len, limit = at;
	const struct map_function *f = NULL;
	struct insn_brief i;

	while (at < end && !s->ret->failed) {
		if (at >= limit) {
			f = code_map_function(&s->m->map, at);
			limit = f ? f->end : at + 1;
		}
		if (!(p->mark[at - p->start] & MARK_START) ||
		    !insn_scan(p->bytes + (at - p->start), end - at, at, &i)) {
			at++;
			continue;
		}
		match_at(s, p, at, f && f->end < end ? f->end - at : end - at, &i);
		at += i.len;
	}
}

static bool has_code_patterns(const struct patch_query *q)
{
	for (size_t i = 0; i < q->npatterns; i++)
		if (q->pattern[i].kind == PATTERN_CODE || q->pattern[i].kind == PATTERN_MASK)
			return true;
	return false;
}

/* Places */

/* Indirect jumps need endbr64 where they lead: the probe comes behind it. */
static uint64_t behind_endbr(const struct code_map *m, uint64_t addr)
{
	struct insn_brief i;

	return code_map_insn(m, addr, &i) && i.is_endbr ? addr + i.len : addr;
}

/* What only the unwind tables know may be a part that was split off, which nothing calls. */
static bool is_entered(const struct code_map *m, const struct code_function *f, bool parts)
{
	if (f->name)
		return !strstr(f->name, ".cold") && f->end > f->start;
	return parts || code_map_marks(m, f->start) & (MARK_CALL | MARK_TAKEN);
}

static bool is_stub(const struct code_map *m, uint64_t addr)
{
	const struct code_part *p = code_map_part(m, addr);

	return !p || p->is_stubs;
}

static void add_exits(struct search *s, uint64_t start)
{
	const struct code_map *m = &s->m->map;
	const struct map_function *f = code_map_function(m, start);
	struct insn_brief i;
	uint64_t at;

	for (at = start; f && at < f->end && code_map_insn(m, at, &i); at += i.len) {
		bool leaves = i.has_target && (i.target < f->start || i.target >= f->end);

		if (i.flow == INSN_RET || (i.flow == INSN_JUMP && (leaves || i.has_rip)))
			add(s, at, false);
	}
}

static void search_functions(struct search *s, const struct pattern *p)
{
	const struct code_map *m = &s->m->map;
	bool all = !strcmp(p->name, "*");
	size_t n;
	const struct code_function *f = code_image_functions(s->m->image, &n);

	for (size_t i = 0; i < n; i++) {
		bool fits = f[i].name ? code_image_name_fits(f[i].name, p->name) : all;

		if (!fits || is_stub(m, f[i].start) || (all && !is_entered(m, &f[i], p->parts)))
			continue;
		if (p->kind == PATTERN_ENTRY)
			add(s, behind_endbr(m, f[i].start), false);
		else if (p->kind == PATTERN_EXIT)
			add_exits(s, f[i].start);
		else
			add(s, f[i].start + p->number, false);
	}
}

/* Those that jump through pointers; what lies among them for the linker's own use is none. */
static void search_stubs(struct search *s)
{
	const struct code_map *m = &s->m->map;
	size_t n;
	const struct code_stub *stub = code_image_stubs(s->m->image, &n);

	for (size_t i = 0; i < n; i++)
		if (stub[i].address && code_map_part(m, stub[i].address))
			add(s, behind_endbr(m, stub[i].address), false);
}

static void add_landing(void *ctx, uint64_t addr)
{
	add(ctx, addr, false);
}

static void search_address(struct search *s, uint64_t place)
{
	if (code_map_part(&s->m->map, place - s->m->module.bias))
		add(s, place - s->m->module.bias, false);
}

static void search_place(struct search *s, const struct pattern *p, const struct pattern_binding *b)
{
	switch (p->kind) {
	case PATTERN_ADDRESS:
		search_address(s, p->number);
		break;
	case PATTERN_LINE:
		if (b->has_place)
			search_address(s, b->place);
		break;
	case PATTERN_ENTRY:
	case PATTERN_EXIT:
	case PATTERN_OFFSET:
		search_functions(s, p);
		break;
	case PATTERN_STUB:
		search_stubs(s);
		break;
	case PATTERN_LANDING:
		s->ret->failed |= !patch_landings_find(&s->m->map, add_landing, s);
		break;
	default:
		break;
	}
}

static int compare_sites(const void *a, const void *b)
{
	const struct found_site *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return x->pattern < y->pattern ? -1 : x->pattern > y->pattern;
}

static void sort_sites(struct found_sites *s)
{
	size_t n = 0;

	if (s->n)
		qsort(s->v, s->n, sizeof(*s->v), compare_sites);
	for (size_t i = 0; i < s->n; i++)
		if (!n || s->v[n - 1].addr != s->v[i].addr)
			s->v[n++] = s->v[i];
	s->n = n;
}

void patch_sites_find(const struct patch_query *q, const struct pattern_binding *binding,
		      const struct patch_module *m, struct found_sites *ret)
{
	struct search s = { .q = q, .binding = binding, .m = m, .ret = ret };

	for (size_t i = 0; i < m->map.nparts && has_code_patterns(q); i++)
		search_part(&s, &m->map.part[i]);
	for (s.pattern = 0; s.pattern < q->npatterns; s.pattern++)
		search_place(&s, &q->pattern[s.pattern], &binding[s.pattern]);
	sort_sites(ret);
}
