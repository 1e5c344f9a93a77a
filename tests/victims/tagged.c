/* build: gcc -O2 -g -fomit-frame-pointer @stackwalk.so -pthread -ldl */
/* build tagged_static: gcc -O2 -s -static -w @stackwalk.a -pthread */
/* build tagged_static_pie: gcc -O2 -g -static-pie -w @stackwalk.a -pthread */
/*
 * Captures stacks on command, and accounts for each. The call chain of every capture but those of `deep` is
 * known: main .. outer -> middle -> inner, or thread_main -> outer -> middle -> inner.
 *
 *	burst THREADS N [PAUSE_US]	each thread N captures of tag 1000 + its number, value: how many
 * before named N			N captures of the named tag "cache-miss", N of "order", with values
 *	short N				N threads, one after the other, that capture once and end
 *	flag N				N times: set the variable `flag`, capture tag 7 with the value just
 * set steady PAUSE_US / stop		a thread that captures all the time, and its end plugin PATH N / close
 * loads a library and calls its plugin_capture(N); unloads it
 *	fork N				a child captures N times and ends; answers with its state
 *	exec PATH			executes it
 *	collecting			answers whether the flag is set
 *	deep N				a capture at the end of N recursions
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stackwalk.h>

volatile int flag;
volatile int *volatile relocated = &flag; /* by the loader, before anything of ours runs */

static volatile int stop_steady;
static pthread_t steady_thread;
static volatile unsigned long steady_count;
static void *plugin;

#define NOINLINE __attribute__((noinline, noclone))
#define NOT_A_TAIL_CALL __asm__ volatile("" ::: "memory")

NOINLINE void inner(unsigned long tag, unsigned long value)
{
	stackwalk_capture_value(tag, value);
	NOT_A_TAIL_CALL;
}

NOINLINE void middle(unsigned long tag, unsigned long value)
{
	inner(tag, value);
	NOT_A_TAIL_CALL;
}

NOINLINE void outer(unsigned long tag, unsigned long value)
{
	middle(tag, value);
	NOT_A_TAIL_CALL;
}

NOINLINE void miss(void)
{
	STACKWALK_TAG("cache-miss");
	NOT_A_TAIL_CALL;
}

NOINLINE void order(unsigned long value)
{
	STACKWALK_TAG_VALUE("order", value);
	NOT_A_TAIL_CALL;
}

NOINLINE unsigned int deep(unsigned int n)
{
	unsigned int r = 0;

	if (n)
		r = deep(n - 1) + 1;
	else
		inner(99, 0);
	NOT_A_TAIL_CALL;
	return r;
}

NOINLINE void set_flag(int value)
{
	flag = value;
	NOT_A_TAIL_CALL;
}

struct job {
	pthread_t thread;
	unsigned long tag, n, pause_us;
};

static void *thread_main(void *arg)
{
	const struct job *j = arg;
	unsigned long i;

	for (i = 0; i < j->n; i++) {
		outer(j->tag, i);
		if (j->pause_us)
			usleep(j->pause_us);
	}
	return NULL;
}

static void burst(unsigned long threads, unsigned long n, unsigned long pause_us)
{
	struct job *jobs = calloc(threads, sizeof(*jobs));
	unsigned long i;

	for (i = 0; i < threads; i++) {
		jobs[i] = (struct job){ .tag = 1000 + i, .n = n, .pause_us = pause_us };
		pthread_create(&jobs[i].thread, NULL, thread_main, &jobs[i]);
	}
	for (i = 0; i < threads; i++)
		pthread_join(jobs[i].thread, NULL);
	free(jobs);
}

static void short_threads(unsigned long n)
{
	struct job j = { .tag = 5, .n = 1 };

	while (n--) {
		pthread_create(&j.thread, NULL, thread_main, &j);
		pthread_join(j.thread, NULL);
	}
}

static void *steady_main(void *arg)
{
	unsigned long pause_us = (unsigned long)arg;

	while (!stop_steady) {
		outer(6, steady_count);
		steady_count++;
		if (pause_us)
			usleep(pause_us);
	}
	return NULL;
}

static void load_plugin(const char *path, unsigned long n)
{
	void (*capture)(unsigned long);

	plugin = dlopen(path, RTLD_NOW);
	if (!plugin) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	capture = (void (*)(unsigned long))dlsym(plugin, "plugin_capture");
	capture(n);
}

static void fork_and_capture(unsigned long n)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		while (n--)
			outer(8, n);
		_exit(stackwalk_collecting != 0);
	}
	waitpid(pid, &status, 0);
	printf("ok %d\n", status);
}

static void obey(char *line)
{
	unsigned long a = 0, b = 0, c = 0, i;
	char word[32] = "", path[512] = "";

	sscanf(line, "%31s", word);
	if (!strcmp(word, "burst") && sscanf(line, "%*s %lu %lu %lu", &a, &b, &c) >= 2) {
		burst(a, b, c);
	} else if (!strcmp(word, "named") && sscanf(line, "%*s %lu", &a) == 1) {
		for (i = 0; i < a; i++) {
			miss();
			order(i);
		}
	} else if (!strcmp(word, "short") && sscanf(line, "%*s %lu", &a) == 1) {
		short_threads(a);
	} else if (!strcmp(word, "flag") && sscanf(line, "%*s %lu", &a) == 1) {
		for (i = 0; i < a; i++) {
			set_flag((int)i);
			outer(7, i);
		}
	} else if (!strcmp(word, "steady") && sscanf(line, "%*s %lu", &a) == 1) {
		pthread_create(&steady_thread, NULL, steady_main, (void *)a);
	} else if (!strcmp(word, "stop")) {
		stop_steady = 1;
		pthread_join(steady_thread, NULL);
		printf("ok %lu\n", steady_count);
		return;
	} else if (!strcmp(word, "plugin") && sscanf(line, "%*s %511s %lu", path, &a) == 2) {
		load_plugin(path, a);
	} else if (!strcmp(word, "again") && sscanf(line, "%*s %lu", &a) == 1) {
		((void (*)(unsigned long))dlsym(plugin, "plugin_capture"))(a);
	} else if (!strcmp(word, "close")) {
		dlclose(plugin);
	} else if (!strcmp(word, "fork") && sscanf(line, "%*s %lu", &a) == 1) {
		fork_and_capture(a);
		return;
	} else if (!strcmp(word, "exec") && sscanf(line, "%*s %511s", path) == 1) {
		execl(path, path, (char *)NULL);
		exit(1);
	} else if (!strcmp(word, "deep") && sscanf(line, "%*s %lu", &a) == 1) {
		deep((unsigned int)a);
	} else if (!strcmp(word, "collecting")) {
		printf("ok %d\n", stackwalk_collecting != 0);
		return;
	} else if (!strcmp(word, "exit")) {
		exit(0);
	} else {
		printf("unknown %s\n", line);
		return;
	}
	printf("ok\n");
}

int main(int argc, char **argv)
{
	char line[600];

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1 && !strcmp(argv[1], "once")) {
		/* No commands: captures at once, and ends. */
		for (int i = 0; i < 100; i++)
			outer(3, (unsigned long)i);
		return 0;
	}
	printf("pid %d\n", getpid());
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	return 0;
}
