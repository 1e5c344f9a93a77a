/* build: gcc -O2 -g -pthread */
/*
 * resist_procs - threads and processes made in every way there is, as fast as they can be, each of which
 * accounts for what it wrote to `flag`. "pid N"; then on each line of standard input:
 *
 *	write N			N writes: "ok"
 *	births S N W		S threads make N threads each, one after the other, of W writes: "ok WRITES
 *PER_SECOND" churn S W		the same without end: "ok"
 *	still			... until now: "ok WRITES PER_SECOND"
 *	crowd N			N threads that do nothing but wait for "work": "ok"
 *	work W			each of them writes W times: "ok WRITES"
 *	processes N W		N children, by fork, vfork, posix_spawn and clone in turn; those with memory
 *of their own write W times and compare: "ok WRONG"
 *	odd KIND N		a task made by clone(2) as KIND says (see below), that writes N times: "ok ID"
 *	more N			... and again: "ok"
 *	trap			... and sends itself SIGTRAP: "ok SIGNAL", of which it died
 *	end			... or ends: "ok CODE"
 *	pdeath SIGNAL		PR_SET_PDEATHSIG: "ok"
 *	dumpable N | exec PROGRAM | thread_exec PROGRAM | vfork_sleep MS
 *	exit N
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
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

#define SPAWNERS 8
#define STACK 65536
#define ODD_STACK 1048576

volatile int flag __attribute__((aligned(64)));
extern char **environ;

static atomic_int stop;

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

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Threads */

struct spawner {
	pthread_t thread;
	long wanted, writes, born; /* wanted 0: until stopped */
};

static struct spawner spawner[SPAWNERS];
static long nspawners, writes_each;
static double began;

static void *write_and_end(void *arg)
{
	(void)arg;
	write_times(writes_each);
	return NULL;
}

static void *spawn_threads(void *arg)
{
	struct spawner *s = arg;
	pthread_attr_t attr;
	pthread_t t;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	while (s->wanted ? s->born < s->wanted : !stop) {
		if (pthread_create(&t, &attr, write_and_end, NULL))
			continue;
		pthread_join(t, NULL);
		s->born++;
		s->writes += writes_each;
	}
	pthread_attr_destroy(&attr);
	return NULL;
}

static void start_spawners(long n, long births, long writes)
{
	nspawners = n < SPAWNERS ? n : SPAWNERS;
	writes_each = writes;
	stop = 0;
	began = now();
	for (long i = 0; i < nspawners; i++) {
		spawner[i] = (struct spawner){ .wanted = births };
		pthread_create(&spawner[i].thread, NULL, spawn_threads, &spawner[i]);
	}
}

static void join_spawners(void)
{
	long writes = 0, born = 0;

	for (long i = 0; i < nspawners; i++) {
		pthread_join(spawner[i].thread, NULL);
		writes += spawner[i].writes;
		born += spawner[i].born;
	}
	nspawners = 0;
	printf("ok %ld %.0f\n", writes, (double)born / (now() - began));
}

/* A crowd */

static pthread_barrier_t begin_work, end_work;
static long crowd;

static void *wait_for_work(void *arg)
{
	for (;;) {
		pthread_barrier_wait(&begin_work);
		write_times(writes_each);
		pthread_barrier_wait(&end_work);
	}
	return arg;
}

static void gather(long n)
{
	pthread_t t;

	crowd = n;
	pthread_barrier_init(&begin_work, NULL, (unsigned int)n + 1);
	pthread_barrier_init(&end_work, NULL, (unsigned int)n + 1);
	for (long i = 0; i < n; i++)
		pthread_create(&t, NULL, wait_for_work, NULL);
	printf("ok\n");
}

static void let_work(long writes)
{
	writes_each = writes;
	pthread_barrier_wait(&begin_work);
	pthread_barrier_wait(&end_work);
	printf("ok %ld\n", crowd * writes);
}

/* Processes */

static int wait_for(pid_t child)
{
	int status = -1;

	while (waitpid(child, &status, __WALL) < 0 && errno == EINTR)
		;
	return status;
}

static int by_vfork(void)
{
	pid_t child = vfork();

	if (!child) {
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

/* What it writes is its own: the values and their number must be right whatever its parent does. */
static int by_clone(unsigned long flags, long writes)
{
	pid_t child = (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, 0);

	if (!child) {
		write_times(writes);
		_exit(flag == writes - 1 ? 0 : 1);
	}
	return wait_for(child);
}

static void make_processes(long n, long writes)
{
	int wrong = 0;

	for (long i = 0; i < n; i++) {
		if (i % 4 == 0)
			wrong += by_vfork() != 0;
		else if (i % 4 == 1)
			wrong += by_spawn() != 0;
		else
			wrong += by_clone(i % 4 == 2 ? 0 : CLONE_FILES | CLONE_FS, writes) != 0;
	}
	printf("ok %d\n", wrong);
}

/* Odd tasks. They may have no thread-local memory of their own: no libc in there. */

static atomic_long odd_writes, odd_order; /* order: 0 wait, 1 end, 2 trap */
static pid_t odd_pid;
static int odd_tid __attribute__((aligned(64)));
static pthread_t odd_maker;
static const char *odd_kind;
static atomic_int odd_status;

static const struct odd {
	const char *kind;
	unsigned long flags;
} odd_kinds[] = {
	{ "vm", CLONE_VM | SIGCHLD },
	{ "vmvfork", CLONE_VM | CLONE_VFORK | SIGCHLD },
	{ "sighand", CLONE_VM | CLONE_SIGHAND | SIGCHLD },
	{ "files", CLONE_FILES | CLONE_FS | SIGCHLD },
	{ "parent", CLONE_PARENT | SIGCHLD },
	{ "silent", CLONE_VM }, /* its end raises no signal: waited for with __WCLONE */
	{ "clear", CLONE_CLEAR_SIGHAND },
	{ "raw", CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
			 CLONE_CHILD_CLEARTID },
};

static long raw_syscall(long nr, long a, long b)
{
	long result;

	__asm__ volatile("syscall" : "=a"(result) : "a"(nr), "D"(a), "S"(b) : "rcx", "r11", "memory");
	return result;
}

static int be_odd(void *arg)
{
	struct timespec pause = { 0, 1000000 };
	long parent = raw_syscall(SYS_getppid, 0, 0);

	(void)arg;
	while (raw_syscall(SYS_getppid, 0, 0) == parent) { /* nobody is left to end it, else */
		while (odd_writes > 0) {
			write_flag((int)odd_writes);
			odd_writes--;
		}
		if (odd_order == 1)
			break;
		if (odd_order == 2)
			raw_syscall(SYS_kill, raw_syscall(SYS_getpid, 0, 0), SIGTRAP);
		raw_syscall(SYS_nanosleep, (long)&pause, 0);
	}
	raw_syscall(SYS_exit, 7, 0);
	return 7;
}

static pid_t start_odd(const struct odd *o)
{
	static char *stack;

	if (!stack)
		stack = mmap(NULL, ODD_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!strcmp(o->kind, "clear")) {
		struct clone_args args = { .flags = o->flags, .exit_signal = SIGCHLD };
		pid_t child = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

		if (!child)
			_exit(be_odd(NULL));
		return child;
	}
	odd_tid = 1;
	return clone(be_odd, stack + ODD_STACK, (int)o->flags, NULL, NULL, NULL, &odd_tid);
}

/* One that is made by CLONE_VFORK holds its maker until it ends. */
static void *make_odd(void *arg)
{
	odd_pid = start_odd(arg);
	odd_status = wait_for(odd_pid);
	return NULL;
}

static void make_one_odd(const char *kind, long writes)
{
	const struct odd *o = odd_kinds;

	while (strcmp(o->kind, kind) != 0)
		o++;
	odd_kind = o->kind;
	odd_order = 0;
	odd_writes = writes;
	if (o->flags & CLONE_VFORK)
		pthread_create(&odd_maker, NULL, make_odd, (void *)(uintptr_t)o);
	else
		odd_pid = start_odd(o);
	while ((o->flags & CLONE_VM) && odd_writes)
		usleep(100);
	printf("ok %d\n", odd_pid);
}

static void end_odd(int order)
{
	int status = -1;

	if (!strcmp(odd_kind, "files") || !strcmp(odd_kind, "clear")) /* it cannot see what we write */
		kill(odd_pid, order == 2 ? SIGTRAP : SIGKILL);
	odd_order = order;
	if (!strcmp(odd_kind, "raw")) {
		while (__atomic_load_n(&odd_tid, __ATOMIC_ACQUIRE))
			usleep(100);
		status = 7 << 8;
	} else if (!strcmp(odd_kind, "vmvfork")) {
		pthread_join(odd_maker, NULL);
		status = odd_status;
	} else if (strcmp(odd_kind, "parent") != 0) {
		status = wait_for(odd_pid);
	}
	printf("ok %d\n", order == 2 ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void *execute(void *arg)
{
	execl(arg, arg, (char *)NULL);
	return NULL;
}

static void sleep_in_vfork(long ms)
{
	const struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
	pid_t child = vfork();

	if (!child) {
		raw_syscall(SYS_nanosleep, (long)&t, 0);
		_exit(0);
	}
	wait_for(child);
}

static void obey(char *line)
{
	char word[32] = "", text[256] = "";
	long a, b, c;
	pthread_t t;

	sscanf(line, "%31s %255s", word, text);
	a = b = c = 0;
	sscanf(line, "%*s %ld %ld %ld", &a, &b, &c);
	if (!strcmp(word, "births")) {
		start_spawners(a, b, c);
		join_spawners();
		return;
	}
	if (!strcmp(word, "still")) {
		stop = 1;
		join_spawners();
		return;
	}
	if (!strcmp(word, "crowd")) {
		gather(a);
		return;
	}
	if (!strcmp(word, "work")) {
		let_work(a);
		return;
	}
	if (!strcmp(word, "processes")) {
		make_processes(a, b);
		return;
	}
	if (!strcmp(word, "odd")) {
		sscanf(line, "%*s %*s %ld", &a);
		make_one_odd(text, a);
		return;
	}
	if (!strcmp(word, "trap") || !strcmp(word, "end")) {
		end_odd(*word == 't' ? 2 : 1);
		return;
	}
	if (!strcmp(word, "write"))
		write_times(a);
	else if (!strcmp(word, "churn"))
		start_spawners(a, 0, b);
	else if (!strcmp(word, "more"))
		for (odd_writes = a; odd_writes;)
			usleep(100);
	else if (!strcmp(word, "pdeath"))
		prctl(PR_SET_PDEATHSIG, a);
	else if (!strcmp(word, "dumpable"))
		prctl(PR_SET_DUMPABLE, a);
	else if (!strcmp(word, "exec"))
		execute(text);
	else if (!strcmp(word, "thread_exec"))
		pthread_create(&t, NULL, execute, strdup(text));
	else if (!strcmp(word, "vfork_sleep"))
		sleep_in_vfork(a);
	else if (!strcmp(word, "exit"))
		exit((int)a);
	printf("ok\n");
}

int main(void)
{
	char line[512];

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("pid %d\n", getpid());
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	return 0;
}
