/*
 * Functions and things that only look like them; shows its own functions' addresses, and with a "!" before
 * the name addresses of what is no function of its own, and numbers that the compiler knows.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loc_show.h"

#define CASE __attribute__((noinline, noclone))

struct tree {
	char kind;
	struct tree *left, *right;
	unsigned low : 5, high : 27;
	int values[3];
};

static volatile long seed = 3;

/* A label and data among code: neither is to be taken for a function. */
__asm__(".text\n"
	"label_in_code:\n"
	"	nop\n"
	"	ret\n"
	"data_in_code:\n"
	"	.long 0x1234, 0x5678\n");

extern char label_in_code[], data_in_code[];

CASE long takes_three(long a, long b, long c, double d)
{
	return a * b + c * seed + (long)d;
}

CASE long takes_tree(struct tree *t, struct tree copy)
{
	return t->low + copy.values[1];
}

static CASE int only_here(int a)
{
	return (int)(a * seed);
}

/* Its unlikely part is put elsewhere. */
CASE int has_cold_part(int a)
{
	if (__builtin_expect(a == 77, 0)) {
		seed++;
		abort();
	}
	return a + 1;
}

CASE ssize_t read(int a, void *b, size_t c)
{
	return a + ((char *)b)[0] + (ssize_t)c;
}

#define FUNCTION(f) printf("%s\t%lx\t1\n", #f, (unsigned long)(f))
#define NUMBER(name, value) printf("!%s\t%lx\t1\n", name, (unsigned long)(value))

int main(int argc, char **argv)
{
	struct tree t = { 1, NULL, NULL, 1, 2, { (int)seed, 2, 3 } };
	char buffer[200];
	long sum = takes_three(seed, 2, 3, 4) + takes_tree(&t, t) + only_here(5) + has_cold_part(argc);

	memcpy(buffer, argv[0], (size_t)argc);
	sum += read(1, buffer, 2) + strtol("12", NULL, 10) + getppid() + (long)strlen(argv[0]) + close(-1) +
	       unsetenv("NO_SUCH");
	FUNCTION(takes_three);
	FUNCTION(takes_tree);
	FUNCTION(only_here);
	FUNCTION(has_cold_part);
	FUNCTION(main);
	NUMBER("label_in_code", label_in_code);
	NUMBER("data_in_code", data_in_code);
	NUMBER("strtol", strtol);
	NUMBER("sizeof tree", sizeof(struct tree));
	NUMBER("tree.left", offsetof(struct tree, left));
	NUMBER("tree.values", offsetof(struct tree, values));
	printf("done\n");
	fflush(stdout);
	getchar();
	return sum == 12345;
}
