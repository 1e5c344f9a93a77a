/*
 * The flight recorder's log: bounded to the byte at every moment, each part of it can be read alone, and
 * whatever happens to it, nothing is read that was not written.
 */
#include "tests/unit/tracelog_sample.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/clock.h"
#include "watchctl/trace/tracelog_reader.h"

#define MIB (1u << 20)
#define BASE 1000000u

struct fixture {
	char dir[64];
	char log[80];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	strcpy(f->dir, "/tmp/test_tracelog_ring.XXXXXX");
	if (!mkdtemp(f->dir))
		return -1;
	snprintf(f->log, sizeof(f->log), "%s/log", f->dir);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", f->dir);
	free(*state);
	return system(command);
}

/* The files of a log */

static uint64_t size_of_all(const char *log, size_t *nfiles)
{
	DIR *d = opendir(log);
	struct dirent *entry;
	struct stat st;
	uint64_t sum = 0;

	*nfiles = 0;
	if (!d)
		return 0;
	while ((entry = readdir(d))) {
		if (fstatat(dirfd(d), entry->d_name, &st, 0) == 0 && S_ISREG(st.st_mode))
			sum += (uint64_t)st.st_size;
		*nfiles += !strncmp(entry->d_name, "events", 6);
	}
	closedir(d);
	return sum;
}

/*
 * In place of the C library's, for this whole program: after each write of the log's writer its size is
 * looked at. What the kernel would do in between two system calls, nobody can see.
 */
static const char *watched_log;
static uint64_t largest, writes;

ssize_t write(int fd, const void *buf, size_t n)
{
	ssize_t ret = syscall(SYS_write, fd, buf, n);
	int err = errno;

	if (watched_log && n >= TRACELOG_PACKET_START) {
		size_t nfiles;
		uint64_t now = size_of_all(watched_log, &nfiles);

		largest = now > largest ? now : largest;
		writes++;
	}
	errno = err;
	return ret;
}

static struct tracelog_writer *ring(const struct fixture *f, uint64_t bytes, uint64_t keep_ns)
{
	const struct tracelog_bounds b = { bytes, keep_ns };
	struct tracelog_writer *w;

	OK(tracelog_writer_open_ring(f->log, &b, &w));
	return w;
}

/* Reading it back */

struct seen {
	size_t processes, modules, watches, threads, code, notes, lost;
	uint64_t first, last, accesses;
	bool known_thread[SAMPLE_THREADS];
	uint8_t known_code[1 << 16]; /* by the distance from SAMPLE_TEXT */
};

/* An access that refers to what was not told yet cannot be understood. */
static void check_it_can_be_understood(const struct seen *s, const struct access_event *a)
{
	uint32_t i;

	assert_true(s->processes && s->watches >= 2 && s->modules >= 2);
	assert_true(s->known_thread[a->tid - SAMPLE_PID]);
	for (i = 0; i < a->nframes; i++)
		assert_true(s->known_code[a->frame[i] - SAMPLE_TEXT]);
}

static void see(struct seen *s, const struct trace_event *e)
{
	uint64_t n;

	switch (e->type) {
	case EVENT_PROCESS:
		s->processes++;
		break;
	case EVENT_MODULE:
		s->modules++;
		break;
	case EVENT_WATCH:
		s->watches++;
		break;
	case EVENT_THREAD:
		s->threads++;
		assert_int_equal(e->thread.comm[1], '0' + e->thread.tid - SAMPLE_PID);
		s->known_thread[e->thread.tid - SAMPLE_PID] = true;
		break;
	case EVENT_CODE:
		s->code++;
		assert_int_equal(e->code.before[0], (uint8_t)e->code.pc);
		s->known_code[e->code.pc - SAMPLE_TEXT] = 1;
		break;
	case EVENT_NOTE:
		s->notes++;
		break;
	case EVENT_LOST:
		s->lost += e->lost.count;
		break;
	case EVENT_ACCESS:
		n = sample_number(e, BASE);
		check_it_can_be_understood(s, &e->access);
		if (n <= s->last)
			fail_msg("access %llu after %llu", (unsigned long long)n,
				 (unsigned long long)s->last);
		if (!s->first)
			s->first = n;
		s->last = n;
		s->accesses++;
		break;
	default:
		fail_msg("an event of type %d was never written", e->type);
	}
}

static enum log_outcome see_more(struct tracelog_reader *r, struct seen *s)
{
	enum log_outcome outcome;
	struct trace_event e;

	for (;;) {
		OK(tracelog_next(r, &e, &outcome));
		if (outcome != LOG_EVENT)
			return outcome;
		see(s, &e);
	}
}

static enum log_outcome see_all(const char *log, struct seen *s, uint64_t *missed)
{
	struct tracelog_reader *r;
	enum log_outcome outcome;

	OK(tracelog_reader_open(log, &r));
	outcome = see_more(r, s);
	*missed = tracelog_missed(r, NULL);
	assert_true(tracelog_progress(r) == 1.0);
	tracelog_reader_close(r);
	return outcome;
}

/* Writing and reading */

static void what_fits_comes_back_once_over_all_files(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w = ring(f, 4 * MIB, 0);
	struct seen s = { 0 };
	uint64_t missed;
	size_t nfiles;

	sample_begin(w, BASE);
	sample_put_accesses(w, 1, 10000, BASE);
	OK(tracelog_writer_close(w));
	assert_true(size_of_all(f->log, &nfiles) > MIB);
	assert_true(nfiles > 4);
	assert_int_equal(see_all(f->log, &s, &missed), LOG_END);
	assert_int_equal(missed, 0);
	assert_int_equal(s.processes, 1);
	assert_int_equal(s.modules, 2);
	assert_int_equal(s.watches, 2);
	assert_int_equal(s.threads, SAMPLE_THREADS);
	assert_int_equal(s.notes, 1);
	assert_int_equal(s.first, 1);
	assert_int_equal(s.last, 10000);
	assert_int_equal(s.accesses, 10000);
}

static void the_bound_holds_after_every_write_and_the_newest_are_there(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w = ring(f, MIB + 12345, 0);
	struct seen s = { 0 };
	uint64_t missed;
	size_t nfiles;

	watched_log = f->log;
	largest = writes = 0;
	sample_begin(w, BASE);
	sample_put(w, (struct trace_event){
			      .type = EVENT_LOST, .time_ns = BASE, .lost = { 0, 7, "ring full" } });
	sample_put(w, (struct trace_event){
			      .type = EVENT_LOST, .time_ns = BASE, .lost = { 0, 5, "ring full" } });
	sample_put_accesses(w, 1, 40000, BASE);
	OK(tracelog_writer_close(w));
	watched_log = NULL;
	assert_true(writes > 400);
	assert_true(largest <= MIB + 12345);
	assert_true(largest > MIB + 12345 - 20000); /* and what it allows is used */
	assert_true(size_of_all(f->log, &nfiles) > (MIB + 12345) / 10 * 8);

	assert_int_equal(see_all(f->log, &s, &missed), LOG_END);
	assert_int_equal(missed, 0);
	assert_true(s.first > 30000);
	assert_int_equal(s.last, 40000);
	assert_int_equal(s.accesses, s.last - s.first + 1);
	assert_int_equal(s.processes, 1);
	assert_int_equal(s.watches, 2);
	assert_int_equal(s.modules, 2);
	assert_int_equal(s.notes, 1);
	assert_int_equal(s.lost, 12);
	assert_int_equal(s.threads, SAMPLE_THREADS);
}

/* The process's time of day must still belong to the timestamp it is told with. */
static void the_time_of_day_stays_right(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w = ring(f, MIB, 0);
	struct tracelog_reader *r;
	enum log_outcome outcome;
	struct trace_event e;

	sample_begin(w, BASE);
	sample_put_accesses(w, 1, 20000, BASE);
	OK(tracelog_writer_close(w));
	OK(tracelog_reader_open(f->log, &r));
	OK(tracelog_next(r, &e, &outcome));
	assert_int_equal(e.type, EVENT_PROCESS);
	assert_true(e.time_ns > BASE);
	assert_int_equal(e.process.realtime_ns - e.time_ns, 1700000000000000000u - BASE);
	tracelog_reader_close(r);
}

/* What a reader of the log's last part is told of modules: as "pid:path", in order. */
static char *modules_of_the_rest(const char *log)
{
	struct tracelog_reader *r;
	enum log_outcome outcome;
	struct trace_event e;
	char *text = calloc(1, 1), *more;

	OK(tracelog_reader_open(log, &r));
	for (;;) {
		OK(tracelog_next(r, &e, &outcome));
		if (outcome != LOG_EVENT)
			break;
		if (e.type == EVENT_PROCESS)
			assert_true(asprintf(&more, "%sprocess %d<%d ", text, e.process.pid,
					     e.process.parent) > 0);
		else if (e.type == EVENT_MODULE || e.type == EVENT_MODULE_GONE)
			assert_true(asprintf(&more, "%s%s%d:%s ", text, e.type == EVENT_MODULE ? "" : "-",
					     e.module_pid, e.module.path) > 0);
		else
			continue;
		free(text);
		text = more;
	}
	tracelog_reader_close(r);
	return text;
}

static struct trace_event child(int32_t pid, int32_t parent)
{
	return (struct trace_event){ .type = EVENT_PROCESS,
				     .time_ns = BASE,
				     .process = {
					     .pid = pid, .parent = parent, .comm = "child", .exe = "/x" } };
}

static struct trace_event gone(int32_t pid, uint64_t start, const char *path)
{
	struct trace_event e = sample_module(BASE, pid, start, path);

	e.type = EVENT_MODULE_GONE;
	return e;
}

/* Forgetting children is decided by whether they live: these are processes that do. */
static void followed_children_have_their_own_modules_in_each_part(void **state)
{
	const int32_t a = getpid(), b = getppid();
	struct fixture *f = *state;
	struct tracelog_writer *w = ring(f, MIB, 0);
	char *text, want[400];

	sample_begin(w, BASE);
	sample_put(w, sample_module(BASE, 0, 0x1000000, "/early"));
	sample_put(w, child(a, SAMPLE_PID)); /* has app, libc, early */
	sample_put(w, sample_module(BASE, 0, 0x2000000, "/of-parent"));
	sample_put(w, sample_module(BASE, a, 0x3000000, "/of-child"));
	sample_put(w, gone(a, 0x1000000, "/early"));
	sample_put(w, child(b, a)); /* has app, libc, of-child */
	sample_put(w, gone(0, 0x7ffff7d00000, "/lib/libc.so.6"));
	sample_put(w, sample_module(BASE, b, 0x2000000, "/other"));
	sample_put_accesses(w, 1, 20000, BASE);
	OK(tracelog_writer_close(w));
	text = modules_of_the_rest(f->log);
	/* Each child starts with what was told of its parent before it: nothing must be told that it has not.
	 */
	snprintf(want, sizeof(want),
		 "process 77<0 0:/usr/bin/app process %d<77 process %d<%d "
		 "0:/early 0:/of-parent %d:/lib/libc.so.6 %d:/of-child %d:/lib/libc.so.6 %d:/of-child "
		 "%d:/other ",
		 a, b, a, a, a, b, b, b);
	assert_string_equal(text, want);
	free(text);
}

static void after_exec_the_old_programs_modules_are_not_told_again(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w = ring(f, MIB, 0);
	char *text;

	sample_begin(w, BASE);
	sample_put(w, child(SAMPLE_PID, 0));
	sample_put(w, sample_module(BASE, 0, 0x4000000, "/new-program"));
	sample_put_accesses(w, 1, 20000, BASE);
	OK(tracelog_writer_close(w));
	text = modules_of_the_rest(f->log);
	assert_string_equal(text, "process 77<0 0:/new-program ");
	free(text);
}

static void a_program_that_forks_for_days_does_not_fill_the_log(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w = ring(f, MIB, 0);
	struct seen *s = calloc(1, sizeof(*s));
	uint64_t missed;
	int32_t i;

	sample_begin(w, BASE);
	for (i = 0; i < 30000; i++) {
		sample_put(w, child(0x40000000 + i, SAMPLE_PID)); /* no process has such a number */
		sample_put(w,
			   sample_module(BASE, 0x40000000 + i, 0x1000000 + 0x1000 * (uint64_t)i, "/plugin"));
	}
	sample_put_accesses(w, 1, 20000, BASE);
	OK(tracelog_writer_close(w));
	assert_int_equal(see_all(f->log, s, &missed), LOG_END);
	assert_int_equal(s->processes, 1);
	assert_int_equal(s->last, 20000);
	free(s);
}

static void unloaded_modules_take_no_room(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w = ring(f, MIB, 0);
	char *text;
	int i;

	sample_begin(w, BASE);
	for (i = 0; i < 100000; i++) {
		sample_put(w, sample_module(BASE, 0, 0x1000000 + 0x1000 * (uint64_t)i, "/plugin"));
		sample_put(w, gone(0, 0x1000000 + 0x1000 * (uint64_t)i, "/plugin"));
	}
	sample_put_accesses(w, 1, 20000, BASE);
	OK(tracelog_writer_close(w));
	text = modules_of_the_rest(f->log);
	assert_string_equal(text, "process 77<0 0:/usr/bin/app 0:/lib/libc.so.6 ");
	free(text);
}

static void a_hundred_thousand_threads_keep_their_names(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w = ring(f, 4 * MIB, 0);
	int32_t named = 0, hit = 0, round, i;
	struct tracelog_reader *r;
	enum log_outcome outcome;
	struct trace_event e;
	struct sample s;
	char comm[16];

	sample_begin(w, BASE);
	for (i = 0; i < 100000; i++) {
		snprintf(comm, sizeof(comm), "w%d", i);
		sample_put(w, (struct trace_event){
				      .type = EVENT_THREAD,
				      .time_ns = BASE,
				      .thread = { .pid = SAMPLE_PID, .tid = 1000 + i, .comm = comm } });
	}
	for (round = 0; round < 2; round++) {
		for (i = 0; i < 100000; i++) {
			sample_access(&s, (uint64_t)i + 1, BASE);
			s.e.access.tid = 1000 + i;
			sample_put(w, s.e);
		}
	}
	OK(tracelog_writer_close(w));
	OK(tracelog_reader_open(f->log, &r));
	for (;;) {
		OK(tracelog_next(r, &e, &outcome));
		if (outcome != LOG_EVENT)
			break;
		if (e.type == EVENT_THREAD) {
			snprintf(comm, sizeof(comm), "w%d", e.thread.tid - 1000);
			assert_string_equal(e.thread.comm, comm);
			named = e.thread.tid;
		} else if (e.type == EVENT_ACCESS) {
			assert_int_equal(e.access.tid, named); /* told right before it */
			assert_int_equal(e.access.pid, SAMPLE_PID);
			hit++;
		}
	}
	tracelog_reader_close(r);
	assert_true(hit > 10000);
}

/* Bounds */

static void bounds_that_make_no_sense_are_refused(void **state)
{
	struct fixture *f = *state;
	struct tracelog_bounds b = { 0 };
	struct tracelog_writer *w;
	size_t nfiles;

	FAILS(tracelog_writer_open_ring(f->log, &b, &w), "needs a bound");
	b.bytes = MIB - 1;
	FAILS(tracelog_writer_open_ring(f->log, &b, &w), "needs 1048576 bytes at least");
	assert_int_equal(size_of_all(f->log, &nfiles), 0);
	assert_int_not_equal(access(f->log, F_OK), 0);
}

static void a_bound_too_small_for_the_program_is_an_error_and_the_log_stays_whole(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w = ring(f, MIB, 0);
	struct event_sink sink = tracelog_writer_sink(w);
	struct seen s = { 0 };
	struct trace_event e;
	struct wc_error *err = NULL;
	uint64_t missed;
	size_t nfiles;
	int i;

	sample_begin(w, BASE);
	sample_put_accesses(w, 1, 8000, BASE);
	for (i = 0; i < 100000 && !err; i++) {
		e = sample_module(BASE, 0, 0x1000000 + 0x1000 * (uint64_t)i,
				  "/usr/lib/some/module/of/the/program.so");
		err = sink.put(sink.ctx, &e);
	}
	assert_non_null(err);
	assert_int_equal(err->kind, WC_ELOG);
	assert_non_null(strstr(err->text, "is too small for the log"));
	assert_non_null(strstr(err->text, "allow at least"));
	wc_error_free(err);
	FAILS(sink.put(sink.ctx, &e), "given up");
	OK(tracelog_writer_close(w));
	assert_int_equal(see_all(f->log, &s, &missed), LOG_END);
	assert_true(size_of_all(f->log, &nfiles) <= MIB);
}

/* RLIMIT_FSIZE makes write(2) come back short, then fail, just as a full disk does. */
static void a_full_disk_leaves_whole_packets(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w = ring(f, 8 * MIB, 0);
	struct event_sink sink = tracelog_writer_sink(w);
	struct wc_error *err = NULL;
	struct rlimit old, tight;
	struct seen s = { 0 };
	struct sample one;
	uint64_t missed;
	int i;

	sample_begin(w, BASE);
	sample_put_accesses(w, 1, 10000, BASE);
	getrlimit(RLIMIT_FSIZE, &old);
	tight = old;
	tight.rlim_cur = 100000;
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &tight);
	for (i = 10001; i < 100000 && !err; i++) {
		sample_access(&one, (uint64_t)i, BASE);
		err = sink.put(sink.ctx, &one.e);
	}
	setrlimit(RLIMIT_FSIZE, &old);
	signal(SIGXFSZ, SIG_DFL);
	FAILS(err, "File too large (the ");
	OK(tracelog_writer_close(w));
	assert_int_equal(see_all(f->log, &s, &missed), LOG_END);
	assert_int_equal(s.first, 1);
	assert_true(s.last >= 9000 && s.accesses == s.last);
}

#define SECOND 1000000000u

static void what_is_older_than_the_time_to_keep_goes(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w = ring(f, 0, 8 * (uint64_t)SECOND);
	struct tracelog_reader *r;
	enum log_outcome outcome;
	uint64_t n, first = 0, last = 0, base = monotonic_ns() - 60 * (uint64_t)SECOND;
	struct trace_event e;
	struct sample s;
	size_t nfiles;

	sample_begin(w, base);
	for (n = 1; n <= 6000; n++) { /* a minute */
		sample_access(&s, n, base);
		s.e.time_ns = base + n * (SECOND / 100);
		sample_put(w, s.e);
	}
	OK(tracelog_writer_close(w));
	OK(tracelog_reader_open(f->log, &r));
	for (;;) {
		OK(tracelog_next(r, &e, &outcome));
		if (outcome != LOG_EVENT)
			break;
		if (e.type == EVENT_ACCESS) {
			first = first ? first : e.access.new_value;
			last = e.access.new_value;
		}
	}
	tracelog_reader_close(r);
	assert_int_equal(last, 6000);
	/*
	 * The last eight seconds, less those that passed since; what shares a file with them is at most a
	 * sixteenth of that.
	 */
	if (first < 5140 || first > 5300)
		fail_msg("it begins with %llu", (unsigned long long)first);
	size_of_all(f->log, &nfiles);
	assert_true(nfiles >= 15 && nfiles <= 19);
}

static void what_is_too_old_goes_also_while_nothing_happens(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w = ring(f, 0, SECOND / 10);
	const struct timespec pause = { .tv_nsec = 60000000 };
	uint64_t base = monotonic_ns(), missed;
	struct seen s = { 0 };
	struct sample one;
	size_t nfiles;
	int i;

	sample_begin(w, base);
	sample_access(&one, 1, base);
	sample_put(w, one.e);
	for (i = 0; i < 5; i++) {
		OK(tracelog_writer_flush(w));
		nanosleep(&pause, NULL);
	}
	OK(tracelog_writer_flush(w));
	size_of_all(f->log, &nfiles);
	assert_int_equal(nfiles, 1);
	assert_int_equal(see_all(f->log, &s, &missed), LOG_END);
	assert_int_equal(s.accesses, 0);
	assert_int_equal(s.processes, 1);
	assert_int_equal(s.watches, 2);
	OK(tracelog_writer_close(w));
}

/* Following */

static void a_follower_sees_each_event_once_while_it_is_written(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w = ring(f, MIB, 0);
	struct seen s = { 0 };
	struct tracelog_reader *r;
	uint64_t n;

	OK(tracelog_reader_open(f->log, &r));
	tracelog_follow(r);
	assert_true(tracelog_is_recording(f->log));
	assert_int_equal(see_more(r, &s), LOG_WAIT);
	sample_begin(w, BASE);
	for (n = 0; n < 40000; n += 500) {
		sample_put_accesses(w, n + 1, n + 500, BASE);
		OK(tracelog_writer_flush(w));
		assert_int_equal(see_more(r, &s), LOG_WAIT);
		assert_int_equal(s.last, n + 500);
	}
	assert_int_equal(s.accesses, 40000);
	sample_put_accesses(w, 40001, 40100, BASE);
	OK(tracelog_writer_close(w));
	assert_false(tracelog_is_recording(f->log));
	assert_int_equal(see_more(r, &s), LOG_END);
	assert_int_equal(s.accesses, 40100);
	assert_int_equal(s.processes, 1);
	assert_int_equal(s.watches, 2);
	assert_int_equal(s.threads, SAMPLE_THREADS);
	assert_int_equal(tracelog_missed(r, NULL), 0);
	tracelog_reader_close(r);
}

static void a_follower_that_falls_behind_is_told_and_goes_on(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w = ring(f, MIB, 0);
	struct seen s = { 0 };
	struct tracelog_reader *r;
	const char *why;

	sample_begin(w, BASE);
	OK(tracelog_writer_flush(w));
	OK(tracelog_reader_open(f->log, &r));
	tracelog_follow(r);
	assert_int_equal(see_more(r, &s), LOG_WAIT);
	sample_put_accesses(w, 1, 40000, BASE);
	OK(tracelog_writer_flush(w));
	assert_int_equal(see_more(r, &s), LOG_WAIT);
	assert_true(tracelog_missed(r, &why) > MIB);
	assert_string_equal(why, "the recorder removed them before they were read");
	assert_int_equal(s.last, 40000);
	/* The file that it had open is whole, and a gap follows; then all is told again, but for what is
	 * past. */
	assert_int_equal(s.processes, 2);
	assert_int_equal(s.watches, 4);
	assert_int_equal(s.notes, 1);
	OK(tracelog_writer_close(w));
	assert_int_equal(see_more(r, &s), LOG_END);
	tracelog_reader_close(r);
}

static void a_plain_log_can_be_followed_too(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w;
	struct seen s = { 0 };
	struct tracelog_reader *r;

	OK(tracelog_writer_open(f->log, &w));
	sample_begin(w, BASE);
	OK(tracelog_reader_open(f->log, &r));
	tracelog_follow(r);
	assert_int_equal(see_more(r, &s), LOG_WAIT);
	sample_put_accesses(w, 1, 1000, BASE);
	OK(tracelog_writer_flush(w));
	assert_int_equal(see_more(r, &s), LOG_WAIT);
	assert_int_equal(s.last, 1000);
	sample_put_accesses(w, 1001, 1002, BASE);
	OK(tracelog_writer_close(w));
	assert_int_equal(see_more(r, &s), LOG_END);
	assert_int_equal(s.last, 1002);
	tracelog_reader_close(r);
}

static void a_killed_recorder_is_not_waited_for(void **state)
{
	struct fixture *f = *state;
	struct seen s = { 0 };
	struct tracelog_reader *r;
	int status, ready[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		struct tracelog_writer *w = ring(f, MIB, 0);

		sample_begin(w, BASE);
		sample_put_accesses(w, 1, 100, BASE);
		OK(tracelog_writer_flush(w));
		close(ready[1]);
		pause();
		_exit(1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 0);
	close(ready[0]);
	assert_true(tracelog_is_recording(f->log));
	OK(tracelog_reader_open(f->log, &r));
	tracelog_follow(r);
	assert_int_equal(see_more(r, &s), LOG_WAIT);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	assert_false(tracelog_is_recording(f->log));
	assert_int_equal(see_more(r, &s), LOG_END);
	assert_int_equal(s.last, 100);
	tracelog_reader_close(r);
}

/* A log whose oldest files go while it is read: they were opened before. */
static void files_that_are_removed_while_they_are_read_are_read(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w = ring(f, MIB, 0);
	struct seen s = { 0 };
	struct tracelog_reader *r;

	sample_begin(w, BASE);
	sample_put_accesses(w, 1, 2000, BASE);
	OK(tracelog_writer_flush(w));
	OK(tracelog_reader_open(f->log, &r));
	sample_put_accesses(w, 2001, 40000, BASE);
	OK(tracelog_writer_close(w));
	assert_int_equal(see_more(r, &s), LOG_END);
	assert_int_equal(s.first, 1);
	assert_int_equal(s.last, 2000);
	assert_int_equal(tracelog_missed(r, NULL), 0);
	tracelog_reader_close(r);
}

static void any_event_can_be_read_again_with_its_own_stack(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w = ring(f, MIB, 0);
	uint64_t position[3000], number[3000];
	struct tracelog_reader *r;
	enum log_outcome outcome;
	struct trace_event e;
	size_t n = 0, i;

	sample_begin(w, BASE);
	sample_put_accesses(w, 1, 20000, BASE);
	OK(tracelog_writer_close(w));
	OK(tracelog_reader_open(f->log, &r));
	for (;;) {
		OK(tracelog_next(r, &e, &outcome));
		if (outcome != LOG_EVENT)
			break;
		if (e.type == EVENT_ACCESS && n < 3000) {
			number[n] = e.access.new_value;
			position[n++] = tracelog_position(r);
			assert_true(n < 2 || position[n - 1] > position[n - 2]);
		}
	}
	for (i = 0; i < 60; i++) {
		size_t k = i * 1237 % n;

		OK(tracelog_read_again(r, position[k], &e, &outcome));
		assert_int_equal(outcome, LOG_EVENT);
		assert_int_equal(sample_number(&e, BASE), number[k]);
	}
	OK(tracelog_read_again(r, position[n - 1] + 1, &e, &outcome));
	assert_int_equal(outcome, LOG_TRUNCATED);
	tracelog_reader_close(r);
}

/* Damage */

struct files {
	char *metadata;
	size_t metadata_len, n;
	struct log_file file[32];
};

static uint8_t *bytes_of(const char *path, size_t *len)
{
	FILE *f = fopen(path, "r");
	uint8_t *bytes = malloc(1 << 20);

	assert_non_null(f);
	*len = fread(bytes, 1, 1 << 20, f);
	fclose(f);
	return bytes;
}

static void load_files(const char *log, struct files *ret)
{
	char path[160];
	uint64_t number;
	size_t len;

	snprintf(path, sizeof(path), "%s/metadata", log);
	ret->metadata = (char *)bytes_of(path, &ret->metadata_len);
	for (number = 0, ret->n = 0; number < 200; number++) {
		snprintf(path, sizeof(path), "%s/events.%010llu", log, (unsigned long long)number);
		if (access(path, F_OK))
			continue;
		assert_true(ret->n < 32);
		ret->file[ret->n] =
			(struct log_file){ .number = number, .fd = -1, .mem = bytes_of(path, &len) };
		ret->file[ret->n++].size = len;
	}
}

static uint64_t seed = 20261121;

static uint64_t random_below(uint64_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 33) % n;
}

/* One of: zeroed from somewhere on, to the end of a page or of the file; cut; bytes overwritten. */
static void damage(struct log_file *f, uint8_t *bytes)
{
	uint64_t at = random_below(f->size), n = 0;

	switch (random_below(4)) {
	case 0:
		n = 4096 - at % 4096;
		memset(bytes + at, 0, n < f->size - at ? n : f->size - at);
		break;
	case 1:
		memset(bytes + at, 0, f->size - at);
		break;
	case 2:
		f->size = at;
		break;
	default:
		for (n = 1 + random_below(16); n--;)
			bytes[at + random_below(f->size - at)] = (uint8_t)random_below(256);
	}
}

static void damage_costs_the_rest_of_a_file_and_is_never_misread(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w = ring(f, MIB, 0);
	struct seen *whole = calloc(1, sizeof(*whole)), *s = calloc(1, sizeof(*s));
	struct tracelog_reader *r;
	struct files files;
	uint64_t missed, ignored;
	int round;
	size_t i;

	sample_begin(w, BASE);
	sample_put_accesses(w, 1, 12000, BASE);
	OK(tracelog_writer_close(w));
	see_all(f->log, whole, &missed);
	load_files(f->log, &files);
	assert_true(files.n >= 10);
	for (round = 0; round < 1000; round++) {
		size_t k = random_below(files.n);
		struct log_file saved = files.file[k];
		enum log_outcome outcome;

		files.file[k].mem = malloc(saved.size);
		memcpy((uint8_t *)files.file[k].mem, saved.mem, saved.size);
		damage(&files.file[k], (uint8_t *)files.file[k].mem);
		OK(tracelog_reader_open_memory_ring(files.metadata, files.metadata_len, files.file, files.n,
						    &r));
		memset(s, 0, sizeof(*s));
		outcome = see_more(r, s); /* checks each event */
		missed = tracelog_missed(r, NULL);
		ignored = tracelog_ignored(r, NULL);
		assert_true(outcome == LOG_END || k == files.n - 1);
		if (k < files.n - 1)
			assert_int_equal(s->last, whole->last);
		assert_true(missed + ignored <= saved.size);
		/* About 66 events of a packet of 16 KiB, four or five packets: no other file was lost. */
		assert_true(s->accesses + 700 > whole->accesses);
		tracelog_reader_close(r);
		free((void *)files.file[k].mem);
		files.file[k] = saved;
	}
	for (i = 0; i < files.n; i++)
		free((void *)files.file[i].mem);
	free(files.metadata);
	free(whole);
	free(s);
}

static void remove_log(const char *log)
{
	DIR *d = opendir(log);
	struct dirent *entry;

	while (d && (entry = readdir(d)))
		unlinkat(dirfd(d), entry->d_name, 0);
	if (d)
		closedir(d);
	rmdir(log);
}

/* Whoever reads a log that is being recorded may see half of a packet: that is no damage. */
static void half_a_packet_of_a_running_recorder_is_not_there_yet(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w;
	struct seen s = { 0 };
	struct tracelog_reader *r;
	char path[128];
	struct stat st;
	uint64_t missed;

	OK(tracelog_writer_open(f->log, &w));
	sample_begin(w, BASE);
	sample_put_accesses(w, 1, 100, BASE);
	OK(tracelog_writer_flush(w));
	sample_put_accesses(w, 101, 200, BASE);
	OK(tracelog_writer_flush(w));
	snprintf(path, sizeof(path), "%s/events", f->log);
	stat(path, &st);
	assert_int_equal(truncate(path, st.st_size - 100), 0);
	assert_int_equal(see_all(f->log, &s, &missed), LOG_END);
	assert_int_equal(s.last, 100);
	memset(&s, 0, sizeof(s));
	OK(tracelog_reader_open(f->log, &r));
	tracelog_follow(r);
	assert_int_equal(see_more(r, &s), LOG_WAIT);
	assert_int_equal(s.last, 100);
	OK(tracelog_writer_close(w));
	assert_int_equal(see_more(r, &s), LOG_TRUNCATED);
	tracelog_reader_close(r);
	memset(&s, 0, sizeof(s));
	assert_int_equal(see_all(f->log, &s, &missed), LOG_TRUNCATED);
}

static void record_until_killed(const struct fixture *f, bool plain)
{
	struct tracelog_writer *w;
	uint64_t n;

	if (plain)
		OK(tracelog_writer_open(f->log, &w));
	else
		w = ring(f, MIB, 0);
	sample_begin(w, BASE);
	for (n = 1;; n += 100) {
		sample_put_accesses(w, n, n + 99, BASE);
		if (n % 1000 == 1)
			OK(tracelog_writer_flush(w));
	}
}

/* Kills the recorder of a new log after @us microseconds, and reads what is there. */
static void kill_after(const struct fixture *f, uint64_t us, bool plain, struct seen *s)
{
	const struct timespec pause = { .tv_nsec = (long)us * 1000 };
	struct tracelog_reader *r;
	enum log_outcome outcome;
	struct wc_error *err;
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		record_until_killed(f, plain);
		_exit(1);
	}
	nanosleep(&pause, NULL);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	assert_true(WIFSIGNALED(status));
	memset(s, 0, sizeof(*s));
	err = tracelog_reader_open(f->log, &r);
	if (err) { /* killed before it had begun: the metadata is not whole, or nothing is there */
		assert_int_equal(err->kind, WC_ELOG);
		wc_error_free(err);
		return;
	}
	outcome = see_more(r, s);
	assert_true(outcome == LOG_END || outcome == LOG_TRUNCATED);
	assert_int_equal(tracelog_missed(r, NULL), 0);
	if (s->accesses)
		assert_int_equal(s->accesses, s->last - s->first + 1);
	tracelog_reader_close(r);
}

static void a_thousand_killed_recorders_leave_nothing_to_misread(void **state)
{
	struct fixture *f = *state;
	struct seen *s = calloc(1, sizeof(*s));
	unsigned int with_events = 0, wrapped = 0;
	size_t nfiles;
	int i;

	for (i = 0; i < 1000; i++) {
		kill_after(f, 100 + random_below(i % 10 ? 8000 : 30000), i % 5 == 4, s);
		with_events += s->accesses > 0;
		wrapped += s->first > 1;
		if (i % 5 != 4)
			assert_true(size_of_all(f->log, &nfiles) <= MIB);
		remove_log(f->log);
	}
	print_message("%u logs with events, %u of rings that had wrapped\n", with_events, wrapped);
	assert_true(with_events > 500);
	assert_true(wrapped > 20);
	free(s);
}

/* What is there of a log */

static void replace(const char *dir, const char *name, const char *text)
{
	char path[160];
	FILE *out;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	out = fopen(path, "w");
	assert_non_null(out);
	fputs(text, out);
	fclose(out);
}

static void a_directory_without_events_is_refused_and_empty_files_are_an_empty_log(void **state)
{
	struct fixture *f = *state;
	struct tracelog_reader *r;
	struct seen s = { 0 };

	mkdir(f->log, 0700);
	replace(f->log, "metadata",
		"/* CTF 1.8 */ trace { uuid = \"00112233-4455-6677-8899-aabbccddeeff\"; };"
		"env { tracer_name = \"watchctl\"; format_major = 2; format_minor = 0; };");
	FAILS(tracelog_reader_open(f->log, &r), "has no file `events`");
	replace(f->log, "events.7", ""); /* not a name of ours */
	FAILS(tracelog_reader_open(f->log, &r), "has no file `events`");
	replace(f->log, "events.0000000007", "");
	replace(f->log, "events.0000000008", "");
	OK(tracelog_reader_open(f->log, &r));
	assert_int_equal(see_more(r, &s), LOG_END);
	tracelog_reader_close(r);
	replace(f->log, "events.0000000009", "hello");
	OK(tracelog_reader_open(f->log, &r));
	assert_int_equal(see_more(r, &s), LOG_TRUNCATED);
	assert_int_equal(tracelog_ignored(r, NULL), 5);
	tracelog_reader_close(r);
}

/* The output of a shell command, line by line. */
static void babeltrace2_reads_the_same_accesses_of_a_ring_that_has_wrapped(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w = ring(f, MIB, 0);
	uint64_t n, last = 0, count = 0, missed;
	char command[200], line[4096], *at;
	struct seen s = { 0 };
	FILE *p;

	sample_begin(w, BASE);
	sample_put_accesses(w, 1, 20000, BASE);
	OK(tracelog_writer_close(w));
	assert_int_equal(see_all(f->log, &s, &missed), LOG_END);
	snprintf(command, sizeof(command), "babeltrace2 '%s' 2>&1", f->log);
	p = popen(command, "r");
	assert_non_null(p);
	while (fgets(line, sizeof(line), p)) {
		at = strstr(line, "new_value = 0x");
		if (!at)
			continue;
		n = strtoull(at + strlen("new_value = "), NULL, 16);
		assert_int_equal(n, last ? last + 1 : s.first);
		last = n;
		count++;
	}
	assert_int_equal(pclose(p), 0);
	assert_int_equal(count, s.accesses);
	assert_int_equal(last, s.last);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(what_fits_comes_back_once_over_all_files),
		TEST(the_bound_holds_after_every_write_and_the_newest_are_there),
		TEST(the_time_of_day_stays_right),
		TEST(followed_children_have_their_own_modules_in_each_part),
		TEST(after_exec_the_old_programs_modules_are_not_told_again),
		TEST(a_program_that_forks_for_days_does_not_fill_the_log),
		TEST(unloaded_modules_take_no_room),
		TEST(a_hundred_thousand_threads_keep_their_names),
		TEST(bounds_that_make_no_sense_are_refused),
		TEST(a_bound_too_small_for_the_program_is_an_error_and_the_log_stays_whole),
		TEST(a_full_disk_leaves_whole_packets),
		TEST(what_is_older_than_the_time_to_keep_goes),
		TEST(what_is_too_old_goes_also_while_nothing_happens),
		TEST(a_follower_sees_each_event_once_while_it_is_written),
		TEST(a_follower_that_falls_behind_is_told_and_goes_on),
		TEST(a_plain_log_can_be_followed_too),
		TEST(a_killed_recorder_is_not_waited_for),
		TEST(files_that_are_removed_while_they_are_read_are_read),
		TEST(any_event_can_be_read_again_with_its_own_stack),
		TEST(damage_costs_the_rest_of_a_file_and_is_never_misread),
		TEST(a_thousand_killed_recorders_leave_nothing_to_misread),
		TEST(half_a_packet_of_a_running_recorder_is_not_there_yet),
		TEST(a_directory_without_events_is_refused_and_empty_files_are_an_empty_log),
		TEST(babeltrace2_reads_the_same_accesses_of_a_ring_that_has_wrapped),
	};

	return cmocka_run_group_tests_name("tracelog_ring", tests, NULL, NULL);
}
