/*
 * The good run of reference (the first) is compared with each of the others; what differs becomes a mask, and they are
 * compared again with it, since one difference may hide another. Where that does not come to an end, it is said.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/view/diff/diff_impl.h"

#define ROUNDS_MAX 6
#define SIBLINGS_MAX 4096u /* of calls that one run does not have, whose functions are learned */

struct lesson {
	struct diff_result *r;
	const char *other;
	uint64_t learned;
};

static struct wc_error *learn(struct lesson *l, const struct diff_function *f, const char *part,
			      const char *how)
{
	scoped(freep) char *text = NULL, *why = NULL;
	struct wc_error *err;

	if (asprintf(&text, "%s%s", f->e.name, part) < 0)
		text = NULL;
	if (asprintf(&why, "learned: %s in %s and %s", how, l->r->a->path, l->other) < 0)
		why = NULL;
	if (!text || !why)
		return &wc_enomem;
	if (diff_masks_has(&l->r->masks, text))
		return NULL;
	err = diff_masks_add(&l->r->masks, text, why, true);
	if (!err)
		l->learned++;
	return err;
}

static struct wc_error *learn_params(struct lesson *l, const struct diff_detail *d)
{
	struct wc_error *err = NULL;
	char part[300];
	uint32_t i;

	for (i = 0; !err && i < d->nparams; i++) {
		const struct diff_value *v = &d->param[i];
		const char *star = v->differs ? "" : "*";

		if (!v->differs && !v->to_differs)
			continue;
		if (v->name && *v->name)
			snprintf(part, sizeof(part), ":%s%.250s", star, v->name);
		else
			snprintf(part, sizeof(part), ":%s#%u", star, i + 1);
		err = learn(l, d->function, part, "it differs");
	}
	return err;
}

/* Else only what it has changed in memory differs. */
static bool is_result(const struct diff_detail *d)
{
	return d->error_differs || d->result.differs || d->result.to_differs;
}

static struct wc_error *learn_values(struct lesson *l, const struct diff_options *o,
				     const struct diff_finding *f)
{
	const struct diff_threads *p = &l->r->compare.pair[f->pair];
	const struct diff_closeness close = { .tolerance = o->tolerance };
	struct diff_detail a = { 0 }, b = { 0 };
	bool params, result;
	struct wc_error *err;

	err = diff_detail_read(l->r->a, p->a, f->a, &a);
	if (!err)
		err = diff_detail_read(l->r->b, p->b, f->b, &b);
	if (!err && !diff_detail_compare(&a, &b, &close, &params, &result))
		err = &wc_enomem;
	if (!err && f->kind == FINDING_PARAMS)
		err = learn_params(l, &a);
	else if (!err && f->kind == FINDING_RESULT && result)
		err = learn(l, a.function, is_result(&a) ? ":return" : ":changes", "it differs");
	diff_detail_deinit(&a);
	diff_detail_deinit(&b);
	return err;
}

/* Calls from @first on, @n siblings of it, that the other run does not have. */
static struct wc_error *learn_calls(struct lesson *l, const struct diff_thread *t, uint32_t first, uint32_t n)
{
	struct wc_error *err = NULL;
	uint32_t i, done = 0;

	for (i = first; !err && i < t->n && done < n && done < SIBLINGS_MAX; i = diff_next(t, i)) {
		if (t->call[i].flags & DIFF_OPTIONAL)
			continue;
		done++;
		err = learn(l, diff_function_of(t, i), ":calls", "not as often");
	}
	return err;
}

static struct wc_error *learn_finding(struct lesson *l, const struct diff_options *o,
				      const struct diff_finding *f)
{
	const struct diff_threads *p = &l->r->compare.pair[f->pair];
	struct wc_error *err = NULL;

	if (f->kind == FINDING_PARAMS || f->kind == FINDING_RESULT)
		return learn_values(l, o, f);
	if (f->kind == FINDING_ENDED)
		return learn(l, diff_function_of(p->b, f->b), "", "it ends in another way");
	if (f->a != NO_CALL)
		err = learn_calls(l, p->a, f->a, f->na);
	if (!err && f->b != NO_CALL)
		err = learn_calls(l, p->b, f->b, f->nb);
	return err;
}

/* *@again: masks were learned, with which there may be less. */
static struct wc_error *learn_round(struct lesson *l, const struct diff_options *o, bool *again)
{
	uint64_t before = l->learned;
	struct wc_error *err;
	size_t i;

	err = diff_load_sides(o, o->good[0], l->other, &l->r->masks, &l->r->a, &l->r->b);
	if (!err)
		err = diff_compare_sides(l->r, o);
	if (!err &&
	    !diff_inputs_learn(&l->r->a->inputs, &l->r->b->inputs, &l->r->input_noise, &l->r->learned))
		err = &wc_enomem;
	for (i = 0; !err && i < l->r->compare.n && i < LOOK_MAX; i++)
		err = learn_finding(l, o, &l->r->compare.v[i]);
	*again = !err && l->learned > before;
	return err;
}

static struct wc_error *learn_from(struct diff_result *r, const struct diff_options *o, const char *other)
{
	struct lesson l = { .r = r, .other = other };
	struct wc_error *err;
	bool again = true, left = false;
	int round;

	for (round = 0; again && round < ROUNDS_MAX; round++) {
		err = learn_round(&l, o, &again);
		left = !err && r->differs;
		diff_result_clear(r);
		if (err)
			return err;
	}
	r->learned += l.learned;
	if (left &&
	    !diff_note(
		    r,
		    "%s and %s still differ with all masks learned from them: some of the reported differences may "
		    "be noise",
		    o->good[0], other))
		return &wc_enomem;
	return NULL;
}

struct wc_error *diff_learn(struct diff_result *r, const struct diff_options *o)
{
	struct wc_error *err = NULL;
	size_t i;

	for (i = 1; !err && i < o->ngood; i++)
		err = learn_from(r, o, o->good[i]);
	return err;
}

static void drop_texts(char **text, size_t *n, size_t to)
{
	while (*n > to)
		free(text[--*n]);
}

/* Says nothing of the logs: that is said of those that are compared in the end. */
static bool can_be_reference(struct diff_result *r, const struct diff_options *o)
{
	const size_t notes = r->nnotes, doubts = r->ndoubts;
	struct wc_error *err = diff_check_sides(r, o);
	const bool ret = !err && !r->incomparable && !diff_side_is_empty(r->a);

	wc_error_free(err);
	drop_texts(r->note, &r->nnotes, notes);
	drop_texts(r->doubt, &r->ndoubts, doubts);
	r->incomparable = false;
	return ret;
}

/* Where in the bad run's log its first difference from the good run is; UINT64_MAX: there is none. */
static uint64_t first_difference(const struct diff_result *r)
{
	const uint64_t value = r->has_value ? r->value.f.when : UINT64_MAX;
	const uint64_t control = r->has_control ? r->control.f.when : UINT64_MAX;

	return value < control ? value : control;
}

/* How far the runs agree; 0: that cannot be known. A log that is cut agrees with what it lacks. */
static struct wc_error *read_agreement(struct diff_result *r, const struct diff_options *o, const char *good,
				       uint64_t *ret)
{
	struct wc_error *err = diff_load_sides(o, good, o->bad, &r->masks, &r->a, &r->b);

	*ret = 0;
	if (!err && can_be_reference(r, o)) {
		err = diff_compare_sides(r, o);
		if (!err && (r->differs || !r->a->why))
			*ret = first_difference(r);
	}
	diff_result_clear(r);
	return err;
}

struct wc_error *diff_choose_reference(struct diff_result *r, const struct diff_options *o, const char **ret)
{
	struct wc_error *err = NULL;
	uint64_t agrees, longest = 0;
	size_t i, best = 0;

	for (i = 0; i < o->ngood; i++)
		ret[i] = o->good[i];
	for (i = 0; !err && o->ngood > 1 && i < o->ngood; i++) {
		err = read_agreement(r, o, o->good[i], &agrees);
		if (!err && agrees > longest) {
			longest = agrees;
			best = i;
		}
	}
	ret[0] = o->good[best];
	ret[best] = o->good[0];
	if (!err && best &&
	    !diff_note(r,
		       "the bad run agrees with %s longer than with the other good runs: they are compared",
		       ret[0]))
		return &wc_enomem;
	return err;
}
