// Functions as C++ names them.
#include <cstdio>
#include <unistd.h>

static volatile int sink;

namespace ns
{
__attribute__((noinline)) int over(int n)
{
	return sink + n;
}
__attribute__((noinline)) int over(char c)
{
	return sink - c;
}
template <class T> __attribute__((noinline)) T twice(T t)
{
	return t * 2 + sink;
}
struct Class {
	__attribute__((noinline)) static int method(int n)
	{
		return sink * n;
	}
};
namespace
{
__attribute__((noinline)) int hidden(int n)
{
	return sink ^ n;
}
} // namespace
} // namespace ns

static void show(const char *name, const void *p)
{
	printf("at %s\t%#lx\t1\n", name, reinterpret_cast<unsigned long>(p));
}

int main()
{
	int (*of_int)(int) = ns::over;
	int (*of_char)(char) = ns::over;
	char c;

	show("ns::over(int)", reinterpret_cast<void *>(of_int));
	show("over(char)", reinterpret_cast<void *>(of_char));
	show("ns::twice<int>", reinterpret_cast<void *>(ns::twice<int>));
	show("ns::twice<long>", reinterpret_cast<void *>(ns::twice<long>));
	show("Class::method", reinterpret_cast<void *>(ns::Class::method));
	show("ns::hidden", reinterpret_cast<void *>(ns::hidden));
	show("hidden", reinterpret_cast<void *>(ns::hidden));
	show("ns::(anonymous namespace)::hidden", reinterpret_cast<void *>(ns::hidden));
	puts("done");
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
	return of_int(1) + of_char('a') + ns::twice(3) + static_cast<int>(ns::twice(4L)) +
	       ns::Class::method(5) + ns::hidden(6);
}
