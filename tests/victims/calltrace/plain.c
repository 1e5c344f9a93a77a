/* Calls of every plain kind: recursion, pointers, variable arguments, results in memory, in vectors, on the x87 stack. */
#include <stdarg.h>
#include <string.h>

#include "account.h"

struct big {
	long v[9];
};

typedef float vec __attribute__((vector_size(16)));

TRACED static int leaf(int a)
{
	IN();
	OUT();
	return a * 3;
}

TRACED static long many(int a, int b, int c, int d, int e, int f, int g, int h)
{
	long sum;

	IN();
	sum = a + 2L * b + 3L * c + 4L * d + 5L * e + 6L * f + 7L * g + 8L * h + leaf(a);
	OUT();
	return sum;
}

TRACED static struct big memory(long n)
{
	struct big b;
	int i;

	IN();
	for (i = 0; i < 9; i++)
		b.v[i] = n * i;
	OUT();
	return b;
}

TRACED static vec vectors(vec a, vec b, double c)
{
	vec sum;

	IN();
	sum = a * b + (float)c;
	OUT();
	return sum;
}

TRACED static long double x87(long double a)
{
	long double r;

	IN();
	r = a / 3;
	OUT();
	return r;
}

TRACED static int variable(const char *format, ...)
{
	va_list ap;
	int sum = 0;

	IN();
	va_start(ap, format);
	for (; *format; format++)
		sum += *format == 'd' ? va_arg(ap, int) : (int)va_arg(ap, double);
	va_end(ap);
	OUT();
	return sum;
}

TRACED static int fact(int n)
{
	int r;

	IN();
	r = n < 2 ? 1 : n * fact(n - 1);
	OUT();
	return r;
}

TRACED static int several(int n)
{
	IN();
	if (n == 2) {
		int r = leaf(2);

		OUT();
		return r;
	}
	switch (n) {
	case 3:
		OUT();
		return 7;
	default:
		OUT();
		return 8;
	}
}

TRACED static void growing(unsigned int n)
{
	volatile char room[n];

	IN();
	room[0] = 1;
	leaf(room[0]);
	OUT();
}

TRACED int main(void)
{
	int (*volatile pointer)(int) = leaf;
	vec a = { 1, 2, 3, 4 }, v;
	struct big b;
	int i;

	IN();
	printf("result %ld\n", many(1, 2, 3, 4, 5, 6, 7, 8));
	b = memory(5);
	v = vectors(a, a, 0.5);
	printf("result %ld %g %g %Lg\n", b.v[8], v[0], v[3], x87(10));
	printf("result %d %d %d\n", variable("dfd", 1, 2.5, 3), fact(6), pointer(4));
	for (i = 1; i < 5; i++)
		printf("result %d\n", several(i));
	for (i = 1; i < 4; i++)
		growing(1000u * (unsigned int)i);
	OUT();
	account_print();
	return 0;
}
