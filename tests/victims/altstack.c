/* build: gcc -O1 -g -pthread */
/*
 * altstack - writes a variable on a thread with an alternate signal stack, and inside a handler that
 * runs on it. "pid N"; each line: ten writes of each kind; "ok".
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

volatile int flag;

__attribute__((noinline)) static void on_usr1(int sig)
{
	flag = sig;
}

__attribute__((noinline)) static void outside(int i)
{
	flag = i;
}

int main(void)
{
	stack_t stack = { .ss_sp = malloc(65536), .ss_size = 65536 };
	struct sigaction sa = { .sa_handler = on_usr1, .sa_flags = SA_ONSTACK };
	char line[64];
	int i;

	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &sa, NULL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("pid %d\n", getpid());
	while (fgets(line, sizeof(line), stdin)) {
		for (i = 0; i < 10; i++) {
			outside(i);
			raise(SIGUSR1);
		}
		printf("ok\n");
	}
	return 0;
}
