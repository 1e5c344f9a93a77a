/* Entries and exits of functions in a log: what was put comes back, thread by thread; babeltrace2 agrees. */
#include "tests/unit/tracelog_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "watchctl/trace/calls/call_reader.h"
#include "watchctl/trace/calls/call_writer.h"

#define PID 4242
#define FUNCTIONS 1000003u

/* Event number @n of thread @thread: all follows from these two. */
struct made {
	uint64_t time_ns;
	uint32_t function;
	enum call_what what;
};

static struct made make(unsigned int thread, uint64_t n)
{
	return (struct made){
		.time_ns = 1000000007ull * (thread + 1) + n * 37 + n * n % 11,
		.function = (uint32_t)((n * 2654435761u + thread) % FUNCTIONS),
		.what = n % 17 == 5 ? CALL_EXIT_UNSEEN
			: n % 2	    ? CALL_EXIT
				    : CALL_ENTRY,
	};
}

static void write_events(struct call_stream *s, unsigned int thread, uint64_t from, uint64_t to)
{
	for (; from < to; from++) {
		struct made m = make(thread, from);

		call_stream_put(s, m.what, m.time_ns, m.function);
	}
}

static struct call_writer *begin(const char *log)
{
	struct tracelog_writer *events;
	struct call_writer *w;

	OK(tracelog_writer_open(log, &events));
	put(events,
	    (struct trace_event){
		    .type = EVENT_FUNCTION,
		    .time_ns = 1,
		    .function = { .id = 7, .name = "f", .module = "/usr/bin/app", .return_type = NO_TYPE } });
	OK(tracelog_writer_close(events));
	OK(call_writer_open(log, &w));
	return w;
}

/* One thread with @n events. */
static void write_one(const char *log, uint64_t n)
{
	struct call_writer *w = begin(log);
	struct call_stream s;

	OK(call_stream_open(w, PID, PID, &s));
	write_events(&s, 0, 0, n);
	OK(call_stream_close(&s));
	call_writer_close(w);
}

static void check_batch(const struct call_batch *b, unsigned int thread, uint64_t from)
{
	for (size_t i = 0; i < b->n; i++) {
		struct made m = make(thread, from + i);

		assert_int_equal(b->time_ns[i], m.time_ns);
		assert_int_equal(b->function[i], m.function);
		assert_int_equal(b->what[i], m.what);
	}
}

/* How many events come, each of which must be the next one. */
static uint64_t check_thread(struct call_reader *r, size_t index, unsigned int thread)
{
	struct call_batch b;
	uint64_t n = 0;

	for (; call_reader_next(r, index, &b); n += b.n) {
		assert_false(b.torn);
		check_batch(&b, thread, n);
	}
	return n;
}

static void check_whole(const struct call_reader *r)
{
	struct call_damage d;

	call_reader_damage(r, &d);
	assert_null(d.why);
	assert_int_equal(d.packets + d.ignored + d.discarded, 0);
}

static void every_thread_comes_back(void **state)
{
	static const uint64_t counts[] = { 100000, 1, CALL_PACKET_EVENTS, CALL_PACKET_EVENTS + 1, 50000 };
	enum { THREADS = sizeof(counts) / sizeof(*counts) };
	struct fixture *f = *state;
	struct call_writer *w = begin(f->log);
	struct call_stream s[THREADS + 1];
	struct call_reader *r;

	for (unsigned int i = 0; i <= THREADS; i++) /* the last one puts nothing */
		OK(call_stream_open(w, PID, PID + (pid_t)i, &s[i]));
	for (unsigned int i = 0; i < THREADS; i++)
		write_events(&s[i], i, 0, counts[i]);
	for (unsigned int i = 0; i <= THREADS; i++)
		OK(call_stream_close(&s[i]));
	call_writer_close(w);

	OK(call_reader_open(f->log, &r));
	assert_int_equal(call_reader_threads(r), THREADS);
	for (size_t i = 0; i < THREADS; i++) {
		struct call_thread t;
		unsigned int thread;

		call_reader_thread(r, i, &t);
		thread = (unsigned int)(t.tid - PID);
		assert_int_equal(t.pid, PID);
		assert_int_equal(t.begin_ns, make(thread, 0).time_ns);
		assert_int_equal(t.end_ns, make(thread, counts[thread] - 1).time_ns);
		assert_int_equal(check_thread(r, i, thread), counts[thread]);
	}
	check_whole(r);
	call_reader_close(r);
}

static void what_is_flushed_can_be_read_meanwhile(void **state)
{
	struct fixture *f = *state;
	struct call_writer *w = begin(f->log);
	struct call_stream s;
	struct call_reader *r;

	OK(call_stream_open(w, PID, PID, &s));
	for (uint64_t n = 0; n < 5; n++) {
		write_events(&s, 0, n * 100, (n + 1) * 100);
		OK(call_stream_flush(&s));
		OK(call_stream_flush(&s)); /* nothing is new */
		OK(call_reader_open(f->log, &r));
		assert_int_equal(check_thread(r, 0, 0), (n + 1) * 100);
		check_whole(r);
		call_reader_close(r);
	}
	OK(call_stream_close(&s));
	call_writer_close(w);
}

static void long_gaps_and_times_that_go_back_are_kept_in_order(void **state)
{
	static const uint64_t put_ns[] = { 5,		5,	     0xffffffff, 0x100000003,
					   0x200000004, 0x200000002, 1ull << 40, 1ull << 62 },
			      want_ns[] = { 5,		 5,	      0xffffffff, 0x100000003,
					    0x200000004, 0x200000004, 1ull << 40, 1ull << 62 };
	enum { N = sizeof(put_ns) / sizeof(*put_ns) };
	struct fixture *f = *state;
	struct call_writer *w = begin(f->log);
	struct call_stream s;
	struct call_reader *r;
	struct call_batch b;
	size_t n = 0;

	OK(call_stream_open(w, PID, PID, &s));
	for (size_t i = 0; i < N; i++)
		call_stream_put(&s, CALL_ENTRY, put_ns[i], CALL_FUNCTION_MAX);
	OK(call_stream_close(&s));
	call_writer_close(w);
	OK(call_reader_open(f->log, &r));
	while (call_reader_next(r, 0, &b)) {
		for (size_t i = 0; i < b.n; i++, n++) {
			assert_int_equal(b.time_ns[i], want_ns[n]);
			assert_int_equal(b.function[i], CALL_FUNCTION_MAX);
		}
	}
	assert_int_equal(n, N);
	call_reader_close(r);
}

static void a_time_is_found_from_everywhere(void **state)
{
	const uint64_t count = 40000, last_ns = make(0, count - 1).time_ns;
	struct fixture *f = *state;
	struct call_reader *r;
	struct call_batch b;

	write_one(f->log, count);
	OK(call_reader_open(f->log, &r));
	for (uint64_t k = 0; k < 200; k++) {
		uint64_t n = k * 7919 % count;

		/* The times of neighbours may be the same. */
		call_reader_seek(r, 0, make(0, n).time_ns);
		assert_true(call_reader_next(r, 0, &b));
		while (n && make(0, n - 1).time_ns == make(0, n).time_ns)
			n--;
		check_batch(&b, 0, n);
		call_reader_seek(r, 0, make(0, n).time_ns + 1);
		if (make(0, n).time_ns + 1 > last_ns)
			continue;
		assert_true(call_reader_next(r, 0, &b));
		assert_true(b.time_ns[0] > make(0, n).time_ns);
	}
	call_reader_seek(r, 0, last_ns + 1);
	assert_false(call_reader_next(r, 0, &b));
	call_reader_seek(r, 0, 0);
	assert_int_equal(check_thread(r, 0, 0), count);
	call_reader_close(r);
}

/* An entry with a value, the program's own event number @n, an exit: one after the other, a ns each. */
static void write_own_events(const char *log, uint64_t count)
{
	struct call_writer *w = begin(log);
	struct call_stream s;

	OK(call_stream_open(w, PID, PID, &s));
	for (uint64_t n = 0; n < count; n++) {
		if (s.end - s.at < 9)
			OK(call_stream_flush(&s));
		call_stream_put(&s, CALL_ENTRY, 3 * n + 1, 7);
		call_stream_put(&s, CALL_MORE, 3 * n + 1, 2);
		*s.at++ = call_word(CALL_WORD_VALUE, 0, 7);
		*s.at++ = n;
		call_stream_put(&s, CALL_MORE, 3 * n + 2, CALL_EVENT_WORDS);
		*s.at++ = call_word(CALL_WORD_EVENT, 0, 9);
		*s.at++ = n;
		*s.at++ = ~n;
		call_stream_put(&s, CALL_EXIT, 3 * n + 3, 7);
	}
	OK(call_stream_close(&s));
	call_writer_close(w);
}

/* Each batch has the words of all its events, also that with which it begins. */
static void a_reader_can_seek_to_an_event_of_the_programs_own(void **state)
{
	const uint64_t count = 10000;
	struct fixture *f = *state;
	struct call_reader *r;
	struct call_batch b;

	write_own_events(f->log, count);
	OK(call_reader_open(f->log, &r));
	for (uint64_t n = 0; n < count; n += 7) {
		call_reader_seek(r, 0, 3 * n + 2);
		assert_true(call_reader_next(r, 0, &b));
		assert_int_equal(b.time_ns[0], 3 * n + 2);
		assert_int_equal(b.what[0], CALL_MORE);
		assert_int_equal(b.function[0], 9);
		assert_true(b.nmore > 0 && b.more[0].at == 0 && b.more[0].n == CALL_EVENT_WORDS);
		assert_int_equal(b.more[0].word[1], n);
		assert_int_equal(b.more[0].word[2], ~n);
		call_reader_seek(r, 0, 3 * n + 3);
		assert_true(call_reader_next(r, 0, &b));
		assert_int_equal(b.what[0], CALL_EXIT);
		assert_true(!b.nmore || b.more[0].at > 0);
	}
	call_reader_close(r);
}

/* The bytes of LOG/calls.0000000000 */
static uint8_t *load(const char *log, size_t *len)
{
	char path[128];
	struct stat st;
	uint8_t *bytes;
	int fd;

	snprintf(path, sizeof(path), "%s/calls.0000000000", log);
	fd = open(path, O_RDONLY);
	assert_true(fd >= 0 && fstat(fd, &st) == 0);
	bytes = malloc((size_t)st.st_size);
	assert_int_equal(read(fd, bytes, (size_t)st.st_size), st.st_size);
	close(fd);
	*len = (size_t)st.st_size;
	return bytes;
}

static void store(const char *log, const uint8_t *bytes, size_t len)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/calls.0000000000", log);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	fclose(f);
}

static void a_log_that_is_cut_off_gives_its_whole_packets(void **state)
{
	const size_t packet = CALL_PACKET_BYTES;
	struct fixture *f = *state;
	struct call_damage d;
	struct call_reader *r;
	uint8_t *bytes;
	size_t len;

	write_one(f->log, 2 * CALL_PACKET_EVENTS + 100);
	bytes = load(f->log, &len);
	for (size_t cut = 1; cut < len; cut += cut % packet < 100 ? 1 : 997) {
		size_t packets = cut / packet;

		store(f->log, bytes, cut);
		OK(call_reader_open(f->log, &r));
		assert_int_equal(call_reader_threads(r), 1);
		assert_int_equal(check_thread(r, 0, 0), packets * CALL_PACKET_EVENTS);
		call_reader_damage(r, &d);
		assert_int_equal(d.ignored, cut - packets * packet);
		assert_int_equal(d.why != NULL, cut % packet != 0);
		call_reader_close(r);
	}
	free(bytes);
}

static void a_damaged_packet_is_left_out_and_said(void **state)
{
	struct fixture *f = *state;
	uint8_t *bytes;
	size_t len;

	write_one(f->log, 3 * CALL_PACKET_EVENTS + 50);
	bytes = load(f->log, &len);
	for (size_t k = 0; k < 300; k++) {
		size_t at = CALL_PACKET_BYTES + (k < 80 ? k : k * 7919 % CALL_PACKET_BYTES);
		struct call_damage d;
		struct call_reader *r;
		struct call_batch b;
		uint64_t n = 0;
		bool torn = false;

		bytes[at] ^= 0x10;
		store(f->log, bytes, len);
		bytes[at] ^= 0x10;
		OK(call_reader_open(f->log, &r));
		for (; call_reader_next(r, 0, &b); n += b.n) {
			uint64_t from = n < CALL_PACKET_EVENTS ? n : n + CALL_PACKET_EVENTS;

			assert_int_equal(b.torn, n == CALL_PACKET_EVENTS);
			torn |= b.torn;
			check_batch(&b, 0, from);
		}
		assert_int_equal(n, 2 * CALL_PACKET_EVENTS + 50);
		assert_true(torn);
		call_reader_damage(r, &d);
		assert_true(d.packets == 1 && d.why && !d.ignored);
		call_reader_close(r);
	}
	free(bytes);
}

static void what_is_lost_is_counted(void **state)
{
	struct fixture *f = *state;
	struct call_writer *w = begin(f->log);
	struct call_damage d;
	struct call_stream s;
	struct call_reader *r;
	struct call_batch b;

	OK(call_stream_open(w, PID, PID, &s));
	write_events(&s, 0, 0, 10);
	OK(call_stream_flush(&s));
	call_stream_lost(&s, 1ull << 33);
	write_events(&s, 0, 10, 20);
	OK(call_stream_flush(&s));
	call_stream_lost(&s, 3); /* after the last one */
	OK(call_stream_close(&s));
	call_writer_close(w);
	OK(call_reader_open(f->log, &r));
	assert_true(call_reader_next(r, 0, &b) && b.n == 10 && !b.torn);
	assert_true(call_reader_next(r, 0, &b) && b.n == 10 && b.torn);
	check_batch(&b, 0, 10);
	assert_false(call_reader_next(r, 0, &b));
	call_reader_damage(r, &d);
	assert_int_equal(d.discarded, (1ull << 33) + 3);
	assert_null(d.why);
	call_reader_close(r);
}

static void a_full_disk_costs_no_packet_that_was_there(void **state)
{
	const struct rlimit small = { 3 * CALL_PACKET_BYTES / 2, RLIM_INFINITY };
	struct fixture *f = *state;
	struct call_writer *w = begin(f->log);
	struct rlimit before;
	struct call_stream s;
	struct call_reader *r;
	struct wc_error *err;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	OK(call_stream_open(w, PID, PID, &s));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	write_events(&s, 0, 0, 5 * CALL_PACKET_EVENTS);
	err = call_stream_flush(&s);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_non_null(err);
	assert_int_equal(err->kind, WC_ELOG);
	assert_non_null(strstr(err->text, f->log));
	wc_error_free(err);
	OK(call_stream_flush(&s)); /* said once */
	OK(call_stream_close(&s));
	call_writer_close(w);
	OK(call_reader_open(f->log, &r));
	assert_int_equal(check_thread(r, 0, 0), CALL_PACKET_EVENTS);
	check_whole(r);
	call_reader_close(r);
}

/* Of a newer version: words that belong to it follow. */
static void what_is_not_known_is_stepped_over(void **state)
{
	struct fixture *f = *state;
	struct call_packet *p;
	struct call_reader *r;
	struct call_batch b;
	uint8_t *bytes;
	size_t len;

	write_one(f->log, 10);
	bytes = load(f->log, &len);
	p = (struct call_packet *)bytes;
	p->event[4] = call_pack(CALL_MORE, make(0, 4).time_ns, 2);
	p->event[5] = p->event[6] = ~0ull;
	p->event[9] = call_pack(CALL_MORE, make(0, 9).time_ns, 100); /* more than there are */
	p->crc32c = call_packet_checksum(p, len);
	store(f->log, bytes, len);
	OK(call_reader_open(f->log, &r));
	assert_true(call_reader_next(r, 0, &b));
	assert_int_equal(b.n, 6);
	assert_int_equal(b.time_ns[3], make(0, 3).time_ns);
	assert_int_equal(b.time_ns[4], make(0, 7).time_ns);
	assert_int_equal(b.function[5], make(0, 8).function);
	call_reader_close(r);
	free(bytes);
}

/* Root adds to the log of a user, who can read it as before. */
static void a_log_stays_its_owners(void **state)
{
	const uid_t nobody = 65534;
	struct fixture *f = *state;
	struct tracelog_writer *events;
	struct call_writer *w;
	char path[128];
	struct stat st;

	if (geteuid())
		skip();
	OK(tracelog_writer_open(f->log, &events));
	OK(tracelog_writer_close(events));
	snprintf(path, sizeof(path), "%s/metadata", f->log);
	assert_int_equal(chown(path, nobody, nobody), 0);
	OK(call_writer_open(f->log, &w));
	call_writer_close(w);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_uid, nobody);
	assert_int_equal(st.st_mode & 0777, 0600);
}

static void another_logs_packets_are_not_believed(void **state)
{
	struct fixture *f = *state;
	struct call_damage d;
	struct call_reader *r;
	uint8_t *bytes;
	size_t len;

	write_one(f->log, 1000);
	write_one(f->copy, 1000);
	bytes = load(f->copy, &len);
	store(f->log, bytes, len);
	OK(call_reader_open(f->log, &r));
	assert_int_equal(check_thread(r, 0, 0), 0);
	call_reader_damage(r, &d);
	assert_int_equal(d.ignored, len);
	assert_non_null(d.why);
	call_reader_close(r);
	free(bytes);
	FAILS(call_reader_open(f->dir, &r), "metadata");
	FAILS(call_reader_open("/nonexistent", &r), "/nonexistent");
}

static void babeltrace2_reads_the_same(void **state)
{
	const uint64_t counts[] = { CALL_PACKET_EVENTS + 77, 3000 };
	struct fixture *f = *state;
	struct call_writer *w = begin(f->log);
	unsigned long long seen[2] = { 0 }, time_ns, function, n;
	char command[400], line[512], what[32];
	struct call_stream s;
	int tid;
	FILE *p;

	for (unsigned int i = 0; i < 2; i++) {
		OK(call_stream_open(w, PID, PID + (pid_t)i, &s));
		write_events(&s, i, 0, counts[i]);
		OK(call_stream_close(&s));
	}
	call_writer_close(w);
	snprintf(command, sizeof(command),
		 "babeltrace2 --clock-cycles --no-delta '%s' 2>&1 | sed -nE 's/^\\[0*([0-9]+)\\] .* "
		 "(entry|exit|exit_unseen): .* tid = ([0-9]+), .*function = ([0-9]+) \\}$/\\1 \\2 \\3 \\4/p'",
		 f->log);
	p = popen(command, "r");
	assert_non_null(p);
	for (n = 0; fgets(line, sizeof(line), p); n++) {
		struct made m;

		if (sscanf(line, "%llu %31s %d %llu", &time_ns, what, &tid, &function) != 4)
			fail_msg("%s", line);
		m = make((unsigned int)(tid - PID), seen[tid - PID]++);
		assert_int_equal(time_ns, m.time_ns);
		assert_int_equal(function, m.function);
		assert_string_equal(what, m.what == CALL_ENTRY	? "entry"
					  : m.what == CALL_EXIT ? "exit"
								: "exit_unseen");
	}
	assert_int_equal(pclose(p), 0);
	assert_int_equal(seen[0], counts[0]);
	assert_int_equal(seen[1], counts[1]);
}

/* A session that comes to nothing leaves nothing. */
static void a_log_that_is_given_up_goes_with_its_calls(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *events;
	struct call_stream s;
	struct call_writer *w;

	OK(tracelog_writer_open(f->log, &events));
	OK(call_writer_open(f->log, &w));
	OK(call_stream_open(w, PID, PID, &s));
	write_events(&s, 0, 0, 1000);
	OK(call_stream_close(&s));
	call_writer_close(w);
	tracelog_writer_discard(events);
	assert_int_equal(access(f->log, F_OK), -1);
}

static void babeltrace2_reads_words(void **state)
{
	const unsigned long long count = 5000; /* some packets */
	struct fixture *f = *state;
	unsigned long long time_ns, word[3], n;
	char command[400], line[512];
	FILE *p;

	write_own_events(f->log, count);
	snprintf(
		command, sizeof(command),
		"babeltrace2 --clock-cycles --no-delta '%s' 2>&1 | sed -nE 's/^\\[0*([0-9]+)\\] .* more: .*nwords = 3, "
		"word = \\[ \\[0\\] = (0x[0-9A-F]+), \\[1\\] = (0x[0-9A-F]+), \\[2\\] = (0x[0-9A-F]+) .*/\\1 \\2 "
		"\\3 \\4/p'",
		f->log);
	p = popen(command, "r");
	assert_non_null(p);
	for (n = 0; fgets(line, sizeof(line), p); n++) {
		if (sscanf(line, "%llu %llx %llx %llx", &time_ns, &word[0], &word[1], &word[2]) != 4)
			fail_msg("%s", line);
		assert_int_equal(time_ns, 3 * n + 2);
		assert_int_equal(word[0], call_word(CALL_WORD_EVENT, 0, 9));
		assert_int_equal(word[1], n);
		assert_int_equal(word[2], ~n);
	}
	assert_int_equal(pclose(p), 0);
	assert_int_equal(n, count);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_log_that_is_given_up_goes_with_its_calls),
		TEST(every_thread_comes_back),
		TEST(what_is_flushed_can_be_read_meanwhile),
		TEST(long_gaps_and_times_that_go_back_are_kept_in_order),
		TEST(a_time_is_found_from_everywhere),
		TEST(a_log_that_is_cut_off_gives_its_whole_packets),
		TEST(a_damaged_packet_is_left_out_and_said),
		TEST(what_is_lost_is_counted),
		TEST(a_full_disk_costs_no_packet_that_was_there),
		TEST(what_is_not_known_is_stepped_over),
		TEST(a_log_stays_its_owners),
		TEST(another_logs_packets_are_not_believed),
		TEST(babeltrace2_reads_the_same),
		TEST(babeltrace2_reads_words),
		TEST(a_reader_can_seek_to_an_event_of_the_programs_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
