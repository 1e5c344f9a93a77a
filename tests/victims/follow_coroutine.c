/* build: gcc -O1 -g */
/*
 * A pointer that changes on a stack that the program has made. "go N": N changes, each followed by a write
 * through the new pointer; "ok N". "go" is made on the coroutine's stack, "stay" on the first thread's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#define STACK 65536

struct item {
	volatile long v;
};

static struct item items[2];
struct item *volatile ptr = &items[0];
static ucontext_t main_context, coroutine;
static int rounds;

static __attribute__((noinline)) void change(void)
{
	int i;

	for (i = 0; i < rounds; i++) {
		ptr = &items[i & 1];
		ptr->v++;
	}
}

static void run(void)
{
	for (;;) {
		change();
		swapcontext(&coroutine, &main_context);
	}
}

int main(void)
{
	char line[64];

	getcontext(&coroutine);
	coroutine.uc_stack.ss_sp = malloc(STACK);
	coroutine.uc_stack.ss_size = STACK;
	coroutine.uc_link = &main_context;
	if (!coroutine.uc_stack.ss_sp)
		return 1;
	makecontext(&coroutine, run, 0);
	printf("pid %d\n", getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		rounds = atoi(line + strcspn(line, " "));
		if (line[0] == 'g')
			swapcontext(&main_context, &coroutine);
		else
			change();
		printf("ok %d\n", rounds);
		fflush(stdout);
	}
	return 0;
}
