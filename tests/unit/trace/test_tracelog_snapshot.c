/* Snapshots: a log of its own, whole or not there at all, while the recording goes on. */
#include "tests/unit/tracelog_sample.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/wait.h"
#include "watchctl/trace/calls/call_reader.h"
#include "watchctl/trace/calls/call_writer.h"
#include "watchctl/trace/log/tracelog_snapshot.h"

#define MIB (1u << 20)
#define SECOND 1000000000u

static struct tracelog_writer *ring(const struct fixture *f)
{
	const struct tracelog_bounds b = { .bytes = MIB };
	struct tracelog_writer *w;

	OK(tracelog_writer_open_ring(f->log, &b, &w));
	return w;
}

struct seen {
	uint64_t first, last, n;
	size_t processes, watches;
};

static enum log_outcome see_all(const char *log, uint64_t base_ns, struct seen *s)
{
	struct tracelog_reader *r;
	enum log_outcome outcome;
	struct trace_event e;

	*s = (struct seen){ 0 };
	OK(tracelog_reader_open(log, &r));
	for (;;) {
		OK(tracelog_next(r, &e, &outcome));
		if (outcome != LOG_EVENT)
			break;
		s->processes += e.type == EVENT_PROCESS;
		s->watches += e.type == EVENT_WATCH;
		if (e.type != EVENT_ACCESS)
			continue;
		s->last = sample_number(&e, base_ns);
		s->first = s->first ? s->first : s->last;
		s->n++;
	}
	tracelog_reader_close(r);
	return outcome;
}

static size_t entries(const char *dir, char *names, size_t cap)
{
	DIR *d = opendir(dir);
	struct dirent *entry;
	size_t n = 0;

	names[0] = '\0';
	assert_non_null(d);
	while ((entry = readdir(d))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		n++;
		snprintf(names + strlen(names), cap - strlen(names), "%s ", entry->d_name);
	}
	closedir(d);
	return n;
}

static void an_ended_ring_is_saved_whole(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w = ring(f);
	struct snapshot_info info;
	struct seen s, of_copy;
	struct stat st;

	sample_begin(w, 1000);
	sample_put_accesses(w, 1, 20000, 1000);
	OK(tracelog_writer_close(w));
	OK(tracelog_snapshot(f->log, f->copy, 0, &info));
	assert_int_equal(see_all(f->log, 1000, &s), LOG_END);
	assert_int_equal(see_all(f->copy, 1000, &of_copy), LOG_END);
	assert_int_equal(of_copy.first, s.first);
	assert_int_equal(of_copy.last, 20000);
	assert_false(info.recording);
	assert_true(info.is_ring && info.flushed);
	assert_int_equal(info.ignored, 0);
	stat(f->copy, &st);
	assert_int_equal(st.st_mode & 07777, 0700);
}

static void the_last_part_of_a_ring_can_be_read_alone(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w = ring(f);
	struct snapshot_info info;
	struct seen s;

	sample_begin(w, 1000);
	sample_put_accesses(w, 1, 20000, 1000); /* one a microsecond */
	OK(tracelog_writer_close(w));
	OK(tracelog_snapshot(f->log, f->copy, 500 * 1000,
			     &info)); /* 500 of them, and what shares their files */
	assert_int_equal(see_all(f->copy, 1000, &s), LOG_END);
	assert_int_equal(s.last, 20000);
	assert_int_equal(s.n, s.last - s.first + 1);
	assert_true(s.first <= 19500);
	assert_true(s.first > 18500);
	assert_true(info.files <= 4);
	assert_int_equal(s.processes, 1);
	assert_int_equal(s.watches, 2);
	assert_true(info.begin_ns <= 1000 + s.first * 1000 && info.end_ns == 1000 + 20000u * 1000);
}

/* A recorder in a thread: as fast as it can, and it flushes every few ms. */
struct recorder {
	struct tracelog_writer *w;
	uint64_t base_ns;
	volatile uint64_t put;
	volatile bool stop, never_flush;
};

static void *record(void *arg)
{
	struct recorder *r = arg;
	uint64_t n = 0, flushed = monotonic_ns();

	while (!r->stop) {
		sample_put_accesses(r->w, n + 1, n + 10, r->base_ns);
		n += 10;
		r->put = n;
		if (!r->never_flush && monotonic_ns() - flushed > 5000000) {
			OK(tracelog_writer_flush(r->w));
			flushed = monotonic_ns();
		}
	}
	return NULL;
}

static void a_running_recorder_is_saved_up_to_the_moment_of_asking_and_goes_on(void **state)
{
	struct fixture *f = *state;
	struct recorder r = { .w = ring(f), .base_ns = monotonic_ns() };
	struct snapshot_info info;
	pthread_t thread;
	unsigned int flushed = 0;
	struct seen s;
	int i;

	sample_begin(r.w, r.base_ns);
	assert_int_equal(pthread_create(&thread, NULL, record, &r), 0);
	for (i = 0; i < 20; i++) {
		uint64_t put = r.put;
		char copy[100];

		snprintf(copy, sizeof(copy), "%s%d", f->copy, i);
		OK(tracelog_snapshot(f->log, copy, 0, &info));
		assert_true(info.recording);
		flushed += info.flushed; /* not, where its thread gets no CPU for seconds */
		assert_int_equal(see_all(copy, r.base_ns, &s), LOG_END);
		assert_true(!info.flushed || s.last >= put);
		assert_int_equal(s.n, s.last - s.first + 1);
		assert_int_equal(s.processes, 1);
	}
	assert_true(flushed > 0);
	r.stop = true;
	pthread_join(thread, NULL);
	OK(tracelog_writer_close(r.w));
	assert_int_equal(see_all(f->log, r.base_ns, &s), LOG_END);
	assert_int_equal(s.last, r.put);
}

static void a_recorder_that_does_not_answer_is_not_waited_for_for_ever(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w = ring(f);
	struct snapshot_info info;
	uint64_t begun, ns;
	struct seen s;

	sample_begin(w, 1000);
	sample_put_accesses(w, 1, 1000, 1000);
	OK(tracelog_writer_flush(w));
	begun = monotonic_ns();
	OK(tracelog_snapshot(f->log, f->copy, 0, &info));
	ns = monotonic_ns() - begun;
	assert_true(info.recording && !info.flushed);
	assert_true(ns > SECOND && ns < wait_ns());
	assert_int_equal(see_all(f->copy, 1000, &s), LOG_END);
	assert_int_equal(s.last, 1000);
	OK(tracelog_writer_close(w));
}

static void a_plain_log_is_saved_from_its_beginning(void **state)
{
	struct fixture *f = *state;
	struct snapshot_info info;
	struct tracelog_writer *w;
	char path[128], names[200];
	struct stat st;
	struct seen s;

	OK(tracelog_writer_open(f->log, &w));
	sample_begin(w, 1000);
	sample_put_accesses(w, 1, 3000, 1000);
	OK(tracelog_writer_close(w));
	snprintf(path, sizeof(path), "%s/events", f->log);
	stat(path, &st);
	assert_int_equal(truncate(path, st.st_size - 10), 0);
	OK(tracelog_snapshot(f->log, f->copy, 1000, &info));
	assert_false(info.is_ring);
	assert_true(info.ignored > 0);
	assert_int_equal(see_all(f->copy, 1000, &s), LOG_END); /* whole packets only */
	assert_int_equal(s.first, 1);
	assert_true(s.last > 2600 && s.last < 3000);
	assert_int_equal(entries(f->copy, names, sizeof(names)), 2);
	/* The new one's file is its own. */
	assert_int_equal(truncate(path, 0), 0);
	assert_int_equal(see_all(f->copy, 1000, &s), LOG_END);
	assert_true(s.last > 2600);
}

/* Two packets of a thread, and the beginning of a third one. */
static void write_calls(const char *log)
{
	uint8_t begin[50];
	struct call_writer *w;
	struct call_stream s;
	char path[128];
	int fd;

	OK(call_writer_open(log, &w));
	OK(call_stream_open(w, 1, 1, &s));
	for (int packet = 0; packet < 2; packet++) {
		call_stream_put(&s, CALL_ENTRY, 1000, 1);
		call_stream_put(&s, CALL_EXIT, 1001, 1);
		OK(call_stream_flush(&s));
	}
	OK(call_stream_close(&s));
	call_writer_close(w);
	snprintf(path, sizeof(path), "%s/calls.0000000000", log);
	fd = open(path, O_RDWR | O_APPEND);
	assert_int_equal(pread(fd, begin, sizeof(begin), 0), sizeof(begin));
	assert_int_equal(write(fd, begin, sizeof(begin)), sizeof(begin));
	close(fd);
}

static void check_calls(const char *log, uint64_t ignored)
{
	struct call_damage d;
	struct call_thread t;
	struct call_reader *r;

	OK(call_reader_open(log, &r));
	assert_int_equal(call_reader_threads(r), 1);
	call_reader_thread(r, 0, &t);
	call_reader_damage(r, &d);
	assert_int_equal(t.packets, 2);
	assert_int_equal(d.ignored, ignored);
	call_reader_close(r);
}

/* The rest of a packet is still to come, or it is damage, which stays as it is. */
static void calls_are_saved_up_to_their_last_whole_packet(void **state)
{
	struct fixture *f = *state;
	struct snapshot_info info;
	struct tracelog_writer *w;
	char ended[100];

	OK(tracelog_writer_open(f->log, &w));
	sample_begin(w, 1000);
	OK(tracelog_writer_flush(w));
	write_calls(f->log);
	OK(tracelog_snapshot(f->log, f->copy, 0, &info));
	assert_true(info.recording);
	check_calls(f->copy, 0);
	OK(tracelog_writer_close(w));
	snprintf(ended, sizeof(ended), "%s2", f->copy);
	OK(tracelog_snapshot(f->log, ended, 0, &info));
	assert_false(info.recording);
	check_calls(ended, 50);
}

static void what_cannot_be_saved_leaves_nothing(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w;
	struct rlimit old, tight;
	char path[128], names[400];

	FAILS(tracelog_snapshot(f->log, f->copy, 0, NULL), "there is no log");
	OK(tracelog_writer_open(f->log, &w));
	sample_begin(w, 1000);
	sample_put_accesses(w, 1, 3000, 1000);
	OK(tracelog_writer_close(w));
	write_calls(f->log);
	FAILS(tracelog_snapshot(f->log, f->log, 0, NULL), "exists already");
	snprintf(path, sizeof(path), "%s/a/b", f->dir);
	FAILS(tracelog_snapshot(f->log, path, 0, NULL), "does not exist");
	getrlimit(RLIMIT_FSIZE, &old);
	tight = old;
	tight.rlim_cur = 100000;
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &tight);
	FAILS(tracelog_snapshot(f->log, f->copy, 0, NULL), "File too large (nothing of it is left)");
	setrlimit(RLIMIT_FSIZE, &old);
	signal(SIGXFSZ, SIG_DFL);
	assert_int_equal(entries(f->dir, names, sizeof(names)), 1);
	assert_string_equal(names, "log ");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(an_ended_ring_is_saved_whole),
		TEST(the_last_part_of_a_ring_can_be_read_alone),
		TEST(a_running_recorder_is_saved_up_to_the_moment_of_asking_and_goes_on),
		TEST(a_recorder_that_does_not_answer_is_not_waited_for_for_ever),
		TEST(a_plain_log_is_saved_from_its_beginning),
		TEST(calls_are_saved_up_to_their_last_whole_packet),
		TEST(what_cannot_be_saved_leaves_nothing),
	};

	return cmocka_run_group_tests_name("tracelog_snapshot", tests, NULL, NULL);
}
