/* top_calls_impl - what the table of calls and its screen share: what is shown, in which order, as text. */
#ifndef WATCHCTL_CLI_TOP_TOP_CALLS_IMPL_H
#define WATCHCTL_CLI_TOP_TOP_CALLS_IMPL_H

#include "watchctl/cli/top/top_calls.h"
#include "watchctl/monitor/calls/call_trace.h"
#include "watchctl/session/session.h"
#include "watchctl/view/print/text_table.h"
#include "watchctl/view/table/call_times.h"

#define TOP_CALLS_CELL 600 /* bytes of a cell, or of a line */

/* The first ones are those of enum call_times_order. */
enum top_calls_cell { CELL_OPEN = CALL_TIMES_LONGEST + 1, CELL_FUNCTION, CELL_MODULE, CELLS };

extern const struct text_column top_calls_columns[CELLS];

struct top_calls {
	const struct top_calls_ask *ask;
	struct call_times times;
	struct call_trace *trace;	 /* NULL: it is over */
	struct call_trace_counts counts; /* so far; at the end, all */
	enum session_end end;
	uint64_t begun_ns, ended_ns; /* ended: 0, not yet */
	enum call_times_order by;
	bool reversed, quit, hurry;
	size_t first; /* row at the top of the screen */
	size_t rows;  /* that fit it */
	uint64_t drawn_ns;
};

/* By the column that was chosen. */
void top_calls_sort(struct top_calls *t);

/* As struct text_table has it; @rows: the struct top_calls. */
void top_calls_cell(const void *rows, size_t row, int cell, char *buf, size_t cap);

/* The line above the table. */
void top_calls_head(const struct top_calls *t, char *buf, size_t cap);

/* Why it ended: "the process has ended". */
const char *top_calls_end(const struct top_calls *t);

/* For struct session_limits, with a screen: takes keys, draws when it is time. @ctx: the struct top_calls. */
struct wc_error *top_calls_tick(void *ctx);

/* It has ended by itself: its table stays until the user has seen it. */
void top_calls_stay(struct top_calls *t);

#endif
