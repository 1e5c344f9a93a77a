/*
 * ring-gen - records as a flight recorder does, without a program to watch: accesses a microsecond apart,
 *whose values count up.
 *
 *	ring-gen LOG BYTES ACCESSES	0: until it is killed
 */
#include <stdio.h>
#include <stdlib.h>

#include "watchctl/base/clock.h"
#include "watchctl/trace/tracelog.h"

#define PID 4242
#define FRAMES 16
#define STACKS 50u
#define THREADS 4
#define FLUSH_NS 50000000u

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

	if (argc != 4) {
		fputs("usage: ring-gen LOG BYTES ACCESSES\n", stderr);
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
	for (uint64_t n = 1; !err && (!accesses || n <= accesses); n++) {
		err = put_access(tracelog_writer_sink(w), n, base + n * 1000);
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
