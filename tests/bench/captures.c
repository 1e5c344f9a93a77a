/*
 * captures - what a capture costs, with a real collector at work.
 *
 *	captures LOG
 *	captures LOG number|value COUNT		only makes so many captures of one stack, and prints nothing
 *
 * Opens LOG with the library itself, and captures in bursts that fit into the ring, with pauses in which the
 * collector empties it: what is measured is the program's side, and nothing is lost. Prints a line for each
 * row: its name, a tab, nanoseconds a capture (the median of the bursts).
 */
#include "tests/bench/captures.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "stackwalk/stackwalk.h"

#define BURSTS 41
#define IN_BURST 2000
#define THREADS 4

/* Of this thread alone: what others do on its CPU is not counted, what their cache lines cost it is. */
static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double measure(void (*run)(struct burst *), unsigned long n, int pause_ms)
{
	const struct timespec pause = { .tv_nsec = pause_ms * 1000000l };
	struct burst b = { .n = n };
	double took[BURSTS];
	int i;

	for (i = 0; i < BURSTS; i++) {
		double begin;

		if (pause_ms)
			nanosleep(&pause, NULL);
		begin = now_ns();
		run(&b);
		took[i] = (now_ns() - begin) / (double)n;
	}
	qsort(took, BURSTS, sizeof(*took), compare);
	return took[BURSTS / 2];
}

static void row(const char *name, double ns)
{
	printf("%s\t%.3f\n", name, ns);
	fflush(stdout);
}

static void *thread(void *ret)
{
	*(double *)ret = measure(run_capture_fp, IN_BURST, 40);
	return NULL;
}

/* More threads than CPUs: a shared cache line would show in the time of each. */
static double measure_threads(void)
{
	pthread_t t[THREADS];
	double ns[THREADS], sum = 0;
	int i;

	for (i = 0; i < THREADS; i++)
		if (pthread_create(&t[i], NULL, thread, &ns[i]))
			exit(1);
	for (i = 0; i < THREADS; i++) {
		pthread_join(t[i], NULL);
		sum += ns[i];
	}
	return sum / THREADS;
}

static __attribute__((noinline)) void capture_one(int with_value, unsigned long i)
{
	if (with_value)
		stackwalk_capture_value(7, i);
	else
		stackwalk_capture(7);
}

static int make(const char *log, int with_value, unsigned long count)
{
	const struct timespec pause = { .tv_nsec = 40000000 };
	unsigned long i;

	if (stackwalk_log_open(log, BENCH_FRAMES, 0) < 0) {
		fprintf(stderr, "captures: %s\n", stackwalk_log_error());
		return 1;
	}
	for (i = 0; i < count; i++) {
		if (i % IN_BURST == 0)
			nanosleep(&pause, NULL);
		capture_one(with_value, i);
	}
	return stackwalk_log_close() ? 1 : 0;
}

int main(int argc, char **argv)
{
	double loop;

	if (argc == 4)
		return make(argv[1], argv[2][0] == 'v', strtoul(argv[3], NULL, 10));
	if (argc != 2)
		return 2;
	loop = measure(run_loop_fp, 1000000, 0);
	row("disabled", measure(run_capture_fp, 1000000, 0) - loop);
	row("bare rbp loop", measure(run_bare, IN_BURST, 5));
	if (stackwalk_log_open(argv[1], BENCH_FRAMES, 0) < 0) {
		fprintf(stderr, "captures: %s\n", stackwalk_log_error());
		return 1;
	}
	row("capture, frame pointers", measure(run_capture_fp, IN_BURST, 40));
	row("capture, no frame pointers", measure(run_capture_nofp, IN_BURST, 40));
	row("capture, 4 threads", measure_threads());
	return stackwalk_log_close() ? 1 : 0;
}
