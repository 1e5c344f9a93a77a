#include "watchctl/cli/request/step_patched.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/words/plural.h"
#include "watchctl/cli/request/step_said.h"
#include "watchctl/monitor/calls/call_trace.h"

#define BUFFER (64u << 20) /* for each CPU; only what waits to be read is ever touched */

/* Of what was asked for, this is not in the recording. */
static void say_refused(const struct call_trace_counts *c)
{
	if (c->entries_refused)
		output_say(
			NULL,
			"%zu of %zu functions cannot be patched, and are not recorded (%s): --stepper ptrace records them",
			c->entries_refused, c->entries_refused + c->functions + c->over, c->why);
	if (c->unknown)
		output_say(
			NULL,
			"%zu function%s not recorded, for it is not known where their code begins and ends: --stepper ptrace records them",
			c->unknown, c->unknown == 1 ? " is" : "s are");
	if (c->exits_refused + c->results_refused)
		output_say(
			NULL,
			"%zu place%s where calls end cannot be patched: of calls that end there no result is recorded",
			c->exits_refused + c->results_refused, plural(c->exits_refused + c->results_refused));
}

static struct wc_error *verdict(const struct step_command *c, enum session_end end,
				const struct call_trace_counts *n)
{
	const struct step_range_said said = { .request = &c->request,
					      .from_seen = n->from_seen,
					      .to_seen = n->to_seen,
					      .occurrences = n->occurrences,
					      .recorded = n->recorded_occurrences,
					      .end = end };

	if (n->untyped)
		output_say(NULL,
			   "%" PRIu64
			   " functions have no debug information: their argument registers are recorded, "
			   "without names and types (%" PRIu64 " call%s)",
			   n->untyped_functions, n->untyped, plural(n->untyped));
	if (n->lost)
		output_say(NULL, "%" PRIu64 " calls were lost: the log says so", n->lost);
	return step_range_verdict(&said);
}

static struct wc_error *run(struct step_command *c, const struct call_trace_options *o, struct output *output)
{
	struct call_trace_counts counts = { 0 };
	struct call_trace *trace = NULL;
	enum session_end end = SESSION_STOPPED;
	struct wc_error *err = call_trace_open(o, output->events, &trace), *close_err;

	if (err) {
		output_discard_log(output);
		return err;
	}
	if (o->addresses)
		step_said_addresses(*o->addresses);
	c->request.pid = call_trace_pid(trace);
	call_trace_so_far(trace, &counts);
	if (c->verbose)
		output_say(NULL,
			   "%zu functions of %zu modules are recorded, calls of %zu others are stepped over",
			   counts.functions, counts.modules, counts.over);
	say_refused(&counts);
	c->request.started(c->request.started_ctx);
	err = call_trace_run(trace, &c->limits, &end);
	output->watched = !err;
	close_err = call_trace_close(trace, &counts);
	if (!err)
		err = verdict(c, end, &counts);
	return wc_error_first(err, close_err);
}

struct wc_error *step_patched_run(struct step_command *c, struct output *output)
{
	enum same_addresses addresses = SAME_ADDRESSES_NOT;
	const struct step_request *q = &c->request;
	const struct call_step_options step = { .selection = &q->selection,
						.from = q->from,
						.to = q->to,
						.occurrence = q->occurrence,
						.count = q->count,
						.one_thread = q->threads == STEPPER_THREADS_ONE,
						.depth = q->depth,
						.events = q->events,
						.no_start = q->no_inputs };
	const struct call_trace_options o = { .pid = q->pid,
					      .argv = c->argv,
					      .addresses = c->argv && !c->aslr ? &addresses : NULL,
					      .step = &step,
					      .args = true,
					      .wait = true,
					      .planner = q->planner_ops,
					      .values = q->plans,
					      .buffer = BUFFER,
					      .stop = c->limits.stop };

	return run(c, &o, output);
}
