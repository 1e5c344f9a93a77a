/* build: gcc -O2 -g */
/*
 * reloads - loads, calls and unloads a library as its input says, and answers each line with one:
 *	open PATH	its address
 *	call N		the sum of plugged(1) .. plugged(N)
 *	flip N		N times unloaded and loaded again, and called once each time; how often it was at the same address
 *	close		"closed"
 *	fill		what is not this library is mapped where it was: "filled"
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void *library;
static int (*plugged)(int);
static char path[4000];

static void open_library(void)
{
	library = dlopen(path, RTLD_NOW);
	plugged = library ? (int (*)(int))dlsym(library, "plugged") : NULL;
	if (!plugged) {
		printf("%s\n", dlerror());
		exit(1);
	}
}

static void call(int n)
{
	long sum = 0;

	for (int i = 1; i <= n; i++)
		sum += plugged(i);
	printf("%ld\n", sum);
}

static void flip(int n)
{
	int same = 0;

	for (int i = 0; i < n; i++) {
		uintptr_t before = (uintptr_t)plugged;

		dlclose(library);
		open_library();
		plugged(i);
		same += (uintptr_t)plugged == before;
	}
	printf("%d\n", same);
}

static void fill(void)
{
	void *page = (void *)((uintptr_t)plugged & ~4095ul);

	dlclose(library);
	page = mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
		    0);
	if (page == MAP_FAILED)
		exit(1);
	memset(page, 0xc3, 4096);
	mprotect(page, 4096, PROT_READ | PROT_EXEC);
	printf("filled\n");
}

int main(void)
{
	char line[4096];
	int n;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "open %3999s", path) == 1) {
			open_library();
			printf("%p\n", (void *)(uintptr_t)plugged);
		} else if (sscanf(line, "call %d", &n) == 1) {
			call(n);
		} else if (sscanf(line, "flip %d", &n) == 1) {
			flip(n);
		} else if (!strcmp(line, "close\n")) {
			dlclose(library);
			printf("closed\n");
		} else if (!strcmp(line, "fill\n")) {
			fill();
		}
	}
	return 0;
}
