/*
 * Which stack S is on: the thread's own, if S is in its bounds. Else the one whose outermost call lies
 * next above S: where it has calls below S, S is in the middle of it. Below its innermost call may also
 * begin another stack: that is taken for granted after swapcontext, and where the thread was not on this
 * one, if there is a gap.
 */
#include "watchctl/step/model/track_impl.h"

#include <stdlib.h>

#include "watchctl/base/vec.h"

#define CLOSE_BELOW 4096u	/* a stack has at least that much below where it is in use */
#define CLOSE_ABOVE (64u << 10) /* a frame that longjmp goes back to is not farther out */
#define GROWS_BY (1u << 20)	/* the main thread's stack grows below its mapping, by that at once */

void stack_free(struct stack *s)
{
	free(s->v);
	free(s->landing);
	free(s);
}

/* @s has no calls any more, and is not the thread's own: another may take its place. */
static bool retire(struct thread *th, struct stack *s)
{
	bool from_is_there = false;
	size_t i = 0;

	while (th->stack[i] != s)
		i++;
	th->stack[i] = th->stack[--th->n];
	for (i = 0; i < th->n; i++)
		from_is_there |= th->stack[i] == s->from;
	if (th->active == s)
		th->active = from_is_there ? s->from : th->n ? th->stack[th->n - 1] : NULL;
	if (vec_push(th->spare, th->nspare, th->spare_cap, s))
		return true;
	stack_free(s);
	return false;
}

bool retire_if_empty(struct thread *th, struct stack *s)
{
	return s->n || s->own || retire(th, s);
}

static struct stack *new_stack(struct thread *th, bool own)
{
	struct stack *s;

	if (!vec_reserve((void **)&th->stack, &th->cap, th->n + 1, sizeof(*th->stack)))
		return NULL;
	if (th->nspare) {
		s = th->spare[--th->nspare];
	} else {
		s = calloc(1, sizeof(*s));
		if (!s)
			return NULL;
	}
	s->own = own;
	s->from = th->active;
	th->stack[th->n++] = s;
	return s;
}

struct stack *own_stack(const struct thread *th)
{
	for (size_t i = 0; i < th->n; i++)
		if (th->stack[i]->own)
			return th->stack[i];
	return NULL;
}

/* The other stack with calls whose outermost lies next at or above @sp. */
static struct stack *next_above(const struct thread *th, uint64_t sp)
{
	struct stack *best = NULL;

	for (size_t i = 0; i < th->n; i++) {
		struct stack *s = th->stack[i];

		if (s->own || !s->n || base_sp(s) < sp || base_sp(s) - sp >= TRACK_STACK_SPAN)
			continue;
		if (!best || base_sp(s) < base_sp(best))
			best = s;
	}
	return best;
}

static bool goes_elsewhere(const struct stack *s)
{
	const struct open_call *o = innermost(s);

	return o && o->c.leaves == TRACK_SWITCHES;
}

/* A stack inside the thread's own one, as an array of one of its frames is, and the thread is on it. */
static bool is_on_inner(const struct thread *th, uint64_t sp)
{
	const struct stack *s = th->active;

	if (!s || !s->n || s->own || !in_bounds(th, base_sp(s)) || sp > base_sp(s))
		return false;
	return sp >= inner_sp(s) || (!how_left(th, innermost(s)->c.leaves) && !goes_elsewhere(s));
}

/* The own stack has grown below the bounds that were reported: the kernel extends that of the first thread. */
static bool has_grown(struct thread *th, uint64_t sp)
{
	const struct stack *s = th->active;

	if (!s || !s->own || !s->n || sp >= th->start || inner_sp(s) - sp > GROWS_BY || goes_elsewhere(s))
		return false;
	th->start = sp;
	return true;
}

/* Where a call is entered at @e->sp, on another stack than the thread's own. NULL: on none that has calls. */
static struct stack *other_stack(const struct thread *th, const struct track_entry *e)
{
	struct stack *s = next_above(th, e->sp), *active = th->active;
	enum return_how left;

	if (s) {
		if (e->sp >= inner_sp(s))
			return e->flags & CALL_SIGNAL ? NULL : s;
		if (s == active)
			return goes_elsewhere(s) ? NULL : s;
		return inner_sp(s) - e->sp < CLOSE_BELOW ? s : NULL;
	}
	if (!active || !active->n || active->own || e->flags & CALL_SIGNAL ||
	    e->sp - base_sp(active) >= TRACK_STACK_SPAN)
		return NULL;
	/* Unwound beyond its outermost call. longjmp goes to other stacks, too. */
	left = how_left(th, e->leaves);
	if (!left || left == RETURN_LONGJMP)
		left = how_left(th, innermost(active)->c.leaves);
	if (!left || (left == RETURN_LONGJMP && e->sp - base_sp(active) >= CLOSE_ABOVE))
		return NULL;
	return active;
}

struct stack *stack_of_entry(struct thread *th, const struct track_entry *e)
{
	struct stack *s = th->active;

	if (s && s->n && !s->own && e->sp < inner_sp(s) && inner_sp(s) - e->sp < CLOSE_BELOW &&
	    !goes_elsewhere(s))
		return s;
	if (in_bounds(th, e->sp) || has_grown(th, e->sp)) {
		if (s && s->own && s->n && e->sp < inner_sp(s))
			return s;
		if (is_on_inner(th, e->sp))
			return th->active;
		/* What is switched to may be an array of a frame. */
		if (s && s->own && goes_elsewhere(s))
			return new_stack(th, false);
		s = own_stack(th);
		if (!s)
			return new_stack(th, true);
		/* The kernel puts a handler below what it interrupts, but for one on a stack of its own. */
		return e->flags & CALL_SIGNAL && s->n && e->sp >= inner_sp(s) ? new_stack(th, false) : s;
	}
	s = other_stack(th, e);
	return s ? s : new_stack(th, false);
}

struct stack *stack_certainly(const struct thread *th, uint64_t sp)
{
	struct stack *s = next_above(th, sp);

	if (s && inner_sp(s) < sp)
		return s;
	s = in_bounds(th, sp) ? own_stack(th) : NULL;
	if (!s || !s->n || inner_sp(s) >= sp)
		return NULL;
	for (size_t i = 0; i < th->n; i++)
		if (!th->stack[i]->own && th->stack[i]->n && in_bounds(th, base_sp(th->stack[i])))
			return NULL;
	return s;
}
