/*
 * A chain of 16 distinct functions, each calling the next; the innermost calls run(). Included twice: by a
 * file that is compiled with frame pointers and by one without.
 */
#define LINK(name, inner)                                                                   \
	static __attribute__((noinline, noclone)) void name(void (*run)(void *), void *arg) \
	{                                                                                   \
		volatile char local[24];                                                    \
		local[0] = 1;                                                               \
		inner(run, arg);                                                            \
		(void)local[0];                                                             \
		__asm__ volatile("");                                                       \
	}

static __attribute__((noinline, noclone)) void f0(void (*run)(void *), void *arg)
{
	run(arg);
	__asm__ volatile("");
}

LINK(f1, f0)
LINK(f2, f1)
LINK(f3, f2)
LINK(f4, f3)
LINK(f5, f4)
LINK(f6, f5)
LINK(f7, f6)
LINK(f8, f7)
LINK(f9, f8)
LINK(f10, f9)
LINK(f11, f10)
LINK(f12, f11)
LINK(f13, f12)
LINK(f14, f13)
LINK(f15, f14)
LINK(f16, f15)
