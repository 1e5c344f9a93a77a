/*
 * ptrace_loop - the least that a tracer can do about a watchpoint: a stop, and on. What every recorder that
 * lives on ptrace is measured against.
 *
 *	ptrace_loop PID ADDRESS [SIZE]
 *
 * Arms a write watch of SIZE (8) bytes in DR0 of every thread there is, prints "ready", and lets each hit go
 * on until SIGINT or SIGTERM; then clears the registers and lets go. It takes every SIGTRAP for a hit of its
 * own.
 */
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define DR(n) ((void *)(offsetof(struct user, u_debugreg) + 8 * (n)))
#define MOST_THREADS 64

static volatile sig_atomic_t stop_asked;
static pid_t thread[MOST_THREADS];
static int nthreads;

static void on_signal(int sig)
{
	stop_asked = sig;
}

static void seize_all(pid_t pid)
{
	struct dirent *entry;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	if (!dir)
		err(1, "%s", path);
	while ((entry = readdir(dir)) && nthreads < MOST_THREADS) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (tid <= 0)
			continue;
		if (ptrace(PTRACE_SEIZE, tid, 0, 0))
			err(1, "seize %d", tid);
		thread[nthreads++] = tid;
	}
	closedir(dir);
}

/* Into each thread, once: it is stopped, set, and goes on; a hit on the way is let go on as well. */
static void set_all(uint64_t addr, uint64_t dr7)
{
	int i, status;

	for (i = 0; i < nthreads; i++) {
		if (ptrace(PTRACE_INTERRUPT, thread[i], 0, 0))
			continue;
		while (waitpid(thread[i], &status, __WALL) == thread[i] && WIFSTOPPED(status) &&
		       status >> 16 != PTRACE_EVENT_STOP)
			ptrace(PTRACE_CONT, thread[i], 0, 0);
		ptrace(PTRACE_POKEUSER, thread[i], DR(7), 0);
		ptrace(PTRACE_POKEUSER, thread[i], DR(0), addr);
		if (ptrace(PTRACE_POKEUSER, thread[i], DR(7), dr7))
			warn("arm %d", thread[i]);
		ptrace(PTRACE_CONT, thread[i], 0, 0);
	}
}

/* Intel SDM vol. 3, 18.2.4: the LEN field. */
static uint64_t length_bits(unsigned long size)
{
	return size == 8 ? 2 : size - 1;
}

static void loop(void)
{
	int status;

	while (!stop_asked) {
		pid_t tid = waitpid(-1, &status, __WALL);

		if (tid < 0 && errno == ECHILD)
			exit(0);
		if (tid > 0 && WIFSTOPPED(status))
			ptrace(PTRACE_CONT, tid, 0, WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status));
	}
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	unsigned long size = argc > 3 ? strtoul(argv[3], NULL, 10) : 8;
	int i, status;

	if (argc < 3 || argc > 4 || (size != 1 && size != 2 && size != 4 && size != 8))
		errx(2, "usage: ptrace_loop PID ADDRESS [SIZE]");
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	seize_all((pid_t)strtol(argv[1], NULL, 10));
	set_all(strtoull(argv[2], NULL, 0), 1 | (1 | length_bits(size) << 2) << 16);
	printf("ready\n");
	fflush(stdout);
	loop();
	set_all(0, 0);
	/* What was hit before, and waits behind our stop, would kill. */
	for (i = 0; i < 100; i++) {
		pid_t tid;

		usleep(200);
		while ((tid = waitpid(-1, &status, __WALL | WNOHANG)) > 0)
			ptrace(PTRACE_CONT, tid, 0, 0);
	}
	for (i = 0; i < nthreads; i++) {
		ptrace(PTRACE_INTERRUPT, thread[i], 0, 0);
		if (waitpid(thread[i], &status, __WALL) == thread[i])
			ptrace(PTRACE_DETACH, thread[i], 0, 0);
	}
	return 0;
}
