/*
 * event_choice - which events of a log are looked at: a view that passes on what was chosen, so that those behind it
 * need not ask. Watches and tags: of neither kind chosen, all of both; when one is chosen, the other kind is left out
 * unless it is chosen as well, and so are calls. What reports about the recording as a whole (process, armed watches,
 * threads, summaries, losses, notes) is passed on in any case, but for that of other watches.
 */
#ifndef WATCHCTL_VIEW_EVENT_EVENT_CHOICE_H
#define WATCHCTL_VIEW_EVENT_EVENT_CHOICE_H

#include "watchctl/view/event/step_filter.h"
#include "watchctl/view/event/time_bound.h"

struct event_choice {
	const char *watch;	/* its name or full name; NULL: none */
	const char *const *tag; /* names, or numbers as people write them */
	size_t ntags;
	const char *thread;	/* its number or name; NULL: all */
	const char *function;	/* only calls of functions of that name (fnmatch), with all inside; NULL */
	bool may_have_no_calls; /* a function that a log without calls does not have is no error */
	uint32_t depth;		/* only so many levels of calls; 0: all */
	struct time_bound from, until;
	/* With each access goes the last capture under this tag by the same thread, chosen or not; NULL: none. */
	const char *before;
};

/* It leaves out something by thread, function or time: totals of the recording are not of what is left. */
bool event_choice_is_part(const struct event_choice *c);

struct event_chooser;

/* Texts in @choice, and @to, must outlive it. NULL: no memory. */
struct event_chooser *event_chooser_new(const struct event_choice *choice, struct view to);

struct view event_chooser_view(struct event_chooser *s);

/* The first error of a callback: a time that cannot be resolved, no memory. The caller's then; once. */
struct wc_error *event_chooser_take_error(struct event_chooser *s);

/* After the last event. WC_ENAME: what was chosen is not in @log. */
struct wc_error *event_chooser_check(const struct event_chooser *s, const char *log);

/* Passed on so far; and lost by the recording, as its summaries tell, of the watches and captures chosen. */
uint64_t event_chooser_accesses(const struct event_chooser *s);
uint64_t event_chooser_captures(const struct event_chooser *s);
uint64_t event_chooser_calls(const struct event_chooser *s);
uint64_t event_chooser_probes(const struct event_chooser *s);
uint64_t event_chooser_lost(const struct event_chooser *s);

/* Accepts NULL. */
void event_chooser_free(struct event_chooser *s);
void event_chooser_freep(struct event_chooser **s);

#endif
