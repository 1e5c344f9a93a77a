/*
 * diff_canon - values of parameters and results in a form that two runs of a program share: tokens. Where the
 * system chose the number (addresses, process ids, times), the token says what it stands for.
 *
 * A strong token is compared. A weak one may hold anything (registers of a function whose parameters are not
 * known, memory that the callee is to fill): it only counts when that is asked for. Unset ones are hashed as
 * weak ones are.
 */
#ifndef WATCHCTL_VIEW_DIFF_DIFF_CANON_H
#define WATCHCTL_VIEW_DIFF_DIFF_CANON_H

#include "watchctl/base/map64.h"
#include "watchctl/trace/call_values.h"
#include "watchctl/view/diff/diff_space.h"

/* A type of a log, with what its name shows. Owned by the canon. */
struct diff_type {
	struct trace_event *event;
	struct type_event e; /* of @event */
	bool to_const;	     /* what it points to is not to be changed through it */
	bool is_moving;	     /* times, numbers of files: others in any two runs */
	bool is_pid;
	struct diff_type *older; /* which had its id before */
};

/* How a function is treated, beyond its types. */
#define CANON_OVER 1u	      /* of a library that is stepped over: what its pointers lead to may be output */
#define CANON_RESULT_NOISE 2u /* time(): another result each time */
#define CANON_PARAMS_NOISE 8u /* srandom(): its seed is made of times and process ids */
#define CANON_MEMORY 16u      /* memcmp(): bytes that are not known, often in an order that addresses make */
#define CANON_RESULT_PID 4u   /* fork() */
#define CANON_FILLS_NOISE 32u /* stat(): leaves times and numbers of files in what it is given */

#define CANON_NEAR_TYPES 1024u

/* What a log has reported that values are judged by. */
struct diff_canon {
	struct diff_space space;
	struct map64 types;				/* id -> struct diff_type */
	const struct diff_type *near[CANON_NEAR_TYPES]; /* the same, by id */
	struct map64 tasks; /* pid or tid -> its number plus 1, in the order told */
	struct map64 heap;  /* address -> number of the allocation, as the value's bits */
	bool weak_counts;   /* weak tokens are made strong ones */
	bool no_frames;	    /* where they lie is not known, nor what they have set */
	bool no_heap;	    /* its moment has passed: addresses of the heap are not distinguished */
};

enum token_kind {
	TOKEN_EXACT,
	TOKEN_FLOAT,   /* raw: the bits of a double */
	TOKEN_INTEGER, /* raw: its 64 bits */
};

struct diff_token {
	enum token_kind kind;
	bool weak;
	bool is_pointee; /* of what the value points to */
	bool unset; /* perhaps left over in memory that nobody has written: says nothing, unless it was set in
		       the other run */
	uint64_t value;	    /* equal ones are the same */
	uint64_t raw;	    /* before anything was put in place of it: equal ones are the same, too */
	const char *member; /* of a struct; NULL */
};

/* Where tokens go: a list (NULL: none is kept), and the hashes of those of each kind. */
struct diff_tokens {
	uint64_t strong, weak;
	bool list;
	bool no_pointee;   /* do not look at what it points to */
	const bool *unset; /* of each byte that it points to, CALL_POINTEE_MAX and a NUL byte; NULL: all are
			      set */
	struct diff_token *v;
	size_t n, cap;
	bool no_memory;
};

/* False: no memory. */
bool diff_canon_add_type(struct diff_canon *c, const struct type_event *t);
bool diff_canon_add_task(struct diff_canon *c, int32_t id);

/* NULL: not reported. */
static inline const struct diff_type *diff_canon_type(const struct diff_canon *c, uint32_t id)
{
	return id < CANON_NEAR_TYPES ? c->near[id] : map64_get(&c->types, id);
}

/* Appends the tokens of @v, of the type @t. @is_result: it is what a function returned. */
void diff_canon_put(struct diff_canon *c, const struct diff_type *t, const struct call_value *v,
		    unsigned int flags, bool is_result, struct diff_tokens *ret);

/*
 * The tokens of what the pointer @v, of the type @t, points to when a call ends; v->bytes is not looked at. What
 * @ret->unset marks was not written by the call.
 */
void diff_canon_put_after(struct diff_canon *c, const struct diff_type *t, const struct call_value *v,
			  struct diff_tokens *ret);

/* Of words of 8 bytes, of which nothing is known: addresses, or two numbers each. */
void diff_canon_put_words(struct diff_canon *c, const uint8_t *bytes, uint32_t len, struct diff_tokens *ret);

/* CANON_ flags of a function by its name, which may be NULL. */
unsigned int diff_canon_flags(const char *name, bool over);

/* True if what it returns comes from outside of the program: read, getenv, time ... */
bool diff_canon_is_input(const char *name);

/* True if it returns memory that it has allocated. */
bool diff_canon_allocates(const char *name);

/* True if it creates a thread. */
bool diff_canon_creates(const char *name);

void diff_canon_deinit(struct diff_canon *c);

#endif
