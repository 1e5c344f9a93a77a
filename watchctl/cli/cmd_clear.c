#include <stdio.h>
#include <unistd.h>

#include "watchctl/cli/command.h"
#include "watchctl/cli/output/slots_print.h"
#include "watchctl/monitor/patch/patch_session.h"
#include "watchctl/view/words/json.h"

struct request {
	struct slots_clear clear;
	bool json;
	unsigned int freed, left;
	pid_t patching; /* a watchctl that is at work with patches; -1: where we cannot see it; 0: none */
};

static struct wc_error *add_register(const struct option_match *m, void *to)
{
	unsigned int *registers = to;
	uint64_t n;
	struct wc_error *err = option_number(m, 0, SLOTS - 1, &n);

	if (!err)
		*registers |= 1u << n;
	return err;
}

static struct wc_error *add_all_registers(const struct option_match *m, void *to)
{
	*(unsigned int *)to = (1u << SLOTS) - 1;
	return NULL;
}

static const struct option options[] = {
	{ "-p", "--pid", "PID", "the process", COMPLETE_PID, NULL,
	  OPTION_NUMBER(struct request, clear.pid, 1, INT32_MAX) },
	{ "--all", NULL, NULL, "end also the watchctl sessions that are at work on it", 0, NULL,
	  OPTION_FLAG(struct request, clear.all) },
	{ "--children", NULL, NULL,
	  "also in the processes that were forked from it, which itself may have ended", 0, NULL,
	  OPTION_FLAG(struct request, clear.children) },
	{ "--register", NULL, "0..3", "clear this register too, whichever process armed it through ptrace",
	  COMPLETE_WORDS, "0 1 2 3", .set = add_register, .at = offsetof(struct request, clear.registers) },
	{ "--all-registers", NULL, NULL, "clear all four, in the same way", 0, NULL, .set = add_all_registers,
	  .at = offsetof(struct request, clear.registers) },
	{ "--json", NULL, NULL, "one JSON object a line", 0, NULL, OPTION_FLAG(struct request, json) },
	{ 0 },
};

static struct wc_error *cmd_clear_parse(int argc, char **argv, struct request *q)
{
	struct wc_error *err =
		option_parse_alone(argc, argv, options, q, "clear takes options only: watchctl clear -p PID");

	if (err)
		return err;
	if (!q->clear.pid)
		return wc_error_new(WC_EUSAGE,
				    "clear which process? Give -p PID; watchctl list names those in which "
				    "something was left");
	if (q->clear.pid == getpid())
		return wc_error_new(WC_EUSAGE, "process %d is watchctl itself", q->clear.pid);
	return NULL;
}

static void report_text(struct request *q, const struct slots_freed *f)
{
	char what[SLOTS_TEXT];

	switch (f->kind) {
	case SLOTS_FREED_HANDLER:
		printf("took out the handler that watchctl %d, which was killed, had left (%llu KB at "
		       "0x%llx)\n",
		       f->owner, (unsigned long long)f->size / 1024, (unsigned long long)f->addr);
		break;
	case SLOTS_FREED_CHILDREN:
		printf("took out the handler that watchctl %d had left in %zu process%s that process %d has "
		       "forked\n",
		       f->owner, f->processes, f->processes == 1 ? "" : "es", q->clear.pid);
		break;
	case SLOTS_FREED_REGISTER:
		slots_what(what, sizeof(what), f->access, f->name, f->addr, f->size);
		printf("cleared DR%u in %u thread%s: %s", f->slot, f->threads, f->threads == 1 ? "" : "s",
		       what);
		if (f->owner)
			printf(", left armed by watchctl %d, which was killed", f->owner);
		puts(" (the kernel keeps the register for ptrace, as for -i, until the thread ends)");
		break;
	case SLOTS_ENDED:
		printf("ended watchctl %d\n", f->owner);
		break;
	case SLOTS_REGISTER_CLEAR:
		printf("DR%u: ptrace has armed it in no thread\n", f->slot);
		break;
	case SLOTS_LEFT:
		if (q->left > 1) /* the first is the command's own error */
			fprintf(stderr, "watchctl: %s\n", f->why);
		break;
	}
}

static void put_register(struct json *j, const struct slots_freed *f)
{
	json_number(j, "register", f->slot);
	if (f->kind == SLOTS_REGISTER_CLEAR)
		return;
	json_hex(j, "addr", f->addr);
	json_number(j, "size", f->size);
	json_text(j, "access", slots_access(f->access));
	if (f->name[0])
		json_text(j, "name", f->name);
	json_number(j, "threads", f->threads);
}

static void report_json(const struct request *q, const struct slots_freed *f)
{
	static const char *const what[] = {
		[SLOTS_FREED_HANDLER] = "handler",   [SLOTS_FREED_REGISTER] = "register",
		[SLOTS_FREED_CHILDREN] = "children", [SLOTS_ENDED] = "session",
		[SLOTS_REGISTER_CLEAR] = "register",
	};
	struct json j = { 0 };

	json_open(&j, NULL, '{');
	json_text(&j, "type",
		  f->kind == SLOTS_LEFT		    ? "left"
		  : f->kind == SLOTS_REGISTER_CLEAR ? "clear"
						    : "cleared");
	json_number(&j, "pid", (uint64_t)q->clear.pid);
	if (what[f->kind])
		json_text(&j, "what", what[f->kind]);
	if (f->owner)
		json_number(&j, "owner_pid", (uint64_t)f->owner);
	if (f->kind == SLOTS_FREED_REGISTER || f->kind == SLOTS_REGISTER_CLEAR)
		put_register(&j, f);
	if (f->kind == SLOTS_FREED_HANDLER) {
		json_hex(&j, "addr", f->addr);
		json_number(&j, "size", f->size);
	}
	if (f->kind == SLOTS_FREED_CHILDREN)
		json_number(&j, "processes", f->processes);
	if (f->why)
		json_text(&j, "why", f->why);
	json_close(&j, '}');
	json_end_line(&j, stdout);
	json_deinit(&j);
}

static void cmd_clear_report(void *ctx, const struct slots_freed *f)
{
	struct request *q = ctx;

	q->left += f->kind == SLOTS_LEFT;
	q->freed += f->kind != SLOTS_LEFT && f->kind != SLOTS_REGISTER_CLEAR;
	if (q->json)
		report_json(q, f);
	else
		report_text(q, f);
	fflush(stdout);
}

static void report_nothing(const struct request *q)
{
	struct json j = { 0 };

	if (!q->json) {
		printf("process %d: nothing to clear\n", q->clear.pid);
		return;
	}
	json_open(&j, NULL, '{');
	json_text(&j, "type", "note");
	json_number(&j, "pid", (uint64_t)q->clear.pid);
	json_text(&j, "text", "nothing to clear");
	json_close(&j, '}');
	json_end_line(&j, stdout);
	json_deinit(&j);
}

/* One that is at work. */
static void report_patches_left(struct request *q, const struct patch_left *l)
{
	struct json j = { 0 };

	q->left++;
	q->patching = l->owner;
	if (!q->json)
		return;
	json_open(&j, NULL, '{');
	json_text(&j, "type", "left");
	json_number(&j, "pid", (uint64_t)q->clear.pid);
	json_text(&j, "what", "patches");
	if (l->owner > 0)
		json_number(&j, "owner_pid", (uint64_t)l->owner);
	json_close(&j, '}');
	json_end_line(&j, stdout);
	json_deinit(&j);
}

static struct wc_error *patching(const struct request *q)
{
	char who[64] = "in another pid namespace";

	if (!q->patching)
		return NULL;
	if (q->patching > 0)
		snprintf(who, sizeof(who), "%d", q->patching);
	return wc_error_new(WC_EFAIL, "watchctl %s is at work with patches in process %d: --all ends it", who,
			    q->clear.pid);
}

static void say_patches(const struct patch_left *l, enum patch_cleared what)
{
	if (what == PATCH_OWNER_ENDED)
		printf("ended watchctl %d, which has taken out its %zu patch%s of %zu module%s\n", l->owner,
		       l->patches, l->patches == 1 ? "" : "es", l->modules, l->modules == 1 ? "" : "s");
	else
		printf("took out %zu patch%s of %zu module%s that a watchctl %s (%llu KB at 0x%llx)\n",
		       l->patches, l->patches == 1 ? "" : "es", l->modules, l->modules == 1 ? "" : "s",
		       l->inherited ? "had placed before the process was forked"
				    : "had left, which was killed",
		       (unsigned long long)l->size / 1024, (unsigned long long)l->addr);
}

static void report_patches(void *ctx, const struct patch_left *l, enum patch_cleared what)
{
	struct request *q = ctx;
	struct json j = { 0 };

	if (what == PATCH_STAYS) {
		report_patches_left(q, l);
		return;
	}
	q->freed++;
	if (!q->json) {
		say_patches(l, what);
		return;
	}
	json_open(&j, NULL, '{');
	json_text(&j, "type", "cleared");
	json_number(&j, "pid", (uint64_t)q->clear.pid);
	json_text(&j, "what", "patches");
	json_number(&j, "patches", l->patches);
	json_number(&j, "modules", l->modules);
	json_hex(&j, "addr", l->addr);
	json_number(&j, "size", l->size);
	if (what == PATCH_OWNER_ENDED)
		json_number(&j, "owner_pid", (uint64_t)l->owner);
	json_close(&j, '}');
	json_end_line(&j, stdout);
	json_deinit(&j);
}

static struct wc_error *cmd_clear_run(int argc, char **argv)
{
	struct request q = { 0 };
	struct wc_error *err = cmd_clear_parse(argc, argv, &q);

	if (err)
		return err;
	q.clear.report = cmd_clear_report;
	q.clear.ctx = &q;
	err = patch_session_clear(q.clear.pid, q.clear.all, report_patches, &q);
	if (!err || err->kind == WC_ETARGET ||
	    err->kind == WC_EPERM) { /* the others have better words for it */
		wc_error_free(err);
		err = NULL;
	}
	if (!err)
		err = patching(&q);
	err = wc_error_first(err, slots_clear(&q.clear));
	if (!err && !q.freed)
		report_nothing(&q);
	return err;
}

const struct command cmd_clear = {
	.name = "clear",
	.args = "-p PID [--all] [--children] [--register 0..3 | --all-registers] [--json]",
	.summary =
		"free the debug registers, and take out the handler and the patches, that a killed watchctl "
		"left in a process",
	.help = "A watchctl that is at work is named and left alone, and the exit status is 1, unless --all "
		"is given.\n"
		"A debugger's registers are never cleared: --register is for registers whose owner has ended.\n",
	.options = options,
	.operand = COMPLETE_NOTHING,
	.run = cmd_clear_run,
};
