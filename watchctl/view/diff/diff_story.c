/* Everything about one difference: the calls, their stacks, what agreed before, and which input differed. */
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/bisect.h"
#include "watchctl/base/error.h"
#include "watchctl/view/diff/diff_impl.h"

#define WALK_MAX 200000u /* calls that are passed on the way back to an input */
#define INPUTS_MAX 2000u /* of them, those that are read again */

/* The call of the bad run behind the last one that comes before the difference. */
static uint32_t behind_last(const struct diff_threads *p, const struct diff_finding *f)
{
	uint32_t a, b;

	if (f->kind == FINDING_RESULT || f->kind == FINDING_ENDED)
		return diff_next(p->b, f->b);
	if (f->b != NO_CALL)
		return f->b;
	for (a = f->a; a > 0; a--) {
		b = diff_mate_of_a(p, a - 1);
		if (b != NO_CALL)
			return b + 1;
	}
	return 0;
}

static bool agrees(const struct diff_threads *p, uint32_t b)
{
	uint32_t a = diff_mate_of(p, b);

	return a != NO_CALL && p->a->call[a].params == p->b->call[b].params &&
	       p->a->call[a].result == p->b->call[b].result;
}

/* When a difference shows: what comes before it. */
struct moment {
	const struct diff_threads *p; /* whose calls those are */
	uint32_t end;		      /* behind the last one that had begun */
	uint64_t at;		      /* position in the bad log */
};

static bool is_signal(const struct diff_threads *p, const struct diff_finding *f)
{
	return f->b != NO_CALL && (p->b->call[f->b].flags & DIFF_SIGNAL);
}

/* In its thread, not among the signals, which are kept apart from the calls. */
static struct moment moment_of_signal(const struct diff_threads *p, const struct diff_finding *f)
{
	struct moment m = { .p = p->b->of_signals ? p - 1 : p, .at = p->b->call[f->b].at };

	m.end = (uint32_t)BISECT(m.p->b->n, i, m.p->b->call[i].at < m.at);
	return m;
}

static struct moment moment_of(const struct diff_threads *p, const struct diff_finding *f)
{
	struct moment m = { .p = p, .end = behind_last(p, f), .at = UINT64_MAX };

	if ((f->kind == FINDING_RESULT || f->kind == FINDING_ENDED) && diff_back(p->b, f->b))
		m.at = diff_back(p->b, f->b);
	else if (f->kind != FINDING_RESULT && f->kind != FINDING_ENDED && m.end < p->b->n)
		m.at = p->b->call[m.end].at;
	return m;
}

static bool was_over(const struct moment *m, uint32_t i)
{
	const uint64_t back = diff_back(m->p->b, i);

	return back && back < m->at;
}

/* Calls that agreed and were over, nearest first. */
static struct wc_error *read_before(struct diff_result *r, const struct moment *m, struct diff_story *s)
{
	const struct diff_threads *p = m->p;
	struct wc_error *err = NULL;
	uint32_t i;

	for (i = m->end; !err && i > 0 && s->nbefore < DIFF_BEFORE && s->looked < WALK_MAX; s->looked++) {
		i--;
		if (!was_over(m, i))
			continue;
		s->ended++;
		if (!agrees(p, i))
			continue;
		err = diff_detail_read(r->b, p->b, i, &s->before[s->nbefore]);
		if (!err)
			s->nbefore++;
	}
	s->looked_at_all = i == 0;
	return err;
}

/* Reads a pair of inputs; *@differs: other things came in. */
static struct wc_error *compare_input(struct diff_result *r, const struct diff_threads *p, uint32_t a,
				      uint32_t b, struct diff_story *s, bool *differs)
{
	static const struct diff_closeness close = { .all = true };
	struct wc_error *err = diff_detail_read(r->a, p->a, a, &s->input_a);
	bool params;

	*differs = false;
	if (err)
		return err;
	err = diff_detail_read(r->b, p->b, b, &s->input_b);
	if (!err && !diff_detail_compare(&s->input_a, &s->input_b, &close, &params, differs))
		err = &wc_enomem;
	*differs |= s->input_a.how_differs;
	if (err || !*differs) {
		diff_detail_deinit(&s->input_a);
		diff_detail_deinit(&s->input_b);
	}
	return err;
}

static struct wc_error *find_input(struct diff_result *r, const struct moment *m, struct diff_story *s)
{
	const struct diff_threads *p = m->p;
	uint32_t i, passed = 0, looked = 0, a;
	struct wc_error *err = NULL;

	for (i = m->end; !err && i-- > 0 && !s->has_input && passed < WALK_MAX && looked < INPUTS_MAX;
	     passed++) {
		if (!diff_function_of(p->b, i)->is_input || !was_over(m, i))
			continue;
		a = diff_mate_of(p, i);
		if (a == NO_CALL)
			continue;
		looked++;
		err = compare_input(r, p, a, i, s, &s->has_input);
	}
	return err;
}

static struct wc_error *read_calls(struct diff_result *r, const struct diff_threads *p, struct diff_story *s)
{
	static const struct diff_closeness close = { 0 };
	struct wc_error *err = NULL;
	bool params, result;

	if (s->f.a != NO_CALL) {
		err = diff_detail_read(r->a, p->a, s->f.a, &s->a);
		s->has_a = !err;
	}
	if (!err && s->f.b != NO_CALL) {
		err = diff_detail_read(r->b, p->b, s->f.b, &s->b);
		s->has_b = !err;
	}
	if (!err && s->has_a && s->has_b && s->f.kind != FINDING_CALLS &&
	    !diff_detail_compare(&s->a, &s->b, &close, &params, &result))
		err = &wc_enomem;
	if (!err && s->has_a)
		err = diff_detail_texts(&s->a) ? diff_detail_stack(&s->a, &s->stack_a) : &wc_enomem;
	if (!err && s->has_b)
		err = diff_detail_texts(&s->b) ? diff_detail_stack(&s->b, &s->stack_b) : &wc_enomem;
	return err;
}

static bool make_texts(struct diff_story *s)
{
	size_t i;

	for (i = 0; i < s->nbefore; i++)
		if (!diff_detail_texts(&s->before[i]))
			return false;
	return !s->has_input || (diff_detail_texts(&s->input_a) && diff_detail_texts(&s->input_b));
}

struct wc_error *diff_story_read(struct diff_result *r, const struct diff_finding *f, struct diff_story *ret)
{
	const struct diff_threads *p = &r->compare.pair[f->pair];
	struct wc_error *err;
	struct moment m;

	ret->f = *f;
	err = read_calls(r, p, ret);
	if (err || !p->a || !p->b)
		return err;
	m = is_signal(p, f) ? moment_of_signal(p, f) : moment_of(p, f);
	ret->in_handlers = m.p->b->of_signals;
	ret->is_input = ret->has_a && ret->has_b && f->kind != FINDING_CALLS && f->kind != FINDING_PARAMS &&
			ret->b.function->is_input;
	err = read_before(r, &m, ret);
	if (!err && !ret->is_input)
		err = find_input(r, &m, ret);
	return err ? err : make_texts(ret) ? NULL : &wc_enomem;
}

struct wc_error *diff_group_story(struct diff_result *r, const struct diff_group *g, struct diff_story *ret)
{
	return diff_story_read(r, &g->f, ret);
}

void diff_story_deinit(struct diff_story *s)
{
	size_t i;

	diff_detail_deinit(&s->a);
	diff_detail_deinit(&s->b);
	for (i = 0; i < s->nbefore; i++)
		diff_detail_deinit(&s->before[i]);
	diff_detail_deinit(&s->input_a);
	diff_detail_deinit(&s->input_b);
	diff_stack_deinit(&s->stack_a);
	diff_stack_deinit(&s->stack_b);
	*s = (struct diff_story){ 0 };
}
