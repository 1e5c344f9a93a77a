/* odd_access - threads, signal masks, pages and system calls that make a watch hard. */
#include "tests/chaos/odd.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/victims/dispatch.h"

#define PAUSE_US 1000
#define BURST 2

static void write_flag(long n)
{
	if (!odd_enter())
		return;
	errno = ENOTTY;
	for (long i = 0; i < n; i++)
		odd_flag = i;
	if (errno != ENOTTY)
		fail("errno has changed");
	odd_leave((unsigned int)n);
}

void work_plain(const char *unused)
{
	(void)unused;
	while (!is_over()) {
		write_flag(BURST);
		beat(BEAT_ACCESSES);
		pause_us(PAUSE_US);
	}
}

/* A pointer that moves; what it leads to is watched. */

struct odd_node {
	volatile long len;
};

struct odd_node odd_nodes[2];
struct odd_node *volatile odd_head = odd_nodes;

void work_pointer(const char *unused)
{
	unsigned int i;

	(void)unused;
	for (i = 0; !is_over(); i++) {
		if (odd_enter()) {
			odd_head = &odd_nodes[i / 4 % 2];
			odd_head->len++;
			odd_leave(1);
		}
		beat(BEAT_ACCESSES);
		pause_us(PAUSE_US);
	}
}

/* Threads that write their own copy of a variable, and end. */

__thread volatile long odd_mine;

static void *write_mine(void *unused)
{
	for (long i = 0; i < BURST; i++)
		odd_mine = i;
	return unused;
}

void work_tls(const char *unused)
{
	pthread_t t;

	(void)unused;
	while (!is_over()) {
		if (odd_enter()) {
			if (pthread_create(&t, NULL, write_mine, NULL))
				fail("pthread_create()");
			pthread_join(t, NULL);
			odd_leave(BURST);
		}
		beat(BEAT_ACCESSES);
		pause_us(2 * PAUSE_US);
	}
}

/* A pool that blocks all signals, and a thread that blocks none. */

static void *write_unblocked(void *unused)
{
	while (!is_over()) {
		write_flag(1);
		pause_us(2 * PAUSE_US);
	}
	return unused;
}

static void *write_blocked(void *unused)
{
	sigset_t all, now, pending;
	bool is_first = unused == NULL;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	while (!is_over()) {
		write_flag(BURST);
		pthread_sigmask(SIG_SETMASK, NULL, &now);
		for (int sig = 1; sig < 32; sig++)
			if (sigismember(&now, sig) != (sig != SIGKILL && sig != SIGSTOP))
				fail("signal %d is%s blocked", sig, sigismember(&now, sig) ? "" : " not");
		checked();
		if (is_first)
			beat(BEAT_ACCESSES);
		pause_us(PAUSE_US);
	}
	sigpending(&pending);
	if (sigismember(&pending, SIGTRAP) && !shared->watched)
		fail("a SIGTRAP is still pending");
	return unused;
}

void work_blocked(const char *word)
{
	static char another;
	pthread_t t;

	if (strcmp(word, "all") && pthread_create(&t, NULL, write_unblocked, NULL))
		fail("pthread_create()");
	if (pthread_create(&t, NULL, write_blocked, &another))
		fail("pthread_create()");
	write_blocked(NULL);
}

/* Pages that go */

#define PAGE 4096
#define AT ((volatile long *)0x100000000000) /* far from all that the kernel places */

static int page_file = -1;
static const char *how_it_goes;
static __thread sigjmp_buf after_fault;
static __thread volatile bool may_fault;

static void on_fault(int sig)
{
	if (!may_fault)
		fail("signal %d at an access to a page that is there", sig);
	may_fault = false;
	siglongjmp(after_fault, 1);
}

static void map_page(void)
{
	int flags = page_file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;

	if (page_file >= 0 && ftruncate(page_file, PAGE))
		fail("ftruncate()");
	if (mmap((void *)(uintptr_t)AT, PAGE, PROT_READ | PROT_WRITE, flags | MAP_FIXED, page_file, 0) != AT)
		fail("mmap()");
}

static void drop_page(void)
{
	int error = 0;

	if (!strcmp(how_it_goes, "truncate"))
		error = ftruncate(page_file, 0);
	else if (!strcmp(how_it_goes, "protect"))
		error = mprotect((void *)(uintptr_t)AT, PAGE, PROT_NONE);
	else
		error = munmap((void *)(uintptr_t)AT, PAGE);
	if (error)
		fail("the page cannot be dropped");
}

/* An access there must fault, once, and do nothing. */
static void fault_there(void)
{
	may_fault = true;
	if (!sigsetjmp(after_fault, 1)) {
		*AT = 1;
		fail("an access to a page that is gone");
	}
	__atomic_fetch_add(&shared->faults, 1, __ATOMIC_RELAXED);
}

/* Two threads: one drops its reference and looks no more; the other one sees that, and drops the page. */

static volatile long round_begun, round_ended;

static void *own_second(void *unused)
{
	long seen = 0;

	for (;;) {
		if (round_begun == seen) {
			if (is_over() && !__atomic_load_n(&shared->active, __ATOMIC_SEQ_CST))
				return unused;
			pause_us(50);
			continue;
		}
		seen = round_begun;
		while (*AT != 1)
			;
		for (long wait = seen % 97 * 300; wait; wait--)
			__asm__ volatile("");
		drop_page();
		round_ended = seen;
	}
}

static unsigned int run_owned_round(void)
{
	*AT = 2;
	round_begun++;
	__asm__ volatile("lock subq $1, (%0)" : : "r"(AT) : "memory", "cc");
	while (round_ended != round_begun)
		sched_yield();
	map_page();
	return 2;
}

static unsigned int run_round(unsigned int i)
{
	unsigned int n;

	for (n = 1; n <= BURST; n++) {
		*AT = n;
		if (*AT != n)
			fail("%ld is there instead of %u", *AT, n);
	}
	if (i % 4)
		return BURST;
	drop_page();
	fault_there();
	if (i % 16 == 0)
		pause_us(3 * PAUSE_US);
	map_page();
	return BURST;
}

void work_pages(const char *word)
{
	struct sigaction sa = { .sa_handler = on_fault };
	bool is_owned = !strcmp(word, "owners");
	unsigned int i;
	pthread_t t;

	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
	how_it_goes = word;
	if (!strcmp(word, "truncate") && (page_file = memfd_create("odd", 0)) < 0)
		fail("memfd_create()");
	map_page();
	shared->address = (uintptr_t)AT;
	if (is_owned && pthread_create(&t, NULL, own_second, NULL))
		fail("pthread_create()");
	for (i = 0; !is_over(); i++) {
		if (odd_enter())
			odd_leave(is_owned ? run_owned_round() : run_round(i));
		checked();
		beat(BEAT_ACCESSES);
		pause_us(PAUSE_US);
	}
}

/* System calls that it dispatches itself, as Wine does. */

static void dispatch_one(void)
{
	long before = dispatched, answer;

	selector = SYSCALL_DISPATCH_FILTER_BLOCK;
	answer = call_from_here(SYS_getppid);
	if (answer != ANSWER || dispatched != before + 1)
		fail("a call of its own answers %ld, dispatched %ld", answer, dispatched - before);
	checked();
}

/* WORD: selector or range, from the beginning; lateselector, laterange: when the driver says so. */
void work_dispatch(const char *word)
{
	struct sigaction sa = { .sa_sigaction = on_dispatch, .sa_flags = SA_SIGINFO };
	bool is_late = !strncmp(word, "late", 4), dispatches = false;

	by_range = strstr(word, "range") != NULL;
	sigaction(SIGSYS, &sa, NULL);
	while (!is_over()) {
		if (!dispatches && (!is_late || shared->late)) {
			if (begin_to_dispatch())
				fail("prctl()");
			dispatches = true;
		}
		selector = SYSCALL_DISPATCH_FILTER_BLOCK;
		write_flag(BURST);
		selector = SYSCALL_DISPATCH_FILTER_ALLOW;
		if (dispatches)
			dispatch_one();
		beat(BEAT_ACCESSES);
		pause_us(PAUSE_US);
	}
}
