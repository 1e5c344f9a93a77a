/* A log that is read while it is recorded, or read again. */
#include "tests/unit/tracelog_ring_sample.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

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

static void a_follower_that_falls_behind_is_reported_and_goes_on(void **state)
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
	/* The file that it had open is whole, and a gap follows; then all is re-emitted, but for what is
	 * past. */
	assert_int_equal(s.processes, 2);
	assert_int_equal(s.watches, 4);
	assert_int_equal(s.notes, 1);
	OK(tracelog_writer_close(w));
	assert_int_equal(see_more(r, &s), LOG_END);
	tracelog_reader_close(r);
}

/* How many files that were removed this process keeps, and thereby their bytes on the disk. */
static size_t count_removed_but_open(const char *log)
{
	DIR *d = opendir("/proc/self/fd");
	char target[256];
	struct dirent *entry;
	size_t count = 0;

	assert_non_null(d);
	while ((entry = readdir(d))) {
		ssize_t n = readlinkat(dirfd(d), entry->d_name, target, sizeof(target) - 1);

		if (n < 0)
			continue;
		target[n] = '\0';
		count += !strncmp(target, log, strlen(log)) && strstr(target, "(deleted)");
	}
	closedir(d);
	return count;
}

static void a_follower_lets_go_of_what_the_recorder_has_removed(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w = ring(f, MIB, 0);
	uint64_t n, early = 0, late = 0, number = 0;
	struct tracelog_reader *r;
	enum log_outcome outcome;
	struct trace_event e;

	sample_begin(w, BASE);
	OK(tracelog_writer_flush(w));
	OK(tracelog_reader_open(f->log, &r));
	tracelog_follow(r);
	for (n = 0; n < 30000; n += 500) {
		sample_put_accesses(w, n + 1, n + 500, BASE);
		OK(tracelog_writer_flush(w));
		for (;;) {
			OK(tracelog_next(r, &e, &outcome));
			if (outcome != LOG_EVENT)
				break;
			if (e.type != EVENT_ACCESS)
				continue;
			late = tracelog_position(r);
			early = early ? early : late;
			number = e.access.new_value;
		}
		if (n == 500) { /* a second reader inside, on a file that will go */
			OK(tracelog_read_again(r, early, &e, &outcome));
			assert_int_equal(outcome, LOG_EVENT);
		}
	}
	assert_int_equal(tracelog_missed(r, NULL), 0);
	assert_true(count_removed_but_open(f->log) <= 1); /* since it came to the last file */
	OK(tracelog_read_again(r, early, &e, &outcome));
	assert_int_equal(outcome, LOG_TRUNCATED);
	OK(tracelog_read_again(r, late, &e, &outcome));
	assert_int_equal(outcome, LOG_EVENT);
	assert_int_equal(sample_number(&e, BASE), number);
	OK(tracelog_writer_close(w));
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

/* A packet is there in part when it is looked at, and whole later: that must not end the following. */
static void a_packet_that_is_being_written_is_read_when_it_is_whole(void **state)
{
	struct fixture *f = *state;
	char path[PATH_MAX], half[4096];
	struct tracelog_writer *w;
	struct tracelog_reader *r;
	struct seen s = { 0 };
	struct stat before, after;
	size_t len, part;
	int fd;

	OK(tracelog_writer_open(f->log, &w));
	sample_begin(w, BASE);
	OK(tracelog_writer_flush(w));
	snprintf(path, sizeof(path), "%s/events", f->log);
	fd = open(path, O_RDWR);
	assert_int_equal(fstat(fd, &before), 0);
	OK(tracelog_reader_open(f->log, &r));
	tracelog_follow(r);
	assert_int_equal(see_more(r, &s), LOG_WAIT);
	sample_put_accesses(w, 1, 5, BASE);
	OK(tracelog_writer_flush(w));
	assert_int_equal(fstat(fd, &after), 0);
	len = (size_t)(after.st_size - before.st_size);
	assert_true(len > 100 && len <= sizeof(half));
	assert_int_equal(pread(fd, half, len, before.st_size), len);
	for (part = 1; part < len; part += 61) {
		assert_int_equal(ftruncate(fd, before.st_size), 0);
		assert_int_equal(pwrite(fd, half, part, before.st_size), part);
		assert_int_equal(see_more(r, &s), LOG_WAIT);
		assert_int_equal(s.accesses, 0);
	}
	assert_int_equal(pwrite(fd, half, len, before.st_size), len);
	assert_int_equal(see_more(r, &s), LOG_WAIT);
	assert_int_equal(s.last, 5);
	sample_put_accesses(w, 6, 9, BASE);
	OK(tracelog_writer_close(w));
	assert_int_equal(see_more(r, &s), LOG_END);
	assert_int_equal(s.accesses, 9);
	tracelog_reader_close(r);
	close(fd);
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

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(a_follower_sees_each_event_once_while_it_is_written),
		TEST(a_follower_that_falls_behind_is_reported_and_goes_on),
		TEST(a_follower_lets_go_of_what_the_recorder_has_removed),
		TEST(a_plain_log_can_be_followed_too),
		TEST(a_packet_that_is_being_written_is_read_when_it_is_whole),
		TEST(a_killed_recorder_is_not_waited_for),
		TEST(files_that_are_removed_while_they_are_read_are_read),
		TEST(any_event_can_be_read_again_with_its_own_stack),
		TEST(half_a_packet_of_a_running_recorder_is_not_there_yet),
	};

	return cmocka_run_group_tests_name("tracelog_follow", tests, NULL, NULL);
}
