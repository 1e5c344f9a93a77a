/*
 * Thread-local variables of a program, of a library that it is linked with (-DLIBRARY) and of plugins that it
 * loads (-DPLUGIN): three threads show "TID expression". What a thread has no copy of, it does not show.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef PLUGIN
#include <dlfcn.h>
#endif

#include "loc_show.h"

struct record {
	int head;
	struct {
		short x, y;
	} point[4];
	struct record *next;
	unsigned int low : 3, high : 9;
};

__thread int plain = 4;
static __thread char odd[3] = "ab";
__thread struct record record;
static __thread long aligned __attribute__((aligned(128)));
__thread int *pointer;
int shared;

#ifdef LIBRARY
extern __thread int in_library;
void show_library(void);
#endif

#define SHOW_MINE(lvalue)                                                                           \
	printf("%ld " #lvalue "\t%#lx\t%zu\n", (long)syscall(SYS_gettid), (unsigned long)&(lvalue), \
	       sizeof(lvalue))

static void show_own(void)
{
	static __thread int calls;

	calls++;
	pointer = &shared;
	SHOW_MINE(plain);
	SHOW_MINE(odd);
	SHOW_MINE(odd[2]);
	SHOW_MINE(record);
	SHOW_MINE(record.head);
	SHOW_MINE(record.point[3].y);
	SHOW_MINE(aligned);
	SHOW_MINE(pointer);
#ifndef NO_ERRNO
	SHOW_MINE(errno);
#endif
	printf("%ld show_own::calls\t%#lx\t%zu\n", (long)syscall(SYS_gettid), (unsigned long)&calls,
	       sizeof(calls));
#ifdef LIBRARY
	SHOW_MINE(in_library);
	show_library();
#endif
}

static pthread_barrier_t barrier;
volatile int go; /* set from outside: the sleepers use the plugin now */

static void (*plugin)(void);

static void *sleeper(void *arg)
{
	void (**slot)(void) = arg, (*touch)(void);

	show_own();
	pthread_barrier_wait(&barrier);
	/* Here the main thread loads and unloads. */
	for (int i = 0; i < 2; i++) {
		pthread_barrier_wait(&barrier);
		touch = *slot;
		if (touch)
			touch();
		pthread_barrier_wait(&barrier);
	}
	while (!go)
		usleep(1000);
	if (plugin)
		plugin();
	pause();
	return NULL;
}

#ifdef PLUGIN
static void *load(const char *name)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 64);
	void *handle;

	path[n] = '\0';
	strcpy(strrchr(path, '/') + 1, name);
	handle = dlopen(path, RTLD_NOW);
	if (!handle) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return handle;
}
#endif

int main(void)
{
	void (*touch[2])(void) = { NULL, NULL };
	pthread_t t[2];

	pthread_barrier_init(&barrier, NULL, 3);
	show_own();
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, sleeper, &touch[i]);
	pthread_barrier_wait(&barrier);
#ifdef PLUGIN
	/* The first thread uses a plugin that is gone when the next one takes its number. */
	void *handle = load("libtls_gone.so");

	touch[0] = (void (*)(void))dlsym(handle, "touch_gone");
#endif
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
#ifdef PLUGIN
	dlclose(handle);
	touch[0] = NULL;
	plugin = (void (*)(void))dlsym(load("libtls_plugin.so"), "touch_plugin");
	touch[1] = plugin;
	/* Compiled for the static area, of which the loader keeps a little for such libraries. */
	((void (*)(void))dlsym(load("libtls_static.so"), "touch_static"))();
#endif
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	show_done();
	return 0;
}
