/*
 * page_choice - which accesses are kept with their registers, when there are more than fit: the first and the
 * last ones, the first and the last of each site, changes of the value, and an even share of all.
 */
#ifndef WATCHCTL_VIEW_PAGE_PAGE_CHOICE_H
#define WATCHCTL_VIEW_PAGE_PAGE_CHOICE_H

#include "watchctl/code/regs.h"
#include "watchctl/view/page/page_events.h"

struct page_detail {
	struct page_event e;
	struct regs regs;
	uint32_t refs;
	struct page_detail *next; /* among those to be used again */
};

#define PAGE_ENDS 500	      /* first and last of all */
#define PAGE_SITE_ENDS 8      /* first and last of a site */
#define PAGE_SITES_CHOSEN 150 /* of that many sites, the first ones seen */
#define PAGE_CHANGES 4000
#define PAGE_EVEN 12000 /* once there are more than PAGE_DETAILS; at least half of it */

/* An even share: every stride-th of those that were offered. */
struct page_share {
	struct page_detail **v;
	size_t n, cap, max;
	uint64_t offered, stride;
};

/* The first few, and a ring of the last few. */
struct page_ends {
	struct page_detail **v; /* 2 * each: the first ones, then the ring */
	size_t each;
	uint64_t offered;
};

struct page_choice {
	size_t all; /* up to so many, all are kept */
	struct page_share even, changes;
	struct page_ends ends, site[PAGE_SITES_CHOSEN];
	struct page_detail *unused; /* to be used again */
};

/* Keeps all up to @all; more than that are never kept, if it is at least PAGE_DETAILS. */
void page_choice_init(struct page_choice *c, size_t all);

/* @site: 0.., in the order in which they were seen. False: no memory. */
bool page_choice_offer(struct page_choice *c, const struct page_event *e, const struct regs *regs,
		       uint32_t site, bool changes);

/* Those that were chosen, once each, in order of seq; malloc'd array, what it points to is @c's. False: no
 * memory. */
bool page_choice_list(struct page_choice *c, struct page_detail ***ret, size_t *n);

void page_choice_deinit(struct page_choice *c);

#endif
