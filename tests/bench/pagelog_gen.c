/*
 * Writes a log of accesses of any length: four threads that count up, look at and reset two variables, from a
 * few dozens of places with stacks of 16 frames. What is in it is known by the arguments alone.
 *
 *	pagelog-gen [-n ACCESSES] [-c CAPTURES] [-t THREADS] LOG
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/trace/log/tracelog.h"

#define CODE 0x401000u
#define PLACES 48u
#define FRAMES 16u
#define PID 4711

static struct event_sink sink;

static void put(const struct trace_event *e)
{
	struct wc_error *err = sink.put(sink.ctx, e);

	if (err) {
		fprintf(stderr, "%s\n", err->text);
		exit(1);
	}
}

static void put_head(unsigned int threads)
{
	struct enumerator states[] = { { (char *)"IDLE", 0 }, { (char *)"BUSY", 1 }, { (char *)"DONE", 2 } };
	unsigned int i;

	put(&(struct trace_event){ .type = EVENT_PROCESS,
				   .time_ns = 1000000000,
				   .process = { .pid = PID,
						.comm = "generated",
						.exe = "/no/such/program",
						.cmdline = "program --generated",
						.host = "nowhere",
						.realtime_ns = 1700000000000000000u } });
	for (i = 0; i < threads; i++) {
		char comm[32];

		snprintf(comm, sizeof(comm), "worker-%u", i);
		put(&(struct trace_event){
			.type = EVENT_THREAD,
			.time_ns = 1000000000,
			.thread = { .pid = PID, .tid = (int32_t)(PID + i), .comm = comm } });
	}
	put(&(struct trace_event){ .type = EVENT_MODULE,
				   .time_ns = 1000000000,
				   .module = { .start = 0x400000,
					       .end = 0x500000,
					       .bias = 0x400000,
					       .path = (char *)"/no/such/program" } });
	for (i = 0; i < 2; i++) {
		struct trace_event e = { .type = EVENT_WATCH, .time_ns = 1000001000 };

		e.watch = (struct watch_event){ .id = i,
						.name = i ? "state" : "counter",
						.full_name = i ? "state" : "counter",
						.addr = 0x404010 + 16 * i,
						.size = i ? 4 : 8,
						.access = ACCESS_READWRITE,
						.engine = "handler",
						.threads = threads,
						.threads_armed = threads,
						.verified = true,
						.slot = -1 };
		e.watch.type.kind = i ? VALUE_ENUM : VALUE_UNSIGNED;
		e.watch.type.name = (char *)(i ? "enum state" : "unsigned long");
		if (i) {
			e.watch.type.enumerators = states;
			e.watch.type.nenumerators = 3;
		}
		put(&e);
	}
	/* Even places store eax through rdi, odd ones load it. */
	for (i = 0; i < PLACES; i++) {
		struct trace_event e = { .type = EVENT_CODE, .time_ns = 1000001000 };

		e.code.pc = CODE + i * 64 + 2;
		e.code.before_len = 2;
		memcpy(e.code.before, i % 2 ? "\x8b\x07" : "\x89\x07", 2);
		put(&e);
	}
	for (i = 0; i < 2; i++)
		put(&(struct trace_event){
			.type = EVENT_TAG, .time_ns = 1000001000, .tag = { i, i ? "begin" : "end", 0 } });
}

static uint64_t seed = 88172645463325252u;

static uint64_t next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	return seed ^= seed << 17;
}

static void put_access(uint64_t time_ns, unsigned int threads, uint64_t *value)
{
	uint64_t r = next_random(), frame[FRAMES];
	uint32_t watch = r % 10 == 0, place = (uint32_t)(r >> 8) % PLACES, i;
	struct trace_event e = { .type = EVENT_ACCESS, .time_ns = time_ns };
	uint64_t old = value[watch];

	if (place % 2 == 0)
		value[watch] = watch ? (old + 1) % 3 : (r >> 40) % 50000 == 0 ? 0 : old + 1;
	frame[0] = CODE + place * 64 + 2;
	for (i = 1; i < FRAMES; i++)
		frame[i] = 0x410000 + i * 4096 + (i < 4 ? (place >> i) * 32 : 0) + 5;
	e.access = (struct access_event){ .watch = watch,
					  .pid = PID,
					  .tid = (int32_t)(PID + (r >> 20) % threads),
					  .addr = 0x404010 + 16 * watch,
					  .size = watch ? 4 : 8,
					  .has_old = true,
					  .has_new = true,
					  .old_value = old,
					  .new_value = value[watch],
					  .walk_end = WALK_END_COMPLETE,
					  .nframes = FRAMES,
					  .frame = frame };
	for (i = 0; i < WREG_COUNT; i++)
		e.access.regs.r[i] = 0x7ffc00000000u + (i < 6 ? r >> (i + 20) : i);
	e.access.regs.r[WREG_RIP] = frame[0];
	e.access.regs.r[WREG_RDI] = e.access.addr;
	e.access.regs.r[WREG_RAX] = value[watch];
	put(&e);
}

static void put_capture(uint64_t time_ns, unsigned int threads)
{
	uint64_t r = next_random(), frame[4] = { 0x420005, 0x421005, 0x422005, 0x423005 };

	put(&(struct trace_event){ .type = EVENT_CAPTURE,
				   .time_ns = time_ns,
				   .capture = { .tag = r % 2,
						.pid = PID,
						.tid = (int32_t)(PID + (r >> 20) % threads),
						.has_value = true,
						.value = r % 100,
						.walk_end = WALK_END_COMPLETE,
						.nframes = 4,
						.frame = frame } });
}

int main(int argc, char **argv)
{
	uint64_t n = 1000000, captures = 0, i, time_ns = 1000002000, value[2] = { 0 };
	struct tracelog_writer *w = NULL;
	unsigned int threads = 4;
	struct wc_error *err;
	int opt;

	while ((opt = getopt(argc, argv, "n:c:t:")) != -1) {
		if (opt == 'n')
			n = strtoull(optarg, NULL, 10);
		else if (opt == 'c')
			captures = strtoull(optarg, NULL, 10);
		else if (opt == 't')
			threads = (unsigned int)strtoul(optarg, NULL, 10);
		else
			return 2;
	}
	if (optind + 1 != argc || !threads)
		return 2;
	err = tracelog_writer_open(argv[optind], &w);
	if (!err) {
		sink = tracelog_writer_sink(w);
		put_head(threads);
		for (i = 0; i < n; i++) {
			put_access(time_ns, threads, value);
			time_ns += 2000 + next_random() % 6000;
		}
		for (i = 0; i < captures; i++, time_ns += 1000)
			put_capture(time_ns, threads);
		err = tracelog_writer_close(w);
	}
	if (err)
		fprintf(stderr, "%s\n", err->text);
	return err != NULL;
}
