/* build: gcc -O1 -g -pthread */
/*
 * Loads the library that is replaced when it has threads, a memory of its own, and a filter for system calls if that is asked for, or
 * lets nobody look at it:
 *
 *	dropped_later [filter|hidden]
 *
 * Prints how often it has called dropped_add().
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int over;
static volatile long rounds[3];

static void *go_round(void *at)
{
	while (!over)
		++*(volatile long *)at;
	return NULL;
}

/* Everything is allowed: that there is a filter is what counts. */
static void install_filter(void)
{
	struct sock_filter allow = { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW };
	struct sock_fprog program = { 1, &allow };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int argc, char **argv)
{
	int (*add)(int, int);
	pthread_t t[3];
	void *handle;

	if (argc > 1 && !strcmp(argv[1], "filter"))
		install_filter();
	if (argc > 1 && !strcmp(argv[1], "hidden"))
		prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, go_round, (void *)&rounds[i]);
	for (int round = 0; round < 3; round++) {
		handle = dlopen("libdropped.so.1", RTLD_NOW);
		add = handle ? (int (*)(int, int))dlsym(handle, "dropped_add") : NULL;
		if (!add) {
			puts(dlerror());
			return 1;
		}
		for (int i = 0; i < 100; i++)
			add(round, i);
		dlclose(handle);
	}
	over = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	printf("%d children\n", waitpid(-1, NULL, WNOHANG | __WALL) != -1 || errno != ECHILD);
	return 0;
}
