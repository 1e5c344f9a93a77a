/* build: gcc -O2 -g -pthread */
/* build mover_static: gcc -O2 -g -static -pthread */
/*
 * mover - what moves: thread-local variables, what pointers lead to, code that runs; and a row of bytes.
 * Obeys its standard input like puppet, a line at a time, and accounts for what it did.
 *
 *	tls N			N writes to the main thread's own `mine`
 *	tlsthread N		a new thread writes its own N times and ends; tells its id
 *	tlsstorm THREADS N	so many threads at once, N writes each
 *	errno N			N failing system calls, which set errno; tells how often it changed
 *	head a|b|null		list.head points there (head->next to itself)
 *	len V | lenof a|b V	writes list.head->len; writes the len of that node
 *	byte OFFSET | word OFFSET	writes 1 (8) bytes of `row` there
 *	via outer|inner N	N writes to `flag`, through one of two functions
 *	run N			calls `target` N times with 0, 1, ...
 *	double X		writes `ratio`
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct node {
	struct node *next;
	int len;
};

__thread volatile int mine = 7;
struct node a = { &a, 1 }, b = { &b, 2 };
struct {
	long count;
	struct node *head;
} list = { 0, &a };
unsigned char row[64] __attribute__((aligned(64)));
volatile int flag;
volatile double ratio = 1;

__attribute__((noinline)) static void write_mine(int v)
{
	mine = v;
}

static void *write_own(void *arg)
{
	long i, n = (long)arg;

	for (i = 1; i <= n; i++)
		write_mine((int)i);
	return (void *)syscall(SYS_gettid);
}

static void tls_threads(long threads, long n)
{
	pthread_t t[64];
	void *tid = NULL;
	long i;

	if (threads > 64)
		threads = 64;
	for (i = 0; i < threads; i++)
		pthread_create(&t[i], NULL, write_own, (void *)n);
	for (i = 0; i < threads; i++)
		pthread_join(t[i], &tid);
	printf("ok %ld\n", (long)tid);
}

static struct node *node_of(const char *name)
{
	return !strcmp(name, "a") ? &a : !strcmp(name, "b") ? &b : NULL;
}

__attribute__((noinline)) static void set_head(struct node *n)
{
	list.head = n;
	__asm__ volatile("" : : : "memory");
}

__attribute__((noinline)) static void set_len(struct node *n, int v)
{
	*(volatile int *)&n->len = v;
}

__attribute__((noinline)) static void write_flag(int v)
{
	flag = v;
	__asm__ volatile("");
}

__attribute__((noinline)) static void inner(int v)
{
	write_flag(v);
	__asm__ volatile("");
}

__attribute__((noinline)) static void outer(int v)
{
	write_flag(v);
	__asm__ volatile("");
}

__attribute__((noinline)) int target(int v)
{
	__asm__ volatile("");
	return v + 1;
}

static void set_errno(long n)
{
	long i;

	for (i = 0; i < n; i++)
		close(-1);
}

static void run(long n)
{
	long i;

	for (i = 0; i < n; i++)
		target((int)i);
}

static void obey(const char *cmd, const char *word, long x, long y)
{
	long i;

	if (!strcmp(cmd, "tls"))
		write_own((void *)x);
	else if (!strcmp(cmd, "errno"))
		set_errno(x);
	else if (!strcmp(cmd, "head"))
		set_head(node_of(word));
	else if (!strcmp(cmd, "len"))
		set_len(list.head, (int)x);
	else if (!strcmp(cmd, "lenof"))
		set_len(node_of(word), (int)y);
	else if (!strcmp(cmd, "byte"))
		*(volatile unsigned char *)&row[x] += 1;
	else if (!strcmp(cmd, "word"))
		*(volatile uint64_t *)&row[x] += 1;
	else if (!strcmp(cmd, "via"))
		for (i = 0; i < y; i++)
			(word[0] == 'o' ? outer : inner)((int)i);
	else if (!strcmp(cmd, "run"))
		run(x);
	else if (!strcmp(cmd, "double"))
		ratio = strtod(word, NULL);
	printf("ok\n");
}

int main(void)
{
	char line[256], cmd[64], word[64];

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("pid %d\n", getpid());
	while (fgets(line, sizeof(line), stdin)) {
		long x = 0, y = 0;

		*cmd = *word = '\0';
		sscanf(line, "%63s %63s %ld", cmd, word, &y);
		x = strtol(word, NULL, 10);
		if (!strcmp(cmd, "tlsthread"))
			tls_threads(1, x);
		else if (!strcmp(cmd, "tlsstorm"))
			tls_threads(x, y);
		else
			obey(cmd, word, x, y);
	}
	return 0;
}
