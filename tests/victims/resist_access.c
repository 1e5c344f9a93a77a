/* build: gcc -O2 -g -pthread */
/*
 * resist_access - accesses at which whoever records them is easily led to touch what is watched, or what is
 * not there any more. It does what it is told, a line at a time, in its second thread: "pid N" first, "ok
 *TEXT" after each line.
 *
 *	page KIND	a page, private or of a file; tells its address. Told again: the same address
 *	touch N		writes 1 to N there
 *	drop HOW	the page goes: unmap, truncate (of a file) or protect
 *	fault HOW	SIGSEGV and SIGBUS are caught, or ignored; tells how many were caught, and whether
 *those are still their actions own MS		a thread reads and writes its own copy of `mine` for so long;
 *tells how often owners HOW MS	two threads own the page. One drops its reference, `lock sub`, and looks at it
 *no more; the other one sees that, and makes the page go. So again and again; tells how often frames MS
 *writes `flag` where the frame of the caller lies, by its CFI, in a page that another thread maps and unmaps;
 *tells how often low WHERE	so many bytes below the stack pointer of a thread that waits for work, and
 *makes no call; tells the address write N		that thread writes 1 to N there; tells how many ms it
 *took flag N		that thread writes 1 to N to `flag`, likewise
 *	trap N		that thread sends itself SIGTRAP N times; tells how many a handler of the program's
 *got, and how far below the stack pointer the signal's ucontext and siginfo were
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
#define AT ((void *)0x100000000000) /* far from all that the kernel places */
#define FRAME_AT ((char *)0x110000000000)

volatile long flag __attribute__((aligned(64)));
_Thread_local volatile long mine;

static int file = -1;
static volatile bool over;

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void sleep_ms(long ms)
{
	usleep((useconds_t)ms * 1000);
}

static void map_page(bool from_file)
{
	if (!from_file) {
		mmap(AT, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		return;
	}
	if (file < 0)
		file = memfd_create("page", 0);
	if (ftruncate(file, PAGE))
		abort();
	mmap(AT, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
}

static void drop_page(const char *how)
{
	if (!strcmp(how, "unmap"))
		munmap(AT, PAGE);
	else if (!strcmp(how, "protect"))
		mprotect(AT, PAGE, PROT_NONE);
	else if (ftruncate(file, 0))
		abort();
}

static volatile long faults;

static void on_fault(int sig)
{
	faults++;
	signal(sig, SIG_DFL);
}

static bool set_fault(const char *how, int sig)
{
	struct sigaction sa = { .sa_handler = !strcmp(how, "ignore") ? SIG_IGN : on_fault }, old;

	sigaction(sig, &sa, &old);
	return old.sa_handler == sa.sa_handler;
}

static void obey_fault(const char *how)
{
	bool same = set_fault(how, SIGSEGV);

	same &= set_fault(how, SIGBUS);
	printf("ok %ld %s\n", faults, same ? "same" : "other");
}

/* A variable of each thread's own */

static void *use_own(void *ret)
{
	volatile long *loops = ret;

	while (!over) {
		mine = mine + 1;
		++*loops;
	}
	return NULL;
}

static long run_own(long ms)
{
	volatile long loops = 0;
	pthread_t t;

	over = false;
	pthread_create(&t, NULL, use_own, (void *)&loops);
	sleep_ms(ms);
	over = true;
	pthread_join(t, NULL);
	return loops;
}

/* Owners of a page */

static volatile long round_begun, round_ended;

static void *own_second(void *how)
{
	volatile long *references = AT;
	long seen = 0, wait;

	for (;;) {
		while (round_begun == seen) {
			sched_yield();
			if (over)
				return NULL;
		}
		seen = round_begun;
		while (*references != 1)
			;
		for (wait = seen % 97 * 1000; wait;
		     wait--) /* up to some 30 us: some time it meets any instant */
			__asm__ volatile("");
		drop_page(how);
		round_ended = seen;
	}
}

static long run_owners(const char *how, long ms)
{
	uint64_t end = now_ms() + (uint64_t)ms;
	long n = 0;
	pthread_t t;

	over = false;
	round_begun = round_ended = 0;
	pthread_create(&t, NULL, own_second, (void *)(uintptr_t)how);
	while (now_ms() < end) {
		map_page(!strcmp(how, "truncate"));
		*(volatile long *)AT = 2;
		round_begun = ++n;
		__asm__ volatile("lock subq $1, (%0)" : : "r"(AT) : "memory", "cc");
		while (round_ended != n)
			sched_yield();
	}
	over = true;
	pthread_join(t, NULL);
	map_page(!strcmp(how, "truncate"));
	return n;
}

/* Frames in memory that goes */

void write_far(long value, void *cfa);
__asm__(".text\n"
	".type write_far, @function\n"
	"write_far:\n\t"
	".cfi_startproc\n\t"
	"push %rbx\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	"mov %rsi, %rbx\n\t"
	".cfi_def_cfa rbx, 0\n\t"
	"mov %rdi, flag(%rip)\n\t"
	"nop\n\t"
	"pop %rbx\n\t"
	".cfi_def_cfa rsp, 8\n\t"
	"ret\n\t"
	".cfi_endproc\n\t"
	".size write_far, . - write_far\n");

static void *flicker(void *unused)
{
	(void)unused;
	while (!over) {
		mmap(FRAME_AT, PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_POPULATE, -1, 0);
		munmap(FRAME_AT, PAGE);
	}
	return NULL;
}

static long run_frames(long ms)
{
	uint64_t end = now_ms() + (uint64_t)ms;
	long n = 0;
	pthread_t t;

	over = false;
	pthread_create(&t, NULL, flicker, NULL);
	while (now_ms() < end)
		write_far(++n, FRAME_AT + PAGE / 2);
	over = true;
	pthread_join(t, NULL);
	return n;
}

/* Below the stack pointer */

static volatile long wanted, done, got;
static volatile char work;
static volatile uintptr_t base;
static volatile long *volatile low;

static volatile uintptr_t context_at, info_at;

static void on_trap(int sig, siginfo_t *info, void *context)
{
	got += sig == SIGTRAP;
	context_at = base - (uintptr_t)context;
	info_at = base - (uintptr_t)info;
}

/* Without a word of stack. */
static inline __attribute__((always_inline)) long call_kernel(long number, long first, long second)
{
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(number), "D"(first), "S"(second)
			 : "rcx", "r11", "memory");
	return ret;
}

__attribute__((noinline)) static void write_low(volatile long *at, long n)
{
	long i;

	for (i = 1; i <= n; i++)
		*at = i;
}

__attribute__((noreturn)) static void *work_below(void *unused)
{
	long tid = syscall(SYS_gettid), i;

	(void)unused;
	base = (uintptr_t)__builtin_frame_address(0);
	for (;;) {
		while (!wanted)
			call_kernel(SYS_sched_yield, 0, 0);
		if (work == 'w')
			write_low(low, wanted);
		else if (work == 'f')
			write_low(&flag, wanted);
		else
			for (i = 0; i < wanted; i++)
				call_kernel(SYS_tkill, tid, SIGTRAP);
		wanted = 0;
		done = 1;
	}
}

static long let_work(char what, long n)
{
	uint64_t begin = now_ms();

	done = 0;
	work = what;
	wanted = n;
	while (!done)
		usleep(200);
	return (long)(now_ms() - begin);
}

static uintptr_t set_low(uintptr_t where)
{
	pthread_t t;

	if (!base)
		pthread_create(&t, NULL, work_below, NULL);
	while (!base)
		usleep(200);
	low = (volatile long *)((base - where) & ~7UL);
	return (uintptr_t)low;
}

/* Obeying */

static long touch(long n)
{
	write_low(AT, n);
	return n;
}

static void answer(const char *cmd, const char *first, const char *second)
{
	long n = atol(first);

	if (!strcmp(cmd, "page") || !strcmp(cmd, "low")) {
		if (*cmd == 'p')
			map_page(!strcmp(first, "file"));
		printf("ok 0x%lx\n", *cmd == 'p' ? (uintptr_t)AT : set_low((uintptr_t)n));
	} else if (!strcmp(cmd, "drop")) {
		drop_page(first);
		printf("ok\n");
	} else if (!strcmp(cmd, "fault")) {
		obey_fault(first);
	} else if (!strcmp(cmd, "trap")) {
		let_work('t', n);
		printf("ok %ld %lu %lu\n", got, context_at, info_at);
	} else {
		printf("ok %ld\n", !strcmp(cmd, "own")	    ? run_own(n)
				   : !strcmp(cmd, "owners") ? run_owners(first, atol(second))
				   : !strcmp(cmd, "frames") ? run_frames(n)
				   : !strcmp(cmd, "touch")  ? touch(n)
							    : let_work(*cmd, n));
	}
}

static void *obey(void *unused)
{
	char line[256], word[3][32];

	(void)unused;
	while (fgets(line, sizeof(line), stdin)) {
		memset(word, 0, sizeof(word));
		sscanf(line, "%31s %31s %31s", word[0], word[1], word[2]);
		answer(word[0], word[1], word[2]);
	}
	exit(0);
}

int main(void)
{
	struct sigaction sa = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };
	pthread_t t;

	sigaction(SIGTRAP, &sa, NULL);
	setvbuf(stdin, NULL, _IONBF, 0);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("pid %d\n", getpid());
	pthread_create(&t, NULL, obey, NULL);
	pthread_join(t, NULL);
	return 0;
}
