/* build: gcc -O1 -g -pthread */
/*
 * Two threads write to `flag` all the time, some milliseconds apart. After a line of input a third does, too, and blocks
 * all signals. After another all end. Prints "pid N", "ok" after the first line, and the number of writes.
 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

volatile long flag;
static volatile bool over;

static void *write_slowly(void *unused)
{
	while (!over) {
		__atomic_fetch_add(&flag, 1, __ATOMIC_RELAXED);
		usleep(3000);
	}
	return unused;
}

static void *write_blocked(void *unused)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	return write_slowly(unused);
}

int main(void)
{
	pthread_t thread[3];
	char line[64];
	int i;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, write_slowly, NULL);
	printf("pid %d\n", getpid());
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	pthread_create(&thread[2], NULL, write_blocked, NULL);
	printf("ok\n");
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	over = true;
	for (i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	printf("ok %ld\n", flag);
	return 0;
}
