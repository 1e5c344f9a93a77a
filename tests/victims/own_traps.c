/* build: gcc -O1 -g */
/*
 * own_traps - raises SIGTRAP in ways that use the CPU's debug exception itself: single steps by the trap
 * flag, some of which write `flag`, and a hardware breakpoint of its own on `mine`. Counts what its handler
 * gets. "pid N"; a line on standard input starts a round: "ok STEPS BREAKPOINTS WRONG". A round is always the
 * same.
 */
#define _GNU_SOURCE
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define TRAP_OF_PERF 6

volatile long flag __attribute__((aligned(64)));
volatile long mine __attribute__((aligned(64)));
static volatile sig_atomic_t steps, breakpoints, wrong;

static void handler(int sig, siginfo_t *info, void *context)
{
	(void)context;
	if (sig == SIGTRAP && info->si_code == TRAP_TRACE)
		steps++;
	else if (sig == SIGTRAP && info->si_code == TRAP_OF_PERF)
		breakpoints++;
	else
		wrong++;
}

static int arm_own(void)
{
	struct perf_event_attr a = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(a),
		.sample_period = 1,
		.sigtrap = 1,
		.remove_on_exec = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.bp_type = HW_BREAKPOINT_W,
		.bp_addr = (uint64_t)(uintptr_t)&mine,
		.bp_len = 8,
	};

	return (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, 0);
}

/* Ten single steps, two of which write the variable. */
__attribute__((noinline)) static void step(void)
{
	__asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\t"
			 "nop\n\tmovq $1, %0\n\tnop\n\tnop\n\tmovq $2, %0\n\tnop\n\t"
			 "pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq\n\tnop"
			 : "=m"(flag)
			 :
			 : "memory", "cc");
}

int main(void)
{
	struct sigaction sa = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
	char line[64];
	int fd;

	sigaction(SIGTRAP, &sa, NULL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	fd = arm_own();
	printf("pid %d\n", getpid());
	while (fgets(line, sizeof(line), stdin)) {
		step();
		mine = 3;
		flag = 4;
		mine = 5;
		printf("ok %d %d %d\n", steps, fd < 0 ? -1 : breakpoints, wrong);
	}
	return 0;
}
