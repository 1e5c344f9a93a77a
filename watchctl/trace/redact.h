/*
 * redact - keeps values out of what is recorded, printed or handed on: a sink in front of another.
 *
 * The output has no values of memory and no registers except rip: for everything (--no-values), or for chosen
 * watches, tags and functions (--redact). What the registers say about an access (kind, instruction) is
 * determined before they are dropped, and kept. Addresses, names, stacks and times are kept.
 *
 *	watch		its value when armed, old and new values; of other watches, too, where they overlap it
 *	registers	of every access in the stream, whatever it accesses: a secret is in a register before it is stored
 *	function	parameters, result and errno of its calls, and of all calls made inside of them
 *	tag		the values of its captures
 *	probes		arguments, texts and values of all of them, whatever is chosen: they come from registers and memory
 *	all		also the command line but for the program, and instructions that are in no file
 */
#ifndef WATCHCTL_TRACE_REDACT_H
#define WATCHCTL_TRACE_REDACT_H

#include <stddef.h>

#include "watchctl/trace/event.h"

struct redact_rules {
	bool all;
	const char *const *name; /* names or patterns ('*password*') of watches, functions and tags */
	size_t n;
};

static inline bool redact_is_asked(const struct redact_rules *r)
{
	return r->all || r->n;
}

/*
 * A watch is meant by its whole expression, or by a part of it: password, server.password, app.c:password;
 * a function by its name with or without its parameters and scopes.
 */
bool redact_names_watch(const char *pattern, const char *expr);
bool redact_names_function(const char *pattern, const char *name);
bool redact_names_tag(const char *pattern, const char *name);

struct redact;

/*
 * @rules are copied, but for the texts, which must outlive it. Watches that say so themselves
 * (watch_event.withheld) are withheld too. The first event is followed by a note that says what is withheld.
 */
struct wc_error *redact_new(const struct redact_rules *rules, struct event_sink next, struct redact **ret);
struct event_sink redact_sink(struct redact *r);

/* A pattern that has matched nothing so far, the first from *@from on, which is moved behind it; NULL: none.
 */
const char *redact_unused(const struct redact *r, size_t *from);

/* Accepts NULL. */
void redact_free(struct redact *r);

#endif
