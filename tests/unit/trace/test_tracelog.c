/* The log: what was put comes back, in few bytes; babeltrace2 agrees. */
#include "tests/unit/tracelog_small.h"

#include <sys/stat.h>

static void check_access(struct tracelog_reader *r, uint64_t time_ns, uint64_t value, const uint64_t *frame,
			 uint32_t n)
{
	struct trace_event e = next(r), want = access_at(time_ns, value, frame, n);

	assert_int_equal(e.type, EVENT_ACCESS);
	assert_int_equal(e.time_ns, time_ns);
	assert_int_equal(e.access.pid, 77);
	assert_int_equal(e.access.tid, 78);
	assert_int_equal(e.access.addr, 0x555555558010);
	assert_int_equal(e.access.size, 4);
	assert_true(e.access.has_old && e.access.has_new);
	assert_int_equal(e.access.displaced, value == 44);
	assert_int_equal(e.access.old_value, value - 1);
	assert_int_equal(e.access.new_value, value);
	assert_memory_equal(&e.access.regs, &want.access.regs, sizeof(want.access.regs));
	assert_int_equal(e.access.nframes, n);
	assert_memory_equal(e.access.frame, frame, n * sizeof(*frame));
}

static void check_capture(struct tracelog_reader *r, uint64_t time_ns, int32_t tid, const uint64_t *frame,
			  uint32_t n)
{
	struct trace_event e = next(r), want = capture_at(time_ns, tid, frame, n);

	assert_int_equal(e.type, EVENT_CAPTURE);
	assert_int_equal(e.time_ns, time_ns);
	assert_int_equal(e.capture.tag, want.capture.tag);
	assert_int_equal(e.capture.pid, want.capture.pid);
	assert_int_equal(e.capture.tid, tid);
	assert_int_equal(e.capture.has_value, want.capture.has_value);
	assert_int_equal(e.capture.value, want.capture.value);
	assert_int_equal(e.capture.walk_end, WALK_END_COMPLETE);
	assert_int_equal(e.capture.nframes, n);
	assert_memory_equal(e.capture.frame, frame, n * sizeof(*frame));
}

static void check_captures(struct tracelog_reader *r)
{
	struct trace_event e = next(r);

	assert_int_equal(e.type, EVENT_TAG);
	assert_int_equal(e.tag.id, 0);
	assert_string_equal(e.tag.name, "miss");
	e = next(r);
	assert_int_equal(e.tag.id, 1);
	assert_null(e.tag.name);
	assert_int_equal(e.tag.number, 1ull << 63);
	check_capture(r, 2020, 78, stack_a, 3);
	check_capture(r, 2015, 78, stack_a, 3);
	check_capture(r, 2021, 91, stack_b, 2);
}

static void what_was_put_comes_back(void **state)
{
	struct fixture *f = *state;
	struct tracelog_reader *r;
	enum log_outcome outcome;
	struct trace_event e;

	small_write(f->log);
	OK(tracelog_reader_open(f->log, &r));

	e = next(r);
	assert_int_equal(e.type, EVENT_PROCESS);
	assert_int_equal(e.process.pid, 77);
	assert_string_equal(e.process.cmdline, "app -x \"y\"");
	assert_string_equal(e.process.host, "box");
	assert_int_equal(e.process.realtime_ns, 1700000000000000000u);
	e = next(r);
	assert_string_equal(e.thread.comm, "worker");
	e = next(r);
	assert_string_equal(e.module.path, "/usr/bin/app");
	assert_int_equal(e.module.bias, 0x555555554000);
	assert_int_equal(e.module.build_id_len, 4);
	assert_memory_equal(e.module.build_id, "\xde\xad\x00\xef", 4);
	e = next(r);
	assert_int_equal(e.type, EVENT_WATCH);
	assert_string_equal(e.watch.full_name, "app.c:flag");
	assert_string_equal(e.watch.engine, "handler");
	assert_string_equal(e.watch.module, "/usr/bin/app");
	assert_int_equal(e.watch.threads_armed, 4);
	assert_int_equal(e.watch.slot, -1);
	assert_true(e.watch.verified && e.watch.has_value && !e.watch.kernel);
	assert_int_equal(e.watch.type.kind, VALUE_ENUM);
	assert_true(e.watch.type.enum_signed);
	assert_int_equal(e.watch.type.nenumerators, 3);
	assert_string_equal(e.watch.type.enumerators[2].name, "NONE");
	assert_int_equal(e.watch.type.enumerators[2].value, -1);
	e = next(r);
	assert_int_equal(e.code.before_len, 6);
	assert_memory_equal(e.code.before, "\x89\x05\xe4\x2e\0\0", 6);
	assert_int_equal(e.code.at_len, 1);
	assert_int_equal(e.code.at[0], 0xc3);
	check_access(r, 2000, 42, stack_a, 3);
	check_access(r, 2002, 43, stack_b, 2);
	check_access(r, 2001, 44, stack_a, 3);
	check_access(r, 2003, 45, stack_a, 3);
	check_captures(r);
	e = next(r);
	assert_int_equal(e.lost.count, 7);
	assert_string_equal(e.lost.why, "ring full");
	e = next(r);
	assert_string_equal(e.note.text, "exec");
	e = next(r);
	assert_int_equal(e.type, EVENT_MODULE_GONE);
	assert_null(e.module.open_path);
	e = next(r);
	assert_int_equal(e.summary.counted, 12);
	assert_int_equal(e.summary.filtered, 1);
	OK(tracelog_next(r, &e, &outcome));
	assert_int_equal(outcome, LOG_END);
	OK(tracelog_next(r, &e, &outcome));
	assert_int_equal(outcome, LOG_END);
	tracelog_reader_close(r);
}

/* The output of a shell command, one malloced string. */
static char *output_of(const char *command)
{
	FILE *p = popen(command, "r");
	size_t len = 0, cap = 0;
	char *text = NULL;
	int c;

	assert_non_null(p);
	while ((c = getc(p)) != EOF) {
		if (len + 2 > cap)
			text = realloc(text, cap = cap * 2 + 256);
		text[len++] = c;
	}
	if (!text)
		text = calloc(1, 1);
	text[len] = '\0';
	assert_int_equal(pclose(p), 0);
	return text;
}

static size_t count_lines(const char *text, const char *containing)
{
	size_t n = 0;

	for (; (text = strstr(text, containing)); text++)
		n++;
	return n;
}

static void babeltrace2_reads_the_same(void **state)
{
	struct fixture *f = *state;
	char command[256];
	char *text;

	small_write(f->log);
	snprintf(command, sizeof(command), "babeltrace2 --clock-seconds --names all '%s' 2>&1", f->log);
	text = output_of(command);
	/* And two stacks, which accesses and captures share, whose thread 91 is, and a checksum. */
	assert_int_equal(count_lines(text, "trace:hostname"), SMALL_EVENTS + 4);
	assert_int_equal(count_lines(text, "name = hit,"), 4);
	assert_int_equal(count_lines(text, "name = checksum,"), 1);
	assert_int_equal(count_lines(text, "name = stack,"), 2);
	assert_non_null(strstr(text, "{ tag = 0, has_name = 1, number = 0, name = \"miss\" }"));
	assert_non_null(strstr(
		text,
		"{ tag = 1, has_name = 0, number = 9223372036854775808, name = \"9223372036854775808\" }"));
	assert_non_null(strstr(text, "{ tag = 0, tid = 78, stack = 0, before_ns = 0 }"));
	assert_non_null(strstr(text, "{ tag = 0, tid = 78, stack = 0, before_ns = 5 }"));
	assert_non_null(strstr(text, "{ pid = 90, tid = 91 }"));
	assert_non_null(strstr(text, "name = capture_value,"));
	assert_non_null(strstr(
		text, "{ tag = 1, tid = 91, stack = 1, before_ns = 0, value = 18364758544493064720 }"));
	assert_non_null(strstr(text, "cmdline = \"app -x \\\"y\\\"\""));
	assert_non_null(strstr(text, "build_id = \"dead00ef\""));
	assert_non_null(strstr(text, "enumerators = \"RED=0,GREEN=1,NONE=-1\""));
	assert_non_null(strstr(text, "before = [ [0] = 0x89, [1] = 0x5, [2] = 0xE4, [3] = 0x2E, [4] = 0x0, "
				     "[5] = 0x0 ], at_len = 1, at = [ [0] = 0xC3 ]"));
	assert_non_null(strstr(text,
			       "watch = 0, has_old = 1, has_new = 1, displaced = 1, offset = 0, size = 4, "
			       "tid = 78, stack = 0, before_ns = 1, old_value = 0x2B, "
			       "new_value = 0x2C, regs = { rax = 0x1000, rdx = 0x1001,"));
	assert_non_null(strstr(text, "nframes = 2, frame = [ [0] = 0x555555555170, [1] = 0x555555555190 ]"));
	assert_non_null(strstr(text, "rip = 0x555555555160, rflags = 0x1011, fs_base = 0x1012 }"));
	assert_non_null(strstr(text, "slot = -1, type_kind = ( \"enum\" : container = 7 )"));
	free(text);
}

static void a_stack_is_written_once(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w;
	char path[128];
	struct stat st;
	int i;

	OK(tracelog_writer_open(f->log, &w));
	for (i = 0; i < 1000; i++)
		put(w, access_at(i, i + 1, i % 2 ? stack_a : stack_b, i % 2 ? 3 : 2));
	OK(tracelog_writer_close(w));
	snprintf(path, sizeof(path), "%s/events", f->log);
	assert_int_equal(stat(path, &st), 0);
	/* access: header 14, fields 55 + 7 + 11, registers 152; stack: 14 + 9 + 8 a frame; packet: 64 + 18 */
	assert_int_equal(st.st_size, 1000 * (14 + 55 + 7 + 11 + 152) + 2 * 23 + 5 * 8 + 4 * 82);
}

/* That of a watch that was reported, as all are: whose process and address are known. */
static void an_access_takes_197_bytes(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w;
	uint64_t frame[16];
	char path[128];
	struct stat st;
	off_t before;
	int i;

	for (i = 0; i < 16; i++)
		frame[i] = 0x555555555000 + i;
	OK(tracelog_writer_open(f->log, &w));
	put_context(w);
	OK(tracelog_writer_flush(w));
	snprintf(path, sizeof(path), "%s/events", f->log);
	assert_int_equal(stat(path, &st), 0);
	before = st.st_size;
	for (i = 0; i < 1000; i++)
		put(w, access_at(5000 + i, i + 1, frame, 16));
	OK(tracelog_writer_close(w));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size - before, 1000 * (14 + 183) + 23 + 16 * 8 + 4 * 82);
	assert_true((st.st_size - before) / 1000 <= 200);
}

/* Where a hit cannot say it: other bytes than the watch's, the kernel, long before, another watch. */
static void what_is_no_plain_hit_comes_back_as_well(void **state)
{
	struct fixture *f = *state;
	struct trace_event e[6], got;
	struct tracelog_writer *w;
	struct tracelog_reader *r;
	size_t i;

	for (i = 0; i < 6; i++)
		e[i] = access_at(5000000000u + i, 100 + i, stack_a, 3);
	e[0].access.addr += 64; /* another thread's own one */
	e[1].access.in_kernel = true;
	e[1].access.kernel_kind = ACCESS_WRITE;
	e[1].access.syscall = 0;
	e[1].access.kernel_function = "copy_to_user";
	e[2].access.watch = 300;
	e[3].access.addr += 3; /* a part of it */
	e[3].access.size = 1;
	e[3].access.has_old = false;
	e[3].access.old_value = 0;
	e[4].time_ns = 100; /* more than four seconds late */
	OK(tracelog_writer_open(f->log, &w));
	put_context(w);
	for (i = 0; i < 6; i++)
		put(w, e[i]);
	OK(tracelog_writer_close(w));
	OK(tracelog_reader_open(f->log, &r));
	for (i = 0; i < 5; i++)
		next(r);
	for (i = 0; i < 6; i++) {
		got = next(r);
		assert_int_equal(got.type, EVENT_ACCESS);
		assert_int_equal(got.time_ns, e[i].time_ns);
		assert_int_equal(got.access.watch, e[i].access.watch);
		assert_int_equal(got.access.addr, e[i].access.addr);
		assert_int_equal(got.access.size, e[i].access.size);
		assert_int_equal(got.access.pid, 77);
		assert_int_equal(got.access.in_kernel, e[i].access.in_kernel);
		assert_int_equal(got.access.has_old, e[i].access.has_old);
		assert_int_equal(got.access.old_value, e[i].access.old_value);
		assert_int_equal(got.access.new_value, e[i].access.new_value);
		assert_int_equal(got.access.syscall, i == 1 ? 0 : -1);
	}
	tracelog_reader_close(r);
}

static void a_capture_takes_32_bytes_or_40_with_a_value(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w;
	char path[128];
	struct stat st;
	int i;

	OK(tracelog_writer_open(f->log, &w));
	put(w, (struct trace_event){
		       .type = EVENT_THREAD, .time_ns = 1, .thread = { .pid = 77, .tid = 78, .comm = "" } });
	put(w, (struct trace_event){
		       .type = EVENT_THREAD, .time_ns = 1, .thread = { .pid = 90, .tid = 91, .comm = "" } });
	for (i = 0; i < 1000; i++)
		put(w, capture_at(10 + i, i % 2 ? 78 : 91, i % 3 ? stack_a : stack_b, i % 3 ? 3 : 2));
	OK(tracelog_writer_close(w));
	snprintf(path, sizeof(path), "%s/events", f->log);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 500 * 32 + 500 * 40 + 2 * (14 + 9 + 28) + 2 * 23 + 5 * 8 + 82);
}

/* A number that a thread of another process has now: as reported, whatever was reported before. */
static void a_thread_id_that_is_used_again_belongs_to_its_new_process(void **state)
{
	static const int32_t pids[] = { 77, 90, 77, 77 };
	struct fixture *f = *state;
	struct tracelog_writer *w;
	struct tracelog_reader *r;
	struct trace_event e;
	size_t i;

	OK(tracelog_writer_open(f->log, &w));
	put(w, (struct trace_event){
		       .type = EVENT_THREAD, .time_ns = 1, .thread = { .pid = 77, .tid = 78, .comm = "" } });
	for (i = 0; i < 4; i++) {
		e = capture_at(10 + i, 78, stack_a, 3);
		e.capture.pid = pids[i];
		put(w, e);
	}
	OK(tracelog_writer_close(w));
	OK(tracelog_reader_open(f->log, &r));
	next(r);
	for (i = 0; i < 4; i++)
		assert_int_equal(next(r).capture.pid, pids[i]);
	tracelog_reader_close(r);
}

/* The log says of a hit that it is one of its watch: of the place where that was at the time. */
static void what_is_read_again_is_where_its_watch_was_then(void **state)
{
	struct fixture *f = *state;
	struct trace_event e = { .type = EVENT_WATCH, .time_ns = 3000 };
	uint64_t position[4], addr[4];
	struct tracelog_writer *w;
	struct tracelog_reader *r;
	enum log_outcome outcome;
	int i;

	e.watch = (struct watch_event){ .name = "flag", .full_name = "flag", .size = 4, .addr = 0x1000 };
	OK(tracelog_writer_open(f->log, &w));
	for (i = 0; i < 4; i++) {
		struct trace_event hit = access_at(3000 + i, i + 1, stack_a, 3);

		e.watch.addr = hit.access.addr = addr[i] = 0x1000 + 0x100 * (uint64_t)i;
		put(w, e);
		put(w, hit);
	}
	OK(tracelog_writer_close(w));
	OK(tracelog_reader_open(f->log, &r));
	for (i = 0; i < 4; i++) {
		assert_int_equal(next(r).type, EVENT_WATCH);
		assert_int_equal(next(r).access.addr, addr[i]);
		position[i] = tracelog_position(r);
	}
	for (i = 3; i >= 0; i--) {
		OK(tracelog_read_again(r, position[i], &e, &outcome));
		assert_int_equal(outcome, LOG_EVENT);
		assert_int_equal(e.access.addr, addr[i]);
		assert_int_equal(e.access.nframes, 3);
	}
	tracelog_reader_close(r);
}

static void an_event_larger_than_a_packet_gets_its_own(void **state)
{
	struct fixture *f = *state;
	char *text = malloc(300000), command[256], *out;
	struct tracelog_writer *w;
	struct tracelog_reader *r;

	memset(text, 'x', 299999);
	text[299999] = '\0';
	OK(tracelog_writer_open(f->log, &w));
	put(w, (struct trace_event){ .type = EVENT_NOTE, .time_ns = 1, .note = { "before" } });
	put(w, (struct trace_event){ .type = EVENT_NOTE, .time_ns = 2, .note = { text } });
	put(w, (struct trace_event){ .type = EVENT_NOTE, .time_ns = 3, .note = { "after" } });
	OK(tracelog_writer_close(w));
	OK(tracelog_reader_open(f->log, &r));
	assert_string_equal(next(r).note.text, "before");
	assert_string_equal(next(r).note.text, text);
	assert_string_equal(next(r).note.text, "after");
	tracelog_reader_close(r);
	snprintf(command, sizeof(command), "babeltrace2 '%s' | grep -vc checksum:", f->log);
	out = output_of(command);
	assert_int_equal(atoi(out), 3);
	free(out);
	free(text);
}

static void an_existing_log_is_never_overwritten(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w;
	char path[128];
	struct stat st;

	small_write(f->log);
	FAILS(tracelog_writer_open(f->log, &w), "exists already; choose another name or remove it");
	stat(f->log, &st);
	assert_int_equal(st.st_mode & 07777, 0700);
	snprintf(path, sizeof(path), "%s/events", f->log);
	stat(path, &st);
	assert_int_equal(st.st_mode & 07777, 0600);
	snprintf(path, sizeof(path), "%s/a/b", f->dir);
	FAILS(tracelog_writer_open(path, &w), "the directory it should be in does not exist");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(what_was_put_comes_back),
		TEST(babeltrace2_reads_the_same),
		TEST(a_stack_is_written_once),
		TEST(an_access_takes_197_bytes),
		TEST(what_is_no_plain_hit_comes_back_as_well),
		TEST(a_capture_takes_32_bytes_or_40_with_a_value),
		TEST(a_thread_id_that_is_used_again_belongs_to_its_new_process),
		TEST(what_is_read_again_is_where_its_watch_was_then),
		TEST(an_event_larger_than_a_packet_gets_its_own),
		TEST(an_existing_log_is_never_overwritten),
	};

	return cmocka_run_group_tests_name("tracelog", tests, NULL, NULL);
}
