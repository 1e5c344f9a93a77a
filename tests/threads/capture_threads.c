/*
 * Threads that capture all the time, that come and go, and that register names, while logs are opened and
 * closed around them: for ThreadSanitizer, which sees the library, the thread that writes the log, and these.
 * Each log must be whole, and hold or count as lost what it says was captured.
 *
 *	capture_threads FOLDER [LOGS]
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stackwalk/stackwalk.h"
#include "watchctl/trace/log/tracelog.h"

#define STEADY 3
#define NOINLINE __attribute__((noinline, noclone))
#define NOT_A_TAIL_CALL __asm__ volatile("" ::: "memory")

static atomic_bool stop;

NOINLINE static void inner(uint64_t tag, uint64_t value)
{
	stackwalk_capture_value(tag, value);
	STACKWALK_TAG("named");
	NOT_A_TAIL_CALL;
}

NOINLINE static void outer(uint64_t tag, uint64_t value)
{
	uint64_t frame[16];
	enum stackwalk_end why;

	inner(tag, value);
	if (stackwalk_frames(frame, 16, &why) < 3)
		abort();
	NOT_A_TAIL_CALL;
}

static void *steady(void *arg)
{
	for (uint64_t i = 0; !atomic_load(&stop); i++) {
		outer((uint64_t)(uintptr_t)arg, i);
		if (i % 64 == 0)
			usleep(500);
	}
	return NULL;
}

static void *brief(void *arg)
{
	for (uint64_t i = 0; i < 20; i++)
		STACKWALK_TAG_VALUE("brief", i);
	return NULL;
}

static void require(bool claim, const char *what)
{
	if (claim)
		return;
	fprintf(stderr, "capture_threads: %s: %s\n", what, stackwalk_log_error());
	exit(1);
}

struct counts {
	uint64_t recorded, lost, counted;
};

static void read_log(const char *path, struct counts *ret)
{
	struct tracelog_reader *r = NULL;
	enum log_outcome outcome;
	struct trace_event e;

	require(!tracelog_reader_open(path, &r), "the log cannot be opened");
	for (;;) {
		require(!tracelog_next(r, &e, &outcome), "the log cannot be read");
		if (outcome != LOG_EVENT)
			break;
		if (e.type == EVENT_CAPTURE)
			ret->recorded++;
		if (e.type == EVENT_SUMMARY && e.summary.watch == WATCH_CAPTURES) {
			ret->counted += e.summary.counted;
			ret->lost += e.summary.lost;
		}
	}
	tracelog_reader_close(r);
}

static void one_log(const char *path, struct counts *ret)
{
	pthread_t thread;

	require(stackwalk_log_open(path, 16, 64 << 10) == 0, "the log cannot be made");
	for (int i = 0; i < 10; i++) {
		require(!pthread_create(&thread, NULL, brief, NULL), "a thread cannot be made");
		pthread_join(thread, NULL);
	}
	require(stackwalk_log_close() == 0, "the log cannot be closed");
	read_log(path, ret);
}

int main(int argc, char **argv)
{
	int logs = argc > 2 ? atoi(argv[2]) : 20;
	struct counts sum = { 0 };
	pthread_t thread[STEADY];
	char path[256];

	if (argc < 2)
		return 2;
	for (size_t i = 0; i < STEADY; i++)
		require(!pthread_create(&thread[i], NULL, steady, (void *)(uintptr_t)(100 + i)),
			"a thread cannot be made");
	for (int i = 0; i < logs; i++) {
		snprintf(path, sizeof(path), "%s/log-%d", argv[1], i);
		one_log(path, &sum);
	}
	atomic_store(&stop, true);
	for (size_t i = 0; i < STEADY; i++)
		pthread_join(thread[i], NULL);
	printf("%d logs: %llu captures recorded, %llu lost, %llu counted\n", logs,
	       (unsigned long long)sum.recorded, (unsigned long long)sum.lost,
	       (unsigned long long)sum.counted);
	require(sum.recorded && sum.recorded + sum.lost == sum.counted, "captures are missing");
	return 0;
}
