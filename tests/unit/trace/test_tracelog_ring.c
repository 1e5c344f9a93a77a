/*
 * The flight recorder's log: bounded to the byte at every moment, by time, and each part of it can be read
 * alone.
 */
#include "tests/unit/tracelog_ring_sample.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#include "tests/unit/own_clock.h"
#include "watchctl/base/clock.h"
#include "watchctl/trace/log/tracelog_reemit.h"
#include "watchctl/trace/tags/tag_table.h"

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
	put(w, (struct trace_event){ .type = EVENT_LOST, .time_ns = BASE, .lost = { 0, 7, "ring full" } });
	put(w, (struct trace_event){ .type = EVENT_LOST, .time_ns = BASE, .lost = { 0, 5, "ring full" } });
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

/* Names that `watchctl symbolize` adds, or whatever else: the oldest events make room for it. */
static void what_somebody_adds_to_the_directory_counts_from_the_next_write_on(void **state)
{
	static const char *const names[] = { "symbols", "events.bak" };
	struct fixture *f = *state;
	struct tracelog_writer *w = ring(f, MIB, 0);
	struct seen s = { 0 };
	uint64_t missed, n;
	size_t nfiles, i;

	sample_begin(w, BASE);
	sample_put_accesses(w, 1, 20000, BASE);
	OK(tracelog_writer_flush(w));
	for (i = 0, n = 20001; i < 2; i++, n++) {
		char path[128];
		int fd;

		snprintf(path, sizeof(path), "%s/%s", f->log, names[i]);
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
		assert_true(fd >= 0);
		assert_int_equal(ftruncate(fd, 300000), 0);
		close(fd);
		assert_true(size_of_all(f->log, &nfiles) > MIB);
		sample_put_accesses(w, n, n, BASE);
		OK(tracelog_writer_flush(w));
		assert_true(size_of_all(f->log, &nfiles) <= MIB);
	}
	OK(tracelog_writer_close(w));
	assert_int_equal(see_all(f->log, &s, &missed), LOG_END);
	assert_int_equal(s.last, 20002);
	assert_true(s.accesses > 1000);
}

/* The process's time of day must still belong to the timestamp it is reported with. */
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

/* What a reader of the log's last part sees of modules: as "pid:path", in order. */
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
	put(w, sample_module(BASE, 0, 0x1000000, "/early"));
	put(w, child(a, SAMPLE_PID)); /* has app, libc, early */
	put(w, sample_module(BASE, 0, 0x2000000, "/of-parent"));
	put(w, sample_module(BASE, a, 0x3000000, "/of-child"));
	put(w, gone(a, 0x1000000, "/early"));
	put(w, child(b, a)); /* has app, libc, of-child */
	put(w, gone(0, 0x7ffff7d00000, "/lib/libc.so.6"));
	put(w, sample_module(BASE, b, 0x2000000, "/other"));
	sample_put_accesses(w, 1, 20000, BASE);
	OK(tracelog_writer_close(w));
	text = modules_of_the_rest(f->log);
	/* Each child starts with what was reported of its parent before it: nothing must be told that it has not.
	 */
	snprintf(want, sizeof(want),
		 "process 77<0 0:/usr/bin/app process %d<77 process %d<%d "
		 "0:/early 0:/of-parent %d:/lib/libc.so.6 %d:/of-child %d:/lib/libc.so.6 %d:/of-child "
		 "%d:/other ",
		 a, b, a, a, a, b, b, b);
	assert_string_equal(text, want);
	free(text);
}

static void after_exec_the_old_programs_modules_are_not_reported_again(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w = ring(f, MIB, 0);
	char *text;

	sample_begin(w, BASE);
	put(w, child(SAMPLE_PID, 0));
	put(w, sample_module(BASE, 0, 0x4000000, "/new-program"));
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
		put(w, child(0x40000000 + i, SAMPLE_PID)); /* no process has such a number */
		put(w, sample_module(BASE, 0x40000000 + i, 0x1000000 + 0x1000 * (uint64_t)i, "/plugin"));
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
		put(w, sample_module(BASE, 0, 0x1000000 + 0x1000 * (uint64_t)i, "/plugin"));
		put(w, gone(0, 0x1000000 + 0x1000 * (uint64_t)i, "/plugin"));
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
		put(w,
		    (struct trace_event){ .type = EVENT_THREAD,
					  .time_ns = BASE,
					  .thread = { .pid = SAMPLE_PID, .tid = 1000 + i, .comm = comm } });
	}
	for (round = 0; round < 2; round++) {
		for (i = 0; i < 100000; i++) {
			sample_access(&s, (uint64_t)i + 1, BASE);
			s.e.access.tid = 1000 + i;
			put(w, s.e);
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

/* As the numbers of requests: what may still be referred to is kept, and not all that ever was. */
static void a_new_tag_for_each_request_takes_no_more_memory_after_days(void **state)
{
	struct tracelog_reemit r = { .file = 1 };
	const uint32_t n = 3 * TAG_TABLE_MAX;
	uint32_t i;

	(void)state;
	for (i = 0; i < n; i++) {
		const struct trace_event e = { .type = EVENT_TAG, .tag = { .id = i, .number = i } };

		OK(reemit_keep(&r, &e, (const uint8_t *)&i, sizeof(i)));
		assert_true(r.tags.n <= 2 * TAG_TABLE_MAX);
	}
	r.file = 2; /* in which none was reported yet */
	for (i = n - TAG_TABLE_MAX; i < n; i++) {
		const struct reported *t = reemit_tag(&r, i);

		assert_non_null(t);
		assert_memory_equal(t->fields, &i, sizeof(i));
	}
	assert_null(reemit_tag(&r, 0));
	reemit_deinit(&r);
}

/* Bounds */

static void bounds_that_make_no_sense_are_refused(void **state)
{
	struct fixture *f = *state;
	struct tracelog_bounds b = { 0 };
	struct tracelog_writer *w;
	size_t nfiles;

	FAILS_AS(WC_EUSAGE, tracelog_writer_open_ring(f->log, &b, &w), "needs a bound");
	b.bytes = MIB - 1;
	FAILS_AS(WC_EUSAGE, tracelog_writer_open_ring(f->log, &b, &w), "needs 1048576 bytes at least");
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
	uint64_t n, first = 0, last = 0, base;
	struct trace_event e;
	struct sample s;
	size_t nfiles;

	own_clock_stop(); /* else to write them could take longer than what is kept */
	base = monotonic_ns() - 60 * (uint64_t)SECOND;
	sample_begin(w, base);
	for (n = 1; n <= 6000; n++) { /* a minute */
		sample_access(&s, n, base);
		s.e.time_ns = base + n * (SECOND / 100);
		put(w, s.e);
	}
	OK(tracelog_writer_close(w));
	own_clock_go();
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
	/* The last eight seconds; what shares a file with them is at most a sixteenth of that. */
	if (first < 5140 || first > 5200)
		fail_msg("it begins with %llu", (unsigned long long)first);
	size_of_all(f->log, &nfiles);
	assert_true(nfiles >= 15 && nfiles <= 19);
}

static void what_is_too_old_goes_also_while_nothing_happens(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w = ring(f, 0, SECOND / 10);
	uint64_t base = monotonic_ns(), missed;
	struct seen s = { 0 };
	struct sample one;
	size_t nfiles;
	int i;

	sample_begin(w, base);
	sample_access(&one, 1, base);
	put(w, one.e);
	for (i = 0; i < 5; i++) {
		OK(tracelog_writer_flush(w));
		own_clock_skip(60000000);
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

/* Another reader */

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

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(what_fits_comes_back_once_over_all_files),
		TEST(the_bound_holds_after_every_write_and_the_newest_are_there),
		TEST(what_somebody_adds_to_the_directory_counts_from_the_next_write_on),
		TEST(the_time_of_day_stays_right),
		TEST(followed_children_have_their_own_modules_in_each_part),
		TEST(after_exec_the_old_programs_modules_are_not_reported_again),
		TEST(a_program_that_forks_for_days_does_not_fill_the_log),
		TEST(unloaded_modules_take_no_room),
		TEST(a_hundred_thousand_threads_keep_their_names),
		cmocka_unit_test(a_new_tag_for_each_request_takes_no_more_memory_after_days),
		TEST(bounds_that_make_no_sense_are_refused),
		TEST(a_bound_too_small_for_the_program_is_an_error_and_the_log_stays_whole),
		TEST(a_full_disk_leaves_whole_packets),
		TEST(what_is_older_than_the_time_to_keep_goes),
		TEST(what_is_too_old_goes_also_while_nothing_happens),
		TEST(babeltrace2_reads_the_same_accesses_of_a_ring_that_has_wrapped),
	};

	return cmocka_run_group_tests_name("tracelog_ring", tests, NULL, NULL);
}
