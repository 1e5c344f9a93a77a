/*
 * The library's own collector: a thread of the program that takes its captures into a log, through the same
 * door as a collector in another process would. Ordinary code, but for two things: it must not disturb a
 * program that forks at any moment (a child has the memory, but not the thread), and it must end with the
 * process.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "stackwalk/capture.h"
#include "stackwalk/own_modules.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/time/tsc_usable.h"
#include "watchctl/trace/log/tracelog.h"
#include "watchctl/trace/tags/tag_collector.h"

#define FRAMES 64
#define RING_SIZE (1u << 20)
#define FLUSH_NS 400000000ull

struct session {
	pid_t pid; /* that opened it; in a fork's child it is not ours */
	char *path;
	struct tracelog_writer *log;
	struct event_sink sink;
	struct own_modules modules;
	struct tag_table tags;
	struct tag_collector *collector;
	uint64_t begin_ns, flushed_ns;

	pthread_t thread;
	bool has_thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool ending;		/* under lock */
	struct wc_error *error; /* why the thread gave up */
};

/* Under `lock`, but for the child's handler. */
static struct session *current;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static __thread char last_error[384] __attribute__((tls_model("initial-exec")));

/* The reason for the caller; takes @err. The number is the best that there is for it. */
static int fail(struct wc_error *err, int number)
{
	if (!number)
		number = err == &wc_enomem ? ENOMEM : err->sys_errno;
	snprintf(last_error, sizeof(last_error), "%s", err->text);
	wc_error_free(err);
	return number ? -number : -EIO;
}

static int session_refuse(int number, const char *reason)
{
	snprintf(last_error, sizeof(last_error), "%s", reason);
	return -number;
}

/* What a log begins with */

static size_t read_proc(const char *path, char *buf, size_t len)
{
	scoped(fclosep) FILE *f = fopen(path, "re");
	size_t n = f ? fread(buf, 1, len - 1, f) : 0;

	buf[n] = '\0';
	return n;
}

static struct wc_error *put_process(struct session *s)
{
	struct trace_event e = { .type = EVENT_PROCESS, .time_ns = monotonic_ns() };
	char comm[64], exe[4096], cmdline[4096], host[256] = "";
	size_t n, i;
	ssize_t len;

	n = read_proc("/proc/self/comm", comm, sizeof(comm));
	if (n && comm[n - 1] == '\n')
		comm[n - 1] = '\0';
	n = read_proc("/proc/self/cmdline", cmdline, sizeof(cmdline));
	for (i = 0; i + 1 < n; i++)
		if (!cmdline[i])
			cmdline[i] = ' ';
	len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	exe[len > 0 ? len : 0] = '\0';
	gethostname(host, sizeof(host) - 1);

	e.process = (struct process_event){ .pid = s->pid,
					    .comm = comm,
					    .exe = exe,
					    .cmdline = cmdline,
					    .realtime_ns = clock_ns(CLOCK_REALTIME),
					    .host = host };
	return s->sink.put(s->sink.ctx, &e);
}

static struct wc_error *put_summary(struct session *s)
{
	struct trace_event e = { .type = EVENT_SUMMARY, .time_ns = monotonic_ns() };
	struct tag_counts n;

	tag_collector_counts(s->collector, &n);
	e.summary = (struct summary_event){ .watch = WATCH_CAPTURES,
					    .has_counted = n.has_counted,
					    .counted = n.counted,
					    .recorded = n.recorded,
					    .lost = n.lost_full + n.lost_no_ring + n.lost_unfinished,
					    .duration_ns = e.time_ns - s->begin_ns };
	return s->sink.put(s->sink.ctx, &e);
}

/* What the collector asks */

static struct wc_error *session_know(void *ctx, const uint64_t *frame, uint32_t n, uint64_t time_ns)
{
	struct session *s = ctx;
	bool changed;

	return own_modules_refresh(&s->modules, s->sink, time_ns, &changed);
}

static void name_thread(void *ctx, uint32_t owner, struct tag_thread *ret)
{
	const struct session *s = ctx;

	ret->pid = s->pid;
	ret->tid = (pid_t)owner;
}

/* The thread */

static struct wc_error *one_poll(struct session *s, struct tag_poll *ret)
{
	struct wc_error *err;
	bool changed = false;

	err = own_modules_refresh(&s->modules, s->sink, monotonic_ns(), &changed);
	if (!err && changed)
		tag_collector_forget_stacks(s->collector);
	if (!err)
		err = tag_collector_poll(s->collector, ret);
	if (!err && monotonic_ns() - s->flushed_ns >= FLUSH_NS) {
		err = tracelog_writer_flush(s->log);
		s->flushed_ns = monotonic_ns();
	}
	return err;
}

/* False: the session is to end. */
static bool pause_for(struct session *s, uint64_t ns)
{
	uint64_t until = monotonic_ns() + ns;
	struct timespec t = { .tv_sec = (time_t)(until / 1000000000u),
			      .tv_nsec = (long)(until % 1000000000u) };
	bool ending;

	pthread_mutex_lock(&s->lock);
	while (!s->ending && ns)
		if (pthread_cond_timedwait(&s->wake, &s->lock, &t) == ETIMEDOUT)
			break;
	ending = s->ending;
	pthread_mutex_unlock(&s->lock);
	return !ending;
}

static void *collect(void *arg)
{
	struct session *s = arg;
	struct tag_poll p;

	do {
		s->error = one_poll(s, &p);
		if (s->error) {
			/* The log is lost, not the program: captures cost nothing again. */
			wc_error_free(tag_collector_stop(s->collector));
			break;
		}
	} while (p.state == TAGS_COLLECTING && pause_for(s, p.wait_ns));
	return NULL;
}

/* Blocks all signals in the new thread: they are for the program's own. */
static int start_thread(struct session *s)
{
	pthread_condattr_t clock;
	sigset_t all, before;
	int err;

	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->wake, &clock);
	pthread_condattr_destroy(&clock);

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&s->thread, NULL, collect, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	s->has_thread = !err;
	if (!err)
		pthread_setname_np(s->thread, "stackwalk-log");
	return err;
}

static void session_free(struct session *s)
{
	tag_collector_free(s->collector);
	tag_table_deinit(&s->tags);
	own_modules_deinit(&s->modules);
	wc_error_free(s->error);
	free(s->path);
	free(s);
}

static struct wc_error *session_end(struct session *s)
{
	struct wc_error *err;

	if (s->has_thread) {
		pthread_mutex_lock(&s->lock);
		s->ending = true;
		pthread_cond_signal(&s->wake);
		pthread_mutex_unlock(&s->lock);
		pthread_join(s->thread, NULL);
	}
	err = s->error;
	s->error = NULL;
	if (!err)
		err = tag_collector_stop(s->collector);
	if (!err)
		err = put_summary(s);
	err = wc_error_first(err, tracelog_writer_close(s->log));
	session_free(s);
	return err;
}

/* Opening */

static struct wc_error *session_begin(struct session *s, unsigned int frames, uint64_t ring_size, int *number)
{
	const struct tag_host host = { .memory = tag_memory_self,
				       .sink = s->sink,
				       .tags = &s->tags,
				       .know = session_know,
				       .thread = name_thread,
				       .ctx = s };
	const struct tag_settings settings = {
		.frames = frames, .ring_size = ring_size, .pid = (uint32_t)s->pid, .lease_ns = TAG_LEASE_NS
	};
	struct wc_error *err = put_process(s);
	bool changed;

	s->begin_ns = s->flushed_ns = monotonic_ns();
	if (!err)
		err = own_modules_refresh(&s->modules, s->sink, s->begin_ns, &changed);
	if (!err)
		err = tag_collector_open(&host, (uintptr_t)&capture_descriptor,
					 (uintptr_t)&capture_descriptor, UINT64_MAX, &s->collector);
	if (!err)
		err = tag_collector_start(s->collector, &settings, NULL);
	if (err)
		return err;
	*number = start_thread(s);
	if (*number) {
		wc_error_free(tag_collector_stop(s->collector));
		return wc_error_errno(WC_EFAIL, *number, "cannot start the thread that writes the log %s",
				      s->path);
	}
	return NULL;
}

static int exists_or_not(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 ? EEXIST : ENOENT;
}

static int open_log(const char *path, unsigned int frames, uint64_t ring_size)
{
	struct session *s = calloc(1, sizeof(*s));
	struct wc_error *err;
	int number = 0;

	if (!s)
		return fail(&wc_enomem, 0);
	s->pid = getpid();
	s->path = strdup(path);
	err = s->path ? tracelog_writer_open(path, &s->log) : &wc_enomem;
	if (err) {
		number = err != &wc_enomem && !err->sys_errno ? exists_or_not(path) : 0;
		session_free(s);
		return fail(err, number);
	}
	s->sink = tracelog_writer_sink(s->log);
	err = session_begin(s, frames, ring_size, &number);
	if (err) {
		tracelog_writer_discard(s->log);
		session_free(s);
		return fail(err, number);
	}
	current = s;
	return 0;
}

/* In a fork's child: the thread is not here, and the log is the parent's. What it had in memory is left. */
static void session_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	current = NULL;
}

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

/* 0: there is none of such a size. */
static uint64_t ring_size_for(size_t buffer)
{
	uint64_t size = CAPTURE_RING_MIN;

	if (!buffer)
		return RING_SIZE;
	if (buffer > CAPTURE_RING_MAX)
		return 0;
	while (size < buffer)
		size *= 2;
	return size;
}

int stackwalk_log_open(const char *path, unsigned int frames, size_t buffer)
{
	static bool forks_are_seen;
	uint64_t ring_size = ring_size_for(buffer);
	int ret;

	if (!path || !*path)
		return session_refuse(EINVAL, "a log needs a path");
	if (frames > CAPTURE_FRAMES)
		return session_refuse(EINVAL, "a stack has at most 128 frames");
	if (!ring_size)
		return session_refuse(EINVAL, "the ring of a thread has at most 256 MB");
	if (!tsc_usable())
		return session_refuse(ENOTSUP, "the time stamp counter cannot be used on this machine: "
					       "captures would have no time");

	pthread_mutex_lock(&lock);
	if (!forks_are_seen)
		forks_are_seen = !pthread_atfork(before_fork, after_fork, session_forget);
	if (current && current->pid != getpid()) /* a child made without fork handlers */
		current = NULL;
	if (current)
		ret = session_refuse(EBUSY, "a log of this process is open already");
	else
		ret = open_log(path, frames ? frames : FRAMES, ring_size);
	pthread_mutex_unlock(&lock);
	return ret;
}

int stackwalk_log_close(void)
{
	struct wc_error *err;
	struct session *s;

	pthread_mutex_lock(&lock);
	s = current && current->pid == getpid() ? current : NULL;
	current = NULL;
	pthread_mutex_unlock(&lock);
	if (!s)
		return session_refuse(EINVAL, "no log is open");
	err = session_end(s);
	return err ? fail(err, 0) : 0;
}

const char *stackwalk_log_error(void)
{
	return last_error;
}

/* After the program's exit handlers. */
__attribute__((destructor)) static void at_exit(void)
{
	if (current && current->pid == getpid())
		stackwalk_log_close();
}
