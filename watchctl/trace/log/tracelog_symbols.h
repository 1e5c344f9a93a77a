/*
 * tracelog_symbols - the names of code addresses, kept in the log beside its events (LOG/symbols): a second
 * stream file of the same trace, made whenever somebody asks for it and replaced as a whole.
 */
#ifndef WATCHCTL_TRACE_LOG_TRACELOG_SYMBOLS_H
#define WATCHCTL_TRACE_LOG_TRACELOG_SYMBOLS_H

#include "watchctl/trace/event.h"

/*
 * Puts what the log @path has into @sink; nothing, if it has none. *@why (a phrase, NULL: whole) shows why
 * some of it could not be read.
 */
struct wc_error *tracelog_symbols_read(const char *path, struct event_sink sink, const char **why);

struct tracelog_symbols;

/*
 * Begins new ones for the log @path, under another name; its events get @time_ns, that of the log's
 * first event. WC_ELOG: the log cannot be written to.
 */
struct wc_error *tracelog_symbols_create(const char *path, uint64_t time_ns, struct tracelog_symbols **ret);

struct wc_error *tracelog_symbols_put(struct tracelog_symbols *s, const struct symbol_event *e);

/* They take the place of the old ones, all at once. After an error these are still there. Frees @s. */
struct wc_error *tracelog_symbols_commit(struct tracelog_symbols *s);

/* Forgets them. Accepts NULL. */
void tracelog_symbols_discard(struct tracelog_symbols *s);
void tracelog_symbols_discardp(struct tracelog_symbols **s);

#endif
