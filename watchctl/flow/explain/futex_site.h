/*
 * futex_site - a futex call of a thread, and which function of the C library made it: by the frames from the call outward,
 * as long as they are the C library's or the loader's. A signal handler's frame ends them, too.
 */
#ifndef WATCHCTL_FLOW_EXPLAIN_FUTEX_SITE_H
#define WATCHCTL_FLOW_EXPLAIN_FUTEX_SITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/flow/explain/look.h"
#include "watchctl/flow/explain/wait.h"

enum futex_role {
	FUTEX_FOREIGN,	/* by code outside the C library, or by syscall() for it */
	FUTEX_INTERNAL, /* by a function of the C library's that has no name, or none of those below */
	FUTEX_MUTEX,
	FUTEX_CONDITION,
	FUTEX_RDLOCK,
	FUTEX_WRLOCK,
	FUTEX_SEMAPHORE,
	FUTEX_BARRIER,
	FUTEX_ONCE,
	FUTEX_JOIN,
	FUTEX_MALLOC,
	FUTEX_STDIO,
};

struct futex_site {
	enum futex_role role;
	bool musl;
	bool by_stack;	      /* the function by a return address on the stack, as the walk ended before it */
	const char *function; /* without underscores in front ("pthread_mutex_lock"); NULL: none has a name */
	unsigned int end;     /* the first frame outside the C library; nframes: there is none */
};

/* One call that is looked at. */
struct futex_call {
	struct look *l;
	struct look_process *p;
	struct look_thread *t;
	uint64_t uaddr;
	uint32_t val;
	uint32_t cmd; /* FUTEX_WAIT ..., without flags */
	struct futex_site site;
	struct wait *ret;
};

/* Walks the stack of @t and finds where its call was made. */
void futex_site_find(struct look *l, struct look_process *p, struct look_thread *t, struct futex_site *ret);

/* A function with that role is in frame @i, whatever module it is in. */
bool futex_frame_has_role(const struct look_thread *t, unsigned int i, enum futex_role role);

/* The name of a function of frame @i contains @part. Copes with frames past the end. */
bool futex_frame_names(const struct look_thread *t, unsigned int i, const char *part);

/* The first frame from @from on, before @end, whose name contains one of @parts, which end with NULL; nframes: none. */
unsigned int futex_frame_find(const struct look_thread *t, unsigned int from, unsigned int end,
			      const char *const *parts);

/* The first frame that a signal handler returns to; nframes: no handler runs. */
unsigned int futex_signal_frame(const struct look_thread *t);

/* The handler's name, or "a signal handler". @signal: from futex_signal_frame(). */
const char *futex_handler_name(const struct look_thread *t, unsigned int signal);

/* @t is in a futex wait at an address in [from, from + len). */
bool futex_waits_in(const struct look_thread *t, uint64_t from, uint64_t len);

/* Sets what: "the mutex table_lock (0x55...)", where the symbolizer knows it; else "the mutex 0x7f...". */
void futex_what(struct futex_call *f, const char *noun, uint64_t addr);

/* Appends to the evidence. */
void futex_evidence(struct futex_call *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
