/*
 * call_buffers - reads what threads have recorded in their buffers (probe/calls/call_wire.h). The memory is the program's: what makes no
 * sense is left out.
 */
#ifndef WATCHCTL_PATCH_PROBE_CALL_BUFFERS_H
#define WATCHCTL_PATCH_PROBE_CALL_BUFFERS_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/patch/probe/probe_place.h"

/* A site that a thread has passed. */
struct call_passed {
	uint64_t tsc, sp, return_address;
	uint32_t tid; /* as the program numbers it */
	uint32_t site;
	const uint8_t
		*values; /* as of struct call_values; the program's, which may change them; NULL: none */
	uint32_t values_len;
};

struct call_buffers;

struct call_buffers *call_buffers_new(const struct probe_place *p); /* NULL: no memory */
void call_buffers_free(struct call_buffers *b);			    /* accepts NULL */

enum call_order {
	CALL_ORDER_THREADS, /* of each thread in the order of its events; a chunk at a time, that whose first one is the oldest */
	CALL_ORDER_TIME, /* ... and those of several threads by time, as far as they are there */
};

/* Gives what is complete to @take. @last: nobody writes any more. *@more: there is more already. */
struct wc_error *call_buffers_read(struct call_buffers *b, enum call_order order, bool last,
				   struct wc_error *(*take)(void *ctx, const struct call_passed *c),
				   void *ctx, bool *more);

/* Threads, as the program numbers them, of which nothing is left to read: where @is_gone says that one has ended, its place is free again. */
void call_buffers_sweep(struct call_buffers *b, bool (*is_gone)(void *ctx, uint32_t tid), void *ctx);

/* Sets what is done at a site from now on. */
void call_buffers_switch(struct call_buffers *b, uint32_t site, enum call_off to);

/*
 * Gives a site its plan (copied, equal ones once), and switches it to CALL_VALUED. False: there is no room for it, or no memory. Only where
 * probe_place_request.call_plans was set.
 */
bool call_buffers_plan(struct call_buffers *b, uint32_t site, const struct call_plan *plan);

/* Shows where errno is, and memory that stays, see struct call_shared. False: there is no room for more spans. */
void call_buffers_errno(struct call_buffers *b, int32_t at);
bool call_buffers_fixed(struct call_buffers *b, uint64_t start, uint64_t end);

/* Whether threads that find no room wait for the reader, as long as there is one. */
void call_buffers_wait(struct call_buffers *b, bool wait);

/* Shows the mapping that the stack of thread @tid, as the program numbers it, is in: values there are read without the kernel. */
void call_buffers_stack(struct call_buffers *b, uint32_t tid, uint64_t start, uint64_t end, bool is_main);

/* Slots that were taken and not written: the thread has left the trampoline by a jump, or ended in it. */
uint64_t call_buffers_unfinished(const struct call_buffers *b);

#endif
