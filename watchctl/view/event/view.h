/*
 * view - what a reader of events sees: accesses with their instruction, kind and named frames.
 *
 * annotate turns raw events into these; printers, tables and counters are views. What a view is
 * handed is valid during the call, except where a comment says otherwise.
 */
#ifndef WATCHCTL_VIEW_EVENT_VIEW_H
#define WATCHCTL_VIEW_EVENT_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/code/symbols/symbolizer.h"
#include "watchctl/trace/call_values.h"
#include "watchctl/trace/event.h"

struct sites;
struct tag_totals;
struct stack_trees;
struct step_totals;
struct view_capture;
struct probe_totals;

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

/* In place of the text of a value that was withheld; compare addresses, a program may say the same. */
extern const char view_withheld[];

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
	/* NULL: unknown, or without ANNOTATE_TEXT; view_withheld: not recorded on purpose. */
	const char *old_text, *new_text;
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

/* A place where a probe runs, or was refused; lives as long as the annotate that made it. Strings live as long as that. */
struct view_probe_site {
	uint32_t id;
	int32_t pid;
	const char *probe;   /* name of the function */
	const char *pattern; /* "": not known; of PROBE_TACTIC_SOURCE, the format */
	const char *why;     /* of the tactic, or of the refusal; NULL: nothing to be said */
	uint64_t ip;	     /* 0: not known; `source` and `frame` say nothing then */
	enum probe_when when;
	enum probe_tactic tactic;
	const char *insn; /* text of the instruction; NULL: not known */
	bool known;	  /* false: events refer to it, but no site event came: of it, only the id is known */
	struct view_frame source; /* the innermost function there, whose file and line it is */
	struct view_frame frame;  /* the real one, which `source` may have been inlined into */
	uint64_t recorded;	  /* events so far */
	bool has_total;
	uint64_t count, lost; /* with has_total: how often it was reached, and what of its records was lost */
};

/* What a probe has recorded. */
struct view_probe {
	struct view_time time;
	const struct probe_event *raw;
	const struct view_probe_site *site;
	const char *comm; /* NULL: unknown */
	const char *text; /* as people read it, "cas 0x7f..: 0 -> 1"; NULL: without ANNOTATE_TEXT */
	/* frame 0 is the instruction; without ANNOTATE_STACK, and where no stack was asked for, of it alone. */
	const struct view_frame *frame;
	size_t nframes;
	bool has_stack; /* one was recorded */
	enum walk_end walk_end;
};

struct view_summary {
	const struct view_watch
		*watch; /* NULL: of the captures, or with WATCH_PROBES in e.watch, of the probes */
	/* recorded + filtered + lost == counted, unless !has_counted. */
	struct summary_event e;
	bool complete; /* false: made up from what was seen, because the log ends without one */
	bool partial;  /* the log does not hold all that was recorded, but: */
	uint64_t held;
	uint64_t reached; /* of the probes: how often all sites were, as far as that is known */
};

/* A function of a step recording; lives as long as the annotate that made it. */
struct view_function {
	struct function_event e; /* without a name and an id only, if it was never told */
	const char *text;	 /* its name; "app+0x1160" where it has none */
};

/* A parameter or a result. */
struct view_value {
	const char *name;	       /* NULL: not known, and of results */
	const struct type_event *type; /* NULL: not known */
	struct call_value v;
	const char *text;    /* NULL: without ANNOTATE_TEXT */
	const char *to_text; /* of what it points to alone; NULL: nothing is known of it */
	bool is_unused;	     /* a result that nobody reads: perhaps it is none. @text says so */
	bool to_is_bytes;    /* that is an array, or of a type without parts */
};

/* A call that has not ended, of the thread that made it. Valid until it has. */
struct view_open_call {
	uint64_t call, parent;
	uint64_t time_ns;
	uint64_t inside_ns; /* that the calls it has made took, of those that have ended */
	const struct view_function *function;
	uint32_t depth; /* as printed: of the open calls of its thread, how many are around it */
	uint8_t flags;	/* CALL_ */
};

struct view_call {
	struct view_time time;
	const struct call_event *raw;
	const struct view_function *function;
	const char *comm; /* NULL: unknown */
	uint32_t depth;	  /* of view_open_call */
	const struct view_value *arg;
	/* Without ANNOTATE_CALLS, none. Else, fewer than the function has: what the log holds of the others
	 * makes no sense. */
	size_t nargs;
	/*
	 * Its callers, all return addresses; none without ANNOTATE_CALLS and _STACK. Of a call without addresses, the
	 * open functions, with name, file and line (where they begin) and an ip of 0.
	 */
	const struct view_frame *frame;
	size_t nframes;
	enum walk_end walk_end;
};

/* Of the memory that a call has changed. */
struct view_change {
	const char *label, *text; /* "table+8", "5" */
	bool is_variable;	  /* else what a parameter points to */
};

struct view_return {
	struct view_time time;
	const struct return_event *raw;
	const struct view_function *function;
	const char *comm;		    /* NULL: unknown */
	const struct view_open_call *begun; /* NULL: the log does not have the call */
	uint64_t duration_ns;		    /* with @begun */
	uint64_t self_ns;		    /* of that, what the calls it made did not take */
	uint32_t depth;			    /* that of the call, with @begun */
	const struct view_value *result;    /* NULL: none was recorded, or without ANNOTATE_CALLS */
	const struct view_change *change;   /* with ANNOTATE_CALLS and _TEXT */
	size_t nchanges;
	bool more_changes; /* that are not among these, or were not recorded */
};

/* Where a thread stands when a recording has given up. */
struct view_blocked {
	struct view_time time;
	const struct blocked_event *raw;
	const char *comm;		   /* NULL: unknown */
	const struct view_open_call *open; /* of the thread, outermost first */
	size_t nopen;
	/* frame 0 is where it stands; none without ANNOTATE_STACK. */
	const struct view_frame *frame;
	size_t nframes;
	enum walk_end walk_end;
};

struct view_signal {
	struct view_time time;
	const struct signal_event *raw;
	const char *comm;
	const struct view_frame *frame; /* where it was: the real function comes last */
	size_t nframes;
	uint32_t depth;
};

struct view_input {
	struct view_time time;
	const struct input_event *raw;
	const char *comm; /* NULL: unknown */
	uint32_t depth;
};

struct view_step {
	struct view_time time;
	const struct step_event *raw;
	const char *comm;
	const struct view_frame *frame; /* of the instruction: the real function comes last */
	size_t nframes;
	uint32_t depth;
};

/* An event that has no callback of its own below, as it is: a process, a note, a range, what a newer source reports. */
struct view_event {
	struct view_time time;
	const struct trace_event *raw;
	const char *comm; /* of the thread that it is of; NULL: unknown, or of none */
};

#define VIEW_ANY 0 /* all types that stand in no line above */

/* Threads are reported of step recordings only; EVENT_MISSING comes behind a note that says the same, for programs. */
struct view_subscription {
	enum event_type type;
	void (*put)(void *ctx, const struct view_event *e);
};

/* Any member may be NULL: not interested. */
struct view_ops {
	const struct view_subscription *events; /* ended by zeros */
	void (*armed)(void *ctx, const struct view_watch *w, struct view_time time);
	void (*access)(void *ctx, const struct view_access *a);
	void (*capture)(void *ctx, const struct view_capture *c);
	/* Of probes; _total comes once more with what has_total stands for. */
	void (*probe_site)(void *ctx, const struct view_probe_site *s, struct view_time time);
	void (*probe)(void *ctx, const struct view_probe *p);
	void (*probe_total)(void *ctx, const struct view_probe_site *s, struct view_time time);
	/* @w is NULL when it is not known which watch lost them, for captures and for probes (see l->watch). */
	void (*lost)(void *ctx, const struct view_watch *w, const struct lost_event *l,
		     struct view_time time);
	/* Of a step recording. */
	void (*call)(void *ctx, const struct view_call *c);
	void (*ret)(void *ctx, const struct view_return *r);
	void (*step)(void *ctx, const struct view_step *s);
	void (*signal)(void *ctx, const struct view_signal *s);
	void (*blocked)(void *ctx, const struct view_blocked *s);
	void (*input)(void *ctx, const struct view_input *i);
	void (*summary)(void *ctx, const struct view_summary *s);
	/* The tables by access site and by tag, and stacks by count; called by whoever holds them, at the
	 * end. */
	void (*sites)(void *ctx, const struct sites *s);
	void (*probes)(void *ctx, const struct probe_totals *t);
	void (*tags)(void *ctx, const struct tag_totals *t);
	void (*stacks)(void *ctx, const struct stack_trees *t);
	void (*steps)(void *ctx, const struct step_totals *t);
};

struct view {
	const struct view_ops *ops;
	void *ctx;
};

static inline void view_put(const struct view *v, const struct view_event *e)
{
	for (const struct view_subscription *s = v->ops->events; s && s->put; s++) {
		if (s->type != VIEW_ANY && s->type != e->raw->type)
			continue;
		s->put(v->ctx, e);
		return;
	}
}

#define VIEWS_MAX 4

/* Those that see the same events, in this order. */
struct views {
	struct view v[VIEWS_MAX];
	size_t n;
};

/* Calls @op of a view, if it has it. */
#define VIEW_REPORT(view, op, ...)                                 \
	do {                                                       \
		if ((view)->ops->op)                               \
			(view)->ops->op((view)->ctx, __VA_ARGS__); \
	} while (0)

/* ... and of all views that have it. */
#define VIEWS_REPORT(views, op, ...)                                        \
	do {                                                                \
		for (size_t report_ = 0; report_ < (views)->n; report_++)   \
			VIEW_REPORT(&(views)->v[report_], op, __VA_ARGS__); \
	} while (0)

#endif
