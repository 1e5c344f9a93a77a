/*
 * tracelog_reemit - what still holds of what a log has reported, to re-emit it at the beginning of each file
 * of a flight recorder: the process, the modules that are loaded now, the watches ... Threads, code facts and
 * tags may be many; they are re-emitted one by one, when an event of the file refers to them.
 *
 * It takes memory for what is live: modules go when they are unloaded, followed children when they have
 * ended, and of threads and code facts the longest unused when there are very many.
 */
#ifndef WATCHCTL_TRACE_LOG_TRACELOG_REEMIT_H
#define WATCHCTL_TRACE_LOG_TRACELOG_REEMIT_H

#include "watchctl/base/map64.h"
#include "watchctl/trace/event.h"

/* An event as it is in the log, without its head. */
struct reported {
	uint16_t id;   /* as it was reported first */
	uint64_t file; /* in which it was reported last */
	uint64_t time_ns;
	uint32_t owners;
	uint32_t len;
	uint8_t fields[];
};

/* In the order in which they were reported; a key that is re-emitted keeps its place. */
struct reported_facts {
	struct map64 place; /* key -> 1 + index */
	struct reported_fact {
		uint64_t key;
		struct reported *reported;
	} * v;
	size_t n, cap;
};

struct reported_module {
	uint64_t start;
	struct reported *reported;
};

struct reported_process {
	int32_t pid, parent;
	struct reported *reported;
	struct reported_module *module;
	size_t nmodules, cap;
	uint64_t last_file; /* of its last event */
	bool has_common;    /* while all is reported: it has what all have */
};

/* Above the numbers of all events that stay. */
#define REEMIT_TYPES 64

/* Zero-initialised is empty. */
struct tracelog_reemit {
	uint64_t file; /* that is written now */
	size_t bytes;  /* what reemit_all() takes, about */
	struct reported *recording;
	struct reported_process *process;
	size_t nprocesses, cap;
	size_t current;				  /* index of the process that was looked for last */
	struct reported_facts held[REEMIT_TYPES]; /* by enum event_type: watches, types, functions ... */
	struct reported_facts notes, lost;
	struct reported_facts threads, code, tags; /* one by one */
	bool has_begun; /* to record: a note may be about one moment from then on */
};

/* @e is being written, as an event @id with the @len bytes at @fields. Fails only for lack of memory. */
struct wc_error *reemit_keep(struct tracelog_reemit *r, const struct trace_event *e, const uint8_t *fields,
			     size_t len);

/* There is too much: forgets what is not there any more, also if something of it was heard lately. */
void reemit_shrink(struct tracelog_reemit *r);

/* Something happened in the process @pid. */
void reemit_seen(struct tracelog_reemit *r, int32_t pid);

/* What must be re-emitted before an event that refers to it, or NULL. It counts as told then. */
const struct reported *reemit_thread(struct tracelog_reemit *r, int32_t pid, int32_t tid);
const struct reported *reemit_code(struct tracelog_reemit *r, uint64_t pc);
const struct reported *reemit_tag(struct tracelog_reemit *r, uint32_t id);

struct reported_sink {
	struct wc_error *(*put)(void *ctx, const struct reported *t);
	void *ctx;
};

/* The file @file begins: puts all that its beginning needs, at @time_ns, into @sink. */
struct wc_error *reemit_all(struct tracelog_reemit *r, uint64_t file, uint64_t time_ns,
			    struct reported_sink sink);

void reemit_deinit(struct tracelog_reemit *r);

#endif
