#include "watchctl/view/event/annotate_probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/base/text_buf.h"
#include "watchctl/code/insn/disasm.h"
#include "watchctl/trace/rows/event_copy.h"
#include "watchctl/view/event/annotate_step.h"
#include "watchctl/view/event/probe_text.h"

#define INSN_TEXT 96

/* What the view of a site points to. */
struct probe_site {
	struct view_probe_site view;
	struct trace_event *event;
	char insn[INSN_TEXT];
};

struct annotate_probes {
	struct frames *frames;
	const struct map64 *threads;
	unsigned int flags;
	const struct views *views;
	struct map64 sites;   /* id -> struct probe_site */
	struct text_buf text; /* of the last event */
	bool reported;	      /* that there are probes: they have a summary */
	bool summed_up;
	uint64_t shown, lost_events, first_ns, last_ns;
	uint64_t reached, lost; /* of the totals so far */
	size_t ntotals;
};

#define REPORT(p, op, ...) VIEWS_REPORT((p)->views, op, __VA_ARGS__)

/* Sites */

static void site_free(void *site)
{
	struct probe_site *s = site;

	free(s->event);
	free(s);
}

static struct probe_site *keep_site(struct annotate_probes *p, const struct probe_site_event *e, bool known)
{
	const struct trace_event event = { .type = EVENT_PROBE_SITE, .probe_site = *e };
	struct probe_site *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->event = event_dup(&event);
	if (!s->event || !map64_put(&p->sites, e->id, s)) {
		site_free(s);
		return NULL;
	}
	e = &s->event->probe_site;
	s->view = (struct view_probe_site){
		.id = e->id,
		.pid = e->pid,
		.probe = e->probe ? e->probe : "",
		.pattern = e->pattern ? e->pattern : "",
		.why = e->why,
		.ip = e->ip,
		.when = e->when,
		.tactic = e->tactic,
		.known = known,
		.source = { .ip = e->ip },
		.frame = { .ip = e->ip },
	};
	return s;
}

/* The site @id; one that was never reported is made up, so that its events are not lost. */
static struct probe_site *site_of(struct annotate_probes *p, uint32_t id)
{
	struct probe_site *s = map64_get(&p->sites, id);
	char name[32];

	if (s)
		return s;
	snprintf(name, sizeof(name), "probe %u", id);
	return keep_site(p, &(struct probe_site_event){ .id = id, .probe = name }, false);
}

static struct wc_error *on_site(struct annotate_probes *p, const struct probe_site_event *e,
				struct view_time time, enum insn_syntax syntax)
{
	struct probe_site *s = map64_get(&p->sites, e->id);

	/* Views hold on to the first one: a log that gives an id twice is not one of ours. */
	if (s)
		return NULL;
	s = keep_site(p, e, true);
	if (!s || (e->ip && !frames_expand_at(p->frames, &e->ip, 1)))
		return &wc_enomem;
	p->reported = true;
	if (e->ip) {
		s->view.source = p->frames->v[0];
		s->view.frame = p->frames->v[p->frames->n - 1];
	}
	if (e->ninsn && p->flags & ANNOTATE_TEXT)
		disasm_text(syntax, e->insn, e->ninsn, e->ip, s->insn, sizeof(s->insn));
	s->view.insn = s->insn[0] ? s->insn : NULL;
	REPORT(p, probe_site, &s->view, time);
	return NULL;
}

/* Events */

static void count(struct annotate_probes *p, struct probe_site *s, uint64_t time_ns)
{
	if (!p->shown || time_ns < p->first_ns)
		p->first_ns = time_ns;
	if (time_ns > p->last_ns)
		p->last_ns = time_ns;
	p->shown++;
	p->reported = true;
	s->view.recorded++;
}

/* Fills the frames in: those that were recorded, or the place of the site. */
static bool expand(struct annotate_probes *p, const struct probe_event *e, const struct probe_site *s,
		   struct view_probe *v)
{
	const bool has_stack = e->nframes && p->flags & ANNOTATE_STACK;
	const uint64_t *address = e->nframes ? e->frame : &s->view.ip;

	if (!e->nframes && !s->view.ip)
		return true;
	if (!frames_expand_at(p->frames, address, has_stack ? e->nframes : 1))
		return false;
	v->frame = p->frames->v;
	v->nframes = p->frames->n;
	return true;
}

static struct wc_error *on_probe(struct annotate_probes *p, const struct probe_event *e,
				 struct view_time time)
{
	struct probe_site *s = site_of(p, e->site);
	struct view_probe v;

	if (!s)
		return &wc_enomem;
	count(p, s, time.mono_ns);
	v = (struct view_probe){
		.time = time,
		.raw = e,
		.site = &s->view,
		.comm = map64_get(p->threads, annotate_thread_key(e->pid, e->tid)),
		.has_stack = e->nframes != 0 || e->walk_end != WALK_END_COMPLETE,
		.walk_end = e->walk_end,
	};
	if (!expand(p, e, s, &v))
		return &wc_enomem;
	if (p->flags & ANNOTATE_TEXT && !(p->flags & ANNOTATE_NO_VALUES)) {
		text_buf_empty(&p->text);
		probe_text_put(&p->text, e);
		if (p->text.failed)
			return &wc_enomem;
		v.text = text_buf_text(&p->text);
	}
	REPORT(p, probe, &v);
	return NULL;
}

static struct wc_error *on_total(struct annotate_probes *p, const struct probe_total_event *t,
				 struct view_time time)
{
	struct probe_site *s = site_of(p, t->site);

	if (!s)
		return &wc_enomem;
	p->reported = true;
	if (s->view.has_total) { /* a later one replaces it */
		p->reached -= s->view.count;
		p->lost -= s->view.lost;
	}
	s->view.has_total = true;
	s->view.count = t->count;
	s->view.lost = t->lost;
	p->reached += t->count;
	p->lost += t->lost;
	p->ntotals++;
	REPORT(p, probe_total, &s->view, time);
	return NULL;
}

struct wc_error *annotate_probes_put(struct annotate_probes *p, const struct trace_event *e,
				     struct view_time time, enum insn_syntax syntax)
{
	switch (e->type) {
	case EVENT_PROBE_SITE:
		return on_site(p, &e->probe_site, time, syntax);
	case EVENT_PROBE:
		return on_probe(p, &e->probe, time);
	default:
		return on_total(p, &e->probe_total, time);
	}
}

/* Endings */

void annotate_probes_lost(struct annotate_probes *p, uint64_t count)
{
	p->lost_events += count;
	p->reported = true;
}

void annotate_probes_sum_up(struct annotate_probes *p, const struct summary_event *e, bool partial)
{
	struct view_summary s = {
		.e = { .watch = WATCH_PROBES,
		       .recorded = p->shown,
		       /* Both say the same, one of them as it happened. */
		       .lost = p->lost > p->lost_events ? p->lost : p->lost_events,
		       .duration_ns = p->last_ns - p->first_ns },
		.complete = e || p->ntotals,
		.partial = partial && e,
		.held = p->shown,
		.reached = p->reached,
	};

	if (p->summed_up || (!e && !p->reported))
		return;
	if (e)
		s.e = *e;
	p->summed_up = true;
	REPORT(p, summary, &s);
}

struct annotate_probes *annotate_probes_new(struct frames *frames, const struct map64 *threads,
					    unsigned int flags, const struct views *views)
{
	struct annotate_probes *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->frames = frames;
	p->threads = threads;
	p->flags = flags;
	p->views = views;
	return p;
}

void annotate_probes_free(struct annotate_probes *p)
{
	if (!p)
		return;
	map64_deinit_values(&p->sites, site_free);
	text_buf_deinit(&p->text);
	free(p);
}
