/*
 * odd - a program that is hard to watch, and accounts for what it does: odd.h.
 *
 *	odd PAGE KIND WORD TRAPS [first]
 *
 *	KIND	plain, pointer, tls, blocked, pages, dispatch, daemons, forking, or pidns: the first process of a pid
 *		namespace of its own, which does as forking does
 *	WORD	in which way: odd_*.c
 *	TRAPS	what SIGTRAP does: default, own or ignored
 *
 * Prints "pid N". Ends with 0 when it is told to and nothing was wrong, with 13 where something was.
 */
#include "tests/chaos/odd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FAILED 13

struct odd_shared *shared;
volatile long odd_flag __attribute__((aligned(64)));

static const struct kind {
	const char *name;
	void (*work)(const char *);
} kinds[] = {
	{ "plain", work_plain },     { "pointer", work_pointer }, { "tls", work_tls },
	{ "blocked", work_blocked }, { "pages", work_pages },	  { "dispatch", work_dispatch },
	{ "daemons", work_daemons }, { "forking", work_forking }, { "pidns", work_forking },
};

void fail(const char *fmt, ...)
{
	char text[ODD_FAILURE - 32];
	int error = errno;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!__atomic_exchange_n(&shared->failed, 1, __ATOMIC_SEQ_CST))
		snprintf(shared->failure, sizeof(shared->failure), "%s (errno %d)", text, error);
	_exit(FAILED);
}

void checked(void)
{
	__atomic_fetch_add(&shared->checks, 1, __ATOMIC_RELAXED);
}

/* Seen from the outside: gettid() is another number in a pid namespace. */
static uint32_t own_tid(void)
{
	char buf[64] = "";
	const char *last;

	if (readlink("/proc/thread-self", buf, sizeof(buf) - 1) < 0)
		fail("no /proc");
	last = strrchr(buf, '/');
	return last ? (uint32_t)atoi(last + 1) : 0;
}

void beat(enum odd_beat which)
{
	static __thread bool known;

	if (!known)
		__atomic_store_n(&shared->tid[which], own_tid(), __ATOMIC_SEQ_CST);
	known = true;
	__atomic_fetch_add(&shared->beats[which], 1, __ATOMIC_RELAXED);
}

void pause_us(unsigned int us)
{
	struct timespec t = { us / 1000000, (long)(us % 1000000) * 1000 };

	if (nanosleep(&t, NULL))
		fail("nanosleep() was interrupted");
}

bool is_over(void)
{
	return __atomic_load_n(&shared->over, __ATOMIC_SEQ_CST);
}

static bool is_closed(void)
{
	return is_over() || __atomic_load_n(&shared->closed, __ATOMIC_SEQ_CST);
}

static bool enter(uint32_t *count, const uint32_t *hold)
{
	__atomic_fetch_add(count, 1, __ATOMIC_SEQ_CST);
	if (!is_closed() && !(hold && __atomic_load_n(hold, __ATOMIC_SEQ_CST)))
		return true;
	__atomic_fetch_sub(count, 1, __ATOMIC_SEQ_CST);
	return false;
}

bool odd_enter(void)
{
	return enter(&shared->active, &shared->hold);
}

static bool is_descendant;
static uint32_t epoch; /* in which it was forked */

void become_descendant(void)
{
	is_descendant = true;
}

static enum odd_writer writer(void)
{
	if (!is_descendant)
		return WRITER_FIRST;
	return epoch == __atomic_load_n(&shared->epoch, __ATOMIC_SEQ_CST) ? WRITER_DESCENDANT : WRITER_OLD;
}

void odd_leave(unsigned int writes)
{
	__atomic_fetch_add(&shared->writes[writer()], writes, __ATOMIC_SEQ_CST);
	__atomic_fetch_sub(&shared->active, 1, __ATOMIC_SEQ_CST);
	checked();
}

bool fork_enter(void)
{
	if (!enter(&shared->forking, &shared->quiet))
		return false;
	epoch = __atomic_load_n(&shared->epoch, __ATOMIC_SEQ_CST);
	return true;
}

void fork_leave(void)
{
	__atomic_fetch_sub(&shared->forking, 1, __ATOMIC_SEQ_CST);
}

/* SIGTRAP's action, which must be at the end what it was. */

static void on_trap(int sig)
{
	fail("signal %d that nobody has sent", sig);
}

static void (*trap_handler)(int);

static void set_traps(const char *how)
{
	struct sigaction sa = { .sa_flags = SA_RESTART };

	trap_handler = *how == 'o' ? on_trap : *how == 'i' ? SIG_IGN : SIG_DFL;
	sa.sa_handler = trap_handler;
	sigaction(SIGTRAP, &sa, NULL);
}

static void check_traps(void)
{
	struct sigaction sa;

	sigaction(SIGTRAP, NULL, &sa);
	if (sa.sa_handler != trap_handler && !shared->watched)
		fail("SIGTRAP's action is %p instead of %p", (void *)(uintptr_t)sa.sa_handler,
		     (void *)(uintptr_t)trap_handler);
}

/* Threads */

static const struct kind *kind;
static const char *word;

static void *work(void *unused)
{
	kind->work(word);
	return unused;
}

static void *stand_by(void *unused)
{
	while (!is_over()) {
		beat(BEAT_BYSTANDER);
		pause_us(1000);
	}
	return unused;
}

/* False: there is none left. */
static bool reap(void)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (status)
			fail("child %d ended with status %#x", pid, status);
	return pid == 0;
}

static void wait_until_still(void)
{
	while (__atomic_load_n(&shared->active, __ATOMIC_SEQ_CST) ||
	       __atomic_load_n(&shared->forking, __ATOMIC_SEQ_CST))
		pause_us(500);
}

static void execute_anew(char **argv)
{
	static char first[] = "first";
	char *again[] = { argv[0], argv[1], argv[2], argv[3], argv[4], first, NULL };

	__atomic_store_n(&shared->closed, 1, __ATOMIC_SEQ_CST);
	wait_until_still();
	memcpy(shared->before_exec, shared->writes, sizeof(shared->writes));
	shared->execute = 0;
	shared->executed++;
	execv("/proc/self/exe", again);
	fail("execv()");
}

static void lead(char **argv)
{
	while (!is_over()) {
		if (__atomic_load_n(&shared->execute, __ATOMIC_SEQ_CST))
			execute_anew(argv);
		reap();
		pause_us(2000);
	}
	wait_until_still();
	while (reap())
		pause_us(2000);
	check_traps();
}

static bool map_page(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return false;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return shared != MAP_FAILED;
}

static void say_pid(pid_t pid)
{
	printf("pid %d\n", pid);
	fflush(stdout);
}

/* The one that goes on is the first of its namespace; the one outside ends as that one did. */
static void enter_namespace(void)
{
	int status;
	pid_t pid;

	if (unshare(CLONE_NEWPID) || (pid = fork()) < 0)
		fail("no pid namespace");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		return;
	}
	say_pid(pid);
	if (waitpid(pid, &status, 0) != pid)
		fail("waitpid()");
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

int main(int argc, char **argv)
{
	bool is_first = argc == 6;
	pthread_t t;

	if (argc < 5 || !map_page(argv[1]))
		return 2;
	for (kind = kinds; kind < kinds + sizeof(kinds) / sizeof(*kinds) && strcmp(kind->name, argv[2]);
	     kind++)
		;
	if (kind == kinds + sizeof(kinds) / sizeof(*kinds))
		return 2;
	word = argv[3];
	if (!strcmp(kind->name, "pidns") && !is_first)
		enter_namespace();
	else if (!is_first)
		say_pid(getpid());
	set_traps(argv[4]);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	shared->address = (uintptr_t)&odd_flag;
	if (pthread_create(&t, NULL, work, NULL) || pthread_create(&t, NULL, stand_by, NULL))
		fail("pthread_create()");
	__atomic_store_n(&shared->closed, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&shared->magic, ODD_MAGIC, __ATOMIC_SEQ_CST);
	lead(argv);
	_exit(0);
}
