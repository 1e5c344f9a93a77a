// Exceptions: through functions with and without something to clean up, into a handler, on again.
#include <stdexcept>

#include "account.h"

struct Cleaned {
	__attribute__((always_inline)) ~Cleaned()
	{
		account('<', name);
	}
	const char *name;
};

// Says when it is left, however.
#define IN_TO_THE_END()                  \
	Cleaned cleaned_ = { __func__ }; \
	IN()

static volatile int zero;

// Nothing to clean up: its end is not seen.
TRACED static int bare(int n)
{
	IN();
	if (n == zero)
		throw std::runtime_error("bare");
	int r = bare(n - 1) + 1;
	OUT();
	return r;
}

TRACED static int cleans(int n)
{
	IN_TO_THE_END();
	if (n == zero)
		throw std::runtime_error("cleans");
	return cleans(n - 1) + 1;
}

TRACED static int leaf(int n)
{
	IN();
	OUT();
	return n;
}

TRACED static int catches_bare(int n)
{
	int r = 0;

	IN();
	try {
		r = bare(n);
	} catch (const std::exception &e) {
		for (int i = 0; i <= n; i++)
			GONE("bare");
		r = leaf(n);
	}
	OUT();
	return r;
}

TRACED static int catches_cleans(int n)
{
	int r = 0;

	IN();
	try {
		r = cleans(n);
	} catch (const std::exception &e) {
		r = 2;
	}
	r += leaf(n);
	OUT();
	return r;
}

TRACED static int again(int n)
{
	IN();
	try {
		return catches_cleans(n) + bare(0);
	} catch (const std::exception &e) {
		GONE("bare");
		if (n) {
			account('<', "again");
			throw;
		}
	}
	OUT();
	return 5;
}

TRACED static int outermost(int n)
{
	int r;

	IN();
	try {
		r = again(n);
	} catch (...) {
		r = 9;
	}
	OUT();
	return r;
}

TRACED int main()
{
	IN();
	printf("result %d %d %d\n", catches_bare(0), catches_bare(3), catches_cleans(2));
	printf("result %d\n", outermost(0));
	printf("result %d\n", outermost(1));
	OUT();
	account_print();
	return 0;
}
