/*
 * Each side's code is walked by itself. In it, the other side's event is the place that it has there: the same
 * address if the files are the same; else the call of that function with the same rank among those of the caller,
 * if both have as many, and any of them otherwise.
 */
#include "watchctl/view/diff/diff_parting.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/bisect.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/map64.h"
#include "watchctl/code/elf/module_jit.h"
#include "watchctl/code/insn/code_ways.h"
#include "watchctl/code/insn/insn_scan.h"
#include "watchctl/code/symbols/code_entry.h"
#include "watchctl/code/symbols/symbolizer.h"
#include "watchctl/view/diff/diff_detail.h"

#define BOTH (CODE_EVENT_A | CODE_EVENT_B)
#define CANDIDATES 64u
#define SITES_MAX 1024u

/* One run: a call that is open, the last one that it has made and that agrees, and what comes next. */
struct part_side {
	struct diff_side *s;
	struct diff_thread *t;
	uint32_t parent, prev, next; /* NO_CALL: no call before; the next thing is the parent's return */
	uint64_t from, site;	     /* where it goes on; of the next call; 0: of the return */
	uint64_t bias, start, end;   /* of the parent's function */
	bool tail;		     /* it jumps to the next one: there is no site */
	const char *name, *callee;
	struct module module;
	struct code_entries *entries;
	struct code_ways ways;
};

/* Sites */

static struct wc_error *read_site(struct part_side *p, uint32_t call, uint64_t *ret, bool *tail)
{
	struct diff_detail d;
	struct wc_error *err = diff_detail_read(p->s, p->t, call, &d);

	if (err)
		return err;
	*ret = d.site;
	*tail = d.is_tail;
	diff_detail_deinit(&d);
	return NULL;
}

static const struct location *location_of(const struct part_side *p, uint64_t site)
{
	return symbolizer_lookup(p->s->names, site - 1);
}

static const char *real_function(const struct location *l)
{
	return l->frame[l->nframes - 1].function;
}

/* By any return address into the module of the parent's function. */
static bool find_bias(struct part_side *p, const struct diff_function *f, uint64_t site)
{
	const struct location *l = site ? location_of(p, site) : NULL;

	if (!l || !l->module || l->stale || !strcmp(l->module, MODULE_JIT) || !f->e.module || !f->e.address ||
	    strcmp(l->module, f->e.module) != 0)
		return false;
	p->bias = site - 1 - l->module_offset;
	p->module = (struct module){ .end = UINT64_MAX, .bias = p->bias, .path = (char *)l->module };
	p->module.build_id_len = l->build_id_len;
	memcpy(p->module.build_id, l->build_id, l->build_id_len);
	return true;
}

/* Without what the compiler appends to the names of parts and copies: "f.lto_priv.0.cold". */
static size_t plain_length(const char *name)
{
	static const char *const marks[] = { ".cold",	    ".part.", ".lto_priv.",
					     ".constprop.", ".isra.", " [clone " };
	size_t len = strlen(name), i;

	for (i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		const char *mark = strstr(name, marks[i]);

		if (mark && (size_t)(mark - name) < len)
			len = (size_t)(mark - name);
	}
	return len;
}

static bool is_own_code(void *ctx, uint64_t addr)
{
	const struct part_side *p = ctx;
	const char *name;

	if (p->start <= addr && addr < p->end)
		return true;
	/* A part of it that lies elsewhere has its name. */
	name = real_function(symbolizer_lookup(p->s->names, addr));
	return name && p->name && plain_length(name) == plain_length(p->name) &&
	       !strncmp(name, p->name, plain_length(name));
}

/* *@known: where the parent goes on, and its function's code. */
static struct wc_error *find_code(struct part_side *p, bool *known)
{
	const struct diff_function *f = diff_function_of(p->t, p->parent);
	uint64_t prev = 0, outer = 0;
	struct wc_error *err = NULL;
	bool tail;

	*known = false;
	if (p->prev != NO_CALL)
		err = read_site(p, p->prev, &prev, &tail);
	if (!err && p->next != NO_CALL)
		err = read_site(p, p->next, &p->site, &p->tail);
	if (!err)
		err = read_site(p, p->parent, &outer, &tail);
	if (err || (p->prev != NO_CALL && !prev) || (p->next != NO_CALL && !p->site && !p->tail))
		return err;
	if (!find_bias(p, f, prev ? prev : p->site ? p->site : outer))
		return NULL;
	if (!symbolizer_function(p->s->names, f->e.address + p->bias, &p->start, &p->end) ||
	    p->start != f->e.address + p->bias)
		return NULL;
	p->name = real_function(symbolizer_lookup(p->s->names, p->start));
	p->from = prev ? prev : p->start;
	*known = is_own_code(p, p->from) && (!p->site || is_own_code(p, p->site - 1));
	return NULL;
}

/* Code */

static size_t part_bytes(void *ctx, uint64_t addr, const uint8_t **ret)
{
	const struct part_side *p = ctx;

	return code_entry_bytes(p->entries, addr - p->bias, ret);
}

static bool names_agree(const char *a, const char *b)
{
	return a && b && !strcmp(a, b);
}

/* Whether a call goes to the function @name: by itself, by a stub, or by the pointer that a stub would use. */
static bool calls(const struct part_side *p, const struct insn_brief *insn, const char *name)
{
	size_t n, i;
	const struct code_stub *stub = code_entry_stubs(p->entries, &n);
	uint64_t target = insn->target - p->bias, slot = insn->refers - p->bias;

	if (insn->has_target &&
	    names_agree(real_function(symbolizer_lookup(p->s->names, insn->target)), name))
		return true;
	for (i = 0; i < n; i++)
		if (insn->has_target ? stub[i].address && stub[i].address == target
				     : insn->has_rip && stub[i].slot == slot)
			return names_agree(stub[i].name, name);
	return false;
}

/* The return addresses of the function's calls of @name, in order; how many. */
static size_t calls_of(const struct part_side *p, const char *name, uint64_t *ret, size_t max)
{
	struct insn_brief insn;
	uint64_t at = p->start;
	const uint8_t *bytes;
	size_t n = 0, len;

	for (; at < p->end && n < max; at += insn.len) {
		len = part_bytes((void *)p, at, &bytes);
		if (!len || !insn_scan(bytes, len < INSN_MAX ? len : INSN_MAX, at, &insn))
			break;
		if (insn.flow == INSN_CALL && calls(p, &insn, name))
			ret[n++] = at + insn.len;
	}
	return n;
}

static bool same_file(const struct part_side *a, const struct part_side *b)
{
	return a->module.build_id_len && a->module.build_id_len == b->module.build_id_len &&
	       !memcmp(a->module.build_id, b->module.build_id, a->module.build_id_len);
}

/* The site in @p's code of the call that @other makes next; 0: not known. */
static uint64_t counterpart(const struct part_side *p, const struct part_side *other)
{
	scoped(freep) uint64_t *mine = NULL, *its = NULL;
	size_t n, i;

	if (other->tail)
		return 0;
	if (same_file(p, other))
		return other->site - other->bias + p->bias;
	mine = calloc(SITES_MAX, sizeof(*mine));
	its = calloc(SITES_MAX, sizeof(*its));
	if (!mine || !its)
		return 0;
	n = calls_of(other, other->callee, its, SITES_MAX);
	if (calls_of(p, other->callee, mine, SITES_MAX) != n)
		return 0;
	for (i = 0; i < n; i++)
		if (its[i] == other->site)
			return mine[i];
	return 0;
}

static bool is_end(const struct code_way *v)
{
	return v->insn.flow == INSN_RET || (v->insn.flow == INSN_JUMP && v->leaves);
}

/* Makes all the places events that @next's side may mean; @site: the one, if it is known. */
static bool set_event(struct part_side *p, const struct part_side *of, uint64_t site, uint8_t bit)
{
	bool any = false;
	size_t i;

	for (i = 0; i < p->ways.n; i++) {
		struct code_way *v = &p->ways.v[i];
		bool is = of->tail ? v->insn.flow == INSN_JUMP && v->leaves : v->insn.flow == INSN_CALL;

		if (of->next == NO_CALL)
			is = is_end(v);
		else if (site)
			is = is && v->at + v->insn.len == site;
		else
			is = is && calls(p, &v->insn, of->callee);
		if (is)
			v->is_event |= bit;
		any |= is;
	}
	return any;
}

/* An event that no way shows may lie behind a jump whose target is not known, as of a switch. */
static bool may_be_elsewhere(const struct part_side *p)
{
	size_t i;

	for (i = 0; i < p->ways.n; i++)
		if (p->ways.v[i].is_unknown)
			return true;
	return false;
}

/* Walks @p's code to both events. *@events: those that it has. False: no memory. */
static bool walk(struct part_side *p, const struct part_side *other, bool pass_calls, uint8_t *events)
{
	const struct code_view code = { part_bytes, p };
	const struct code_inside inside = { is_own_code, p };
	uint64_t site = other->next != NO_CALL ? counterpart(p, other) : 0;

	*events = 0;
	code_ways_deinit(&p->ways);
	if (!code_ways_find(&p->ways, &code, &inside, p->from, pass_calls))
		return false;
	if (set_event(p, p, p->site, CODE_EVENT_A) || may_be_elsewhere(p))
		*events |= CODE_EVENT_A;
	if (set_event(p, other, site, CODE_EVENT_B) || may_be_elsewhere(p))
		*events |= CODE_EVENT_B;
	code_ways_reach(&p->ways);
	return true;
}

/* Calls that are not recorded lie between only where it does not go without. */
static bool walk_both_ways(struct part_side *p, const struct part_side *other, uint8_t *events)
{
	uint8_t begins;

	if (!walk(p, other, false, events))
		return false;
	begins = p->ways.n ? p->ways.v[0].reaches : 0;
	return begins == BOTH || walk(p, other, true, events);
}

/* Branches */

struct branch {
	uint64_t at;
	const struct location *l;
};

static bool same_line(const struct branch *a, const struct branch *b)
{
	const struct frame_name *x = &a->l->frame[0], *y = &b->l->frame[0];

	return a->l->nframes == b->l->nframes && x->line && x->line == y->line &&
	       names_agree(x->function, y->function) && names_agree(x->file, y->file);
}

/* One for each line. */
static size_t branches_of(const struct part_side *p, uint8_t events, struct branch *ret, size_t max)
{
	size_t n = 0, i, k;

	for (i = 0; i < p->ways.n && n < max; i++) {
		struct branch b = { .at = p->ways.v[i].at };

		if (!code_ways_decides(&p->ways, i, events))
			continue;
		b.l = symbolizer_lookup(p->s->names, b.at);
		for (k = 0; k < n && !same_line(&ret[k], &b); k++)
			;
		if (k == n)
			ret[n++] = b;
	}
	return n;
}

/* The functions of both sides' branches are the same, if it is one decision. */
static bool is_in(const struct branch *b, const struct branch *v, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (names_agree(b->l->frame[0].function, v[i].l->frame[0].function))
			return true;
	return false;
}

static void put_branches(const struct branch *v, size_t n, const struct branch *other, size_t nother,
			 struct diff_parting *ret)
{
	size_t i, shared = 0;

	for (i = 0; i < n; i++)
		shared += is_in(&v[i], other, nother);
	for (i = 0; i < n; i++) {
		if (shared && !is_in(&v[i], other, nother))
			continue;
		if (ret->nbranches < PARTING_BRANCHES)
			ret->branch[ret->nbranches++] = v[i].at;
		else
			ret->more++;
	}
}

static bool find_branches(struct part_side *a, struct part_side *b, struct diff_parting *ret)
{
	struct branch in_a[CANDIDATES], in_b[CANDIDATES];
	uint8_t events_a, events_b;
	size_t na, nb;

	if (!walk_both_ways(a, b, &events_a) || !walk_both_ways(b, a, &events_b))
		return false;
	na = events_a & CODE_EVENT_A ? branches_of(a, events_a, in_a, CANDIDATES) : 0;
	nb = events_b & CODE_EVENT_A ? branches_of(b, events_b, in_b, CANDIDATES) : 0;
	ret->in_good = !nb;
	if (nb)
		put_branches(in_b, nb, in_a, na, ret);
	else
		put_branches(in_a, na, in_b, nb, ret);
	return true;
}

/* Inlined functions */

struct inlined_list {
	struct diff_inlined *v;
	size_t n, cap;
};

static struct diff_inlined *find_inlined(const struct inlined_list *l, const char *function)
{
	size_t i;

	for (i = 0; i < l->n; i++)
		if (!strcmp(l->v[i].function, function))
			return &l->v[i];
	return NULL;
}

static bool add_inlined(const struct part_side *p, uint64_t addr, struct inlined_list *l)
{
	const struct location *at = symbolizer_lookup(p->s->names, addr);
	size_t i;

	for (i = 0; i + 1 < at->nframes; i++) {
		const struct frame_name *f = &at->frame[i];
		struct diff_inlined new = { f->function, f->file, f->line };

		if (f->function && !find_inlined(l, f->function) && !vec_push(l->v, l->n, l->cap, new))
			return false;
	}
	return true;
}

/* All on the ways to the event, and those that the ways begin and end in. */
static bool inlined_between(struct part_side *p, const struct part_side *other, struct inlined_list *l)
{
	uint8_t events;
	size_t i;

	if (!walk(p, other, false, &events))
		return false;
	if ((!p->ways.n || !(p->ways.v[0].reaches & CODE_EVENT_A)) && !walk(p, other, true, &events))
		return false;
	if (p->prev != NO_CALL && !add_inlined(p, p->from - 1, l))
		return false;
	for (i = 0; i < p->ways.n; i++)
		if (p->ways.v[i].reaches & CODE_EVENT_A && !add_inlined(p, p->ways.v[i].at, l))
			return false;
	return true;
}

static bool find_inlined_functions(struct part_side *a, struct part_side *b, struct diff_parting *ret)
{
	struct inlined_list in_a = { 0 }, in_b = { 0 };
	bool ok = inlined_between(a, b, &in_a) && inlined_between(b, a, &in_b);
	size_t i, n = 0;

	for (i = 0; ok && i < in_b.n; i++) {
		if (!find_inlined(&in_a, in_b.v[i].function))
			continue;
		if (n < PARTING_INLINED)
			ret->inlined[n] = in_b.v[i];
		n++;
	}
	ret->ninlined = n <= PARTING_INLINED ? n : 0;
	free(in_a.v);
	free(in_b.v);
	return ok;
}

/* Both runs */

/* The last call that @parent has made before @next; NO_CALL: none. */
static uint32_t call_before(const struct diff_thread *t, uint32_t parent, uint32_t next)
{
	uint32_t end = next == NO_CALL ? diff_next(t, parent) : next, i, before = NO_CALL;

	for (i = parent + 1; i < end; i = diff_next(t, i))
		before = i;
	return before;
}

static uint32_t call_behind(const struct diff_thread *t, uint32_t parent, uint32_t before)
{
	uint32_t i = before == NO_CALL ? parent + 1 : diff_next(t, before);

	return i < diff_next(t, parent) ? i : NO_CALL;
}

/* One side has no call of its own in the finding: what it does next comes behind the mate of the last one before. */
static bool complete(struct part_side *has, struct part_side *lacks, uint32_t mate)
{
	if (has->prev != NO_CALL && mate == NO_CALL)
		return false;
	lacks->prev = has->prev == NO_CALL ? NO_CALL : mate;
	lacks->next = call_behind(lacks->t, lacks->parent, lacks->prev);
	return true;
}

static bool set_calls(const struct diff_threads *p, const struct diff_finding *f, struct part_side *a,
		      struct part_side *b)
{
	a->parent = f->in_a;
	b->parent = f->in_b;
	if (a->parent == NO_CALL || b->parent == NO_CALL)
		return false;
	a->next = f->a;
	b->next = f->b;
	if (f->a != NO_CALL)
		a->prev = call_before(p->a, a->parent, f->a);
	if (f->b != NO_CALL)
		b->prev = call_before(p->b, b->parent, f->b);
	if (f->b == NO_CALL)
		return complete(a, b, a->prev == NO_CALL ? NO_CALL : diff_mate_of_a(p, a->prev));
	return f->a != NO_CALL || complete(b, a, b->prev == NO_CALL ? NO_CALL : diff_mate_of(p, b->prev));
}

/* False: nothing can be said of a finding like that. */
static bool set_sides(const struct diff_threads *p, const struct diff_finding *f, struct part_side *a,
		      struct part_side *b)
{
	switch (f->kind) {
	case FINDING_CALLS:
		if (!set_calls(p, f, a, b))
			return false;
		break;
	case FINDING_PARAMS:
		a->parent = diff_parent(p->a, f->a);
		b->parent = diff_parent(p->b, f->b);
		if (a->parent == NO_CALL || b->parent == NO_CALL)
			return false;
		a->next = f->a;
		b->next = f->b;
		a->prev = call_before(p->a, a->parent, a->next);
		b->prev = call_before(p->b, b->parent, b->next);
		break;
	case FINDING_RESULT:
		a->parent = f->a;
		b->parent = f->b;
		a->prev = call_before(p->a, a->parent, NO_CALL);
		b->prev = call_before(p->b, b->parent, NO_CALL);
		break;
	case FINDING_ENDED:
	case FINDING_THREAD:
		return false;
	}
	return a->prev == NO_CALL ? b->prev == NO_CALL : diff_mate_of_a(p, a->prev) == b->prev;
}

/* False: a signal comes next, or an end that is no return. */
static bool is_of_code(const struct part_side *p)
{
	if (p->t->call[p->parent].flags & DIFF_SIGNAL)
		return false;
	if (p->next != NO_CALL)
		return !(p->t->call[p->next].flags & DIFF_SIGNAL);
	return p->t->call[p->parent].how == RETURN_RETURNED;
}

static struct wc_error *prepare(struct part_side *p, bool *known)
{
	struct wc_error *err = find_code(p, known);

	if (err || !*known)
		return err;
	p->callee = p->next != NO_CALL ? diff_function_of(p->t, p->next)->e.name : NULL;
	p->entries = code_entries_new(&p->module);
	return p->entries ? NULL : &wc_enomem;
}

/* They go to other places, or one of them to none: that is decided by a branch. */
static bool goes_elsewhere(const struct part_side *a, const struct part_side *b)
{
	if (a->next == NO_CALL || b->next == NO_CALL)
		return a->next != b->next;
	if (!names_agree(a->callee, b->callee))
		return true;
	return counterpart(a, b) && counterpart(a, b) != a->site;
}

static void part_side_deinit(struct part_side *p)
{
	code_entries_free(p->entries);
	code_ways_deinit(&p->ways);
}

struct wc_error *diff_parting_find(const struct diff_compare *c, const struct diff_finding *f,
				   struct diff_parting *ret)
{
	const struct diff_threads *p = &c->pair[f->pair];
	struct part_side a = { .s = c->a, .t = p->a, .prev = NO_CALL, .next = NO_CALL };
	struct part_side b = { .s = c->b, .t = p->b, .prev = NO_CALL, .next = NO_CALL };
	struct wc_error *err = NULL;
	bool known_a = false, known_b = false;

	*ret = (struct diff_parting){ 0 };
	if (!p->a || !p->b || !set_sides(p, f, &a, &b) || !is_of_code(&a) || !is_of_code(&b))
		return NULL;
	err = prepare(&a, &known_a);
	if (!err && known_a)
		err = prepare(&b, &known_b);
	if (!err && known_a && known_b &&
	    !(goes_elsewhere(&a, &b) ? find_branches(&a, &b, ret) : find_inlined_functions(&a, &b, ret)))
		err = &wc_enomem;
	part_side_deinit(&a);
	part_side_deinit(&b);
	return err;
}
