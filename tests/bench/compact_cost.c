/*
 * compact-cost - what entries and exits of functions cost whoever records and whoever reads: ns of CPU time and bytes
 * for an event, with what it takes to get the packets into the page cache; events read a second, from there; and to
 * find a time. Medians of five rounds.
 *
 *	compact-cost DIRECTORY [EVENTS]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/trace/calls/call_reader.h"
#include "watchctl/trace/calls/call_writer.h"
#include "watchctl/trace/log/tracelog.h"

#define ROUNDS 5
#define SEEKS 1000u
#define FUNCTIONS 20000u
#define BEGIN_NS 1000000u
#define STEP_NS 40u

struct round {
	double write_cpu, write_wall, bytes, read, seek_us;
};

static struct wc_error *write_events(const char *log, uint64_t n, struct round *ret)
{
	struct tracelog_writer *events;
	struct wc_error *err = tracelog_writer_open(log, &events);
	struct call_writer *w = NULL;
	struct call_stream s;
	uint64_t cpu, wall;

	if (!err)
		err = tracelog_writer_close(events);
	if (!err)
		err = call_writer_open(log, &w);
	if (!err)
		err = call_stream_open(w, 1, 1, &s);
	if (err)
		return err;
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	wall = monotonic_ns();
	for (uint64_t i = 0; i < n; i++)
		call_stream_put(&s, i & 1 ? CALL_EXIT : CALL_ENTRY, BEGIN_NS + i * STEP_NS,
				(uint32_t)(i * 2654435761u) % FUNCTIONS);
	err = call_stream_close(&s);
	ret->write_cpu = (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu) / (double)n;
	ret->write_wall = (double)(monotonic_ns() - wall) / (double)n;
	call_writer_close(w);
	return err;
}

static struct wc_error *read_events(const char *log, uint64_t n, struct round *ret)
{
	scoped(call_reader_closep) struct call_reader *r = NULL;
	uint64_t begin = monotonic_ns(), events = 0, entries = 0, last_ns = 0;
	struct wc_error *err = call_reader_open(log, &r);
	struct call_batch b;

	if (err)
		return err;
	while (call_reader_next(r, 0, &b)) {
		for (size_t i = 0; i < b.n; i++) {
			entries += b.what[i] == CALL_ENTRY;
			last_ns += b.time_ns[i] ^ b.function[i];
		}
		events += b.n;
	}
	ret->read = (double)events * 1000 / (double)(monotonic_ns() - begin);
	if (events != n || entries != (n + 1) / 2 || !last_ns)
		return wc_error_new(WC_ELOG, "%" PRIu64 " events came back of %" PRIu64, events, n);
	begin = monotonic_ns();
	for (uint64_t i = 0; i < SEEKS; i++) {
		uint64_t at = BEGIN_NS + i * 7919 % SEEKS * n / SEEKS * STEP_NS;

		call_reader_seek(r, 0, at);
		if (!call_reader_next(r, 0, &b) || b.time_ns[0] != at)
			return wc_error_new(WC_ELOG, "time %" PRIu64 " was not found", at);
	}
	ret->seek_us = (double)(monotonic_ns() - begin) / SEEKS / 1000;
	return NULL;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(const struct round *round, size_t member)
{
	double v[ROUNDS];

	for (int i = 0; i < ROUNDS; i++)
		memcpy(&v[i], (const char *)&round[i] + member, sizeof(*v));
	qsort(v, ROUNDS, sizeof(*v), compare);
	return v[ROUNDS / 2];
}

#define MEDIAN(member) median(round, offsetof(struct round, member))

static struct wc_error *measure(const char *directory, uint64_t n, struct round *ret)
{
	char log[4096], path[4200], command[4300];
	struct wc_error *err;
	struct stat st;

	snprintf(log, sizeof(log), "%s/compact", directory);
	err = write_events(log, n, ret);
	if (!err)
		err = read_events(log, n, ret);
	snprintf(path, sizeof(path), "%s/calls.0000000000", log);
	if (!err && stat(path, &st) < 0)
		err = wc_error_new(WC_ELOG, "no %s", path);
	if (!err)
		ret->bytes = (double)st.st_size / (double)n;
	snprintf(command, sizeof(command), "rm -rf '%s'", log);
	return system(command) ? &wc_enomem : err;
}

int main(int argc, char **argv)
{
	uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 20000000;
	struct round round[ROUNDS];

	if (argc < 2 || !n) {
		fprintf(stderr, "usage: compact-cost DIRECTORY [EVENTS]\n");
		return 2;
	}
	for (int i = 0; i < ROUNDS; i++) {
		struct wc_error *err = measure(argv[1], n, &round[i]);

		if (err) {
			fprintf(stderr, "compact-cost: %s\n", err->text);
			return 1;
		}
	}
	printf("write: %.2f ns of CPU time an event (%.2f ns elapsed), %.2f bytes each\n", MEDIAN(write_cpu),
	       MEDIAN(write_wall), MEDIAN(bytes));
	printf("read:  %.0f million events/s; a time is found in %.0f us\n", MEDIAN(read), MEDIAN(seek_us));
	return 0;
}
