/* build libshape_a.so: gcc -O2 -g -shared -fPIC -DFRAME=64 */
/* build libshape_b.so: gcc -O2 -g -shared -fPIC -DFRAME=640 */
/*
 * shape_lib - calls back out of a library. Built twice, as two libraries of one size that lie at the same
 * address one after the other, with frames of different sizes (FRAME).
 */
#include <stdint.h>

int shape_lib_call(void (*note)(uintptr_t), void (*function)(void));
void shape_lazy(void);

__attribute__((noinline)) int shape_lib_call(void (*note)(uintptr_t), void (*function)(void))
{
	volatile char frame[FRAME];

	note((uintptr_t)__builtin_return_address(0));
	frame[0] = 1;
	function();
	return frame[0];
}

__attribute__((noinline)) void shape_lazy(void)
{
	__asm__ volatile("" ::: "memory");
}
