/*
 * output - where the events of a live session go: printed, recorded into a log, or both. The same for every
 * command that records.
 *
 * Printing never holds up the session: see out_queue.h. It waits for the reader only in output_close(), when
 * the watch has been withdrawn.
 */
#ifndef WATCHCTL_CLI_OUTPUT_OUTPUT_H
#define WATCHCTL_CLI_OUTPUT_OUTPUT_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>

#include "watchctl/monitor/recorder.h"
#include "watchctl/trace/log/tracelog_replace.h"
#include "watchctl/view/event/replay.h"
#include "watchctl/view/print/report.h"

struct output_options {
	const char *log;	       /* NULL: none */
	bool force;		       /* in place of one that exists */
	struct tracelog_bounds bounds; /* of the log: a flight recorder; all 0: none */
	const char *file; /* to print to; NULL: standard output, or with @launched standard error */
	bool launched;	  /* standard output is the program's, but with: */
	const char *
		program_output; /* where the launched program's goes; ours is for what is printed then; NULL */
	bool json;
	bool no_events;	     /* only tables and summaries are printed */
	bool no_tables;	     /* nor tables, which costs nothing for each access then */
	unsigned int colour; /* as COLOUR_WORDS */
	struct print_options print;
	struct redact_rules redact; /* of what is recorded and printed */
};

struct out_queue;

struct output {
	FILE *out;		 /* to print to: into the queue, if there is one */
	FILE *file;		 /* the real one */
	bool is_stdout;		 /* a copy of it: it is the program's until all is over */
	struct out_queue *queue; /* NULL: no thread could be made */
	struct annotate *annotate;
	struct printer *printer;
	struct report *report;
	struct recorder *log;	      /* NULL: none is wanted */
	struct tracelog_old *old_log; /* that it replaces; NULL: none */
	struct redact *redact;	      /* in front of all; NULL: nothing is withheld */
	struct event_sink events;
	uint64_t looked_at; /* without tables: watches whose accesses must be looked at all the same */
	volatile sig_atomic_t *stop; /* set when nobody reads any more; may be NULL */
	const char *logged;	     /* the path of the log, the options'; NULL: none was wanted */
	bool watched; /* all went well until the end, where what is left is to be reported although that fails */
};

/* Zero-initialise @s. On an error too, output_close() releases what there is. */
struct wc_error *output_open(const struct output_options *o, struct output *s);

/* About five times a second. @ctx: the struct output. */
struct wc_error *output_tick(void *ctx);

/* The session came to nothing: its log is removed, and one that it replaced is back. */
void output_discard_log(struct output *o);

/*
 * The log is whole and closed; nothing more can be recorded. Names from files that were removed or replaced meanwhile
 * are in it.
 */
struct wc_error *output_end_log(struct output *o);

/*
 * @complete: the tables and summaries are to be printed. Returns when all that was printed has been read, or
 * nobody reads any more, or at the next of the signals (output_catch_signals()).
 */
struct wc_error *output_close(struct output *s, bool complete);

/* "watchctl: ..." to standard error, for what is reported while a session goes on; then after what was printed.
 */
void output_say(void *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* SIGINT, SIGTERM and SIGHUP set *@stop from now on, but for those that we were started to ignore (nohup). */
void output_catch_signals(volatile sig_atomic_t *stop);

#endif
