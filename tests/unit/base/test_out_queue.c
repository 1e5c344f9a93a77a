/* Output that never makes its writer wait: what of it arrives, and what is said of the rest. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/wait.h"
#include "watchctl/base/out_queue.h"

#ifdef __SANITIZE_ADDRESS__
/* Its malloc() then fails where ours would, and does not end the test. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}
#endif

#define MOST (256u << 10)
#define RECORDS 20000u /* some 700 KB: neither the queue nor the pipe hold them */

struct scene {
	int read_end, write_end;
	struct out_queue *q;
	FILE *f;
};

static void gap(uint64_t lines, char *buf, size_t len)
{
	snprintf(buf, len, "gap %" PRIu64 "\n", lines);
}

static int open_scene(void **state)
{
	struct scene *s = calloc(1, sizeof(*s));
	int fds[2];

	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	s->read_end = fds[0];
	s->write_end = fds[1];
	s->q = out_queue_new(&(struct out_queue_options){ s->write_end, MOST, gap });
	assert_non_null(s->q);
	s->f = out_queue_file(s->q);
	*state = s;
	return 0;
}

static int close_scene(void **state)
{
	struct scene *s = *state;

	out_queue_free(s->q);
	if (s->read_end >= 0)
		close(s->read_end);
	if (s->write_end >= 0)
		close(s->write_end);
	free(s);
	return 0;
}

/* What arrived: records of one line and two that belong to it. */
struct tally {
	uint64_t records, parts, missing, bad;
	uint64_t last; /* the number of the last record, and one more */
};

static void look_at(struct tally *t, const char *line)
{
	uint64_t n;
	unsigned int part;

	if (sscanf(line, "record %" SCNu64, &n) == 1) {
		t->bad += n < t->last || t->parts != 2 * t->records;
		t->last = n + 1;
		t->records++;
	} else if (sscanf(line, "  part %u of %" SCNu64, &part, &n) == 2) {
		t->bad += n + 1 != t->last;
		t->parts++;
	} else if (sscanf(line, "gap %" SCNu64, &n) == 1) {
		t->missing += n;
	} else {
		t->bad++;
	}
}

/* Until the pipe's last writer has gone. */
static void *read_all(void *arg)
{
	struct scene *s = arg;
	struct tally *t = calloc(1, sizeof(*t));
	FILE *in = fdopen(s->read_end, "r");
	char line[256];

	while (fgets(line, sizeof(line), in))
		look_at(t, line);
	fclose(in);
	s->read_end = -1;
	return t;
}

static void write_record(FILE *f, unsigned int i)
{
	fprintf(f, "record %u\n  part 1 of %u\n  part 2 of %u\n", i, i, i);
	if (i % 1000 == 0)
		fflush(f);
}

static struct tally end_writing(struct scene *s, pthread_t reader)
{
	struct tally *got, ret;

	close(s->write_end);
	s->write_end = -1;
	pthread_join(reader, (void **)&got);
	ret = *got;
	free(got);
	return ret;
}

/* The test would not end if the writer had to wait. */
static void what_nobody_reads_is_left_out_as_whole_records_and_counted(void **state)
{
	struct scene *s = *state;
	pthread_t reader;
	struct tally t;
	uint64_t left_out;
	unsigned int i;

	for (i = 0; i < RECORDS; i++)
		write_record(s->f, i);
	fflush(s->f);
	pthread_create(&reader, NULL, read_all, s);
	out_queue_wait_for_reader(s->q, NULL);
	write_record(s->f, RECORDS);
	left_out = out_queue_finish(s->q);
	t = end_writing(s, reader);
	assert_int_equal(t.bad, 0);
	assert_true(t.records > 0 && t.missing > 0);
	assert_int_equal(t.missing, left_out);
	assert_int_equal(t.records + t.parts + t.missing, 3 * (RECORDS + 1));
	assert_int_equal(t.last, RECORDS + 1);
}

static void who_waits_for_the_reader_loses_nothing(void **state)
{
	struct scene *s = *state;
	pthread_t reader;
	struct tally t;
	unsigned int i;

	pthread_create(&reader, NULL, read_all, s);
	out_queue_wait_for_reader(s->q, NULL);
	for (i = 0; i < RECORDS; i++)
		write_record(s->f, i);
	assert_int_equal(out_queue_finish(s->q), 0);
	t = end_writing(s, reader);
	assert_int_equal(t.bad, 0);
	assert_int_equal(t.records, RECORDS);
	assert_int_equal(t.parts, 2 * RECORDS);
}

static void who_is_asked_to_stop_waits_no_longer(void **state)
{
	struct scene *s = *state;
	volatile sig_atomic_t stop = 1;
	uint64_t left_out;
	unsigned int i;

	out_queue_wait_for_reader(s->q, &stop);
	for (i = 0; i < RECORDS; i++)
		write_record(s->f, i);
	left_out = out_queue_finish(s->q);
	assert_true(left_out > 0 && left_out <= 3 * RECORDS);
	close(s->read_end); /* lets the thread go, which has to wait till then */
	s->read_end = -1;
	s->write_end = -1; /* nobody joins it: it may still be in its write() */
}

static void a_reader_that_goes_away_is_an_error(void **state)
{
	struct scene *s = *state;

	close(s->read_end);
	s->read_end = -1;
	fputs("record 0\n", s->f);
	out_queue_finish(s->q);
	assert_int_equal(out_queue_error(s->q), EPIPE);
	fputs("record 1\n", s->f);
	assert_int_equal(fflush(s->f), EOF);
}

static void what_goes_to_another_file_comes_after_what_was_written_before(void **state)
{
	struct scene *s = *state;
	int other = dup(s->write_end);
	char buf[64] = "";

	fputs("one\n", s->f);
	fflush(s->f);
	out_queue_put(s->q, other, "two\n", 4);
	fputs("three\n", s->f);
	assert_int_equal(out_queue_finish(s->q), 0);
	assert_int_equal(read(s->read_end, buf, sizeof(buf) - 1), 14);
	assert_string_equal(buf, "one\ntwo\nthree\n");
	close(other);
}

/* Whoever has the file, too, may have set it so. */
static void a_file_that_does_not_block_loses_nothing(void **state)
{
	struct scene *s = *state;

	fcntl(s->write_end, F_SETFL, O_NONBLOCK);
	who_waits_for_the_reader_loses_nothing(state);
}

/*
 * Where memory is left for small pieces only, a line that came in parts loses its middle: then no part of it may be written,
 * or the next line would seem to be its end.
 */
static void a_line_that_no_memory_is_left_for_is_left_out_whole(void **state)
{
	struct scene *s = *state;
	const size_t large = 64u << 20;
	struct rlimit before, none = { .rlim_cur = 1u << 20 };
	ssize_t n, at;
	char buf[512] = "", *middle;

#ifdef __SANITIZE_THREAD__
	skip(); /* what it needs for itself it needs from the same memory */
#endif
	middle = malloc(large);
	alarm((unsigned int)wait_ms() / 1000);
	assert_non_null(middle);
	memset(middle, 'x', large);
	fputs("whole\nbegins ", s->f);
	fflush(s->f);
	getrlimit(RLIMIT_AS, &before);
	none.rlim_max = before.rlim_max;
	setrlimit(RLIMIT_AS, &none);
	fwrite(middle, 1, large, s->f);
	setrlimit(RLIMIT_AS, &before);
	fputs(" ends\nnext\n", s->f);
	assert_int_equal(out_queue_finish(s->q), 1);
	close(s->write_end);
	s->write_end = -1;
	for (at = 0; (n = read(s->read_end, buf + at, sizeof(buf) - 1 - at)) > 0; at += n)
		;
	assert_string_equal(buf, "whole\ngap 1\nnext\n");
	free(middle);
}

#define SCENE(test) cmocka_unit_test_setup_teardown(test, open_scene, close_scene)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCENE(what_nobody_reads_is_left_out_as_whole_records_and_counted),
		SCENE(who_waits_for_the_reader_loses_nothing),
		SCENE(who_is_asked_to_stop_waits_no_longer),
		SCENE(a_reader_that_goes_away_is_an_error),
		SCENE(what_goes_to_another_file_comes_after_what_was_written_before),
		SCENE(a_file_that_does_not_block_loses_nothing),
		SCENE(a_line_that_no_memory_is_left_for_is_left_out_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
