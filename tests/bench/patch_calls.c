/*
 * patch_calls - how long a call of an empty function takes: "patch_calls CALLS ROUNDS [PAUSE_MS [THREADS]]" prints ns for each, a round
 * a line. In the pauses between rounds a reader takes what was recorded. THREADS at once make CALLS each.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

uint64_t site(uint64_t a);

__attribute__((noinline)) uint64_t site(uint64_t a)
{
	__asm__ volatile("nopl 0(%%rax, %%rax, 1)" ::: "memory");
	return a + 1;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *call(void *calls)
{
	uint64_t x = 0;

	for (uint64_t i = 0; i < *(uint64_t *)calls; i++)
		x = site(x);
	return NULL;
}

int main(int argc, char **argv)
{
	uint64_t calls = argc > 1 ? strtoull(argv[1], NULL, 0) : 1000000;
	unsigned int rounds = argc > 2 ? (unsigned int)strtoul(argv[2], NULL, 0) : 5;
	long pause_ms = argc > 3 ? atol(argv[3]) : 0;
	unsigned int threads = argc > 4 ? (unsigned int)strtoul(argv[4], NULL, 0) : 1;
	const struct timespec pause = { pause_ms / 1000, pause_ms % 1000 * 1000000 };
	pthread_t other[64];

	if (!threads || threads > 64)
		return 2;
	for (unsigned int r = 0; r < rounds; r++) {
		uint64_t begin = now_ns();

		for (unsigned int i = 1; i < threads; i++)
			if (pthread_create(&other[i], NULL, call, &calls))
				return 1;
		call(&calls);
		for (unsigned int i = 1; i < threads; i++)
			pthread_join(other[i], NULL);
		printf("%.3f\n", (double)(now_ns() - begin) / (double)(calls ? calls : 1));
		fflush(stdout);
		nanosleep(&pause, NULL);
	}
	return 0;
}
