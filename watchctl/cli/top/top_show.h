/* top_show - shows a log while it grows, until the user has enough: on a screen, or, without one, in lines.
 */
#ifndef WATCHCTL_CLI_TOP_TOP_SHOW_H
#define WATCHCTL_CLI_TOP_TOP_SHOW_H

#include <signal.h>

#include "watchctl/cli/top/top_session.h"
#include "watchctl/view/table/site_stats_feed.h"

struct top_show {
	struct site_feed *feed;
	struct top_session *session; /* NULL: somebody else records, or nobody any more */
	uint64_t delay_ns;	     /* between pictures, tables or objects */
	const volatile sig_atomic_t *stop;
	char end[256]; /* how the session ended; "": not known, or it has not */
};

/* On the screen, which is open (top_screen.h). Returns when the user has enough, or the terminal has gone. */
struct wc_error *top_show_screen(struct top_show *o);

/*
 * Tables for people, or with @json one object a line, to standard output, until the recording ends; without
 * the last one, which is printed when all is read.
 */
struct wc_error *top_show_lines(struct top_show *o, bool json);
void top_show_last(struct top_show *o, bool json);

/* Looks at the session: @o->end. */
void top_show_session(struct top_show *o);

#endif
