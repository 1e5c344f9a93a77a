/* build: gcc -O1 -g -fno-inline */
/*
 * Variables that are given to functions to be filled, on a stack that holds what $GARBAGE says. $FAULT: what
 * is not as it should be ("value": another one is written; "forgotten": it is not written at all).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct answer {
	int used;
	long value;
	int list[6];
};

static int garbage;
static int wrong_value, forgets;

__attribute__((noinline)) void leave_garbage(void)
{
	volatile int words[4096];

	for (int i = 0; i < 4096; i++)
		words[i] = garbage + i % 5;
}

__attribute__((noinline)) void ask(struct answer *out, int n)
{
	if (!forgets)
		out->used = 1;
	out->value = n + wrong_value;
	out->list[0] = n;
}

__attribute__((noinline)) void more(struct answer *a)
{
	a->list[1] = a->list[0] + 1;
}

__attribute__((noinline)) void spell(char *out)
{
	out[0] = 'a';
	out[1] = 'b';
}

__attribute__((noinline)) void end_text(char *out)
{
	out[2] = '\0';
}

__attribute__((noinline)) int work(int n)
{
	struct answer a;
	char text[24];

	ask(&a, n);
	more(&a);
	spell(text);
	end_text(text);
	return a.list[1] + (int)strlen(text);
}

__attribute__((noinline)) void watched(void)
{
	leave_garbage();
	printf("%d %d\n", work(3), work(4));
}

int main(void)
{
	const char *text = getenv("GARBAGE"), *fault = getenv("FAULT");

	garbage = text ? atoi(text) : 0;
	wrong_value = fault && !strcmp(fault, "value");
	forgets = fault && !strcmp(fault, "forgotten");
	watched();
	return 0;
}
