/*
 * progress - shows a person at a terminal how far a long task is: one line on standard error, drawn again and
 * again, from the moment that the work has lasted a second, and taken away when it ends. Nothing at all where
 * standard error is no terminal, where TERM is "dumb", or while we are in the background of a shell.
 *
 *	reading the log  45 % [#################                      ] about 3 s left
 *
 *	scoped(progress_end) struct progress p;
 *
 *	progress_begin(&p, "reading the log");
 *	while (...)
 *		progress_at(&p, tracelog_progress(log));
 *
 * The time that is left is what the rest takes if it goes on as the last ten seconds did; it is shown from the
 * third second on.
 */
#ifndef WATCHCTL_BASE_PROGRESS_H
#define WATCHCTL_BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#define PROGRESS_MARKS 10

struct progress {
	const char *what; /* "reading the log" */
	uint64_t begun_ns, drawn_ns;
	unsigned int calls; /* since the clock was looked at */
	int shows;	    /* -1: not looked at yet */

	unsigned int stride; /* look at the clock each so many calls */
	uint64_t looked_ns;
	bool on_screen; /* the line is there now */
	struct {
		uint64_t ns;
		double done;
	} mark[PROGRESS_MARKS]; /* how far it was, a second apart: a ring */
	unsigned int nmarks;	/* ever made */
};

/* Begins; @what must outlive it. */
void progress_begin(struct progress *p, const char *what);

/* Another part of the same work, which counts from 0 again; the second that is waited for is not. */
void progress_phase(struct progress *p, const char *what);

/*
 * The work, or this part of it, is @done (0 to 1) done; NAN: not known. Cheap enough for each of a million
 * events: looks at the clock now and then.
 */
void progress_at(struct progress *p, double done);

/*
 * Draws @text, which is clean UTF-8, in place of the line of progress_at(), as far as there is room; for work of which
 * nobody knows how much there is. When it is first to be seen is the caller's business.
 */
void progress_line(struct progress *p, const char *text);

/* Takes the line away. Before anything else is printed to the terminal; progress_at() draws it again. */
void progress_clear(struct progress *p);

/* Ends; to be called again does no harm. */
void progress_end(struct progress *p);

#endif
