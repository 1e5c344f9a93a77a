/*
 * export_select - which events of a log are exported: a view that passes on what was chosen. Watches and tags
 * as in report: of neither kind chosen, all of both; when one is chosen, the other kind is left out unless it
 * is chosen as well, and so are calls. What reports about the recording as a whole (process, armed watches,
 * threads, summaries, losses, notes) is passed on in any case, but for that of other watches.
 */
#ifndef WATCHCTL_VIEW_EXPORT_EXPORT_SELECT_H
#define WATCHCTL_VIEW_EXPORT_EXPORT_SELECT_H

#include "watchctl/view/event/step_filter.h"
#include "watchctl/view/export/export_time.h"

struct export_choice {
	const char *watch;	/* its name or full name; NULL: none */
	const char *const *tag; /* names, or numbers as people write them */
	size_t ntags;
	const char *thread;	/* its number or name; NULL: all */
	const char *function;	/* only calls of functions of that name (fnmatch), with all inside; NULL */
	bool may_have_no_calls; /* a function that a log without calls does not have is no error */
	uint32_t depth;		/* only so many levels of calls; 0: all */
	struct export_time from, until;
};

struct export_select;

/* Texts in @choice, and @to, must outlive it. NULL: no memory. */
struct export_select *export_select_new(const struct export_choice *choice, struct view to);

struct view export_select_view(struct export_select *s);

/* The first error of a callback: a time that cannot be resolved, no memory. The caller's then; once. */
struct wc_error *export_select_take_error(struct export_select *s);

/* After the last event. WC_ENAME: what was chosen is not in @log. */
struct wc_error *export_select_check(const struct export_select *s, const char *log);

/* Passed on so far; and lost by the recording, as its summaries tell, of the watches and captures chosen. */
uint64_t export_select_accesses(const struct export_select *s);
uint64_t export_select_captures(const struct export_select *s);
uint64_t export_select_calls(const struct export_select *s);
uint64_t export_select_probes(const struct export_select *s);
uint64_t export_select_lost(const struct export_select *s);

/* Accepts NULL. */
void export_select_free(struct export_select *s);
void export_select_freep(struct export_select **s);

#endif
