/* build: gcc -O1 -g */
/* usage: masked_handler SECONDS. Has a SIGTRAP handler; its SIGALRM handler runs with all signals blocked. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

long counter;

static void on_trap(int sig)
{
	(void)sig;
}

__attribute__((noinline)) void tick(void)
{
	counter++;
}

static void on_alarm(int sig)
{
	(void)sig;
	tick();
}

int main(int argc, char **argv)
{
	const struct itimerval often = { { 0, 20000 }, { 0, 20000 } };
	struct sigaction alarm = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 1);

	sigfillset(&alarm.sa_mask);
	sigaction(SIGALRM, &alarm, NULL);
	signal(SIGTRAP, on_trap);
	setitimer(ITIMER_REAL, &often, NULL);
	while (time(NULL) < end)
		usleep(1000);
	return 0;
}
