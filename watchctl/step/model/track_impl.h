/* Parts of the tracker: track.c keeps calls, track_stack.c knows which stack of a thread they are on. */
#ifndef WATCHCTL_STEP_MODEL_TRACK_IMPL_H
#define WATCHCTL_STEP_MODEL_TRACK_IMPL_H

#include "watchctl/base/map64.h"
#include "watchctl/step/model/track.h"

#define NOT_LEFT 0 /* no enum return_how */

/* How often a return address is awaited. Lives as long as the tracker. */
struct await {
	size_t n;
};

struct open_call {
	struct track_call c;
	struct await *await;
	uint32_t nlandings;
	bool jumped; /* track_jumps() */
};

struct landing {
	uint64_t sp, address; /* of the setjmp */
	uint64_t owner;	      /* the call that it was called from */
	struct await *await;
};

struct stack {
	bool own;	    /* the thread's, whose bounds are known */
	struct stack *from; /* which the thread was on before; may be gone */
	struct open_call *v;
	size_t n, cap;
	struct landing *landing;
	size_t nlandings, landings_cap;
};

struct thread {
	pid_t tid;
	uint64_t start, end; /* of its own stack; 0: not known */
	struct stack **stack;
	size_t n, cap;
	struct stack **spare; /* empty ones */
	size_t nspare, spare_cap;
	struct stack *active; /* where its last event was; NULL: nothing is open there */
	bool exits;	      /* pthread_exit is unwinding it */
};

struct track {
	uint64_t ncalls;
	struct map64 thread_of; /* tid -> struct thread, NULL: ended */
	struct thread **thread;
	size_t n, cap;
	struct thread *last;
	struct map64 await_of; /* return address -> struct await */
	struct track_end *ended;
	size_t nended, ended_cap;
	pid_t *tid;
	size_t ntids, tids_cap;
	bool no_memory;
};

static inline const struct open_call *innermost(const struct stack *s)
{
	return s && s->n ? &s->v[s->n - 1] : NULL;
}

static inline uint64_t inner_sp(const struct stack *s)
{
	return s->v[s->n - 1].c.sp;
}

static inline uint64_t base_sp(const struct stack *s)
{
	return s->v[0].c.sp;
}

/* How a call has ended when @leaves was called inside it and it is gone. */
static inline enum return_how how_left(const struct thread *th, uint8_t leaves)
{
	switch (leaves) {
	case TRACK_JUMPS:
		return RETURN_LONGJMP;
	case TRACK_ENDS_THREAD:
		return RETURN_THREAD_EXIT;
	case TRACK_THROWS:
	case TRACK_FORCES:
		return RETURN_EXCEPTION;
	case TRACK_RESUMES:
	case TRACK_CATCHES:
		return th->exits ? RETURN_THREAD_EXIT : RETURN_EXCEPTION;
	default:
		return NOT_LEFT;
	}
}

void stack_free(struct stack *s);

/* The thread's own stack; NULL: none was needed yet. */
struct stack *own_stack(const struct thread *th);

static inline bool in_bounds(const struct thread *th, uint64_t sp)
{
	return sp >= th->start && sp < th->end;
}

/* The stack on which @e enters a function, calls that are over still on it; NULL: no memory. */
struct stack *stack_of_entry(struct thread *th, const struct track_entry *e);

/* The stack that @sp certainly lies on, of those with calls below it; NULL: none. */
struct stack *stack_certainly(const struct thread *th, uint64_t sp);

/* If nothing is open on @s, and it is not the thread's own, another may take its place. False: no memory. */
bool retire_if_empty(struct thread *th, struct stack *s);

#endif
