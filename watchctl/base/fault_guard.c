#include "watchctl/base/fault_guard.h"

#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

#define STACK 65536 /* a fault may be that the stack has no more room */

struct guard {
	sigjmp_buf at;
};

static _Thread_local struct guard *volatile current;
static char stack[STACK] __attribute__((aligned(16)));

static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE };
static struct sigaction before[sizeof(faults) / sizeof(faults[0])]; /* a sanitizer's, or the default */

/* Returning does the faulting instruction again, as if we had never been: with all that a debugger wants to
 * see. */
static void on_fault(int sig, siginfo_t *info, void *ucontext)
{
	struct guard *g = current;

	if (g && info->si_code > 0)
		siglongjmp(g->at, 1);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		if (faults[i] == sig)
			sigaction(sig, &before[i], NULL);
	if (info->si_code <= 0)
		raise(sig); /* somebody sent it */
}

void fault_guard_install(void)
{
	const stack_t other = { .ss_sp = stack, .ss_size = sizeof(stack) };
	/* Not blocked while it is handled: a jump out would leave it so. */
	struct sigaction ours = { .sa_sigaction = on_fault,
				  .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER },
			 old;

	sigemptyset(&ours.sa_mask);
	sigaltstack(&other, NULL);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		if (sigaction(faults[i], &ours, &old) == 0 && old.sa_sigaction != on_fault)
			before[i] = old;
}

bool fault_guarded(void (*run)(void *ctx), void *ctx)
{
	struct guard *const outer = current; /* never changed: what a jump would not bring back */
	struct guard g;
	bool faulted = sigsetjmp(g.at, 0) != 0;

	if (!faulted) {
		current = &g;
		run(ctx);
	}
	current = outer;
	return !faulted;
}
