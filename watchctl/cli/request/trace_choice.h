/*
 * trace_choice - the options that say which functions are traced, and how often each may be called: the same for every command that traces
 * calls. A command's table of options holds the table below, for the struct trace_choice in its request.
 */
#ifndef WATCHCTL_CLI_REQUEST_TRACE_CHOICE_H
#define WATCHCTL_CLI_REQUEST_TRACE_CHOICE_H

#include "watchctl/cli/options/options.h"
#include "watchctl/cli/request/functions_file.h"
#include "watchctl/monitor/calls/call_trace.h"

struct trace_names {
	const char **v; /* owned; the texts are not */
	size_t n, cap;
};

struct trace_choice {
	struct trace_names in, source, function, without;
	struct functions_file from;
	uint64_t min_size, max_rate;
};

/* --in --source --function --not --functions-from --min-size --max-rate */
extern const struct option trace_choice_options[];

/* With the defaults. */
void trace_choice_init(struct trace_choice *q);

/* When all options are set, once: adds what files chose. */
struct wc_error *trace_choice_finish(struct trace_choice *q);

/* Points into @q. */
struct call_selection trace_choice_selection(const struct trace_choice *q);
void trace_choice_deinit(struct trace_choice *q);

/* Bytes of call_trace_options.buffer where nothing else is asked for. */
uint64_t trace_choice_buffer(void);

/* On standard error: what is traced from now on; at the end, how many calls there were. */
void trace_say_begun(const struct call_trace *t);
void trace_say_counts(const struct call_trace_counts *c);

#endif
