/* The log: what was put comes back; any damage ends it in good order; babeltrace2 agrees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/trace/tracelog.h"
#include "watchctl/trace/tracelog_check.h"
#include "watchctl/trace/tracelog_format.h"

#define OK(call)                                                               \
	do {                                                                   \
		struct wc_error *err_ = (call);                                \
		if (err_)                                                      \
			fail_msg("%s:%d: %s", __FILE__, __LINE__, err_->text); \
	} while (0)

/* The call must fail with a WC_ELOG whose sentence contains @part. */
#define FAILS(call, part)                                                         \
	do {                                                                      \
		struct wc_error *err_ = (call);                                   \
		assert_non_null(err_);                                            \
		assert_int_equal(err_->kind, WC_ELOG);                            \
		if (!strstr(err_->text, part))                                    \
			fail_msg("\"%s\" does not say \"%s\"", err_->text, part); \
		wc_error_free(err_);                                              \
	} while (0)

struct fixture {
	char dir[64];
	char log[80];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	strcpy(f->dir, "/tmp/test_tracelog.XXXXXX");
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

static void put(struct tracelog_writer *w, struct trace_event e)
{
	struct event_sink sink = tracelog_writer_sink(w);

	OK(sink.put(sink.ctx, &e));
}

static struct trace_event access_at(uint64_t time_ns, uint64_t value, const uint64_t *frame, uint32_t n)
{
	struct trace_event e = { .type = EVENT_ACCESS, .time_ns = time_ns };
	int i;

	e.access = (struct access_event){
		.watch = 0,
		.pid = 77,
		.tid = 78,
		.addr = 0x555555558010,
		.size = 4,
		.has_old = true,
		.has_new = true,
		.displaced = value == 44,
		.old_value = value - 1,
		.new_value = value,
		.walk_end = WALK_END_COMPLETE,
		.nframes = n,
		.frame = frame,
	};
	for (i = 0; i < WREG_COUNT; i++)
		e.access.regs.r[i] = 0x1000 + i;
	e.access.regs.r[WREG_RIP] = frame[0];
	return e;
}

static const uint64_t stack_a[] = { 0x555555555160, 0x555555555190, 0x7ffff7df0d0a };
static const uint64_t stack_b[] = { 0x555555555170, 0x555555555190 };

static struct enumerator colours[] = { { (char *)"RED", 0 }, { (char *)"GREEN", 1 }, { (char *)"NONE", -1 } };

static void put_context(struct tracelog_writer *w)
{
	put(w, (struct trace_event){ .type = EVENT_PROCESS,
				     .time_ns = 1000,
				     .process = { .pid = 77,
						  .comm = "app",
						  .exe = "/usr/bin/app",
						  .cmdline = "app -x \"y\"",
						  .realtime_ns = 1700000000000000000u,
						  .host = "box" } });
	put(w, (struct trace_event){ .type = EVENT_THREAD,
				     .time_ns = 1001,
				     .thread = { .pid = 77, .tid = 78, .comm = "worker" } });
	put(w, (struct trace_event){ .type = EVENT_MODULE,
				     .time_ns = 1002,
				     .module = { .start = 0x555555554000,
						 .end = 0x555555559000,
						 .bias = 0x555555554000,
						 .path = (char *)"/usr/bin/app",
						 .build_id = { 0xde, 0xad, 0x00, 0xef },
						 .build_id_len = 4 } });
	put(w, (struct trace_event){ .type = EVENT_WATCH,
				     .time_ns = 1003,
				     .watch = { .id = 0,
						.name = "flag",
						.full_name = "app.c:flag",
						.addr = 0x555555558010,
						.size = 4,
						.access = ACCESS_READWRITE,
						.engine = "handler",
						.module = "/usr/bin/app",
						.type = { .kind = VALUE_ENUM,
							  .name = (char *)"enum colour",
							  .enum_signed = true,
							  .enumerators = colours,
							  .nenumerators = 3 },
						.threads = 5,
						.threads_armed = 4,
						.verified = true,
						.has_value = true,
						.value = 41,
						.slot = -1 } });
	put(w, (struct trace_event){ .type = EVENT_CODE,
				     .time_ns = 1004,
				     .code = { .pc = 0x555555555160,
					       .function_start = 0x555555555140,
					       .before_len = 6,
					       .before = { 0x89, 0x05, 0xe4, 0x2e, 0, 0 },
					       .at_len = 1,
					       .at = { 0xc3 } } });
}

static struct trace_event capture_at(uint64_t time_ns, int32_t tid, const uint64_t *frame, uint32_t n)
{
	struct trace_event e = { .type = EVENT_CAPTURE, .time_ns = time_ns };

	e.capture = (struct capture_event){
		.tag = tid == 78 ? 0 : 1,
		.pid = tid == 78 ? 77 : 90,
		.tid = tid,
		.has_value = tid != 78,
		.value = tid == 78 ? 0 : 0xfedcba9876543210,
		.walk_end = WALK_END_COMPLETE,
		.nframes = n,
		.frame = frame,
	};
	return e;
}

/* The second comes late; the third is of a thread that nobody told of, in another process. */
static void put_captures(struct tracelog_writer *w)
{
	put(w,
	    (struct trace_event){ .type = EVENT_TAG, .time_ns = 2010, .tag = { .id = 0, .name = "miss" } });
	put(w, (struct trace_event){
		       .type = EVENT_TAG, .time_ns = 2010, .tag = { .id = 1, .number = 1ull << 63 } });
	put(w, capture_at(2020, 78, stack_a, 3));
	put(w, capture_at(2015, 78, stack_a, 3));
	put(w, capture_at(2021, 91, stack_b, 2));
}

static void put_ending(struct tracelog_writer *w)
{
	put(w, (struct trace_event){ .type = EVENT_LOST, .time_ns = 3000, .lost = { 0, 7, "ring full" } });
	put(w, (struct trace_event){ .type = EVENT_NOTE, .time_ns = 3001, .note = { "exec" } });
	put(w, (struct trace_event){ .type = EVENT_MODULE_GONE,
				     .time_ns = 3002,
				     .module = { .start = 0x1000, .end = 0x2000, .path = (char *)"/x" } });
	put(w, (struct trace_event){ .type = EVENT_SUMMARY,
				     .time_ns = 3003,
				     .summary = { .watch = 0,
						  .has_counted = true,
						  .counted = 12,
						  .recorded = 4,
						  .lost = 7,
						  .filtered = 1,
						  .duration_ns = 2000 } });
}

static void write_sample(const char *path)
{
	struct tracelog_writer *w;

	OK(tracelog_writer_open(path, &w));
	put_context(w);
	put(w, access_at(2000, 42, stack_a, 3));
	put(w, access_at(2002, 43, stack_b, 2));
	put(w, access_at(2001, 44, stack_a, 3)); /* late: another thread's */
	put(w, access_at(2003, 45, stack_a, 3));
	put_captures(w);
	put_ending(w);
	OK(tracelog_writer_close(w));
}

#define SAMPLE_EVENTS 18

static struct trace_event next(struct tracelog_reader *r)
{
	enum log_outcome outcome;
	struct trace_event e;

	OK(tracelog_next(r, &e, &outcome));
	assert_int_equal(outcome, LOG_EVENT);
	return e;
}

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

	write_sample(f->log);
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

	write_sample(f->log);
	snprintf(command, sizeof(command), "babeltrace2 --clock-seconds --names all '%s' 2>&1", f->log);
	text = output_of(command);
	/* And two stacks, which accesses and captures share, whose thread 91 is, and a checksum. */
	assert_int_equal(count_lines(text, "trace:hostname"), SAMPLE_EVENTS + 4);
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
	/* access: header 14, fields 55 + 7, registers 152; stack: 14 + 9 + 8 a frame; packet: 64 + 18 */
	assert_int_equal(st.st_size, 1000 * (14 + 55 + 7 + 152) + 2 * 23 + 5 * 8 + 4 * 82);
}

/* That of a watch that was told, as all are: whose process and address are known. */
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

/* A number that a thread of another process has now: as told, whatever was told before. */
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

/* The check values are those of RFC 3720, B.4, and of the catalogue of CRCs. */
static void the_checksum_is_crc32c_with_and_without_the_cpus_instruction(void **state)
{
	uint8_t bytes[300] = { 0 };
	size_t i;

	assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
	assert_int_equal(crc32c_table(0, "123456789", 9), 0xe3069283);
	assert_int_equal(crc32c(0, bytes, 32), 0x8a9136aa);
	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 37 + 11);
	for (i = 0; i < sizeof(bytes); i++) {
		assert_int_equal(crc32c(0, bytes, i), crc32c_table(0, bytes, i));
		assert_int_equal(crc32c(crc32c(0, bytes, i), bytes + i, sizeof(bytes) - i),
				 crc32c_table(0, bytes, sizeof(bytes)));
	}
}

static uint8_t *read_all(const char *path, size_t *len)
{
	FILE *f = fopen(path, "r");
	uint8_t *bytes = malloc(1 << 20);

	assert_non_null(f);
	*len = fread(bytes, 1, 1 << 20, f);
	fclose(f);
	return bytes;
}

struct bytes {
	char *metadata;
	uint8_t *events;
	size_t metadata_len, events_len;
};

static struct bytes load(const struct fixture *f)
{
	struct bytes b;
	char path[128];

	snprintf(path, sizeof(path), "%s/metadata", f->log);
	b.metadata = (char *)read_all(path, &b.metadata_len);
	snprintf(path, sizeof(path), "%s/events", f->log);
	b.events = read_all(path, &b.events_len);
	return b;
}

static void bytes_free(struct bytes *b)
{
	free(b->metadata);
	free(b->events);
}

/* Reads @b to its end: how many events, and how it ended. */
static size_t drain(const struct bytes *b, size_t len, enum log_outcome *outcome, uint64_t *ignored)
{
	struct tracelog_reader *r;
	struct trace_event e;
	size_t n = 0;
	const char *why;

	OK(tracelog_reader_open_memory(b->metadata, b->metadata_len, b->events, len, &r));
	for (;; n++) {
		OK(tracelog_next(r, &e, outcome));
		if (*outcome != LOG_EVENT)
			break;
	}
	*ignored = tracelog_ignored(r, &why);
	assert_int_equal(*outcome == LOG_TRUNCATED, why != NULL);
	tracelog_reader_close(r);
	return n;
}

static void cut_at_any_byte_it_yields_every_whole_packet(void **state)
{
	struct fixture *f = *state;
	enum log_outcome outcome;
	size_t len, n, packets = 0, at = 0, i, end[8] = { 0 }, events[8] = { 0 };
	struct tracelog_writer *w;
	uint64_t ignored, bits;
	struct bytes b;

	OK(tracelog_writer_open(f->log, &w));
	put_context(w);
	OK(tracelog_writer_flush(w));
	put(w, access_at(2000, 42, stack_a, 3));
	put(w, access_at(2001, 43, stack_b, 2));
	OK(tracelog_writer_flush(w));
	put_ending(w);
	OK(tracelog_writer_close(w));
	b = load(f);
	for (; at < b.events_len; at = end[packets]) {
		memcpy(&bits, b.events + at + TRACELOG_OFF_PACKET, sizeof(bits));
		end[++packets] = at + bits / 8;
	}
	assert_int_equal(packets, 3);
	events[1] = 5, events[2] = 7, events[3] = 11;
	for (len = 0; len <= b.events_len; len++) {
		/* A block of its own size, so that valgrind and asan see a read behind it. */
		struct bytes cut = b;

		for (i = 0; i < 3 && end[i + 1] <= len;)
			i++;
		cut.events = malloc(len ? len : 1);
		memcpy(cut.events, b.events, len);
		n = drain(&cut, len, &outcome, &ignored);
		free(cut.events);
		assert_int_equal(n, events[i]);
		assert_int_equal(outcome, len == end[i] ? LOG_END : LOG_TRUNCATED);
		assert_int_equal(ignored, len - end[i]);
	}
	bytes_free(&b);
}

static void with_any_flipped_bit_a_packet_is_not_read(void **state)
{
	struct fixture *f = *state;
	enum log_outcome outcome;
	uint64_t ignored;
	struct bytes b;
	size_t i;
	int bit;

	write_sample(f->log);
	b = load(f);
	for (i = 0; i < b.events_len; i++) {
		for (bit = 0; bit < 8; bit++) {
			b.events[i] ^= 1 << bit;
			assert_int_equal(drain(&b, b.events_len, &outcome, &ignored), 0);
			assert_int_equal(outcome, LOG_TRUNCATED);
			assert_int_equal(ignored, b.events_len);
			b.events[i] ^= 1 << bit;
		}
	}
	bytes_free(&b);
}

static void what_follows_a_whole_packet_is_counted_as_ignored(void **state)
{
	struct fixture *f = *state;
	enum log_outcome outcome;
	uint64_t ignored;
	struct bytes b;

	write_sample(f->log);
	b = load(f);
	memset(b.events + b.events_len, 0, 5000);
	assert_int_equal(drain(&b, b.events_len + 5000, &outcome, &ignored), SAMPLE_EVENTS);
	assert_int_equal(outcome, LOG_TRUNCATED);
	assert_int_equal(ignored, 5000);
	bytes_free(&b);
}

static void unknown_ids_and_trailing_fields_are_stepped_over(void **state)
{
	struct fixture *f = *state;
	enum log_outcome outcome;
	uint8_t tail[14 + 9 + 5];
	uint64_t ignored, bits;
	struct bytes b;
	uint32_t size;
	uint16_t id;

	write_sample(f->log);
	b = load(f);
	/* From a newer minor version: an event 99, and a note with five more bytes. */
	memset(tail, 0, sizeof(tail));
	id = 99, size = 14;
	memcpy(tail, &id, 2), memcpy(tail + TRACELOG_OFF_SIZE, &size, 4);
	memcpy(b.events + b.events_len, tail, 14);
	id = EVENT_NOTE, size = 14 + 5 + 5;
	memcpy(tail, &id, 2), memcpy(tail + TRACELOG_OFF_SIZE, &size, 4);
	memcpy(tail + 14, "hello", 5);
	tail[18] = '\0';
	memcpy(b.events + b.events_len + 14, tail, size);
	b.events_len += 14 + size;
	bits = b.events_len * 8;
	memcpy(b.events + TRACELOG_OFF_CONTENT, &bits, 8);
	memcpy(b.events + TRACELOG_OFF_PACKET, &bits, 8);
	size = tracelog_packet_checksum(b.events, b.events_len);
	memcpy(b.events + TRACELOG_OFF_CHECKSUM, &size, 4);
	assert_int_equal(drain(&b, b.events_len, &outcome, &ignored), SAMPLE_EVENTS + 1);
	assert_int_equal(outcome, LOG_END);
	bytes_free(&b);
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

static void what_was_flushed_survives_a_killed_recorder(void **state)
{
	struct fixture *f = *state;
	enum log_outcome outcome;
	struct tracelog_writer *w;
	uint64_t ignored;
	struct bytes b;

	OK(tracelog_writer_open(f->log, &w));
	put_context(w);
	OK(tracelog_writer_flush(w));
	put(w, access_at(2000, 42, stack_a, 3));
	b = load(f);
	assert_int_equal(drain(&b, b.events_len, &outcome, &ignored), 5);
	assert_int_equal(outcome, LOG_END);
	bytes_free(&b);
	OK(tracelog_writer_close(w));
}

/* RLIMIT_FSIZE makes write(2) come back short, then fail, just as a full disk does. */
static void a_full_disk_is_reported_and_leaves_whole_packets(void **state)
{
	struct fixture *f = *state;
	struct rlimit old, tight;
	enum log_outcome outcome;
	struct tracelog_writer *w;
	struct event_sink sink;
	struct wc_error *err = NULL;
	struct trace_event e;
	uint64_t ignored;
	struct bytes b;
	size_t n;
	int i;

	OK(tracelog_writer_open(f->log, &w));
	sink = tracelog_writer_sink(w);
	getrlimit(RLIMIT_FSIZE, &old);
	tight = old;
	tight.rlim_cur = 200000;
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &tight);
	for (i = 0; i < 100000 && !err; i++) {
		e = access_at(i, i + 1, stack_a, 3);
		err = sink.put(sink.ctx, &e);
	}
	setrlimit(RLIMIT_FSIZE, &old);
	signal(SIGXFSZ, SIG_DFL);
	FAILS(err, "File too large (the ");
	FAILS(sink.put(sink.ctx, &e), "given up");
	OK(tracelog_writer_close(w));
	b = load(f);
	n = drain(&b, b.events_len, &outcome, &ignored);
	assert_int_equal(outcome, LOG_END);
	assert_true(n > 800 && n < 900);
	bytes_free(&b);
}

static void an_existing_log_is_never_overwritten(void **state)
{
	struct fixture *f = *state;
	struct tracelog_writer *w;
	char path[128];
	struct stat st;

	write_sample(f->log);
	FAILS(tracelog_writer_open(f->log, &w), "exists already; choose another name or remove it");
	stat(f->log, &st);
	assert_int_equal(st.st_mode & 07777, 0700);
	snprintf(path, sizeof(path), "%s/events", f->log);
	stat(path, &st);
	assert_int_equal(st.st_mode & 07777, 0600);
	snprintf(path, sizeof(path), "%s/a/b", f->dir);
	FAILS(tracelog_writer_open(path, &w), "the directory it should be in does not exist");
}

static void replace(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void what_is_not_a_log_is_refused_by_name(void **state)
{
	struct fixture *f = *state;
	struct tracelog_reader *r;
	char metadata[128], events[128];

	snprintf(metadata, sizeof(metadata), "%s/metadata", f->log);
	snprintf(events, sizeof(events), "%s/events", f->log);
	FAILS(tracelog_reader_open(f->log, &r), "there is no log");
	FAILS(tracelog_reader_open("/etc/passwd", &r), "a log is a directory");
	mkdir(f->log, 0700);
	FAILS(tracelog_reader_open(f->log, &r), "has no file `metadata`");
	replace(metadata, "");
	FAILS(tracelog_reader_open(f->log, &r), "metadata is empty");
	replace(metadata, "hello");
	FAILS(tracelog_reader_open(f->log, &r), "not a log of watchctl");
	replace(metadata, "\x57\x1d\xd1\x75...");
	FAILS(tracelog_reader_open(f->log, &r), "another tracer");
	replace(metadata, "/* CTF 1.8 */ env { tracer_name = \"lttng-modules\"; };");
	FAILS(tracelog_reader_open(f->log, &r), "made by lttng-modules, not");
	replace(metadata, "/* CTF 1.8 */ env { tracer_name = \"watchctl\"; };");
	FAILS(tracelog_reader_open(f->log, &r), "damaged or incomplete");
	replace(metadata, "/* CTF 1.8 */ trace { uuid = \"00112233-4455-6677-8899-aabbccddeeff\"; };"
			  "env { tracer_name = \"watchctl\"; format_major = 3; format_minor = 3; };");
	FAILS(tracelog_reader_open(f->log, &r), "made by a newer version of watchctl (its format is 3.3");
	replace(metadata, "/* CTF 1.8 */ trace { uuid = \"00112233-4455-6677-8899-aabbccddeeff\"; };"
			  "env { tracer_name = \"watchctl\"; format_major = 1; format_minor = 9; };");
	FAILS(tracelog_reader_open(f->log, &r), "has no file `events`");
	mkfifo(events, 0600);
	FAILS(tracelog_reader_open(f->log, &r), "not a regular file");
	unlink(events);
	replace(events, "");
	OK(tracelog_reader_open(f->log, &r));
	tracelog_reader_close(r);
}

static void packets_of_another_log_are_refused(void **state)
{
	struct fixture *f = *state;
	enum log_outcome outcome;
	uint64_t ignored;
	struct bytes b;

	write_sample(f->log);
	b = load(f);
	b.events[TRACELOG_OFF_UUID] ^= 1;
	assert_int_equal(drain(&b, b.events_len, &outcome, &ignored), 0);
	assert_int_equal(outcome, LOG_TRUNCATED);
	assert_int_equal(ignored, b.events_len);
	bytes_free(&b);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

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
		cmocka_unit_test(the_checksum_is_crc32c_with_and_without_the_cpus_instruction),
		TEST(what_is_read_again_is_where_its_watch_was_then),
		TEST(cut_at_any_byte_it_yields_every_whole_packet),
		TEST(with_any_flipped_bit_a_packet_is_not_read),
		TEST(what_follows_a_whole_packet_is_counted_as_ignored),
		TEST(unknown_ids_and_trailing_fields_are_stepped_over),
		TEST(an_event_larger_than_a_packet_gets_its_own),
		TEST(what_was_flushed_survives_a_killed_recorder),
		TEST(a_full_disk_is_reported_and_leaves_whole_packets),
		TEST(an_existing_log_is_never_overwritten),
		TEST(what_is_not_a_log_is_refused_by_name),
		TEST(packets_of_another_log_are_refused),
	};

	return cmocka_run_group_tests_name("tracelog", tests, NULL, NULL);
}
