/* build: gcc -O2 -g -pthread -ldl */
/*
 * beats - threads that do what a watch may make them wait for, and measure how they get on. "pid N", then
 *
 *	beats pointer		each of two threads moves a pointer of its own, and writes where it leads
 *	beats tls		threads are made that write a thread-local variable, and end
 *	beats library LIB	LIB is loaded and unloaded, and `flag` is written
 *	beats write		`flag` is written, in bursts
 *	beats exec		the program executes itself, again and again
 *
 * On each line of standard input: "ok LOOPS GAP", how often they did it since the line before, all together,
 *and the longest time in ms that one of them took for it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WORKERS 2
#define PAUSE_US 2000
#define BURST 4

struct node {
	volatile int len;
};

struct worker {
	pthread_t thread;
	atomic_ullong last, loops, gap;
};

struct node a[WORKERS], b[WORKERS];
struct node *volatile head, *volatile other;
volatile int flag;
__thread volatile int mine;
static struct worker worker[WORKERS];
static const char *library;
static char **own_argv;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void beat(struct worker *w)
{
	uint64_t now = now_ns(), gap = now - atomic_exchange(&w->last, now);

	if (gap > atomic_load(&w->gap))
		atomic_store(&w->gap, gap);
	atomic_fetch_add(&w->loops, 1);
}

static void *work_pointer(void *arg)
{
	struct worker *w = arg;
	long i = w - worker;

	for (;;) {
		struct node *to = atomic_load(&w->loops) & 1 ? &a[i] : &b[i];

		if (i)
			other = to;
		else
			head = to;
		to->len++;
		beat(w);
		usleep(PAUSE_US);
	}
	return NULL;
}

static void *write_mine(void *arg)
{
	for (int i = 0; i < 3; i++)
		mine = i;
	return arg;
}

static void *work_tls(void *arg)
{
	pthread_t t;

	for (;;) {
		if (pthread_create(&t, NULL, write_mine, NULL))
			abort();
		pthread_join(t, NULL);
		beat(arg);
		usleep(PAUSE_US);
	}
	return NULL;
}

static void *work_library(void *arg)
{
	for (;;) {
		void *lib = dlopen(library, RTLD_NOW);

		if (!lib || dlclose(lib))
			abort();
		flag++;
		beat(arg);
		usleep(PAUSE_US);
	}
	return NULL;
}

static void *work_write(void *arg)
{
	for (;;) {
		for (int i = 0; i < BURST; i++)
			flag++;
		beat(arg);
		usleep(PAUSE_US);
	}
	return NULL;
}

/* Loops, time of the last one, longest time: they go on in the next program. */
static void execute_anew(void)
{
	char loops[32], last[32], gap[32];
	char *argv[] = { own_argv[0], own_argv[1], loops, last, gap, NULL };

	snprintf(loops, sizeof(loops), "%llu", atomic_load(&worker->loops));
	snprintf(last, sizeof(last), "%llu", atomic_load(&worker->last));
	snprintf(gap, sizeof(gap), "%llu", atomic_load(&worker->gap));
	execv("/proc/self/exe", argv);
	abort();
}

static void report(unsigned int workers)
{
	unsigned long long loops = 0, gap = 0, now = now_ns();

	for (unsigned int i = 0; i < workers; i++) {
		unsigned long long since = now - atomic_load(&worker[i].last),
				   longest = atomic_exchange(&worker[i].gap, 0);

		loops += atomic_exchange(&worker[i].loops, 0);
		gap = since > gap ? since : gap;
		gap = longest > gap ? longest : gap;
	}
	printf("ok %llu %llu\n", loops, gap / 1000000);
}

static int go_on_executing(char **argv)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
	char line[64];

	if (argv[2]) {
		atomic_store(&worker->loops, strtoull(argv[2], NULL, 10));
		atomic_store(&worker->last, strtoull(argv[3], NULL, 10));
		atomic_store(&worker->gap, strtoull(argv[4], NULL, 10));
		beat(worker);
	}
	for (int i = 0; i < 3; i++)
		flag++;
	usleep(50 * PAUSE_US);
	if (poll(&in, 1, 0) > 0) {
		if (!fgets(line, sizeof(line), stdin))
			return 0;
		report(1);
	}
	execute_anew();
	return 1;
}

int main(int argc, char **argv)
{
	static void *(*const work[])(void *) = { work_pointer, work_tls, work_library, work_write };
	static const char *const kind[] = { "pointer", "tls", "library", "write" };
	unsigned int i, workers, what = 0;
	char line[64];

	own_argv = argv;
	setvbuf(stdin, NULL, _IONBF, 0);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 2)
		return 1;
	if (argc == 2 || strcmp(argv[1], "exec") != 0)
		printf("pid %d\n", getpid());
	for (i = 0; i < WORKERS; i++)
		atomic_store(&worker[i].last, now_ns());
	if (!strcmp(argv[1], "exec"))
		return go_on_executing(argv);
	while (what < 3 && strcmp(argv[1], kind[what]) != 0)
		what++;
	library = argv[2];
	head = &a[0];
	other = &a[1];
	workers = what == 0 ? 2 : 1;
	for (i = 0; i < workers; i++)
		if (pthread_create(&worker[i].thread, NULL, work[what], &worker[i]))
			return 1;
	while (fgets(line, sizeof(line), stdin))
		report(workers);
	_exit(0);
}
