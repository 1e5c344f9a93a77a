/*
 * Each stack of a thread is an array of open calls, outermost first, so their stack pointers go down;
 * equal ones are tail calls. What is usual costs a comparison or two: an entry below the innermost call
 * is pushed, a return address reached just above it is popped. Everything else is rare: longjmp,
 * exceptions, other stacks.
 *
 * What an event at stack pointer S shows:
 *
 *	entry	calls of the same stack with a stack pointer below S are gone: it is only S high. One
 *		at S with another return address is gone as well; with the same, it tail-called this.
 *	reached	those below S are gone, but that with its return address at S - 8 has returned.
 *
 * A setjmp that has returned leaves a landing with its caller: its return address reached again with the
 * same stack pointer is a longjmp that has arrived. Without it, a function that is left by longjmp to its
 * caller could not be known from one that returns: code after the call is often where both go on.
 */
#include "watchctl/base/bisect.h"
#include "watchctl/step/model/track_impl.h"

#include <stdlib.h>

#include "watchctl/base/error.h"
#include "watchctl/base/vec.h"

#define LANDINGS_MAX 64u /* of a call */

struct track *track_new(void)
{
	return calloc(1, sizeof(struct track));
}

static void thread_free(struct thread *th)
{
	for (size_t i = 0; i < th->n; i++)
		stack_free(th->stack[i]);
	for (size_t i = 0; i < th->nspare; i++)
		stack_free(th->spare[i]);
	free(th->stack);
	free(th->spare);
	free(th);
}

void track_free(struct track *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n; i++)
		thread_free(t->thread[i]);
	for (size_t i = 0; i < t->await_of.cap; i++)
		free(t->await_of.slot[i].value);
	map64_deinit(&t->thread_of);
	map64_deinit(&t->await_of);
	free(t->thread);
	free(t->ended);
	free(t->tid);
	free(t);
}

static struct thread *find_thread(const struct track *t, pid_t tid)
{
	if (t->last && t->last->tid == tid)
		return t->last;
	return map64_get(&t->thread_of, (uint64_t)tid);
}

static struct thread *get_thread(struct track *t, pid_t tid)
{
	struct thread *th = find_thread(t, tid);

	if (!th) {
		th = calloc(1, sizeof(*th));
		if (!th)
			return NULL;
		th->tid = tid;
		if (!vec_push(t->thread, t->n, t->cap, th)) {
			free(th);
			return NULL;
		}
		if (!map64_put(&t->thread_of, (uint64_t)tid, th)) {
			t->n--;
			free(th);
			return NULL;
		}
	}
	t->last = th;
	return th;
}

static struct await *get_await(struct track *t, uint64_t address)
{
	struct await *a = map64_get(&t->await_of, address);

	if (a)
		return a;
	a = calloc(1, sizeof(*a));
	if (a && !map64_put(&t->await_of, address, a)) {
		free(a);
		return NULL;
	}
	return a;
}

bool track_awaits(const struct track *t, uint64_t address)
{
	const struct await *a = map64_get(&t->await_of, address);

	return a && a->n;
}

static void begin_event(struct track *t)
{
	t->nended = 0;
	t->ntids = 0;
	t->no_memory = false;
}

static struct wc_error *end_event(struct track *t, const struct track_end **ended, size_t *n)
{
	*ended = t->ended;
	*n = t->nended;
	return t->no_memory ? &wc_enomem : NULL;
}

/* Of a call that has jumped to a function which is not seen: whether that has returned before all else happened is not known. */
static enum return_how how_jumped(enum return_how how)
{
	return how == RETURN_UNKNOWN ? RETURN_RETURNED : how == RETURN_RETURNED ? how : RETURN_UNKNOWN;
}

/* The innermost call of @s has ended. */
static void pop(struct track *t, struct stack *s, enum return_how how)
{
	const struct open_call *o = &s->v[--s->n];

	o->await->n--;
	if (o->jumped)
		how = how_jumped(how);
	for (uint32_t i = 0; i < o->nlandings; i++)
		s->landing[--s->nlandings].await->n--;
	if (!vec_push(t->ended, t->nended, t->ended_cap, (struct track_end){ .call = o->c, .how = how }))
		t->no_memory = true;
}

static void pop_below(struct track *t, struct stack *s, uint64_t sp, enum return_how how)
{
	while (s->n && inner_sp(s) < sp)
		pop(t, s, how);
}

/* What has made the calls of @s below @sp vanish: one of themselves, or one on the stack that @th comes from.
 */
static enum return_how why_gone(struct thread *th, const struct stack *s, uint64_t sp)
{
	const struct open_call *from = innermost(th->active);
	enum return_how how = NOT_LEFT;

	for (size_t i = s->n; i-- && s->v[i].c.sp < sp && !how;)
		how = how_left(th, s->v[i].c.leaves);
	if (!how && from && th->active != s)
		how = how_left(th, from->c.leaves);
	if (how == RETURN_THREAD_EXIT)
		th->exits = true;
	return how;
}

/*
 * @th goes from its active stack to @s. If it has jumped, the jump is over; and so is a signal handler on a
 * stack of its own that it has jumped out of. Calls on a coroutine's stack stay open: it may come back.
 */
static void change_stack(struct track *t, struct thread *th, struct stack *s)
{
	struct stack *from = th->active;
	enum return_how how;

	/* A signal handler that has ended by a jump. */
	while (from && from != s && from->n && !from->own && from->v[0].c.flags & CALL_SIGNAL &&
	       innermost(from)->jumped)
		pop(t, from, RETURN_UNKNOWN);
	if (from && from != s && !from->n) {
		t->no_memory |= !retire_if_empty(th, from);
	} else if (from && from != s) {
		uint8_t leaves = innermost(from)->c.leaves;

		how = how_left(th, leaves);
		if (how && base_sp(from) && from->v[0].c.flags & CALL_SIGNAL && !from->own)
			pop_below(t, from, UINT64_MAX, how);
		else if (leaves == TRACK_JUMPS)
			pop(t, from, how);
		t->no_memory |= !retire_if_empty(th, from);
	}
	th->active = s;
}

/*
 * The innermost call of @s has the stack pointer and return address of @e. Has it tail-called this one, or is
 * it gone, and was called again at the same place? Functions that longjmp or an exception comes back to make
 * no tail calls (compilers see to that where setjmp is called; a handler's end is called in a catch).
 */
static bool is_tail_call(const struct stack *s, const struct track_entry *e, bool some_gone,
			 enum return_how why)
{
	const struct track_call *c = &innermost(s)->c;

	return c->return_address == e->return_address && !(e->flags & CALL_SIGNAL) && !why &&
	       !(some_gone && c->point == e->point);
}

static void end_what_is_over(struct track *t, struct thread *th, struct stack *s, const struct track_entry *e)
{
	bool some_gone = s->n && inner_sp(s) < e->sp;
	enum return_how why, reported;

	if (!s->n || inner_sp(s) > e->sp)
		return;
	why = why_gone(th, s, e->sp);
	reported = how_left(th, e->leaves);
	if (e->leaves == TRACK_CATCHES || e->leaves == TRACK_RESUMES)
		why = reported;
	pop_below(t, s, e->sp, why ? why : RETURN_UNKNOWN);
	if (s->n && inner_sp(s) == e->sp && !is_tail_call(s, e, some_gone, why))
		pop_below(t, s, e->sp + 1, why ? why : RETURN_UNKNOWN);
}

static const struct track_call *parent_of(const struct thread *th, const struct stack *s,
					  const struct stack *before)
{
	const struct open_call *o = innermost(s);

	if (!o && before != s)
		for (size_t i = 0; i < th->n; i++)
			if (th->stack[i] == before)
				o = innermost(before);
	return o ? &o->c : NULL;
}

struct wc_error *track_enter(struct track *t, const struct track_entry *e, struct track_call *ret,
			     const struct track_end **ended, size_t *n)
{
	struct thread *th = get_thread(t, e->tid);
	struct await *await = get_await(t, e->return_address);
	const struct track_call *parent;
	struct stack *s, *before;
	struct open_call new = { .await = await };

	begin_event(t);
	if (!th || !await)
		return &wc_enomem;
	before = th->active;
	s = stack_of_entry(th, e);
	if (!s)
		return &wc_enomem;
	end_what_is_over(t, th, s, e);
	if (before != s)
		change_stack(t, th, s);
	parent = parent_of(th, s, before);
	new.c = (struct track_call){ .call = ++t->ncalls,
				     .point = e->point,
				     .flags = e->flags,
				     .over = e->over,
				     .leaves = e->leaves,
				     .sp = e->sp,
				     .return_address = e->return_address };
	if (parent) {
		new.c.parent = parent->call;
		new.c.parent_point = parent->point;
		new.c.depth = parent->depth + 1;
		if (s->n && parent->sp == e->sp)
			new.c.flags |= CALL_TAIL;
		if (parent->over && !(e->flags & CALL_SIGNAL))
			new.c.flags |= CALL_CALLBACK;
	}
	if (!vec_push(s->v, s->n, s->cap, new))
		return &wc_enomem;
	await->n++;
	*ret = new.c;
	return end_event(t, ended, n);
}

void track_jumps(struct track *t, pid_t tid, uint64_t address, uint64_t sp)
{
	const struct thread *th = find_thread(t, tid);
	struct stack *s = th ? th->active : NULL;

	if (s && s->n && inner_sp(s) == sp && innermost(s)->c.return_address == address)
		s->v[s->n - 1].jumped = true;
}

/* The calls of @s whose return address lies at @sp - 8: the index of the outermost of them; s->n: there is
 * none. */
static size_t find_returning(const struct stack *s, uint64_t address, uint64_t sp)
{
	size_t low = BISECT(s->n, i, s->v[i].c.sp + 8 > sp);
	if (low < s->n && s->v[low].c.sp + 8 == sp && s->v[low].c.return_address == address)
		return low;
	return s->n;
}

static struct stack *stack_returning(const struct thread *th, uint64_t address, uint64_t sp, size_t *first)
{
	struct stack *s = th->active;

	if (s) {
		*first = find_returning(s, address, sp);
		if (*first < s->n)
			return s;
	}
	for (size_t i = 0; i < th->n; i++) {
		s = th->stack[i];
		*first = find_returning(s, address, sp);
		if (*first < s->n)
			return s;
	}
	return NULL;
}

/* A setjmp has returned: its caller may be landed in. */
static void add_landing(struct track *t, struct stack *s, const struct track_call *set)
{
	struct open_call *owner = s->n ? &s->v[s->n - 1] : NULL;
	struct await *await;

	if (!owner || owner->nlandings >= LANDINGS_MAX)
		return;
	for (uint32_t i = 0; i < owner->nlandings; i++) {
		const struct landing *l = &s->landing[s->nlandings - 1 - i];

		if (l->sp == set->sp && l->address == set->return_address)
			return;
	}
	await = get_await(t, set->return_address);
	if (!await || !vec_push(s->landing, s->nlandings, s->landings_cap,
				(struct landing){ set->sp, set->return_address, owner->c.call, await })) {
		t->no_memory = true;
		return;
	}
	await->n++;
	owner->nlandings++;
}

/* @certain: it was seen to return, and not only that its return address was reached. */
static void returned(struct track *t, struct thread *th, struct stack *s, size_t first, uint64_t sp,
		     bool certain)
{
	enum return_how why = why_gone(th, s, sp - 8),
			how = why && !certain ? RETURN_UNKNOWN : RETURN_RETURNED;
	struct track_call inner;

	pop_below(t, s, sp - 8, why ? why : RETURN_UNKNOWN);
	change_stack(t, th, s);
	inner = innermost(s)->c;
	while (s->n > first)
		pop(t, s, how);
	if (inner.leaves == TRACK_SETS_JUMP && how == RETURN_RETURNED)
		add_landing(t, s, &inner);
	t->no_memory |= !retire_if_empty(th, s);
}

/* A longjmp has arrived on @s in the call @owner. Whatever was open inside is over. */
static void landed(struct track *t, struct thread *th, struct stack *s, uint64_t owner)
{
	while (innermost(s)->c.call != owner)
		pop(t, s, RETURN_LONGJMP);
	change_stack(t, th, s);
}

static struct stack *stack_landed(const struct thread *th, uint64_t address, uint64_t sp, uint64_t *owner)
{
	for (size_t i = 0; i < th->n; i++) {
		struct stack *s = th->stack[i];

		for (size_t k = s->nlandings; k--;)
			if (s->landing[k].sp + 8 == sp && s->landing[k].address == address) {
				*owner = s->landing[k].owner;
				return s;
			}
	}
	return NULL;
}

static void passed(struct track *t, struct thread *th, uint64_t sp)
{
	struct stack *s = stack_certainly(th, sp);
	enum return_how why;

	if (!s)
		return;
	why = why_gone(th, s, sp);
	pop_below(t, s, sp, why ? why : RETURN_UNKNOWN);
	change_stack(t, th, s);
	t->no_memory |= !retire_if_empty(th, s);
}

static struct wc_error *reached(struct track *t, pid_t tid, uint64_t address, uint64_t sp, bool certain,
				const struct track_end **ended, size_t *n)
{
	struct thread *th = find_thread(t, tid);
	uint64_t owner = 0;
	struct stack *s;
	size_t first;

	begin_event(t);
	if (!th)
		return end_event(t, ended, n);
	s = stack_returning(th, address, sp, &first);
	if (s) {
		returned(t, th, s, first, sp, certain);
		return end_event(t, ended, n);
	}
	s = stack_landed(th, address, sp, &owner);
	if (s)
		landed(t, th, s, owner);
	else
		passed(t, th, sp);
	return end_event(t, ended, n);
}

struct wc_error *track_reached(struct track *t, pid_t tid, uint64_t address, uint64_t sp,
			       const struct track_end **ended, size_t *n)
{
	return reached(t, tid, address, sp, false, ended, n);
}

struct wc_error *track_returns(struct track *t, pid_t tid, uint64_t address, uint64_t sp,
			       const struct track_end **ended, size_t *n)
{
	return reached(t, tid, address, sp + 8, true, ended, n);
}

bool track_set_stack(struct track *t, pid_t tid, uint64_t start, uint64_t end)
{
	struct thread *th = get_thread(t, tid);
	struct stack *s;

	if (!th)
		return false;
	th->start = start;
	th->end = end;
	if (own_stack(th))
		return true;
	for (size_t i = 0; i < th->n; i++) {
		s = th->stack[i];
		if (s->n && in_bounds(th, base_sp(s))) {
			s->own = true;
			break;
		}
	}
	return true;
}

const struct track_call *track_innermost(const struct track *t, pid_t tid)
{
	const struct thread *th = find_thread(t, tid);
	const struct open_call *o = th ? innermost(th->active) : NULL;

	return o ? &o->c : NULL;
}

static bool has_open(const struct thread *th, enum track_leaves leaves)
{
	for (size_t i = 0; i < th->n; i++)
		for (size_t k = th->stack[i]->n; k--;)
			if (th->stack[i]->v[k].c.leaves == leaves)
				return true;
	return false;
}

static bool ends_itself(const struct thread *th)
{
	return th->exits || has_open(th, TRACK_ENDS_THREAD);
}

bool track_is_ending(const struct track *t, pid_t tid)
{
	const struct thread *th = find_thread(t, tid);

	return th && (ends_itself(th) || has_open(th, TRACK_FORCES));
}

/* Of the stack that the thread is on first. */
static void end_thread(struct track *t, struct thread *th, enum return_how how)
{
	if (how == RETURN_CANCELLED && ends_itself(th))
		how = RETURN_THREAD_EXIT;
	if (th->active)
		pop_below(t, th->active, UINT64_MAX, how);
	for (size_t i = th->n; i--;)
		pop_below(t, th->stack[i], UINT64_MAX, how);
}

struct wc_error *track_thread_end(struct track *t, pid_t tid, enum return_how how,
				  const struct track_end **ended, size_t *n)
{
	struct thread *th = find_thread(t, tid);

	begin_event(t);
	if (!th)
		return end_event(t, ended, n);
	end_thread(t, th, how);
	if (!map64_put(&t->thread_of, (uint64_t)tid, NULL))
		return &wc_enomem;
	for (size_t i = 0; i < t->n; i++)
		if (t->thread[i] == th)
			t->thread[i] = t->thread[--t->n];
	t->last = NULL;
	thread_free(th);
	return end_event(t, ended, n);
}

struct wc_error *track_end_all(struct track *t, enum return_how how, const struct track_end **ended,
			       const pid_t **tids, size_t *n)
{
	begin_event(t);
	for (size_t i = 0; i < t->n; i++) {
		struct thread *th = t->thread[i];

		end_thread(t, th, how);
		while (th->n) {
			struct stack *s = th->stack[--th->n];

			if (!vec_push(th->spare, th->nspare, th->spare_cap, s)) {
				stack_free(s);
				t->no_memory = true;
			}
		}
		th->active = NULL;
		while (t->ntids < t->nended)
			if (!vec_push(t->tid, t->ntids, t->tids_cap, th->tid))
				return &wc_enomem;
	}
	*tids = t->tid;
	return end_event(t, ended, n);
}
