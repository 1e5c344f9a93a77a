/* cmd_flow - `watchctl flow`: who waits for whom, now or in a log of the whole system. A file each for what it can do. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/cli/command.h"
#include "watchctl/cli/flow/flow_explain_cmd.h"
#include "watchctl/cli/flow/flow_graph_show.h"
#include "watchctl/cli/flow/graph/flow_graph_ask.h"
#include "watchctl/cli/flow/flow_record_cmd.h"
#include "watchctl/cli/flow/page/flow_page.h"
#include "watchctl/cli/output/colour.h"

#define PIDS 64

enum verb { NONE, EXPLAIN, RECORD, GRAPH, PATH, SUGGEST, VERBS };

static const char *const verbs[] = { [NONE] = "",	[EXPLAIN] = "explain", [RECORD] = "record",
				     [GRAPH] = "graph", [PATH] = "path",       [SUGGEST] = "suggest" };

#define GRAPH_FORMS "json dot html"

struct request {
	enum verb verb;
	const struct option *of[VERBS]; /* an option that goes with this one alone */
	pid_t pid[PIDS];
	size_t npids;
	bool all, json;
	unsigned int colour;
	struct flow_explain_ask explain;
	struct flow_record_ask record;
	struct flow_graph_ask graph; /* and path */
	unsigned int form;
	const char *to;
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

static struct wc_error *of_graph(const struct option_match *m, void **to)
{
	struct request *q = *to;

	q->of[GRAPH] = m->option;
	*to = &q->graph;
	return NULL;
}

static struct wc_error *add_rules(const struct option_match *m, void *to)
{
	struct request *q = to;
	struct flow_graph_ask *ask = &q->graph;

	if (ask->nrules == FLOW_RULES_ASKED)
		return wc_error_new(WC_EUSAGE, "--rules was given more than %d times", FLOW_RULES_ASKED);
	ask->rules[ask->nrules++] = m->value;
	return NULL;
}

static const struct option graph_options[] = {
	{ "--around", NULL, "TIME", "graph: what was at that time, as 12:03:05.2", COMPLETE_NOTHING, NULL,
	  OPTION_TEXT(struct flow_graph_ask, around) },
	{ "--window", NULL, "TIME", "graph: with --around, so long in all (default 1s)", COMPLETE_NOTHING,
	  NULL, OPTION_TIME(struct flow_graph_ask, window_ns) },
	{ 0 },
};

static const struct option options[] = {
	{ "-p", "--pid", "PID",
	  "explain: the process that hangs; record: system calls of these processes and their children alone",
	  COMPLETE_PID, NULL, .set = set_pid },
	{ "--all", NULL, NULL,
	  "explain: every thread that was looked at, and all culprits; record: the whole system (default)", 0,
	  NULL, OPTION_FLAG(struct request, all) },
	{ .more = flow_record_options, .find = of_record },
	{ .more = flow_explain_options, .find = of_explain },
	{ .more = graph_options, .find = of_graph },
	{ "--process", NULL, "NAME",
	  "graph: what a process did, what it was brought to and brought others to: its name, number, or NAME/NUMBER; suggest: rules for it alone",
	  COMPLETE_NOTHING, NULL, OPTION_TEXT(struct request, graph.process) },
	{ "--to", NULL, "WHAT",
	  "graph: json (default), dot or html (a page for a browser); path, explain LOG: a thread and a time, 'app/1234 at 12:03:05.2', or its last unit of work",
	  COMPLETE_WORDS, GRAPH_FORMS, OPTION_TEXT(struct request, to) },
	{ "--html", NULL, "FILE", "path: write a page to look at in a browser, opened at that path",
	  COMPLETE_FILE, NULL, OPTION_TEXT(struct request, graph.html) },
	{ "--baseline", NULL, "LOG", "explain LOG: beside a log of a good time", COMPLETE_DIRECTORY, NULL,
	  OPTION_TEXT(struct request, graph.baseline) },
	{ "--rules", NULL, "RULES",
	  "graph, path, suggest, explain LOG: also by these rules of what begins and ends a unit of work: a set's name, or a file; may be repeated",
	  COMPLETE_FILE, NULL, .set = add_rules },
	{ "--utc", NULL, NULL, "graph, path, explain LOG: times of day in UTC", 0, NULL,
	  OPTION_FLAG(struct request, graph.utc) },
	{ "--json", NULL, NULL, "one JSON object a line", 0, NULL, OPTION_FLAG(struct request, json) },
	{ "--color", NULL, "WHEN", "colours: auto, always or never", COMPLETE_WORDS, COLOUR_WORDS,
	  OPTION_CHOICE(struct request, colour) },
	{ 0 },
};

#define THERE_IS \
	"there are watchctl flow explain -p PID, flow explain LOG, flow record -o LOG, flow graph LOG, flow path LOG --to THREAD, and flow suggest LOG"

static bool takes_log(enum verb v)
{
	return v == EXPLAIN || v == GRAPH || v == PATH || v == SUGGEST;
}

static const char *const reads[] = {
	[EXPLAIN] = "flow explain reads",
	[GRAPH] = "flow graph reads",
	[PATH] = "flow path reads",
	[SUGGEST] = "flow suggest reads",
};

static struct wc_error *take_word(void *request, const char *word)
{
	struct request *q = request;

	if (takes_log(q->verb))
		return option_one_log(&q->graph.log, word, reads[q->verb]);
	if (q->verb)
		return wc_error_new(WC_EUSAGE, "flow %s takes options only: \"%s\" is none", verbs[q->verb],
				    word);
	for (enum verb v = EXPLAIN; v < VERBS; v++)
		if (strcmp(word, verbs[v]) == 0)
			q->verb = v;
	return q->verb ? NULL : wc_error_new(WC_EUSAGE, "flow does not know \"%s\": " THERE_IS, word);
}

static bool reads_log(const struct request *q)
{
	return takes_log(q->verb) && (q->verb != EXPLAIN || q->graph.log);
}

/* A log has no process that could be looked at. */
static struct wc_error *check_explained_log(const struct request *q)
{
	if (q->npids)
		return wc_error_new(WC_EUSAGE, "explain looks at a process that hangs now (-p), or at a log: "
					       "give one of them (a process of a log: --to NAME)");
	if (q->all || q->of[EXPLAIN])
		return wc_error_new(WC_EUSAGE, "%s goes with flow explain -p PID",
				    q->all ? "--all" : q->of[EXPLAIN]->name);
	return NULL;
}

/* Options of what was not asked for say that something else was meant. */
static struct wc_error *check_options(const struct request *q)
{
	for (enum verb v = EXPLAIN; v < VERBS; v++)
		if (v != q->verb && q->of[v])
			return wc_error_new(WC_EUSAGE, "%s goes with flow %s", q->of[v]->name, verbs[v]);
	if (q->to && (!reads_log(q) || q->verb == SUGGEST))
		return wc_error_new(WC_EUSAGE, "--to goes with flow explain LOG, flow graph and flow path");
	if (q->graph.utc && (!reads_log(q) || q->verb == SUGGEST))
		return wc_error_new(WC_EUSAGE, "--utc goes with flow explain LOG, flow graph and flow path");
	if (q->graph.baseline && (q->verb != EXPLAIN || !q->graph.log))
		return wc_error_new(WC_EUSAGE, "--baseline goes with flow explain LOG");
	if (q->verb == EXPLAIN && q->graph.log)
		return check_explained_log(q);
	if (takes_log(q->verb) && q->verb != EXPLAIN && (q->npids || q->all))
		return wc_error_new(
			WC_EUSAGE,
			"%s goes with flow explain and flow record (a process of a log: --process NAME)",
			q->npids ? "-p" : "--all");
	if (q->graph.nrules && !reads_log(q))
		return wc_error_new(
			WC_EUSAGE,
			"--rules goes with flow explain LOG, flow graph, flow path and flow suggest");
	if (q->graph.process && q->verb != GRAPH && q->verb != SUGGEST)
		return wc_error_new(WC_EUSAGE, "--process goes with flow graph and flow suggest");
	if (q->graph.html && q->verb != PATH)
		return wc_error_new(
			WC_EUSAGE,
			"--html goes with flow path; flow graph LOG --to html prints the page of a log");
	if (q->record.argv && q->verb != RECORD)
		return wc_error_new(WC_EUSAGE, "a program is started by flow record alone");
	return NULL;
}

static struct wc_error *explain(struct request *q)
{
	if (q->graph.log) {
		q->graph.to_where = q->to;
		q->graph.json = q->json;
		return flow_blame_show(&q->graph);
	}
	if (q->npids != 1)
		return wc_error_new(
			WC_EUSAGE,
			q->npids ? "explain looks at one process: give -p PID once"
				 : "explain which process? Give -p PID, or a log that flow record has made");
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

static struct wc_error *graph(struct request *q)
{
	if (!q->graph.log)
		return wc_error_new(
			WC_EUSAGE,
			"graph of which log? One that flow record has made: watchctl flow graph LOG");
	if (q->graph.window_ns && !q->graph.around)
		return wc_error_new(WC_EUSAGE, "--window goes with --around, the time in the middle of it");
	if (q->to && strcmp(q->to, "dot") == 0)
		q->graph.form = FLOW_GRAPH_DOT;
	else if (q->to && strcmp(q->to, "html") == 0)
		return flow_page_write(&q->graph, "-");
	else if (q->to && strcmp(q->to, "json") != 0)
		return wc_error_new(WC_EUSAGE, "--to is json, dot or html, not \"%s\"", q->to);
	return flow_graph_show(&q->graph);
}

static struct wc_error *path(struct request *q)
{
	if (!q->graph.log)
		return wc_error_new(
			WC_EUSAGE,
			"path in which log? One that flow record has made: watchctl flow path LOG --to THREAD");
	if (!q->to)
		return wc_error_new(
			WC_EUSAGE,
			"path to where? Give --to 'NAME/NUMBER at TIME', or --to NAME/NUMBER for its last unit of work");
	if (q->json && q->graph.html)
		return wc_error_new(WC_EUSAGE,
				    "--json prints the path, --html writes a page: give one of them");
	q->graph.to_where = q->to;
	q->graph.json = q->json;
	return flow_path_show(&q->graph);
}

static struct wc_error *suggest(struct request *q)
{
	if (!q->graph.log)
		return wc_error_new(
			WC_EUSAGE,
			"suggest rules for which log? One that flow record has made: watchctl flow suggest LOG");
	if (q->json)
		return wc_error_new(WC_EUSAGE, "flow suggest prints a file of rules, no JSON");
	return flow_suggest_show(&q->graph);
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
	case GRAPH:
		return graph(&q);
	case PATH:
		return path(&q);
	case SUGGEST:
		return suggest(&q);
	case NONE:
	case VERBS:
		break;
	}
	return wc_error_new(WC_EUSAGE, "flow what? " THERE_IS);
}

const struct command cmd_flow = {
	.name = "flow",
	.args = "explain -p PID [options]\n"
		"explain LOG [--baseline LOG] [--to 'NAME/NUMBER at TIME'] [--json]\n"
		"record -o LOG [-t SECONDS | --ring SIZE] [-p PID ... | --cgroup PATH] [options] [-- PROGRAM [ARGS]]\n"
		"graph LOG [--to json|dot|html] [--around TIME [--window TIME]] [--process NAME]\n"
		"path LOG --to 'NAME/NUMBER at TIME' [--json | --html FILE]\n"
		"suggest LOG [--process NAME] [--rules RULES]",
	.summary = "say why a process hangs, and what led to what in the whole system",
	.help = "explain looks at a process that hangs now, and at whoever it waits for: locks and their owners, pipes,\n"
		"sockets, children, file locks. Nothing needs to have been recorded, and no thread that sleeps is stopped.\n"
		"explain LOG says the same of a log that record has made, at its end or at a time; with --baseline, beside a good one.\n"
		"record writes down what connects all threads of the system: switches and wake-ups with their reason,\n"
		"messages, locks, signals, timers, work of the kernel's, I/O. Needs root, or CAP_BPF and CAP_PERFMON.\n"
		"graph prints who brought whom to go on, in such a log; path goes back from a thread to what began it all.\n"
		"suggest prints rules of what begins a unit of work, for which such a log gives reason, and the reasons.\n"
		"watchctl-flow(1) says what is known of which wait, and what cannot be known.\n",
	.options = options,
	.operand = COMPLETE_DIRECTORY,
	.run = cmd_flow_run,
};
