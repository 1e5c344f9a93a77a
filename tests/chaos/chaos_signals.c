/*
 * chaos_signals - signals arrive once each, in order, where they should; masks, alternate stacks and
 * dispositions stay.
 */
#include "tests/chaos/chaos.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define STACK (32 << 10)
#define TICK_NS 3000000u
#define QUEUED (SIGRTMIN + 1)
#define TICK (SIGRTMIN + 2)
#define MARK (SIGRTMIN + 4) /* and up: which of them a thread blocks is its number, in bits */
#define MARKS 6
#define WORD 8

/* As the kernel has it: libc hides two signals and adds to the flags. */
struct kernel_action {
	uint64_t handler, flags, restorer, mask;
};

static struct kernel_action first_actions[65];
static uint8_t __attribute__((aligned(16))) stacks[CHAOS_THREADS][STACK];
static __thread stack_t own_stack;
static __thread uint64_t own_mask;
static __thread volatile uint64_t caught; /* by on_trap() in this thread */
static uint64_t timer_began;
static timer_t timer;

static void on_trap(int sig, siginfo_t *info, void *context)
{
	(void)context;
	if (sig != SIGTRAP || (info->si_code != SI_KERNEL && info->si_code != SI_TKILL))
		fail("SIGTRAP with code %d came to the program's own handler", info->si_code);
	if (info->si_code == SI_TKILL && info->si_pid != getpid())
		fail("SIGTRAP says that process %d has sent it", info->si_pid);
	caught++;
}

/* On the alternate stack of the thread that the timer belongs to. */
static void on_tick(int sig, siginfo_t *info, void *context)
{
	uint64_t due = (now_ns() - timer_began) / TICK_NS + 1;
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	(void)sig;
	(void)context;
	shared->ticks += 1 + (uint64_t)info->si_overrun;
	if (shared->ticks > due)
		fail("a timer ticked %lu times where %lu were due", shared->ticks, due);
	if (here < (uintptr_t)own_stack.ss_sp || here >= (uintptr_t)own_stack.ss_sp + STACK)
		fail("a handler does not run on its alternate stack");
}

static uint64_t kernel_mask(void)
{
	uint64_t mask = 0;

	syscall(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &mask, WORD);
	return mask;
}

static uint64_t bit(int sig)
{
	return 1ull << (sig - 1);
}

void signals_thread_init(unsigned int number)
{
	int i;

	own_stack = (stack_t){ .ss_sp = stacks[number], .ss_size = STACK };
	sigaltstack(&own_stack, NULL);
	own_mask = kernel_mask();
	for (i = 0; i < MARKS; i++)
		if (number >> i & 1)
			own_mask |= bit(MARK + i);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &own_mask, NULL, WORD);
}

void signals_thread_check(void)
{
	stack_t now;

	if (kernel_mask() != own_mask)
		fail("the signal mask is %#lx instead of %#lx", kernel_mask(), own_mask);
	if (sigaltstack(NULL, &now) || now.ss_sp != own_stack.ss_sp || now.ss_size != STACK || now.ss_flags)
		fail("the alternate stack is %p (flags %d) instead of %p", now.ss_sp, now.ss_flags,
		     own_stack.ss_sp);
}

/* SIGTRAP's action may be ours while it is watched: see "Programs that notice" in docs/limits.md. The driver
 * looks at it after. */
void signals_process_check(void)
{
	struct kernel_action now;
	int i;

	for (i = 1; i <= 64; i++) {
		memset(&now, 0, sizeof(now));
		syscall(SYS_rt_sigaction, i, NULL, &now, WORD);
		if (i != SIGTRAP && memcmp(&now, &first_actions[i], sizeof(now)))
			fail("the action of signal %d has changed", i);
	}
}

void queue_signals(unsigned int unused)
{
	union sigval v = { .sival_ptr = NULL };

	while (turn()) {
		v.sival_ptr = (void *)((uintptr_t)v.sival_ptr + 1);
		if (sigqueue(getpid(), QUEUED, v))
			fail("sigqueue()");
		if (usleep(1500))
			fail("usleep() was interrupted");
	}
}

void receive_signals(unsigned int unused)
{
	const struct timespec some = { 0, 50000000 };
	sigset_t set;
	siginfo_t info;
	int sig;

	sigemptyset(&set);
	sigaddset(&set, QUEUED);
	while (turn()) {
		sig = sigtimedwait(&set, &info, &some);
		/* EINTR without a signal is seen where nobody is looking, too. */
		if (sig < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (sig != QUEUED)
			fail("sigtimedwait() gave %d", sig);
		if ((uintptr_t)info.si_ptr != ++shared->queued)
			fail("queued signal %lu came where %lu was due", (uintptr_t)info.si_ptr,
			     shared->queued);
	}
}

static void start_timer(void)
{
	struct itimerspec every = { .it_interval = { 0, TICK_NS }, .it_value = { 0, TICK_NS } };
	struct sigevent e = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = TICK };

	e._sigev_un._tid = (int)syscall(SYS_gettid);
	own_mask &= ~bit(TICK);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &own_mask, NULL, WORD);
	timer_began = now_ns();
	if (timer_create(CLOCK_MONOTONIC, &e, &timer) || timer_settime(timer, 0, &every, NULL))
		fail("timer_create()");
}

/* SIGTRAP of its own, while ticks come: the one thread whose calls are interrupted, by its timer. */
void trap_and_check(unsigned int unused)
{
	const struct timespec some = { 0, 5000000 };

	start_timer();
	while (turn()) {
		uint32_t losing = __atomic_load_n(&shared->losing, __ATOMIC_SEQ_CST);
		uint64_t before = caught, due = chaos_own_traps == TRAPS_OWN ? 2 : 0;

		nanosleep(&some, NULL);
		if (chaos_own_traps == TRAPS_DEFAULT)
			continue;
		syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGTRAP);
		if (chaos_own_traps == TRAPS_OWN)
			__asm__ volatile("int3");
		losing |= __atomic_load_n(&shared->losing, __ATOMIC_SEQ_CST);
		if (caught > before + due || (caught < before + due && !losing))
			fail("%lu of its own traps came where %lu were due", caught - before, due);
		shared->traps = caught;
	}
	timer_delete(timer);
}

static void handle(int sig, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction a = { .sa_flags = SA_SIGINFO | SA_RESTART | flags };

	a.sa_sigaction = handler;
	sigaddset(&a.sa_mask, SIGUSR2);
	sigaction(sig, &a, NULL);
}

static void *do_nothing(void *unused)
{
	return unused;
}

void signals_init(void)
{
	uint64_t blocked = bit(QUEUED) | bit(TICK) | bit(SIGRTMAX);
	pthread_t first;
	int i;

	/* With the first thread libc installs handlers of its own. */
	if (pthread_create(&first, NULL, do_nothing, NULL) || pthread_join(first, NULL))
		fail("pthread_create()");
	handle(TICK, on_tick, SA_ONSTACK);
	handle(SIGUSR1, on_tick, SA_RESETHAND);
	if (chaos_own_traps == TRAPS_OWN)
		handle(SIGTRAP, on_trap, SA_NODEFER);
	if (chaos_own_traps == TRAPS_IGNORED)
		signal(SIGTRAP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &blocked, NULL, WORD);
	for (i = 1; i <= 64; i++)
		syscall(SYS_rt_sigaction, i, NULL, &first_actions[i], WORD);
}
