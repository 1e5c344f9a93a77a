#include "watchctl/view/event/step_filter.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/code/symbols/bare_name.h"

#define NAME_TEXT 512

/* The outermost open call that is wanted by its name. */
struct where {
	bool inside;
	uint32_t base; /* its depth */
};

bool step_filter_thread(const struct step_filter *f, int32_t tid, const char *comm)
{
	char number[16];

	if (!f->thread)
		return true;
	snprintf(number, sizeof(number), "%d", tid);
	return !strcmp(f->thread, number) || (comm && !strcmp(f->thread, comm));
}

bool step_filter_names(const char *pattern, const char *name)
{
	char bare[NAME_TEXT];

	return !fnmatch(pattern, name, 0) || !fnmatch(pattern, bare_name(name, bare, sizeof(bare)), 0);
}

static struct where *where_of(struct step_filter *f, int32_t pid, int32_t tid)
{
	uint64_t key = (uint64_t)(uint32_t)pid << 32 | (uint32_t)tid;
	struct where *w = map64_get(&f->threads, key);

	if (w)
		return w;
	w = calloc(1, sizeof(*w));
	if (!w || !map64_put(&f->threads, key, w)) {
		free(w);
		return NULL;
	}
	return w;
}

static bool is_deep(const struct step_filter *f, uint32_t depth)
{
	return f->depth && depth >= f->depth;
}

bool step_filter_call(struct step_filter *f, const struct view_call *c, uint32_t *depth)
{
	struct where *w;

	*depth = c->depth;
	if (!step_filter_thread(f, c->raw->tid, c->comm))
		return false;
	f->thread_seen = true;
	if (!f->function)
		return !is_deep(f, *depth);
	w = where_of(f, c->raw->pid, c->raw->tid);
	if (!w)
		return false;
	if (!w->inside || c->depth <= w->base) {
		w->inside = step_filter_names(f->function, c->function->text);
		w->base = c->depth;
	}
	f->function_seen |= w->inside;
	*depth = c->depth - w->base;
	return w->inside && !is_deep(f, *depth);
}

bool step_filter_return(struct step_filter *f, const struct view_return *r, uint32_t *depth)
{
	struct where *w;

	*depth = r->depth;
	if (!step_filter_thread(f, r->raw->tid, r->comm))
		return false;
	if (!f->function)
		return !is_deep(f, *depth);
	w = where_of(f, r->raw->pid, r->raw->tid);
	if (!w || !w->inside || !r->begun || r->depth < w->base)
		return false;
	*depth = r->depth - w->base;
	if (r->depth == w->base)
		w->inside = false;
	return !is_deep(f, *depth);
}

bool step_filter_moment(struct step_filter *f, int32_t pid, int32_t tid, const char *comm, uint32_t *depth)
{
	struct where *w;

	if (!step_filter_thread(f, tid, comm))
		return false;
	if (!f->function)
		return !is_deep(f, *depth ? *depth - 1 : 0);
	w = where_of(f, pid, tid);
	if (!w || !w->inside || *depth <= w->base)
		return false;
	*depth -= w->base;
	return !is_deep(f, *depth - 1);
}

void step_filter_deinit(struct step_filter *f)
{
	map64_deinit_values(&f->threads, free);
}
