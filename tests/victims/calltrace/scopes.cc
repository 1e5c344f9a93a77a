// scopes - functions for filters: in namespaces, templates, operators, of the language C, of other files, of two sizes.
#include <cstdio>

#define APART __attribute__((noinline))

namespace app
{

template <class T> APART T twice(T x)
{
	return x + x;
}

namespace
{
APART int hidden(int x)
{
	return x ^ 5;
}
} // namespace

struct adder {
	int by;
	APART int operator()(int x) const
	{
		return x + by;
	}
	APART explicit operator bool() const
	{
		return by;
	}
};

APART int run(int n)
{
	adder a{ n };

	return twice(n) + hidden(n) + a(n) + (a ? 1 : 0);
}

} // namespace app

APART static void report_all(int n, int sum)
{
	volatile int digit[12];
	int i;

	for (i = 0; i < 12; i++)
		digit[i] = sum >> i & 1;
	for (i = 0; i < 12; i++)
		sum += digit[i] * (n + i) ^ (sum & 3 ? digit[11 - i] : n);
	printf("result %d\n", sum);
}

extern "C" APART int app_plain(int x)
{
	return x * 7;
}

int main(int argc, char **)
{
	report_all(argc, app::run(argc) + app_plain(argc));
}
