/*
 * page - a log as one HTML file that needs nothing else: values over time, sites, stacks and single accesses,
 * to be looked at in a browser, searched and filtered.
 *
 * A view: it counts and chooses while the log goes by, in a bounded space. Tables and counts are exact, and
 * the page is not larger than PAGE_BYTES (page_room.h), for any log. The time line has every access up to
 * PAGE_EVENTS of them, then an even share; registers are kept of PAGE_DETAILS accesses at most, see
 * page_choice.h. What was left out is said in the page.
 */
#ifndef WATCHCTL_VIEW_PAGE_PAGE_H
#define WATCHCTL_VIEW_PAGE_PAGE_H

#include <stdio.h>

#include "watchctl/view/event/annotate.h"

struct replay_ending;

struct page_options {
	const char *log;  /* how the user calls it */
	bool no_source;	  /* put no lines of source files into the page */
	size_t events;	  /* 0: PAGE_EVENTS; smaller ones are for tests */
	size_t max_bytes; /* of the time line; 0: PAGE_EVENT_BYTES */
};

#define PAGE_EVENTS ((size_t)1200000)
#define PAGE_EVENT_BYTES ((size_t)7500000) /* a third more in the page */
#define PAGE_DETAILS 20000

struct page;

/*
 * Adds itself to @a's views; @a wants ANNOTATE_STACK and _TEXT. Both @a and the texts of @o must outlive it.
 * NULL: no memory.
 */
struct page *page_new(struct annotate *a, const struct page_options *o);

/*
 * After the last event and annotate_finish(). @ending: how the log ended. Errors of @out are left to
 * ferror().
 */
struct wc_error *page_write(struct page *p, const struct replay_ending *ending, FILE *out);

/* Accepts NULL. Before the annotate is freed. */
void page_free(struct page *p);
void page_freep(struct page **p);

#endif
