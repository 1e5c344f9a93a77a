/* build: gcc -O2 -g -pthread -ldl */
/* build patched_static: gcc -O2 -g -static -pthread -ldl -Wno-error */
/* build patched_static_pie: gcc -O2 -g -static-pie -pthread -ldl -Wno-error */
/*
 * patched - calls one function as often as it is asked to, and says how often that was: "patched N [MODE]".
 *
 *	(none)	calls work() N times
 *	fork	then has a child do the same, which says "child TOTAL"; both say "plus N + 7"
 *	exec	then executes /bin/true
 *	load	then loads libplugged.so beside it, waits until its function begins with a jump and for a while, and calls that N times
 *	read	before that, waits in read(2) for a line of its standard input, and says it
 *	quiet	never ends, says "quiet" once, and calls work() N times between two sleeps
 *	forever	never ends, and says "TOTAL" twenty times a second
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) uint64_t work(uint64_t a, const char *text)
{
	return a * 3 + strlen(text);
}

/* One instruction and a return. */
__attribute__((noinline)) uint64_t plus(uint64_t a)
{
	return a + 7;
}

static uint64_t run(uint64_t n)
{
	uint64_t total = 0;

	for (uint64_t i = 0; i < n; i++)
		total += work(i, "hello");
	return total;
}

static void say(const char *what, uint64_t total)
{
	printf("%s%llu\n", what, (unsigned long long)total);
	fflush(stdout);
}

static void run_in_child(uint64_t n)
{
	pid_t child = fork();
	int status;

	if (!child) {
		say("child ", run(n));
		say("child plus ", plus(n));
		_exit(0);
	}
	waitpid(child, &status, 0);
	say("plus ", plus(n));
}

static void run_in_library(uint64_t n)
{
	void *library = dlopen("./libplugged.so", RTLD_NOW);
	int (*plugged)(int) = library ? (int (*)(int))dlsym(library, "plugged") : NULL;
	uint64_t total = 0;

	if (!plugged) {
		puts(dlerror());
		return;
	}
	while (!memchr((const void *)(uintptr_t)plugged, 0xe9, 8)) /* not yet patched */
		usleep(1000);
	usleep(600000); /* all that has been patched is switched on together, then */
	for (uint64_t i = 0; i < n; i++)
		total += (uint64_t)plugged((int)i);
	say("library ", total);
}

int main(int argc, char **argv)
{
	uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 0) : 1, total = 0;
	const char *mode = argc > 2 ? argv[2] : "";
	char line[64] = "";

	if (!strcmp(mode, "forever"))
		for (;;) {
			total += run(n);
			say("", total);
			usleep(50000);
		}
	if (!strcmp(mode, "quiet")) {
		puts(mode);
		fflush(stdout);
		for (;; usleep(1000))
			total += run(n);
	}
	if (!strcmp(mode, "read")) {
		say("waiting ", 0);
		if (read(STDIN_FILENO, line, sizeof(line) - 1) > 0)
			printf("read %s", line);
	}
	say("", run(n));
	if (!strcmp(mode, "fork"))
		run_in_child(n);
	else if (!strcmp(mode, "exec"))
		execl("/bin/true", "true", (char *)NULL);
	else if (!strcmp(mode, "load"))
		run_in_library(n);
	return 0;
}
