/* Signal handlers: on the thread's stack, on a stack of their own, nested, and one that leaves by siglongjmp. */
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>

#include "account.h"

static sigjmp_buf back;

TRACED static void leaf(void)
{
	IN();
	OUT();
}

TRACED static void on_usr1(int n)
{
	IN();
	leaf();
	OUT();
}

TRACED static void on_usr2(int n)
{
	IN();
	leaf();
	raise(SIGUSR1);
	leaf();
	OUT();
}

TRACED static void on_hup(int n)
{
	IN();
	leaf();
	siglongjmp(back, 1);
}

TRACED static void raises(int n)
{
	IN();
	leaf();
	raise(n);
	leaf();
	OUT();
}

TRACED static void jumped_out_of(void)
{
	IN();
	if (!sigsetjmp(back, 1)) {
		raises(SIGHUP);
	} else {
		GONE("on_hup");
		GONE("raises");
	}
	leaf();
	OUT();
}

static void handle(int n, void (*f)(int), int flags)
{
	struct sigaction sa = { .sa_handler = f, .sa_flags = flags };

	sigaction(n, &sa, NULL);
}

TRACED int main(void)
{
	stack_t stack = { .ss_size = 65536 };
	int i;

	stack.ss_sp = malloc(stack.ss_size);
	sigaltstack(&stack, NULL);
	handle(SIGUSR1, on_usr1, 0);
	handle(SIGHUP, on_hup, 0);
	IN();
	for (i = 0; i < 2; i++) {
		handle(SIGUSR2, on_usr2, i ? SA_ONSTACK : 0);
		raises(SIGUSR1);
		raises(SIGUSR2);
	}
	jumped_out_of();
	OUT();
	account_print();
	return 0;
}
