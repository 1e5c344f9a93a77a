#include "watchctl/monitor/flow/flow_recording.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/monitor/flow/flow_first.h"
#include "watchctl/monitor/flow/flow_stacks.h"
#include "watchctl/monitor/recorder.h"
#include "watchctl/session/process_event.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/proc/process_fd.h"
#include "watchctl/target/stop/launch.h"
#include "watchctl/target/stop/tracee.h"
#include "watchctl/trace/flow/flow_attached.h"
#include "watchctl/trace/flow/flow_writer.h"

#define WAIT_MS 50
#define FLUSH_NS 500000000u
#define CROWDED 0.25 /* of a ring: we do not wait then */

struct flow_recording {
	struct kernel_flow *kernel;
	struct recorder *log;
	struct flow_writer *writer;
	struct flow_stacks *stacks; /* or NULL */
	struct tracee program;	    /* tid 0: it runs, or there is none */
	pid_t pid;		    /* of the program; 0: none */
	int pidfd, status;
	int *chosen; /* of the processes that were asked for */
	size_t nchosen;
	double fullest;
	uint64_t begun_ns, flushed_ns;
};

static struct wc_error *drop(void *ctx, const struct trace_event *e)
{
	(void)ctx, (void)e;
	return NULL;
}

static struct wc_error *take(void *ctx, uint32_t cpu, const uint32_t *word, size_t n)
{
	struct flow_recording *r = ctx;

	return flow_writer_put(r->writer, cpu, word, n);
}

static struct wc_error *start_program(struct flow_recording *r, const struct flow_recording_ask *ask)
{
	struct wc_error *err = launch_start(ask->argv, LAUNCH_RANDOM, &r->program);

	if (err)
		return err;
	r->pid = r->program.tid;
	err = process_fd_open(r->pid, &r->pidfd);
	return !err && ask->only_program ? kernel_flow_add(r->kernel, r->pid) : err;
}

/* A kernel's thread is none that can be watched, but may be recorded: why not is asked only of what cannot be opened. */
static struct wc_error *open_process(pid_t pid, int *fd)
{
	struct wc_error *err = process_fd_open(pid, fd), *why;

	if (!err)
		return NULL;
	why = proc_check(pid);
	if (!why)
		return err;
	wc_error_free(err);
	return why;
}

static struct wc_error *open_chosen(struct flow_recording *r, const struct kernel_flow_ask *ask)
{
	struct wc_error *err = NULL;

	r->chosen = calloc(ask->npids + 1, sizeof(*r->chosen));
	if (!r->chosen)
		return &wc_enomem;
	for (; !err && r->nchosen < ask->npids; r->nchosen++) {
		r->chosen[r->nchosen] = -1;
		err = open_process(ask->pid[r->nchosen], &r->chosen[r->nchosen]);
	}
	return err;
}

static struct wc_error *note_attached(struct flow_recording *r, const char *path)
{
	scoped(freep) char *note = NULL;

	if (asprintf(&note, FLOW_ATTACHED "%s", path) < 0) {
		note = NULL;
		return &wc_enomem;
	}
	return recorder_note(r->log, note);
}

static struct wc_error *open_log(struct flow_recording *r, const struct flow_recording_ask *ask)
{
	const struct event_sink nobody = { .put = drop };
	struct wc_error *err = recorder_open(ask->log, nobody, &r->log);
	const char *missing = kernel_flow_missing(r->kernel);
	char note[320];

	if (!err)
		err = recorder_note(
			r->log,
			"the system's events were recorded: watchctl flow graph and flow path read them");
	if (!err && missing) {
		snprintf(note, sizeof(note), "this kernel does not tell: %s", missing);
		err = recorder_note(r->log, note);
	}
	for (size_t i = 0; !err && i < ask->nattached; i++)
		err = note_attached(r, ask->attached[i]);
	if (!err)
		err = recorder_flush(r->log);
	return err ? err : flow_writer_open(ask->log, kernel_flow_cpus(r->kernel), ask->ring, &r->writer);
}

/* Of whom was asked for, and the program. */
static struct wc_error *open_stacks(struct flow_recording *r, const struct flow_recording_ask *ask)
{
	struct flow_stacks_ask of = { .least_ns = ask->stacks_ns };
	scoped(freep) pid_t *pid = calloc(ask->kernel.npids + 1, sizeof(*pid));
	struct wc_error *err = NULL;

	if (!pid)
		return &wc_enomem;
	for (size_t i = 0; i < ask->kernel.npids; i++)
		pid[of.npids++] = ask->kernel.pid[i];
	if (r->pid)
		pid[of.npids++] = r->pid;
	of.pid = pid;
	if (of.npids)
		err = process_event_put(pid[0], recorder_sink(r->log));
	return err ? err : flow_stacks_open(&of, recorder_sink(r->log), &r->stacks);
}

struct wc_error *flow_recording_open(const struct flow_recording_ask *ask, struct flow_recording **ret)
{
	struct flow_recording *r = calloc(1, sizeof(*r));
	struct wc_error *err;

	if (!r)
		return &wc_enomem;
	r->pidfd = r->status = -1;
	err = open_chosen(r, &ask->kernel);
	if (!err)
		err = kernel_flow_open(&ask->kernel, &r->kernel);
	if (!err)
		err = open_log(r, ask);
	if (!err && ask->argv)
		err = start_program(r, ask);
	if (!err && ask->stacks_ns)
		err = open_stacks(r, ask);
	if (err) {
		flow_recording_discard(r);
		return err;
	}
	*ret = r;
	return NULL;
}

const char *flow_recording_missing(const struct flow_recording *r)
{
	return kernel_flow_missing(r->kernel);
}

struct wc_error *flow_recording_start(struct flow_recording *r)
{
	struct wc_error *err = kernel_flow_start(r->kernel);

	r->begun_ns = r->flushed_ns = monotonic_ns();
	if (!err)
		err = flow_first_tell(kernel_flow_salt(r->kernel), take, r);
	if (!err && r->program.tid)
		tracee_release(&r->program);
	return err;
}

/* Running */

static void wait_a_moment(struct flow_recording *r)
{
	const struct timespec wait = { .tv_nsec = WAIT_MS * 1000000 };

	if (r->pidfd >= 0)
		process_fd_ended(r->pidfd, WAIT_MS);
	else
		nanosleep(&wait, NULL);
}

static bool program_has_ended(struct flow_recording *r)
{
	return r->pid && waitpid(r->pid, &r->status, WNOHANG | __WALL) == r->pid;
}

/* All that were asked for, of which there was one at least. */
static bool chosen_have_ended(const struct flow_recording *r)
{
	for (size_t i = 0; i < r->nchosen; i++)
		if (!process_fd_ended(r->chosen[i], 0))
			return false;
	return r->nchosen != 0;
}

static struct wc_error *flush(struct flow_recording *r)
{
	struct wc_error *err = r->stacks ? recorder_flush(r->log) : NULL;

	r->flushed_ns = monotonic_ns();
	return wc_error_first(err, flow_writer_flush(r->writer));
}

static struct wc_error *pump(void *self, bool may_wait, enum source_state *state, enum session_end *end)
{
	struct flow_recording *r = self;
	struct wc_error *err;

	*state = SOURCE_GOES_ON;
	if (may_wait && r->fullest < CROWDED)
		wait_a_moment(r);
	if (program_has_ended(r) || (!r->pid && chosen_have_ended(r))) {
		*state = SOURCE_ENDED;
		*end = SESSION_EXITED;
	}
	err = kernel_flow_read(r->kernel, take, r, &r->fullest);
	if (!err && r->stacks)
		err = flow_stacks_poll(r->stacks);
	return !err && monotonic_ns() - r->flushed_ns >= FLUSH_NS ? flush(r) : err;
}

static const struct source_ops source = { .pump = pump };

struct wc_error *flow_recording_run(struct flow_recording *r, const struct session_limits *limits,
				    enum session_end *ret)
{
	const struct source s = { .ops = &source, .self = r };

	return session_run(&s, 1, limits, ret);
}

/* The end */

static void release(struct flow_recording *r)
{
	if (r->program.tid)
		tracee_release(&r->program);
	if (r->pidfd >= 0)
		close(r->pidfd);
	for (size_t i = 0; i < r->nchosen; i++)
		if (r->chosen[i] >= 0)
			close(r->chosen[i]);
	free(r->chosen);
	flow_stacks_free(r->stacks);
	kernel_flow_close(r->kernel);
	free(r);
}

static struct wc_error *note_left_out(struct flow_recording *r)
{
	const uint64_t n = r->stacks ? flow_stacks_left_out(r->stacks) : 0;
	char note[96];

	if (!n)
		return NULL;
	snprintf(note, sizeof(note), "stacks of %llu waits were not taken: there were too many",
		 (unsigned long long)n);
	return recorder_note(r->log, note);
}

struct wc_error *flow_recording_close(struct flow_recording *r, struct flow_recording_counts *ret)
{
	struct flow_counts counts = { 0 };
	struct wc_error *err;

	kernel_flow_stop(r->kernel);
	err = kernel_flow_read(r->kernel, take, r, NULL);
	flow_writer_counts(r->writer, &counts);
	*ret = (struct flow_recording_counts){ .events = counts.events,
					       .bytes = counts.bytes,
					       .lost = counts.lost,
					       .missed = kernel_flow_missed(r->kernel),
					       .duration_ns = monotonic_ns() - r->begun_ns,
					       .cpus = kernel_flow_cpus(r->kernel),
					       .program_status = r->status };
	err = wc_error_first(err, note_left_out(r));
	err = wc_error_first(err, flow_writer_close(r->writer));
	err = wc_error_first(err, recorder_close(r->log));
	release(r);
	return err;
}

void flow_recording_discard(struct flow_recording *r)
{
	if (!r)
		return;
	wc_error_free(flow_writer_close(r->writer));
	recorder_discard(r->log);
	release(r);
}
