/*
 * Libraries with thread-local variables, called touch_NAME: each shows those of the calling thread. With
 * -DFIRST the one that the program is linked with.
 */
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)

static void show(const char *name, const void *p, size_t size)
{
	printf("%ld %s\t%#lx\t%zu\n", (long)syscall(SYS_gettid), name, (unsigned long)p, size);
}

#ifdef FIRST
__thread int in_library = 1;
static __thread long long hidden_in_library[5];

void show_library(void)
{
	hidden_in_library[0]++;
	show("tls_lib.c:hidden_in_library", hidden_in_library, sizeof(hidden_in_library));
	show("libtls_first.so:in_library", &in_library, sizeof(in_library));
}
#else
__thread int JOIN(in_, NAME) = 7;
static __thread char JOIN(buffer_of_, NAME)[300];

void JOIN(touch_, NAME)(void)
{
	JOIN(buffer_of_, NAME)[0]++;
	show(TEXT(JOIN(in_, NAME)), &JOIN(in_, NAME), sizeof(JOIN(in_, NAME)));
	show(TEXT(JOIN(buffer_of_, NAME)), JOIN(buffer_of_, NAME), sizeof(JOIN(buffer_of_, NAME)));
}
#endif
