// Thread-local variables as C++ has them.
#include <cstdio>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#include "loc_show.h"

struct Guarded {
	int value;
	Guarded() : value(static_cast<int>(syscall(SYS_gettid)))
	{
	}
	~Guarded()
	{
		value = 0;
	}
};

namespace ns
{
thread_local int plain = 1;
thread_local Guarded constructed;
namespace
{
thread_local long anonymous;
}
struct Class {
	static thread_local unsigned int member;
};
thread_local unsigned int Class::member = 3;
} // namespace ns

static void show(const char *name, const void *p, size_t size)
{
	printf("%ld %s\t%#lx\t%zu\n", (long)syscall(SYS_gettid), name, (unsigned long)p, size);
}

static void show_all()
{
	static thread_local Guarded in_function;

	ns::anonymous++;
	in_function.value++;
	show("ns::plain", &ns::plain, sizeof(ns::plain));
	show("ns::constructed.value", &ns::constructed.value, sizeof(int));
	show("ns::anonymous", &ns::anonymous, sizeof(ns::anonymous));
	show("ns::Class::member", &ns::Class::member, sizeof(ns::Class::member));
	show("show_all::in_function", &in_function, sizeof(in_function));
}

int main()
{
	std::thread other([] {
		show_all();
		fflush(stdout);
		pause();
	});

	usleep(20000);
	show_all();
	show_done();
	other.detach();
	_exit(0);
}
