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
				    "these begin at a multiple of 8",
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

static struct wc_error *watch_option(struct watch_ask *q, const struct option_match *m)
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

static bool take_flag(struct watch_ask *q, const struct option_match *m)
{
	if (option_is(m, "--private-buffer"))
		q->monitor.private_ring = true;
	else if (option_is(m, "--pending"))
		q->monitor.pending = true;
	else if (option_is(m, "--tags"))
		q->monitor.tags = true;
	else
		return false;
	return true;
}

static struct wc_error *take_pid(struct watch_ask *q, const struct option_match *m)
{
	uint64_t n;
	struct wc_error *err = option_number(m, 1, INT32_MAX, &n);

	if (err)
		return err;
	if (q->monitor.pid)
		return wc_error_new(WC_EUSAGE, "-p was given twice: one process can be watched at a time");
	q->monitor.pid = (pid_t)n;
	return NULL;
}

static struct wc_error *take_frames(struct watch_ask *q, const struct option_match *m)
{
	uint64_t n;
	struct wc_error *err = option_number(m, 1, TAG_FRAMES_MAX, &n);

	if (!err)
		q->monitor.frames = q->monitor.tag_frames = (unsigned int)n;
	return err;
}

static struct wc_error *take_engine(struct watch_ask *q, const struct option_match *m)
{
	unsigned int choice = 0;
	struct wc_error *err;

	if (option_is(m, "--buffer")) {
		err = take_buffer(m, &q->monitor.buffer_size);
		q->monitor.tag_ring_size = q->monitor.buffer_size;
		return err;
	}
	err = option_choice(m, &choice);
	if (err)
		return err;
	if (option_is(m, "--engine"))
		q->monitor.engine = (enum monitor_engine)choice;
	else if (option_is(m, "--fork"))
		q->monitor.follow_fork = choice;
	else
		q->monitor.follow_exec = choice;
	return NULL;
}

/* The option @m is one of @table. */
static bool is_of(const struct option_match *m, const struct option *table)
{
	for (; table->name; table++)
		if (!strcmp(m->option->name, table->name))
			return true;
	return false;
}

struct wc_error *watch_ask_take(struct watch_ask *q, const struct option_match *m, bool *taken)
{
	static const struct option of_engine[] = { WATCH_ENGINE_OPTIONS, { 0 } };
	static const struct option of_watch[] = { WATCH_FILTER_OPTIONS, { 0 } };

	struct wc_error *err = redact_ask_take(&q->redact, m, taken);

	if (err || *taken)
		return err;
	*taken = true;
	if (take_flag(q, m))
		return NULL;
	if (option_is(m, "-v"))
		return watch_ask_add(q, m->value);
	if (option_is(m, "-p"))
		return take_pid(q, m);
	if (option_is(m, "-n"))
		return option_number(m, 1, UINT64_MAX, &q->count);
	if (option_is(m, "-t"))
		return take_seconds(m, &q->time_ns);
	if (option_is(m, "--frames"))
		return take_frames(q, m);
	if (is_of(m, of_engine))
		return take_engine(q, m);
	if (is_of(m, of_watch))
		return watch_option(q, m);
	*taken = false;
	return NULL;
}

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
	return err ? err : check_tags(q);
}

struct wc_error *watch_verdict(enum monitor_end end, const char *unarmed, bool uncollected)
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
