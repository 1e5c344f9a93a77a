/*
 * stalls - many threads that note how long they were kept from going on.
 *
 *	stalls PAGE THREADS [MAPPINGS]
 *
 * Each works for a short while, looking at the clock all the time, and sleeps; the first WRITERS of them also
 * write a variable, `stalls_watched`. A gap between two looks is time in which the thread did not run. What
 * the gaps and the writes took is counted in PAGE, which stalls.py maps too; so is what the driver says:
 * over, and whether it counts now. With MAPPINGS the process has so many of them, as some databases and
 * runtimes do.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define BUCKETS 256 /* eight for each doubling */
#define THREADS 1024
#define WRITERS 1
#define WORK_NS 60000
#define WRITES 4
#define PAGE 4096u

struct histogram {
	uint64_t count[BUCKETS];
	uint64_t longest_ns, total_ns, n;
};

struct stalls_page {
	uint32_t over, phase; /* phase 0, 1: where it is counted */
	uint32_t ready, pad;
	struct histogram gaps[2], writes[2];
};

volatile uint64_t __attribute__((aligned(64))) stalls_watched;
static struct stalls_page *page;
static double ns_per_tick;
static long
	pause_ns; /* all threads together take a fifth of one CPU: nobody shall have to wait for another */

static unsigned int bucket_of(uint64_t ns)
{
	unsigned int log = ns ? 63u - (unsigned int)__builtin_clzll(ns) : 0;
	unsigned int b = log < 3 ? (unsigned int)ns : (log - 2) * 8 + (unsigned int)(ns >> (log - 3) & 7);

	return b < BUCKETS ? b : BUCKETS - 1;
}

static void note(struct histogram *h, uint64_t ticks)
{
	uint64_t ns = (uint64_t)((double)ticks * ns_per_tick),
		 old = __atomic_load_n(&h->longest_ns, __ATOMIC_RELAXED);

	__atomic_fetch_add(&h->count[bucket_of(ns)], 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&h->total_ns, ns, __ATOMIC_RELAXED);
	__atomic_fetch_add(&h->n, 1, __ATOMIC_RELAXED);
	while (ns > old &&
	       !__atomic_compare_exchange_n(&h->longest_ns, &old, ns, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/* The longest gap of a stretch of work is noted: one for each stretch. */
static void *work(void *arg)
{
	const uint64_t number = (uintptr_t)arg;
	const struct timespec pause = { 0, pause_ns + (long)(number * 7919 % 40000) * 1000 };
	const uint64_t ticks = (uint64_t)(WORK_NS / ns_per_tick);

	__atomic_fetch_add(&page->ready, 1, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&page->over, __ATOMIC_RELAXED)) {
		uint32_t phase = __atomic_load_n(&page->phase, __ATOMIC_RELAXED) & 1;
		uint64_t begun = __rdtsc(), last = begun, now, gap = 0;
		unsigned int i;

		while ((now = __rdtsc()) - begun < ticks) {
			if (now - last > gap)
				gap = now - last;
			last = now;
		}
		if (now - last > gap)
			gap = now - last;
		note(&page->gaps[phase], gap);
		for (i = 0; number < WRITERS && i < WRITES; i++) {
			begun = __rdtsc();
			stalls_watched = begun;
			note(&page->writes[phase], __rdtsc() - begun);
		}
		nanosleep(&pause, NULL);
	}
	return NULL;
}

static void calibrate(void)
{
	struct timespec a, b;
	uint64_t t;

	clock_gettime(CLOCK_MONOTONIC, &a);
	t = __rdtsc();
	do
		clock_gettime(CLOCK_MONOTONIC, &b);
	while ((b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec < 50000000);
	ns_per_tick = (double)((b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec) /
		      (double)(__rdtsc() - t);
}

/* Every other page of a piece is another mapping, since neighbours that are alike are one. */
static int map_many(size_t n)
{
	uint8_t *all = mmap(NULL, (n + 1) * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t i;

	if (all == MAP_FAILED)
		return -1;
	for (i = 1; i < n; i += 2)
		if (mprotect(all + i * PAGE, PAGE, PROT_NONE))
			return -1;
	return 0;
}

int main(int argc, char **argv)
{
	unsigned int i, n = argc >= 3 ? (unsigned int)atoi(argv[2]) : 0;
	size_t mappings = argc == 4 ? (size_t)atol(argv[3]) : 0;
	static pthread_t thread[THREADS];
	int fd = argc >= 3 ? open(argv[1], O_RDWR | O_CLOEXEC) : -1;

	if (fd < 0 || !n || n > THREADS || ftruncate(fd, sizeof(*page))) {
		fprintf(stderr, "usage: stalls PAGE THREADS [MAPPINGS]\n");
		return 2;
	}
	if (mappings && map_many(mappings))
		return 1;
	pause_ns = 200000l * n;
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return 1;
	close(fd);
	calibrate();
	for (i = 0; i < n; i++)
		if (pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)i))
			return 1;
	for (i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
	return 0;
}
