/* call_merge_impl - what merging calls, and reading one of them again, share. Inside of call_merge*.c. */
#ifndef WATCHCTL_TRACE_CALLS_CALL_MERGE_IMPL_H
#define WATCHCTL_TRACE_CALLS_CALL_MERGE_IMPL_H

#include "watchctl/base/id_map.h"
#include "watchctl/base/map64.h"
#include "watchctl/trace/calls/call_merge.h"
#include "watchctl/trace/calls/call_runs.h"

struct merge_event {
	uint64_t time_ns;
	uint32_t function;
	uint8_t what; /* enum call_what */
};

/* A function that the log has told: the types of its values, by their numbers. */
struct merge_function {
	uint32_t id; /* by which it is passed on: that of another one, where it is inlined */
	bool has_code;
	uint32_t nparams, return_type;
	uint32_t param[];
};

/* A value, before event @at of the batch; or that event, of the program's own, whose second payload is @second. */
struct merge_value {
	size_t at;
	uint64_t word, value, second; /* of CALL_WORD_BYTES the value is where they are in `bytes` */
};

/* The target of a result. word 0: nothing that is known. */
struct merge_pointee {
	uint64_t word;
	uint8_t bytes[CALL_BYTES_MAX];
};

/* An entry without an exit so far. */
struct merge_open {
	uint64_t
		call; /* of one that was left out: that of the innermost one around it that was not; 0: none */
	uint32_t function;
	bool left_out;
};

/* Reports that are due before the thread goes on. */
enum merge_pending { PENDING_LOST = 1, PENDING_NOTE = 2, PENDING_MISSING = 4 };

/* A packet that was read, and the number of its first event in the file. */
struct merge_packet {
	uint64_t event;
	size_t packet;
};

struct merge_thread {
	struct call_thread is;
	struct merge_event *event; /* a batch */
	size_t at, n, event_cap;
	struct merge_value *value;
	size_t value_at, nvalues, value_cap;
	uint64_t *bytes; /* what values of the batch point to */
	size_t nbytes, bytes_cap;
	struct merge_value result;	 /* of the next exit; word 0: none */
	struct merge_pointee *result_to; /* NULL: no result had one so far */
	uint64_t mark;			 /* of the next entry or exit; 0: none */
	struct merge_value with; /* of kind CALL_WORD_VALUES, of the next entry or exit; word 0: none */
	struct merge_value own;	 /* the program's own event that comes next */
	struct merge_open *open;
	size_t nopen, nshown, open_cap; /* shown: those that are not left out */
	uint64_t last_ns;		/* of the event passed on last */
	unsigned int pending;		/* enum merge_pending */
	uint64_t lost;
	enum return_how ending; /* how all that is open ends now; 0: it does not */
	bool ended, follows_gap;
	uint64_t before; /* how many events there were before the batch */
	struct merge_packet *packet;
	size_t npackets, packets_cap;
};

struct heap_entry {
	uint64_t time_ns;
	size_t thread; /* equal times are in the order of the files */
};

struct call_merge {
	struct call_reader *reader;
	struct merge_thread *thread;
	struct heap_entry *heap;
	size_t nthreads, n;
	struct id_map functions; /* those that were told */
	struct map64 named;	 /* hash of a name and place, a function of these */
	struct id_map types;	 /* kind and size of each: of_type() */
	struct map64 formats;	 /* of the program's own events, by type */
	uint8_t *values; /* CALL_VALUES_MAX, of the event that is passed on; NULL: none had any so far */
	struct trace_event call, ret, own, other;
	struct call_merge_sums sums;
	size_t packets, packets_read;
	char text[256];
	uint64_t position;    /* of the event that was passed on last */
	bool keeps_positions; /* with all that is needed to read an event again: */
	struct call_runs runs;
	uint64_t calls_kept;			 /* sums.calls when the last position was kept */
	struct merge_thread again;		 /* what is read again */
	const struct merge_packet *again_packet; /* whose batch that has; NULL: of none */
};

/* The events of @b, and what belongs to them, are the thread's batch. False: no memory. */
bool call_merge_keep_batch(struct merge_thread *t, const struct call_batch *b);

/* Values before the next event: a result is kept for its exit, others have lost their call. False: no memory. */
bool call_merge_take_values(struct merge_thread *t);

/* Forgets result, mark and values: they were of the event that was taken last, or of one that is missing. */
void call_merge_forget_result(struct merge_thread *t);

/* CALL_ flags or enum return_how, as CALL_WORD_MARK says of the next event, of @function; 0: it says nothing. */
uint8_t call_merge_mark(const struct merge_thread *t, uint32_t function);

/* Those of the parameters of the call that was entered last; without any, there are no values. */
void call_merge_put_parameters(struct call_merge *m, struct merge_thread *t, struct call_event *c);

/* How the exit @e that comes next ends its call. */
enum return_how call_merge_how(const struct merge_thread *t, const struct merge_event *e);

void call_merge_put_result(struct call_merge *m, struct merge_thread *t, struct return_event *r);

/* The id by which a function is passed on. */
uint32_t call_merge_shown_id(const struct call_merge *m, uint32_t function);

/* call_merge_again.c: @event of the file is passed on, or with @ending that of a call that was open before it. */
bool call_merge_keep_position(struct call_merge *m, const struct merge_thread *t, uint64_t event,
			      enum return_how ending);

/* Of a packet whose first event is t->before. False: no memory. */
bool call_merge_keep_packet(const struct call_merge *m, struct merge_thread *t, size_t packet);

#endif
