/*
 * ring-gen - records as a flight recorder does, without a program to watch: accesses a microsecond apart,
 * whose values count up.
 *
 *	ring-gen LOG BYTES ACCESSES	0: until it is killed
 *	ring-gen LOG BYTES ACCESSES all	and every tenth with all that else comes in great numbers: a capture,
 *					a call, an instruction, and its return
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/clock.h"
#include "watchctl/trace/log/tracelog.h"

#define PID 4242
#define FRAMES 16
#define STACKS 50u
#define THREADS 4
#define FLUSH_NS 50000000u
#define TAGS 3u
#define OTHERS_EVERY 10u

static struct wc_error *begin(struct event_sink log, uint64_t now)
{
	struct trace_event e = { .type = EVENT_PROCESS,
				 .time_ns = now,
				 .process = { .pid = PID, .comm = "app", .exe = "/app", .cmdline = "app" } };
	struct wc_error *err = log.put(log.ctx, &e);

	for (uint32_t i = 0; i < 2 && !err; i++) {
		e = (struct trace_event){
			.type = EVENT_WATCH,
			.time_ns = now,
			.watch = { .id = i, .name = "flag", .addr = 0x404010 + 64 * i, .size = 8, .slot = -1 }
		};
		err = log.put(log.ctx, &e);
	}
	for (int32_t i = 0; i < THREADS && !err; i++) {
		e = (struct trace_event){ .type = EVENT_THREAD,
					  .time_ns = now,
					  .thread = { .pid = PID, .tid = PID + i, .comm = "worker" } };
		err = log.put(log.ctx, &e);
	}
	return err;
}

/* What captures and calls refer to. */
static struct wc_error *begin_others(struct event_sink log, uint64_t now)
{
	static const char *const name[TAGS] = { "request", "cache-miss", NULL };
	static const struct function_param param = { "n", 0 };
	struct trace_event e = {
		.type = EVENT_RECORDING,
		.time_ns = now,
		.recording = { .stepper = "none", .planner = "none", .range = "all", .filters = "" }
	};
	struct wc_error *err = log.put(log.ctx, &e);

	e = (struct trace_event){
		.type = EVENT_TYPE,
		.time_ns = now,
		.type_info = { .kind = TYPE_SIGNED, .size = 4, .name = "int", .target = NO_TYPE }
	};
	if (!err)
		err = log.put(log.ctx, &e);
	e = (struct trace_event){ .type = EVENT_FUNCTION,
				  .time_ns = now,
				  .function = { .name = "serve",
						.module = "/app",
						.file = "app.c",
						.nparams = 1,
						.param = &param } };
	if (!err)
		err = log.put(log.ctx, &e);
	for (uint32_t i = 0; i < TAGS && !err; i++) {
		e = (struct trace_event){ .type = EVENT_TAG,
					  .time_ns = now,
					  .tag = { .id = i, .name = name[i], .number = 42 } };
		err = log.put(log.ctx, &e);
	}
	return err;
}

static struct wc_error *put_capture(struct event_sink log, uint64_t n, uint64_t time_ns)
{
	const uint64_t frame[] = { 0x401100 + n % STACKS, 0x401200 };
	const struct trace_event e = { .type = EVENT_CAPTURE,
				       .time_ns = time_ns - n % 2, /* every other one comes late */
				       .capture = { .tag = (uint32_t)(n / OTHERS_EVERY % TAGS),
						    .pid = PID,
						    .tid = PID + (int32_t)(n % THREADS),
						    .has_value = n / OTHERS_EVERY % 2,
						    .value = n / OTHERS_EVERY % 2 ? n : 0,
						    .nframes = 2,
						    .frame = frame } };

	return log.put(log.ctx, &e);
}

/* A call with its number for a parameter, an instruction in it, and its return, every other time with an
 * error. */
static struct wc_error *put_call(struct event_sink log, uint64_t n, uint64_t time_ns)
{
	const uint64_t frame[] = { 0x401200, 0x401300 + n % STACKS };
	const int32_t pid = PID, tid = PID + (int32_t)(n % THREADS);
	const uint32_t number = (uint32_t)n;
	uint8_t values[1 + sizeof(number)] = { 0 };
	struct trace_event e = { .type = EVENT_CALL, .time_ns = time_ns };
	struct wc_error *err;

	memcpy(values + 1, &number, sizeof(number));
	e.call = (struct call_event){ .call = n,
				      .pid = pid,
				      .tid = tid,
				      .flags = CALL_FIRST,
				      .sp = 0x7ffffff0,
				      .nframes = 2,
				      .frame = frame,
				      .values = values,
				      .values_len = sizeof(values) };
	err = log.put(log.ctx, &e);
	e = (struct trace_event){ .type = EVENT_STEP,
				  .time_ns = time_ns,
				  .step = { .pid = pid, .tid = tid, .call = n, .ip = 0x401400 + n } };
	if (!err)
		err = log.put(log.ctx, &e);
	e = (struct trace_event){ .type = EVENT_RETURN,
				  .time_ns = time_ns,
				  .ret = { .call = n,
					   .pid = pid,
					   .tid = tid,
					   .how = RETURN_RETURNED,
					   .has_error = n / OTHERS_EVERY % 2,
					   .error = n / OTHERS_EVERY % 2 ? 2 : 0 } };
	return err ? err : log.put(log.ctx, &e);
}

static struct wc_error *put_others(struct event_sink log, uint64_t n, uint64_t time_ns)
{
	struct wc_error *err = put_capture(log, n, time_ns);

	return err ? err : put_call(log, n, time_ns);
}

static struct wc_error *put_access(struct event_sink log, uint64_t n, uint64_t time_ns)
{
	struct trace_event e = { .type = EVENT_ACCESS, .time_ns = time_ns };
	struct access_event *a = &e.access;
	uint64_t frame[FRAMES];

	*a = (struct access_event){ .watch = n % 2,
				    .pid = PID,
				    .tid = PID + (int32_t)(n % THREADS),
				    .addr = 0x404010 + 64 * (n % 2),
				    .size = 8,
				    .has_old = true,
				    .has_new = true,
				    .old_value = n - 1,
				    .new_value = n,
				    .syscall = -1,
				    .nframes = FRAMES,
				    .frame = frame };
	for (unsigned int i = 0; i < FRAMES; i++)
		frame[i] = 0x401000 + n * 7 % STACKS + 256 * i;
	for (unsigned int i = 0; i < WREG_COUNT; i++)
		a->regs.r[i] = n * 1000 + i;
	a->regs.r[WREG_RIP] = frame[0];
	return log.put(log.ctx, &e);
}

int main(int argc, char **argv)
{
	struct tracelog_bounds b = { 0 };
	uint64_t accesses, base = monotonic_ns(), flushed = base;
	struct tracelog_writer *w;
	struct wc_error *err;
	bool all;

	all = argc == 5 && !strcmp(argv[4], "all");
	if (argc != 4 && !all) {
		fputs("usage: ring-gen LOG BYTES ACCESSES [all]\n", stderr);
		return 2;
	}
	b.bytes = strtoull(argv[2], NULL, 10);
	accesses = strtoull(argv[3], NULL, 10);
	err = tracelog_writer_open_ring(argv[1], &b, &w);
	if (err) {
		fprintf(stderr, "ring-gen: %s\n", err->text);
		return 1;
	}
	err = begin(tracelog_writer_sink(w), base);
	if (!err && all)
		err = begin_others(tracelog_writer_sink(w), base);
	for (uint64_t n = 1; !err && (!accesses || n <= accesses); n++) {
		err = put_access(tracelog_writer_sink(w), n, base + n * 1000);
		if (!err && all && n % OTHERS_EVERY == 0)
			err = put_others(tracelog_writer_sink(w), n, base + n * 1000);
		if (!err && n % 64 == 0 && monotonic_ns() - flushed > FLUSH_NS) {
			err = tracelog_writer_flush(w);
			flushed = monotonic_ns();
		}
	}
	err = wc_error_first(err, tracelog_writer_close(w));
	if (err)
		fprintf(stderr, "ring-gen: %s\n", err->text);
	return err != NULL;
}
