/*
 * time_bound - a moment of a log as people write it: "+1.5s" after its beginning, the number of nanoseconds
 * that the JSON form calls time_ns, or a time of day, with or without its date.
 */
#ifndef WATCHCTL_VIEW_EVENT_TIME_BOUND_H
#define WATCHCTL_VIEW_EVENT_TIME_BOUND_H

#include "watchctl/base/error.h"
#include "watchctl/view/event/view.h"

struct time_bound {
	enum { TIME_NONE, TIME_AFTER_BEGIN, TIME_MONOTONIC, TIME_OF_DAY, TIME_DATE } kind;
	uint64_t ns;	  /* after the beginning; CLOCK_MONOTONIC; of the second */
	int date[3];	  /* year, month 1-12, day */
	int clock[3];	  /* hours, minutes, seconds */
	bool utc;	  /* else local time */
	const char *text; /* as it was written */
};

/* "+5s" "+200ms" "+3us" "+7ns" "+2m" "+1h", "123456789", "12:34:56.789", "2026-11-21T12:34:56.789Z" (or a
 * blank).
 * @utc: times without a Z are UTC, too. WC_EUSAGE names @option. */
struct wc_error *time_bound_parse(const char *option, const char *text, bool utc, struct time_bound *ret);

/*
 * As CLOCK_MONOTONIC of the log that begins at @begin; a time of day is the next one after that. WC_ENAME:
 * the log does not say what time of day it was.
 */
struct wc_error *time_bound_resolve(const struct time_bound *t, struct view_time begin, uint64_t *ret);

#endif
