/* What probes record: an object for each site, event and total. */
#include "watchctl/view/print/print_json.h"
#include "watchctl/view/table/probe_totals.h"
#include "watchctl/view/event/probe_text.h"
#include "watchctl/view/print/printer_impl.h"

void print_json_probe_site(void *ctx, const struct view_probe_site *s, struct view_time time)
{
	struct printer *p = ctx;
	struct json *j = &p->json;

	print_json_begin(p, "patch_site");
	print_json_time(p, time);
	json_signed(j, "pid", s->pid);
	json_text(j, "probe", s->probe);
	if (s->ip)
		json_hex(j, "ip", s->ip);
	print_json_place(j, &s->frame, &s->source);
	json_text_if(j, "insn", s->insn);
	json_text(j, "tactic", probe_tactic_name(s->tactic));
	json_text_if(j, "reason", s->why);
	if (s->frame.module)
		json_hex(j, "addr", s->frame.module_offset);
	json_text_if(j, "pattern", s->pattern);
	if (s->tactic != PROBE_TACTIC_SOURCE)
		json_text(j, "when", probe_when_name(s->when));
	print_json_end(p);
}

/* Of the instruction: the real function, whose offset it is, and the innermost line. */
static void put_place(struct json *j, const struct view_probe *v)
{
	size_t real = 0;

	if (!v->nframes)
		return;
	json_hex(j, "ip", v->frame[0].ip);
	json_text_if(j, "insn", v->site->insn);
	while (real + 1 < v->nframes && v->frame[real].inlined)
		real++;
	print_json_place(j, &v->frame[real], &v->frame[0]);
}

void print_json_probe(void *ctx, const struct view_probe *v)
{
	struct printer *p = ctx;
	struct json *j = &p->json;
	const struct probe_event *e = v->raw;

	print_json_begin(p, "probe");
	print_json_time(p, v->time);
	json_signed(j, "pid", e->pid);
	json_signed(j, "tid", e->tid);
	json_text_if(j, "comm", v->comm);
	json_text(j, "probe", v->site->probe);
	if (e->kind == PROBE_KIND_LOG && v->text)
		json_text(j, "text", v->text);
	if (e->kind == PROBE_KIND_STACK)
		json_text_if(j, "tag", e->format);
	if (e->kind != PROBE_KIND_LOG && e->nargs)
		json_hex(j, "value", e->arg[0]);
	print_json_withheld(j, e->withheld ? WITHHELD_VALUES : 0);
	put_place(j, v);
	if (v->has_stack && !p->opt.no_stack)
		print_json_stack(j, v->frame, v->nframes, v->walk_end);
	print_json_end(p);
}

static void begin_total(struct printer *p, const struct view_probe_site *s, uint64_t count)
{
	struct json *j = &p->json;

	print_json_begin(p, "probe_total");
	json_text(j, "probe", s->probe);
	if (s->known) {
		json_signed(j, "pid", s->pid);
		if (s->ip)
			json_hex(j, "ip", s->ip);
		json_text_if(j, "insn", s->insn);
		print_json_place(j, &s->frame, &s->source);
		json_text(j, "tactic", probe_tactic_name(s->tactic));
	}
	json_number(j, "count", count);
}

void print_json_probe_total(void *ctx, const struct view_probe_site *s, struct view_time time)
{
	struct printer *p = ctx;

	(void)time;
	begin_total(p, s, s->count);
	json_number(&p->json, "lost", s->lost);
	print_json_end(p);
}

void print_json_probes(void *ctx, const struct probe_totals *t)
{
	struct printer *p = ctx;
	size_t i;

	for (i = 0; i < t->n; i++) {
		const struct probe_row *r = t->v[i];

		begin_total(p, r->site, probe_row_count(t, r));
		if (probe_row_has_total(t, r))
			json_number(&p->json, "lost", r->site->lost);
		json_number(&p->json, "recorded", r->events);
		json_number(&p->json, "threads", r->tids.n);
		print_json_end(p);
	}
}
