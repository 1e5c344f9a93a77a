/* longjmp: what it leaves has no exit. What comes next shows that it is gone. */
#include <setjmp.h>

#include "account.h"

static jmp_buf outer, inner;

TRACED static void thrower(int n)
{
	IN();
	if (n)
		thrower(n - 1);
	else
		longjmp(outer, 1);
	OUT();
}

TRACED static void quick(jmp_buf *to)
{
	IN();
	longjmp(*to, 2);
}

TRACED static int leaf(int a)
{
	IN();
	OUT();
	return a;
}

/* The frames of what was left are used again by what is called next. */
TRACED static int catcher(int n)
{
	volatile int r = 0;

	IN();
	if (!setjmp(outer)) {
		thrower(n);
	} else {
		int i;

		for (i = 0; i <= n; i++)
			GONE("thrower");
		r = leaf(n);
	}
	OUT();
	return r;
}

/* The next event is the exit of who has caught it. */
TRACED static int exits_next(void)
{
	IN();
	if (!setjmp(inner))
		quick(&inner);
	GONE("quick");
	OUT();
	return 1;
}

/* Again and again, into a frame that stays. */
TRACED static int loop(void)
{
	volatile int i = 0;

	IN();
	if (setjmp(inner))
		GONE("quick");
	if (i++ < 3)
		quick(&inner);
	OUT();
	return i;
}

TRACED static int recursive(int n)
{
	jmp_buf mine;
	volatile int r = n;

	IN();
	if (n) {
		if (!setjmp(mine))
			quick(&mine);
		GONE("quick");
		r += recursive(n - 1);
	}
	OUT();
	return r;
}

TRACED int main(void)
{
	IN();
	printf("result %d\n", catcher(0));
	printf("result %d\n", catcher(3));
	printf("result %d %d %d\n", exits_next(), loop(), recursive(4));
	OUT();
	account_print();
	return 0;
}
