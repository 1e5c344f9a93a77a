/* What the plan victims say about each call: "f_ints.a 2a000000", the bytes of a parameter as the caller
 * passed them; "f_ints.=" is the result, "f_text.s*" what a pointer points to. */
#include <stdio.h>
#include <string.h>

#define CASE __attribute__((noinline))

static volatile long seed = 3; /* keeps compilers from knowing values */

static void show(const char *what, const void *bytes, size_t n)
{
	const unsigned char *p = (const unsigned char *)bytes;

	printf("%s ", what);
	while (n--)
		printf("%02x", *p++);
	printf("\n");
}

#define SHOW(what, value) show(what, &(value), sizeof(value))
