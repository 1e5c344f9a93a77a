/* snapshot - saves what a log holds, or the end of it, as a log of its own, and shows what is in that. */
#ifndef WATCHCTL_VIEW_REWRITE_SNAPSHOT_H
#define WATCHCTL_VIEW_REWRITE_SNAPSHOT_H

#include <stdio.h>

#include "watchctl/trace/log/tracelog_snapshot.h"
#include "watchctl/trace/redact.h"

struct snapshot_content {
	struct snapshot_info saved;
	uint64_t accesses, captures, probes, calls;
	uint64_t first_ns, last_ns; /* of these, CLOCK_MONOTONIC; 0: there are none */
	uint64_t realtime_ns;	    /* CLOCK_REALTIME minus CLOCK_MONOTONIC; 0: not known */
	struct log_damage damage;   /* of what was saved; all zero: not read */
};

/* As tracelog_snapshot(). */
struct wc_error *snapshot_save(const char *src, const char *dst, uint64_t last_ns, struct snapshot_info *ret);

/*
 * The same without the values that @rules withhold, which needs time and room for a log of that size.
 * *@unused is a name that nothing in it has; NULL: none.
 */
struct wc_error *snapshot_save_redacted(const char *src, const char *dst, uint64_t last_ns,
					const struct redact_rules *rules, struct snapshot_info *ret,
					const char **unused);

/* Reads the snapshot @path, whose snapshot_info is in @ret, and counts. */
struct wc_error *snapshot_count(const char *path, struct snapshot_content *ret);

struct snapshot_names {
	const char *from, *to;
	uint64_t last_ns; /* asked for; 0: all */
};

/* What was saved, in words or as one JSON object. */
void snapshot_print_text(const struct snapshot_content *s, const struct snapshot_names *n, FILE *out);
struct wc_error *snapshot_print_json(const struct snapshot_content *s, const struct snapshot_names *n,
				     FILE *out);

#endif
