/*
 * open_calls - a thread's calls that have begun and not ended, from which follows what nothing reported: calls that a
 * longjmp or an exception has left, and whose exit is written with that of the call they jumped to.
 *
 * Frames are the low halves of the addresses at which return addresses lie. Less than 2 GB apart, their difference has
 * the right sign. The stack grows down: a call in whose place, or above whose place, another is entered is gone.
 */
#ifndef CALLTRACE_RUNTIME_OPEN_CALLS_H
#define CALLTRACE_RUNTIME_OPEN_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "calltrace/abi.h"
#include "calltrace/runtime/call_output.h"

#define OPEN_CALLS_MAX (1u << 20) /* deeper ones are discarded */

struct open_call {
	uint32_t function : 31;
	uint32_t is_replaced : 1; /* it has jumped to the call above it: the two end together */
	uint32_t frame;
};

/* Zero-initialise. */
struct open_calls {
	struct open_call *call; /* the innermost one last; [-1] is there, too, for plain_slots.h */
	uint32_t depth, cap;
	uint32_t beyond; /* calls above these that found no room */
	bool is_leaving; /* the innermost one jumps: with the next event it is replaced, or has ended at: */
	uint64_t left_ns;
};

struct call_fact {
	enum calltrace_kind kind;
	uint32_t function, frame;
	bool is_inlined; /* an entry: into the function whose frame it has */
	uint64_t time_ns;
};

/* Of a slot with this @what and @frame; its function and time are still to be known. */
static inline struct call_fact call_fact_of(uint32_t what, uint32_t frame)
{
	return (struct call_fact){ .kind = what & CALLTRACE_KIND_MASK & ~CALLTRACE_INLINED,
				   .frame = frame,
				   .is_inlined = what & CALLTRACE_INLINED };
}

/* @f is a value, for open_calls_value(). */
static inline bool call_fact_is_value(const struct call_fact *f)
{
	return f->kind == CALLTRACE_VALUE || f->kind == CALLTRACE_RESULT;
}

/* @f is a part of what a value points to, for open_memory_take(). */
static inline bool call_fact_is_memory(const struct call_fact *f)
{
	return f->kind == CALLTRACE_MEMORY || f->kind == CALLTRACE_BYTES;
}

/* Makes room for @n open calls in all. False: no memory, or more than OPEN_CALLS_MAX. */
bool open_calls_reserve(struct open_calls *s, uint32_t n);

/* Writes to @out what follows from @f. */
void open_calls_take(struct open_calls *s, const struct call_fact *f, struct call_output *out);

/* The innermost call, after all that came so far, is of @function. */
bool open_calls_is_innermost(struct open_calls *s, uint32_t function, struct call_output *out);

/* A value of the innermost call, which is of @function, or of none that is known: then it is left out. @kind:
 * CALLTRACE_VALUE or _RESULT; @number: of the parameter. */
void open_calls_value(struct open_calls *s, enum calltrace_kind kind, uint32_t function, uint32_t number,
		      uint64_t value, struct call_output *out);

/* Events are missing here: none is known to be open. */
void open_calls_forget(struct open_calls *s);

/*
 * The events in the packet of @out, which is not written yet, and others behind it are forgotten. Its file stays as nested
 * as it was: calls whose entry is in it end, those that are open now at @time_ns. None is known to be open then.
 */
void open_calls_clear(struct open_calls *s, uint64_t time_ns, struct call_output *out);

/* The thread has no more events. Other calls stay open. */
void open_calls_finish(struct open_calls *s, struct call_output *out);

void open_calls_deinit(struct open_calls *s);

#endif
