/* What brief.c is linked with, or loads: NAME is in the names of its functions, MARK in what it writes. */
#define JOIN(a, b) a##b
#define NAMED(a, b) JOIN(a, b)

__attribute__((noinline)) static void NAMED(NAME, _write)(int *to, int value)
{
	*(volatile int *)to = MARK + value;
	__asm__ volatile("");
}

__attribute__((noinline)) static void NAMED(NAME, _middle)(int *to, int value)
{
	NAMED(NAME, _write)(to, value);
	__asm__ volatile("");
}

void brief_store(int *to, int value)
{
	NAMED(NAME, _middle)(to, value);
	__asm__ volatile("");
}
