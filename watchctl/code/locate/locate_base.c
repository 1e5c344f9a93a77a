/* The variable that an expression begins with, and how much of the expression is its name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/code/locate/code_name_find.h"
#include "watchctl/code/locate/code_name_indirect.h"
#include "watchctl/code/locate/locate_walk.h"

/* "base.member.member": the first @n steps joined to the base, as Go writes "package.Variable". */
static char *join_members(const struct locate_expr *e, size_t n)
{
	char *name = strdup(e->base), *longer;

	for (size_t i = 0; name && i < n; i++) {
		if (asprintf(&longer, "%s.%s", name, e->step[i].name) < 0)
			longer = NULL;
		free(name);
		name = longer;
	}
	return name;
}

static size_t leading_members(const struct locate_expr *e)
{
	size_t n = 0;

	while (!e->is_quoted && n < e->nsteps && e->step[n].op == LOCATE_MEMBER)
		n++;
	return n;
}

static struct wc_error *search_again(struct search *s, const char *module, const char *source)
{
	struct search next = { .locator = s->locator,
			       .modules = s->modules,
			       .name = s->name,
			       .module = module,
			       .source = source };
	struct wc_error *err = search_run(&next);

	if (err || !next.nhits) {
		search_deinit(&next);
		return err;
	}
	search_deinit(s);
	*s = next;
	return NULL;
}

/*
 * Searches for @name. A prefix may be the name of a module and of a source file: it is tried as both. A
 * source file that only declares the variable means the one that another file defines.
 */
static struct wc_error *search_name(struct search *s, const char *name)
{
	struct wc_error *err;

	s->name = name;
	err = search_run(s);
	if (err || s->nhits)
		return err;
	if (s->module && !s->source)
		return search_again(s, NULL, s->module);
	if (s->source && s->problem_fit && s->problem == PLACE_DECLARATION)
		return search_again(s, s->module, NULL);
	return NULL;
}

/* Searches for the base and the first @n members, read as one name, and keeps what is found in @s. */
static struct wc_error *search_joined(struct search *s, const struct locate_expr *e, size_t n, bool functions)
{
	scoped(freep) char *name = join_members(e, n);
	scoped(search_deinit) struct search joined = { .locator = s->locator, .modules = s->modules };
	struct wc_error *err;

	if (!name)
		return &wc_enomem;
	search_set_prefixes(&joined, e->prefix, e->nprefixes);
	joined.name = name;
	err = functions ? code_name_find(&joined) : search_name(&joined, name);
	if (!err && !joined.nhits && search_is_lost(&joined) && !s->problem_fit)
		search_take_problem(s, &joined);
	if (err || !joined.nhits)
		return err;
	search_deinit(s);
	*s = joined;
	s->name = e->base;
	joined = (struct search){ 0 };
	return NULL;
}

/* Whether what the first member of @e after @h might mean is in @h. */
static bool may_have_member(const struct hit *h, const struct locate_expr *e)
{
	struct dtype s = dtype_strip(&h->type);
	struct dmember m;

	if (!dtype_is_aggregate_tag(dtype_tag(&s)))
		return h->type.known;
	return dtype_member(&s, 0, e->step[0].name, NULL, &m) != MEMBER_NONE;
}

/*
 * A symbol may be called as a member of the variable that was found: assembler and compilers take dots for
 * letters. *@used is set if it is the only one that can be meant.
 */
static struct wc_error *check_symbol(struct search *s, const struct locate_expr *e, size_t members,
				     size_t *used)
{
	const struct hit *h = &s->hit[0];
	uint64_t size = h->type.known ? dtype_size(&h->type) : h->size;

	for (size_t n = 1; n <= members && !s->source && !h->is_function; n++) {
		scoped(freep) char *name = join_members(e, n);
		struct hit symbol = { 0 };
		struct wc_error *err = name ? search_symbol(s, name, &symbol) : &wc_enomem;
		bool inside = symbol.is_tls == h->is_tls && symbol.addr - h->addr < size;

		if (err)
			return err;
		if (!symbol.name)
			continue;
		if (inside || may_have_member(h, e)) {
			free(symbol.name);
			return inside ? NULL : search_member_or_symbol(s, name);
		}
		*used = n;
		return search_take_hit(s, symbol);
	}
	return NULL;
}

/*
 * Finds the variable: the base, or the base with one or more of the members that follow; else a function of
 * the whole name. *@used says how many members that took. Where nothing is found, @s tells what the plain
 * base met.
 */
static struct wc_error *find_base(struct search *s, const struct locate_expr *e, size_t *used)
{
	size_t members = leading_members(e);
	struct wc_error *err = search_name(s, e->base);

	if (!err && s->nhits == 1)
		return check_symbol(s, e, members, used);
	for (size_t n = 1; n <= members && !err && !s->nhits; n++) {
		err = search_joined(s, e, n, false);
		*used = n;
	}
	if (!err && !s->nhits && members == e->nsteps && !search_is_lost(s))
		err = search_joined(s, e, members, true);
	return err;
}

struct wc_error *locate_find_one(struct search *s, const struct locate_expr *e, const struct memory_view *mem,
				 size_t *used, bool *missing_module)
{
	struct wc_error *err;

	*used = 0;
	search_set_prefixes(s, e->prefix, e->nprefixes);
	err = find_base(s, e, used);
	if (err)
		return err;
	if (!s->nhits) {
		scoped(freep) char *whole = join_members(e, leading_members(e));

		s->whole_name = whole;
		err = search_not_found(s, e->nprefixes ? e->prefix[e->nprefixes - 1] : NULL, missing_module);
		s->whole_name = NULL;
		return err;
	}
	if (s->hit[0].is_indirect)
		return code_indirect_error(s, &s->hit[0], mem);
	return s->nhits > 1 ? search_ambiguous(s) : NULL;
}
