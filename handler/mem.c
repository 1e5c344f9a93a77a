/*
 * mem - what a compiler may call on its own, in freestanding code too, to copy or clear a struct
 * (clang does where gcc writes the instructions). The kernel clears the direction flag for a handler.
 */
#include <stddef.h>

void *memcpy(void *to, const void *from, size_t n);
void *memset(void *to, int byte, size_t n);

void *memcpy(void *to, const void *from, size_t n)
{
	void *start = to;

	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n)::"memory");
	return start;
}

void *memset(void *to, int byte, size_t n)
{
	void *start = to;

	__asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(byte) : "memory");
	return start;
}
