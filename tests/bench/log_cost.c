/*
 * log-cost - what the log costs whoever records and whoever reads: ns of CPU time and bytes for an access
 * with registers and a stack of 16 frames, as a log without bounds and as a flight recorder; and events
 * read a second.
 *
 *	log-cost DIRECTORY [ACCESSES] [STACKS]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/trace/log/tracelog.h"

#define FRAMES 16
#define THREADS 4
#define RING_BYTES (64u << 20)
#define PID 4242
#define ADDR 0x555555558010u
#define TEXT 0x555555555000u

struct measured {
	const char *what;
	uint64_t accesses, stacks;
	uint64_t cpu_ns, wall_ns, bytes, events, read_ns;
};

static struct wc_error *begin(struct event_sink log, uint64_t stacks)
{
	struct trace_event e = { .type = EVENT_PROCESS,
				 .time_ns = 1,
				 .process = { .pid = PID, .comm = "app", .exe = "/app", .cmdline = "app" } };
	struct wc_error *err = log.put(log.ctx, &e);

	e = (struct trace_event){ .type = EVENT_WATCH,
				  .time_ns = 1,
				  .watch = { .name = "flag", .addr = ADDR, .size = 4, .slot = -1 } };
	if (!err)
		err = log.put(log.ctx, &e);
	for (int32_t i = 0; i < THREADS && !err; i++) {
		e = (struct trace_event){ .type = EVENT_THREAD,
					  .time_ns = 1,
					  .thread = { .pid = PID, .tid = PID + i, .comm = "worker" } };
		err = log.put(log.ctx, &e);
	}
	for (uint64_t i = 0; i < stacks && !err; i++) {
		e = (struct trace_event){ .type = EVENT_CODE,
					  .time_ns = 1,
					  .code = { .pc = TEXT + i, .before_len = 6, .at_len = 4 } };
		err = log.put(log.ctx, &e);
	}
	return err;
}

static struct wc_error *put_accesses(struct event_sink log, const struct measured *m)
{
	struct trace_event e = { .type = EVENT_ACCESS };
	struct access_event *a = &e.access;
	struct wc_error *err = NULL;
	uint64_t frame[FRAMES];

	a->pid = PID;
	a->addr = ADDR;
	a->size = 4;
	a->has_old = a->has_new = true;
	a->nframes = FRAMES;
	a->frame = frame;
	for (uint64_t n = 0; n < m->accesses && !err; n++) {
		uint64_t stack = n * 2654435761u % m->stacks;

		e.time_ns = 1000 + n * 5000;
		a->tid = PID + (int32_t)(n % THREADS);
		a->old_value = n;
		a->new_value = n + 1;
		for (unsigned int i = 0; i < FRAMES; i++)
			frame[i] = TEXT + stack + 64 * i;
		for (unsigned int i = 0; i < WREG_COUNT; i++)
			a->regs.r[i] = n + i;
		a->regs.r[WREG_RIP] = frame[0];
		err = log.put(log.ctx, &e);
	}
	return err;
}

static struct wc_error *read_it(const char *path, struct measured *m)
{
	scoped(tracelog_reader_closep) struct tracelog_reader *r = NULL;
	enum log_outcome outcome = LOG_EVENT;
	uint64_t begun = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	struct wc_error *err = tracelog_reader_open(path, &r);
	struct trace_event e;

	while (!err) {
		err = tracelog_next(r, &e, &outcome);
		if (err || outcome != LOG_EVENT)
			break;
		m->events++;
	}
	m->read_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun;
	return err;
}

/* What the generator itself costs is taken off: it stands for the engine. */
static struct wc_error *put_nothing(void *ctx, const struct trace_event *e)
{
	*(volatile uint64_t *)ctx = e->time_ns;
	return NULL;
}

static uint64_t generator_ns(const struct measured *m)
{
	volatile uint64_t last;
	struct event_sink nowhere = { put_nothing, (void *)&last };
	uint64_t begun = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	wc_error_free(put_accesses(nowhere, m));
	return clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun;
}

static struct wc_error *measure(const char *path, const struct tracelog_bounds *b, struct measured *m)
{
	uint64_t cpu, wall, generator = generator_ns(m);
	struct tracelog_writer *w;
	struct wc_error *err;
	char events[4200];
	struct stat st;

	err = b ? tracelog_writer_open_ring(path, b, &w) : tracelog_writer_open(path, &w);
	if (err)
		return err;
	err = begin(tracelog_writer_sink(w), m->stacks);
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	wall = monotonic_ns();
	if (!err)
		err = put_accesses(tracelog_writer_sink(w), m);
	err = wc_error_first(err, tracelog_writer_close(w));
	m->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	m->wall_ns = monotonic_ns() - wall;
	m->cpu_ns -= generator < m->cpu_ns ? generator : m->cpu_ns;
	snprintf(events, sizeof(events), "%s/events", path);
	if (!b && stat(events, &st) == 0)
		m->bytes = (uint64_t)st.st_size;
	return err ? err : read_it(path, m);
}

static void print(const struct measured *m)
{
	double n = (double)m->accesses;

	printf("%-16s %.0f ns of CPU time to write an access (%.0f ns elapsed)", m->what,
	       (double)m->cpu_ns / n, (double)m->wall_ns / n);
	if (m->bytes)
		printf(", %.1f bytes each (%" PRIu64 " stacks)", (double)m->bytes / n, m->stacks);
	printf("; read: %.2f million events/s\n",
	       m->read_ns ? (double)m->events * 1e3 / (double)m->read_ns : 0);
}

int main(int argc, char **argv)
{
	const struct tracelog_bounds ring = { .bytes = RING_BYTES };
	struct measured m[2] = { { .what = "without bounds:" }, { .what = "ring of 64 MiB:" } };
	char path[4096];

	if (argc < 2) {
		fputs("usage: log-cost DIRECTORY [ACCESSES] [STACKS]\n", stderr);
		return 2;
	}
	for (int i = 0; i < 2; i++) {
		struct wc_error *err;

		m[i].accesses = argc > 2 ? strtoull(argv[2], NULL, 10) : 2000000;
		m[i].stacks = argc > 3 ? strtoull(argv[3], NULL, 10) : 1000;
		snprintf(path, sizeof(path), "%s/%s", argv[1], i ? "ring" : "plain");
		err = measure(path, i ? &ring : NULL, &m[i]);
		if (err) {
			fprintf(stderr, "log-cost: %s\n", err->text);
			return 1;
		}
		print(&m[i]);
	}
	return 0;
}
