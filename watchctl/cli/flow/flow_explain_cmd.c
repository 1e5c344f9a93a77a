#include "watchctl/cli/flow/flow_explain_cmd.h"

#include <time.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/cli/flow/explain_print.h"
#include "watchctl/flow/explain/explanation.h"
#include "watchctl/flow/explain/look.h"
#include "watchctl/target/proc/proc.h"

#define BETWEEN_NS 200000000u
#define BETWEEN_MOST_NS 60000000000u
#define FRAMES_TEXT 16u
#define CULPRITS_TEXT 3u
#define MS 1000000u

const struct option flow_explain_options[] = {
	{ "--between", NULL, "TIME",
	  "explain: so long between the two looks that tell who runs (default 200ms)", COMPLETE_NOTHING, NULL,
	  OPTION_TIME(struct flow_explain_ask, between_ns) },
	{ "--frames", NULL, "N", "explain: most frames of a stack, 1 to 128 (default 16; with --json all)",
	  COMPLETE_NOTHING, NULL, OPTION_NUMBER(struct flow_explain_ask, frames, 1, LOOK_FRAMES) },
	{ "--no-stack", NULL, NULL, "explain: no stacks", 0, NULL,
	  OPTION_FLAG(struct flow_explain_ask, no_stack) },
	{ 0 },
};

static struct wc_error *print_explanation(const struct flow_explain_ask *q, const struct explanation *e,
					  const struct look *l, uint64_t looked_ns)
{
	struct explain_show show = {
		.all = q->all,
		.no_stack = q->no_stack,
		.frames = q->frames || q->json ? q->frames : FRAMES_TEXT,
		.culprits = q->all || q->json ? 0 : CULPRITS_TEXT,
		.colour = q->colour,
	};
	const char *without = look_without_kernel(l);

	return q->json ? explain_print_json(e, &show, without, looked_ns)
		       : explain_print_text(e, &show, without);
}

struct wc_error *flow_explain_run(struct flow_explain_ask *q)
{
	scoped(look_freep) struct look *look = NULL;
	scoped(explanation_freep) struct explanation *e = NULL;
	struct wc_error *err;
	uint64_t looked_ns;

	if (!q->between_ns)
		q->between_ns = BETWEEN_NS;
	if (q->between_ns > BETWEEN_MOST_NS)
		return wc_error_new(WC_EUSAGE, "--between takes at most a minute: a hang shows in two looks");
	err = proc_check(q->pid);
	if (!err)
		err = look_new(q->pid, (unsigned int)(q->between_ns / MS), NULL, &look);
	if (err)
		return err;
	looked_ns = clock_ns(CLOCK_REALTIME);
	err = explanation_new(look, q->pid, &e);
	return err ? err : print_explanation(q, e, look, looked_ns);
}
