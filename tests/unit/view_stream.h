/* view_stream - a prepared stream of events for the tests of the views, and how to feed it. */
#ifndef TESTS_UNIT_VIEW_STREAM_H
#define TESTS_UNIT_VIEW_STREAM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/view/event/annotate.h"

#define T0 1000000000u		   /* the stream's first moment, monotonic */
#define EPOCH 1700000000000000000u /* ... and as time of day: 2023-11-14 22:13:20 UTC */
#define FLAG_ADDR 0x404010u
#define CODE 0x401000u

static inline void feed(struct annotate *a, struct trace_event e)
{
	struct event_sink sink = annotate_sink(a);
	struct wc_error *err = sink.put(sink.ctx, &e);

	if (err)
		fail_msg("%s", err->text);
}

static inline void feed_process(struct annotate *a)
{
	feed(a, (struct trace_event){ .type = EVENT_PROCESS,
				      .time_ns = T0,
				      .process = { .pid = 77,
						   .comm = "app",
						   .exe = "/usr/bin/app",
						   .cmdline = "app -x",
						   .realtime_ns = EPOCH,
						   .host = "box" } });
	feed(a, (struct trace_event){ .type = EVENT_THREAD,
				      .time_ns = T0,
				      .thread = { .pid = 77, .tid = 78, .comm = "worker" } });
}

static inline void feed_watch(struct annotate *a, uint32_t id, const char *name, enum access_kind access)
{
	feed(a, (struct trace_event){ .type = EVENT_WATCH,
				      .time_ns = T0 + 1000,
				      .watch = { .id = id,
						 .name = name,
						 .full_name = name,
						 .module = "/usr/bin/app",
						 .addr = FLAG_ADDR,
						 .size = 4,
						 .access = access,
						 .engine = "handler",
						 .type = { .kind = VALUE_SIGNED, .name = (char *)"int" },
						 .threads = 5,
						 .threads_armed = 5,
						 .verified = true,
						 .slot = -1 } });
}

static inline void feed_code(struct annotate *a, uint64_t pc, const char *before, uint8_t before_len)
{
	struct trace_event e = { .type = EVENT_CODE, .time_ns = T0 + 1000 };

	e.code.pc = pc;
	e.code.before_len = before_len;
	memcpy(e.code.before, before, before_len);
	feed(a, e);
}

/* mov [rdi], eax, ending at @pc; and mov eax, [rdi]. */
static inline void feed_store(struct annotate *a, uint64_t pc)
{
	feed_code(a, pc, "\x89\x07", 2);
}

static inline void feed_load(struct annotate *a, uint64_t pc)
{
	feed_code(a, pc, "\x8b\x07", 2);
}

/* An access whose trap is at frame[0], with rdi = &flag and eax = the new value. */
static inline struct trace_event access_at(uint64_t us, int32_t tid, uint64_t was, uint64_t is,
					   const uint64_t *frame, uint32_t n)
{
	struct trace_event e = { .type = EVENT_ACCESS, .time_ns = T0 + us * 1000 };

	e.access = (struct access_event){
		.pid = 77,
		.tid = tid,
		.addr = FLAG_ADDR,
		.size = 4,
		.has_old = true,
		.has_new = true,
		.old_value = was,
		.new_value = is,
		.walk_end = WALK_END_COMPLETE,
		.nframes = n,
		.frame = frame,
	};
	e.access.regs.r[WREG_RIP] = frame[0];
	e.access.regs.r[WREG_RDI] = FLAG_ADDR;
	e.access.regs.r[WREG_RAX] = is;
	e.access.regs.r[WREG_RSP] = 0x7ffffff0;
	return e;
}

static inline void feed_tag(struct annotate *a, uint32_t id, const char *name, uint64_t number)
{
	feed(a, (struct trace_event){ .type = EVENT_TAG, .time_ns = T0, .tag = { id, name, number } });
}

static inline struct trace_event capture_at(uint64_t us, int32_t tid, uint32_t tag, const uint64_t *frame,
					    uint32_t n)
{
	return (struct trace_event){ .type = EVENT_CAPTURE,
				     .time_ns = T0 + us * 1000,
				     .capture = { .tag = tag,
						  .pid = 77,
						  .tid = tid,
						  .walk_end = WALK_END_COMPLETE,
						  .nframes = n,
						  .frame = frame } };
}

static inline struct trace_event with_value(struct trace_event e, uint64_t value)
{
	e.capture.has_value = true;
	e.capture.value = value;
	return e;
}

/*
 * What both printers are tested with: a named tag and a number, with values and without, an access between
 * them; then losses and a summary.
 */
static inline void feed_captures(struct annotate *a)
{
	static const uint64_t miss[] = { CODE + 0x50, CODE + 0x100, 0x7f0000001234 },
			      hit[] = { CODE + 0x60, CODE + 0x100 }, store[] = { CODE + 2, CODE + 0x100 };
	struct trace_event e = { .type = EVENT_MODULE };

	feed_process(a);
	e.module = (struct module){
		.start = 0x400000, .end = 0x403000, .bias = 0x400000, .path = (char *)"/no/such/app"
	};
	feed(a, e);
	feed_watch(a, 0, "flag", ACCESS_READWRITE);
	feed_store(a, store[0]);
	feed_tag(a, 0, "cache-miss", 0);
	feed_tag(a, 1, NULL, 42);
	feed(a, with_value(capture_at(10, 78, 0, miss, 3), 17));
	feed(a, access_at(22, 78, 41, 42, store, 2));
	e = capture_at(30, 77, 1, hit, 2);
	e.capture.walk_end = WALK_END_DEPTH;
	feed(a, e);
	feed(a, with_value(capture_at(500010, 77, 0, hit, 2), 0x7ffe12345678));
	feed(a, with_value(capture_at(1000010, 78, 0, miss, 3), 19));
	feed(a, (struct trace_event){ .type = EVENT_LOST,
				      .time_ns = T0 + 1500000000,
				      .lost = { WATCH_CAPTURES, 2, "ring full" } });
	feed(a, (struct trace_event){ .type = EVENT_SUMMARY,
				      .time_ns = T0 + 1700000000,
				      .summary = { .watch = WATCH_CAPTURES,
						   .has_counted = true,
						   .counted = 6,
						   .recorded = 4,
						   .lost = 2,
						   .duration_ns = 1700000000u } });
}

/*
 * The session that both printers are tested with: a write with a stack, a read, a write of the
 * same value, one by the kernel, one by code that nobody knows; then losses and a note with
 * hostile bytes.
 */
static inline void feed_session(struct annotate *a)
{
	static const uint64_t store[] = { CODE + 2, CODE + 0x100, 0x7f0000001234 };
	static const uint64_t load[] = { CODE + 0x12 }, system_call[] = { CODE + 0x22 },
			      nowhere[] = { 0x999999 };
	struct trace_event e = { .type = EVENT_MODULE };

	feed_process(a);
	e.module = (struct module){ .start = 0x400000,
				    .end = 0x403000,
				    .bias = 0x400000,
				    .path = (char *)"/no/such/app",
				    .build_id = { 0xde, 0xad },
				    .build_id_len = 2 };
	feed(a, e);
	feed_watch(a, 0, "flag", ACCESS_READWRITE);
	feed_store(a, store[0]);
	feed_load(a, load[0]);
	feed_code(a, system_call[0], "\x0f\x05", 2);

	e = access_at(10, 78, 41, 42, store, 3);
	e.access.walk_end = WALK_END_NO_RULE;
	feed(a, e);
	feed(a, access_at(20, 77, 42, 42, load, 1));
	feed(a, access_at(1000030, 78, 42, 42, store, 1));
	feed(a, access_at(1000040, 79, 42, 7, system_call, 1));
	feed(a, access_at(1000050, 79, 7, 8, nowhere, 1));
	feed(a, (struct trace_event){
			.type = EVENT_LOST, .time_ns = T0 + 1500000000, .lost = { 0, 3, "ring full" } });
	feed(a, (struct trace_event){ .type = EVENT_NOTE,
				      .time_ns = T0 + 1600000000,
				      .note = { "thread \x1b[31m\xff \"x\" caf\xc3\xa9" } });
	feed(a, (struct trace_event){ .type = EVENT_SUMMARY,
				      .time_ns = T0 + 1700000000,
				      .summary = { .has_counted = true,
						   .counted = 9,
						   .recorded = 5,
						   .lost = 3,
						   .duration_ns = 3200000000u } });
}

#endif
