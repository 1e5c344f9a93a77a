/* tracelog_small - a small log: a process, a watch, accesses, captures and an ending, one of each at least.
 */
#ifndef TESTS_UNIT_TRACELOG_SMALL_H
#define TESTS_UNIT_TRACELOG_SMALL_H

#include "tests/unit/tracelog_fixture.h"

static inline struct trace_event access_at(uint64_t time_ns, uint64_t value, const uint64_t *frame,
					   uint32_t n)
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

static inline void put_context(struct tracelog_writer *w)
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

static inline struct trace_event capture_at(uint64_t time_ns, int32_t tid, const uint64_t *frame, uint32_t n)
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

/* The second comes late; the third is of a thread that nobody reported, in another process. */
static inline void put_captures(struct tracelog_writer *w)
{
	put(w,
	    (struct trace_event){ .type = EVENT_TAG, .time_ns = 2010, .tag = { .id = 0, .name = "miss" } });
	put(w, (struct trace_event){
		       .type = EVENT_TAG, .time_ns = 2010, .tag = { .id = 1, .number = 1ull << 63 } });
	put(w, capture_at(2020, 78, stack_a, 3));
	put(w, capture_at(2015, 78, stack_a, 3));
	put(w, capture_at(2021, 91, stack_b, 2));
}

static inline void put_ending(struct tracelog_writer *w)
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

static inline void small_write(const char *path)
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

#define SMALL_EVENTS 18

static inline struct trace_event next(struct tracelog_reader *r)
{
	enum log_outcome outcome;
	struct trace_event e;

	OK(tracelog_next(r, &e, &outcome));
	assert_int_equal(outcome, LOG_EVENT);
	return e;
}

#endif
