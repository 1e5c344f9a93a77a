/*
 * diff_side - the calls of one step log in memory, with only the data needed for the comparison: everything else
 * is read from the log again when it is shown.
 *
 * The calls of each thread are ordered by their beginnings, so that the calls made by a call directly follow it:
 * the number of calls in each subtree defines the tree.
 */
#ifndef WATCHCTL_VIEW_DIFF_DIFF_SIDE_H
#define WATCHCTL_VIEW_DIFF_DIFF_SIDE_H

#include <assert.h>

#include "watchctl/base/id_map.h"
#include "watchctl/trace/calls/call_merge.h"
#include "watchctl/trace/log/tracelog.h"
#include "watchctl/trace/redact.h"
#include "watchctl/view/diff/base/diff_align.h"
#include "watchctl/view/diff/diff_canon.h"
#include "watchctl/view/diff/base/diff_hash.h"
#include "watchctl/view/diff/inputs/diff_inputs.h"
#include "watchctl/view/diff/diff_masks.h"

#define NO_CALL UINT32_MAX

#define DIFF_UNFINISHED 1u /* the log ends, or lost events, before its end was reported */
#define DIFF_OPTIONAL 2u   /* a handler of a signal that comes at any time */
#define DIFF_SIGNAL 4u	   /* no call: a signal arrived */
#define DIFF_TRIGGERED 8u  /* by a signal */

#define DIFF_COMPACT (1ull << 47) /* of a position: not in the log's events, but of call_merge_position() */

#define DIFF_POSITION ((1ull << 48) - 1) /* what is kept of one */

#define DIFF_NEVER_BACK 0u
#define DIFF_FAR_BACK UINT32_MAX

/* There are millions of them: what only calls that made calls have is in struct diff_inner. */
struct diff_call {
	uint64_t at : 48, flags : 8, how : 8; /* position in the log; enum return_how */
	uint32_t
		back; /* of its return: bytes behind @at; or DIFF_NEVER_BACK, or DIFF_FAR_BACK: see diff_back() */
	uint32_t kind;	 /* index into kinds of its side */
	uint32_t weak;	 /* of the subtree: weak values */
	uint32_t params; /* strong values of the parameters */
	uint32_t result; /* ... of the result, and how it ended */
	uint32_t inner;	 /* index into inner calls of its thread + 1; 0: it has made no calls */
};

static_assert(sizeof(struct diff_call) == 32, "two of them fit into a line of the cache");

/* A call that has made others. */
struct diff_inner {
	uint64_t exact;
	uint32_t shape;
	uint32_t size;	 /* calls in the subtree, itself included */
	uint32_t parent; /* index; NO_CALL */
};

/* A function, and where it is called from. */
struct diff_kind {
	uint64_t hash;	   /* the same in both logs */
	uint32_t key;	   /* of that */
	uint32_t function; /* index into functions of its side */
};

struct diff_function {
	struct trace_event *event;
	char *made_name;
	struct function_event e; /* of @event; name is never NULL: "prog+0x1234" where it is not known */
	uint64_t identity;	 /* the same in both logs */
	const struct diff_type **param; /* e.nparams of them; NULL: not reported */
	uint8_t *length; /* of each string the parameter + 1 that shows how long it is at most; 0: none */
	const struct diff_type *result_type;
	unsigned int canon; /* CANON_ */
	bool named, is_input, allocates, creates;
	struct diff_masked masked;
	bool is_from, is_to;
	bool is_alone;	/* the other log records other functions of its module, and not this one */
	bool no_values; /* the other log has none of this function, or this one has none */
	uint64_t calls;
};

/* A call that roots were made from but is not compared: its position, and the one around it. */
struct diff_outer {
	uint64_t at;
	uint32_t around; /* index in the side's outer + 1; 0: none */
	uint32_t function;
};

struct diff_root {
	uint32_t index; /* of the root's call */
	uint32_t outer; /* index in the side's outer */
};

/* What a parameter of a call points to has bytes that may never have been written. */
struct diff_unset_value {
	uint32_t call;
	uint8_t param;
	uint16_t len; /* bytes, each of which has a bit */
	size_t at;    /* of the first ones in the thread's bits */
};

#define DIFF_UNSET_MAX (CALL_POINTEE_MAX + 1u) /* a string's NUL byte counts */

struct diff_thread {
	int32_t pid, tid;
	char *comm;
	uint64_t key;	  /* how it was created */
	uint64_t group;	  /* the same without its number among those created at one place */
	uint32_t number;  /* that number */
	bool of_signals;  /* no thread: signals, and what their handlers do, of the thread @tid */
	uint64_t blocked; /* position of its stood event; 0: none */
	const struct diff_side *side;
	struct diff_call *call;
	size_t n, cap;
	struct diff_inner *inner; /* in the order of their ends */
	size_t ninner, inner_cap;
	struct map64 far;	/* index of a call -> position of its return, of those with DIFF_FAR_BACK */
	struct diff_root *root; /* those that were made from a call that is not compared, in order */
	size_t nroots, roots_cap;
	uint64_t strong;		/* of all */
	struct diff_unset_value *unset; /* by call and parameter */
	size_t nunset, unset_cap;
	uint8_t *bits;
	size_t nbits, bits_cap;
};

struct progress;
struct diff_told;

/* What is to be compared. */
struct diff_scope {
	const char *from, *to;	       /* functions; NULL: all */
	bool by_name;		       /* the files differ: go by names */
	bool weak;		       /* weak values count as strong ones; allocations are distinguished */
	struct diff_masks *masks;      /* hits are counted */
	struct redact_rules redact;    /* whose values are not to be shown */
	struct progress *progress;     /* of reading; NULL: nobody looks */
	unsigned int changes;	       /* RECORDING_CHANGED_: what both logs have */
	const char *program;	       /* as of diff_module_name() */
	const struct diff_told *other; /* of two logs with compact calls, the other one's; else NULL */
};

struct diff_side {
	char *path;
	struct redact_rules redact;
	struct tracelog_reader *log; /* at its end: to read events again */
	struct call_merge *compact;  /* likewise; NULL: no calls are in files of their own */
	struct diff_canon canon;
	struct diff_function *function;
	size_t nfunctions, functions_cap;
	struct diff_kind *kind;
	size_t nkinds, kinds_cap;
	struct id_map function_ids;  /* id -> index + 1 */
	struct diff_thread **thread; /* each is followed by its signals */
	size_t nthreads, threads_cap;
	struct diff_outer *outer;
	size_t nouter, outer_cap;
	struct symbolizer *names;
	/* What the log reports about itself. Texts may be NULL. */
	char *program; /* as of diff_module_name() */
	char *cmdline, *exe, *range, *filters, *stepper, *planner;
	int32_t pid;
	uint64_t first_ns, last_ns;
	uint64_t calls, events, accesses, captures, summaries, lost;
	uint64_t left_out; /* calls outside of the scope, or masked */
	bool has_recording;
	unsigned int changes, own_changes; /* RECORDING_CHANGED_: what both logs have, and what it has */
	struct diff_inputs inputs;
	uint32_t occurrences;
	enum range_what end; /* how the last occurrence ended; 0: not reported */
	struct log_damage damage;
	const char *why;       /* it is not whole; NULL: it is */
	const char *why_calls; /* of calls in files of their own: the same */
	bool is_rest;	       /* likewise: they begin in the middle of the run */
	const char *why_names; /* some that were added cannot be read; NULL */
	bool cut; /* the log ends before the program had ended its range, and not because it hangs */
};

/* It is a log of calls; else of accesses and captures. */
static inline bool diff_side_is_steps(const struct diff_side *s)
{
	return s->has_recording || s->calls;
}

/* The recording ended before its range did: at a limit, or because the user stopped it. */
static inline bool diff_side_is_stopped(const struct diff_side *s)
{
	return s->end == RANGE_LIMIT || s->end == RANGE_STOPPED;
}

/* How many functions it has called that the other log does not record. */
uint64_t diff_side_alone(const struct diff_side *s);

/* Reads the log. What it cannot read at its end is reported in @ret. WC_ELOG: there is no log at @path. */
struct wc_error *diff_side_load(const char *path, const struct diff_scope *scope, struct diff_side **ret);

static inline const struct diff_kind *diff_kind_of(const struct diff_thread *t, uint32_t i)
{
	return &t->side->kind[t->call[i].kind];
}

static inline const struct diff_function *diff_function_of(const struct diff_thread *t, uint32_t i)
{
	return &t->side->function[diff_kind_of(t, i)->function];
}

/* NULL: it has made no calls. */
static inline const struct diff_inner *diff_inner_of(const struct diff_thread *t, uint32_t i)
{
	return t->call[i].inner ? &t->inner[t->call[i].inner - 1] : NULL;
}

/* How many calls are in its subtree, itself included. */
static inline uint32_t diff_size(const struct diff_thread *t, uint32_t i)
{
	const struct diff_inner *inner = diff_inner_of(t, i);

	return inner ? inner->size : 1;
}

/* The index of the call behind @i's subtree. */
static inline uint32_t diff_next(const struct diff_thread *t, uint32_t i)
{
	return i + diff_size(t, i);
}

static inline uint64_t diff_exact_leaf(const struct diff_kind *kind, uint32_t params, uint32_t result)
{
	return diff_mix(kind->hash, (uint64_t)result << 32 | params);
}

/* The same of both: all in the subtree is, functions, where they are called from, and strong values. */
static inline uint64_t diff_exact(const struct diff_thread *t, uint32_t i)
{
	const struct diff_inner *inner = diff_inner_of(t, i);
	const struct diff_call *c = &t->call[i];

	return inner ? inner->exact : diff_exact_leaf(diff_kind_of(t, i), c->params, c->result);
}

/* The same without values; key: function and place of the call alone. */
struct diff_item diff_item_of(const struct diff_thread *t, uint32_t i);

/* The position of its return; 0: there is none. */
uint64_t diff_back(const struct diff_thread *t, uint32_t i);

/* The call that has made it; NO_CALL: none that is compared. */
uint32_t diff_parent(const struct diff_thread *t, uint32_t i);

/* The values of @e's parameters, of which @f has at most FUNCTION_PARAMS_MAX; fewer, if the rest makes no
 * sense. */
uint32_t diff_side_values(const struct diff_function *f, const uint8_t *values, uint32_t len,
			  struct call_value *ret);

/* Sets the marks of what the parameter points to, DIFF_UNSET_MAX of them; false: it has none. */
bool diff_side_unset(const struct diff_thread *t, uint32_t call, uint32_t param, bool *ret);

/* Accepts NULL. */
void diff_side_free(struct diff_side *s);
void diff_side_freep(struct diff_side **s);

#endif
