/* build: gcc -O2 -g -pthread */
/*
 * traced_values - calls whose parameters and results are known.
 *
 *	traced_values CALLS [N]
 *
 * "text KIND STRING" for each call of text(); tail(N), which is 20 where it is not given; then four threads make CALLS of checked() each, while a timer's signals interrupt them; at
 * the end "FUNCTION COUNT" for checked() and handled().
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone, noipa))

static long nchecked, nhandled;
static long calls;

KEEP void text(const char *s)
{
	__asm__ volatile("nop; nop; nop; nop; nop" : : "r"(s) : "memory");
}

KEEP int tail_to(int n)
{
	__asm__ volatile("nop; nop; nop; nop; nop" : : : "memory");
	return n + 2;
}

KEEP int tail(int n)
{
	return tail_to(n * 2);
}

KEEP short narrow(short n)
{
	__asm__ volatile("nop; nop; nop; nop; nop" : : : "memory");
	return (short)(n * 2);
}

KEEP int checked(int n, const char *s, double twice)
{
	__atomic_fetch_add(&nchecked, 1, __ATOMIC_RELAXED);
	__asm__ volatile("nop; nop; nop; nop; nop" : : "r"(s), "x"(twice) : "memory");
	return n + 1;
}

static int check(int n, char *buf)
{
	snprintf(buf, 16, "%d", n);
	return checked(n, buf, 2.0 * n);
}

KEEP void handled(int s)
{
	char buf[16];

	(void)s;
	__atomic_fetch_add(&nhandled, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 3; i++)
		check(1000000 + i, buf);
}

static void *work(void *a)
{
	char *heap = malloc(16), stack[16];

	for (long i = 0; i < calls; i++)
		if (check((int)i, i % 2 ? heap : stack) != i + 1)
			abort();
	free(heap);
	return a;
}

static void say_text(const char *kind, const char *s)
{
	printf("text %s%s%s\n", kind, s && *kind != 'u' ? " " : "", s && *kind != 'u' ? s : "");
}

static void texts(void)
{
	const long page = sysconf(_SC_PAGESIZE);
	char *at = mmap(NULL, (size_t)(2 * page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char stack[] = "on a stack", *heap = strdup("on the heap"), *edge = at + page - 4;

	if (at == MAP_FAILED || !heap)
		abort();
	mprotect(at + page, (size_t)page, PROT_NONE);
	say_text("plain", "a literal");
	text("a literal");
	say_text("plain", "");
	text("");
	say_text("plain", stack);
	text(stack);
	say_text("plain", heap);
	text(heap);
	say_text("null", NULL);
	text(NULL);
	say_text("unreadable", at + page);
	text(at + page);
	memcpy(edge, "edge", 4);
	printf("text edge edge\n");
	text(edge);
	free(heap);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = handled, .sa_flags = SA_RESTART };
	struct itimerval t = { { 0, 500 }, { 0, 500 } }, none = { 0 };
	const int n = argc > 2 ? atoi(argv[2]) : 20;
	pthread_t thread[4];

	calls = argc > 1 ? atol(argv[1]) : 0;
	texts();
	if (tail(n) != 2 * n + 2 || narrow(-1) != -2 || open("/nonexistent", O_RDONLY) >= 0)
		return 1;
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &t, NULL);
	for (int i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, work, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	setitimer(ITIMER_REAL, &none, NULL);
	printf("checked %ld\nhandled %ld\n", nchecked, nhandled);
	return 0;
}
