/* build: gcc -O2 -g -pthread */
/*
 * forker - a server that forks children all the time, in every way. "pid N"; then on each line of standard
 * input:
 *
 *	storm RATE KEEP KIND...	forks RATE children a second, by two threads; each KEEP-th lives on, as one of
 *				the KINDs in turn, until there are 40; the others end at once: "ok"
 *	one KIND		one child that lives on: "ok ID"
 *	still			no more are forked: "ok FORKED RATE", what there was
 *	write N			N writes of `flag`: "ok"
 *	end			sends SIGTRAP to each child of its own that lives, but in vfork, where it
 *would be taken only later: "ok LIVED OTHERWISE", those that it did not end
 *
 * Who is left without a parent becomes its child. All end with it. What becomes of a child that lives on:
 *
 *	plain		it sleeps
 *	busy		it writes `flag`, a thousand times a second
 *	threads		it has three threads
 *	stopped		it has stopped itself (SIGSTOP)
 *	session		it leads a session of its own, and its parent has ended
 *	parent		it has a child, and that one, too
 *	breeder		forks a child each 10 ms that ends at once
 *	hopper		forks a child each 20 ms and ends: that one goes on so
 *	vm		somebody else runs in its memory: CLONE_VM
 *	vfork		... it waits for in vfork
 *	namespace	... it has made as the first of a pid namespace
 *	user		user 65534
 *	undumpable	nobody but root may look at it
 *	seccomp		under a filter that permits all
 */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FORKERS 2
#define KINDS 16
#define CHILDREN 40

volatile int flag __attribute__((aligned(64)));

static int server_lives[2]; /* a pipe: its other end is the server's alone */
static atomic_int still = 1;
static atomic_long forked;
static long keep;
static double pause_s, began;
static const char *kinds[KINDS];
static unsigned int number_of_kinds;
static pthread_t forker[FORKERS];
static struct child {
	pid_t pid;
	int status;
	bool ended;
} children[CHILDREN + FORKERS];
static atomic_uint number_of_children;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void pause_for(double s)
{
	struct timespec t = { (time_t)s, (long)((s - (double)(time_t)s) * 1e9) };

	nanosleep(&t, NULL);
}

static int is_over(int wait_ms)
{
	struct pollfd p = { .fd = server_lives[0] };

	return poll(&p, 1, wait_ms) > 0;
}

static void *sleep_on(void *unused)
{
	while (!is_over(10000))
		;
	_exit(0);
	return unused;
}

static void breed(void)
{
	pid_t child;

	while (!is_over(0)) {
		child = fork();
		if (!child)
			_exit(0);
		waitpid(child, NULL, 0);
		pause_for(0.01);
	}
}

static void hop(void)
{
	while (!is_over(20)) {
		if (fork() > 0)
			_exit(0);
	}
}

static int run_in_others_memory(void *unused)
{
	sleep_on(unused);
	return 0;
}

static void share_memory(int flags)
{
	char *stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	clone(run_in_others_memory, stack + 65536, flags | CLONE_VM | SIGCHLD, NULL);
}

static void permit_all(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { 1, &allow };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static __attribute__((noreturn)) void live_on_as(const char *kind)
{
	pthread_t t;

	close(server_lives[1]);
	if (!strcmp(kind, "busy")) {
		while (!is_over(1))
			flag = flag + 1;
	} else if (!strcmp(kind, "threads")) {
		pthread_create(&t, NULL, sleep_on, NULL);
		pthread_create(&t, NULL, sleep_on, NULL);
	} else if (!strcmp(kind, "stopped")) {
		raise(SIGSTOP);
	} else if (!strcmp(kind, "session")) {
		if (fork())
			_exit(0);
		setsid();
	} else if (!strcmp(kind, "parent")) {
		if (!fork())
			fork();
	} else if (!strcmp(kind, "breeder")) {
		breed();
	} else if (!strcmp(kind, "hopper")) {
		hop();
	} else if (!strcmp(kind, "vm")) {
		share_memory(0);
	} else if (!strcmp(kind, "vfork")) {
		share_memory(CLONE_VFORK);
	} else if (!strcmp(kind, "namespace")) {
		if (unshare(CLONE_NEWPID) || fork())
			sleep_on(NULL);
	} else if (!strcmp(kind, "user")) {
		if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
			_exit(1);
	} else if (!strcmp(kind, "undumpable")) {
		prctl(PR_SET_DUMPABLE, 0);
	} else if (!strcmp(kind, "seccomp")) {
		permit_all();
	}
	sleep_on(NULL);
	_exit(0);
}

static pid_t keep_one(const char *kind)
{
	pid_t child = fork();

	if (!child)
		live_on_as(kind);
	if (child > 0 && number_of_children < CHILDREN && strcmp(kind, "vfork") != 0)
		children[number_of_children++].pid = child;
	return child;
}

static void *fork_all_the_time(void *unused)
{
	double next = now();
	long n;

	while (!still) {
		n = ++forked;
		if (n % keep || number_of_children >= CHILDREN) {
			if (!fork())
				_exit(0);
		} else {
			keep_one(kinds[(unsigned long)(n / keep) % number_of_kinds]);
		}
		next += pause_s;
		if (next > now())
			pause_for(next - now());
	}
	return unused;
}

static void storm(char *line)
{
	static char copy[256];
	char *word, *rest = NULL;
	int i;

	snprintf(copy, sizeof(copy), "%s", line);
	strtok_r(copy, " \n", &rest);
	pause_s = FORKERS / atof(strtok_r(NULL, " \n", &rest));
	keep = atol(strtok_r(NULL, " \n", &rest));
	for (number_of_kinds = 0; number_of_kinds < KINDS && (word = strtok_r(NULL, " \n", &rest));)
		kinds[number_of_kinds++] = word;
	forked = 0;
	began = now();
	still = 0;
	for (i = 0; i < FORKERS; i++)
		pthread_create(&forker[i], NULL, fork_all_the_time, NULL);
	printf("ok\n");
}

static void be_still(void)
{
	int i;

	still = 1;
	for (i = 0; i < FORKERS; i++)
		pthread_join(forker[i], NULL);
	printf("ok %ld %.0f\n", (long)forked, (double)forked / (now() - began));
}

/* False: there is no child any more. */
static bool reap(void)
{
	unsigned int i;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, __WALL | WNOHANG)) > 0)
		for (i = 0; i < number_of_children; i++)
			if (children[i].pid == pid) {
				children[i].status = status;
				children[i].ended = true;
			}
	return pid == 0;
}

/* Each has its own default action: SIGTRAP ends it, as it would have without anybody looking. */
static void end_children(void)
{
	double end = now() + 10;
	long lived = 0, otherwise = 0;
	unsigned int i, n = 0;

	reap();
	for (i = 0; i < number_of_children; i++) {
		struct child *c = &children[n];

		*c = children[i];
		if (c->ended || kill(c->pid, SIGTRAP))
			continue; /* it had ended by itself, as some kinds do */
		kill(c->pid, SIGCONT);
		n++;
	}
	number_of_children = n;
	lived = n;
	for (i = 0; i < n; i++) {
		while (!children[i].ended && now() < end && reap())
			pause_for(0.001);
		otherwise += !WIFSIGNALED(children[i].status) || WTERMSIG(children[i].status) != SIGTRAP;
	}
	number_of_children = 0;
	printf("ok %ld %ld\n", lived, otherwise);
}

static void obey(char *line)
{
	char kind[32];
	long i, n;

	if (!strncmp(line, "storm ", 6)) {
		storm(line);
	} else if (sscanf(line, "one %31s", kind) == 1) {
		printf("ok %d\n", keep_one(kind));
	} else if (!strncmp(line, "still", 5)) {
		be_still();
	} else if (sscanf(line, "write %ld", &n) == 1) {
		for (i = 0; i < n; i++)
			flag = (int)i;
		printf("ok\n");
	} else if (!strncmp(line, "end", 3)) {
		end_children();
	}
	fflush(stdout);
}

int main(void)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
	char line[256];
	unsigned int i;

	setvbuf(stdin, NULL, _IONBF, 0);
	if (pipe(server_lives) || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
		return 1;
	printf("pid %d\n", getpid());
	fflush(stdout);
	for (;;) {
		while (poll(&in, 1, 20) <= 0)
			reap();
		if (!fgets(line, sizeof(line), stdin))
			break;
		obey(line);
	}
	close(server_lives[1]);
	for (i = 0; i < number_of_children; i++)
		if (!children[i].ended)
			kill(children[i].pid, SIGCONT);
	while (reap())
		pause_for(0.01);
	return 0;
}
