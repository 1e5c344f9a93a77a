/* cmd_record - `watchctl record`: a flight recorder, for as long as it takes until it happens. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "watchctl/cli/command.h"
#include "watchctl/cli/output/colour.h"
#include "watchctl/cli/output/output.h"
#include "watchctl/cli/request/record_trigger.h"
#include "watchctl/cli/request/watch_request.h"
#include "watchctl/view/words/json.h"

#define RING_DEFAULT (1ull << 30)
#define SNAPSHOTS_DEFAULT 10
#define SNAPSHOTS_MAX 10000
#define LAST_DEFAULT_NS 60000000000ull

struct request {
	struct watch_ask ask;
	struct output_options output;
	struct record_trigger_options trigger;
	const char *watches[MONITOR_WATCHES];
	bool unbounded, verbose;
	const char *of_trigger; /* an option that makes sense with a trigger only */
};

static struct wc_error *set_trigger(const struct option_match *m, void *to)
{
	struct request *q = to;

	if (q->trigger.condition)
		return wc_error_new(WC_EUSAGE,
				    "--trigger was given twice: join the conditions with && or ||");
	q->trigger.condition = m->value;
	return NULL;
}

static struct wc_error *set_last(const struct option_match *m, void *to)
{
	uint64_t *last_ns = to;

	*last_ns = 0;
	return strcmp(m->value, "all") != 0 ? option_time(m, last_ns) : NULL;
}

static struct wc_error *note_of_trigger(const struct option_match *m, void **to)
{
	struct request *q = *to;

	q->of_trigger = m->option->name;
	return NULL;
}

static const struct option trigger_options[] = {
	{ "--on-trigger", NULL, "WHAT",
	  "snapshot: save what there is as LOG.trigger-1, -2 ... and go on (default); stop: end the "
	  "recording",
	  COMPLETE_WORDS, "snapshot stop", OPTION_CHOICE(struct request, trigger.action) },
	{ "--after", NULL, "TIME", "first record that much longer (default: do it at once)", COMPLETE_NOTHING,
	  NULL, OPTION_TIME(struct request, trigger.after_ns) },
	{ "--last", NULL, "TIME", "what a snapshot keeps: the last 60s (default), 10m ...; all: everything",
	  COMPLETE_NOTHING, NULL, .set = set_last, .at = offsetof(struct request, trigger.last_ns) },
	{ "--snapshots", NULL, "N", "save at most N (default 10)", COMPLETE_NOTHING, NULL,
	  OPTION_NUMBER(struct request, trigger.snapshots, 1, SNAPSHOTS_MAX) },
	{ 0 },
};

static const struct option options[] = {
	OPTIONS_IN(struct request, ask, watch_options),
	{ "-o", "--log", "LOG", "record into the new log LOG", COMPLETE_DIRECTORY, NULL,
	  OPTION_TEXT(struct request, output.log) },
	{ "--force", NULL, NULL, "replace LOG where it exists", 0, NULL,
	  OPTION_FLAG(struct request, output.force) },
	{ "--ring", NULL, "SIZE",
	  "keep the log at or below SIZE (1M and more), the oldest goes first (default: 1G, or none with "
	  "--keep)",
	  COMPLETE_NOTHING, NULL, OPTION_BYTES(struct request, output.bounds.bytes) },
	{ "--keep", NULL, "TIME", "keep what is younger than TIME: 10m, 2h, 3d", COMPLETE_NOTHING, NULL,
	  OPTION_TIME(struct request, output.bounds.keep_ns) },
	{ "--unbounded", NULL, NULL, "keep everything, as watchctl -o does", 0, NULL,
	  OPTION_FLAG(struct request, unbounded) },
	{ "--trigger", NULL, "COND",
	  "when COND holds, do as --on-trigger says: 'flag==0 && caller handle_error', see TRIGGERS in the "
	  "manual",
	  COMPLETE_NOTHING, NULL, .set = set_trigger },
	{ .more = trigger_options, .find = note_of_trigger },
	{ "--json", NULL, NULL, "one JSON object a line", 0, NULL, OPTION_FLAG(struct request, output.json) },
	{ "--program-output", NULL, "FILE",
	  "the standard output of a launched program goes to FILE; what is printed then has ours",
	  COMPLETE_FILE, NULL, OPTION_TEXT(struct request, output.program_output) },
	{ "--output", NULL, "FILE",
	  "print to FILE (default: standard output; with a launched program, standard error)", COMPLETE_FILE,
	  NULL, OPTION_TEXT(struct request, output.file) },
	{ "--utc", NULL, NULL, "times of day in UTC", 0, NULL,
	  OPTION_FLAG(struct request, output.print.utc) },
	{ "--syntax", NULL, "SYNTAX", "of instructions: intel or att (AT&T)", COMPLETE_WORDS,
	  INSN_SYNTAX_WORDS, OPTION_CHOICE(struct request, output.print.syntax) },
	{ "--color", NULL, "WHEN", "colours: auto, always or never", COMPLETE_WORDS, COLOUR_WORDS,
	  OPTION_CHOICE(struct request, output.colour) },
	OPTIONS_IN(struct request, ask, watch_engine_options),
	{ "--verbose", NULL, NULL, "report what is being done", 0, NULL,
	  OPTION_FLAG(struct request, verbose) },
	{ 0 },
};

static volatile sig_atomic_t stop_asked;

static struct wc_error *cmd_record_check(struct request *q)
{
	struct tracelog_bounds *b = &q->output.bounds;
	struct wc_error *err = watch_ask_check(&q->ask);
	unsigned int i;

	if (err)
		return err;
	if (!q->output.log)
		return wc_error_new(WC_EUSAGE, "record into which log? Name a new one with -o LOG");
	if (q->output.program_output && !q->ask.monitor.argv)
		return wc_error_new(WC_EUSAGE, "--program-output needs a program to launch: -- PROGRAM");
	if (q->unbounded && (b->bytes || b->keep_ns))
		return wc_error_new(WC_EUSAGE, "--unbounded keeps everything: it excludes --ring and --keep");
	if (b->bytes && b->bytes < TRACELOG_RING_MIN)
		return wc_error_new(WC_EUSAGE,
				    "--ring: a log of less than 1M has no room for what must be in it");
	if (q->of_trigger && !q->trigger.condition)
		return wc_error_new(WC_EUSAGE,
				    "%s says what a trigger does, and there is none: --trigger COND",
				    q->of_trigger);
	if (!q->unbounded && !b->bytes && !b->keep_ns)
		b->bytes = RING_DEFAULT;
	for (i = 0; i < q->ask.monitor.nwatches; i++)
		q->watches[i] = q->ask.monitor.watch[i].expr;
	q->trigger.watches = q->watches;
	q->trigger.nwatches = q->ask.monitor.nwatches;
	return NULL;
}

static struct wc_error *take_word(void *request, const char *word)
{
	return wc_error_new(WC_EUSAGE,
			    "\"%s\" is no option: variables are named by -v, a program to start follows --",
			    word);
}

static struct wc_error *cmd_record_parse(int argc, char **argv, struct request *q)
{
	struct wc_error *err;

	watch_ask_init(&q->ask);
	q->trigger.snapshots = SNAPSHOTS_DEFAULT;
	q->trigger.last_ns = LAST_DEFAULT_NS;
	err = option_parse_launch(argc, argv, options, q, take_word, &q->ask.monitor.argv);
	return err ? err : cmd_record_check(q);
}

/* "2.0 GB": of 1024s, as --ring takes them. */
static void size_text(uint64_t bytes, char *buf, size_t cap)
{
	static const char *const unit[] = { "bytes", "KB", "MB", "GB", "TB" };
	double n = (double)bytes;
	unsigned int i;

	for (i = 0; i < 4 && n >= 1024; i++)
		n /= 1024;
	snprintf(buf, cap, i && n < 10 ? "%.1f %s" : "%.0f %s", n, unit[i]);
}

static void report_start(const struct request *q, FILE *out)
{
	const struct tracelog_bounds *b = &q->output.bounds;
	struct json j = { 0 };
	char size[32], keep[48] = "";

	if (q->output.json) {
		json_open(&j, NULL, '{');
		json_text(&j, "type", "recorder");
		json_text(&j, "log", q->output.log);
		if (b->bytes)
			json_number(&j, "ring_bytes", b->bytes);
		if (b->keep_ns)
			json_number(&j, "keep_ns", b->keep_ns);
		if (q->trigger.condition)
			json_text(&j, "trigger", q->trigger.condition);
		json_close(&j, '}');
		json_end_line(&j, out);
		json_deinit(&j);
	} else {
		size_text(b->bytes, size, sizeof(size));
		if (b->keep_ns)
			snprintf(keep, sizeof(keep), ", of the last %g s", (double)b->keep_ns / 1e9);
		fprintf(out,
			"recording into %s%s%s%s; Ctrl-C ends it, watchctl snapshot %s -o NEW saves what "
			"there is\n",
			q->output.log, b->bytes ? ", at most " : "", b->bytes ? size : "", keep,
			q->output.log);
	}
	fflush(out);
}

struct session {
	struct output *output;
	struct record_trigger *trigger; /* NULL: none */
};

static struct wc_error *cmd_record_tick(void *ctx)
{
	struct session *s = ctx;
	struct wc_error *err = output_tick(s->output);

	return err || !s->trigger ? err : record_trigger_tick(s->trigger);
}

static struct wc_error *record(struct request *q, struct output *o, struct session *s)
{
	struct session_limits limits = { .count = q->ask.count,
					 .time_ns = q->ask.time_ns,
					 .stop = &stop_asked,
					 .tick = cmd_record_tick,
					 .tick_ctx = s };
	enum session_end end = SESSION_STOPPED;
	struct monitor *m = NULL;
	struct wc_error *err, *close_err;
	const char *unarmed;
	bool uncollected, nothing_recorded;

	if (q->verbose)
		q->ask.monitor.say = output_say;
	q->ask.monitor.stop = &stop_asked;
	err = monitor_open(&q->ask.monitor, s->trigger ? record_trigger_sink(s->trigger) : o->events, &m);
	if (err) {
		output_discard_log(o);
		return err;
	}
	report_start(q, o->out);
	ready_tell(&q->ask.ready);
	err = monitor_run(m, &limits, &end);
	o->watched = !err;
	nothing_recorded = err && monitor_failed_at_start(m);
	unarmed = monitor_never_armed(m);
	uncollected = monitor_never_collected(m);
	close_err = monitor_close(m);
	if (nothing_recorded)
		output_discard_log(o);
	if (!err)
		err = watch_verdict(end, unarmed, uncollected);
	if (err && close_err)
		output_say(NULL, "%s", close_err->text);
	return wc_error_first(err, close_err);
}

static struct wc_error *open_trigger(struct request *q, struct output *o, struct session *s)
{
	q->trigger.log = q->output.log;
	q->trigger.json = q->output.json;
	q->trigger.out = o->out;
	q->trigger.stop = &stop_asked;
	return q->trigger.condition ? record_trigger_open(&q->trigger, o->events, &s->trigger) : NULL;
}

static struct wc_error *cmd_record_run(int argc, char **argv)
{
	struct output o = { .stop = &stop_asked };
	struct session s = { .output = &o };
	struct request q = { 0 };
	struct wc_error *err = cmd_record_parse(argc, argv, &q);

	if (err)
		return err;
	output_catch_signals(&stop_asked);
	q.output.launched = q.ask.monitor.argv;
	q.output.no_events = q.output.no_tables = true;
	q.output.redact = redact_ask_rules(&q.ask.redact);
	err = output_open(&q.output, &o);
	if (!err)
		err = open_trigger(&q, &o, &s);
	if (err)
		output_discard_log(&o);
	else
		err = record(&q, &o, &s);
	err = wc_error_first(err, output_end_log(&o));
	record_trigger_close(s.trigger);
	return wc_error_first(err, output_close(&o, !err || o.watched || err->kind == WC_ETARGET ||
							    err->kind == WC_ENOTSUP));
}

const struct command cmd_record = {
	.name = "record",
	.args = "-p PID -v EXPR [filters] -o LOG [--ring SIZE] [--keep TIME] [--trigger COND] [options]\n"
		"-v EXPR [filters] -o LOG [options] -- PROGRAM [ARGS]",
	.summary = "record accesses for days into a log of bounded size, and save it when something happens",
	.help = "Of a log that becomes larger than --ring, or older than --keep, the oldest part is "
		"removed;\n"
		"what is left can be read, as any log, while the recording goes on: watchctl report LOG,\n"
		"watchctl top LOG; watchctl snapshot LOG -o NEW --last 30s.\n",
	.options = options,
	.operand = COMPLETE_NOTHING,
	.run = cmd_record_run,
};
