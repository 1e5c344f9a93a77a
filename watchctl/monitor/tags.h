/*
 * tags - collects the tagged stacks of one process: finds the copies of libstackwalk in its modules, those
 * that come later included, and runs a collector on each. Nothing in the process is stopped, mapped or
 * opened.
 */
#ifndef WATCHCTL_MONITOR_TAGS_H
#define WATCHCTL_MONITOR_TAGS_H

#include <signal.h>
#include <sys/types.h>

#include "watchctl/trace/tags/tag_collector.h"

struct tags_options {
	pid_t pid;
	unsigned int frames; /* 1..CAPTURE_FRAMES */
	size_t ring_size;    /* for each thread */
	struct tag_table *tags;
	const volatile sig_atomic_t *stop; /* may be NULL */
};

enum tags_state {
	TAGS_RUN,	 /* or waiting for a library to be loaded */
	TAGS_ENDED,	 /* the program has ended, or executed another */
	TAGS_SUPPLANTED, /* another collector has taken the place of ours */
};

struct tags_poll {
	enum tags_state state;
	uint64_t wait_ns;
	uint64_t until_ns; /* see struct tag_poll */
};

struct tags;

/* Whether a copy of the library is mapped. WC_ETARGET, WC_EPERM: its modules cannot be read. */
struct wc_error *tags_present(pid_t pid, bool *ret);

/*
 * Begins with all copies that are there. WC_EPERM: the process's memory may
 * not be read and written; WC_ENOTSUP: somebody else collects, or the library is of another version.
 */
struct wc_error *tags_open(const struct tags_options *o, struct event_sink sink, struct tags **ret);

/* How many copies of the library were found so far, whatever has become of them. */
unsigned int tags_found(const struct tags *t);

/* The file of the first of them, without its folder; NULL while there is none. */
const char *tags_first(const struct tags *t);

/* A library is mapped, but not ready yet: it will be found. */
bool tags_may_come(const struct tags *t);

/* Puts what is there; looks for new libraries from time to time. */
struct wc_error *tags_poll(struct tags *t, struct tags_poll *ret);

/* Puts the rest. The program is as before. */
struct wc_error *tags_stop(struct tags *t);

/* After the stop: adds to @sum. */
void tags_counts(const struct tags *t, struct tag_counts *sum);

void tags_free(struct tags *t); /* accepts NULL */

#endif
