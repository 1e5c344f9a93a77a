/*
 * export - a recorded log in the form of another tool: accesses, captures and calls, chosen by watch, tag,
 * thread and time, written once through, in bounded memory.
 *
 * The log is read in the order of times (reorder); names may be anything and always give valid output: see
 * watchctl-export(1) for what each format holds and how.
 */
#ifndef WATCHCTL_VIEW_EXPORT_EXPORT_H
#define WATCHCTL_VIEW_EXPORT_EXPORT_H

#include <signal.h>

#include "watchctl/base/progress.h"
#include "watchctl/view/event/replay.h"
#include "watchctl/view/export/export_out.h"
#include "watchctl/view/event/event_choice.h"

/* In the order of EXPORT_FORMATS. */
enum export_format {
	EXPORT_CHROME,
	EXPORT_FOLDED,
	EXPORT_SPEEDSCOPE,
	EXPORT_CSV,
	EXPORT_JSONL,
	EXPORT_DOT,
	EXPORT_PERF_SCRIPT,
	EXPORT_CALLGRIND,
	EXPORT_PERFETTO,
};

#define EXPORT_FORMATS "chrome folded speedscope csv jsonl dot perf-script callgrind perfetto"

struct export_options {
	const char *name; /* of the log, as people know it; NULL: its path */
	enum export_format to;
	struct event_choice choice;
	bool no_stack, regs; /* chrome, csv, jsonl, perfetto; only jsonl has registers */
	struct redact_rules redact;
	uint64_t part_bytes; /* chrome: begin another file before one becomes larger; 0: never */
	size_t nodes;	     /* dot: at most so many functions and sites */
};

struct export_result {
	uint64_t accesses, captures, calls, probes; /* exported: 0 of what the format leaves out */
	uint64_t lost; /* by the recording, of what was chosen by watch and tag */
	struct replay_ending ending;
};

/*
 * Reads the log at @log and writes it to @out, which the caller commits or discards. @p is told how far it
 * is.
 * *@stop, if set (a signal), ends it: WC_EFAIL. WC_ENAME: a watch, tag, thread or function that is chosen is
 * not in the log.
 */
struct wc_error *export_log(const char *log, const struct export_options *opt, struct export_out *out,
			    struct progress *p, const volatile sig_atomic_t *stop, struct export_result *ret);

/* The file name's ending for a format: "json". */
const char *export_suffix(enum export_format to);

/* True if that form needs no stacks, and can be known to leave them out. */
bool export_has_stack_option(enum export_format to);

/* True if that form is no text: nothing that a terminal could show. */
bool export_is_binary(enum export_format to);

#endif
