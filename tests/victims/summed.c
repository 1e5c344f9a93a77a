/* build: gcc -O2 -g */
/*
 * summed - adds to a variable in a function, as often as it is asked to: "summed N" says the sum; with "wait" behind it, it says
 * "ready" and waits for a line of its standard input before it adds, and for another before it ends.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

volatile uint64_t total, mixed;

/* Instructions that are long enough for a jump by themselves, and shorter ones between them. */
__attribute__((noinline)) void add(uint64_t n)
{
	total += n;
	mixed ^= n;
}

/* Short ones alone, which move together. */
__attribute__((noinline)) void add_to(volatile uint64_t *sum, uint64_t n)
{
	*sum += n;
}

static void wait_for_a_line(void)
{
	int c;

	while ((c = getchar()) != '\n' && c != EOF)
		;
}

int main(int argc, char **argv)
{
	uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;

	if (argc > 2) {
		puts("ready");
		fflush(stdout);
		wait_for_a_line();
	}
	for (uint64_t i = 0; i < n; i++) {
		add(i);
		add_to(&total, 1);
	}
	printf("%llu\n", (unsigned long long)total);
	fflush(stdout);
	if (argc > 2)
		wait_for_a_line();
	return 0;
}
