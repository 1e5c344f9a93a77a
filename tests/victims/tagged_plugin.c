/* build libtagged.so: gcc -O2 -g -shared -fPIC @stackwalk.a */
/* A library with a copy of libstackwalk of its own. */
#include <stackwalk.h>

void plugin_capture(unsigned long n);

__attribute__((noinline, noclone)) static void plugin_inner(unsigned long i)
{
	STACKWALK_TAG_VALUE("plugin", i);
	__asm__ volatile("" ::: "memory");
}

void plugin_capture(unsigned long n)
{
	unsigned long i;

	for (i = 0; i < n; i++)
		plugin_inner(i);
}
