#include "watchctl/view/diff/diff_detail.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/bisect.h"
#include "watchctl/base/error.h"
#include "watchctl/base/vec.h"
#include "watchctl/trace/calls/call_merge.h"
#include "watchctl/trace/log/tracelog.h"
#include "watchctl/trace/redact.h"
#include "watchctl/view/diff/diff_canon.h"
#include "watchctl/view/event/step_value.h"

#define TEXT_MAX \
	4608 /* as in annotate_step.c: a string of CALL_POINTEE_MAX bytes, each of them escaped, fits */
#define STACK_FRAMES_MAX 1024u

/* Reading */

static struct wc_error *changed(const struct diff_side *s)
{
	return wc_error_new(WC_ELOG, "the log %s was changed while it was compared", s->path);
}

static struct wc_error *read_compact(struct diff_side *s, uint64_t at, uint32_t function,
				     enum event_type type, struct trace_event *ret)
{
	const struct trace_event *e;
	struct wc_error *err = call_merge_read_again(s->compact, at & ~DIFF_COMPACT, function, &e);

	if (err)
		return err;
	if (!e || e->type != type)
		return changed(s);
	*ret = *e;
	return NULL;
}

/* @function: the id of that of the call. */
static struct wc_error *read_event(struct diff_side *s, uint64_t at, uint32_t function, enum event_type type,
				   struct trace_event *ret)
{
	enum log_outcome outcome;
	struct wc_error *err;

	if (at & DIFF_COMPACT)
		return read_compact(s, at, function, type, ret);
	err = tracelog_read_again(s->log, at, ret, &outcome);
	if (err)
		return err;
	return outcome == LOG_EVENT && ret->type == type ? NULL : changed(s);
}

static uint8_t *copy_bytes(const uint8_t *bytes, uint32_t n)
{
	uint8_t *copy = malloc(n + 1u);

	if (copy && n)
		memcpy(copy, bytes, n);
	return copy;
}

static bool take_params(struct diff_detail *d, const struct call_event *e)
{
	const struct diff_function *f = d->function;
	struct call_value values[FUNCTION_PARAMS_MAX];
	uint32_t i;

	d->bytes = copy_bytes(e->values, e->values_len);
	d->param = calloc(f->e.nparams + 1, sizeof(*d->param));
	if (!d->bytes || !d->param)
		return false;
	d->nparams = diff_side_values(f, d->bytes, e->values_len, values);
	for (i = 0; i < d->nparams; i++)
		d->param[i] = (struct diff_value){
			.name = f->e.param[i].name,
			.type = f->param[i],
			.v = values[i],
			.masked = f->no_values || f->masked.params >> i & 1,
			.to_masked = f->masked.pointees >> i & 1,
		};
	return true;
}

static bool take_result(struct diff_detail *d, const struct return_event *e)
{
	const struct diff_function *f = d->function;
	struct call_values_reader r;

	d->how = e->how;
	d->has_error = e->has_error;
	d->error = e->error;
	d->result_bytes = copy_bytes(e->values, e->values_len);
	if (!d->result_bytes)
		return false;
	r = (struct call_values_reader){ d->result_bytes, d->result_bytes + e->values_len };
	call_result_read(&r, f->result_type ? &f->result_type->e : NULL, &d->result.v, &d->has_result);
	if (!f->no_values && !f->masked.changes && !diff_changes_take(d, &r, d->side->changes))
		return false;
	d->result.unused =
		d->has_result && call_result_is_unused(d->result_bytes, e->values_len, &f->result_type->e);
	d->result.type = f->result_type;
	d->result.name = "return";
	d->result.masked = f->no_values || f->masked.result;
	return true;
}

static struct wc_error *read_parts(struct diff_detail *d, const struct diff_call *c)
{
	struct wc_error *err;
	struct trace_event e;

	err = read_event(d->side, c->at, d->function->e.id, d->is_signal ? EVENT_SIGNAL : EVENT_CALL, &e);
	if (err)
		return err;
	d->time_ns = e.time_ns;
	if (d->is_signal) {
		d->ip = e.signal.ip;
		return NULL;
	}
	d->number = e.call.call;
	d->is_tail = (e.call.flags & CALL_TAIL) != 0;
	if (e.call.nframes == 1 && e.call.parent &&
	    !(e.call.flags & (CALL_TAIL | CALL_CALLBACK | CALL_SIGNAL)))
		d->site = e.call.frame[0];
	if (!take_params(d, &e.call))
		return &wc_enomem;
	if (c->back == DIFF_NEVER_BACK)
		return NULL;
	err = read_event(d->side, diff_back(d->thread, d->index), d->function->e.id, EVENT_RETURN, &e);
	if (err)
		return err;
	d->end_ns = e.time_ns;
	return take_result(d, &e.ret) ? NULL : &wc_enomem;
}

struct wc_error *diff_detail_read(struct diff_side *s, struct diff_thread *t, uint32_t index,
				  struct diff_detail *ret)
{
	const struct diff_call *c = &t->call[index];
	struct wc_error *err;

	*ret = (struct diff_detail){
		.side = s,
		.thread = t,
		.index = index,
		.function = diff_function_of(t, index),
		.is_signal = (c->flags & DIFF_SIGNAL) != 0,
	};
	err = read_parts(ret, c);
	if (err)
		diff_detail_deinit(ret);
	return err;
}

void diff_detail_deinit(struct diff_detail *d)
{
	uint32_t i;

	for (i = 0; d->param && i < d->nparams; i++)
		free(d->param[i].text);
	free(d->result.text);
	diff_changes_deinit(&d->changes);
	free(d->param);
	free(d->bytes);
	free(d->result_bytes);
	*d = (struct diff_detail){ 0 };
}

/* Comparing */

static bool close_enough(uint64_t a, uint64_t b, double tolerance)
{
	double x, y, larger;

	memcpy(&x, &a, sizeof(x));
	memcpy(&y, &b, sizeof(y));
	if (isnan(x) || isnan(y))
		return isnan(x) && isnan(y);
	larger = fabs(x) > fabs(y) ? fabs(x) : fabs(y);
	return x == y || fabs(x - y) <= tolerance * larger;
}

static bool tokens_agree(const struct diff_token *a, const struct diff_token *b,
			 const struct diff_closeness *c)
{
	if (a->value == b->value ||
	    (a->raw == b->raw && a->kind == TOKEN_INTEGER && b->kind == TOKEN_INTEGER))
		return true;
	if ((a->weak || b->weak || (a->unset && b->unset)) && !c->all)
		return true;
	return a->kind == TOKEN_FLOAT && b->kind == TOKEN_FLOAT && close_enough(a->raw, b->raw, c->tolerance);
}

static void mark(struct diff_value *v, bool pointee, const char *member)
{
	if (!v->differs && !v->to_differs)
		v->member = member;
	if (pointee)
		v->to_differs = true;
	else
		v->differs = true;
}

/* Lists of another length are of other types, or states: what is missing differs. */
static void compare_tokens(const struct diff_tokens *a, const struct diff_tokens *b,
			   const struct diff_closeness *c, struct diff_value *va, struct diff_value *vb)
{
	size_t i;

	for (i = 0; i < a->n || i < b->n; i++) {
		const struct diff_token *one = i < a->n ? &a->v[i] : &b->v[i];

		if (i < a->n && i < b->n && tokens_agree(&a->v[i], &b->v[i], c)) {
			va->to_unset |= one->unset && a->v[i].value != b->v[i].value;
			vb->to_unset = va->to_unset;
			continue;
		}
		if ((i >= a->n || i >= b->n) && (one->weak || one->unset) && !c->all)
			continue;
		if (one->is_pointee && va->to_masked && !c->all)
			continue;
		mark(va, one->is_pointee, one->member);
		mark(vb, one->is_pointee, one->member);
	}
}

const struct diff_token *diff_tokens_differ(const struct diff_tokens *a, const struct diff_tokens *b,
					    const struct diff_closeness *c)
{
	size_t i;

	for (i = 0; i < a->n || i < b->n; i++) {
		const struct diff_token *one = i < a->n ? &a->v[i] : &b->v[i];

		if (i < a->n && i < b->n ? !tokens_agree(&a->v[i], &b->v[i], c)
					 : c->all || !(one->weak || one->unset))
			return one;
	}
	return NULL;
}

/* Of a parameter: which bytes that it points to may be unset; NULL: none. */
static const bool *unset_of(const struct diff_detail *d, const struct diff_value *v, bool *buf)
{
	if (v == &d->result)
		return NULL;
	return diff_side_unset(d->thread, d->index, (uint32_t)(v - d->param), buf) ? buf : NULL;
}

static bool compare_values(struct diff_detail *a, struct diff_value *va, struct diff_detail *b,
			   struct diff_value *vb, bool is_result, const struct diff_closeness *c)
{
	bool in_a[DIFF_UNSET_MAX], in_b[DIFF_UNSET_MAX], ok;
	struct diff_tokens ta = { .list = true,
				  .no_pointee = va->to_masked && !c->all,
				  .unset = unset_of(a, va, in_a) },
			   tb = { .list = true,
				  .no_pointee = vb->to_masked && !c->all,
				  .unset = unset_of(b, vb, in_b) };

	if (!va->type || !vb->type || ((va->masked || vb->masked) && !c->all))
		return true;
	diff_canon_put(&a->side->canon, va->type, &va->v, a->function->canon, is_result, &ta);
	diff_canon_put(&b->side->canon, vb->type, &vb->v, b->function->canon, is_result, &tb);
	ok = !ta.no_memory && !tb.no_memory;
	if (ok)
		compare_tokens(&ta, &tb, c, va, vb);
	free(ta.v);
	free(tb.v);
	return ok;
}

static bool compare_results(struct diff_detail *a, struct diff_detail *b, const struct diff_closeness *c)
{
	if (a->result.unused || b->result.unused)
		return true;
	return compare_values(a, &a->result, b, &b->result, true, c);
}

static bool compare_ends(struct diff_detail *a, struct diff_detail *b, const struct diff_closeness *c,
			 bool *result)
{
	if (!a->how || !b->how)
		return true;
	a->how_differs = b->how_differs = a->how != b->how;
	if (a->result.masked && !c->all)
		return true;
	a->error_differs = b->error_differs = a->has_error != b->has_error || a->error != b->error;
	if (a->has_result != b->has_result)
		a->result.differs = b->result.differs = !a->how_differs;
	else if (a->has_result && !compare_results(a, b, c))
		return false;
	if (!diff_changes_compare(a, b, c, &a->changes_differ))
		return false;
	b->changes_differ = a->changes_differ;
	*result = a->error_differs || a->result.differs || a->result.to_differs || a->changes_differ;
	return true;
}

bool diff_detail_compare(struct diff_detail *a, struct diff_detail *b, const struct diff_closeness *c,
			 bool *params, bool *result)
{
	uint32_t n = a->nparams < b->nparams ? a->nparams : b->nparams, i;

	*params = *result = false;
	for (i = 0; i < n; i++) {
		if (!compare_values(a, &a->param[i], b, &b->param[i], false, c))
			return false;
		*params |= a->param[i].differs || a->param[i].to_differs;
	}
	return compare_ends(a, b, c, result);
}

/* Texts */

static const struct type_event *find_type(void *ctx, uint32_t id)
{
	const struct diff_type *t = diff_canon_type(ctx, id);

	return t ? &t->e : NULL;
}

static bool function_is_hidden(const struct redact_rules *r, const char *name)
{
	size_t i;

	for (i = 0; i < r->n; i++)
		if (redact_names_function(r->name[i], name))
			return true;
	return r->all;
}

/* The call, or one that it was made inside of, has values that are compared but not to be shown. */
static bool is_hidden(const struct diff_detail *d)
{
	const struct diff_side *s = d->side;
	uint32_t i = d->index;

	if (!redact_is_asked(&s->redact))
		return false;
	while (!function_is_hidden(&s->redact, diff_function_of(d->thread, i)->e.name)) {
		i = diff_parent(d->thread, i);
		if (i == NO_CALL)
			return false;
	}
	return true;
}

static bool value_text(const struct step_values *values, struct diff_value *v)
{
	char text[TEXT_MAX];

	if (v->text)
		return true;
	if (step_value_text(values, v->type ? &v->type->e : NULL, &v->v, text, sizeof(text)) == 0)
		strcpy(text, "?");
	v->text = strdup(text);
	return v->text != NULL;
}

bool diff_detail_texts(struct diff_detail *d)
{
	const struct step_values values = { { find_type, &d->side->canon }, d->side->names };
	uint32_t i;

	if (is_hidden(d)) {
		for (i = 0; i < d->nparams; i++)
			d->param[i].v = (struct call_value){ .state = VALUE_WITHHELD };
		d->result.v = (struct call_value){ .state = VALUE_WITHHELD };
		diff_changes_deinit(&d->changes);
		d->has_error = false;
	}
	for (i = 0; i < d->nparams; i++)
		if (!value_text(&values, &d->param[i]))
			return false;
	if (!diff_changes_texts(d, &values))
		return false;
	return !d->has_result || value_text(&values, &d->result);
}

/* Stacks */

struct walk {
	struct diff_side *side;
	struct diff_stack k;
	bool inside; /* of the call itself */
	bool skip;   /* the first frame of the next call: its tail call has taken it over */
	bool ends;
};

/* Of a call whose place is not known, the function that made it is. */
static struct wc_error *add_function(struct walk *w, uint32_t function)
{
	struct diff_stack *k = &w->k;

	if (w->inside && !vec_push(k->function, k->nfunctions, k->functions_cap, function))
		return &wc_enomem;
	w->inside = true;
	w->ends = k->nfunctions == STACK_FRAMES_MAX;
	if (w->ends)
		k->end = WALK_END_DEPTH;
	return NULL;
}

static struct wc_error *add_frames(struct walk *w, uint64_t at, uint32_t function)
{
	struct diff_stack *k = &w->k;
	struct trace_event e;
	struct wc_error *err;
	uint32_t i;

	if (at & DIFF_COMPACT)
		return add_function(w, function);
	err = read_event(w->side, at, 0, EVENT_CALL, &e);
	if (err)
		return err;
	for (i = w->skip; i < e.call.nframes && k->n < STACK_FRAMES_MAX; i++)
		if (!vec_push(k->v, k->n, k->cap, e.call.frame[i]))
			return &wc_enomem;
	w->skip = (e.call.flags & CALL_TAIL) && e.call.nframes;
	k->end = (enum walk_end)e.call.walk_end;
	w->ends = k->end != WALK_END_COMPLETE || k->n == STACK_FRAMES_MAX;
	if (k->n == STACK_FRAMES_MAX)
		k->end = WALK_END_DEPTH;
	return NULL;
}

/* The side's outer around the root @index, + 1; 0: none. */
static uint32_t outer_of(const struct diff_thread *t, uint32_t index)
{
	size_t low = BISECT(t->nroots, i, t->root[i].index < index);
	return low < t->nroots && t->root[low].index == index ? t->root[low].outer + 1 : 0;
}

void diff_stack_deinit(struct diff_stack *k)
{
	free(k->v);
	free(k->function);
	*k = (struct diff_stack){ 0 };
}

struct wc_error *diff_detail_stack(const struct diff_detail *d, struct diff_stack *ret)
{
	const struct diff_thread *t = d->thread;
	struct walk w = { .side = d->side, .k = { .end = WALK_END_COMPLETE } };
	uint32_t i = d->is_signal ? diff_parent(t, d->index) : d->index, root = d->index, outer;
	struct wc_error *err = NULL;

	if (d->is_signal && !vec_push(w.k.v, w.k.n, w.k.cap, d->ip))
		err = &wc_enomem;
	for (; !err && !w.ends && i != NO_CALL; i = diff_parent(t, i)) {
		err = add_frames(&w, t->call[i].at, diff_kind_of(t, i)->function);
		root = i;
	}
	for (outer = outer_of(t, root); !err && !w.ends && outer; outer = d->side->outer[outer - 1].around)
		err = add_frames(&w, d->side->outer[outer - 1].at, d->side->outer[outer - 1].function);
	if (err) {
		diff_stack_deinit(&w.k);
		return err;
	}
	*ret = w.k;
	return NULL;
}
