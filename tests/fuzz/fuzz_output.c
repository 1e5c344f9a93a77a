/*
 * Whatever names and values stand in a log, what is made of it can be shown: text without escape sequences
 * for a terminal, valid JSON and CSV, a page in which no name is markup, and the forms of other tools.
 */
#include <stdio.h>

#include "tests/fuzz/check.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/log.h"
#include "watchctl/base/progress.h"
#include "watchctl/view/event/reorder.h"
#include "watchctl/view/event/replay.h"
#include "watchctl/view/export/export.h"
#include "watchctl/view/page/page.h"
#include "watchctl/view/print/printer.h"
#include "watchctl/view/event/event_choice.h"
#include "watchctl/view/print/report.h"

/* Modules of a hostile log name files of ours. */
struct without_modules {
	struct event_sink to;
};

static struct wc_error *put(void *ctx, const struct trace_event *e)
{
	struct without_modules *w = ctx;

	return e->type == EVENT_MODULE ? NULL : w->to.put(w->to.ctx, e);
}

enum form { FORM_TEXT, FORM_JSON, FORM_FOLDED, FORM_TREE, FORM_PAGE, FORM_EXPORT };

static void feed(const char *log, struct annotate *a, FILE *out, struct replay_ending *ending)
{
	struct reorder *order = reorder_new(annotate_sink(a));
	struct without_modules w = { reorder_sink(order) };

	wc_error_free(replay(log, (struct event_sink){ put, &w }, out, ending));
	wc_error_free(reorder_flush(order));
	reorder_free(order);
}

static void print_report(const char *log, enum form form, uint8_t how, FILE *out)
{
	const struct print_options print = { .regs = how & 1,
					     .utc = true,
					     .before = how & 2 ? "a" : NULL,
					     .width = how & 4 ? 60 : 0,
					     .folded_names = how & 8 };
	const struct report_options what = { .stacks = form >= FORM_FOLDED,
					     .no_events = form >= FORM_FOLDED,
					     .inverted = how & 16,
					     .calls = true,
					     .instructions = true };
	struct annotate *a = annotate_new(NULL, ANNOTATE_STACK | ANNOTATE_TEXT | ANNOTATE_CALLS);
	struct printer *p = form == FORM_JSON	  ? print_json_new(out, &print)
			    : form == FORM_FOLDED ? print_folded_new(out, &print)
						  : print_text_new(out, &print);
	const struct event_choice choice = { .before = print.before };
	struct report *r = report_new(a, p, &what);
	struct event_chooser *c = event_chooser_new(&choice, report_view(r));
	struct replay_ending ending;

	annotate_add_view(a, event_chooser_view(c));
	feed(log, a, out, &ending);
	report_finish(r);
	report_free(r);
	event_chooser_free(c);
	printer_free(p);
	annotate_free(a);
}

static void print_page(const char *log, FILE *out)
{
	const struct page_options o = { .log = "a \"log\" of <b>mine</b>\033", .no_source = true };
	struct annotate *a = annotate_new(NULL, ANNOTATE_STACK | ANNOTATE_TEXT);
	struct page *page = page_new(a, &o);
	struct replay_ending ending;

	feed(log, a, out, &ending);
	annotate_finish(a);
	wc_error_free(page_write(page, &ending, out));
	page_free(page);
	annotate_free(a);
}

/* To standard output, which is @out while it lasts. True: it was made. */
static bool export(const char *log, enum export_format to, uint8_t how, FILE *out)
{
	const struct export_options o = { .to = to, .no_stack = how & 1, .regs = how & 2, .nodes = 20 };
	struct export_result result;
	struct export_out *e = NULL;
	struct progress progress;
	struct wc_error *err;
	FILE *before = stdout;

	stdout = out;
	progress_begin(&progress, "fuzz");
	err = export_out_open(NULL, false, &e);
	if (!err)
		err = export_log(log, &o, e, &progress, NULL, &result);
	progress_end(&progress);
	if (!err)
		err = export_out_commit(e);
	export_out_free(e);
	stdout = before;
	wc_error_free(err);
	return !err;
}

static void check(enum form form, enum export_format to, const char *text, size_t len)
{
	if (form == FORM_JSON || (form == FORM_EXPORT && to == EXPORT_JSONL))
		check_json_lines(text, len);
	else if (form == FORM_EXPORT && (to == EXPORT_CHROME || to == EXPORT_SPEEDSCOPE))
		check_json(text, len);
	else if (form == FORM_EXPORT && to == EXPORT_CSV)
		check_csv(text, len);
	else if (form == FORM_PAGE)
		check_html(text, len);
	else if (form == FORM_EXPORT && (to == EXPORT_PERF_SCRIPT || to == EXPORT_DOT))
		check_columns(text, len);
	else
		check_text(text, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char log[FUZZ_LOG_PATH];
	enum export_format to;
	char *text = NULL;
	bool made = true;
	enum form form;
	size_t len = 0;
	FILE *out;

	if (size < 2)
		return 0;
	if (!*log)
		fuzz_log_make("output", log);
	fuzz_log_events(log, data + 2, size - 2);
	form = data[0] % 12 < FORM_EXPORT ? (enum form)(data[0] % 12) : FORM_EXPORT;
	to = (enum export_format)((data[0] % 12 + 12 - FORM_EXPORT) % 12 % (EXPORT_PERF_SCRIPT + 1));
	out = open_memstream(&text, &len);
	require(out);
	if (form == FORM_EXPORT)
		made = export(log, to, data[1], out);
	else if (form == FORM_PAGE)
		print_page(log, out);
	else
		print_report(log, form, data[1], out);
	require(!fclose(out) && text);
	if (made)
		check(form, to, text, len);
	free(text);
	return 0;
}
