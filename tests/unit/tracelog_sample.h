/*
 * tracelog_sample - accesses whose every field follows from their number, so that whoever reads one back can
 * say whether it is what was written.
 */
#ifndef TESTS_UNIT_TRACELOG_SAMPLE_H
#define TESTS_UNIT_TRACELOG_SAMPLE_H

#include "tests/unit/tracelog_fixture.h"
#include "watchctl/trace/log/tracelog.h"
#include "watchctl/trace/log/tracelog_format.h"

#define SAMPLE_PID 77
#define SAMPLE_ADDR 0x555555558010u
#define SAMPLE_TEXT 0x555555555000u
#define SAMPLE_FRAMES 16
#define SAMPLE_STACKS 37
#define SAMPLE_THREADS 5

struct sample {
	struct trace_event e;
	uint64_t frame[SAMPLE_FRAMES];
};

/* Access number @n, from 1 on, of a recording that began at @base_ns. */
static inline void sample_access(struct sample *s, uint64_t n, uint64_t base_ns)
{
	uint64_t stack = n * 7 % SAMPLE_STACKS;
	uint32_t i;

	s->e = (struct trace_event){ .type = EVENT_ACCESS, .time_ns = base_ns + n * 1000 };
	for (i = 0; i < SAMPLE_FRAMES; i++)
		s->frame[i] = SAMPLE_TEXT + (stack + 1) * (i + 1);
	s->e.access = (struct access_event){
		.watch = n % 2,
		.pid = SAMPLE_PID,
		.tid = SAMPLE_PID + (int32_t)(n % SAMPLE_THREADS),
		.addr = SAMPLE_ADDR + n % 2 * 64,
		.size = 8,
		.has_old = true,
		.has_new = true,
		.syscall = -1,
		.old_value = ~n,
		.new_value = n,
		.walk_end = WALK_END_COMPLETE,
		.nframes = SAMPLE_FRAMES,
		.frame = s->frame,
	};
	for (i = 0; i < WREG_COUNT; i++)
		s->e.access.regs.r[i] = n * 1000003 + i;
	s->e.access.regs.r[WREG_RIP] = s->frame[0];
}

/* The number of the access @got, every field of which must be what that number says. */
static inline uint64_t sample_number(const struct trace_event *got, uint64_t base_ns)
{
	uint64_t n = got->access.new_value;
	struct sample want;

	assert_int_equal(got->type, EVENT_ACCESS);
	sample_access(&want, n, base_ns);
	assert_int_equal(got->time_ns, want.e.time_ns);
	assert_int_equal(got->access.watch, want.e.access.watch);
	assert_int_equal(got->access.pid, want.e.access.pid);
	assert_int_equal(got->access.tid, want.e.access.tid);
	assert_int_equal(got->access.addr, want.e.access.addr);
	assert_int_equal(got->access.size, want.e.access.size);
	assert_int_equal(got->access.old_value, want.e.access.old_value);
	assert_memory_equal(&got->access.regs, &want.e.access.regs, sizeof(want.e.access.regs));
	/* Of a damaged log, the callers may be missing, but never without a word. */
	if (got->access.walk_end == WALK_END_LOST)
		want.e.access.nframes = 1;
	else
		assert_int_equal(got->access.walk_end, WALK_END_COMPLETE);
	assert_int_equal(got->access.nframes, want.e.access.nframes);
	assert_memory_equal(got->access.frame, want.frame, want.e.access.nframes * sizeof(want.frame[0]));
	return n;
}

static inline struct trace_event sample_module(uint64_t time_ns, int32_t pid, uint64_t start,
					       const char *path)
{
	return (struct trace_event){
		.type = EVENT_MODULE,
		.time_ns = time_ns,
		.module_pid = pid,
		.module = { .start = start, .end = start + 0x1000, .bias = start, .path = (char *)path },
	};
}

/* A process, its program and a library, two watches, five threads, and a code fact for each frame of each
 * stack. */
static inline void sample_begin(struct tracelog_writer *w, uint64_t base_ns)
{
	struct sample s;
	uint32_t i, k;

	put(w, (struct trace_event){ .type = EVENT_PROCESS,
				     .time_ns = base_ns,
				     .process = { .pid = SAMPLE_PID,
						  .comm = "app",
						  .exe = "/usr/bin/app",
						  .cmdline = "app",
						  .realtime_ns = 1700000000000000000u,
						  .host = "box" } });
	put(w, sample_module(base_ns, 0, 0x555555554000, "/usr/bin/app"));
	put(w, sample_module(base_ns, 0, 0x7ffff7d00000, "/lib/libc.so.6"));
	for (i = 0; i < 2; i++)
		put(w, (struct trace_event){ .type = EVENT_WATCH,
					     .time_ns = base_ns,
					     .watch = { .id = i,
							.name = i ? "b" : "a",
							.full_name = i ? "b" : "a",
							.addr = SAMPLE_ADDR + i * 64,
							.size = 8,
							.access = ACCESS_READWRITE,
							.engine = "handler",
							.slot = -1 } });
	for (i = 0; i < SAMPLE_THREADS; i++) {
		char comm[16];

		snprintf(comm, sizeof(comm), "t%u", i);
		put(w,
		    (struct trace_event){
			    .type = EVENT_THREAD,
			    .time_ns = base_ns,
			    .thread = { .pid = SAMPLE_PID, .tid = SAMPLE_PID + (int32_t)i, .comm = comm } });
	}
	for (i = 0; i < SAMPLE_STACKS; i++) {
		sample_access(&s, i, base_ns);
		for (k = 0; k < SAMPLE_FRAMES; k++)
			put(w, (struct trace_event){ .type = EVENT_CODE,
						     .time_ns = base_ns,
						     .code = { .pc = s.frame[k],
							       .function_start = SAMPLE_TEXT,
							       .before_len = 1,
							       .before = { (uint8_t)s.frame[k] } } });
	}
	put(w, (struct trace_event){ .type = EVENT_NOTE, .time_ns = base_ns, .note = { "armed" } });
}

static inline void sample_put_accesses(struct tracelog_writer *w, uint64_t from, uint64_t to,
				       uint64_t base_ns)
{
	struct event_sink sink = tracelog_writer_sink(w);
	struct sample s;

	for (; from <= to; from++) {
		sample_access(&s, from, base_ns);
		OK(sink.put(sink.ctx, &s.e));
	}
}

#endif
