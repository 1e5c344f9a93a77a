/* One object a line: each log, notes, the two first differences in full, groups, where threads stand, a
 * summary. */
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/syscall_name.h"
#include "watchctl/view/diff/diff_print.h"
#include "watchctl/view/diff/diff_words.h"
#include "watchctl/view/words/view_words.h"
#include "watchctl/view/words/json.h"
#include "watchctl/view/event/input_words.h"
#include "watchctl/view/event/step_words.h"

#define CHANGES_SHOWN 64u /* of those that agree */

struct out {
	struct diff_result *r;
	FILE *f;
	struct json j;
};

static void diff_json_begin(struct out *o, const char *type)
{
	json_open(&o->j, NULL, '{');
	json_text(&o->j, "type", type);
}

static bool diff_json_end(struct out *o)
{
	json_close(&o->j, '}');
	return json_end_line(&o->j, o->f);
}

static void put_text(struct json *j, const char *name, const char *text)
{
	if (text && *text)
		json_text(j, name, text);
}

/* Calls */

static void put_value(struct json *j, const char *name, const struct diff_value *v, bool named)
{
	json_open(j, name, '{');
	if (named)
		put_text(j, "name", v->name);
	put_text(j, "type", v->type ? v->type->e.name : NULL);
	json_text(j, "value", v->text ? v->text : "?");
	if (v->unused)
		json_bool(j, "unused", true);
	if (v->differs)
		json_bool(j, "differs", true);
	if (v->to_differs)
		json_bool(j, "pointee_differs", true);
	if (v->to_unset)
		json_bool(j, "pointee_unset", true);
	if (v->differs || v->to_differs)
		put_text(j, "member", v->member);
	json_close(j, '}');
}

static void put_function(struct json *j, const struct diff_function *f)
{
	json_text(j, "function", f->e.name);
	put_text(j, "module", f->e.module);
	if (f->e.address)
		json_hex(j, "address", f->e.address);
	put_text(j, "file", f->e.file);
	if (f->e.line)
		json_number(j, "line", f->e.line);
}

static void put_frame(struct json *j, const char *name, const struct diff_frame *f)
{
	json_open(j, name, '{');
	if (f->function) {
		put_function(j, f->function);
		json_close(j, '}');
		return;
	}
	json_hex(j, "ip", f->address);
	put_text(j, "module", f->location->module);
	if (f->location->module)
		json_hex(j, "module_offset", f->location->module_offset + (f->offset - f->location->offset));
	put_text(j, "function", f->name->function);
	if (f->name->function && !f->inlined)
		json_number(j, "offset", f->offset);
	put_text(j, "file", f->name->file);
	if (f->name->line)
		json_number(j, "line", f->name->line);
	if (f->inlined)
		json_bool(j, "inlined", true);
	json_close(j, '}');
}

static bool put_stack(struct out *o, struct diff_side *s, const struct diff_stack *stack, bool exact)
{
	scoped(freep) struct diff_frame *frames = NULL;
	size_t n, i;

	if (!diff_frames(s, stack, exact, &frames, &n))
		return false;
	json_open(&o->j, "stack", '[');
	for (i = 0; i < n; i++)
		put_frame(&o->j, NULL, &frames[i]);
	json_close(&o->j, ']');
	if (stack->end != WALK_END_COMPLETE)
		put_text(&o->j, "stack_end", text_walk_end(stack->end));
	return true;
}

/* The function that ran when a signal came. */
static bool put_interrupted(struct json *j, const struct diff_detail *d)
{
	struct diff_stack at = { .v = (uint64_t *)&d->ip, .n = 1 };
	scoped(freep) struct diff_frame *frames = NULL;
	size_t n;

	if (!diff_frames(d->side, &at, true, &frames, &n))
		return false;
	if (n)
		put_frame(j, "frame", &frames[0]);
	return true;
}

/* All that differs, and at most CHANGES_SHOWN of the others. */
static void put_changes_of(struct json *j, const struct diff_detail *d)
{
	size_t shown = 0, i;

	if (!d->changes.n)
		return;
	json_open(j, "changes", '[');
	for (i = 0; i < d->changes.n; i++) {
		const struct memory_change *c = &d->changes.v[i];

		if (!c->differs && shown++ >= CHANGES_SHOWN)
			continue;
		json_open(j, NULL, '{');
		json_text(j, "name", c->label);
		json_text(j, "of", c->is_data ? "variable" : "parameter");
		json_text(j, "value", c->text ? c->text : "?");
		if (c->differs)
			json_bool(j, "differs", true);
		put_text(j, "member", c->member);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void put_end(struct json *j, const struct diff_detail *d)
{
	char error[64];

	if (d->how)
		json_text(j, "how", step_how_name(d->how));
	if (d->how_differs)
		json_bool(j, "how_differs", true);
	if (d->has_result)
		put_value(j, "ret", &d->result, false);
	if (d->has_error) {
		step_error_name(d->error, error, sizeof(error));
		json_text(j, "errno", error);
	}
	if (d->error_differs)
		json_bool(j, "errno_differs", true);
	put_changes_of(j, d);
}

static bool put_call(struct out *o, const char *name, const struct diff_detail *d,
		     const struct diff_stack *stack)
{
	struct json *j = &o->j;
	bool ok = true;
	uint32_t i;

	json_open(j, name, '{');
	if (!d->is_signal)
		json_number(j, "call", d->number);
	else
		json_hex(j, "ip", d->ip);
	json_number(j, "time_ns", d->time_ns > d->side->first_ns ? d->time_ns - d->side->first_ns : 0);
	put_function(j, d->function);
	if (!d->is_signal) {
		json_open(j, "args", '[');
		for (i = 0; i < d->nparams; i++)
			put_value(j, NULL, &d->param[i], true);
		json_close(j, ']');
		put_end(j, d);
	} else {
		ok = put_interrupted(j, d);
	}
	if (ok && stack)
		ok = put_stack(o, d->side, stack, d->is_signal);
	json_close(j, '}');
	return ok;
}

/* Differences */

static void put_thread(struct out *o, uint32_t pair)
{
	const struct diff_threads *p = &o->r->compare.pair[pair];
	const struct diff_thread *t = p->b ? p->b : p->a;

	json_number(&o->j, "thread", diff_pair_number(pair));
	put_text(&o->j, "comm", t->comm);
	if (t->of_signals)
		json_bool(&o->j, "signals", true);
}

static bool put_branch(struct out *o, struct diff_side *side, uint64_t branch)
{
	struct diff_stack at = { .v = &branch, .n = 1 };
	scoped(freep) struct diff_frame *frames = NULL;
	size_t n, i;

	if (!diff_frames(side, &at, true, &frames, &n))
		return false;
	json_open(&o->j, NULL, '[');
	for (i = 0; i < n; i++)
		put_frame(&o->j, NULL, &frames[i]);
	json_close(&o->j, ']');
	return true;
}

static bool put_parting(struct out *o, const struct diff_parting *p)
{
	bool ok = true;
	size_t i;

	if (p->nbranches) {
		json_open(&o->j, "parts_at", '{');
		json_text(&o->j, "run", p->in_good ? "good" : "bad");
		json_open(&o->j, "branches", '[');
		for (i = 0; ok && i < p->nbranches; i++)
			ok = put_branch(o, p->in_good ? o->r->a : o->r->b, p->branch[i]);
		json_close(&o->j, ']');
		json_number(&o->j, "more", p->more);
		json_close(&o->j, '}');
	}
	if (!p->ninlined)
		return ok;
	json_open(&o->j, "inlined", '[');
	for (i = 0; i < p->ninlined; i++) {
		json_open(&o->j, NULL, '{');
		json_text(&o->j, "function", p->inlined[i].function);
		put_text(&o->j, "file", p->inlined[i].file);
		if (p->inlined[i].line)
			json_number(&o->j, "line", p->inlined[i].line);
		json_close(&o->j, '}');
	}
	json_close(&o->j, ']');
	return ok;
}

static bool put_story(struct out *o, const char *class, const struct diff_story *s)
{
	char text[WORDS_MAX];
	bool ok = true, in_good;
	uint64_t ns;
	size_t i;

	diff_json_begin(o, "difference");
	json_text(&o->j, "first", class);
	json_text(&o->j, "kind", diff_kind_name(s->f.kind));
	diff_headline(o->r, s, text, sizeof(text));
	json_text(&o->j, "text", text);
	put_thread(o, s->f.pair);
	if (diff_time_of(o->r, s, &in_good, &ns))
		json_number(&o->j, in_good ? "good_time_ns" : "time_ns", ns);
	if (s->f.kind == FINDING_CALLS || s->f.kind == FINDING_THREAD) {
		json_number(&o->j, "good_calls", s->f.na);
		json_number(&o->j, "bad_calls", s->f.nb);
	}
	if (s->has_a)
		ok = put_call(o, "good", &s->a, &s->stack_a);
	if (ok && s->has_b)
		ok = put_call(o, "bad", &s->b, &s->stack_b);
	if (ok)
		ok = put_parting(o, &s->parting);
	json_open(&o->j, "before", '[');
	for (i = s->nbefore; ok && i-- > 0;)
		ok = put_call(o, NULL, &s->before[i], NULL);
	json_close(&o->j, ']');
	diff_no_before_text(o->r, s, text, sizeof(text));
	put_text(&o->j, "none_before", text);
	json_bool(&o->j, "is_input", s->is_input);
	if (ok && s->has_input) {
		json_open(&o->j, "input", '{');
		ok = put_call(o, "good", &s->input_a, NULL) && put_call(o, "bad", &s->input_b, NULL);
		json_close(&o->j, '}');
	}
	return diff_json_end(o) && ok;
}

static struct wc_error *put_group(struct out *o, const struct diff_group *g)
{
	struct diff_story s = { 0 };
	struct wc_error *err = diff_group_story(o->r, g, &s);
	char text[WORDS_MAX];
	bool ok = true;

	if (err) {
		diff_story_deinit(&s);
		return err;
	}
	diff_json_begin(o, "group");
	put_function(&o->j, g->function);
	json_text(&o->j, "kind", diff_kind_name(g->kind));
	diff_group_text(g, text, sizeof(text));
	json_text(&o->j, "text", text);
	put_text(&o->j, "params", g->what);
	if (g->kind == FINDING_CALLS || g->kind == FINDING_THREAD)
		json_text(&o->j, "only_in", g->only_in_a ? "good" : "bad");
	json_number(&o->j, "count", g->count);
	put_thread(o, g->f.pair);
	if (s.has_a)
		ok = put_call(o, "good", &s.a, NULL);
	if (ok && s.has_b)
		ok = put_call(o, "bad", &s.b, NULL);
	diff_story_deinit(&s);
	return diff_json_end(o) && ok ? NULL : &wc_enomem;
}

static bool put_stand(struct out *o, const struct diff_stand *s)
{
	const char *name = s->syscall >= 0 ? syscall_name(s->syscall) : NULL;
	bool ok;

	diff_json_begin(o, "stood");
	json_number(&o->j, "thread", s->number);
	json_signed(&o->j, "tid", s->thread->tid);
	if (s->syscall >= 0)
		json_signed(&o->j, "syscall", s->syscall);
	put_text(&o->j, "syscall_name", name);
	ok = put_stack(o, o->r->b, &s->stack, true);
	return diff_json_end(o) && ok;
}

/* Watch logs and tag logs */

static void put_mark(struct out *o, const char *name, const struct diff_mark *m)
{
	char **text = o->r->marks.text;

	json_open(&o->j, name, '{');
	json_text(&o->j, "place", text[m->place]);
	put_text(&o->j, "value", text[m->value]);
	json_text(&o->j, "thread", text[m->thread]);
	json_text(&o->j, "stack", text[m->stack]);
	json_close(&o->j, '}');
}

static bool put_stream(struct out *o, const struct diff_stream *s)
{
	size_t i;

	diff_json_begin(o, s->is_tag ? "captures" : "accesses");
	json_text(&o->j, "name", s->name);
	json_number(&o->j, "good_count", s->na);
	json_number(&o->j, "bad_count", s->nb);
	json_number(&o->j, "only_good", s->only_a);
	json_number(&o->j, "only_bad", s->only_b);
	json_number(&o->j, "other_values", s->values);
	if (s->has_first && s->first_a != NO_MATE)
		put_mark(o, "good", &s->a[s->first_a]);
	if (s->has_first && s->first_b != NO_MATE)
		put_mark(o, "bad", &s->b[s->first_b]);
	json_open(&o->j, "places", '[');
	for (i = 0; i < s->nrows; i++) {
		json_open(&o->j, NULL, '{');
		json_text(&o->j, "place", o->r->marks.text[s->row[i].place]);
		json_number(&o->j, "good", s->row[i].a);
		json_number(&o->j, "bad", s->row[i].b);
		json_close(&o->j, '}');
	}
	json_close(&o->j, ']');
	return diff_json_end(o);
}

/* The frame of it all */

static bool put_log(struct out *o, const char *which, const struct diff_side *s)
{
	diff_json_begin(o, "log");
	json_text(&o->j, "which", which);
	json_text(&o->j, "path", s->path);
	put_text(&o->j, "command", s->cmdline);
	put_text(&o->j, "exe", s->exe);
	json_signed(&o->j, "pid", s->pid);
	put_text(&o->j, "range", s->range);
	put_text(&o->j, "mover", s->stepper);
	json_number(&o->j, "calls", s->calls);
	json_number(&o->j, "left_out", s->left_out);
	json_number(&o->j, "threads", s->nthreads / 2);
	json_number(&o->j, "accesses", s->accesses);
	json_number(&o->j, "captures", s->captures);
	json_number(&o->j, "lost", s->lost);
	if (s->end)
		json_text(&o->j, "end", step_range_name(s->end));
	json_bool(&o->j, "whole", !s->why);
	return diff_json_end(o);
}

static bool put_notes(struct out *o)
{
	size_t i;

	for (i = 0; i < o->r->nnotes; i++) {
		diff_json_begin(o, "note");
		json_text(&o->j, "text", o->r->note[i]);
		if (!diff_json_end(o))
			return false;
	}
	for (i = 0; i < o->r->masks.n; i++) {
		const struct diff_mask *m = &o->r->masks.v[i];

		diff_json_begin(o, "mask");
		json_text(&o->j, "mask", m->text);
		put_text(&o->j, "why", m->why);
		json_bool(&o->j, "learned", m->learned);
		json_number(&o->j, "functions", m->hits);
		if (!diff_json_end(o))
			return false;
	}
	return true;
}

static bool put_doubts(struct out *o)
{
	size_t i;

	for (i = 0; i < o->r->ndoubts; i++) {
		diff_json_begin(o, "doubt");
		put_text(&o->j, "text", o->r->doubt[i]);
		if (!diff_json_end(o))
			return false;
	}
	return true;
}

static bool put_changes(struct out *o)
{
	const struct diff_input_result *r = &o->r->inputs;
	char text[WORDS_MAX];
	size_t i;

	for (i = 0; i < r->nchanges; i++) {
		const struct diff_change *c = &r->change[i];

		diff_json_begin(o, "changed");
		json_text(&o->j, "what", c->what);
		if (!strcmp(c->what, "argument"))
			json_number(&o->j, "index", c->index);
		if (c->a)
			json_text(&o->j, "good", c->a);
		if (c->b)
			json_text(&o->j, "bad", c->b);
		diff_change_text(c, text, sizeof(text));
		json_text(&o->j, "text", text);
		if (!diff_json_end(o))
			return false;
	}
	return true;
}

static void put_input_side(struct out *o, const char *name, const struct diff_side *side,
			   const struct diff_input_side *s)
{
	struct json *j = &o->j;
	char text[400];

	json_open(j, name, '{');
	put_text(j, "name", s->source->name);
	put_text(j, "syscall", syscall_name(s->input->e.syscall));
	if (s->input->e.fd >= 0)
		json_signed(j, "fd", s->input->e.fd);
	if (s->input->e.call)
		json_number(j, "call", s->input->e.call);
	json_number(j, "time_ns", s->input->time_ns - side->first_ns);
	json_bytes(j, "bytes", s->bytes, s->len);
	json_number(j, "at", s->at);
	diff_input_side_text(&o->r->inputs.first, s, text, sizeof(text));
	json_text(j, "text", text);
	json_close(j, '}');
}

static bool put_input(struct out *o)
{
	const struct diff_input_difference *d = &o->r->inputs.first;
	char text[WORDS_MAX];

	if (!o->r->inputs.differs)
		return true;
	diff_json_begin(o, "difference");
	json_text(&o->j, "first", "input");
	json_text(&o->j, "kind", "input");
	json_text(&o->j, "input", input_kind_name(d->b.source->kind));
	json_text(&o->j, "what", diff_input_what_name(d->what));
	diff_input_headline(d, text, sizeof(text));
	json_text(&o->j, "text", text);
	put_text(&o->j, "name", d->b.source->name);
	json_number(&o->j, "offset", d->offset);
	json_number(&o->j, "sources", o->r->inputs.sources);
	put_input_side(o, "good", o->r->a, &d->a);
	put_input_side(o, "bad", o->r->b, &d->b);
	return diff_json_end(o);
}

static bool put_summary(struct out *o)
{
	static const char *const verdict[] = {
		[DIFF_SAME] = "same",
		[DIFF_DIFFERENT] = "different",
		[DIFF_CANNOT_TELL] = "cannot_tell",
	};
	const struct diff_result *r = o->r;

	diff_json_begin(o, "summary");
	json_bool(&o->j, "differs", r->differs);
	json_text(&o->j, "verdict", verdict[diff_verdict(r)]);
	json_number(&o->j, "inputs", r->inputs.sources);
	json_bool(&o->j, "inputs_compared", r->inputs.compared);
	json_number(&o->j, "values", r->nvalues);
	json_number(&o->j, "controls", r->ncontrols);
	json_number(&o->j, "agreed", r->compare.agreed);
	json_number(&o->j, "only_good", r->compare.only_a);
	json_number(&o->j, "only_bad", r->compare.only_b);
	json_number(&o->j, "weak", r->compare.weak);
	json_number(&o->j, "not_looked_into", r->unread);
	json_number(&o->j, "not_listed", r->compare.dropped);
	json_number(&o->j, "marks", r->marks.differences);
	if (r->all_withheld)
		json_bool(&o->j, "all_withheld", true);
	else if (r->withheld)
		json_number(&o->j, "withheld", r->withheld);
	return diff_json_end(o);
}

static struct wc_error *put_differences(struct out *o)
{
	struct diff_result *r = o->r;
	struct wc_error *err = NULL;
	bool ok = true;
	size_t i;

	ok = put_changes(o) && put_input(o);
	if (ok && r->has_value)
		ok = put_story(o, "value", &r->value);
	if (ok && r->has_control)
		ok = put_story(o, "control", &r->control);
	for (i = 0; ok && i < r->nstand; i++)
		ok = put_stand(o, &r->stand[i]);
	for (i = 0; ok && !err && i < r->ngroups; i++)
		err = put_group(o, &r->group[i]);
	for (i = 0; ok && !err && i < r->marks.n; i++)
		ok = put_stream(o, &r->marks.v[i]);
	return err ? err : ok ? NULL : &wc_enomem;
}

struct wc_error *diff_print_json(struct diff_result *r, FILE *out)
{
	struct out o = { .r = r, .f = out };
	struct wc_error *err = NULL;

	if (!put_log(&o, "good", r->a) || !put_log(&o, "bad", r->b) || !put_notes(&o))
		err = &wc_enomem;
	if (!err)
		err = put_differences(&o);
	if (!err && (!put_doubts(&o) || !put_summary(&o)))
		err = &wc_enomem;
	json_deinit(&o.j);
	return err;
}
