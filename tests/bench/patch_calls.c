/*
 * patch_calls - how long a call of an empty function takes: "patch_calls CALLS ROUNDS [PAUSE_MS]" prints ns for each, a round a
 * line. In the pauses between rounds a reader takes what was recorded.
 */
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

int main(int argc, char **argv)
{
	uint64_t calls = argc > 1 ? strtoull(argv[1], NULL, 0) : 1000000;
	unsigned int rounds = argc > 2 ? (unsigned int)strtoul(argv[2], NULL, 0) : 5;
	long pause_ms = argc > 3 ? atol(argv[3]) : 0;
	const struct timespec pause = { pause_ms / 1000, pause_ms % 1000 * 1000000 };

	for (unsigned int r = 0; r < rounds; r++) {
		uint64_t begin = now_ns(), x = 0;

		for (uint64_t i = 0; i < calls; i++)
			x = site(x);
		printf("%.3f\n", (double)(now_ns() - begin) / (double)(x ? x : 1));
		fflush(stdout);
		nanosleep(&pause, NULL);
	}
	return 0;
}
