/*
 * probelog-gen - a log as `watchctl patch` writes it of a program with probes, without such a program.
 *
 *	probelog-gen [-n EVENTS] [-b FILE -f ADDRESS] LOG
 *
 * on_cas runs at two places and writes texts, on_len records a number and on_slow a stack; one more place was refused.
 * -b: the module is that file, and the code at that address of it, so that there are names. Of the events, number i has the
 * time 1000000 + 10 * i ns, the thread 78 + i % 3, and what its kind has: i itself is in it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/trace/log/tracelog.h"

#define PID 77
#define START 0x555555554000u
#define LOST 3

static struct event_sink sink;
static struct wc_error *failed;

static void put(struct trace_event e)
{
	if (!failed)
		failed = sink.put(sink.ctx, &e);
}

static void put_head(const char *file)
{
	int32_t tid;

	put((struct trace_event){ .type = EVENT_PROCESS,
				  .time_ns = 999000,
				  .process = { .pid = PID,
					       .comm = "app",
					       .exe = file,
					       .cmdline = "app -x",
					       .host = "box",
					       .realtime_ns = 1700000000000000000u } });
	for (tid = 78; tid < 81; tid++)
		put((struct trace_event){ .type = EVENT_THREAD,
					  .time_ns = 999100,
					  .thread = { PID, tid, "worker", 0, 0, 0, 0 } });
	put((struct trace_event){
		.type = EVENT_MODULE,
		.time_ns = 999200,
		.module = { .start = START, .end = START + 0x100000, .bias = START, .path = (char *)file } });
}

static void put_site(uint32_t id, const char *probe, uint64_t ip, enum probe_tactic tactic)
{
	struct trace_event e = { .type = EVENT_PROBE_SITE,
				 .time_ns = 999300,
				 .probe_site = { .id = id,
						 .pid = PID,
						 .probe = probe,
						 .pattern = "insn:lock cmpxchg",
						 .ip = ip,
						 .when = PROBE_BEFORE,
						 .tactic = tactic,
						 .ninsn = 4,
						 .insn = { 0xf0, 0x0f, 0xb1, 0x37 } } };

	if (tactic == PROBE_TACTIC_REFUSED)
		e.probe_site.why = "a jump leads into the middle of the instruction";
	put(e);
}

/* Some come late, as what a thread has buffered does. */
static struct trace_event event_of(uint64_t i)
{
	return (struct trace_event){
		.type = EVENT_PROBE,
		.time_ns = 1000000 + 10 * i - (i % 7 == 5 ? 25 : 0),
		.probe = { .site = (uint32_t)(i % 4), .pid = PID, .tid = (int32_t)(78 + i % 3) },
	};
}

static void put_event(uint64_t i, uint64_t ip)
{
	const uint64_t frame[] = { ip + 16 * (i % 4), ip + 64, ip + 96 };
	struct trace_event e = event_of(i);
	struct probe_event *p = &e.probe;

	p->kind = i % 4 == 2 ? PROBE_KIND_VALUE : i % 4 == 3 ? PROBE_KIND_STACK : PROBE_KIND_LOG;
	p->nargs = 1;
	p->arg[0] = i;
	if (p->kind == PROBE_KIND_STACK) {
		p->format = "slow";
		p->nframes = 3;
		p->frame = frame;
	} else if (p->kind == PROBE_KIND_LOG) {
		p->format = "cas %p: %d -> %u %s\n";
		p->nargs = 4;
		p->arg[0] = 0x7f0000001000;
		p->arg[1] = i % 2 ? UINT32_MAX : 0;
		p->arg[2] = i;
		p->strings = 8;
		p->unread = i % 8 == 1 ? 8 : 0;
		p->string[3] = p->unread ? NULL : "done";
	}
	put(e);
}

int main(int argc, char **argv)
{
	uint64_t n = 100, i, address = 0x1160;
	const char *file = "/nowhere/app";
	struct tracelog_writer *w = NULL;
	struct wc_error *err;
	int opt;

	while ((opt = getopt(argc, argv, "n:b:f:")) != -1) {
		if (opt == 'n')
			n = strtoull(optarg, NULL, 10);
		else if (opt == 'b')
			file = optarg;
		else if (opt == 'f')
			address = strtoull(optarg, NULL, 0);
		else
			return 2;
	}
	if (optind + 1 != argc)
		return 2;
	err = tracelog_writer_open(argv[optind], &w);
	if (!err) {
		sink = tracelog_writer_sink(w);
		put_head(file);
		put_site(0, "on_cas", START + address, PROBE_TACTIC_JUMP);
		put_site(1, "on_cas", START + address + 16, PROBE_TACTIC_PUN);
		put_site(2, "on_len", START + address + 32, PROBE_TACTIC_TRAP);
		put_site(3, "on_slow", START + address + 48, PROBE_TACTIC_NOP);
		put_site(4, "on_cas", START + address + 60, PROBE_TACTIC_REFUSED);
		for (i = 0; i < n; i++)
			put_event(i, START + address);
		for (i = 0; i < 4; i++)
			put((struct trace_event){ .type = EVENT_PROBE_TOTAL,
						  .time_ns = 2000000 + 10 * n,
						  .probe_total = { (uint32_t)i, 2 * n + i, i ? 0 : LOST } });
		err = failed;
		if (!err)
			err = tracelog_writer_close(w);
	}
	if (err)
		fprintf(stderr, "%s\n", err->text);
	return err != NULL;
}
