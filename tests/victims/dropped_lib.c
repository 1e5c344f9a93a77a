/* build libdropped.so.1: gcc -O1 -g -shared -fPIC -Wl,-soname,libdropped.so.1 */
/* ... -Wl,--version-script=tests/victims/dropped_lib.map */
/*
 * A library that a drop-in replaces: functions in two versions, data that a program copies, a thread-local variable, an IFUNC, a
 * constructor that calls it. dropped_calls counts how often dropped_add() was called, whichever version.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

int dropped_calls;
int dropped_data[4] = { 1, 2, 3, 4 };
const char dropped_constant[] = "constant";
__thread int dropped_thread = 7;

int add_v1(int a, int b);
int add_v2(int a, int b);
int dropped_pick(int a);
int dropped_next(void);
int *dropped_data_seen_inside(void);

__asm__(".symver add_v1, dropped_add@V1");
__asm__(".symver add_v2, dropped_add@@V2");

__attribute__((noinline)) int add_v1(int a, int b)
{
	__atomic_add_fetch(&dropped_calls, 1, __ATOMIC_RELAXED);
	return a + b + 1000;
}

__attribute__((noinline)) int add_v2(int a, int b)
{
	__atomic_add_fetch(&dropped_calls, 1, __ATOMIC_RELAXED);
	return a + b;
}

static int pick_this(int a)
{
	return 2 * a;
}

static int (*resolve_pick(void))(int)
{
	return pick_this;
}

int dropped_pick(int a) __attribute__((ifunc("resolve_pick")));

/* 1: behind this library, nobody has it. */
int dropped_next(void)
{
	return !dlsym(RTLD_NEXT, "dropped_pick");
}

int *dropped_data_seen_inside(void)
{
	return dropped_data;
}

__attribute__((constructor)) static void call_at_once(void)
{
	add_v2(1, 2);
	dropped_thread++;
}
