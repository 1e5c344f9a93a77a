/* build: gcc -O2 -g @stackwalk.so */
/*
 * Captures in a signal handler that interrupts captures, and that leaves by siglongjmp() now and then. Begins
 * when somebody collects, ends after @argv[1] seconds, and says how many it made: all, in the handler, jumps.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <stackwalk.h>

static sigjmp_buf env;
static volatile unsigned long in_handler, made, jumps;

static void on_alarm(int sig)
{
	in_handler++;
	stackwalk_capture(1);
	if (in_handler % 7)
		return;
	jumps++;
	siglongjmp(env, 1);
}

static void timer(long us)
{
	const struct itimerval it = { { 0, us }, { 0, us } };

	setitimer(ITIMER_REAL, &it, NULL);
}

int main(int argc, char **argv)
{
	time_t end;
	volatile int i;

	signal(SIGALRM, on_alarm);
	printf("pid %d\n", getpid());
	fflush(stdout);
	while (!stackwalk_collecting)
		usleep(1000);
	end = time(NULL) + atoi(argv[1]) + 1;
	if (!sigsetjmp(env, 1))
		timer(200);
	while (time(NULL) < end) {
		made++;
		stackwalk_capture_value(2, made);
		for (i = 0; i < 2000; i++)
			;
	}
	timer(0);
	printf("made %lu %lu %lu\n", made + in_handler, in_handler, jumps);
	return 0;
}
