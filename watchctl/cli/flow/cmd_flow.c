/* cmd_flow - `watchctl flow`: who waits for whom, now or in a log of the whole system. A file each for what it can do. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/cli/command.h"
#include "watchctl/cli/flow/flow_explain_cmd.h"
#include "watchctl/cli/flow/flow_record_cmd.h"
#include "watchctl/cli/output/colour.h"

#define PIDS 64

enum verb { NONE, EXPLAIN, RECORD };

static const char *const verbs[] = { [NONE] = "", [EXPLAIN] = "explain", [RECORD] = "record" };

struct request {
	enum verb verb;
	const struct option *of[RECORD + 1]; /* an option that goes with this one alone */
	pid_t pid[PIDS];
	size_t npids;
	bool all, json;
	unsigned int colour;
	struct flow_explain_ask explain;
	struct flow_record_ask record;
};

static struct wc_error *set_pid(const struct option_match *m, void *to)
{
	struct request *q = to;
	uint64_t pid;
	struct wc_error *err = option_number(m, 1, INT32_MAX, &pid);

	if (err)
		return err;
	if (q->npids == PIDS)
		return wc_error_new(WC_EUSAGE, "-p was given more than %d times", PIDS);
	q->pid[q->npids++] = (pid_t)pid;
	return NULL;
}

static struct wc_error *of_explain(const struct option_match *m, void **to)
{
	struct request *q = *to;

	q->of[EXPLAIN] = m->option;
	*to = &q->explain;
	return NULL;
}

static struct wc_error *of_record(const struct option_match *m, void **to)
{
	struct request *q = *to;

	q->of[RECORD] = m->option;
	*to = &q->record;
	return NULL;
}

static const struct option options[] = {
	{ "-p", "--pid", "PID",
	  "explain: the process that hangs; record: system calls of these processes and their children alone",
	  COMPLETE_PID, NULL, .set = set_pid },
	{ "--all", NULL, NULL,
	  "explain: every thread that was looked at, and all culprits; record: the whole system (default)", 0,
	  NULL, OPTION_FLAG(struct request, all) },
	{ .more = flow_record_options, .find = of_record },
	{ .more = flow_explain_options, .find = of_explain },
	{ "--json", NULL, NULL, "one JSON object a line", 0, NULL, OPTION_FLAG(struct request, json) },
	{ "--color", NULL, "WHEN", "colours: auto, always or never", COMPLETE_WORDS, COLOUR_WORDS,
	  OPTION_CHOICE(struct request, colour) },
	{ 0 },
};

#define THERE_IS "there is watchctl flow explain -p PID, and flow record -o LOG"

static struct wc_error *take_word(void *request, const char *word)
{
	struct request *q = request;

	if (q->verb)
		return wc_error_new(WC_EUSAGE, "flow %s takes options only: \"%s\" is none", verbs[q->verb],
				    word);
	for (enum verb v = EXPLAIN; v <= RECORD; v++)
		if (strcmp(word, verbs[v]) == 0)
			q->verb = v;
	return q->verb ? NULL : wc_error_new(WC_EUSAGE, "flow does not know \"%s\": " THERE_IS, word);
}

/* Options of what was not asked for say that something else was meant. */
static struct wc_error *check_options(const struct request *q)
{
	for (enum verb v = EXPLAIN; v <= RECORD; v++)
		if (v != q->verb && q->of[v])
			return wc_error_new(WC_EUSAGE, "%s goes with flow %s", q->of[v]->name, verbs[v]);
	if (q->record.argv && q->verb != RECORD)
		return wc_error_new(WC_EUSAGE, "a program is started by flow record alone");
	return NULL;
}

static struct wc_error *explain(struct request *q)
{
	if (q->npids != 1)
		return wc_error_new(WC_EUSAGE, q->npids ? "explain looks at one process: give -p PID once"
							: "explain which process? Give -p PID");
	q->explain.pid = q->pid[0];
	q->explain.all = q->all;
	q->explain.json = q->json;
	q->explain.colour = q->colour;
	return flow_explain_run(&q->explain);
}

static struct wc_error *record(struct request *q)
{
	if (q->all && (q->npids || q->record.cgroup))
		return wc_error_new(WC_EUSAGE, "--all is the whole system: it excludes -p and --cgroup");
	q->record.pid = q->pid;
	q->record.npids = q->npids;
	q->record.json = q->json;
	return flow_record_run(&q->record);
}

static struct wc_error *cmd_flow_run(int argc, char **argv)
{
	struct request q = { 0 };
	struct wc_error *err = option_parse_launch(argc, argv, options, &q, take_word, &q.record.argv);

	if (!err)
		err = check_options(&q);
	if (err)
		return err;
	switch (q.verb) {
	case EXPLAIN:
		return explain(&q);
	case RECORD:
		return record(&q);
	case NONE:
		break;
	}
	return wc_error_new(WC_EUSAGE, "flow what? " THERE_IS);
}

const struct command cmd_flow = {
	.name = "flow",
	.args = "explain -p PID [options]\n"
		"record -o LOG [-t SECONDS | --ring SIZE] [-p PID ... | --cgroup PATH] [options] [-- PROGRAM [ARGS]]",
	.summary = "say why a process hangs: who waits for whom, across processes",
	.help = "explain looks at a process that hangs now, and at whoever it waits for: locks and their owners, pipes,\n"
		"sockets, children, file locks. Nothing needs to have been recorded, and no thread that sleeps is stopped.\n"
		"record writes down what connects all threads of the system: switches and wake-ups with their reason,\n"
		"messages, locks, signals, timers, work of the kernel's, I/O. Needs root, or CAP_BPF and CAP_PERFMON.\n"
		"watchctl-flow(1) says what is known of which wait, and what cannot be known.\n",
	.options = options,
	.operand = COMPLETE_NOTHING,
	.run = cmd_flow_run,
};
