/* page_clock - the time of a page: nanoseconds since the first event that was told. */
#ifndef WATCHCTL_VIEW_PAGE_PAGE_CLOCK_H
#define WATCHCTL_VIEW_PAGE_PAGE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/view/event/replay.h"
#include "watchctl/view/event/view.h"
#include "watchctl/view/words/json.h"

/* Zero-initialised: nothing was told. */
struct page_clock {
	bool has_begin;
	struct view_time begin;
	uint64_t end_ns; /* of the latest event */
};

/* The first one begins the page. One from before that has 0, as its clock begins there. */
uint64_t page_clock_ns(struct page_clock *c, struct view_time t);

/* The same of a time that was told before. */
uint64_t page_clock_past_ns(const struct page_clock *c, struct view_time t);

/* "made_ms", "begin_real_us", "end_ns": for the page's script. */
void page_clock_json(const struct page_clock *c, struct json *j);

/* "truncated", "ignored": where the log does not go on. Accepts NULL. */
void page_ending_json(const struct replay_ending *ending, struct json *j);

#endif
