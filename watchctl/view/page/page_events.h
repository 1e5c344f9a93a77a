/*
 * page_events - the accesses and captures of a log in the order of their times, small enough for a page: all of them, or
 * every second, fourth ... one.
 *
 * Encoded, each is a row of numbers, in the way of LEB128 (seven bits a byte, low ones first, the top bit set in all but the
 * last byte):
 *
 *	[number minus that of the one before]	only if some were left out; counts from 0 for the first
 *	nanoseconds since the one before	the first: since the beginning of the page
 *	what * 32 + flags			struct page_combo, PAGE_EV_ flags
 *	old xor seen				if PAGE_EV_OLD and not PAGE_EV_AS_SEEN; seen: the last value of the series in
 *						this list, at first 0
 *	new xor (old or, without one, seen)	if PAGE_EV_NEW
 */
#ifndef WATCHCTL_VIEW_PAGE_PAGE_EVENTS_H
#define WATCHCTL_VIEW_PAGE_PAGE_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/view/page/page_bytes.h"

#define PAGE_EV_OLD 1u
#define PAGE_EV_NEW 2u
#define PAGE_EV_AS_SEEN 4u    /* encoded only: old is what was seen last */
#define PAGE_EV_DETAIL 8u     /* its registers are in the page too */
#define PAGE_EV_UNCERTAIN 16u /* with PAGE_EV_OLD: access_event.old_uncertain */
#define PAGE_EV_BITS 5

struct page_event {
	uint64_t seq; /* 0.., of all that there were */
	uint64_t ns;  /* since the beginning of the page */
	uint64_t old_value, new_value;
	uint32_t what;	 /* number of its combination of place, thread and stack */
	uint16_t series; /* below PAGE_SERIES: whose values these are */
	uint8_t flags;	 /* PAGE_EV_OLD, _NEW, _UNCERTAIN */
};

#define PAGE_SERIES 1024

struct page_events {
	struct page_event *v;
	size_t n, cap, max;
	uint64_t stride; /* every so many-th is kept */
};

/* Keeps at most @max (at least 2). */
void page_events_init(struct page_events *e, size_t max);

/* In order of seq. False: no memory. */
bool page_events_add(struct page_events *e, const struct page_event *ev);

/*
 * Encodes what was kept and, in between, those of the @nextra events of @extra (in order of seq) that were
 * not, in at most @max bytes if leaving out kept ones can do it. All of @extra get PAGE_EV_DETAIL. *@n: how
 * many these are. False: no memory.
 */
bool page_events_encode(struct page_events *e, const struct page_event *extra, size_t nextra, size_t max,
			struct page_bytes *ret, size_t *n);

void page_events_deinit(struct page_events *e);

#endif
