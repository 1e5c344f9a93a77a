/*
 * site_stats - what `watchctl top` shows: for each place in the code that accessed a watch in one way (a
 * site, as in site_index.h) its count, its rate, its threads, its values and stacks, and where it stood last.
 *
 * Meant to be fed for days: everything is bounded, and what does not fit is counted where the bound is, so
 * that a display can say so. The counts of a site, of a watch and of all are always exact.
 */
#ifndef WATCHCTL_VIEW_TABLE_SITE_STATS_H
#define WATCHCTL_VIEW_TABLE_SITE_STATS_H

#include "watchctl/base/map64.h"
#include "watchctl/view/event/annotate.h"
#include "watchctl/view/table/site_index.h"
#include "watchctl/view/table/site_stats_rate.h"
#include "watchctl/view/table/site_stats_stacks.h"
#include "watchctl/view/table/site_stats_values.h"

#define SITE_STATS_SITES 4096u	   /* further ones are only counted, all together */
#define SITE_STATS_WATCHES 64u	   /* likewise */
#define SITE_STATS_THREADS 262144u /* threads of all sites together; a site then has "more" */
#define SITE_STATS_FRAMES 400000u  /* of the different stacks of all sites together */
#define SITE_STATS_NOTE 512u	   /* bytes of the last note */

/* The last access of a site. */
struct site_last {
	struct view_time time;
	int32_t pid, tid;
	char comm[COMM_LEN]; /* as it was recorded; "": unknown */
	uint64_t addr;
	uint32_t size;
	bool has_old, has_new, old_uncertain;
	uint8_t withheld; /* WITHHELD_ */
	bool displaced;	  /* registers and stack are those of a later moment */
	bool in_kernel;
	int32_t syscall;	  /* in_kernel; -1: none */
	char kernel_function[64]; /* in_kernel, as it was recorded; "": not known */
	uint64_t old_value, new_value;
	struct regs regs; /* after the access */
};

struct site_stat {
	struct site_key key; /* first */
	uint32_t number; /* 1.., in the order in which they were first seen: what a display remembers it by */

	uint64_t count;
	uint32_t nthreads;
	bool more_threads; /* nthreads is what was counted before the bound was reached */
	struct view_time first;
	struct site_last last;
	struct site_rate rate;
	struct site_values values;
	struct site_stacks stacks;

	struct map64 tids; /* not of copies */
	uint64_t last_tid; /* key in tids, plus 1 */
};

struct watch_stat {
	const struct view_watch *watch;
	uint64_t count, lost;
	struct site_rate rate;
	bool has_summary;
	struct view_summary summary;
};

struct site_stats {
	struct annotate *annotate; /* that feeds it: names pointers in values */
	struct site_stat **v;
	size_t n, cap;
	struct watch_stat watch[SITE_STATS_WATCHES]; /* in the order in which they were reported */
	size_t nwatches;
	struct site_rate rate;
	uint64_t total;	   /* accesses */
	uint64_t unlisted; /* of them, those of sites that are not in v */
	uint64_t lost;	   /* accesses */
	uint64_t captures, probes, calls;
	bool incomplete; /* memory ran out: some threads, values or stacks are not counted */

	int32_t pid; /* of the first process reported; 0: none yet */
	char comm[COMM_LEN], host[64], command[256];
	uint64_t begun_ns, now_ns;  /* CLOCK_MONOTONIC of the recording machine; 0: nothing came yet */
	char note[SITE_STATS_NOTE]; /* the last one; "": none */
	struct view_time note_time;
	uint64_t notes;

	/* Not of copies. */
	struct site_index index;
	size_t threads_left, frames_left;
	bool is_copy;
};

/* @a: the annotate that will feed it, with ANNOTATE_STACK and ANNOTATE_TEXT; it outlives @s. */
void site_stats_init(struct site_stats *s, struct annotate *a);

struct view site_stats_view(struct site_stats *s);

/* Time goes on, also while nothing happens: rates and graphs are those of @now_ns, if it is later than all
 * events. */
void site_stats_at(struct site_stats *s, uint64_t now_ns);

/*
 * All that can be shown, as it is now, for a display that stands still while @s goes on; @s must outlive it.
 * False: no memory, *@ret is empty.
 */
bool site_stats_copy(const struct site_stats *s, struct site_stats *ret);

/* The site @number; NULL: there is none. */
const struct site_stat *site_stats_get(const struct site_stats *s, uint32_t number);

/* Accesses a second, now. */
double site_stat_rate(const struct site_stats *s, const struct site_stat *site);

/* "41 -> 42", "42", "42 (same)", "?": the last access. */
void site_stat_change(const struct site_stats *s, const struct site_stat *site, char *buf, size_t cap);

/* "set_flag+26", "libfoo.so+0x1234", "then 0x7f..": clean text. */
void site_stat_place(const struct site_stat *site, char *buf, size_t cap);

void site_stats_deinit(struct site_stats *s);

#endif
