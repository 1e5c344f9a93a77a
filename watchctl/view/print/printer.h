/*
 * printer - views that write to a FILE: text for people, JSON and folded stacks for programs. Write errors
 * stay in the FILE: look at ferror() after each event (EPIPE: nobody reads any more).
 */
#ifndef WATCHCTL_VIEW_PRINT_PRINTER_H
#define WATCHCTL_VIEW_PRINT_PRINTER_H

#include <stdio.h>

#include "watchctl/view/event/view.h"

struct print_options {
	bool no_stack;
	bool regs;
	bool colour;
	unsigned int syntax; /* of instructions: enum insn_syntax */
	bool utc;	     /* text: times of day in UTC instead of the local zone */
	/* Text: of the terminal; lines that do not fit are folded. 0: none, lines are as long as they are. */
	unsigned int width;
	const char *before; /* the tag whose last capture is to be reported with each access; NULL: none */
	double min_percent; /* text: branches of the tree below that share are left out */
	unsigned int functions_max; /* text: rows of the table of functions that were called; 0: a hundred */
	bool folded_names;	    /* folded: the name of the tag or watch is the outermost frame */
};

struct printer;

/* NULL: no memory. @out must outlive the printer. */
struct printer *print_text_new(FILE *out, const struct print_options *options);
struct printer *print_json_new(FILE *out, const struct print_options *options);

/* The view to give to annotate_add_view(); its `sites` is called by the user of the printer. */
struct view printer_view(struct printer *p);

/* Writes only stacks, as the tools that draw flame graphs read them: "outer;inner;... count". */
struct printer *print_folded_new(FILE *out, const struct print_options *options);

/* Print the tables and the trees. */
void printer_sites(struct printer *p, const struct sites *s);
void printer_probes(struct printer *p, const struct probe_totals *t);
void printer_tags(struct printer *p, const struct tag_totals *t);
void printer_stacks(struct printer *p, const struct stack_trees *t);
void printer_steps(struct printer *p, const struct step_totals *t);

/* A stack by itself, indented, for what is no event. */
void printer_stack(struct printer *p, const struct view_frame *frame, size_t nframes, enum walk_end end);

/*
 * The text form prints a call together with its return when nothing comes between them, and so holds it back.
 * _flush prints it now, as a session's end does; _idle, to be called a few times a second by a live display,
 * only if it has been held back since the last time.
 */
void printer_flush(struct printer *p);
void printer_idle(struct printer *p);

/* Accepts NULL. */
void printer_free(struct printer *p);
void printer_freep(struct printer **p);

#endif
