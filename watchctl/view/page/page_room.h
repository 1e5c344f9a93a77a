/*
 * page_room - how many bytes of the page a part of its data may take. Rows are written one by one; one that
 * does not fit is taken back, so that no log, however odd, makes a page that a browser cannot open.
 */
#ifndef WATCHCTL_VIEW_PAGE_PAGE_ROOM_H
#define WATCHCTL_VIEW_PAGE_PAGE_ROOM_H

#include "watchctl/view/words/json.h"

/* In bytes as they stand in the file. Together with PAGE_COMBOS and PAGE_DETAILS they leave room for events.
 */
#define PAGE_BYTES 30000000u   /* the page */
#define PAGE_ROOM_HEAD 100000u /* what was recorded, by what */
#define PAGE_ROOM_PROCESSES 200000u
#define PAGE_ROOM_NOTES 400000u
#define PAGE_ROOM_TAGS 400000u
#define PAGE_ROOM_WATCHES 1000000u  /* a row each, */
#define PAGE_ROOM_PICTURES 2000000u /* and their values over time, and names of values */
#define PAGE_ROOM_THREADS 400000u
#define PAGE_ROOM_TEXTS 2000000u /* of frames */
#define PAGE_ROOM_FRAMES 3000000u
#define PAGE_ROOM_STACKS 2000000u
#define PAGE_ROOM_SITES 3000000u
#define PAGE_ROOM_LISTINGS 1500000u

/* How a '<' in the data is written, which could begin a tag. */
#define PAGE_ESCAPED_LESS "\\u003c"

struct page_room {
	struct json *j;
	size_t left;
	size_t start; /* of the row */
	bool comma;
};

void page_room_begin(struct page_room *r, struct json *j, size_t bytes);

/* Around each row. False: it did not fit, and is not there. */
void page_row_begin(struct page_room *r);
bool page_row_end(struct page_room *r);

/* What stands in @j from @start on takes so much of the page. */
size_t page_cost(const struct json *j, size_t start);

#endif
