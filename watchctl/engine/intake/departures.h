/*
 * departures - followed children that execute another program are no longer watched. The first few are reported
 * one by one, the rest by their number: a program may start thousands.
 */
#ifndef WATCHCTL_ENGINE_INTAKE_DEPARTURES_H
#define WATCHCTL_ENGINE_INTAKE_DEPARTURES_H

#include <stdint.h>
#include <sys/types.h>

#include "watchctl/trace/event.h"

#define DEPARTURES_REPORTED 3u

struct departure {
	pid_t pid;
	uint64_t time_ns;
	char program[17];
};

struct departures {
	struct departure first[DEPARTURES_REPORTED];
	unsigned int named, reported;
	uint64_t n;
};

void departures_add(struct departures *d, pid_t pid, const char *program, uint64_t time_ns);

/* There were @n in all, as somebody else counted who knows no more of them. */
void departures_were(struct departures *d, uint64_t n);

/* The sink's error. */
struct wc_error *departures_report(struct departures *d, struct event_sink sink);     /* the first ones */
struct wc_error *departures_report_all(struct departures *d, struct event_sink sink); /* the rest, too */

#endif
