/*
 * patch_session - probes in one process, from the first look at its code to the last byte restored: plans, places, applies, follows
 * the modules that come, records, and takes everything out again.
 *
 * Emits: the process, its modules and threads, each site (those that were refused too), what probes record, and at the end the
 * counts of each site, what was lost, and one summary (WATCH_PROBES).
 */
#ifndef WATCHCTL_MONITOR_PATCH_PATCH_SESSION_H
#define WATCHCTL_MONITOR_PATCH_PATCH_SESSION_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/monitor/monitor.h"
#include "watchctl/patch/plan/patch_plan.h"
#include "watchctl/patch/probe/call_buffers.h"
#include "watchctl/patch/probe/probe_image.h"
#include "watchctl/patch/probe/probe_rings.h"
#include "watchctl/target/inject/same_addresses.h"
#include "watchctl/trace/event.h"

/* What is to run where the pattern of the same index in the query fits. */
struct patch_rule {
	const char *function; /* NULL: the only one that the image has */
	enum probe_when when;
};

/* One of the session's sites, once its module has been patched. */
struct patch_placed {
	uint32_t site;
	uint64_t ip;   /* in the process */
	uint32_t mark; /* as wants() has set it */
	bool applied;
	const char *why;	       /* it was not */
	const char *why_short;	       /* ... in words that are the same for all sites alike; static */
	struct probe_counter *counter; /* lives as long as the session */
};

/* Takes what is recorded, in place of the events of probes. */
struct patch_taker {
	/* The process is there, and nothing was looked at yet; may be NULL. */
	struct wc_error *(*opened)(void *ctx, pid_t pid);
	/* Of modules; one that is not wanted is not looked at. */
	bool (*wants_module)(void *ctx, const struct module_list *all, const struct module *m);
	/* A place that was planned, while the map of its module is there. False: nothing runs there. */
	bool (*wants)(void *ctx, const struct patch_site *site, uint32_t *mark);
	struct wc_error *(*placed)(void *ctx, const struct patch_placed *p);
	/* From threads' buffers, see options.call_bytes. @tid as we number it. */
	struct wc_error *(*call)(void *ctx, const struct call_passed *c, uint64_t time_ns, pid_t tid);
	/* All that came was given. @last: nothing comes any more, and the sites are still there to be looked at. @enough: ends the session. */
	struct wc_error *(*pumped)(void *ctx, bool last, bool *enough);
	enum call_order order;
	const char *nothing; /* what there is none of when no site is wanted: "no function is to be traced" */
	void *ctx;
};

struct patch_session_options {
	const struct patch_taker *taker; /* NULL: what probes record is emitted */
	pid_t pid;			 /* 0: launch */
	char *const *argv;		 /* ended by NULL; the program to launch */
	enum same_addresses
		*addresses; /* set; a launched program has the same each time. NULL: random ones */
	const char *in;	    /* only in this module; NULL: in all */
	bool pending; /* patterns that fit nowhere, and names that are nowhere, may come with a library */
	const struct patch_query *query;
	const struct patch_rule *rule; /* query->npatterns of them */
	const struct probe_image *image;
	uint32_t slots;	      /* of each ring: a power of two */
	uint32_t stack_bytes; /* of probe_stack(); a multiple of 8 */
	uint64_t
		call_bytes; /* of the threads' buffers (probe/calls/call_wire.h), with a taker whose image is made for them; else 0 */
	bool call_plans;     /* ... and sites may have plans */
	unsigned int frames; /* 1..STACK_MAX */
	bool hold; /* probes do nothing yet, and a launched program stands, until patch_session_begin() */
	const volatile sig_atomic_t *stop;
	void (*say)(void *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
	void *say_ctx;
};

struct patch_session_counts {
	size_t sites, applied, refused;	     /* sites */
	size_t modules;			     /* with sites */
	uint64_t reached;		     /* how often sites were */
	uint64_t recorded, lost, unfinished; /* records */
	uint64_t longest_stop_ns;
	unsigned int stops;
};

struct patch_session;
struct tracee;

/*
 * All is in place and on when it returns; a launched program stands before its first instruction but the loader's until
 * patch_session_run(). On error the program is as it was found. WC_ENAME: a name in a pattern, a module or a function is nowhere, or no
 * pattern fits anywhere;
 * WC_ENOTSUP: no site could be patched, or the program cannot be; WC_EPERM, WC_ETARGET.
 */
struct wc_error *patch_session_open(const struct patch_session_options *o, struct event_sink sink,
				    struct patch_session **ret);

/* With options.call_bytes: sets what is done at a site from now on. */
void patch_session_switch(struct patch_session *s, uint32_t site, enum call_off to);

/* ... and has threads that find no room for their calls wait for us, as call_buffers_wait(). */
void patch_session_wait(struct patch_session *s);

/* With options.call_plans: as call_buffers_plan() and so on. */
bool patch_session_plan(struct patch_session *s, uint32_t site, const struct call_plan *plan);
void patch_session_errno(struct patch_session *s, int32_t at);
bool patch_session_fixed(struct patch_session *s, uint64_t start, uint64_t end);
void patch_session_stack(struct patch_session *s, uint32_t tid, uint64_t start, uint64_t end, bool is_main);

/* fs_base of a thread, which stood when the probes were placed; 0: not known. */
uint64_t patch_session_thread_pointer(const struct patch_session *s);

/* Until something ends it, which is told after an error, too. @limits->count: records. */
struct wc_error *patch_session_run(struct patch_session *s, const struct session_limits *limits,
				   enum session_end *ret);

/* The same for a session with other sources. @count: records; 0: no limit. */
struct source patch_session_source(struct patch_session *s, uint64_t count);

/* Sites and modules up to now. */
void patch_session_so_far(const struct patch_session *s, struct patch_session_counts *ret);

pid_t patch_session_pid(const struct patch_session *s);

/* With options.hold: of a launched program its thread, stopped, which the caller lets go of; else NULL. */
struct tracee *patch_session_held(struct patch_session *s);

/* ... and from here on probes run. */
struct wc_error *patch_session_begin(struct patch_session *s);

/*
 * Takes all out, reports the counts, frees. Accepts NULL. *@counts may be NULL. WC_EFAIL: something had to stay, and why; the
 * program runs on all the same.
 */
struct wc_error *patch_session_close(struct patch_session *s, struct patch_session_counts *counts);

/* Of another's leavings: */

struct patch_left {
	pid_t owner; /* who placed it, as we number it; 0: it was killed; -1: it lives where we cannot see it */
	bool inherited;	     /* of a forked child: nothing is recorded there */
	uint64_t addr, size; /* of the home */
	size_t modules, sites, patches;
	uint64_t reached;
};

/* Calls @each for each. */
struct wc_error *patch_session_list(pid_t pid, void (*each)(void *ctx, const struct patch_left *l),
				    void *ctx);

enum patch_cleared {
	PATCH_STAYS, /* it is at work */
	PATCH_TAKEN_OUT,
	PATCH_OWNER_ENDED, /* and has taken its patches out */
};

typedef void patch_cleared_sink(void *ctx, const struct patch_left *l, enum patch_cleared what);

/*
 * Takes out what nobody owns. With @all the watchctls that are at work are ended first, as by Ctrl-C. @each (may be NULL) is told of
 * each that is gone, and of those that are at work, which stay.
 */
struct wc_error *patch_session_clear(pid_t pid, bool all, patch_cleared_sink *each, void *ctx);

#endif
