#include "watchctl/cli/request/step_from_watch.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/step/model/step_select.h"
#include "watchctl/view/event/annotate.h"
#include "watchctl/view/event/replay.h"

#define CANDIDATES 64u

/* The functions on the stack of the first access that all others had too, innermost first. Strings are the
 * symbolizer's. */
struct common {
	bool begun;
	const char *own; /* that made the accesses; NULL: several did */
	const char *v[CANDIDATES];
	size_t n;
};

static bool is_candidate(const struct view_frame *f)
{
	return f->function && f->module && !step_low_level(f->module) && !f->inlined;
}

static void step_from_watch_begin(struct common *c, const struct view_access *a)
{
	bool own = true;
	size_t i;

	c->begun = true;
	for (i = 0; i < a->nframes && c->n < CANDIDATES; i++) {
		if (!is_candidate(&a->frame[i]))
			continue;
		if (own)
			c->own = a->frame[i].function;
		else
			c->v[c->n++] = a->frame[i].function;
		own = false;
	}
}

static bool has(const struct view_access *a, const char *function)
{
	bool own = true;
	size_t i;

	for (i = 0; i < a->nframes; i++) {
		if (!is_candidate(&a->frame[i]))
			continue;
		if (!own && !strcmp(a->frame[i].function, function))
			return true;
		own = false;
	}
	return false;
}

static const char *maker(const struct view_access *a)
{
	size_t i;

	for (i = 0; i < a->nframes; i++)
		if (is_candidate(&a->frame[i]))
			return a->frame[i].function;
	return NULL;
}

static void on_access(void *ctx, const struct view_access *a)
{
	struct common *c = ctx;
	size_t i, n = 0;
	const char *own = maker(a);

	if (!c->begun) {
		step_from_watch_begin(c, a);
		return;
	}
	if (c->own && (!own || strcmp(own, c->own) != 0))
		c->own = NULL;
	for (i = 0; i < c->n; i++)
		if (has(a, c->v[i]))
			c->v[n++] = c->v[i];
	c->n = n;
}

struct wc_error *step_from_watch(const char *path, char **ret)
{
	static const struct view_ops ops = { .access = on_access };
	scoped(annotate_freep) struct annotate *a = annotate_new(NULL, ANNOTATE_STACK);
	struct common c = { 0 };
	struct replay_ending ending;
	struct wc_error *err;
	const char *name;

	if (!a)
		return &wc_enomem;
	annotate_add_view(a, (struct view){ &ops, &c });
	err = replay(path, annotate_sink(a), stdout, &ending);
	if (err)
		return err;
	name = c.n ? c.v[0] : c.own;
	if (!c.begun)
		return wc_error_new(WC_ENAME, "%s has no accesses to take a range from: name one with --from",
				    path);
	if (!name)
		return wc_error_new(
			WC_ENAME,
			"the accesses in %s have no function in common whose name is known: name one "
			"with --from",
			path);
	*ret = strdup(name);
	return *ret ? NULL : &wc_enomem;
}
