#include "watchctl/view/report.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"
#include "watchctl/view/sites.h"

struct report {
	struct annotate *annotate;
	struct view out;
	struct printer *printer;
	struct report_options opt;
	struct sites sites;
	struct view site_counter;
	uint64_t accesses;
	bool watch_seen;
	char **name; /* of all watches seen */
	size_t nnames, names_cap;
	char *names; /* ... in one text, when asked for */
	/* Summaries come with the last events; they are printed below the table. */
	struct view_summary *summary;
	size_t nsummaries, summary_cap;
};

static bool wanted(const struct report *r, const struct view_watch *w)
{
	const char *name = r->opt.watch;

	if (!name || !w)
		return true;
	return !strcmp(name, w->e.name) || (w->e.full_name && !strcmp(name, w->e.full_name));
}

static void remember_name(struct report *r, const char *name)
{
	char *copy;
	size_t i;

	for (i = 0; i < r->nnames; i++)
		if (!strcmp(r->name[i], name))
			return;
	copy = strdup(name);
	if (copy && !vec_push(r->name, r->nnames, r->names_cap, copy))
		free(copy);
}

/* "flag, count" */
static const char *list_names(struct report *r)
{
	size_t len = 0, i;

	if (!r->nnames)
		return NULL;
	for (i = 0; i < r->nnames; i++)
		len += strlen(r->name[i]) + 2;
	free(r->names);
	r->names = malloc(len + 1);
	if (!r->names)
		return NULL;
	r->names[0] = '\0';
	for (i = 0, len = 0; i < r->nnames; i++)
		len += sprintf(r->names + len, "%s%s", i ? ", " : "", r->name[i]);
	return r->names;
}

static void on_process(void *ctx, const struct process_event *p, struct view_time time)
{
	struct report *r = ctx;

	r->out.ops->process(r->out.ctx, p, time);
}

static void on_armed(void *ctx, const struct view_watch *w, struct view_time time)
{
	struct report *r = ctx;

	remember_name(r, w->e.name);
	if (!wanted(r, w))
		return;
	r->watch_seen = true;
	r->out.ops->armed(r->out.ctx, w, time);
}

static void on_access(void *ctx, const struct view_access *a)
{
	struct report *r = ctx;

	if (!wanted(r, a->watch))
		return;
	if (!r->opt.no_sites)
		r->site_counter.ops->access(r->site_counter.ctx, a);
	if (r->accesses++ >= r->opt.skip && !r->opt.no_events)
		r->out.ops->access(r->out.ctx, a);
}

static void on_lost(void *ctx, const struct view_watch *w, const struct lost_event *l, struct view_time time)
{
	struct report *r = ctx;

	if (wanted(r, w))
		r->out.ops->lost(r->out.ctx, w, l, time);
}

static void on_note(void *ctx, const char *text, struct view_time time)
{
	struct report *r = ctx;

	r->out.ops->note(r->out.ctx, text, time);
}

static void on_summary(void *ctx, const struct view_summary *s)
{
	struct report *r = ctx;

	/* Without memory it comes too early, which is better than not at all. */
	if (wanted(r, s->watch) && !vec_push(r->summary, r->nsummaries, r->summary_cap, *s))
		r->out.ops->summary(r->out.ctx, s);
}

void report_finish(struct report *r)
{
	size_t i;

	annotate_finish(r->annotate);
	if (!r->opt.no_sites) {
		sites_sort(&r->sites);
		printer_sites(r->printer, &r->sites);
	}
	for (i = 0; i < r->nsummaries; i++)
		r->out.ops->summary(r->out.ctx, &r->summary[i]);
	r->nsummaries = 0;
}

uint64_t report_accesses(const struct report *r)
{
	return r->accesses;
}

bool report_watch_is_known(struct report *r, const char **names)
{
	*names = list_names(r);
	return !r->opt.watch || r->watch_seen;
}

struct report *report_new(struct annotate *a, struct printer *p, const struct report_options *options)
{
	static const struct view_ops ops = {
		.process = on_process,
		.armed = on_armed,
		.access = on_access,
		.lost = on_lost,
		.note = on_note,
		.summary = on_summary,
	};
	struct report *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->annotate = a;
	r->printer = p;
	r->out = printer_view(p);
	r->opt = *options;
	r->site_counter = sites_view(&r->sites);
	annotate_add_view(a, (struct view){ .ops = &ops, .ctx = r });
	return r;
}

void report_free(struct report *r)
{
	size_t i;

	if (!r)
		return;
	sites_deinit(&r->sites);
	free(r->summary);
	for (i = 0; i < r->nnames; i++)
		free(r->name[i]);
	free(r->name);
	free(r->names);
	free(r);
}

void report_freep(struct report **r)
{
	report_free(*r);
}
