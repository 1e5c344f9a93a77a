/* build: gcc -O2 -g -pthread -Wl,-z,now */
/*
 * resist_signals - a program whose signals, stacks and timers are as hard to share as such can be. It does
 *what it is told, a line at a time, and accounts for it: "pid N" first, "ok TEXT" after each line.
 *
 *	write N			so many writes to `flag`
 *	race KIND | race stop	a thread calls sigaction, signal and sigprocmask as fast as it can; KIND own:
 *SIGTRAP has one of two handlers of the program's; any: or is ignored, too. stop: "same FOREIGN" if SIGTRAP's
 *action is what that thread has set last, and how many signals its handlers got that nobody of the program's
 *sent raise N			SIGTRAP to itself, N times; tells how many its own handlers got, in all trap
 *plain|onstack|once	installs a SIGTRAP handler that needs 24 KB of stack, checks where it runs, and that
 *				it may be interrupted by SIGUSR1; "once" with SA_RESETHAND
 *	ask data|heap|stack	for SIGTRAP's action, which is held there; set: again; forget: it is held no
 *more altstack SIZE [FLAGS]	for the thread that obeys; 0: none; FLAGS: autodisarm coro KIND SIZE N	N
 *writes on a stack of SIZE bytes, with known bytes below it; KIND context (swapcontext), asm (a hand-written
 *switch), edge (asm, a guard page below), stay (asm; waits there for a line, after all of the main stack that
 *it ever gets has been used)
 *	shallow N		N writes on an alternate signal stack, in a handler, with little room left
 *	timers HZ N		N writes while SIGPROF comes at HZ by setitimer, SIGTRAP by a timer, and
 *SIGTRAP to the thread by SIGEV_THREAD_ID; tells how many came of each
 *	end HOW			int3, int3x (in two bytes), int1, or raise
 *	hold KIND		SIGTRAP is blocked, and one waits: for the process, for the thread, or (event)
 *of
 *a breakpoint event of the program's own held			takes what waits; tells for whom that was, and
 *its si_code and value brim [ignore|block]	SIGTRAP to itself where its stack has no room for a signal,
 *with a SIGSEGV handler on an alternate stack; tells what it got: SIGTRAP or SIGSEGV, and its si_code
 *interrupted MS a read(2) that SIGTRAP of a timer interrupts: tells whether it ended with EINTR thread
 *from now on another thread obeys
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define CANARY 0x5a
#define BELOW 16384
#define PAGE 4096
#define AUTODISARM (1U << 31)

volatile long flag __attribute__((aligned(64)));

static volatile sig_atomic_t foreign, got, profs, traps, to_thread, wrong_place, usr1;
static volatile bool racing, with_ignore;
static volatile unsigned int rounds;
static pthread_t racer;
static struct sigaction last_set;
static char *alternate;
static size_t alternate_size;
static bool wants_alternate, alone;

__attribute__((noinline)) static void write_flag(long n)
{
	long i;

	for (i = 0; i < n; i++)
		flag = i;
}

/* Handlers */

static void count(const siginfo_t *info)
{
	if (info->si_code == SI_TKILL || info->si_code == SI_USER)
		got++;
	else if (info->si_code == SI_TIMER && info->si_value.sival_int == 1)
		traps++;
	else if (info->si_code == SI_TIMER && info->si_value.sival_int == 2)
		to_thread++;
	else
		foreign++;
}

static void on_trap_a(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	count(info);
}

static void on_trap_b(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	count(info);
}

static bool on_alternate(const volatile char *p)
{
	return alternate && p >= alternate && p < alternate + alternate_size;
}

/* More stack than the alternate one has. */
static void on_trap_big(int sig, siginfo_t *info, void *context)
{
	volatile char room[24576];
	sigset_t mask;
	size_t i;

	(void)sig;
	(void)context;
	for (i = 0; i < sizeof(room); i += 512)
		room[i] = (char)i;
	count(info);
	sigprocmask(SIG_SETMASK, NULL, &mask);
	if (on_alternate((char *)&mask) != wants_alternate || !sigismember(&mask, SIGTRAP) ||
	    sigismember(&mask, SIGUSR1))
		wrong_place++;
	raise(SIGUSR1);
	for (i = 0; i < sizeof(room); i += 512)
		if (room[i] != (char)i)
			wrong_place++;
}

static void on_usr1(int sig)
{
	usr1 += sig == SIGUSR1;
}

static void on_prof(int sig)
{
	profs += sig == SIGPROF;
	flag = -1;
}

static void install(int sig, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction sa = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags };

	if (alone)
		sigaddset(&sa.sa_mask, SIGPROF);
	sigaction(sig, &sa, NULL);
}

/* The race */

static void *race(void *unused)
{
	struct sigaction sa = { .sa_flags = SA_SIGINFO };
	sigset_t trap;
	unsigned int i;

	(void)unused;
	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	for (i = 0; racing; i++) {
		sa.sa_flags = SA_SIGINFO;
		sa.sa_sigaction = i & 1 ? on_trap_a : on_trap_b;
		if (with_ignore && i % 3 == 0) {
			sa.sa_handler = SIG_IGN;
			sa.sa_flags = 0;
		}
		sigaction(SIGTRAP, &sa, NULL);
		last_set = sa;
		rounds = i + 1;
		signal(SIGUSR2, i & 1 ? SIG_IGN : SIG_DFL);
		pthread_sigmask(i & 1 ? SIG_BLOCK : SIG_UNBLOCK, &trap, NULL);
	}
	return NULL;
}

static void obey_race(const char *word)
{
	struct sigaction now;

	if (strcmp(word, "stop") != 0) {
		racing = true;
		with_ignore = !strcmp(word, "any");
		pthread_create(&racer, NULL, race, NULL);
		while (!rounds)
			sched_yield();
		printf("ok\n");
		return;
	}
	racing = false;
	pthread_join(racer, NULL);
	sigaction(SIGTRAP, NULL, &now);
	printf("ok %s %d\n",
	       now.sa_handler == last_set.sa_handler &&
			       (now.sa_flags & SA_SIGINFO) == (last_set.sa_flags & SA_SIGINFO)
		       ? "same"
		       : "other",
	       (int)foreign);
}

/* An action that is asked for, and set again */

static struct sigaction asked;
static struct sigaction *kept = &asked;
static pthread_barrier_t told;

/* Holds it on its own stack, for as long as the program lives. */
static void *ask_on_stack(void *unused)
{
	struct sigaction mine;

	(void)unused;
	sigaction(SIGTRAP, NULL, &mine);
	kept = &mine;
	pthread_barrier_wait(&told);
	while (1)
		pause();
	return NULL;
}

static void ask(const char *where)
{
	pthread_t t;

	if (!strcmp(where, "stack")) {
		pthread_barrier_init(&told, NULL, 2);
		pthread_create(&t, NULL, ask_on_stack, NULL);
		pthread_barrier_wait(&told);
	} else {
		if (!strcmp(where, "heap"))
			kept = (struct sigaction *)malloc(sizeof(*kept));
		sigaction(SIGTRAP, NULL, kept);
	}
	printf("ok\n");
}

static void set_again(void)
{
	sigaction(SIGTRAP, kept, NULL);
	printf("ok\n");
}

/* Also where a call of the C library had its own copy of it. */
static void forget(void)
{
	volatile char below[16384];
	size_t i;

	memset(kept, 0, sizeof(*kept));
	for (i = 0; i < sizeof(below); i++)
		below[i] = 0;
	printf("ok\n");
}

/* Stacks */

static void set_altstack(size_t size, const char *word)
{
	stack_t none = { .ss_flags = SS_DISABLE };
	stack_t s = { .ss_size = size };

	alternate_size = size;
	if (!size) {
		sigaltstack(&none, NULL);
		printf("ok\n");
		return;
	}
	/* Known bytes below it, which nobody may write to. */
	alternate = (char *)aligned_alloc(64, BELOW + ((size + 63) & ~63UL));
	memset(alternate, CANARY, BELOW);
	alternate += BELOW;
	s.ss_sp = alternate;
	if (!strcmp(word, "autodisarm"))
		s.ss_flags = (int)AUTODISARM;
	printf("ok %d\n", sigaltstack(&s, NULL) ? errno : 0);
}

static bool is_whole(const char *stack)
{
	int i;

	for (i = 1; i <= BELOW; i++)
		if (stack[-i] != CANARY)
			return false;
	return true;
}

static long writes;

static bool stays;

static void in_coroutine(void)
{
	char c = 0;

	if (stays && write(1, "there\n", 6) == 6)
		while (read(0, &c, 1) == 1 && c != '\n')
			;
	write_flag(writes);
}

static ucontext_t home, away;

static void in_context(char *stack, size_t size)
{
	getcontext(&away);
	away.uc_stack.ss_sp = stack;
	away.uc_stack.ss_size = size;
	away.uc_link = &home;
	makecontext(&away, in_coroutine, 0);
	swapcontext(&home, &away);
}

__attribute__((noinline)) static void on_stack(char *top, void (*fn)(void))
{
	__asm__ volatile("mov %%rsp, %%rbx\n\t"
			 "mov %0, %%rsp\n\t"
			 "call *%1\n\t"
			 "mov %%rbx, %%rsp"
			 :
			 : "r"((uintptr_t)top & ~15UL), "r"(fn)
			 : "rbx", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory",
			   "cc");
}

static void run_on_edge(size_t size)
{
	char *low = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mprotect(low + PAGE, PAGE, PROT_READ | PROT_WRITE);
	on_stack(low + PAGE + size, in_coroutine);
	munmap(low, 2 * PAGE);
	printf("ok whole\n");
}

/* To the last page that is mapped of the main stack, and further. */
__attribute__((noinline)) static int use_stack(int n)
{
	volatile char room[4096];

	room[0] = (char)n;
	return n ? use_stack(n - 1) + room[0] : 0;
}

static void run_coroutine(const char *kind, size_t size, long n)
{
	char *block = malloc(BELOW + size);

	writes = n;
	stays = !strcmp(kind, "stay");
	if (!strcmp(kind, "edge")) {
		free(block);
		run_on_edge(size);
		return;
	}
	memset(block, CANARY, BELOW);
	if (stays)
		use_stack(400);
	if (!strcmp(kind, "context"))
		in_context(block + BELOW, size);
	else
		on_stack(block + BELOW + size, in_coroutine);
	printf("ok %s\n", is_whole(block + BELOW) ? "whole" : "smashed");
	free(block);
}

static void shallow(int sig)
{
	(void)sig;
	on_stack(alternate + 1024, in_coroutine); /* as if most of it were in use */
}

static void run_shallow(long n)
{
	struct sigaction sa = { .sa_handler = shallow, .sa_flags = SA_ONSTACK };

	writes = n;
	sigaction(SIGUSR2, &sa, NULL);
	raise(SIGUSR2);
	printf("ok %s\n", is_whole(alternate) ? "whole" : "smashed");
}

static sigjmp_buf out;
static volatile sig_atomic_t came, came_code;

static void on_segv(int sig, siginfo_t *info, void *context)
{
	(void)context;
	came = sig;
	came_code = info->si_code;
	siglongjmp(out, 1);
}

static void trap_self(void)
{
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(SYS_tkill), "D"(getpid()), "S"(SIGTRAP)
			 : "rcx", "r11", "memory");
}

static void run_on_brim(const char *how)
{
	struct sigaction sa = { .sa_sigaction = on_segv, .sa_flags = SA_SIGINFO | SA_ONSTACK },
			 ignore = { .sa_handler = SIG_IGN };
	char *low = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigset_t segv;

	sigemptyset(&segv);
	sigaddset(&segv, SIGSEGV);
	if (!strcmp(how, "block"))
		sigprocmask(SIG_BLOCK, &segv, NULL);
	sigaction(SIGSEGV, strcmp(how, "ignore") ? &sa : &ignore, NULL);
	mprotect(low + PAGE, PAGE, PROT_READ | PROT_WRITE);
	came = SIGTRAP;
	if (!sigsetjmp(out, 1))
		on_stack(low + PAGE + 256, trap_self);
	munmap(low, 2 * PAGE);
	printf("ok %d %d\n", (int)came, (int)came_code);
}

/* Waiting, and ending */

volatile long mine __attribute__((aligned(64)));

static void hold(const char *kind)
{
	struct perf_event_attr a = { .type = PERF_TYPE_BREAKPOINT,
				     .size = sizeof(a),
				     .sample_period = 1,
				     .sigtrap = 1,
				     .remove_on_exec = 1,
				     .exclude_kernel = 1,
				     .exclude_hv = 1,
				     .sig_data = 0x1234567,
				     .bp_type = HW_BREAKPOINT_W,
				     .bp_addr = (uint64_t)(uintptr_t)&mine,
				     .bp_len = 8 };
	siginfo_t info = { .si_signo = SIGTRAP, .si_code = SI_QUEUE };
	sigset_t trap;
	int fd;

	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	pthread_sigmask(SIG_BLOCK, &trap, NULL);
	info.si_pid = getpid();
	info.si_value.sival_int = 77;
	if (!strcmp(kind, "process")) {
		syscall(SYS_rt_sigqueueinfo, getpid(), SIGTRAP, &info);
	} else if (!strcmp(kind, "thread")) {
		syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGTRAP, &info);
	} else {
		fd = (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, 0);
		mine = 1;
		close(fd);
	}
	printf("ok\n");
}

static bool waits_for(const char *whom)
{
	char line[256];
	bool waits = false;
	FILE *f = fopen("/proc/thread-self/status", "r");

	while (f && fgets(line, sizeof(line), f))
		waits |= !strncmp(line, whom, 6) && (strtoul(line + 7, NULL, 16) >> (SIGTRAP - 1) & 1);
	fclose(f);
	return waits;
}

static void tell_held(void)
{
	const char *whom = waits_for("SigPnd") ? "thread" : waits_for("ShdPnd") ? "process" : "nobody";
	struct timespec none = { 0, 0 };
	unsigned long value = 0;
	siginfo_t info;
	sigset_t trap;

	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	memset(&info, 0, sizeof(info));
	sigtimedwait(&trap, &info, &none);
	memcpy(&value, (char *)&info + 24, info.si_code == SI_QUEUE ? 4 : 8);
	printf("ok %s %d %lu\n", whom, info.si_code, value);
}

static void end(const char *how)
{
	if (!strcmp(how, "int3"))
		__asm__ volatile("int3");
	else if (!strcmp(how, "int3x"))
		__asm__ volatile(".byte 0xcd, 3");
	else if (!strcmp(how, "int1"))
		__asm__ volatile(".byte 0xf1");
	else
		raise(SIGTRAP);
	printf("ok\n");
}

/* Timers */

static timer_t timer_of(int signo, int value, bool thread, long ns)
{
	struct itimerspec often = { { 0, ns }, { 0, ns } };
	struct sigevent e = { .sigev_notify = thread ? SIGEV_THREAD_ID : SIGEV_SIGNAL, .sigev_signo = signo };
	timer_t t;

	e.sigev_value.sival_int = value;
	e._sigev_un._tid = (int)syscall(SYS_gettid);
	timer_create(CLOCK_MONOTONIC, &e, &t);
	timer_settime(t, 0, &often, NULL);
	return t;
}

static void run_timers(long hz, long n)
{
	struct itimerval often = { { 0, 1000000 / hz }, { 0, 1000000 / hz } }, never = { { 0, 0 }, { 0, 0 } };
	struct sigaction sa = { .sa_handler = on_prof, .sa_flags = SA_RESTART };
	timer_t a, b;
	long i;

	sigaction(SIGPROF, &sa, NULL);
	a = timer_of(SIGTRAP, 1, false, 1000000000 / hz);
	b = timer_of(SIGTRAP, 2, true, 900000000 / hz);
	setitimer(ITIMER_PROF, &often, NULL);
	for (i = 0; i < n || profs < 20 || traps < 20 || to_thread < 20; i++)
		flag = i;
	setitimer(ITIMER_PROF, &never, NULL);
	timer_delete(a);
	timer_delete(b);
	printf("ok %ld %d %d %d %d\n", i + profs, (int)profs, (int)traps, (int)to_thread, (int)foreign);
}

static int tube[2];

static void *end_it(void *ms)
{
	usleep(((useconds_t)(uintptr_t)ms + 50) * 4000);
	return write(tube[1], "", 1) == 1 ? NULL : ms;
}

static void run_interrupted(long ms)
{
	pthread_t ender;
	timer_t t;
	char c;

	if (pipe(tube))
		return;
	pthread_create(&ender, NULL, end_it, (void *)(uintptr_t)ms);
	t = timer_of(SIGTRAP, 1, false, ms * 1000000);
	printf("ok %s\n", read(tube[0], &c, 1) < 0 && errno == EINTR ? "EINTR" : "restarted");
	timer_delete(t);
	pthread_join(ender, NULL);
}

/* Obeying */

static void raise_many(long n)
{
	long i;

	for (i = 0; i < n; i++)
		raise(SIGTRAP);
	printf("ok %d %d %d %d\n", (int)got, (int)usr1, (int)wrong_place, (int)foreign);
}

static void trap(const char *how)
{
	wants_alternate = !strcmp(how, "onstack");
	alone = !strcmp(how, "alone");
	if (!strcmp(how, "small") || !strcmp(how, "restart") || !strcmp(how, "alone")) {
		install(SIGTRAP, on_trap_a, *how == 'r' ? (int)SA_RESTART : 0);
		printf("ok\n");
		return;
	}
	install(SIGTRAP, on_trap_big,
		(wants_alternate ? SA_ONSTACK : 0) | (strcmp(how, "once") ? 0 : (int)SA_RESETHAND));
	printf("ok\n");
}

static void *obey_all(void *unused);

static void hand_over(void)
{
	pthread_t t;

	printf("ok\n");
	pthread_create(&t, NULL, obey_all, NULL);
	pthread_join(t, NULL);
}

static void obey(const char *cmd, const char *first, const char *second, const char *third)
{
	long n = atol(first);

	if (!strcmp(cmd, "race"))
		obey_race(first);
	else if (!strcmp(cmd, "raise"))
		raise_many(n);
	else if (!strcmp(cmd, "trap"))
		trap(first);
	else if (!strcmp(cmd, "ask"))
		ask(first);
	else if (!strcmp(cmd, "set"))
		set_again();
	else if (!strcmp(cmd, "forget"))
		forget();
	else if (!strcmp(cmd, "altstack"))
		set_altstack((size_t)n, second);
	else if (!strcmp(cmd, "coro"))
		run_coroutine(first, (size_t)atol(second), atol(third));
	else if (!strcmp(cmd, "shallow"))
		run_shallow(n);
	else if (!strcmp(cmd, "timers"))
		run_timers(n, atol(second));
	else if (!strcmp(cmd, "hold"))
		hold(first);
	else if (!strcmp(cmd, "held"))
		tell_held();
	else if (!strcmp(cmd, "end"))
		end(first);
	else if (!strcmp(cmd, "brim"))
		run_on_brim(first);
	else if (!strcmp(cmd, "interrupted"))
		run_interrupted(n);
	else if (!strcmp(cmd, "thread"))
		hand_over();
	else if (write_flag(n), strcmp(cmd, "write") != 0)
		printf("what?\n");
	else
		printf("ok\n");
}

static void *obey_all(void *unused)
{
	char line[256], word[4][32];

	(void)unused;
	while (fgets(line, sizeof(line), stdin)) {
		memset(word, 0, sizeof(word));
		sscanf(line, "%31s %31s %31s %31s", word[0], word[1], word[2], word[3]);
		obey(word[0], word[1], word[2], word[3]);
	}
	exit(0);
}

int main(void)
{
	struct sigaction sa = { .sa_handler = on_usr1 };

	sigaction(SIGUSR1, &sa, NULL);
	setvbuf(stdin, NULL, _IONBF, 0);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("pid %d\n", getpid());
	obey_all(NULL);
}
