/* build: gcc -O1 -g -pthread */
/*
 * restarts - one thread for each system call with a time limit, under a seccomp filter that allows that call and not
 * restart_syscall(2), by which the kernel resumes it after a stop. Each checks what its call returns.
 *
 *	restarts kill|errno [late]
 *
 * kill: restart_syscall ends the process; errno: it fails with EPERM. late: the filter is set at the line "sandbox".
 * "pid N" at the beginning; each line is answered "ok CALLS" with how often all calls returned as they should, or "bad
 * NAME RESULT".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WAIT_NS 100000000L

volatile int rounds;
static __thread volatile int tl;

static int quiet[2]; /* a pipe that nobody writes to */
static int epoll;
static const struct timespec limit = { .tv_nsec = WAIT_NS };

static struct timespec later(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	t.tv_nsec += WAIT_NS;
	if (t.tv_nsec >= 1000000000L) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000L;
	}
	return t;
}

/* As C libraries make it, with the number in the code. */
#define CALL4(number, a, b, c, d)                                                                         \
	({                                                                                                \
		long result_;                                                                             \
		register long r10_ __asm__("r10") = (long)(d);                                            \
                                                                                                          \
		__asm__ volatile("mov %1, %%eax\n\tsyscall"                                               \
				 : "=&a"(result_)                                                         \
				 : "i"(number), "D"((long)(a)), "S"((long)(b)), "d"((long)(c)), "r"(r10_) \
				 : "rcx", "r11", "memory");                                               \
		(int)result_;                                                                             \
	})

static int answer(int result)
{
	return result < 0 ? -errno : result;
}

static int do_poll(void)
{
	struct pollfd p = { quiet[0], POLLIN, 0 };

	return answer(poll(&p, 1, WAIT_NS / 1000000));
}

static int do_ppoll(void)
{
	struct pollfd p = { quiet[0], POLLIN, 0 };

	return answer(ppoll(&p, 1, &limit, NULL));
}

static int do_select(void)
{
	struct timeval t = { .tv_usec = WAIT_NS / 1000 };
	fd_set set;

	FD_ZERO(&set);
	FD_SET(quiet[0], &set);
	return answer(select(quiet[0] + 1, &set, NULL, NULL, &t));
}

static int do_epoll(void)
{
	struct epoll_event e;

	return answer(epoll_wait(epoll, &e, 1, WAIT_NS / 1000000));
}

static int do_nanosleep(void)
{
	return CALL4(SYS_nanosleep, &limit, NULL, 0, 0);
}

static int do_clock_nanosleep(void)
{
	struct timespec left;

	return CALL4(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &limit, &left);
}

static int do_futex(void)
{
	static int word;

	return CALL4(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &limit);
}

static int do_sem(void)
{
	static sem_t sem;
	struct timespec t = later(CLOCK_REALTIME);

	return answer(sem_timedwait(&sem, &t));
}

static const struct call {
	const char *name;
	int (*make)(void);
	int right;
} calls[] = {
	{ "poll", do_poll, 0 },
	{ "ppoll", do_ppoll, 0 },
	{ "select", do_select, 0 },
	{ "epoll_wait", do_epoll, 0 },
	{ "nanosleep", do_nanosleep, 0 },
	{ "clock_nanosleep", do_clock_nanosleep, 0 },
	{ "futex", do_futex, -ETIMEDOUT },
	{ "sem_timedwait", do_sem, -ETIMEDOUT },
};

#define CALLS (sizeof(calls) / sizeof(calls[0]))

static int done[CALLS];
static int wrong[CALLS]; /* a result that no call has: 1 */

/* Called by name, for a range of it. */
__attribute__((noinline)) int step_here(const struct call *c)
{
	int r = c->make();

	tl++;
	__atomic_add_fetch(&rounds, 1, __ATOMIC_RELAXED);
	return r;
}

static void *repeat(void *arg)
{
	const struct call *c = arg;
	size_t i = (size_t)(c - calls);

	for (;;) {
		int r = step_here(c);

		if (r != c->right)
			__atomic_store_n(&wrong[i], r ? r : 1, __ATOMIC_RELAXED);
		__atomic_add_fetch(&done[i], 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static int sandbox(int action)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_restart_syscall, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, (unsigned int)action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(filter) / sizeof(filter[0]), filter };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &prog);
}

static void tell(void)
{
	int least = __atomic_load_n(&done[0], __ATOMIC_RELAXED);

	for (size_t i = 0; i < CALLS; i++) {
		int r = __atomic_load_n(&wrong[i], __ATOMIC_RELAXED),
		    n = __atomic_load_n(&done[i], __ATOMIC_RELAXED);

		if (r) {
			printf("bad %s %d\n", calls[i].name, r);
			return;
		}
		if (n < least)
			least = n;
	}
	printf("ok %d\n", least);
}

int main(int argc, char **argv)
{
	int action = argc > 1 && !strcmp(argv[1], "kill") ? (int)SECCOMP_RET_KILL_PROCESS
							  : SECCOMP_RET_ERRNO | EPERM;
	struct epoll_event e = { .events = EPOLLIN };
	pthread_t thread;
	char line[64];

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (pipe(quiet) || (epoll = epoll_create1(0)) < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, quiet[0], &e))
		return 1;
	if (argc < 3 && sandbox(action))
		return 1;
	for (size_t i = 0; i < CALLS; i++)
		if (pthread_create(&thread, NULL, repeat, (void *)&calls[i]))
			return 1;
	printf("pid %d\n", getpid());
	while (fgets(line, sizeof(line), stdin)) {
		if (!strcmp(line, "sandbox\n") && sandbox(action))
			return 1;
		tell();
	}
	return 0;
}
