/* Before main and after it: constructors, handlers of exit(), destructors; exit() in the middle of calls. */
#include <stdlib.h>

#include "account.h"

TRACED static void leaf(void)
{
	IN();
	OUT();
}

TRACED __attribute__((constructor)) static void first(void)
{
	IN();
	leaf();
	OUT();
}

TRACED static void at_exit(void)
{
	IN();
	leaf();
	OUT();
}

TRACED __attribute__((destructor)) static void last(void)
{
	IN();
	leaf();
	OUT();
	account_print();
}

TRACED static void deep(int n)
{
	IN();
	if (n)
		deep(n - 1);
	else
		exit(3);
	OUT();
}

TRACED int main(void)
{
	IN();
	atexit(at_exit);
	deep(3);
	return 0;
}
