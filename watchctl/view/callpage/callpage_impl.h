/* callpage_impl - what callpage.c collects, and callpage_json.c puts into the page. */
#ifndef WATCHCTL_VIEW_CALLPAGE_CALLPAGE_IMPL_H
#define WATCHCTL_VIEW_CALLPAGE_CALLPAGE_IMPL_H

#include "watchctl/view/callpage/callpage.h"
#include "watchctl/view/callpage/callpage_calls.h"
#include "watchctl/view/callpage/callpage_texts.h"
#include "watchctl/view/page/page_clock.h"
#include "watchctl/view/page/page_tables.h"
#include "watchctl/view/words/json.h"

#define CALLPAGE_FUNCTIONS 100000u /* that have a name of their own; calls of others are left out */
#define CALLPAGE_MARKS 2000u	   /* signals, threads that stand */
#define CALLPAGE_NOTES 1000u
#define CALLPAGE_OUTER 50000u /* calls with the callers outside of the recording */

struct callpage_function {
	const struct view_function *f;
	uint32_t *param_type; /* texts; of param_types parameters */
	uint32_t param_types;
	uint32_t return_type;
	uint64_t calls; /* all of the log */
};

/* Something that happened in a thread at a time, during call number @call. */
struct callpage_mark {
	uint32_t thread, text;
	uint64_t ns, call;
};

struct callpage_note {
	char *text;
	uint64_t ns, lost;
};

/* Who called call number @call of the page, outside of what was recorded: lines of a text. */
struct callpage_outer {
	uint32_t call, text;
};

struct callpage {
	struct callpage_options opt;
	bool no_memory; /* some of it is missing: the page is not written */
	struct page_clock clock;
	char *range, *filters, *stepper, *cmdline, *host;
	int32_t pid;
	uint64_t processes, calls, steps, accesses, captures;
	uint64_t wait_stacks; /* so many of the captures, see flow_stack_tag.h */

	struct page_tables tables; /* of it, threads */
	struct callpage_function *function;
	size_t nfunctions, function_cap;
	struct map64 by_function; /* struct view_function -> number + 1 */
	struct callpage_texts texts;
	struct callpage_calls kept;
	struct callpage_mark *mark;
	size_t nmarks, mark_cap;
	struct callpage_note *note;
	size_t nnotes, note_cap;
	struct callpage_outer *outer;
	size_t nouter, outer_cap;
	uint64_t marks_left_out, notes_left_out;
};

/* callpage_json.c: all but the columns, the values and the texts; and the texts. False: no memory. */
bool callpage_json(const struct callpage *p, const struct replay_ending *ending,
		   const size_t column[CALLPAGE_COLUMNS], struct json *j);
bool callpage_texts_json(const struct callpage *p, struct json *j);

#endif
