/* Threads that call all the time, with a pause of so many microseconds (argv[1], 0: none) after each 25 calls, while another
 * one begins, clears, flushes and ends logs, 200 of them; a child of each tenth has one, too. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int calltrace_initialize(void);
int calltrace_deinitialize(void);
int calltrace_clear(void);
int calltrace_flush(void);
int calltrace_enabled(void);

#define THREADS 3
#define LOGS 200
#define TRACED __attribute__((noinline, used))

static int is_over, pause_us;

/* Calls of it are not left out: it does something. */
TRACED static int fib(int n)
{
	__asm__ volatile("");
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

TRACED static void *body(void *arg)
{
	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
		fib(6);
		if (pause_us)
			usleep((useconds_t)pause_us);
	}
	return arg;
}

/* Threads that come and go meanwhile. */
TRACED static void *comes_and_goes(void *arg)
{
	fib(5);
	return arg;
}

static void check(int claim, const char *what)
{
	static const char end[] = "\n";

	if (claim)
		return;
	if (write(2, what, __builtin_strlen(what)) < 0 || write(2, end, 1) < 0)
		_exit(3);
	_exit(2);
}

static void in_child(void)
{
	check(!calltrace_enabled(), "the child is traced");
	fib(10);
	check(calltrace_initialize() == 0, "initialize in the child");
	fib(10);
	check(calltrace_deinitialize() == 0, "deinitialize in the child");
	_exit(0);
}

static void fork_one(void)
{
	pid_t child = fork();
	int status = 0;

	if (!child)
		in_child();
	waitpid(child, &status, 0);
	check(status == 0, "the child's status");
}

int main(int argc, char **argv)
{
	pthread_t t[THREADS], other;
	int i;

	pause_us = argc > 1 ? atoi(argv[1]) : 0;
	for (i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, body, NULL);
	for (i = 0; i < LOGS; i++) {
		pthread_create(&other, NULL, comes_and_goes, NULL);
		check(i % 3 || calltrace_clear() == 0, "clear");
		check(i % 2 || calltrace_flush() == 0, "flush");
		if (i % 10 == 0)
			fork_one();
		check(calltrace_deinitialize() == 0, "deinitialize");
		if (i % 5 == 0)
			pthread_join(other, NULL);
		check(calltrace_initialize() == 0, "initialize");
		if (i % 5 != 0)
			pthread_join(other, NULL);
	}
	__atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
	for (i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	return 0;
}
