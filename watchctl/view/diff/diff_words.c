#include "watchctl/view/diff/diff_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "watchctl/base/utf8.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/symbols/symbolizer.h"
#include "watchctl/view/event/step_value.h"
#include "watchctl/view/words/view_words.h"
#include "watchctl/view/event/step_words.h"

#define NAME_TEXT 400

static size_t diff_words_put(char *buf, size_t cap, size_t used, const char *text)
{
	size_t n = strlen(text);

	if (used + 1 >= cap)
		return used;
	if (n > cap - used - 1)
		n = cap - used - 1;
	memcpy(buf + used, text, n);
	buf[used + n] = '\0';
	return used + n;
}

void diff_value_text(const struct diff_value *v, char *buf, size_t cap)
{
	static const char mark[] = " (perhaps not set)";
	char text[WORDS_MAX];

	if (v->unused) {
		snprintf(buf, cap, UNUSED_RESULT, utf8_clean(v->text ? v->text : "?", text, sizeof(text)));
		return;
	}
	if (v->to_unset && !v->to_differs && cap > sizeof(mark)) {
		utf8_clean(v->text ? v->text : "?", buf, cap - sizeof(mark));
		memcpy(buf + strlen(buf), mark, sizeof(mark));
		return;
	}
	utf8_clean(v->text ? v->text : "?", buf, cap);
}

static size_t put_params(const struct diff_detail *d, char *buf, size_t cap, size_t used)
{
	char text[WORDS_MAX], name[NAME_TEXT];
	uint32_t i;

	for (i = 0; i < d->nparams; i++) {
		const struct diff_value *v = &d->param[i];

		if (i)
			used = diff_words_put(buf, cap, used, ", ");
		if (v->name && *v->name) {
			used = diff_words_put(buf, cap, used, utf8_clean(v->name, name, sizeof(name)));
			used = diff_words_put(buf, cap, used, " = ");
		}
		diff_value_text(v, text, sizeof(text));
		used = diff_words_put(buf, cap, used, text);
	}
	return used;
}

void diff_result_text(const struct diff_detail *d, char *buf, size_t cap)
{
	char text[WORDS_MAX], error[64];
	const char *how = d->how ? step_how_text(d->how) : "its end is not in the log";
	size_t used = 0;

	buf[0] = '\0';
	if (how) {
		diff_words_put(buf, cap, 0, how);
		return;
	}
	if (d->has_result) {
		diff_value_text(&d->result, text, sizeof(text));
		used = diff_words_put(buf, cap, used, text);
	} else {
		used = diff_words_put(buf, cap, used, "returned");
	}
	if (d->has_error) {
		step_error_name(d->error, error, sizeof(error));
		used = diff_words_put(buf, cap, used, ", ");
		diff_words_put(buf, cap, used, error);
	}
}

void diff_call_text(const struct diff_detail *d, char *buf, size_t cap)
{
	char text[WORDS_MAX], name[NAME_TEXT];
	size_t used;

	buf[0] = '\0';
	used = diff_words_put(buf, cap, 0, utf8_clean(d->function->e.name, name, sizeof(name)));
	if (d->is_signal)
		return;
	/* A name of C++ has its parameters' types already. */
	if (name[0] && name[strlen(name) - 1] == ')')
		used = diff_words_put(buf, cap, used, " ");
	used = diff_words_put(buf, cap, used, "(");
	used = put_params(d, buf, cap, used);
	used = diff_words_put(buf, cap, used, ")");
	diff_result_text(d, text, sizeof(text));
	if (!d->has_result && !d->has_error && d->how == RETURN_RETURNED)
		return;
	used = diff_words_put(buf, cap, used, d->has_result || d->has_error ? " = " : ": ");
	diff_words_put(buf, cap, used, text);
}

/* "len, *buf" */
static void list_params(const struct diff_detail *d, char *buf, size_t cap)
{
	char name[NAME_TEXT];
	size_t used = 0;
	uint32_t i;

	buf[0] = '\0';
	for (i = 0; i < d->nparams; i++) {
		const struct diff_value *v = &d->param[i];

		if (!v->differs && !v->to_differs)
			continue;
		if (used)
			used = diff_words_put(buf, cap, used, ", ");
		if (!v->differs)
			used = diff_words_put(buf, cap, used, "*");
		if (v->name && *v->name) {
			used = diff_words_put(buf, cap, used, utf8_clean(v->name, name, sizeof(name)));
		} else {
			snprintf(name, sizeof(name), "parameter %u", i + 1);
			used = diff_words_put(buf, cap, used, name);
		}
		if (v->member) {
			used = diff_words_put(buf, cap, used, ".");
			used = diff_words_put(buf, cap, used, utf8_clean(v->member, name, sizeof(name)));
		}
	}
}

static void calls_text(const struct diff_detail *d, uint32_t n, char *buf, size_t cap)
{
	char name[NAME_TEXT];

	utf8_clean(d->function->e.name, name, sizeof(name));
	if (n > 1)
		snprintf(buf, cap, "%s (the first of %u calls)", name, n);
	else
		snprintf(buf, cap, "%s", name);
}

/* Of one function: where they come from is what differs. */
static bool is_elsewhere(const struct diff_story *s)
{
	return s->has_a && s->has_b && s->a.function->identity == s->b.function->identity &&
	       diff_kind_of(s->a.thread, s->a.index)->hash != diff_kind_of(s->b.thread, s->b.index)->hash;
}

static void headline_of_calls(const struct diff_story *s, char *buf, size_t cap)
{
	char a[NAME_TEXT + 40], b[NAME_TEXT + 40];

	if (s->has_a)
		calls_text(&s->a, s->f.na, a, sizeof(a));
	if (s->has_b)
		calls_text(&s->b, s->f.nb, b, sizeof(b));
	if (s->has_b && s->b.is_signal)
		snprintf(buf, cap, "%s arrives in the bad run only",
			 utf8_clean(s->b.function->e.name, b, sizeof(b)));
	else if (s->has_a && s->a.is_signal)
		snprintf(buf, cap, "%s arrives in the good run only",
			 utf8_clean(s->a.function->e.name, a, sizeof(a)));
	else if (is_elsewhere(s))
		snprintf(buf, cap, "%s is called from another place", b);
	else if (s->has_a && s->has_b)
		snprintf(buf, cap, "the good run calls %s here, the bad run %s", a, b);
	else if (s->has_b)
		snprintf(buf, cap, "the bad run calls %s, which the good run does not", b);
	else
		snprintf(buf, cap, "the good run calls %s, which the bad run does not", a);
}

static void headline_of_result(const struct diff_story *s, const char *name, char *buf, size_t cap)
{
	const bool result = s->b.result.differs || s->b.result.to_differs;
	char changes[NAME_TEXT], text[NAME_TEXT];

	diff_changes_list(s->b.changes_differ && !s->b.changes.n ? &s->a.changes : &s->b.changes, 4, changes,
			  sizeof(changes));
	if (!*changes)
		diff_changes_list(&s->a.changes, 4, changes, sizeof(changes));
	utf8_clean(changes, text, sizeof(text));
	if (!s->b.changes_differ || !*text)
		snprintf(buf, cap,
			 s->b.error_differs && !result ? "%s fails with a different error"
						       : "%s returns something else",
			 name);
	else
		snprintf(buf, cap, "%s %sleaves something else in %s", name,
			 result ? "returns something else, and " : "", text);
}

void diff_headline(const struct diff_result *r, const struct diff_story *s, char *buf, size_t cap)
{
	const struct diff_threads *p = &r->compare.pair[s->f.pair];
	char name[NAME_TEXT] = "?", text[NAME_TEXT];

	if (s->has_b || s->has_a)
		utf8_clean((s->has_b ? &s->b : &s->a)->function->e.name, name, sizeof(name));
	switch (s->f.kind) {
	case FINDING_PARAMS:
		list_params(&s->b, text, sizeof(text));
		snprintf(buf, cap, "%s is called with another %s", name, *text ? text : "value");
		return;
	case FINDING_RESULT:
		headline_of_result(s, name, buf, cap);
		return;
	case FINDING_ENDED:
		snprintf(buf, cap, "%s: %s; in the good run: %s", name,
			 step_how_text(s->b.how) ? step_how_text(s->b.how) : "returned",
			 step_how_text(s->a.how) ? step_how_text(s->a.how) : "returned");
		return;
	case FINDING_CALLS:
		headline_of_calls(s, buf, cap);
		return;
	case FINDING_THREAD:
		diff_thread_text(p, s->f.pair, text, sizeof(text));
		snprintf(buf, cap, "%s exists only in the %s run", text, p->b ? "bad" : "good");
		return;
	}
}

void diff_group_text(const struct diff_group *g, char *buf, size_t cap)
{
	char what[NAME_TEXT];
	const char *run = g->only_in_a ? "good" : "bad";

	switch (g->kind) {
	case FINDING_PARAMS:
		snprintf(buf, cap, "called with another %s",
			 g->what ? utf8_clean(g->what, what, sizeof(what)) : "value");
		return;
	case FINDING_RESULT:
		if (g->what)
			snprintf(buf, cap, "leaves something else in %s",
				 utf8_clean(g->what, what, sizeof(what)));
		else
			snprintf(buf, cap, "returns something else");
		return;
	case FINDING_ENDED:
		snprintf(buf, cap, "ends in another way");
		return;
	case FINDING_CALLS:
		snprintf(buf, cap,
			 g->is_signal ? "arrives only in the %s run"
				      : "called only in the %s run, alone or with its calls",
			 run);
		return;
	case FINDING_THREAD:
		snprintf(buf, cap, "a thread that exists only in the %s run", run);
		return;
	}
}

const char *diff_kind_name(enum finding_kind kind)
{
	static const char *const names[] = { "params", "result", "ended", "calls", "thread" };

	return names[kind];
}

bool diff_time_of(const struct diff_result *r, const struct diff_story *s, bool *in_good, uint64_t *ns)
{
	const struct diff_side *side = s->has_b ? r->b : r->a;
	const struct diff_detail *d = s->has_b ? &s->b : &s->a;
	bool at_end = s->f.kind == FINDING_RESULT || (s->f.kind == FINDING_ENDED && d->how != RETURN_NEVER);
	uint64_t t;

	if (!s->has_a && !s->has_b)
		return false;
	t = at_end && d->end_ns ? d->end_ns : d->time_ns;
	*in_good = !s->has_b;
	*ns = t > side->first_ns ? t - side->first_ns : 0;
	return true;
}

void diff_thread_text(const struct diff_threads *p, uint32_t pair, char *buf, size_t cap)
{
	const struct diff_thread *t = p->b ? p->b : p->a;
	char comm[64];

	utf8_clean(t->comm ? t->comm : "", comm, sizeof(comm));
	snprintf(buf, cap, "%s%u%s%s%s", t->of_signals ? "signals of thread " : "thread ",
		 diff_pair_number(pair), comm[0] ? " (" : "", comm, comm[0] ? ")" : "");
}

void diff_place_text(const struct diff_result *r, const struct diff_story *s, char *buf, size_t cap)
{
	struct diff_threads p = r->compare.pair[s->f.pair];
	char thread[128], at[160] = "";
	bool in_good = !p.b;
	uint64_t ns;

	if (diff_time_of(r, s, &in_good, &ns))
		snprintf(at, sizeof(at), ", %" PRIu64 ".%06" PRIu64 " s after its recording began",
			 ns / 1000000000u, ns % 1000000000u / 1000);
	/* A signal comes to the thread; which may have another name in the good run. */
	if (s->has_b ? s->b.is_signal : s->has_a && s->a.is_signal)
		p = r->compare.pair[s->f.pair & ~1u];
	if (in_good)
		p.b = NULL;
	diff_thread_text(&p, s->f.pair, thread, sizeof(thread));
	snprintf(buf, cap, "in %s of the %s run%s", thread, in_good ? "good" : "bad", at);
}

void diff_numbers_text(const struct diff_story *s, char *buf, size_t cap)
{
	const bool in_a = s->has_a && !s->a.is_signal, in_b = s->has_b && !s->b.is_signal;
	const char *between = s->f.kind == FINDING_CALLS ? "; in its place, call" : ",";

	buf[0] = '\0';
	if (in_a && in_b)
		snprintf(buf, cap, "call %" PRIu64 " of the bad log%s %" PRIu64 " of the good one",
			 s->b.number, between, s->a.number);
	else if (in_a || in_b)
		snprintf(buf, cap, "call %" PRIu64 " of the %s log", (in_b ? &s->b : &s->a)->number,
			 in_b ? "bad" : "good");
}

void diff_no_before_text(const struct diff_result *r, const struct diff_story *s, char *buf, size_t cap)
{
	const struct diff_threads *p = &r->compare.pair[s->f.pair];
	char what[80];

	buf[0] = '\0';
	if (s->nbefore || !p->a || !p->b)
		return;
	snprintf(what, sizeof(what), "of %sthis thread%s", s->in_handlers ? "the handlers of " : "",
		 r->b->left_out ? ", of those that are compared," : "");
	if (!s->looked_at_all)
		snprintf(buf, cap,
			 "none of the last %u calls %s before it agrees with a call of the good run",
			 s->looked, what);
	else if (!s->ended)
		snprintf(buf, cap, "no call %s had ended before", what);
	else
		snprintf(buf, cap, "%u call%s %s had ended before, but %s with a call of the good run",
			 s->ended, s->ended == 1 ? "" : "s", what,
			 s->ended == 1 ? "it does not agree" : "none of them agrees");
}

void diff_parting_text(const struct diff_parting *p, char *buf, size_t cap)
{
	const char *run = p->in_good ? "good" : "bad";

	if (p->nbranches == 1)
		snprintf(buf, cap, "the runs part at this branch of the %s run's code", run);
	else if (p->more)
		snprintf(buf, cap,
			 "the runs part at one of these branches of the %s run's code, or of %" PRIu64
			 " more",
			 run, p->more);
	else
		snprintf(buf, cap, "the runs part at one of these branches of the %s run's code", run);
}

void diff_inlined_text(const struct diff_inlined *i, char *buf, size_t cap)
{
	char name[NAME_TEXT], source[300];

	utf8_clean(i->function, name, sizeof(name));
	text_source(i->file, i->line, source, sizeof(source));
	snprintf(buf, cap, "%s%s%s", name, source[0] ? "  " : "", source);
}

/* Stacks */

static bool add_frames(struct diff_side *s, uint64_t address, bool exact, struct diff_frame **v, size_t *n,
		       size_t *cap)
{
	const struct location *l = symbolizer_lookup(s->names, exact || !address ? address : address - 1);
	size_t i;

	for (i = 0; i < l->nframes; i++) {
		struct diff_frame f = { .location = l,
					.name = &l->frame[i],
					.address = address,
					.offset = l->offset + !exact,
					.inlined = i + 1 < l->nframes };

		if (!vec_push(*v, *n, *cap, f))
			return false;
	}
	return true;
}

bool diff_frames(struct diff_side *s, const struct diff_stack *stack, bool exact, struct diff_frame **ret,
		 size_t *n)
{
	size_t cap = 0, i;

	*ret = NULL;
	*n = 0;
	for (i = 0; i < stack->n; i++) {
		if (!add_frames(s, stack->v[i], exact && i == 0, ret, n, &cap)) {
			free(*ret);
			return false;
		}
	}
	for (i = 0; i < stack->nfunctions; i++) {
		struct diff_frame f = { .function = &s->function[stack->function[i]] };

		if (!vec_push(*ret, *n, cap, f)) {
			free(*ret);
			return false;
		}
	}
	return true;
}

void diff_function_text(const struct diff_function *f, char *buf, size_t cap)
{
	char name[300], source[300];

	utf8_clean(f->e.name, name, sizeof(name));
	text_source(f->e.file ? f->e.file : f->e.module, f->e.file ? f->e.line : 0, source, sizeof(source));
	snprintf(buf, cap, "%s%s%s", name, source[0] ? "  " : "", source);
}

void diff_frame_text(const struct diff_frame *f, char *buf, size_t cap)
{
	char place[CELL_TEXT], source[300];

	if (f->function) {
		diff_function_text(f->function, buf, cap);
		return;
	}
	if (f->inlined)
		utf8_clean(f->name->function ? f->name->function : "?", place, sizeof(place));
	else
		text_place(f->location->module,
			   f->location->module_offset + (f->offset - f->location->offset), f->name->function,
			   f->offset, f->address, place, sizeof(place));
	text_source(f->name->file, f->name->line, source, sizeof(source));
	if (!source[0] && f->name->function && f->location->module)
		text_source(f->location->module, 0, source, sizeof(source));
	snprintf(buf, cap, "%s%s%s%s", place, source[0] ? "  " : "", source, f->inlined ? "  (inlined)" : "");
}
