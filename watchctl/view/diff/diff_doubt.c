/* Why logs without a difference need not be of runs that were the same: diff.h, diff_verdict(). */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/base/vec.h"
#include "watchctl/view/diff/diff_impl.h"

bool diff_doubt(struct diff_result *r, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		return false;
	if (vec_push(r->doubt, r->ndoubts, r->doubts_cap, text))
		return true;
	free(text);
	return false;
}

bool diff_side_is_empty(const struct diff_side *s)
{
	return !s->calls && !s->accesses && !s->captures;
}

/* What a finished recording says last: how its range ended, or the sums of its watches. */
static bool has_no_end(const struct diff_side *s)
{
	return diff_side_is_steps(s) ? s->occurrences && !s->end : s->accesses && !s->summaries;
}

static bool doubt_side(struct diff_result *r, const struct diff_side *s)
{
	if (diff_side_is_empty(s) && !s->why_calls)
		return diff_doubt(r, "%s has no call, access or capture", s->path);
	if (s->why)
		return diff_doubt(r, "%s is not whole: %s", s->path, s->why);
	if (diff_side_is_stopped(s))
		return diff_doubt(r, "the recording of %s %s", s->path,
				  s->end == RANGE_LIMIT ? "reached its limit" : "was stopped");
	if (has_no_end(s))
		return diff_doubt(r, "the recording of %s has no end: it was truncated, or is still running",
				  s->path);
	if (s->is_rest && !r->incomparable)
		return diff_doubt(r, "the calls of %s begin in the middle of the run", s->path);
	if (s->lost)
		return diff_doubt(r, "%" PRIu64 " event%s lost in the recording of %s", s->lost,
				  s->lost == 1 ? " was" : "s were", s->path);
	return true;
}

static bool doubt_filters(struct diff_result *r)
{
	const char *a = r->a->filters, *b = r->b->filters;

	return !a || !b || !strcmp(a, b) || r->incomparable ||
	       diff_doubt(r, "the logs were recorded with different filters");
}

static bool doubt_functions(struct diff_result *r)
{
	return (!diff_side_alone(r->a) && !diff_side_alone(r->b)) || r->incomparable ||
	       diff_doubt(r, "the logs were recorded of different functions");
}

struct wc_error *diff_doubt_sides(struct diff_result *r)
{
	return doubt_side(r, r->a) && doubt_side(r, r->b) && doubt_filters(r) && doubt_functions(r)
		       ? NULL
		       : &wc_enomem;
}

enum diff_verdict diff_verdict(const struct diff_result *r)
{
	return r->differs ? DIFF_DIFFERENT : r->ndoubts ? DIFF_CANNOT_TELL : DIFF_SAME;
}
