/*
 * view - what a reader of events sees: accesses with their instruction, kind and named frames.
 *
 * annotate turns raw events into these; printers, tables and counters are views. What a view is
 * handed is valid during the call, except where a comment says otherwise.
 */
#ifndef WATCHCTL_VIEW_VIEW_H
#define WATCHCTL_VIEW_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stackwalk/symbolizer.h"
#include "watchctl/trace/event.h"

struct sites;
struct tag_totals;
struct stack_trees;
struct view_capture;

/* Lives as long as the annotate that made it; a watch armed again keeps its place, with new facts. */
struct view_watch {
	struct watch_event e;
	bool known; /* false: accesses refer to it, but no watch event came */
	uint64_t shown, dropped, lost;
	uint64_t first_ns, last_ns; /* of its accesses */
	bool summed_up;
};

/* Strings live as long as the symbolizer. */
struct view_frame {
	uint64_t ip;	    /* frame 0: the accessing instruction; else the return or interrupted address */
	const char *module; /* path; NULL: unknown */
	uint64_t module_offset;
	const char *function; /* NULL: unknown */
	uint64_t offset;      /* from the start of the real function; not for inlined ones */
	const char *file;     /* NULL: unknown */
	unsigned int line;
	bool inlined;
	bool after;  /* the accessing instruction is not known: this is where execution went on */
	bool signal; /* the kernel called a signal handler here */
};

/* The time of a moment. */
struct view_time {
	uint64_t mono_ns;
	uint64_t real_ns; /* since the epoch; 0: not known */
};

struct view_access {
	struct view_time time;
	const struct access_event *raw;
	const struct view_watch *watch;
	const char *comm; /* NULL: unknown */
	enum access_kind kind;
	enum access_origin origin;
	uint64_t ip;	  /* of the accessing instruction; 0: unknown */
	const char *insn; /* its text; NULL: unknown */
	/* Of ip; when that is unknown, of where execution went on. Lives as long as the symbolizer. */
	const struct location *location;
	const struct view_frame *frame; /* none without ANNOTATE_STACK */
	size_t nframes;
	enum walk_end walk_end;
	const char *old_text, *new_text; /* NULL: unknown, or without ANNOTATE_TEXT */
	/* The thread's last capture under a chosen tag; NULL: there was none, or none was asked for. */
	const struct view_capture *before;
};

/* A tag; lives as long as the annotate that made it. */
struct view_tag {
	uint32_t id;
	const char *name; /* NULL: a number */
	uint64_t number;
	const char *text; /* what a user calls it: the name, or the number in decimal */
	uint64_t captures;
};

/* A tagged stack. All frames are those of return addresses; frame 0 is the place of the capture. */
struct view_capture {
	struct view_time time;
	const struct capture_event *raw;
	const struct view_tag *tag;
	const char *comm;		/* NULL: unknown */
	const struct view_frame *frame; /* without ANNOTATE_STACK, of the place alone */
	size_t nframes;			/* 0: a hostile log */
	enum walk_end walk_end;
};

struct view_summary {
	const struct view_watch *watch; /* NULL: of the captures */
	/* recorded + filtered + lost == counted, unless !has_counted. */
	struct summary_event e;
	bool complete; /* false: made up from what was seen, because the log ends without one */
};

/* Any member may be NULL: not interested. */
struct view_ops {
	void (*process)(void *ctx, const struct process_event *p, struct view_time time);
	void (*armed)(void *ctx, const struct view_watch *w, struct view_time time);
	void (*access)(void *ctx, const struct view_access *a);
	void (*capture)(void *ctx, const struct view_capture *c);
	/* @w is NULL when it is not known which watch lost them, and for captures (see l->watch). */
	void (*lost)(void *ctx, const struct view_watch *w, const struct lost_event *l,
		     struct view_time time);
	void (*note)(void *ctx, const char *text, struct view_time time);
	void (*summary)(void *ctx, const struct view_summary *s);
	/* The tables by access site and by tag, and stacks by count; called by whoever holds them, at the
	 * end. */
	void (*sites)(void *ctx, const struct sites *s);
	void (*tags)(void *ctx, const struct tag_totals *t);
	void (*stacks)(void *ctx, const struct stack_trees *t);
};

struct view {
	const struct view_ops *ops;
	void *ctx;
};

#endif
