/* cmd_watch - `watchctl -p PID -v EXPR ...`: the live session. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/cli/colour.h"
#include "watchctl/cli/command.h"
#include "watchctl/cli/output.h"
#include "watchctl/monitor/monitor.h"

#define FRAMES_DEFAULT 32
#define FRAMES_MAX 64
#define TAG_FRAMES_DEFAULT 64
#define TAG_FRAMES_MAX 128
#define BUFFER_DEFAULT (8ull << 20)
#define BUFFER_MIN (64ull << 10)
#define BUFFER_MAX (1ull << 30)
#define TAG_BUFFER_MAX (256ull << 20)

struct request {
	struct monitor_options monitor;
	struct monitor_limits limits;
	struct output_options output;
	bool quiet, echo, verbose;
};

static const struct option options[] = {
	{ "-p", "--pid", "PID", "the process to watch", COMPLETE_PID, NULL },
	{ "-v", "--variable", "EXPR",
	  "what to watch; up to four, each with the options behind it, down to --rate", COMPLETE_NOTHING,
	  NULL },
	{ "-s", "--size", "SIZE", "bytes to watch, 1 to 32 (default: the type's size)", COMPLETE_WORDS,
	  "1 2 4 8 16 32" },
	{ "-w", "--write", NULL, "writes (the default)", 0, NULL },
	{ "-r", "--read", NULL, "reads", 0, NULL },
	{ "-rw", "--read-write", NULL, "reads and writes", 0, NULL },
	{ "-x", "--execute", NULL, "executions: EXPR is a function, function+0x12, file.c:123 or 0x...", 0,
	  NULL },
	{ "-i", "--register", "0..3",
	  "use this debug register, set by ptrace (stops every thread for a moment)", COMPLETE_WORDS,
	  "0 1 2 3" },
	{ "--follow", NULL, NULL,
	  "move the watch when a pointer on its path changes (takes a register for each pointer)", 0, NULL },
	{ "--if", NULL, "COND",
	  "record only hits for which COND holds: new==0, new>old+100, new in 3..7, thread==\"gc\", size==8",
	  COMPLETE_NOTHING, NULL },
	{ "--changes", NULL, NULL, "record only hits that change the value", 0, NULL },
	{ "--caller", NULL, "FUNC",
	  "record only hits with FUNC in their stack; may be repeated (any of them)", COMPLETE_NOTHING,
	  NULL },
	{ "--not-caller", NULL, "FUNC", "record no hits with FUNC in their stack; may be repeated",
	  COMPLETE_NOTHING, NULL },
	{ "--thread", NULL, "NAME|TID", "record only hits of the threads of that name, or of that thread",
	  COMPLETE_NOTHING, NULL },
	{ "--sample", NULL, "N", "of the hits that pass, record every Nth", COMPLETE_NOTHING, NULL },
	{ "--rate", NULL, "N/s", "and at most N a second, evenly (also N/ms, N/min)", COMPLETE_NOTHING,
	  NULL },
	{ "--tags", NULL, NULL,
	  "collect the tagged stacks that the program captures with libstackwalk, see stackwalk(7)", 0,
	  NULL },
	{ "-n", "--count", "COUNT", "end after COUNT accesses and captures", COMPLETE_NOTHING, NULL },
	{ "-t", "--time", "SECONDS", "end after SECONDS (fractions allowed)", COMPLETE_NOTHING, NULL },
	{ "-o", "--log", "LOG", "record into the new log LOG; accesses and captures are then not printed",
	  COMPLETE_NOTHING, NULL },
	{ "--echo", NULL, NULL, "with -o: print them all the same", 0, NULL },
	{ "--output", NULL, "FILE",
	  "print to FILE (default: standard output; with a launched program, standard error)", COMPLETE_FILE,
	  NULL },
	{ "--json", NULL, NULL, "one JSON object a line", 0, NULL },
	{ "--no-stack", NULL, NULL, "do not print the callers", 0, NULL },
	{ "--regs", NULL, NULL, "print the registers, as they are after the access", 0, NULL },
	{ "--utc", NULL, NULL, "times of day in UTC", 0, NULL },
	{ "--color", NULL, "WHEN", "colours: auto, always or never", COMPLETE_WORDS, COLOUR_WORDS },
	{ "--engine", NULL, "ENGINE", "auto (default), handler, ring or ptrace: see ENGINES in the manual",
	  COMPLETE_WORDS, "auto handler ring ptrace" },
	{ "--fork", NULL, "WHAT", "what to do about forked children: ignore (default) or follow",
	  COMPLETE_WORDS, "ignore follow" },
	{ "--exec", NULL, "WHAT",
	  "when the process executes another program: ignore (default), which ends the watch, or follow",
	  COMPLETE_WORDS, "ignore follow" },
	{ "--frames", NULL, "N",
	  "most frames of a stack, 1 to 64 (default 32); of a capture, 1 to 128 (default 64)",
	  COMPLETE_NOTHING, NULL },
	{ "--buffer", NULL, "SIZE",
	  "size of the event buffer in the target, 64K to 1G (default 8M); with --tags that of each thread, "
	  "at "
	  "most 256M",
	  COMPLETE_NOTHING, NULL },
	{ "--private-buffer", NULL, NULL, "do not share the event buffer; read it through the kernel", 0,
	  NULL },
	{ "--pending", NULL, NULL, "wait for a library that is not loaded yet", 0, NULL },
	{ "-q", "--quiet", NULL, "print no accesses and captures: only the tables and the summary", 0, NULL },
	{ "--verbose", NULL, NULL, "tell what is being done", 0, NULL },
	{ 0 },
};

static volatile sig_atomic_t stop_asked;

static struct wc_error *add_watch(struct request *q, const char *expr)
{
	if (q->monitor.nwatches == MONITOR_WATCHES)
		return wc_error_new(WC_ESLOTS,
				    "a CPU has %u debug registers, so at most %u variables can be watched at "
				    "once: \"%s\" "
				    "is one too many",
				    MONITOR_WATCHES, MONITOR_WATCHES, expr);
	q->monitor.watch[q->monitor.nwatches++] =
		(struct watch_request){ .expr = expr, .access = ACCESS_WRITE, .slot = -1 };
	return NULL;
}

static struct wc_error *take_slot(struct watch_request *w, const struct option_match *m)
{
	uint64_t n;
	struct wc_error *err = option_number(m, 0, 3, &n);

	if (!err)
		w->slot = (int)n;
	return err;
}

static struct wc_error *take_size(struct watch_request *w, const struct option_match *m)
{
	uint64_t n;
	struct wc_error *err = option_number(m, 1, UINT32_MAX, &n);

	if (err)
		return err;
	if (n > WATCH_SIZE_MAX)
		return wc_error_new(WC_EUSAGE,
				    "-s %s: the four debug registers of a CPU cover at most %u bytes, where "
				    "these begin at "
				    "a multiple of 8",
				    m->value, WATCH_SIZE_MAX);
	w->size = (uint32_t)n;
	return NULL;
}

/* "100/s", "100": a second; "5/ms", "10/min". */
static struct wc_error *take_rate(struct watch_request *w, const struct option_match *m)
{
	static const struct {
		const char *unit;
		double seconds;
	} units[] = { { "", 1 }, { "/s", 1 }, { "/ms", 1e-3 }, { "/min", 60 }, { "/h", 3600 } };
	char *end;
	double n = strtod(m->value, &end);
	size_t i;

	for (i = 0; i < sizeof(units) / sizeof(units[0]) && strcmp(end, units[i].unit) != 0; i++)
		;
	if (end == m->value || i == sizeof(units) / sizeof(units[0]) || !(n > 0) || n > 1e9)
		return wc_error_new(
			WC_EUSAGE, "--rate %s: give a number greater than 0 and a unit, like 100/s or 10/min",
			m->value);
	w->rate = n / units[i].seconds;
	return NULL;
}

static struct wc_error *take_caller(const char **list, unsigned int *n, const struct option_match *m)
{
	if (*n == MONITOR_CALLERS)
		return wc_error_new(WC_EUSAGE, "%s can be given at most %u times for one watch",
				    m->option->name, MONITOR_CALLERS);
	list[(*n)++] = m->value;
	return NULL;
}

static bool take_access(struct watch_request *w, const struct option_match *m)
{
	static const struct {
		const char *name;
		enum access_kind access;
	} options_of[] = { { "-w", ACCESS_WRITE },
			   { "-r", ACCESS_READ },
			   { "-rw", ACCESS_READWRITE },
			   { "-x", ACCESS_EXECUTE } };
	size_t i;

	for (i = 0; i < sizeof(options_of) / sizeof(options_of[0]); i++) {
		if (option_is(m, options_of[i].name)) {
			w->access = options_of[i].access;
			return true;
		}
	}
	return false;
}

static struct wc_error *watch_option(struct request *q, const struct option_match *m)
{
	struct watch_request *w = &q->monitor.watch[q->monitor.nwatches ? q->monitor.nwatches - 1 : 0];

	if (!q->monitor.nwatches)
		return wc_error_new(WC_EUSAGE,
				    "%s belongs to a watch: put it after the -v EXPR that it is for",
				    m->option->name);
	if (take_access(w, m))
		return NULL;
	if (option_is(m, "-i"))
		return take_slot(w, m);
	if (option_is(m, "-s"))
		return take_size(w, m);
	if (option_is(m, "--rate"))
		return take_rate(w, m);
	if (option_is(m, "--sample"))
		return option_number(m, 1, UINT64_MAX, &w->sample);
	if (option_is(m, "--caller"))
		return take_caller(w->callers, &w->ncallers, m);
	if (option_is(m, "--not-caller"))
		return take_caller(w->not_callers, &w->nnot_callers, m);
	if (option_is(m, "--follow"))
		w->follow = true;
	else if (option_is(m, "--changes"))
		w->changes = true;
	else if (option_is(m, "--thread"))
		w->thread = m->value;
	else if (option_is(m, "--if") && w->condition)
		return wc_error_new(WC_EUSAGE,
				    "--if was given twice for \"%s\": join the conditions with && or ||",
				    w->expr);
	else if (option_is(m, "--if"))
		w->condition = m->value;
	return NULL;
}

static struct wc_error *take_seconds(const struct option_match *m, uint64_t *ret)
{
	char *end;
	double seconds = strtod(m->value, &end);

	if (end == m->value || *end || !(seconds > 0) || seconds > 1e9)
		return wc_error_new(
			WC_EUSAGE, "-t %s: give a number of seconds greater than 0, like 5 or 0.5", m->value);
	*ret = (uint64_t)(seconds * 1e9);
	return NULL;
}

static struct wc_error *take_buffer(const struct option_match *m, size_t *ret)
{
	char *end;
	unsigned long long n = strtoull(m->value, &end, 10);
	unsigned int shift = *end == 'K' || *end == 'k'	  ? 10
			     : *end == 'M' || *end == 'm' ? 20
			     : *end == 'G'		  ? 30
							  : 0;

	if (shift)
		end++;
	if (end == m->value || *end || n > BUFFER_MAX || (n << shift) < BUFFER_MIN ||
	    (n << shift) > BUFFER_MAX || ((n << shift) & ((n << shift) - 1)))
		return wc_error_new(WC_EUSAGE, "--buffer %s: give a power of two from 64K to 1G, like 8M",
				    m->value);
	*ret = n << shift;
	return NULL;
}

static bool take_flag(struct request *q, const struct option_match *m)
{
	const struct {
		const char *name;
		bool *flag;
	} flags[] = {
		{ "--echo", &q->echo },
		{ "--json", &q->output.json },
		{ "--no-stack", &q->output.print.no_stack },
		{ "--regs", &q->output.print.regs },
		{ "--utc", &q->output.print.utc },
		{ "--private-buffer", &q->monitor.private_ring },
		{ "--pending", &q->monitor.pending },
		{ "--tags", &q->monitor.tags },
		{ "-q", &q->quiet },
		{ "--verbose", &q->verbose },
	};
	size_t i;

	for (i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		if (option_is(m, flags[i].name)) {
			*flags[i].flag = true;
			return true;
		}
	}
	return false;
}

static struct wc_error *take_option(struct request *q, const struct option_match *m)
{
	unsigned int choice = 0;
	struct wc_error *err;
	uint64_t n;

	if (take_flag(q, m))
		return NULL;
	if (option_is(m, "-v"))
		return add_watch(q, m->value);
	if (option_is(m, "-p")) {
		err = option_number(m, 1, INT32_MAX, &n);
		if (!err && q->monitor.pid)
			err = wc_error_new(WC_EUSAGE,
					   "-p was given twice: one process can be watched at a time");
		if (!err)
			q->monitor.pid = (pid_t)n;
		return err;
	}
	if (option_is(m, "-n"))
		return option_number(m, 1, UINT64_MAX, &q->limits.count);
	if (option_is(m, "-t"))
		return take_seconds(m, &q->limits.time_ns);
	if (option_is(m, "--frames")) {
		err = option_number(m, 1, TAG_FRAMES_MAX, &n);
		if (!err)
			q->monitor.frames = q->monitor.tag_frames = (unsigned int)n;
		return err;
	}
	if (option_is(m, "--engine")) {
		err = option_choice(m, &choice);
		q->monitor.engine = err ? MONITOR_AUTO : (enum monitor_engine)choice;
		return err;
	}
	if (option_is(m, "--fork")) {
		err = option_choice(m, &choice);
		q->monitor.follow_fork = !err && choice;
		return err;
	}
	if (option_is(m, "--exec")) {
		err = option_choice(m, &choice);
		q->monitor.follow_exec = !err && choice;
		return err;
	}
	if (option_is(m, "--buffer")) {
		err = take_buffer(m, &q->monitor.buffer_size);
		q->monitor.tag_ring_size = q->monitor.buffer_size;
		return err;
	}
	if (option_is(m, "--color"))
		return option_choice(m, &q->output.colour);
	if (option_is(m, "-o")) {
		q->output.log = m->value;
		return NULL;
	}
	if (option_is(m, "--output")) {
		q->output.file = m->value;
		return NULL;
	}
	return watch_option(q, m);
}

static struct wc_error *check_watches(const struct request *q)
{
	unsigned int i;

	for (i = 0; i < q->monitor.nwatches; i++) {
		const struct watch_request *w = &q->monitor.watch[i];

		if (w->access == ACCESS_EXECUTE && (w->size || w->follow))
			return wc_error_new(WC_EUSAGE,
					    "%s has no meaning for an execute watch (-x) of \"%s\"",
					    w->size ? "-s" : "--follow", w->expr);
	}
	return NULL;
}

/* What captures and accesses do not have in common. */
static struct wc_error *check_tags(const struct request *q)
{
	const struct monitor_options *o = &q->monitor;

	if (o->nwatches && o->frames > FRAMES_MAX)
		return wc_error_new(WC_EUSAGE, "--frames %u: the stack of an access has at most %u",
				    o->frames, FRAMES_MAX);
	if (!o->nwatches && (o->engine != MONITOR_AUTO || o->private_ring))
		return wc_error_new(WC_EUSAGE,
				    "%s is about how variables are watched, and none is: name one with -v",
				    o->private_ring ? "--private-buffer" : "--engine");
	if (!o->tags)
		return NULL;
	if (o->tag_ring_size > TAG_BUFFER_MAX)
		return wc_error_new(WC_EUSAGE, "--buffer: with --tags, each thread has one: at most 256M");
	if (o->follow_fork)
		return wc_error_new(WC_EUSAGE,
				    "--fork follow does not go with --tags: captures are collected from one "
				    "process; run another watchctl --tags on the child");
	return NULL;
}

static struct wc_error *check(const struct request *q)
{
	struct wc_error *err;

	if (!q->monitor.nwatches && !q->monitor.tags)
		return wc_error_new(WC_EUSAGE,
				    "what shall be watched? Name it with -v EXPR, for example -v flag; or "
				    "collect tagged stacks with --tags");
	if (q->monitor.pid && q->monitor.argv)
		return wc_error_new(
			WC_EUSAGE,
			"-p PID watches a running process, -- PROGRAM starts one: give one of them");
	if (!q->monitor.pid && !q->monitor.argv)
		return wc_error_new(WC_EUSAGE,
				    "watch it in which process? Give -p PID, or -- PROGRAM to start one");
	if (q->monitor.pid == getpid())
		return wc_error_new(WC_EUSAGE, "process %d is watchctl itself", q->monitor.pid);
	err = check_watches(q);
	if (!err)
		err = check_tags(q);
	if (err)
		return err;
	if (q->echo && !q->output.log)
		return wc_error_new(WC_EUSAGE,
				    "--echo goes with -o LOG: without it, accesses are printed anyway");
	return NULL;
}

static struct wc_error *parse(int argc, char **argv, struct request *ret)
{
	struct option_scan scan = { .argc = argc, .argv = argv, .next = 1, .options = options };
	struct request q = { .monitor = { .frames = FRAMES_DEFAULT,
					  .buffer_size = BUFFER_DEFAULT,
					  .tag_frames = TAG_FRAMES_DEFAULT,
					  .tag_ring_size = BUFFER_DEFAULT } };
	struct option_match m;
	struct wc_error *err;

	do {
		err = option_next(&scan, &m);
		if (!err && m.kind == OPTION_FOUND)
			err = take_option(&q, &m);
		else if (!err && m.kind == OPTION_WORD)
			err = wc_error_new(
				WC_EUSAGE,
				"\"%s\" is neither an option nor a command: variables are named by -v, a "
				"program to start follows --",
				m.value);
		if (err)
			return err;
	} while (m.kind == OPTION_FOUND);

	if (m.kind == OPTION_DASHES) {
		if (scan.next == argc)
			return wc_error_new(WC_EUSAGE, "the program to start is missing after --");
		q.monitor.argv = argv + scan.next;
	}
	err = check(&q);
	if (!err)
		*ret = q;
	return err;
}

static struct wc_error *verdict(enum monitor_end end, const char *unarmed, bool uncollected)
{
	if (unarmed && end != MONITOR_GAVE_UP)
		return wc_error_new(
			WC_ENAME,
			"%s was never armed: the library was not loaded while watchctl waited for it",
			unarmed);
	if (uncollected && end != MONITOR_GAVE_UP)
		return wc_error_new(
			WC_ENOTSUP,
			"the program had no libstackwalk in it, as long as watchctl looked: nothing was "
			"collected");
	if (end == MONITOR_SUPPLANTED)
		return wc_error_new(WC_ENOTSUP,
				    "another process has begun to collect the captures: ours ended there");
	if (end == MONITOR_EXECED)
		return wc_error_new(WC_ETARGET,
				    "the process has executed another program: the watch ended there");
	if (end == MONITOR_GAVE_UP)
		return wc_error_new(WC_ENOTSUP,
				    "the watch was given up for the program's sake: see the note above");
	return NULL;
}

static struct wc_error *watch(struct request *q, struct output *s)
{
	enum monitor_end end = MONITOR_STOPPED;
	struct monitor *m = NULL;
	struct wc_error *err, *close_err;
	const char *unarmed;
	bool uncollected;

	if (q->verbose)
		q->monitor.say = output_say;
	q->limits.stop = q->monitor.stop = &stop_asked;
	q->limits.tick = output_tick;
	q->limits.tick_ctx = s;
	err = monitor_open(&q->monitor, s->events, &m);
	if (err) {
		output_discard_log(s);
		return err;
	}
	fflush(s->out);
	err = monitor_run(m, &q->limits, &end);
	unarmed = monitor_never_armed(m);
	uncollected = monitor_never_collected(m);
	close_err = monitor_close(m);
	if (!err)
		err = verdict(end, unarmed, uncollected);
	if (err && close_err)
		output_say(NULL, "%s", close_err->text);
	return wc_error_first(err, close_err);
}

static struct wc_error *run(int argc, char **argv)
{
	struct output s = { .stop = &stop_asked };
	struct request q;
	struct wc_error *err = parse(argc, argv, &q);

	if (err)
		return err;
	output_catch_signals(&stop_asked);
	q.output.launched = q.monitor.argv;
	q.output.no_events = q.quiet || (q.output.log && !q.echo);
	err = output_open(&q.output, &s);
	if (!err)
		err = watch(&q, &s);
	return wc_error_first(err,
			      output_close(&s, !err || err->kind == WC_ETARGET || err->kind == WC_ENOTSUP));
}

const struct command cmd_watch = {
	.name = "watch",
	.args = "-p PID -v EXPR [-s SIZE] [-r|-w|-rw|-x] [-i 0..3] [filters] [options]\n"
		"-v EXPR [-s SIZE] [-r|-w|-rw|-x] [filters] [options] -- PROGRAM [ARGS]\n"
		"-p PID --tags [-v EXPR ...] [options]\n"
		"--tags [-v EXPR ...] [options] -- PROGRAM [ARGS]",
	.summary = "log every access to a variable of a running program, or of one that it starts",
	.help = "EXPR: flag, file.c:flag, libfoo.so:flag, server.stats.hits, table[3].state, "
		"head->next->len,\n"
		"*p, ns::object.member, 0x7ffe12345678. Ctrl-C ends the watch and leaves the program as it "
		"was.\n",
	.options = options,
	.operand = COMPLETE_NOTHING,
	.run = run,
};
