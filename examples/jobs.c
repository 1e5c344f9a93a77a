/*
 * jobs - one thread makes jobs, one looks after them, one frees them: for "which thread frees it?".
 *
 *	cc -g -O1 -o jobs jobs.c -pthread
 *	./jobs 5		runs for five seconds
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

struct job {
	long id;
	long state;
	char name[32];
};

static struct job *current, *old;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int over;

static __attribute__((noinline)) struct job *job_new(long id)
{
	struct job *j = malloc(sizeof(*j));

	j->id = id;
	j->state = 0;
	snprintf(j->name, sizeof(j->name), "job %ld", id);
	return j;
}

static __attribute__((noinline)) void job_drop(struct job *j)
{
	free(j);
}

static void *reap(void *arg)
{
	struct job *j;

	prctl(PR_SET_NAME, "reaper");
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		pthread_mutex_lock(&lock);
		j = old;
		old = NULL;
		pthread_mutex_unlock(&lock);
		if (j)
			job_drop(j);
		usleep(20000);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	long id, last = argc > 1 ? atol(argv[1]) : 5;
	pthread_t reaper;
	int step;

	pthread_create(&reaper, NULL, reap, NULL);
	for (id = 1; id <= last; id++) {
		pthread_mutex_lock(&lock);
		if (!old) {
			old = current;
			current = job_new(id);
		}
		pthread_mutex_unlock(&lock);
		for (step = 0; step < 4; step++) {
			current->state++;
			usleep(250000);
		}
	}
	__atomic_store_n(&over, 1, __ATOMIC_RELAXED);
	pthread_join(reaper, NULL);
	return 0;
}
