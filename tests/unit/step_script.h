/* step_script - step logs written by tests of diff: a program with a few functions, run as the test says. */
#ifndef TESTS_UNIT_STEP_SCRIPT_H
#define TESTS_UNIT_STEP_SCRIPT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/trace/call_values.h"
#include "watchctl/trace/log/tracelog.h"

enum {
	T_INT,
	T_SIZE,
	T_VOID,
	T_POINTER,
	T_CSTRING,
	T_CHAR,
	T_BUFFER,
	T_DOUBLE,
	T_PID,
	T_REGISTER,
	T_STATE,
	T_STATE_P
};

/* Functions: two parameters at most. */
enum {
	FN_MAIN,
	FN_WORK,
	FN_STEP,
	FN_MALLOC,
	FN_READ,
	FN_TIME,
	FN_LOCK,
	FN_HANDLER,
	FN_RAW,
	FN_KILL,
	FN_UPDATE,
	FN_CREATE,
	FN_MATCH,
	FN_FILL,
	FUNCTIONS
};

/* The file of the runs that begin next. */
static const char *step_script_program = "/bin/prog";

/* RECORDING_CHANGED_ of the runs that begin next. */
static uint8_t step_script_changes;

struct run {
	struct tracelog_writer *w;
	struct event_sink sink;
	uint64_t base, heap, stack; /* where things lie in this run */
	int32_t pid, tid;	    /* of the events that come next */
	uint64_t time, call, open[16];
	uint32_t functions[16];
	uint32_t depth;
	uint8_t values[256];
	size_t len;
};

struct state {
	int32_t a, pad;
	uint64_t p;
	int64_t b;
};

static inline void put(struct run *r, struct trace_event e)
{
	struct wc_error *err;

	e.time_ns = r->time += 1000;
	err = r->sink.put(r->sink.ctx, &e);
	if (err)
		fail_msg("%s", err->text);
}

static inline void report_type(struct run *r, uint32_t id, enum type_kind kind, uint32_t size,
			       const char *name, uint32_t target)
{
	put(r,
	    (struct trace_event){
		    .type = EVENT_TYPE,
		    .type_info = { .id = id, .kind = kind, .size = size, .name = name, .target = target } });
}

static inline void report_types(struct run *r)
{
	static const struct type_member members[] = { { "a", T_INT, 0, 0, 0 },
						      { "p", T_POINTER, 8, 0, 0 },
						      { "b", T_SIZE, 16, 0, 0 } };

	report_type(r, T_INT, TYPE_SIGNED, 4, "int", NO_TYPE);
	report_type(r, T_SIZE, TYPE_UNSIGNED, 8, "unsigned long", NO_TYPE);
	report_type(r, T_VOID, TYPE_VOID, 0, "void", NO_TYPE);
	report_type(r, T_POINTER, TYPE_POINTER, 8, "void *", T_VOID);
	report_type(r, T_CHAR, TYPE_CHAR, 1, "char", NO_TYPE);
	report_type(r, T_CSTRING, TYPE_STRING, 8, "const char *", T_CHAR);
	report_type(r, T_BUFFER, TYPE_STRING, 8, "char *", T_CHAR);
	report_type(r, T_DOUBLE, TYPE_FLOAT, 8, "double", NO_TYPE);
	report_type(r, T_PID, TYPE_SIGNED, 4, "pid_t", NO_TYPE);
	report_type(r, T_REGISTER, TYPE_REGISTER, 8, NULL, NO_TYPE);
	put(r, (struct trace_event){ .type = EVENT_TYPE,
				     .type_info = { .id = T_STATE,
						    .kind = TYPE_STRUCT,
						    .size = sizeof(struct state),
						    .name = "struct state",
						    .target = NO_TYPE,
						    .nmembers = 3,
						    .member = members } });
	report_type(r, T_STATE_P, TYPE_POINTER, 8, "struct state *", T_STATE);
}

static inline void report_function(struct run *r, uint32_t id, const char *name, uint32_t flags,
				   uint32_t result, const struct function_param *p, uint32_t n,
				   const char *build)
{
	put(r, (struct trace_event){
		       .type = EVENT_FUNCTION,
		       .function = { .id = id,
				     .name = name,
				     .flags = flags,
				     .module = flags & FUNCTION_OVER ? "/lib/libc.so.6" : step_script_program,
				     .build_id = (const uint8_t *)build,
				     .build_id_len = 4,
				     .address = 0x1000 + id * 0x100,
				     .size = 0x100,
				     .return_type = result,
				     .nparams = n,
				     .param = p } });
}

static inline void report_functions(struct run *r, const char *build)
{
	static const struct function_param fill[] = { { "out", T_BUFFER } };
	static const struct function_param match[] = { { "text", T_CSTRING }, { "length", T_SIZE } };
	static const struct function_param n[] = { { "n", T_INT }, { "text", T_CSTRING } },
					   size[] = { { "size", T_SIZE } },
					   reads[] = { { "fd", T_INT }, { "buf", T_BUFFER } },
					   raw[] = { { "rdi", T_REGISTER } },
					   lock[] = { { "mutex", T_POINTER } },
					   share[] = { { "share", T_DOUBLE } },
					   kills[] = { { "pid", T_PID } }, update[] = { { "s", T_STATE_P } };

	report_function(r, FN_MAIN, "main", 0, T_INT, NULL, 0, build);
	report_function(r, FN_WORK, "work", 0, T_INT, n, 2, build);
	report_function(r, FN_STEP, "step", 0, T_VOID, share, 1, build);
	report_function(r, FN_MALLOC, "malloc", FUNCTION_OVER, T_POINTER, size, 1, build);
	report_function(r, FN_READ, "read", FUNCTION_OVER, T_SIZE, reads, 2, build);
	report_function(r, FN_TIME, "time", FUNCTION_OVER, T_SIZE, NULL, 0, build);
	report_function(r, FN_LOCK, "pthread_mutex_lock", FUNCTION_OVER, T_INT, lock, 1, build);
	report_function(r, FN_HANDLER, "handler", 0, T_VOID, NULL, 0, build);
	report_function(r, FN_RAW, NULL, FUNCTION_NO_TYPES, T_REGISTER, raw, 1, build);
	report_function(r, FN_KILL, "kill", FUNCTION_OVER, T_INT, kills, 1, build);
	report_function(r, FN_MATCH, "match", 0, T_VOID, match, 2, build);
	report_function(r, FN_FILL, "fill", 0, T_VOID, fill, 1, build);
	report_function(r, FN_CREATE, "pthread_create", FUNCTION_OVER, T_INT, NULL, 0, build);
	report_function(r, FN_UPDATE, "update", 0, T_VOID, update, 1, build);
}

static inline void run_thread(struct run *r, int32_t tid, const char *comm, int32_t creator,
			      uint64_t creating_call)
{
	put(r, (struct trace_event){ .type = EVENT_THREAD,
				     .thread = { .pid = r->pid,
						 .tid = tid,
						 .comm = comm,
						 .creator = creator,
						 .creating_call = creating_call } });
}

/* Run number @seed: its addresses, numbers and times are others than those of any other. */
static inline struct run run_begin(const char *path, uint32_t seed, const char *filters, const char *build)
{
	struct run r = { .base = 0x555500000000 + seed * 0x10000000ull,
			 .heap = 0x555600000000 + seed * 0x30000000ull,
			 .stack = 0x7ffc00000000 + seed * 0x1000000ull,
			 .pid = 4000 + (int32_t)seed * 17,
			 .time = 1000000u * seed };
	struct wc_error *err = tracelog_writer_open(path, &r.w);

	if (err)
		fail_msg("%s", err->text);
	r.tid = r.pid;
	r.sink = tracelog_writer_sink(r.w);
	put(&r, (struct trace_event){ .type = EVENT_PROCESS,
				      .process = { .pid = r.pid,
						   .comm = "prog",
						   .exe = step_script_program,
						   .cmdline = "prog" } });
	put(&r, (struct trace_event){ .type = EVENT_MODULE,
				      .module = { .start = r.base,
						  .end = r.base + 0x10000,
						  .bias = r.base,
						  .path = (char *)step_script_program,
						  .build_id = { build[0], build[1], build[2], build[3] },
						  .build_id_len = 4 } });
	put(&r, (struct trace_event){ .type = EVENT_RECORDING,
				      .recording = { "ptrace", "test", "from main", filters, false,
						     .changes = step_script_changes } });
	put(&r,
	    (struct trace_event){ .type = EVENT_REGION,
				  .region = { r.pid, REGION_HEAP, r.heap, r.heap + 0x100000, "[heap]" } });
	put(&r,
	    (struct trace_event){ .type = EVENT_REGION,
				  .region = { r.pid, REGION_STACK, r.stack, r.stack + 0x21000, "[stack]" } });
	run_thread(&r, r.pid, "prog", 0, 0);
	report_types(&r);
	report_functions(&r, build);
	return r;
}

static inline void run_end(struct run *r)
{
	struct wc_error *err = tracelog_writer_close(r->w);

	if (err)
		fail_msg("%s", err->text);
}

/* Values of the call or return that comes next */

static inline void value(struct run *r, enum type_kind kind, const void *bytes, uint32_t size, const char *to)
{
	struct call_value v = { .state = VALUE_OK,
				.bytes = bytes,
				.size = size,
				.to_state = to ? VALUE_OK : VALUE_NONE,
				.to = (const uint8_t *)to,
				.to_len = to ? (uint32_t)strlen(to) : 0 };

	assert_true(call_values_put(r->values, sizeof(r->values), &r->len, kind, &v));
}

static inline void arg_int(struct run *r, int32_t v)
{
	value(r, TYPE_SIGNED, &v, 4, NULL);
}

static inline void arg_long(struct run *r, uint64_t v)
{
	value(r, TYPE_UNSIGNED, &v, 8, NULL);
}

static inline void arg_double(struct run *r, double v)
{
	value(r, TYPE_FLOAT, &v, 8, NULL);
}

static inline void arg_pointer(struct run *r, uint64_t v)
{
	value(r, TYPE_POINTER, &v, 8, NULL);
}

static inline void arg_text(struct run *r, uint64_t at, const char *text)
{
	value(r, TYPE_STRING, &at, 8, text);
}

static inline void arg_state(struct run *r, uint64_t at, const struct state *s)
{
	struct call_value v = { .state = VALUE_OK,
				.bytes = (const uint8_t *)&at,
				.size = 8,
				.to_state = VALUE_OK,
				.to = (const uint8_t *)s,
				.to_len = sizeof(*s) };

	assert_true(call_values_put(r->values, sizeof(r->values), &r->len, TYPE_POINTER, &v));
}

/* The text that the next return has for the variable, or member, @name. */
static inline void change(struct run *r, enum return_extra_kind kind, uint32_t type, const char *name,
			  const void *bytes, uint32_t len)
{
	const struct return_extra e = { .kind = kind,
					.type = type,
					.name = name,
					.name_len = (uint8_t)strlen(name),
					.bytes = bytes,
					.len = len };

	assert_true(return_extra_put(r->values, sizeof(r->values), &r->len, &e));
}

/* Enters a function from @site in the program, with the values reported before. Returns the call's number. */
static inline uint64_t enter_at(struct run *r, uint32_t function, uint32_t site, uint8_t flags)
{
	const uint64_t frame[] = { r->base + site };

	put(r, (struct trace_event){ .type = EVENT_CALL,
				     .call = { .call = ++r->call,
					       .parent = r->depth ? r->open[r->depth - 1] : 0,
					       .pid = r->pid,
					       .tid = r->tid,
					       .function = function,
					       .depth = (uint16_t)r->depth,
					       .flags = flags,
					       .sp = r->stack + 0x20000 - r->depth * 0x100,
					       .nframes = 1,
					       .frame = frame,
					       .values = r->values,
					       .values_len = (uint32_t)r->len } });
	r->len = 0;
	r->functions[r->depth] = function;
	r->open[r->depth++] = r->call;
	return r->call;
}

static inline uint64_t enter(struct run *r, uint32_t function)
{
	return enter_at(r, function, 0x1010 + function, 0);
}

static inline void leave_how(struct run *r, enum return_how how, int32_t error)
{
	r->depth--;
	put(r, (struct trace_event){ .type = EVENT_RETURN,
				     .ret = { .call = r->open[r->depth],
					      .pid = r->pid,
					      .tid = r->tid,
					      .function = r->functions[r->depth],
					      .how = how,
					      .has_error = error != 0,
					      .error = error,
					      .values = r->values,
					      .values_len = (uint32_t)r->len } });
	r->len = 0;
}

static inline void leave(struct run *r)
{
	leave_how(r, RETURN_RETURNED, 0);
}

/* Whole calls */

static inline void call_work(struct run *r, int32_t n, const char *text, int32_t result)
{
	arg_int(r, n);
	arg_text(r, r->base + 0x8000, text);
	enter(r, FN_WORK);
	arg_int(r, result);
	leave(r);
}

static inline void call_malloc(struct run *r, uint64_t size, uint64_t offset)
{
	arg_long(r, size);
	enter(r, FN_MALLOC);
	arg_pointer(r, offset ? r->heap + offset : 0);
	leave_how(r, RETURN_RETURNED, offset ? 0 : 12);
}

static inline void call_read(struct run *r, int32_t fd, int64_t result)
{
	char rest[12];

	/* What the buffer held before is of no interest. */
	snprintf(rest, sizeof(rest), "%d", r->pid);
	arg_int(r, fd);
	arg_text(r, r->heap + 64, rest);
	enter(r, FN_READ);
	arg_long(r, (uint64_t)result);
	leave(r);
}

static inline void call_time(struct run *r)
{
	enter(r, FN_TIME);
	arg_long(r, 1700000000 + r->time);
	leave(r);
}

#endif
