#include "watchctl/view/export/export.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/view/event/annotate.h"
#include "watchctl/view/event/reorder.h"
#include "watchctl/view/export/export_impl.h"
#include "watchctl/view/print/printer.h"

/* A format's name is in EXPORT_FORMATS. */
static const struct format {
	const char *suffix;
	struct export_writer *(*create)(void);
	unsigned int facts; /* for annotate */
	bool stack_option;
} formats[] = {
	[EXPORT_CHROME] = { "json", export_chrome_new, ANNOTATE_TEXT | ANNOTATE_CALLS, true },
	[EXPORT_FOLDED] = { "folded", export_folded_new, 0, false },
	[EXPORT_SPEEDSCOPE] = { "speedscope.json", export_speedscope_new, 0, false },
	[EXPORT_CSV] = { "csv", export_csv_new, ANNOTATE_TEXT | ANNOTATE_CALLS, true },
	[EXPORT_JSONL] = { "jsonl", export_jsonl_new, ANNOTATE_TEXT | ANNOTATE_CALLS, true },
	[EXPORT_DOT] = { "dot", export_dot_new, 0, false },
	[EXPORT_PERF_SCRIPT] = { "perf", export_perf_new, ANNOTATE_TEXT, false },
	[EXPORT_CALLGRIND] = { "callgrind", export_callgrind_new, 0, false },
	[EXPORT_PERFETTO] = { "perfetto-trace", export_perfetto_new, ANNOTATE_TEXT | ANNOTATE_CALLS, true },
};

const char *export_suffix(enum export_format to)
{
	return formats[to].suffix;
}

bool export_has_stack_option(enum export_format to)
{
	return formats[to].stack_option;
}

bool export_is_binary(enum export_format to)
{
	return to == EXPORT_PERFETTO;
}

/* The objects of report --json: what that prints, without its tables. */

struct jsonl_writer {
	struct export_writer w;
	struct printer *printer;
};

static void jsonl_free(struct export_writer *w)
{
	struct jsonl_writer *j = (struct jsonl_writer *)w;

	printer_free(j->printer);
	free(j);
}

struct export_writer *export_jsonl_new(void)
{
	struct jsonl_writer *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->w.free = jsonl_free;
	return &j->w;
}

/* The view that the chosen events go to. */
static struct wc_error *view_of(struct export_writer *w, struct view *ret)
{
	const struct print_options print = { .no_stack = w->opt->no_stack, .regs = w->opt->regs };
	struct jsonl_writer *j = (struct jsonl_writer *)w;

	*ret = (struct view){ .ops = w->ops, .ctx = w };
	if (w->opt->to != EXPORT_JSONL)
		return NULL;
	j->printer = print_json_new(export_out_file(w->out), &print);
	if (!j->printer)
		return &wc_enomem;
	*ret = printer_view(j->printer);
	return NULL;
}

static void writer_freep(struct export_writer **w)
{
	if (!*w)
		return;
	wc_error_free((*w)->err);
	(*w)->free(*w);
}

/* Between the log and what annotates it: what must be looked at after each event. */
struct feed {
	struct event_sink to;
	struct export_writer *writer;
	struct event_chooser *select;
	const volatile sig_atomic_t *stop;
};

static struct wc_error *take_error(struct feed *f)
{
	struct wc_error *err = f->writer->err;

	f->writer->err = NULL;
	return err ? err : event_chooser_take_error(f->select);
}

static struct wc_error *feed_put(void *ctx, const struct trace_event *e)
{
	struct feed *f = ctx;
	struct wc_error *err = f->to.put(f->to.ctx, e);

	if (!err)
		err = take_error(f);
	if (!err)
		err = export_out_check(f->writer->out);
	if (!err && f->stop && *f->stop)
		err = wc_error_new(WC_EFAIL, "interrupted: nothing was written");
	return err;
}

static struct wc_error *read_log(const char *log, struct feed *f, struct annotate *a, struct progress *p,
				 struct export_result *ret)
{
	scoped(reorder_freep) struct reorder *order = reorder_new(annotate_sink(a));
	struct wc_error *err;

	if (!order)
		return &wc_enomem;
	f->to = reorder_sink(order);
	err = replay_redacted(log, &f->writer->opt->redact, (struct event_sink){ feed_put, f },
			      export_out_file(f->writer->out), p, &ret->ending);
	if (!err)
		err = reorder_flush(order);
	if (!err) {
		annotate_finish(a);
		err = take_error(f);
	}
	return err;
}

struct wc_error *export_log(const char *log, const struct export_options *opt, struct export_out *out,
			    struct progress *p, const volatile sig_atomic_t *stop, struct export_result *ret)
{
	const struct format *format = &formats[opt->to];
	unsigned int stacks = opt->no_stack ? 0 : ANNOTATE_STACK;
	scoped(annotate_freep) struct annotate *a =
		annotate_new(NULL, format->facts | stacks | (format->facts ? 0 : ANNOTATE_NO_VALUES));
	scoped(writer_freep) struct export_writer *w = a ? format->create() : NULL;
	scoped(event_chooser_freep) struct event_chooser *select = NULL;
	struct feed feed = { .writer = w, .stop = stop };
	struct wc_error *err;
	struct view view;

	if (!w)
		return &wc_enomem;
	w->out = out;
	w->opt = opt;
	w->log = opt->name ? opt->name : log;
	err = view_of(w, &view);
	if (err)
		return err;
	feed.select = select = event_chooser_new(&opt->choice, view);
	if (!select)
		return &wc_enomem;
	annotate_add_view(a, event_chooser_view(select));
	err = read_log(log, &feed, a, p, ret);
	if (!err)
		err = event_chooser_check(select, w->log);
	if (!err && w->finish)
		err = w->finish(w);
	if (!err)
		err = take_error(&feed);
	ret->accesses = view.ops->access ? event_chooser_accesses(select) : 0;
	ret->captures = view.ops->capture ? event_chooser_captures(select) : 0;
	ret->calls = view.ops->call ? event_chooser_calls(select) : 0;
	ret->probes = view.ops->probe ? event_chooser_probes(select) : 0;
	ret->lost = event_chooser_lost(select);
	return err;
}
