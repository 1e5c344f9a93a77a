/* build: gcc -O2 -g -pthread */
/*
 * lifecycle - threads and processes that begin and end in unusual ways; each step writes `flag` and says so.
 * "pid N"; then on each line of standard input, from whichever thread is left to read it:
 *
 *	write N			N writes: "ok"
 *	leader			the first thread ends, another goes on: "ok"
 *	reexec N		a thread that is not the first executes this program anew, which writes N
 * times before it says "ok": as "pid" was, so is its process id vfork			a vfork child writes
 * once, in the memory of both, and executes /bin/true: "ok STATUS" spawn			the same by
 * posix_spawn, without the write fork N			a forked child writes N times, its own copy:
 * "ok
 * STATUS" grandchild N		a forked child forks another, which does orphan			a thread is
 * cancelled, another returns at once, a third is killed by the process's end exit N
 */
#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

volatile int flag __attribute__((aligned(64)));
extern char **environ;
static const char *self;

__attribute__((noinline)) void write_flag(int i)
{
	flag = i;
}

static void write_times(long n)
{
	long i;

	for (i = 0; i < n; i++)
		write_flag((int)i);
}

static void *obey_all(void *arg);

static void *execute_anew(void *arg)
{
	execl(self, self, (const char *)arg, (char *)NULL);
	return NULL;
}

static void *wait_for_ever(void *arg)
{
	(void)arg;
	for (;;)
		pause();
	return NULL;
}

static void *return_at_once(void *arg)
{
	write_flag(1);
	return arg;
}

static void orphans(void)
{
	pthread_t t;

	pthread_create(&t, NULL, wait_for_ever, NULL);
	pthread_create(&t, NULL, wait_for_ever, NULL);
	pthread_cancel(t);
	pthread_join(t, NULL);
	pthread_create(&t, NULL, return_at_once, NULL);
	pthread_join(t, NULL);
}

static int wait_for(pid_t child)
{
	int status = -1;

	waitpid(child, &status, 0);
	return status;
}

static int by_vfork(void)
{
	pid_t child = vfork();

	if (!child) {
		flag = 77;
		execl("/bin/true", "true", (char *)NULL);
		_exit(1);
	}
	return wait_for(child);
}

static int by_spawn(void)
{
	char *argv[] = { (char *)"true", NULL };
	pid_t child;

	return posix_spawn(&child, "/bin/true", NULL, NULL, argv, environ) ? -1 : wait_for(child);
}

static int by_fork(long n, bool again)
{
	pid_t child = fork();

	if (!child) {
		if (again)
			_exit(by_fork(n, false));
		write_times(n);
		_exit(flag == n - 1 ? 0 : 1);
	}
	return wait_for(child);
}

static void obey(const char *line)
{
	char word[32] = "", number[32] = "";
	long n;
	pthread_t t;

	sscanf(line, "%31s %31s", word, number);
	n = strtol(number, NULL, 10);
	if (!strcmp(word, "write")) {
		write_times(n);
		printf("ok\n");
	} else if (!strcmp(word, "leader")) {
		pthread_create(&t, NULL, obey_all, (void *)(uintptr_t) "ok");
		pthread_exit(NULL);
	} else if (!strcmp(word, "reexec")) {
		pthread_create(&t, NULL, execute_anew, number);
		pthread_join(t, NULL);
	} else if (!strcmp(word, "vfork")) {
		printf("ok %d\n", by_vfork());
	} else if (!strcmp(word, "spawn")) {
		printf("ok %d\n", by_spawn());
	} else if (!strcmp(word, "fork") || !strcmp(word, "grandchild")) {
		printf("ok %d\n", by_fork(n, *word == 'g'));
	} else if (!strcmp(word, "orphan")) {
		orphans();
		printf("ok\n");
	} else if (!strcmp(word, "exit")) {
		exit((int)n);
	} else {
		printf("what?\n");
	}
}

static void *obey_all(void *arg)
{
	char line[128];

	if (arg)
		puts(arg);
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	exit(0);
}

int main(int argc, char **argv)
{
	self = argv[0];
	setvbuf(stdout, NULL, _IOLBF, 0);
	setvbuf(stdin, NULL, _IONBF, 0);
	if (argc > 1) {
		write_times(strtol(argv[1], NULL, 10));
		printf("ok %d\n", getpid());
	} else {
		printf("pid %d\n", getpid());
	}
	obey_all(NULL);
	return 0;
}
