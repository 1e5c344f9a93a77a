#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/trace/call_values.h"
#include "watchctl/view/diff/diff_hash.h"
#include "watchctl/view/diff/diff_side_impl.h"

#define CUT_VALUES 0x5eedu /* in place of values whose bytes make no sense */
#define NOT_ENDED 0xdeadu

static struct diff_thread *place_of(struct loading_thread *t, const struct open_call *o)
{
	return o->in_signals ? t->signals : t->main;
}

/* The innermost open call that has a place in @in; NO_CALL: none. */
static uint32_t parent_in(const struct loading_thread *t, bool in_signals)
{
	size_t i;

	for (i = t->nopen; i-- > 0;)
		if (t->open[i].index != NO_CALL && t->open[i].in_signals == in_signals)
			return t->open[i].index;
	return NO_CALL;
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

/* The hashes of an ended subtree become part of the one around it. */
static void hand_on(struct diff_thread *d, const struct diff_call *c)
{
	struct diff_call *parent = c->parent == NO_CALL ? NULL : &d->call[c->parent];

	if (!parent) {
		d->strong = diff_mix(d->strong, c->item.exact);
		return;
	}
	parent->item.exact = diff_mix(parent->item.exact, c->item.exact);
	parent->item.shape = (uint32_t)fold32(diff_mix(parent->item.shape, c->item.shape));
	parent->weak = (uint32_t)fold32(diff_mix(parent->weak, c->weak));
}

/* @result: hash of how it ended. */
static void close_call(struct loading_thread *t, const struct open_call *o, uint64_t result, uint64_t weak)
{
	struct diff_thread *d = place_of(t, o);
	struct diff_call *c;

	t->closed[t->nclosed++ % CLOSED_CALLS] = (struct closed_call){ o->call, o->path, o->ordinal };
	if (o->begins_scope)
		t->inside = false;
	if (o->index == NO_CALL)
		return;
	c = &d->call[o->index];
	c->size = (uint32_t)d->n - o->index;
	c->result = (uint32_t)fold32(result);
	c->item.exact = diff_mix(c->item.exact, result);
	c->weak = (uint32_t)fold32(diff_mix(c->weak, weak));
	hand_on(d, c);
}

static void close_unfinished(struct loading_thread *t)
{
	const struct open_call *o = &t->open[--t->nopen];

	if (o->index != NO_CALL)
		place_of(t, o)->call[o->index].flags |= DIFF_UNFINISHED;
	close_call(t, o, NOT_ENDED, 0);
}

/* Calls whose end was not reported, but must have come: the next one's parent lies outside of them. */
static void close_down_to(struct loading_thread *t, uint64_t call)
{
	size_t i = t->nopen;

	while (call && i > 0 && t->open[i - 1].call != call)
		i--;
	if (call && !i)
		return; /* not one of those open: it is taken for a call of the innermost one */
	while (t->nopen > (call ? i : 0))
		close_unfinished(t);
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

static struct wc_error *diff_side_calls_append(struct diff_thread *d, const struct diff_call *c)
{
	if (d->n >= NO_CALL - 1)
		return wc_error_new(WC_ENOTSUP, "a thread of the log has more than %u calls", NO_CALL - 1);
	return vec_push(d->call, d->n, d->cap, *c) ? NULL : &wc_enomem;
}

static struct wc_error *open_call(struct loader *l, struct loading_thread *t, const struct call_event *e,
				  uint64_t at, uint64_t site, struct open_call *o)
{
	const struct diff_function *f = &l->s->function[o->function];
	struct diff_thread *d = place_of(t, o);
	struct diff_call c = {
		.at = at,
		.function = o->function,
		.parent = parent_in(t, o->in_signals),
		.item.key = (uint32_t)fold32(diff_mix(f->identity, site)),
	};

	if (!hash_params(l, t, d, f, e))
		return &wc_enomem;
	c.params = (uint32_t)fold32(l->tokens.strong);
	c.item.exact = diff_mix(diff_mix(diff_mix(f->identity, site), l->tokens.strong), 1);
	c.item.shape = c.item.key;
	c.weak = (uint32_t)fold32(l->tokens.weak);
	if (f->masked.optional || (f->canon & CANON_MEMORY))
		c.flags = DIFF_OPTIONAL;
	if (e->flags & CALL_SIGNAL)
		c.flags |= DIFF_TRIGGERED | (t->any_time ? DIFF_OPTIONAL : 0);
	if (c.parent == NO_CALL && t->nopen && !keep_outer(l->s, t, d))
		return &wc_enomem;
	o->index = (uint32_t)d->n;
	return diff_side_calls_append(d, &c);
}

struct wc_error *diff_load_call(struct loader *l, const struct call_event *e, uint64_t at)
{
	struct loading_thread *t = diff_loading_thread(l, e->pid, e->tid);
	uintptr_t index = (uintptr_t)map64_get(&l->s->function_ids, e->function);
	struct open_call o = { .call = e->call, .index = NO_CALL, .at = at, .sp = e->sp };
	const struct open_call *parent;
	struct diff_function *f;
	struct wc_error *err = NULL;
	uint64_t site;

	if (!t)
		return &wc_enomem;
	if (!index) /* never reported: a damaged log */
		return NULL;
	close_down_to(t, e->parent);
	parent = t->nopen ? &t->open[t->nopen - 1] : NULL;
	o.function = (uint32_t)index - 1;
	f = &l->s->function[o.function];
	f->calls++;
	l->s->calls++;
	site = e->nframes ? diff_space_site(&l->s->canon.space, e->frame[0]) : 0;
	o.path = parent ? parent->path : 0;
	if (!f->is_alone)
		o.path = diff_mix(diff_mix(o.path, f->identity), site);
	if (f->creates) {
		o.ordinal = (uint32_t)(uintptr_t)map64_get(&l->creating, o.path) + 1;
		if (!map64_put(&l->creating, o.path, (void *)(uintptr_t)o.ordinal))
			return &wc_enomem;
	}
	o.in_signals = (e->flags & CALL_SIGNAL) || (parent && parent->in_signals);
	o.left_out = (parent && parent->left_out) || f->masked.calls;
	if (!enters_scope(l, t, f, &o) || o.left_out)
		l->s->left_out++;
	else if (!f->is_alone)
		err = open_call(l, t, e, at, site, &o);
	if (err)
		return err;
	return vec_push(t->open, t->nopen, t->open_cap, o) ? NULL : &wc_enomem;
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

static bool hash_result(struct loader *l, const struct open_call *o, const struct return_event *e,
			uint64_t *ret)
{
	const struct diff_function *f = &l->s->function[o->function];
	struct call_values_reader r = { e->values, e->values + e->values_len };
	struct call_value v;

	begin_tokens(&l->tokens);
	*ret = e->how;
	if (f->masked.result || f->no_values)
		return true;
	*ret = diff_mix(*ret, e->has_error ? 1 + (uint64_t)(uint32_t)e->error : 0);
	if (!f->result_type || !e->values_len || !call_values_next(&r, &f->result_type->e, &v))
		return true;
	if (!l->s->canon.no_heap && f->allocates && !keep_allocation(l, o, &v))
		return false;
	diff_canon_put(&l->s->canon, f->result_type, &v, f->canon, true, &l->tokens);
	*ret = diff_mix(*ret, l->tokens.strong);
	return true;
}

struct wc_error *diff_load_return(struct loader *l, const struct return_event *e, uint64_t at)
{
	struct loading_thread *t = diff_loading_thread(l, e->pid, e->tid);
	const struct open_call *o;
	uint64_t result = 0;
	size_t i;

	if (!t)
		return &wc_enomem;
	for (i = t->nopen; i > 0 && t->open[i - 1].call != e->call; i--)
		;
	if (!i)
		return NULL;
	while (t->nopen > i)
		close_unfinished(t);
	o = &t->open[--t->nopen];
	if (o->index != NO_CALL) {
		struct diff_call *c = &place_of(t, o)->call[o->index];

		c->back = at;
		c->how = (uint16_t)e->how;
		if (!hash_result(l, o, e, &result))
			return &wc_enomem;
	}
	close_call(t, o, result, l->tokens.weak);
	return NULL;
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
	struct diff_call c = { .at = at, .size = 1 };
	struct wc_error *err;

	if (!t)
		return &wc_enomem;
	t->any_time = comes_any_time(e->signal);
	if (!t->inside)
		return NULL;
	err = signal_function(l, e->signal, &c.function);
	if (err || l->s->function[c.function].masked.calls)
		return err;
	c.flags =
		DIFF_SIGNAL | (t->any_time || l->s->function[c.function].masked.optional ? DIFF_OPTIONAL : 0);
	c.parent = parent_in(t, true);
	c.item.exact = l->s->function[c.function].identity;
	c.item.key = c.item.shape = (uint32_t)fold32(c.item.exact);
	if (c.parent == NO_CALL && t->nopen && !keep_outer(l->s, t, t->signals))
		return &wc_enomem;
	hand_on(t->signals, &c);
	return diff_side_calls_append(t->signals, &c);
}

/* Calls that were open when somebody stopped the recording: how they would have ended is not known. */
static void leave_open(struct diff_thread *t)
{
	size_t i;

	for (i = 0; i < t->n; i++)
		if (t->call[i].how == RETURN_NEVER)
			t->call[i].flags |= DIFF_UNFINISHED;
}

void diff_load_finish(struct loader *l)
{
	struct diff_side *s = l->s;
	bool stopped = diff_side_is_stopped(s) || s->why_calls;
	size_t i;

	for (i = 0; i < l->nall; i++)
		while (l->all[i]->nopen)
			close_unfinished(l->all[i]);
	for (i = 0; stopped && i < s->nthreads; i++)
		leave_open(s->thread[i]);
	s->cut = stopped || s->why;
}
