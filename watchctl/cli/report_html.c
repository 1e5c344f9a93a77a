#include "watchctl/cli/report_html.h"

#include <fcntl.h>
#include <stdio.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/progress.h"
#include "watchctl/cli/flow/graph/flow_graph_ask.h"
#include "watchctl/cli/flow/page/flow_page.h"
#include "watchctl/cli/output/ending.h"
#include "watchctl/cli/output/log_operand.h"
#include "watchctl/cli/output/page_file.h"
#include "watchctl/trace/log/tracelog_files.h"
#include "watchctl/view/callpage/callpage.h"
#include "watchctl/view/event/annotate.h"
#include "watchctl/view/event/reorder.h"
#include "watchctl/view/event/replay.h"
#include "watchctl/view/page/page.h"

/* Two views collect; which of them the log is for is known at its end. */
struct pages {
	struct page *watches;
	struct callpage *calls;
	const struct replay_ending *ending;
};

static struct wc_error *write_page(const void *ctx, FILE *out)
{
	const struct pages *p = ctx;

	return callpage_has_calls(p->calls) ? callpage_write(p->calls, p->ending, out)
					    : page_write(p->watches, p->ending, out);
}

static bool log_has_flow(const char *log)
{
	scoped(closep) int dir = open(log, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return dir >= 0 && tracelog_has_flow(dir);
}

/* A log of the system's events alone has a page of these. */
static struct wc_error *write_to(const struct pages *p, const char *log, const char *file)
{
	const struct page_writer writer = { write_page, p };
	const struct flow_graph_ask ask = { .log = log };

	if (!log_has_flow(log))
		return page_file_write(&writer, file);
	if (callpage_is_empty(p->calls))
		return flow_page_write(&ask, file);
	fprintf(stderr,
		"watchctl: the log has events of the system, too: watchctl flow graph %s --to html writes their page\n",
		log_operand_name(log));
	return page_file_write(&writer, file);
}

struct wc_error *report_html(const char *log, const char *file, bool no_source, enum insn_syntax syntax,
			     const struct redact_ask *redact)
{
	struct redact_rules rules = redact_ask_rules(redact);
	scoped(annotate_freep) struct annotate *a =
		annotate_new(NULL, ANNOTATE_STACK | ANNOTATE_TEXT | ANNOTATE_CALLS);
	const char *name = log_operand_name(log);
	struct page_options o = { .log = name, .no_source = no_source };
	struct callpage_options of_calls = { .log = name };
	scoped(page_freep) struct page *page = a ? page_new(a, &o) : NULL;
	scoped(callpage_freep) struct callpage *calls = a ? callpage_new(a, &of_calls) : NULL;
	scoped(reorder_freep) struct reorder *order = a ? reorder_new(annotate_sink(a)) : NULL;
	scoped(progress_end) struct progress progress;
	struct replay_ending ending = { 0 };
	struct wc_error *err;

	progress_begin(&progress, "reading the log");
	if (!page || !calls || !order)
		return &wc_enomem;
	annotate_set_syntax(a, syntax);
	/* Nothing is printed while it is read. */
	err = replay_redacted(log, &rules, reorder_sink(order), stderr, &progress, &ending);
	progress_end(&progress);
	if (!err)
		err = reorder_flush(order);
	if (err)
		return err;
	annotate_finish(a);
	redact_ask_warn(ending.unused);
	err = write_to(&(struct pages){ page, calls, &ending }, log, file);
	if (!err)
		err = end_of_log(name, &ending.damage);
	return err && log_damage_is(&ending.damage) ? wc_error_hint(err, "the page says so") : err;
}
