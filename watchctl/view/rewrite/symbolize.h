/*
 * symbolize - the names of all code addresses in a log, from build ids, stored in the log. The job of
 * `watchctl symbolize`; what it found is handed out for printing.
 */
#ifndef WATCHCTL_VIEW_REWRITE_SYMBOLIZE_H
#define WATCHCTL_VIEW_REWRITE_SYMBOLIZE_H

#include "watchctl/base/error.h"
#include "watchctl/base/progress.h"
#include "watchctl/code/symbols/symbolizer.h"
#include "watchctl/trace/log/tracelog.h"

struct symbolize_options {
	const struct symbol_search *search; /* NULL: the usual places */
	/*
	 * Of a recording that has just ended: only what it has lost (symbolizer_find_lost()) is named, from the files that
	 * it keeps. NULL: all that the log names.
	 */
	const struct symbolizer *live;
	bool dry_run; /* do not store anything */
	const struct symbol_progress *progress;
	struct progress *reading; /* how far reading the log is; NULL: nobody looks */
};

/* A code address of the log, in the terms of struct symbol_event. */
struct symbolize_address {
	const char *module;
	const uint8_t *build_id;
	uint8_t build_id_len;
	uint64_t address; /* in the file; of a return address, the byte before it */
	uint64_t start;	  /* of the function, in the file; 0: unknown */
	size_t nframes;
	const struct frame_name *frame;
};

struct symbolize_module {
	struct symbol_source src;
	size_t addresses, named, with_lines;
	bool not_recognised; /* it has no build id, and the file at its path need not be the same */
};

struct symbolize_totals {
	size_t addresses, named, with_lines;
	size_t outside; /* addresses in no module: nothing can be known about them */
	bool stored;
};

struct symbolize; /* holds all of it */

/*
 * Reads the log at @path as far as it is whole, resolves, and stores. WC_ELOG: no such log, or it cannot be
 * written to.
 */
struct wc_error *symbolize_log(const char *path, const struct symbolize_options *opt, struct symbolize **ret);

/* Sorted by module and address; each one once. */
const struct symbolize_address *symbolize_addresses(const struct symbolize *s, size_t *n);

/* Those with most addresses first. */
const struct symbolize_module *symbolize_modules(const struct symbolize *s, size_t *n);

const struct symbolize_totals *symbolize_totals(const struct symbolize *s);

/* What of the log could not be read. Lives as long as @s. */
const struct log_damage *symbolize_damage(const struct symbolize *s);

void symbolize_free(struct symbolize *s); /* accepts NULL */
void symbolize_freep(struct symbolize **s);

#endif
