/* build: gcc -O1 -g -pthread -ldl */
/*
 * tls_late - threads that use a library that is loaded later: its variables come into being when a thread first uses
 * them. "pid N", then a line at a time, each answered by "ok" once it is done:
 *
 *	load FILE	loads another library; the last one's tick() is called from now on
 *	tick N		each of the four threads that are there from the beginning calls tick() N times
 *	born N		a new thread calls tick() N times, and ends
 */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS 4

static void (*tick)(void);
static int times;
static sem_t go[THREADS], done;

static void tick_times(void)
{
	for (int i = 0; i < times; i++)
		tick();
}

static void *old(void *arg)
{
	for (;;) {
		sem_wait(arg);
		tick_times();
		sem_post(&done);
	}
	return NULL;
}

static void *born(void *arg)
{
	tick_times();
	return arg;
}

static int load(const char *path)
{
	void *lib = dlopen(path, RTLD_NOW);

	if (!lib)
		fprintf(stderr, "%s\n", dlerror());
	else
		*(void **)&tick = dlsym(lib, "tick");
	return lib && tick;
}

int main(void)
{
	char line[4096], path[4096];
	pthread_t thread;

	setvbuf(stdout, NULL, _IOLBF, 0);
	sem_init(&done, 0, 0);
	for (int i = 0; i < THREADS; i++) {
		sem_init(&go[i], 0, 0);
		if (pthread_create(&thread, NULL, old, &go[i]))
			return 1;
	}
	printf("pid %d\n", getpid());
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "load %4095s", path) == 1) {
			if (!load(path))
				return 1;
		} else if (sscanf(line, "tick %d", &times) == 1) {
			for (int i = 0; i < THREADS; i++)
				sem_post(&go[i]);
			for (int i = 0; i < THREADS; i++)
				sem_wait(&done);
		} else if (sscanf(line, "born %d", &times) == 1) {
			if (pthread_create(&thread, NULL, born, NULL))
				return 1;
			pthread_join(thread, NULL);
		}
		printf("ok\n");
	}
	return 0;
}
