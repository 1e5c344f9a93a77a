#include "watchctl/cli/request/step_said.h"

#include <inttypes.h>
#include <stdio.h>

#include "watchctl/base/error.h"
#include "watchctl/base/words/plural.h"
#include "watchctl/cli/output/output.h"

static void print_ends(char *buf, size_t len, const struct step_range_said *s)
{
	const struct step_request *q = s->request;

	if (q->from && q->to)
		snprintf(buf, len, "%s was reached %" PRIu64 " time%s, %s %" PRIu64 " time%s", q->from,
			 s->from_seen, plural(s->from_seen), q->to, s->to_seen, plural(s->to_seen));
	else
		snprintf(buf, len, "%s was reached %" PRIu64 " time%s", q->from ? q->from : q->to,
			 q->from ? s->from_seen : s->to_seen, plural(q->from ? s->from_seen : s->to_seen));
}

struct wc_error *step_range_verdict(const struct step_range_said *s)
{
	char ends[512];

	if (s->request->from && !s->recorded) {
		print_ends(ends, sizeof(ends), s);
		return wc_error_new(WC_ETARGET, "the range was never %s: %s%s",
				    s->occurrences ? "recorded, only skipped" : "entered", ends,
				    s->end == SESSION_EXITED ? ", and the process has ended" : "");
	}
	if (s->request->to && s->occurrences && !s->to_seen)
		output_say(NULL, "%s was never reached: the range ended otherwise", s->request->to);
	if (s->end == SESSION_EXECED)
		return wc_error_new(WC_ETARGET,
				    "the process has executed another program: the recording ended there");
	return NULL;
}

void step_said_addresses(enum same_addresses addresses)
{
	if (addresses == SAME_ADDRESSES_NOT)
		output_say(
			NULL,
			"the program's addresses are random, as with --aslr: the kernel does not permit us to "
			"switch that off here; hashes of addresses and memory that was never set will differ between runs");
	else if (addresses == SAME_ADDRESSES_INHERITED)
		output_say(NULL,
			   "programs that this one executes have the same addresses each time, too: that "
			   "setting could not be taken back");
}
