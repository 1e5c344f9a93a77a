/* Calls in the place of their callers: who is jumped to says when both have ended. */
#include "account.h"

static int depth_left;

TRACED static int last(int a)
{
	IN();
	OUT();
	account('<', "jumper");
	return a + 1;
}

TRACED static int jumper(int a)
{
	IN();
	return last(a);
}

TRACED static int odd(int n);

TRACED static int even(int n)
{
	int i;

	IN();
	if (!n) {
		/* All that were jumped from are left with this one. */
		for (i = 0; i <= depth_left; i++)
			account('<', i % 2 ? "odd" : "even");
		return 1;
	}
	return odd(n - 1);
}

TRACED static int odd(int n)
{
	IN();
	return even(n - 1);
}

TRACED static int plain(int a)
{
	int r;

	IN();
	r = jumper(a);
	OUT();
	return r;
}

/* Jumps out of the program's own code, and is followed by a call with the same frame. */
TRACED static int outside(const char *text)
{
	IN();
	OUT();
	return puts(text);
}

TRACED int main(void)
{
	IN();
	printf("result %d %d\n", plain(1), jumper(2));
	outside("result from outside");
	plain(3);
	depth_left = 20;
	printf("result %d\n", even(20));
	OUT();
	account_print();
	return 0;
}
