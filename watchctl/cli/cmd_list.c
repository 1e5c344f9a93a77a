#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/cli/command.h"
#include "watchctl/cli/output/slots_print.h"
#include "watchctl/monitor/slots/holders.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/view/words/json.h"

struct request {
	pid_t pid; /* 0: all in which something of ours is found */
	bool json, threads;
};

static const struct option options[] = {
	{ "-p", "--pid", "PID", "the process; without it, all in which a watchctl has to do", COMPLETE_PID,
	  NULL, OPTION_NUMBER(struct request, pid, 1, INT32_MAX) },
	{ "--threads", NULL, NULL, "each thread by itself", 0, NULL, OPTION_FLAG(struct request, threads) },
	{ "--json", NULL, NULL, "one JSON object a line", 0, NULL, OPTION_FLAG(struct request, json) },
	{ 0 },
};

static struct wc_error *print_process(const struct request *q, pid_t pid, const struct holder_list *holders)
{
	scoped(slots_deinitp) struct slots s = { 0 };
	struct wc_error *err = slots_read(pid, holders, &s);

	if (err)
		return err;
	if (q->json)
		slots_print_json(&s, q->threads);
	else
		slots_print_text(&s, q->threads);
	return NULL;
}

static void print_note(const struct request *q, const char *text)
{
	struct json j = { 0 };

	if (!q->json) {
		puts(text);
		return;
	}
	json_open(&j, NULL, '{');
	json_text(&j, "type", "note");
	json_text(&j, "text", text);
	json_close(&j, '}');
	json_end_line(&j, stdout);
	json_deinit(&j);
}

static struct wc_error *print_all(const struct request *q, const struct holder_list *holders)
{
	struct thread_ids found = { 0 };
	struct wc_error *err = slots_find_ours(holders, &found);
	size_t i, n = 0;

	for (i = 0; i < found.n && !err; i++) {
		err = print_process(q, found.v[i], holders);
		n += !err;
		if (err && (err->kind == WC_ETARGET || err->kind == WC_EPERM)) {
			wc_error_free(err); /* it has ended meanwhile */
			err = NULL;
		}
	}
	thread_ids_deinit(&found);
	if (!err && !n)
		print_note(q, "no process has anything of watchctl's in it");
	if (!err && geteuid())
		print_note(q, "(processes of other users were not looked at)");
	return err;
}

static struct wc_error *cmd_list_run(int argc, char **argv)
{
	scoped(holders_deinitp) struct holder_list holders = { 0 };
	struct request q = { 0 };
	struct wc_error *err =
		option_parse_alone(argc, argv, options, &q, "list takes options only: watchctl list -p PID");

	if (!err)
		err = holders_read(&holders);
	if (err)
		return err;
	return q.pid ? print_process(&q, q.pid, &holders) : print_all(&q, &holders);
}

const struct command cmd_list = {
	.name = "list",
	.args = "[-p PID] [--threads] [--json]",
	.summary = "show who holds the debug registers of a process, as far as it can be known",
	.help = "Threads with registers in use are stopped for a moment each, to read what ptrace has set in "
		"them.\n"
		"watchctl-list(1) says what each line means, and what cannot be known.\n",
	.options = options,
	.operand = COMPLETE_NOTHING,
	.run = cmd_list_run,
};
