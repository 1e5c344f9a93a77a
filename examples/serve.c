/*
 * serve - ten requests, and a limit from a file: a program that works on one day and refuses work on another,
 * for `watchctl step` and `watchctl diff`.
 *
 *	cc -g -O1 -o serve serve.c
 *	echo 100 > limit; watchctl step -o good.log -- ./serve
 *	echo 5 > limit; watchctl step -o bad.log -- ./serve
 *	watchctl diff good.log bad.log
 */
#include <stdio.h>
#include <stdlib.h>

struct config {
	int limit;
	const char *name;
};

__attribute__((noinline)) static int load(struct config *c, const char *path)
{
	FILE *f = fopen(path, "r");
	char line[64];

	if (!f)
		return -1;
	if (fgets(line, sizeof(line), f))
		c->limit = atoi(line);
	fclose(f);
	return 0;
}

__attribute__((noinline)) static int serve(const struct config *c, int request)
{
	return request < c->limit ? 2 * request : -1;
}

__attribute__((noinline)) static void refuse(const struct config *c, int request)
{
	fprintf(stderr, "%s: request %d is refused\n", c->name, request);
}

int main(void)
{
	struct config c = { 10, "serve" };
	int i;

	if (load(&c, "limit"))
		return 1;
	for (i = 0; i < 10; i++)
		if (serve(&c, i) < 0)
			refuse(&c, i);
	return 0;
}
