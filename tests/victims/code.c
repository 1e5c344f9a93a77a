/*
 * Functions of every kind that a C compiler makes: "at EXPR" is where one begins, "in NAME" a place inside
 * one, also where it was inlined. Linked with code2.c, which has one of the same name.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

/* Every copy of the place leaves its address in a table of that name. */
#define IN(name)                                              \
	__asm__ volatile("1: nop\n"                           \
			 ".pushsection in_" #name ",\"aw\"\n" \
			 ".quad 1b\n"                         \
			 ".popsection")
#define SHOW_IN(name)                                                                 \
	do {                                                                          \
		extern unsigned long __start_in_##name[], __stop_in_##name[];         \
		for (unsigned long *p = __start_in_##name; p < __stop_in_##name; p++) \
			printf("in " #name "\t%#lx\t1\n", *p);                        \
	} while (0)
#define SHOW_AT(text, place) printf("at %s\t%#lx\t1\n", text, (unsigned long)(place))

extern char line_mark[], other_mark[];
volatile int sink, zero;
void code2_show(void);

static NOINLINE void twin(void)
{
	sink += 3;
}

/* Called through a pointer too, so that there is one that is not inlined. */
static inline __attribute__((always_inline)) void body(int n)
{
	sink += n;
	IN(small);
	sink *= n + 1;
}

void small(int n)
{
	body(n);
}

static inline __attribute__((always_inline)) void only_inlined(int n)
{
	sink ^= n;
	IN(only_inlined);
}

static __attribute__((cold, noinline)) void complain(void)
{
	puts("complaint");
}

NOINLINE int with_cold(int n)
{
	IN(with_cold);
	if (__builtin_expect(zero != 0, 0)) {
		IN(with_cold);
		complain();
		sink = n;
		abort();
	}
	sink += n;
	return sink;
}

static NOINLINE int specialised(int n, int mode)
{
	IN(specialised);
	if (mode == 7)
		for (int i = 0; i < n; i++)
			sink += i;
	return sink + mode;
}

static NOINLINE int pick_slow(int n)
{
	return n + sink;
}

static NOINLINE int pick_fast(int n)
{
	return n - sink;
}

#ifndef NO_IFUNC
static void *resolve_pick(void)
{
	return (void *)pick_slow;
}
int pick(int n) __attribute__((ifunc("resolve_pick")));
#endif

NOINLINE void caller(void)
{
	only_inlined(zero);
	__asm__ volatile(".globl line_mark\nline_mark: nop"); /* line */
	only_inlined(2);
	IN(caller);
}

NOINLINE void other(void)
{
	small(4);
	IN(other);
	sink++;
}

int main(void)
{
	void (*volatile f)(int) = small;
	char c;

	f(1);
	twin();
	caller();
	other();
	with_cold(2);
	specialised(sink, 7);
	specialised(sink + 1, 7);
	sink += pick_fast(pick_slow(1));
	SHOW_AT("small", small);
	SHOW_AT("code.c:twin", twin);
	SHOW_AT("with_cold", with_cold);
	SHOW_AT("pick_fast", pick_fast);
	SHOW_AT("code:main", main);
	SHOW_AT(" main + 0 ", main);
	SHOW_AT("victims/code.c:caller", caller);
	printf("at code.c:%d\t%#lx\t1\n", LINE, (unsigned long)line_mark);
	printf("is memcpy\t%#lx\t1\n", (unsigned long)memcpy);
	SHOW_IN(small);
	SHOW_IN(only_inlined);
	SHOW_IN(with_cold);
	SHOW_IN(specialised);
	SHOW_IN(caller);
	SHOW_IN(other);
	code2_show();
	puts("done");
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
	return 0;
}
