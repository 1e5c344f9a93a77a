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
	bool moved; /* it may have moved once more in a part that is missing; new writers write no hits then */
};

/* Zero-initialised is empty. */
struct tracelog_decoder {
	bool torn;	      /* a part before is missing: what is not known may have been in it */
	bool unknown;	      /* the event that is decoded refers to such a thing */
	bool ring;	      /* of a flight recorder: what is re-emitted was reported before, or not */
	struct map64 stacks;  /* id -> struct tracelog_stack */
	struct map64 code;    /* that were reported, ring only: pc -> anything */
	struct map64 threads; /* likewise: tid -> pid */
	struct map64 tags;    /* likewise, of all logs: id -> anything */
	struct map64 known_functions; /* likewise */
	struct map64 types;	      /* likewise */
	struct map64 watches;	      /* likewise */
	struct map64 probe_sites;     /* likewise */
	uint64_t lost_frame;	      /* the only one of the last access whose stack is lost */
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
	DECODE_UNKNOWN, /* what it refers to was in a part of the log that is missing: nothing for the caller */
	DECODE_DAMAGED,
};

/* The stack @id; NULL: it is not known, in *@lost because it was in a part that is missing. */
const struct tracelog_stack *tracelog_stack_of(const struct tracelog_decoder *d, uint32_t id, bool *lost);

/* Whether @key is in @reported; if not, and a part of the log is missing, the event is unknown. */
void tracelog_decode_needs(struct tracelog_decoder *d, const struct map64 *reported, uint64_t key);

/* As tracelog_process_of(), of an event that needs it. */
int32_t tracelog_decode_process(struct tracelog_decoder *d, int32_t tid);

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
