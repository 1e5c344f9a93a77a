/* faults_tags - captures its stack under a tag, all the time; prints "pid N", and "total N" at SIGTERM. */
#include <signal.h>
#include <stackwalk.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t stop;

static void end(int sig)
{
	stop = sig;
}

__attribute__((noinline)) static void capture(unsigned long i)
{
	stackwalk_capture_value(7, i);
}

int main(void)
{
	unsigned long i = 0;

	signal(SIGTERM, end);
	printf("pid %d\n", (int)getpid());
	fflush(stdout);
	for (; !stop; i++) {
		capture(i);
		usleep(500);
	}
	printf("total %lu\n", i);
	return 0;
}
