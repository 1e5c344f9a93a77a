/* build: gcc -O2 -g -pthread */
/* build traced_stripped: gcc -O2 -s -pthread */
/* build traced_static_pie: gcc -O2 -g -static-pie -pthread */
/* build traced_musl: musl-gcc -O1 -g -static -pthread */
/* build traced_cet: gcc -O3 -g -fcf-protection -pthread */
/*
 * traced - threads that call functions of many shapes, and count each call themselves.
 *
 *	traced ROUNDS THREADS [wait]
 *
 * At the end "FUNCTION COUNT" for each on standard output. wait: "pid N" first, and for each line of standard input it does all of it
 * again, says "ok", and ends with the input.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone, noipa))
#define MAX_THREADS 64

enum { EMPTY, LEAF, RECURSES, ODD, EVEN, TAIL_FROM, TAIL_TO, LOOPS, MANY_ENDS, RED_ZONE, ROUND, NAMES };

static const char *const names[NAMES] = { "empty",     "leaf",	    "recurses", "is_odd",
					  "is_even",   "tail_from", "tail_to",	"loops",
					  "many_ends", "red_zone",  "one_round" };
static __thread unsigned long mine[NAMES];
static unsigned long all[NAMES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int rounds;

/* Nothing but a return: its caller counts. */
void empty(void);
__asm__(".text\n.globl empty\n.type empty, @function\nempty:\n\tret\n\t.size empty, . - empty\n\t.balign 16");

/* Its first instruction is where its loop goes back to; it uses the red zone. Returns 1 + ... + n. */
long loops(long n, long sum);
__asm__(".text\n.globl loops\n.type loops, @function\n"
	"loops:\n\tadd %rdi, %rsi\n\tmov %rsi, -8(%rsp)\n\tdec %rdi\n\tjnz loops\n\tmov -8(%rsp), %rax\n\tret\n"
	"\t.size loops, . - loops\n\t.balign 16");

KEEP int leaf(int n)
{
	mine[LEAF]++;
	return n * 3 + 1;
}

KEEP int recurses(int n)
{
	int deeper = 0;

	mine[RECURSES]++;
	if (n)
		deeper = recurses(n - 1) + 1;
	__asm__ volatile("" : "+r"(deeper)); /* else it would be a loop */
	return deeper;
}

KEEP int is_odd(int n);

KEEP int is_even(int n)
{
	mine[EVEN]++;
	return n ? is_odd(n - 1) : 1;
}

KEEP int is_odd(int n)
{
	mine[ODD]++;
	return n ? is_even(n - 1) : 0;
}

KEEP int tail_to(int n)
{
	mine[TAIL_TO]++;
	return n + 7;
}

KEEP int tail_from(int n)
{
	mine[TAIL_FROM]++;
	return tail_to(n * 2);
}

KEEP int many_ends(int n)
{
	mine[MANY_ENDS]++;
	switch (n % 5) {
	case 0:
		return leaf(n);
	case 1:
		return n - 1;
	case 2:
		return n * n;
	case 3:
		return leaf(n) + leaf(n + 1);
	default:
		return -n;
	}
}

KEEP long red_zone(long a, long b)
{
	volatile long kept[4] = { a, b, a + b, a - b };

	mine[RED_ZONE]++;
	return kept[2] * kept[3] + kept[0] * kept[1];
}

KEEP int one_round(int i)
{
	int sum = 0;

	mine[ROUND]++;
	empty();
	mine[EMPTY]++;
	sum += leaf(i) + recurses(i % 7) + is_even(i % 9) + tail_from(i);
	if (loops(i % 13 + 1, 0) != (long)(i % 13 + 1) * (i % 13 + 2) / 2)
		abort();
	mine[LOOPS]++;
	if (red_zone(i, 3) != (i + 3L) * (i - 3L) + 3L * i)
		abort();
	return sum + many_ends(i);
}

static void *works(__attribute__((unused)) void *arg)
{
	long sum = 0;

	memset(mine, 0, sizeof(mine));
	for (int i = 0; i < rounds; i++)
		sum += one_round(i);
	pthread_mutex_lock(&lock);
	for (int i = 0; i < NAMES; i++)
		all[i] += mine[i];
	pthread_mutex_unlock(&lock);
	return (void *)sum;
}

static void all_threads(int n)
{
	pthread_t t[MAX_THREADS];

	for (int i = 0; i < n; i++)
		if (pthread_create(&t[i], NULL, works, NULL))
			abort();
	for (int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
}

int main(int argc, char **argv)
{
	int threads = argc > 2 ? atoi(argv[2]) : 1;
	char line[32];

	rounds = argc > 1 ? atoi(argv[1]) : 100;
	if (argc > 3) {
		setvbuf(stdout, NULL, _IOLBF, 0);
		printf("pid %d\n", (int)getpid());
		while (fgets(line, sizeof(line), stdin)) {
			all_threads(threads);
			puts("ok");
		}
	} else {
		all_threads(threads);
	}
	for (int i = 0; i < NAMES; i++)
		printf("%s %lu\n", names[i], all[i]);
	return 0;
}
