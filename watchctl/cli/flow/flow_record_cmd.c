#include "watchctl/cli/flow/flow_record_cmd.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/words/plural.h"
#include "watchctl/cli/output/output.h"
#include "watchctl/flow/kernel/flow_wire.h"
#include "watchctl/flow/kernel/kernel_flow.h"
#include "watchctl/monitor/flow/flow_recording.h"
#include "watchctl/session/session.h"
#include "watchctl/trace/flow/flow_writer.h"
#include "watchctl/trace/log/tracelog_replace.h"
#include "watchctl/view/words/json.h"

#define BUFFER_LEAST (64u << 10)
#define BUFFER_MOST (256u << 20)
#define SECOND 1e9
#define STACKS_LEAST_NS 10000000u
#define STACKS_USUAL_NS 100000000u

static volatile sig_atomic_t stop_asked;

static struct wc_error *set_seconds(const struct option_match *m, void *to)
{
	return option_time(m, to);
}

static struct wc_error *add_attached(const struct option_match *m, void *to)
{
	struct flow_record_ask *q = to;

	if (q->nattach == FLOW_ATTACHED_MOST)
		return wc_error_new(WC_EUSAGE, "--attach-log was given more than %d times",
				    FLOW_ATTACHED_MOST);
	q->attach[q->nattach++] = m->value;
	return NULL;
}

const struct option flow_record_options[] = {
	{ "-o", "--log", "LOG", "record: into the new log LOG", COMPLETE_DIRECTORY, NULL,
	  OPTION_TEXT(struct flow_record_ask, log) },
	{ "--force", NULL, NULL, "record: replace LOG where it exists", 0, NULL,
	  OPTION_FLAG(struct flow_record_ask, force) },
	{ "-t", "--time", "SECONDS", "record: end after SECONDS (fractions allowed)", COMPLETE_NOTHING, NULL,
	  .set = set_seconds, .at = offsetof(struct flow_record_ask, time_ns) },
	{ "--ring", NULL, "SIZE", "record: keep the last SIZE of events (4M and more), the oldest go first",
	  COMPLETE_NOTHING, NULL, OPTION_BYTES(struct flow_record_ask, ring) },
	{ "--cgroup", NULL, "PATH", "record: system calls of this cgroup's processes alone",
	  COMPLETE_DIRECTORY, NULL, OPTION_TEXT(struct flow_record_ask, cgroup) },
	{ "--stacks", NULL, NULL,
	  "record: the stacks of waits that last for 100 ms and longer, of -p and the program with their children, or of all processes",
	  0, NULL, OPTION_FLAG(struct flow_record_ask, stacks) },
	{ "--stacks-from", NULL, "TIME", "record: as --stacks, of waits that last so long (10ms and more)",
	  COMPLETE_NOTHING, NULL, OPTION_TIME(struct flow_record_ask, stacks_ns) },
	{ "--attach-log", NULL, "LOG",
	  "record: LOG, which a watch records at the same time, belongs to it: who writes a variable brings on who reads it; may be repeated",
	  COMPLETE_DIRECTORY, NULL, .set = add_attached },
	{ "--only", NULL, NULL, "record: with -- PROGRAM, system calls of it and its children alone", 0, NULL,
	  OPTION_FLAG(struct flow_record_ask, only_program) },
	{ "--buffer", NULL, "SIZE",
	  "record: of the events that wait to be read, for each CPU: 64K to 256M, a power of two (default: 64M for all, at most 8M for each)",
	  COMPLETE_NOTHING, NULL, OPTION_BYTES(struct flow_record_ask, buffer) },
	OPTIONS_IN(struct flow_record_ask, ready, ready_options),
	{ 0 },
};

static struct wc_error *check(const struct flow_record_ask *q)
{
	if (!q->log)
		return wc_error_new(WC_EUSAGE, "record into which log? Name a new one with -o LOG");
	if (q->npids && q->cgroup)
		return wc_error_new(
			WC_EUSAGE,
			"-p and --cgroup exclude each other: each says whose system calls are recorded");
	if (q->only_program && (!q->argv || q->npids || q->cgroup))
		return wc_error_new(
			WC_EUSAGE,
			"--only goes with a program to start, -- PROGRAM, without -p and --cgroup");
	if ((q->stacks || q->stacks_ns) && q->cgroup)
		return wc_error_new(WC_EUSAGE, "--stacks goes with -p, or with a program: not with --cgroup");
	if (q->stacks_ns && q->stacks_ns < STACKS_LEAST_NS)
		return wc_error_new(WC_EUSAGE, "--stacks-from takes 10ms and more");
	if (q->ring && q->ring < FLOW_RING_MIN)
		return wc_error_new(WC_EUSAGE, "--ring takes 4M and more: it goes away in eighths");
	if (q->buffer &&
	    (q->buffer < BUFFER_LEAST || q->buffer > BUFFER_MOST || (q->buffer & (q->buffer - 1))))
		return wc_error_new(WC_EUSAGE, "--buffer takes a power of two from 64K to 256M");
	return NULL;
}

struct attached {
	char *path[FLOW_ATTACHED_MOST];
	size_t n;
};

static void attached_deinit(struct attached *a)
{
	for (size_t i = 0; i < a->n; i++)
		free(a->path[i]);
}

/* It may be written to just now: its contents are looked at when the graph is built. */
static struct wc_error *find_attached(const struct flow_record_ask *q, struct attached *ret)
{
	for (; ret->n < q->nattach; ret->n++) {
		const char *log = q->attach[ret->n];
		scoped(freep) char *metadata = NULL;

		if (asprintf(&metadata, "%s/metadata", log) < 0) {
			metadata = NULL;
			return &wc_enomem;
		}
		if (access(metadata, F_OK) < 0)
			return wc_error_errno(WC_ELOG, errno,
					      "--attach-log: there is no log %s (begin that recording first, "
					      "watchctl watch -o LOG)",
					      log);
		ret->path[ret->n] = realpath(log, NULL);
		if (!ret->path[ret->n])
			return wc_error_errno(WC_ELOG, errno, "--attach-log: cannot find %s", log);
	}
	return NULL;
}

/* Of @attached the paths alone are taken, which it keeps. */
static struct flow_recording_ask recording_of(const struct flow_record_ask *q,
					      const struct attached *attached)
{
	struct flow_recording_ask ask = {
		.attached = attached->path,
		.nattached = attached->n,
		.kernel = { .pid = q->pid,
			    .npids = q->npids,
			    .cgroup = q->cgroup,
			    .ring_bytes = (uint32_t)q->buffer },
		.log = q->log,
		.ring = q->ring,
		.argv = q->argv,
		.stacks_ns = q->stacks_ns ? q->stacks_ns
			     : q->stacks  ? STACKS_USUAL_NS
					  : 0,
		.only_program = q->only_program,
	};

	if (q->cgroup)
		ask.kernel.scope = FLOW_SCOPE_CGROUP;
	else if (q->npids || q->only_program)
		ask.kernel.scope = FLOW_SCOPE_PROCESSES;
	return ask;
}

static void print_json(const struct flow_recording_counts *c)
{
	printf("{\"type\":\"summary\",\"recorded\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"bytes\":%" PRIu64
	       ",\"cpus\":%u,\"duration_ns\":%" PRIu64 "}\n",
	       c->events, c->lost + c->missed, c->bytes, c->cpus, c->duration_ns);
}

static void print_text(const struct flow_record_ask *q, const struct flow_recording_counts *c)
{
	const uint64_t lost = c->lost + c->missed;

	fprintf(stderr, "watchctl: %s: %" PRIu64 " event%s of %u CPU%s in %.2f s, %.1f MB", q->log, c->events,
		plural(c->events), c->cpus, plural(c->cpus), (double)c->duration_ns / SECOND,
		(double)c->bytes / 1e6);
	if (c->events)
		fprintf(stderr, " (%.1f bytes each)", (double)c->bytes / (double)c->events);
	fprintf(stderr, "; %" PRIu64 " lost%s\n", lost,
		c->lost ? ": a larger --buffer loses less, or -p PID records less" : "");
}

static struct wc_error *run(struct flow_record_ask *q, struct flow_recording *r)
{
	const struct session_limits limits = { .time_ns = q->time_ns, .stop = &stop_asked };
	struct flow_recording_counts counts = { 0 };
	const char *missing = flow_recording_missing(r);
	enum session_end end = SESSION_STOPPED;
	struct wc_error *err;

	if (missing)
		output_say(NULL, "this kernel does not tell: %s", missing);
	err = flow_recording_start(r);
	if (err) {
		flow_recording_discard(r);
		return err;
	}
	ready_tell(&q->ready);
	err = flow_recording_run(r, &limits, &end);
	err = wc_error_first(err, flow_recording_close(r, &counts));
	if (q->json)
		print_json(&counts);
	else
		print_text(q, &counts);
	return err;
}

struct wc_error *flow_record_run(struct flow_record_ask *q)
{
	scoped(attached_deinit) struct attached attached = { .n = 0 };
	struct flow_recording_ask ask;
	struct flow_recording *r = NULL;
	struct tracelog_old *old = NULL;
	struct wc_error *err = check(q);

	if (!err)
		err = ready_check(&q->ready);
	if (!err)
		err = find_attached(q, &attached);
	if (!err)
		err = tracelog_set_aside(q->log, q->force, &old);
	if (err)
		return err;
	output_catch_signals(&stop_asked);
	ask = recording_of(q, &attached);
	err = flow_recording_open(&ask, &r);
	if (!err)
		err = run(q, r);
	if (err && access(q->log, F_OK) != 0)
		tracelog_put_back(old);
	else
		tracelog_drop_old(old);
	return err;
}
