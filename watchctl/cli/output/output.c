#include "watchctl/cli/output/output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/out_queue.h"
#include "watchctl/base/private_file.h"
#include "watchctl/base/utf8.h"
#include "watchctl/cli/output/colour.h"
#include "watchctl/cli/output/ending.h"
#include "watchctl/cli/output/redact_options.h"
#include "watchctl/code/symbols/symbolizer.h"
#include "watchctl/trace/redact.h"
#include "watchctl/view/event/annotate.h"
#include "watchctl/view/print/printer.h"
#include "watchctl/view/rewrite/symbolize.h"
#include "watchctl/view/words/json.h"

static volatile sig_atomic_t *stop_flag;
static struct out_queue *current; /* of the session that goes on: one at a time */

static const int signals[] = { SIGINT, SIGTERM, SIGHUP };

static void ask_to_stop(int sig)
{
	*stop_flag = sig;
}

void output_catch_signals(volatile sig_atomic_t *stop)
{
	/* Restart: a write of output that is cut short would be lost. */
	struct sigaction ours = { .sa_handler = ask_to_stop, .sa_flags = SA_RESTART }, old;
	size_t i;

	stop_flag = stop;
	for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (!sigaction(signals[i], NULL, &old) && old.sa_handler != SIG_IGN)
			sigaction(signals[i], &ours, NULL);
}

static void stop_catching_signals(void)
{
	struct sigaction now;
	size_t i;

	for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (!sigaction(signals[i], NULL, &now) && now.sa_handler == ask_to_stop)
			signal(signals[i], SIG_DFL);
}

static void say_line(const char *text)
{
	scoped(freep) char *line = NULL;

	if (current && asprintf(&line, "watchctl: %s\n", text) >= 0)
		out_queue_put(current, STDERR_FILENO, line, strlen(line));
	else
		fprintf(stderr, "watchctl: %s\n", text);
}

/* There may be names of the program in it. */
void output_say(void *ctx, const char *fmt, ...)
{
	scoped(freep) char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	if (text)
		utf8_clean_lines(text);
	say_line(text ? text : wc_enomem.text);
}

struct wc_error *output_tick(void *ctx)
{
	struct output *o = ctx;

	printer_idle(o->printer);
	fflush(o->out);
	if ((o->queue ? out_queue_error(o->queue) : ferror(o->out)) && o->stop)
		*o->stop = SIGPIPE; /* nobody reads any more */
	return o->log ? recorder_flush(o->log) : NULL;
}

static void text_gap(uint64_t lines, char *buf, size_t len)
{
	snprintf(buf, len, "  note: %" PRIu64 " line%s not printed here: the output was not read\n", lines,
		 lines == 1 ? " was" : "s were");
}

static void json_gap(uint64_t lines, char *buf, size_t len)
{
	snprintf(buf, len, "{\"type\":\"not_printed\",\"lines\":%" PRIu64 "}\n", lines);
}

static void start_queue(struct output *s, bool json)
{
	const struct out_queue_options q = { fileno(s->file), OUT_QUEUE_BYTES, json ? json_gap : text_gap };

	s->queue = out_queue_new(&q);
	if (s->queue)
		s->out = out_queue_file(s->queue);
	else
		output_say(NULL,
			   "no thread can be created for the output: a slow reader will delay the watch");
	current = s->queue;
}

/* The program that is launched from now on writes to a file; what was its place is ours. */
static struct wc_error *give_stdout(const char *path, struct output *s)
{
	scoped(closep) int program = private_file_open(path, 0);
	scoped(closep) int ours = -1;

	if (program < 0)
		return wc_error_errno(WC_EUSAGE, errno, "cannot write the program's output to %s", path);
	fflush(stdout);
	ours = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (ours < 0 || dup2(program, STDOUT_FILENO) < 0)
		return wc_error_errno(WC_EFAIL, errno, "cannot redirect the program's output");
	s->file = fdopen(ours, "w");
	if (!s->file)
		return &wc_enomem;
	take_fd(ours);
	s->is_stdout = true;
	return NULL;
}

/* Who looks for the objects in standard output is told where they are, in a form that a program can read. */
static void say_where(struct output *s)
{
	struct json j = { 0 };

	json_open(&j, NULL, '{');
	json_text(&j, "type", "note");
	json_text(
		&j, "text",
		"printed to standard error: standard output is the launched program's (--program-output FILE "
		"sends that elsewhere, --output FILE this)");
	json_close(&j, '}');
	json_end_line(&j, s->out);
	json_deinit(&j);
}

static struct wc_error *open_file(const struct output_options *o, struct output *s)
{
	const bool at_program = o->launched && !o->program_output && !o->file;
	struct wc_error *err = o->program_output ? give_stdout(o->program_output, s) : NULL;
	FILE *own = !err && o->file ? private_file_fopen(o->file) : NULL;

	if (err)
		return err;
	if (o->file && !own)
		return wc_error_errno(WC_EUSAGE, errno, "cannot write to %s", o->file);
	if (own && s->is_stdout) {
		fclose(s->file);
		s->is_stdout = false;
	}
	s->file = own ? own : s->is_stdout ? s->file : at_program ? stderr : stdout;
	s->out = s->file;
	fflush(s->file);
	start_queue(s, o->json);
	setvbuf(s->out, NULL, isatty(fileno(s->file)) ? _IOLBF : _IOFBF, 1 << 16);
	if (at_program && o->json)
		say_where(s);
	return NULL;
}

/*
 * Who prints neither accesses nor tables need not look at accesses, but for those of watches for reads: which
 * of them were pure writes, and do not count, is known only by looking.
 */
static struct wc_error *put_the_rest(void *ctx, const struct trace_event *e)
{
	struct output *o = ctx;
	struct event_sink to = annotate_sink(o->annotate);

	if (e->type == EVENT_WATCH && e->watch.access == ACCESS_READ && e->watch.id < 64)
		o->looked_at |= 1ull << e->watch.id;
	if (e->type == EVENT_CAPTURE || e->type == EVENT_PROBE || (e->type == EVENT_CODE && !o->looked_at) ||
	    (e->type == EVENT_ACCESS && !(e->access.watch < 64 && o->looked_at >> e->access.watch & 1)))
		return NULL;
	return to.put(to.ctx, e);
}

struct wc_error *output_open(const struct output_options *o, struct output *s)
{
	unsigned int flags = (o->print.no_stack || o->no_events ? 0 : ANNOTATE_STACK) | ANNOTATE_TEXT |
			     (o->no_events ? ANNOTATE_NO_VALUES : ANNOTATE_CALLS);
	struct report_options report = { .no_events = o->no_events,
					 .no_tables = o->no_tables,
					 .calls = !o->no_events,
					 .instructions = !o->no_events };
	struct print_options print = o->print;
	struct wc_error *err = open_file(o, s);

	if (err)
		return err;
	print.colour = !o->json && colour_is_wanted(o->colour, fileno(s->file));
	print.width = terminal_width(fileno(s->file));
	s->annotate = annotate_new(NULL, flags);
	s->printer = o->json ? print_json_new(s->out, &print) : print_text_new(s->out, &print);
	if (!s->annotate || !s->printer)
		return &wc_enomem;
	annotate_set_syntax(s->annotate, print.syntax);
	s->report = report_new(s->annotate, s->printer, &report);
	if (!s->report)
		return &wc_enomem;
	annotate_add_view(s->annotate, report_view(s->report));
	s->events = o->no_tables ? (struct event_sink){ put_the_rest, s } : annotate_sink(s->annotate);
	s->logged = o->log;
	if (o->log) {
		symbolizer_hold_files(annotate_symbolizer(s->annotate));
		err = tracelog_set_aside(o->log, o->force, &s->old_log);
		if (err)
			return err;
		err = o->bounds.bytes || o->bounds.keep_ns
			      ? recorder_open_ring(o->log, &o->bounds, s->events, &s->log)
			      : recorder_open(o->log, s->events, &s->log);
		if (err) {
			tracelog_put_back(s->old_log);
			s->old_log = NULL;
			return err;
		}
		s->events = recorder_sink(s->log);
	}
	if (!redact_is_asked(&o->redact))
		return NULL;
	err = redact_new(&o->redact, s->events, &s->redact);
	if (!err)
		s->events = redact_sink(s->redact);
	return err;
}

static void warn_unused(const struct redact *r)
{
	const char *name;
	size_t i = 0;

	while (r && (name = redact_unused(r, &i)))
		redact_ask_warn(name);
}

void output_discard_log(struct output *o)
{
	recorder_discard(o->log);
	tracelog_put_back(o->old_log);
	o->log = NULL;
	o->old_log = NULL;
}

/*
 * Readers of the log find files by path and build id. What lies elsewhere by now is named while we still have it open.
 * The log is whole without: a failure is no error.
 */
static void keep_lost_names(const struct output *o)
{
	struct symbolizer *live = annotate_symbolizer(o->annotate);
	const struct symbolize_options options = { .live = live };
	scoped(symbolize_freep) struct symbolize *names = NULL;
	struct wc_error *err;

	if (!symbolizer_find_lost(live))
		return;
	err = symbolize_log(o->logged, &options, &names);
	if (err)
		output_say(
			NULL,
			"files of the program were replaced, and their names cannot be added to the log: %s",
			err->text);
	wc_error_free(err);
}

struct wc_error *output_end_log(struct output *o)
{
	struct recorder *log = o->log;
	struct wc_error *err;

	o->log = NULL;
	err = recorder_close(log);
	tracelog_drop_old(o->old_log);
	o->old_log = NULL;
	if (log && !err)
		keep_lost_names(o);
	return err;
}

/* The watch is over: from now on we wait for the reader, as any program does, and a signal ends us. */
static void begin_to_wait(struct output *s)
{
	if (!s->queue)
		return;
	if (s->stop)
		*s->stop = 0;
	out_queue_wait_for_reader(s->queue, s->stop);
}

/* A failure, but where nothing is lost by it. */
static struct wc_error *report_left_out(const struct output *s, uint64_t lines)
{
	static const char were[] = "s were", was[] = " was";

	if (!s->logged)
		return wc_error_new(WC_EFAIL, "%" PRIu64 " line%s not printed: the output was not read",
				    lines, lines == 1 ? was : were);
	output_say(NULL, "%" PRIu64 " line%s not printed: the output was not read (the log has everything)",
		   lines, lines == 1 ? was : were);
	return NULL;
}

/* All that was printed has been read, or will not be. Returns an errno. */
static int end_queue(struct output *s, struct wc_error **ret_left_out)
{
	uint64_t left_out = out_queue_finish(s->queue);
	int error = out_queue_error(s->queue);

	current = NULL;
	if (s->stop && *s->stop)
		stop_catching_signals(); /* standard error may be what nobody reads */
	if (left_out && !error)
		*ret_left_out = report_left_out(s, left_out);
	out_queue_free(s->queue);
	s->queue = NULL;
	s->out = s->file;
	return error;
}

static struct wc_error *close_file(struct output *s)
{
	struct wc_error *err = NULL;
	int error = s->queue ? end_queue(s, &err) : 0;
	bool is_ours = s->file && s->file != stdout && s->file != stderr;

	if (s->file == stdout && error)
		stdout_has_failed(error);
	if (s->file && !is_ours)
		fflush(s->file);
	if (is_ours && fclose(s->file) && !error)
		error = errno;
	if (s->is_stdout && error == EPIPE) /* as in end_with() */
		error = 0;
	return err || !is_ours || !error ? err : wc_error_errno(WC_EFAIL, error, "cannot write the output");
}

struct wc_error *output_close(struct output *s, bool complete)
{
	struct wc_error *err = output_end_log(s);

	begin_to_wait(s);
	if (s->report && complete)
		report_finish(s->report);
	report_free(s->report);
	printer_free(s->printer);
	annotate_free(s->annotate);
	err = wc_error_first(err, close_file(s));
	if (complete)
		warn_unused(s->redact);
	redact_free(s->redact);
	s->redact = NULL;
	return err;
}
