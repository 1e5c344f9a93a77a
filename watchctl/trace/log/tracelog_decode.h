/* tracelog_decode - the bytes of one event of a log -> struct trace_event. Inside of the reader. */
#ifndef WATCHCTL_TRACE_LOG_TRACELOG_DECODE_H
#define WATCHCTL_TRACE_LOG_TRACELOG_DECODE_H

#include "watchctl/base/map64.h"
#include "watchctl/trace/event.h"
#include "watchctl/trace/log/tracelog_format.h"

struct tracelog_raw {
	uint16_t id;
	uint64_t time_ns;
	uint8_t *payload;
	size_t len;
};

struct tracelog_stack {
	uint32_t nframes;
	uint8_t walk_end;
	uint64_t frame[];
};

struct tracelog_watched {
	uint64_t addr;
	bool known;
};

/* Zero-initialised is empty. */
struct tracelog_decoder {
	bool ring;		 /* of a flight recorder: what is re-emitted was reported before, or not */
	struct map64 stacks;	 /* id -> struct tracelog_stack */
	struct map64 code, tags; /* that were reported, ring only: pc or id -> anything */
	struct map64 threads;	 /* likewise: tid -> pid */
	struct tracelog_watched watch[TRACELOG_HIT_WATCHES];
	bool watch_moved;	/* one of them, once: what a hit says of its address depends on when it was */
	struct map64 processes; /* tid -> pid, as the value's bits */
	int32_t last_tid, last_pid; /* the last answer of processes; tid 0 is none */
	/* Enumerators of the last watch event. */
	char *names;
	size_t names_cap;
	struct enumerator *enumerators;
	size_t nenumerators, enumerators_cap;
	/* Of the last symbol event. */
	uint8_t build_id[BUILD_ID_MAX];
	struct symbol_function *functions;
	size_t functions_cap;
	/* Of the last type or function event. */
	struct type_member *members;
	size_t members_cap;
	struct function_param *params;
	size_t params_cap;
};

enum decode_result {
	DECODE_EVENT,	/* *ret is filled; it points into the payload and the decoder */
	DECODE_SKIPPED, /* nothing for the caller: a stack, or an id from a newer minor version */
	DECODE_REEMITTED_BEGIN,
	DECODE_REEMITTED_END,
	DECODE_DAMAGED,
};

/* Fails only for lack of memory. */
struct wc_error *tracelog_decode(struct tracelog_decoder *d, const struct tracelog_raw *raw,
				 struct trace_event *ret, enum decode_result *what);

/* A file of a flight recorder begins: its stacks have numbers of their own. */
void tracelog_decoder_next_file(struct tracelog_decoder *d);

/* What follows was not preceded by what was decoded so far. */
void tracelog_decoder_forget(struct tracelog_decoder *d);

/* The process of the thread @tid, as far as the log has reported; 0: it has not. */
int32_t tracelog_process_of(struct tracelog_decoder *d, int32_t tid);

void tracelog_decoder_deinit(struct tracelog_decoder *d);

#endif
