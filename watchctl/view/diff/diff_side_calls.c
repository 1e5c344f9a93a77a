#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/trace/call_values.h"
#include "watchctl/view/diff/base/diff_array.h"
#include "watchctl/view/diff/base/diff_hash.h"
#include "watchctl/view/diff/diff_changes.h"
#include "watchctl/view/diff/diff_side_impl.h"

#define CUT_VALUES 0x5eedu /* in place of values whose bytes make no sense */
#define NOT_ENDED 0xdeadu

static struct diff_thread *place_of(struct loading_thread *t, const struct open_call *o)
{
	return o->in_signals ? t->signals : t->main;
}

/* The innermost open call that has a place in there; NULL: none. */
static struct open_call *parent_in(const struct loading_thread *t, bool in_signals)
{
	size_t i;

	for (i = t->nopen; i-- > 0;)
		if (t->open[i].index != NO_CALL && t->open[i].in_signals == in_signals)
			return &t->open[i];
	return NULL;
}

static void begin_tokens(struct diff_tokens *k)
{
	k->strong = k->weak = 0;
	k->n = 0;
}

static uint64_t fold32(uint64_t h)
{
	return (uint32_t)(h ^ h >> 32);
}

/* Sums of an ended subtree, which it hands on to the call around it. */
struct ended {
	uint64_t exact;
	uint32_t shape, weak;
};

static void hand_on(struct diff_thread *d, const struct ended *e, struct open_call *parent)
{
	if (!parent) {
		d->strong = diff_mix(d->strong, e->exact);
		return;
	}
	parent->exact = diff_mix(parent->exact, e->exact);
	parent->shape = (uint32_t)fold32(diff_mix(parent->shape, e->shape));
	parent->weak = (uint32_t)fold32(diff_mix(parent->weak, e->weak));
}

static bool add_inner(struct diff_thread *d, const struct open_call *o, uint64_t exact,
		      const struct open_call *parent)
{
	struct diff_inner inner = { .exact = exact,
				    .shape = o->shape,
				    .size = (uint32_t)d->n - o->index,
				    .parent = parent ? parent->index : NO_CALL };

	if (!diff_array_push(d->inner, d->ninner, d->inner_cap, inner))
		return false;
	d->call[o->index].inner = (uint32_t)d->ninner;
	return true;
}

/* @result: hash of how it ended. */
static struct wc_error *close_call(struct loading_thread *t, const struct open_call *o, uint64_t result,
				   uint64_t weak)
{
	struct diff_thread *d = place_of(t, o);
	struct ended e = { .shape = o->shape };
	struct open_call *parent;
	struct diff_call *c;

	t->closed[t->nclosed++ % CLOSED_CALLS] = (struct closed_call){ o->call, o->path, o->ordinal };
	if (o->begins_scope)
		t->inside = false;
	if (o->index == NO_CALL)
		return NULL;
	parent = parent_in(t, o->in_signals);
	c = &d->call[o->index];
	c->result = (uint32_t)fold32(result);
	c->weak = e.weak = (uint32_t)fold32(diff_mix(o->weak, weak));
	/* Not read from where it was just written: that would wait for it. */
	e.exact = diff_exact_leaf(diff_kind_of(d, o->index), c->params, (uint32_t)fold32(result));
	if (d->n - o->index > 1) {
		e.exact = diff_mix(o->exact, result);
		if (!add_inner(d, o, e.exact, parent))
			return &wc_enomem;
	}
	hand_on(d, &e, parent);
	return NULL;
}

static struct wc_error *close_unfinished(struct loading_thread *t)
{
	const struct open_call *o = &t->open[--t->nopen];

	if (o->index != NO_CALL)
		place_of(t, o)->call[o->index].flags |= DIFF_UNFINISHED;
	return close_call(t, o, NOT_ENDED, 0);
}

/* All but the @n outermost ones. */
static struct wc_error *close_all_but(struct loading_thread *t, size_t n)
{
	struct wc_error *err = NULL;

	while (!err && t->nopen > n)
		err = close_unfinished(t);
	return err;
}

/* Calls whose end was not reported, but must have come: the next one's parent lies outside of them. */
static struct wc_error *close_down_to(struct loading_thread *t, uint64_t call)
{
	size_t i = t->nopen;

	while (call && i > 0 && t->open[i - 1].call != call)
		i--;
	if (call && !i)
		return NULL; /* not one of those open: it is taken for a call of the innermost one */
	return close_all_but(t, call ? i : 0);
}

static bool hash_params(struct loader *l, const struct loading_thread *t, struct diff_thread *d,
			const struct diff_function *f, const struct call_event *e)
{
	struct call_value v[FUNCTION_PARAMS_MAX];
	struct diff_tokens *k = &l->tokens;
	uint32_t n = diff_side_values(f, e->values, e->values_len, v), i;

	begin_tokens(k);
	if (f->no_values)
		return true;
	for (i = 0; i < n; i++) {
		if (f->masked.params >> i & 1)
			continue;
		k->no_pointee = f->masked.pointees >> i & 1;
		if (!k->no_pointee && !diff_load_unset(l, t, d, f->param[i], i, &v[i]))
			return false;
		diff_canon_put(&l->s->canon, f->param[i], &v[i], f->canon, false, k);
	}
	k->unset = NULL;
	if (n < f->e.nparams)
		k->strong = diff_mix(k->strong, CUT_VALUES);
	k->no_pointee = false;
	return true;
}

/* Whether the call counts, by what the user wants to be compared. */
static bool enters_scope(struct loader *l, struct loading_thread *t, const struct diff_function *f,
			 struct open_call *o)
{
	if (!t->inside && l->scope->from && f->is_from)
		t->inside = o->begins_scope = true;
	if (!t->inside)
		return false;
	if (f->is_to)
		t->inside = false;
	return true;
}

/* The root that comes next is made from the innermost open call: keeps what its stack is read from. */
static bool keep_outer(struct diff_side *s, struct loading_thread *t, struct diff_thread *d)
{
	size_t from = t->nopen, i;

	while (from > 0 && !t->open[from - 1].outer)
		from--;
	for (i = from; i < t->nopen; i++) {
		struct diff_outer o = { t->open[i].at, i ? t->open[i - 1].outer : 0, t->open[i].function };

		if (s->nouter >= NO_CALL - 1 || !vec_push(s->outer, s->nouter, s->outer_cap, o))
			return false;
		t->open[i].outer = (uint32_t)s->nouter;
	}
	return vec_push(d->root, d->nroots, d->roots_cap,
			(struct diff_root){ (uint32_t)d->n, t->open[t->nopen - 1].outer - 1 });
}

/* One more, that was made at @at: all else of it is zero. */
static struct wc_error *append_call(struct diff_thread *d, uint64_t at, struct diff_call **ret)
{
	if (d->n >= NO_CALL - 1)
		return wc_error_new(WC_ENOTSUP, "a thread of the log has more than %u calls", NO_CALL - 1);
	if (!diff_array_push(d->call, d->n, d->cap, (struct diff_call){ .at = at }))
		return &wc_enomem;
	*ret = &d->call[d->n - 1];
	return NULL;
}

/* Functions that have the same hash, as one that was reported twice, have kinds of their own. */
static struct wc_error *find_kind(struct loader *l, uint64_t hash, uint32_t function, uint32_t *ret)
{
	struct diff_kind kind = { .hash = hash, .key = (uint32_t)fold32(hash), .function = function };
	struct diff_side *s = l->s;
	const uint64_t id = diff_mix(hash, function);
	uintptr_t index = (uintptr_t)map64_get(&l->kinds, id);

	if (index) {
		*ret = (uint32_t)index - 1;
		return NULL;
	}
	if (s->nkinds == UINT32_MAX)
		return wc_error_new(WC_ENOTSUP, "the log has calls from more than %u places", UINT32_MAX);
	if (!vec_push(s->kind, s->nkinds, s->kinds_cap, kind) ||
	    !map64_put(&l->kinds, id, (void *)(uintptr_t)s->nkinds))
		return &wc_enomem;
	*ret = (uint32_t)s->nkinds - 1;
	return NULL;
}

/* Of calls of the function @function from @site. */
static struct wc_error *kind_of_call(struct loader *l, uint32_t function, uint64_t site, uint32_t *ret)
{
	const size_t at = (diff_mix(site, function) >> 20) & (KIND_CACHE - 1);
	struct wc_error *err;

	if (l->known[at].kind && l->known[at].site == site && l->known[at].function == function) {
		*ret = l->known[at].kind - 1;
		return NULL;
	}
	err = find_kind(l, diff_mix(l->s->function[function].identity, site), function, ret);
	if (err)
		return err;
	l->known[at].site = site;
	l->known[at].function = function;
	l->known[at].kind = *ret + 1;
	return NULL;
}

static struct wc_error *open_call(struct loader *l, struct loading_thread *t, const struct call_event *e,
				  uint64_t at, uint64_t site, struct open_call *o)
{
	const struct diff_function *f = &l->s->function[o->function];
	struct diff_thread *d = place_of(t, o);
	const struct diff_kind *kind;
	struct diff_call *c;
	struct wc_error *err;
	uint32_t index, flags = 0;

	if (t->nopen && !parent_in(t, o->in_signals) && !keep_outer(l->s, t, d))
		return &wc_enomem;
	if (!hash_params(l, t, d, f, e))
		return &wc_enomem;
	err = kind_of_call(l, o->function, site, &index);
	if (!err)
		err = append_call(d, at, &c);
	if (err)
		return err;
	kind = &l->s->kind[index];
	if (f->masked.optional || (f->canon & CANON_MEMORY))
		flags = DIFF_OPTIONAL;
	if (e->flags & CALL_SIGNAL)
		flags |= DIFF_TRIGGERED | (t->any_time ? DIFF_OPTIONAL : 0);
	c->flags = (uint8_t)flags;
	c->kind = index;
	c->params = (uint32_t)fold32(l->tokens.strong);
	o->exact = diff_mix(diff_mix(kind->hash, l->tokens.strong), 1);
	o->shape = kind->key;
	o->weak = (uint32_t)fold32(l->tokens.weak);
	o->index = (uint32_t)d->n - 1;
	return NULL;
}

struct wc_error *diff_load_call(struct loader *l, const struct call_event *e, uint64_t at)
{
	struct loading_thread *t = diff_loading_thread(l, e->pid, e->tid);
	uintptr_t index = (uintptr_t)id_map_get(&l->s->function_ids, e->function);
	const struct open_call *parent;
	struct open_call *o;
	struct diff_function *f;
	struct wc_error *err = NULL;
	uint64_t site;

	if (!t)
		return &wc_enomem;
	if (!index) /* never reported: a damaged log */
		return NULL;
	err = close_down_to(t, e->parent);
	if (err)
		return err;
	if (!vec_reserve((void **)&t->open, &t->open_cap, t->nopen + 1, sizeof(*t->open)))
		return &wc_enomem;
	/* Where it will be: it would be slow to copy. It is open when all is known about it. */
	o = &t->open[t->nopen];
	*o = (struct open_call){ .call = e->call, .index = NO_CALL, .at = at, .sp = e->sp };
	parent = t->nopen ? o - 1 : NULL;
	o->function = (uint32_t)index - 1;
	f = &l->s->function[o->function];
	f->calls++;
	l->s->calls++;
	site = e->nframes ? diff_space_site(&l->s->canon.space, e->frame[0]) : 0;
	o->path = parent ? parent->path : 0;
	if (!f->is_alone)
		o->path = diff_mix(diff_mix(o->path, f->identity), site);
	if (f->creates) {
		o->ordinal = (uint32_t)(uintptr_t)map64_get(&l->creating, o->path) + 1;
		if (!map64_put(&l->creating, o->path, (void *)(uintptr_t)o->ordinal))
			return &wc_enomem;
	}
	o->in_signals = (e->flags & CALL_SIGNAL) || (parent && parent->in_signals);
	o->left_out = (parent && parent->left_out) || f->masked.calls;
	if (!enters_scope(l, t, f, o) || o->left_out)
		l->s->left_out++;
	else if (!f->is_alone)
		err = open_call(l, t, e, at, site, o);
	t->nopen += !err;
	return err;
}

/* Numbers what was allocated: the n-th at this path of calls. */
static bool keep_allocation(struct loader *l, const struct open_call *o, const struct call_value *v)
{
	uint64_t address = 0, number;

	if (v->state != VALUE_OK || v->size != 8)
		return true;
	memcpy(&address, v->bytes, sizeof(address));
	if (diff_space_find(&l->s->canon.space, address, true).kind != PLACE_DYNAMIC)
		return true;
	number = (uint64_t)(uintptr_t)map64_get(&l->allocated, o->path) + 1;
	return map64_put(&l->allocated, o->path, (void *)(uintptr_t)number) &&
	       map64_put(&l->s->canon.heap, address, (void *)(uintptr_t)(diff_mix(o->path, number) | 1));
}

/* The register is not compared: perhaps it holds no result. */
static bool is_unused(const struct diff_function *f, const struct return_event *e)
{
	return call_result_is_unused(e->values, e->values_len, &f->result_type->e);
}

static bool hash_result(struct loader *l, const struct open_call *o, const struct return_event *e,
			uint64_t *ret)
{
	const struct diff_function *f = &l->s->function[o->function];
	struct call_values_reader r = { e->values, e->values + e->values_len };
	struct call_value v;
	bool has;

	begin_tokens(&l->tokens);
	*ret = e->how;
	if (f->masked.result || f->no_values)
		return true;
	*ret = diff_mix(*ret, e->has_error ? 1 + (uint64_t)(uint32_t)e->error : 0);
	call_result_read(&r, f->result_type ? &f->result_type->e : NULL, &v, &has);
	if (has) {
		if (!l->s->canon.no_heap && f->allocates && !keep_allocation(l, o, &v))
			return false;
		if (!is_unused(f, e))
			diff_canon_put(&l->s->canon, f->result_type, &v, f->canon, true, &l->tokens);
		*ret = diff_mix(*ret, l->tokens.strong);
	}
	if (r.at != r.end && l->s->changes && !f->masked.changes)
		*ret += diff_changes_hash(&l->s->canon, f, &r, l->s->changes, &l->tokens);
	return true;
}

/* Where, and how, the call @o has returned. */
static bool keep_back(struct diff_thread *d, const struct open_call *o, uint64_t at, enum return_how how)
{
	struct diff_call *c = &d->call[o->index];
	const uint64_t distance = at - o->at;

	c->how = (uint8_t)how;
	c->back = distance > DIFF_NEVER_BACK && distance < DIFF_FAR_BACK ? (uint32_t)distance : DIFF_FAR_BACK;
	return c->back != DIFF_FAR_BACK || map64_put(&d->far, o->index, (void *)(uintptr_t)at);
}

struct wc_error *diff_load_return(struct loader *l, const struct return_event *e, uint64_t at)
{
	struct loading_thread *t = diff_loading_thread(l, e->pid, e->tid);
	const struct open_call *o;
	struct wc_error *err;
	uint64_t result = 0;
	size_t i;

	if (!t)
		return &wc_enomem;
	for (i = t->nopen; i > 0 && t->open[i - 1].call != e->call; i--)
		;
	if (!i)
		return NULL;
	err = close_all_but(t, i);
	if (err)
		return err;
	o = &t->open[--t->nopen];
	if (o->index != NO_CALL) {
		if (!keep_back(place_of(t, o), o, at, e->how) || !hash_result(l, o, e, &result))
			return &wc_enomem;
	}
	return close_call(t, o, result, l->tokens.weak);
}

/* Signals of other processes, of timers and of the terminal come when they like. */
static bool comes_any_time(int signal)
{
	switch (signal) {
	case SIGALRM:
	case SIGVTALRM:
	case SIGPROF:
	case SIGCHLD:
	case SIGWINCH:
	case SIGURG:
	case SIGIO:
	case SIGCONT:
		return true;
	default:
		return signal >= 32; /* the thread library's, and those of timers */
	}
}

static struct wc_error *signal_function(struct loader *l, int signal, uint32_t *ret)
{
	uintptr_t index = (uintptr_t)map64_get(&l->signals, (uint32_t)signal);
	const char *abbreviation = sigabbrev_np(signal);
	struct wc_error *err;
	char name[40];

	if (index) {
		*ret = (uint32_t)index - 1;
		return NULL;
	}
	if (abbreviation)
		snprintf(name, sizeof(name), "signal SIG%s", abbreviation);
	else
		snprintf(name, sizeof(name), "signal %d", signal);
	err = diff_load_pseudo_function(l, name, ret);
	if (err)
		return err;
	return map64_put(&l->signals, (uint32_t)signal, (void *)(uintptr_t)(*ret + 1)) ? NULL : &wc_enomem;
}

struct wc_error *diff_load_signal(struct loader *l, const struct signal_event *e, uint64_t at)
{
	struct loading_thread *t = diff_loading_thread(l, e->pid, e->tid);
	const struct diff_function *f;
	struct ended ended = { 0 };
	struct open_call *parent;
	struct diff_call *c;
	struct wc_error *err;
	uint32_t function, kind;

	if (!t)
		return &wc_enomem;
	t->any_time = comes_any_time(e->signal);
	if (!t->inside)
		return NULL;
	err = signal_function(l, e->signal, &function);
	if (err)
		return err;
	f = &l->s->function[function];
	if (f->masked.calls)
		return NULL;
	err = find_kind(l, f->identity, function, &kind);
	if (err)
		return err;
	parent = parent_in(t, true);
	if (!parent && t->nopen && !keep_outer(l->s, t, t->signals))
		return &wc_enomem;
	err = append_call(t->signals, at, &c);
	if (err)
		return err;
	c->flags = DIFF_SIGNAL | (t->any_time || f->masked.optional ? DIFF_OPTIONAL : 0);
	c->kind = kind;
	ended.exact = diff_exact(t->signals, (uint32_t)t->signals->n - 1);
	ended.shape = l->s->kind[kind].key;
	hand_on(t->signals, &ended, parent);
	return NULL;
}

/* Calls that were open when somebody stopped the recording: how they would have ended is not known. */
static void leave_open(struct diff_thread *t)
{
	size_t i;

	for (i = 0; i < t->n; i++)
		if (t->call[i].how == RETURN_NEVER)
			t->call[i].flags |= DIFF_UNFINISHED;
}

struct wc_error *diff_load_finish(struct loader *l)
{
	struct diff_side *s = l->s;
	bool stopped = diff_side_is_stopped(s) || s->why_calls;
	struct wc_error *err = NULL;
	size_t i;

	for (i = 0; !err && i < l->nall; i++)
		err = close_all_but(l->all[i], 0);
	if (err)
		return err;
	for (i = 0; stopped && i < s->nthreads; i++)
		leave_open(s->thread[i]);
	s->cut = stopped || s->why;
	return NULL;
}
