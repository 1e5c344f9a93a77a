/*
 * repl_feed - the events of a log, as they come: numbered from 1 on, counted by site, printed as many as can
 * be read, and found again by their number.
 */
#ifndef WATCHCTL_CLI_REPL_REPL_FEED_H
#define WATCHCTL_CLI_REPL_REPL_FEED_H

#include <stdio.h>

#include "watchctl/view/event/annotate.h"
#include "watchctl/view/print/printer.h"

#define FEED_PER_SECOND 20u
#define FEED_PER_SECOND_OF_MANY 3u /* when there were more than those the second before */

enum feed_mode { FEED_ON, FEED_OFF, FEED_SUMMARY };

struct repl_feed;

/* Follows the log at @path, which must outlive it. */
struct wc_error *feed_open(const char *path, bool colour, enum insn_syntax syntax, struct repl_feed **ret);
void feed_close(struct repl_feed *f); /* accepts NULL */

enum feed_state {
	FEED_MORE,  /* there is more to read at once */
	FEED_WAITS, /* for what the recorder will write */
	FEED_ENDED, /* the log ends here */
};

/*
 * Reads on for about @budget_ns, and prints to @out what is to be printed now, in lines that fit @width
 * columns (0: as long as they are). Errors as of tracelog_next().
 */
struct wc_error *feed_pump(struct repl_feed *f, uint64_t budget_ns, unsigned int width, FILE *out,
			   enum feed_state *ret);

/* Prints what was held back for this second. */
void feed_settle(struct repl_feed *f, FILE *out);

void feed_set_mode(struct repl_feed *f, enum feed_mode mode);
enum feed_mode feed_mode(const struct repl_feed *f);

/* It has reported which process it is of. */
bool feed_has_begun(const struct repl_feed *f);

/* Events with a number so far: accesses and captures. */
uint64_t feed_count(const struct repl_feed *f);

/* How many of them the watch @id has. */
uint64_t feed_count_of(const struct repl_feed *f, uint32_t id);

/* As it was armed last; NULL: not yet. */
const struct view_watch *feed_watch(const struct repl_feed *f, uint32_t id);

/* The tags of captures so far, by number from 0 on; NULL: no more. */
const char *feed_tag(const struct repl_feed *f, size_t i);

/*
 * Reads the event @number again and hands it to @v, whose access or capture is called. WC_ENAME: there is no
 * such event, or it is no longer at hand.
 */
struct wc_error *feed_again(struct repl_feed *f, uint64_t number, struct view v);

/* The table by site. */
void feed_sites(struct repl_feed *f, unsigned int width, FILE *out);

/* Names the code of the process: in a view of feed_again(), as it was at the event. The feed's. */
struct symbolizer *feed_symbolizer(struct repl_feed *f);

#endif
