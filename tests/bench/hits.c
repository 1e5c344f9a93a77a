/*
 * hits - writes one variable as fast as it can, 16 frames deep, and says what a write costs by its own
 * clock: whoever watches the variable is measured by the program that pays for it.
 *
 *	hits [--add] [--threads N] [--floor [OPTIONS]] [--interval MS] [--life SECONDS]
 *
 * Prints "ready PID ADDRESS UNTOUCHED", the addresses of the variable and of one that is never accessed,
 * then for each thread and interval "THREAD NANOSECONDS HITS". --add writes by read-modify-write, else by a
 * plain store. --floor installs an empty SIGTRAP handler and arms the event that watchctl would arm,
 * --floor-rw the same for reads and writes: what no recorder that lives on SIGTRAP can be faster than.
 */
#include <err.h>
#include <getopt.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define DEPTH \
	16 /* frames from main, or the thread's first function, to the one that writes; both counted \
	    */
#define MOST_THREADS 16
#define BATCH_MAX 64	    /* writes between two looks at the clock */
#define BATCH_LONG_NS 20000 /* a batch should take no longer than this */

volatile uint64_t counter __attribute__((aligned(64)));
volatile uint64_t untouched __attribute__((aligned(64)));

struct options {
	bool add;
	uint32_t floor; /* HW_BREAKPOINT_*, 0: none */
	int threads;
	uint64_t interval_ns;
	unsigned int life_s;
};

struct worker {
	const struct options *o;
	int number;
	uint64_t seed;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* One write(2), so that the lines of several threads do not mix. False: nobody listens any more. */
static bool report(const struct worker *w, uint64_t ns, uint64_t hits)
{
	char line[80];
	int n = snprintf(line, sizeof(line), "%d %llu %llu\n", w->number, (unsigned long long)ns,
			 (unsigned long long)hits);

	return write(STDOUT_FILENO, line, (size_t)n) == n;
}

static void store_batch(uint64_t value, unsigned int n)
{
	while (n--)
		__asm__ volatile("movq %1, %0" : "=m"(counter) : "r"(value++));
}

static void add_batch(unsigned int n)
{
	while (n--)
		__asm__ volatile("addq $1, %0" : "+m"(counter) : : "cc");
}

/* A debugger may make a write a million times dearer from one moment to the next: the batch adapts. */
static unsigned int next_batch(unsigned int batch, uint64_t took_ns)
{
	if (took_ns > BATCH_LONG_NS)
		return batch > 8 ? batch / 8 : 1;
	return batch < BATCH_MAX ? batch * 2 : batch;
}

__attribute__((noinline)) static uint64_t hammer(struct worker *w)
{
	uint64_t start = now_ns(), last = start, hits = 0, now;
	unsigned int batch = 1;

	for (;;) {
		if (w->o->add)
			add_batch(batch);
		else
			store_batch(w->seed, batch);
		w->seed += batch;
		hits += batch;
		now = now_ns();
		batch = next_batch(batch, now - last);
		last = now;
		if (now - start < w->o->interval_ns)
			continue;
		if (!report(w, now - start, hits))
			return hits;
		start = last = now_ns();
		hits = 0;
	}
}

__attribute__((noinline)) static uint64_t descend(struct worker *w, int frames)
{
	uint64_t deeper = frames > 1 ? descend(w, frames - 1) : hammer(w);

	__asm__ volatile("" : "+r"(deeper)); /* not a tail call: each level keeps its frame */
	return deeper;
}

static void *work(void *arg)
{
	return (void *)(uintptr_t)descend(arg, DEPTH - 2);
}

static void on_trap(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)info;
	(void)context;
}

/* The event of watchctl/engine/arm/perf_bp.c, on the calling thread, before it creates others. */
static void arm_floor(uint32_t access)
{
	struct perf_event_attr a = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(a),
		.sample_period = 1,
		.inherit = 1,
		.inherit_thread = 1,
		.remove_on_exec = 1,
		.sigtrap = 1,
		.exclude_hv = 1,
		.bp_type = access,
		.bp_addr = (uint64_t)(uintptr_t)&counter,
		.bp_len = sizeof(counter),
	};
	struct sigaction action = { .sa_sigaction = on_trap,
				    .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART };

	sigfillset(&action.sa_mask);
	if (sigaction(SIGTRAP, &action, NULL))
		err(1, "sigaction");
	if (syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC) >= 0)
		return;
	a.exclude_kernel = 1; /* all that a plain user may have */
	if (syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC) < 0)
		err(1, "perf_event_open");
}

static void parse(int argc, char **argv, struct options *o)
{
	static const struct option known[] = {
		{ "add", no_argument, NULL, 'a' },
		{ "floor", no_argument, NULL, 'f' },
		{ "floor-rw", no_argument, NULL, 'F' },
		{ "threads", required_argument, NULL, 't' },
		{ "interval", required_argument, NULL, 'i' },
		{ "life", required_argument, NULL, 'l' },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (c) {
		case 'a':
			o->add = true;
			break;
		case 'f':
			o->floor = HW_BREAKPOINT_W;
			break;
		case 'F':
			o->floor = HW_BREAKPOINT_RW;
			break;
		case 't':
			o->threads = atoi(optarg);
			break;
		case 'i':
			o->interval_ns = strtoull(optarg, NULL, 10) * 1000000u;
			break;
		case 'l':
			o->life_s = (unsigned int)atoi(optarg);
			break;
		default:
			exit(2);
		}
	}
	if (o->threads < 1 || o->threads > MOST_THREADS)
		errx(2, "--threads must be 1 to %d", MOST_THREADS);
}

int main(int argc, char **argv)
{
	struct options o = { .threads = 1, .interval_ns = 10000000, .life_s = 60 };
	struct worker w[MOST_THREADS];
	pthread_t thread;
	int i;

	parse(argc, argv, &o);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(o.life_s);
	if (o.floor)
		arm_floor(o.floor);
	printf("ready %d 0x%llx 0x%llx\n", getpid(), (unsigned long long)(uintptr_t)&counter,
	       (unsigned long long)(uintptr_t)&untouched);
	fflush(stdout);
	for (i = 0; i < o.threads; i++)
		w[i] = (struct worker){ .o = &o, .number = i };
	for (i = 1; i < o.threads; i++)
		if (pthread_create(&thread, NULL, work, &w[i]))
			errx(1, "pthread_create");
	return (int)descend(&w[0], DEPTH - 2);
}
