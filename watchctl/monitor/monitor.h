/*
 * monitor - one target with its watches, its engine, the captures that it makes itself, and a sink: the
 * wiring, and their lifetimes.
 *
 * Emits, around what the engine and the collector emit: the process, each watch when it is armed (again, when
 * it has moved), notes about what befell the target, and one summary per watch, and one for the captures, at
 * the end.
 */
#ifndef WATCHCTL_MONITOR_MONITOR_H
#define WATCHCTL_MONITOR_MONITOR_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/code/insn/insn.h"
#include "watchctl/session/session.h"
#include "watchctl/trace/event.h"

struct tracee;

#define MONITOR_WATCHES 4u
#define MONITOR_CALLERS 8u

/* What the user asked for. */
struct watch_request {
	const char *expr;
	uint32_t size;	     /* 0: the type's */
	unsigned int access; /* enum access_kind */
	int slot;	     /* -1: any */
	bool follow;	     /* when a pointer on the path changes, the watch moves */
	bool withheld;	     /* its event says that its values are to be kept out of the log: see redact.h */

	/* Which hits are recorded. NULL, 0, false: all. */
	const char *condition; /* the grammar is in watchctl/engine/plan/filter.h */
	bool changes;
	const char *thread; /* a name or an id */
	const char *callers[MONITOR_CALLERS];
	const char *not_callers[MONITOR_CALLERS];
	unsigned int ncallers, nnot_callers;
	uint64_t sample;
	double rate; /* a second */
};

enum monitor_engine { MONITOR_AUTO, MONITOR_HANDLER, MONITOR_RING, MONITOR_PTRACE };

struct monitor_options {
	pid_t pid;	   /* 0: launch */
	char *const *argv; /* ended by NULL; the program to launch */
	/* Of @pid, our child: its thread, stopped before the program's first instruction; it runs when all is open. NULL: it runs */
	struct tracee *held;
	struct watch_request watch[MONITOR_WATCHES];
	unsigned int nwatches;
	enum monitor_engine engine;
	unsigned int frames;
	size_t buffer_size; /* a power of two */
	bool private_ring;
	bool pending; /* also with a running process: wait for libraries that are not loaded yet */
	bool follow_fork, follow_exec;
	bool tags;		 /* captures are collected; there may be no watch then, and no engine */
	unsigned int tag_frames; /* of a capture, 1..128 */
	size_t tag_ring_size;	 /* for each thread that captures, a power of two */
	bool may_add;		 /* monitor_add() will be called: there may be no watch yet, and no tags */
	const volatile sig_atomic_t *stop; /* ends a wait while opening; may be NULL */
	void (*say)(void *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
	void *say_ctx;
};

struct monitor;

/* Opens the target, arms, and lets a launched program run. On error the target is as it was found. */
struct wc_error *monitor_open(const struct monitor_options *o, struct event_sink sink, struct monitor **ret);

/* Pumps until something ends it. @limits->count: accesses and captures. */
struct wc_error *monitor_run(struct monitor *m, const struct session_limits *limits, enum session_end *ret);

/*
 * The same for a session with other sources: they end with @m. @count: accesses and captures, which are not delivered
 * beyond that; 0: no limit, and none are counted. @wait_ns: of a pump, at most.
 */
struct source monitor_source(struct monitor *m, uint64_t count, uint64_t wait_ns);

/*
 * While the monitor runs, from limits->tick: one more watch, armed at once. *@ret is its id in the events,
 * which no other watch of the session has or had. Errors as of monitor_open(); the other watches go on.
 * WC_ESLOTS: MONITOR_WATCHES are there already. The texts in @w are copied.
 */
struct wc_error *monitor_add(struct monitor *m, const struct watch_request *w, uint32_t *ret);

/* Likewise: ends the watch @id, delivers its rest and reports its summary. WC_ENAME: there is none. */
struct wc_error *monitor_remove(struct monitor *m, uint32_t id);

/*
 * Likewise: disarms the watch @id, or arms it again; it keeps its register's place among MONITOR_WATCHES, its
 * id and its counts. A note in the log says so, and the watch event comes again when it is armed.
 */
struct wc_error *monitor_enable(struct monitor *m, uint32_t id, bool on);

/* The process that is watched. */
pid_t monitor_pid(const struct monitor *m);

/* Disarms, drains, reports the summaries, withdraws, frees. Accepts NULL. */
struct wc_error *monitor_close(struct monitor *m);

/* A watch that waited for a library to the end, by its expression; NULL: all were armed. */
const char *monitor_never_armed(const struct monitor *m);

/* After an error of monitor_run(): the launched program was still being loaded, and nothing was recorded. */
bool monitor_failed_at_start(const struct monitor *m);

/* Captures were asked for, and no libstackwalk was found to the end. */
bool monitor_never_collected(const struct monitor *m);

#endif
