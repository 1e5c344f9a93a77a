#include <stdio.h>
#include <string.h>
#include <time.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/cli/command.h"
#include "watchctl/cli/flow/explain_print.h"
#include "watchctl/cli/output/colour.h"
#include "watchctl/flow/explain/explanation.h"
#include "watchctl/flow/explain/look.h"
#include "watchctl/target/proc/proc.h"

#define BETWEEN_NS 200000000u
#define FRAMES_TEXT 16u
#define CULPRITS_TEXT 3u
#define MS 1000000u

struct request {
	const char *word; /* "explain" */
	pid_t pid;
	uint64_t between_ns;
	uint32_t frames;
	bool all, json, no_stack;
	unsigned int colour;
};

static const struct option options[] = {
	{ "-p", "--pid", "PID", "the process that hangs", COMPLETE_PID, NULL,
	  OPTION_NUMBER(struct request, pid, 1, INT32_MAX) },
	{ "--all", NULL, NULL, "every thread that was looked at, and all culprits", 0, NULL,
	  OPTION_FLAG(struct request, all) },
	{ "--between", NULL, "TIME", "so long between the two looks that tell who runs (default 200ms)",
	  COMPLETE_NOTHING, NULL, OPTION_TIME(struct request, between_ns) },
	{ "--frames", NULL, "N", "most frames of a stack, 1 to 128 (default 16; with --json all)",
	  COMPLETE_NOTHING, NULL, OPTION_NUMBER(struct request, frames, 1, LOOK_FRAMES) },
	{ "--no-stack", NULL, NULL, "no stacks", 0, NULL, OPTION_FLAG(struct request, no_stack) },
	{ "--json", NULL, NULL, "one JSON object a line", 0, NULL, OPTION_FLAG(struct request, json) },
	{ "--color", NULL, "WHEN", "colours: auto, always or never", COMPLETE_WORDS, COLOUR_WORDS,
	  OPTION_CHOICE(struct request, colour) },
	{ 0 },
};

static struct wc_error *take_word(void *request, const char *word)
{
	struct request *q = request;

	if (q->word)
		return wc_error_new(WC_EUSAGE,
				    "flow explain takes options only: \"%s\" is none (give -p PID)", word);
	if (strcmp(word, "explain") != 0)
		return wc_error_new(WC_EUSAGE,
				    "flow does not know \"%s\": there is watchctl flow explain -p PID", word);
	q->word = word;
	return NULL;
}

static struct wc_error *check_request(const struct request *q)
{
	if (!q->word)
		return wc_error_new(WC_EUSAGE, "flow what? There is watchctl flow explain -p PID");
	if (!q->pid)
		return wc_error_new(WC_EUSAGE, "explain which process? Give -p PID");
	if (q->between_ns > 60000000000u)
		return wc_error_new(WC_EUSAGE, "--between takes at most a minute: a hang shows in two looks");
	return proc_check(q->pid);
}

static struct wc_error *print_explanation(const struct request *q, const struct explanation *e,
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

static struct wc_error *cmd_flow_run(int argc, char **argv)
{
	struct request q = { .between_ns = BETWEEN_NS };
	scoped(look_freep) struct look *look = NULL;
	scoped(explanation_freep) struct explanation *e = NULL;
	struct wc_error *err = option_parse(argc, argv, options, &q, take_word);
	uint64_t looked_ns;

	if (!err)
		err = check_request(&q);
	if (!err)
		err = look_new(q.pid, (unsigned int)(q.between_ns / MS), NULL, &look);
	if (err)
		return err;
	looked_ns = clock_ns(CLOCK_REALTIME);
	err = explanation_new(look, q.pid, &e);
	return err ? err : print_explanation(&q, e, look, looked_ns);
}

const struct command cmd_flow = {
	.name = "flow",
	.args = "explain -p PID [options]",
	.summary = "say why a process hangs: who waits for whom, across processes",
	.help = "explain looks at a process that hangs now, and at whoever it waits for: locks and their owners, pipes,\n"
		"sockets, children, file locks. Nothing needs to have been recorded, and no thread that sleeps is stopped.\n"
		"watchctl-flow(1) says what is known of which wait, and what cannot be known.\n",
	.options = options,
	.operand = COMPLETE_NOTHING,
	.run = cmd_flow_run,
};
