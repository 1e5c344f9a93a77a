#include "watchctl/cli/request/watch_request.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/error.h"

#define FRAMES_DEFAULT 32
#define FRAMES_MAX 64
#define TAG_FRAMES_DEFAULT 64
#define TAG_FRAMES_MAX 128
#define BUFFER_DEFAULT (8ull << 20)
#define BUFFER_MIN (64ull << 10)
#define BUFFER_MAX (1ull << 30)
#define TAG_BUFFER_MAX (256ull << 20)

struct wc_error *watch_ask_add(struct watch_ask *q, const char *expr)
{
	if (q->monitor.nwatches == MONITOR_WATCHES)
		return wc_error_new(WC_ESLOTS,
				    "a CPU has %u debug registers, so at most %u variables can be watched at "
				    "once: \"%s\" is one too many",
				    MONITOR_WATCHES, MONITOR_WATCHES, expr);
	q->monitor.watch[q->monitor.nwatches++] =
		(struct watch_request){ .expr = expr, .access = ACCESS_WRITE, .slot = -1 };
	return NULL;
}

/* Of one watch */

/* *@to: first a struct watch_ask, then its last watch. */
static struct wc_error *find_watch(const struct option_match *m, void **to)
{
	struct monitor_options *o = &((struct watch_ask *)*to)->monitor;

	if (!o->nwatches)
		return wc_error_new(WC_EUSAGE,
				    "%s belongs to a watch: put it after the -v EXPR that it is for",
				    m->option->name);
	*to = &o->watch[o->nwatches - 1];
	return NULL;
}

static struct wc_error *set_size(const struct option_match *m, void *to)
{
	struct watch_request *w = to;
	uint64_t n;
	struct wc_error *err = option_number(m, 1, UINT32_MAX, &n);

	if (err)
		return err;
	if (n > WATCH_SIZE_MAX)
		return wc_error_new(WC_EUSAGE,
				    "-s %s: the four debug registers of a CPU cover at most %u bytes, where "
				    "these begin at a multiple of 8",
				    m->value, WATCH_SIZE_MAX);
	w->size = (uint32_t)n;
	return NULL;
}

static struct wc_error *set_write(const struct option_match *m, void *to)
{
	((struct watch_request *)to)->access = ACCESS_WRITE;
	return NULL;
}

static struct wc_error *set_read(const struct option_match *m, void *to)
{
	((struct watch_request *)to)->access = ACCESS_READ;
	return NULL;
}

static struct wc_error *set_readwrite(const struct option_match *m, void *to)
{
	((struct watch_request *)to)->access = ACCESS_READWRITE;
	return NULL;
}

static struct wc_error *set_execute(const struct option_match *m, void *to)
{
	((struct watch_request *)to)->access = ACCESS_EXECUTE;
	return NULL;
}

/* "100/s", "100": a second; "5/ms", "10/min". */
static struct wc_error *set_rate(const struct option_match *m, void *to)
{
	static const struct {
		const char *unit;
		double seconds;
	} units[] = { { "", 1 }, { "/s", 1 }, { "/ms", 1e-3 }, { "/min", 60 }, { "/h", 3600 } };
	struct watch_request *w = to;
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

static struct wc_error *add_caller(const struct option_match *m, void *to)
{
	struct watch_request *w = to;

	return take_caller(w->callers, &w->ncallers, m);
}

static struct wc_error *add_not_caller(const struct option_match *m, void *to)
{
	struct watch_request *w = to;

	return take_caller(w->not_callers, &w->nnot_callers, m);
}

static struct wc_error *set_condition(const struct option_match *m, void *to)
{
	struct watch_request *w = to;

	if (w->condition)
		return wc_error_new(WC_EUSAGE,
				    "--if was given twice for \"%s\": join the conditions with && or ||",
				    w->expr);
	w->condition = m->value;
	return NULL;
}

static const struct option filters[] = {
	{ "-s", "--size", "SIZE", "bytes to watch, 1 to 32 (default: the type's size)", COMPLETE_WORDS,
	  "1 2 4 8 16 32", .set = set_size },
	{ "-w", "--write", NULL, "writes (the default)", 0, NULL, .set = set_write },
	{ "-r", "--read", NULL, "reads", 0, NULL, .set = set_read },
	{ "-rw", "--read-write", NULL, "reads and writes", 0, NULL, .set = set_readwrite },
	{ "-x", "--execute", NULL, "executions: EXPR is a function, function+0x12, file.c:123 or 0x...", 0,
	  NULL, .set = set_execute },
	{ "-i", "--register", "0..3",
	  "use this debug register, set by ptrace (stops every thread for a moment)", COMPLETE_WORDS,
	  "0 1 2 3", OPTION_NUMBER(struct watch_request, slot, 0, 3) },
	{ "--follow", NULL, NULL,
	  "move the watch when a pointer on its path changes (takes a register for each pointer)", 0, NULL,
	  OPTION_FLAG(struct watch_request, follow) },
	{ "--if", NULL, "COND",
	  "record only hits for which COND holds: new==0, new>old+100, new in 3..7, thread==\"gc\", size==8",
	  COMPLETE_NOTHING, NULL, .set = set_condition },
	{ "--changes", NULL, NULL, "record only hits that change the value", 0, NULL,
	  OPTION_FLAG(struct watch_request, changes) },
	{ "--caller", NULL, "FUNC",
	  "record only hits with FUNC in their stack; may be repeated (any of them)", COMPLETE_FUNCTION, NULL,
	  .set = add_caller },
	{ "--not-caller", NULL, "FUNC", "record no hits with FUNC in their stack; may be repeated",
	  COMPLETE_FUNCTION, NULL, .set = add_not_caller },
	{ "--thread", NULL, "NAME|TID", "record only hits of the threads of that name, or of that thread",
	  COMPLETE_NOTHING, NULL, OPTION_TEXT(struct watch_request, thread) },
	{ "--sample", NULL, "N", "of the hits that pass, record every Nth", COMPLETE_NOTHING, NULL,
	  OPTION_NUMBER(struct watch_request, sample, 1, UINT64_MAX) },
	{ "--rate", NULL, "N/s", "and at most N a second, evenly (also N/ms, N/min)", COMPLETE_NOTHING, NULL,
	  .set = set_rate },
	{ 0 },
};

const struct option watch_filter_options[] = {
	{ .more = filters, .find = find_watch },
	{ 0 },
};

/* Of all watches */

static struct wc_error *add_watch(const struct option_match *m, void *to)
{
	return watch_ask_add(to, m->value);
}

static struct wc_error *set_pid(const struct option_match *m, void *to)
{
	struct watch_ask *q = to;
	uint64_t n;
	struct wc_error *err = option_number(m, 1, INT32_MAX, &n);

	if (err)
		return err;
	if (q->monitor.pid)
		return wc_error_new(WC_EUSAGE, "-p was given twice: one process can be watched at a time");
	q->monitor.pid = (pid_t)n;
	return NULL;
}

static struct wc_error *set_seconds(const struct option_match *m, void *to)
{
	char *end;
	double seconds = strtod(m->value, &end);

	if (end == m->value || *end || !(seconds > 0) || seconds > 1e9)
		return wc_error_new(
			WC_EUSAGE, "-t %s: give a number of seconds greater than 0, like 5 or 0.5", m->value);
	*(uint64_t *)to = (uint64_t)(seconds * 1e9);
	return NULL;
}

const struct option watch_options[] = {
	{ "-p", "--pid", "PID", "the process to watch", COMPLETE_PID, NULL, .set = set_pid },
	{ "-v", "--variable", "EXPR",
	  "what to watch; up to four, each with the options behind it, down to --rate", COMPLETE_VARIABLE,
	  NULL, .set = add_watch },
	{ .more = watch_filter_options },
	{ "--tags", NULL, NULL,
	  "collect the tagged stacks that the program captures with libstackwalk, see stackwalk(7)", 0, NULL,
	  OPTION_FLAG(struct watch_ask, monitor.tags) },
	{ "-n", "--count", "COUNT", "end after COUNT accesses and captures", COMPLETE_NOTHING, NULL,
	  OPTION_NUMBER(struct watch_ask, count, 1, UINT64_MAX) },
	{ "-t", "--time", "SECONDS", "end after SECONDS (fractions allowed)", COMPLETE_NOTHING, NULL,
	  .set = set_seconds, .at = offsetof(struct watch_ask, time_ns) },
	{ 0 },
};

static struct wc_error *set_frames(const struct option_match *m, void *to)
{
	struct watch_ask *q = to;
	uint64_t n;
	struct wc_error *err = option_number(m, 1, TAG_FRAMES_MAX, &n);

	if (!err)
		q->monitor.frames = q->monitor.tag_frames = (unsigned int)n;
	return err;
}

static struct wc_error *set_buffer(const struct option_match *m, void *to)
{
	struct watch_ask *q = to;
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
	q->monitor.buffer_size = q->monitor.tag_ring_size = n << shift;
	return NULL;
}

/* "ignore follow" */
static struct wc_error *set_follow(const struct option_match *m, void *to)
{
	unsigned int choice;
	struct wc_error *err = option_choice(m, &choice);

	if (!err)
		*(bool *)to = choice;
	return err;
}

const struct option watch_engine_options[] = {
	{ "--engine", NULL, "ENGINE", "auto (default), handler, ring or ptrace: see ENGINES in the manual",
	  COMPLETE_WORDS, "auto handler ring ptrace", OPTION_CHOICE(struct watch_ask, monitor.engine) },
	{ "--fork", NULL, "WHAT", "what to do about forked children: ignore (default) or follow",
	  COMPLETE_WORDS, "ignore follow", .set = set_follow,
	  .at = offsetof(struct watch_ask, monitor.follow_fork) },
	{ "--exec", NULL, "WHAT",
	  "when the process executes another program: ignore (default), which ends the watch, or follow",
	  COMPLETE_WORDS, "ignore follow", .set = set_follow,
	  .at = offsetof(struct watch_ask, monitor.follow_exec) },
	{ "--frames", NULL, "N",
	  "most frames of a stack, 1 to 64 (default 32); of a capture, 1 to 128 (default 64)",
	  COMPLETE_NOTHING, NULL, .set = set_frames },
	{ "--buffer", NULL, "SIZE",
	  "size of the event buffer in the target, 64K to 1G (default 8M); with --tags that of each thread, "
	  "at most 256M",
	  COMPLETE_NOTHING, NULL, .set = set_buffer },
	{ "--private-buffer", NULL, NULL, "do not share the event buffer; read it through the kernel", 0,
	  NULL, OPTION_FLAG(struct watch_ask, monitor.private_ring) },
	{ "--pending", NULL, NULL, "wait for a library that is not loaded yet", 0, NULL,
	  OPTION_FLAG(struct watch_ask, monitor.pending) },
	OPTIONS_IN(struct watch_ask, ready, ready_options),
	OPTIONS_IN(struct watch_ask, redact, redact_options),
	{ 0 },
};

void watch_ask_init(struct watch_ask *q)
{
	*q = (struct watch_ask){ .monitor = { .frames = FRAMES_DEFAULT,
					      .buffer_size = BUFFER_DEFAULT,
					      .tag_frames = TAG_FRAMES_DEFAULT,
					      .tag_ring_size = BUFFER_DEFAULT } };
}

struct wc_error *watch_ask_check_watches(const struct watch_ask *q)
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
static struct wc_error *check_tags(const struct watch_ask *q)
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

struct wc_error *watch_ask_check(const struct watch_ask *q)
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
	err = watch_ask_check_watches(q);
	if (!err)
		err = redact_ask_check(&q->redact, &q->monitor);
	if (!err)
		err = ready_check(&q->ready);
	return err ? err : check_tags(q);
}

struct wc_error *watch_verdict(enum session_end end, const char *unarmed, bool uncollected)
{
	if (unarmed && end != SESSION_GAVE_UP)
		return wc_error_new(
			WC_ENAME,
			"%s was never armed: the library was not loaded while watchctl waited for it",
			unarmed);
	if (uncollected && end != SESSION_GAVE_UP)
		return wc_error_new(
			WC_ENOTSUP,
			"the program had no libstackwalk in it, as long as watchctl looked: nothing was "
			"collected");
	if (end == SESSION_SUPPLANTED)
		return wc_error_new(WC_ENOTSUP,
				    "another process has begun to collect the captures: ours ended there");
	if (end == SESSION_EXECED)
		return wc_error_new(WC_ETARGET,
				    "the process has executed another program: the watch ended there");
	if (end == SESSION_GAVE_UP)
		return wc_error_new(WC_ENOTSUP,
				    "the watch was given up for the program's sake: see the note above");
	return NULL;
}
