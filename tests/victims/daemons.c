/* build: gcc -O2 -g -pthread */
/*
 * daemons - a program that goes on in its descendants, in the ways that there are. "pid N", then, after a
 *line "KIND N" on standard input (or at once, with these as arguments), it does as it says, and ends. Whoever
 *has written `flag` says how often when it ends: "did PID N", its number as the first of them numbers
 *processes.
 *
 *	daemon N	the child starts a session, its child writes N times; both makers end at once
 *	chain N		N generations; each writes once, and ends as soon as it has forked the next
 *	thread N	the child of a thread writes N times
 *	exec N		the child writes N times, and starts two programs that live on, by vfork and by exec
 *	pidns N		the child, which is the first of a new pid namespace, writes N times; so does its own
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

volatile int flag __attribute__((aligned(64)));

#define PAUSE_US 2000
#define LIFE_US 300000

/* Who we are in the namespace that /proc shows. */
static int own_pid(void)
{
	char buf[32] = "";
	ssize_t n = readlink("/proc/self", buf, sizeof(buf) - 1);

	return n > 0 ? atoi(buf) : getpid();
}

static void say(int n)
{
	char line[64];
	int len = snprintf(line, sizeof(line), "did %d %d\n", own_pid(), n);

	if (write(STDOUT_FILENO, line, (size_t)len) != len)
		_exit(1);
}

static void work(int n)
{
	int i;

	for (i = 1; i <= n; i++) {
		flag = i;
		usleep(PAUSE_US);
	}
	say(n);
}

static void daemonise(int n)
{
	if (fork())
		return;
	setsid();
	if (fork())
		_exit(0);
	work(n);
}

static void chain(int n)
{
	do {
		flag = n;
		say(1);
	} while (--n && !fork());
}

static void *fork_here(void *arg)
{
	if (!fork()) {
		work(*(int *)arg);
		_exit(0);
	}
	return NULL;
}

static void from_thread(int n)
{
	pthread_t t;

	pthread_create(&t, NULL, fork_here, &n);
	pthread_join(t, NULL);
}

static void start_others(int n)
{
	if (fork())
		return;
	work(n);
	close(STDOUT_FILENO);
	if (!vfork()) {
		execl("/bin/sleep", "sleep", "20", (char *)NULL);
		_exit(1);
	}
	execl("/bin/sleep", "sleep", "20", (char *)NULL);
}

static void in_namespace(int n)
{
	if (unshare(CLONE_NEWPID)) {
		printf("refused\n");
		return;
	}
	if (fork())
		return;
	if (fork()) {
		work(n);
		wait(NULL);
	} else {
		work(n);
		usleep(LIFE_US); /* who it was in our namespace is known as long as it lives */
	}
}

int main(int argc, char **argv)
{
	char line[64], kind[32] = "";
	int n = argc > 2 ? atoi(argv[2]) : 0;

	if (argc > 2) {
		snprintf(kind, sizeof(kind), "%s", argv[1]);
	} else {
		printf("pid %d\n", getpid());
		fflush(stdout);
		if (!fgets(line, sizeof(line), stdin) || sscanf(line, "%31s %d", kind, &n) != 2)
			return 1;
	}
	if (strcmp(kind, "chain") != 0) {
		flag = 1;
		say(1);
	}
	if (!strcmp(kind, "daemon"))
		daemonise(n);
	else if (!strcmp(kind, "chain"))
		chain(n);
	else if (!strcmp(kind, "thread"))
		from_thread(n);
	else if (!strcmp(kind, "exec"))
		start_others(n);
	else if (!strcmp(kind, "pidns"))
		in_namespace(n);
	fflush(stdout);
	_exit(0);
}
