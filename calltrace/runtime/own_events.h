/*
 * own_events - the types of events that the program has named, and the byte that turns their recording on. Types are
 * added under the runtime's lock and never removed.
 */
#ifndef CALLTRACE_RUNTIME_OWN_EVENTS_H
#define CALLTRACE_RUNTIME_OWN_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#define EVENT_TEXT_MAX 255u /* bytes of a name or a format */

struct event_type_text;

/* All of them, for who reads a dump of the memory; *@used: the address of how many there are. */
const struct event_type_text *own_events_table(uint64_t *used);

/*
 * The type, new or of before, >= 0; -EINVAL, -ENOSPC or -ENOMEM. @format may be NULL: PROBE_SOURCE_FORMAT. *@is_new: it
 * was not there before.
 */
int own_events_add(const char *name, const char *format, bool *is_new);

/* False: there is no such type. */
bool own_events_get(unsigned int type, const char **name, const char **format);

/* Async-signal-safe. */
void own_events_switch(bool on);

#endif
