/* build: gcc -O1 -g */
/*
 * own_handler - has a SIGTRAP handler of its own, raises SIGTRAP in three ways, and checks that the
 * handler sees each exactly as it would alone. "pid N"; a line on standard input starts a round; "ok COUNT".
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

volatile int flag;
static volatile sig_atomic_t by_raise, by_int3, by_sigqueue, wrong;

static void handler(int sig, siginfo_t *info, void *context)
{
	sigset_t mask;

	(void)context;
	sigprocmask(SIG_SETMASK, NULL, &mask);
	/* The mask is what sigaction asked for: SIGTRAP itself and SIGUSR1, nothing more. */
	if (!sigismember(&mask, SIGTRAP) || !sigismember(&mask, SIGUSR1) || sigismember(&mask, SIGUSR2))
		wrong++;
	if (sig != SIGTRAP)
		wrong++;
	if (info->si_code == SI_TKILL)
		by_raise++;
	else if (info->si_code == SI_QUEUE && info->si_value.sival_int == 42)
		by_sigqueue++;
	else if (info->si_code == SI_KERNEL)
		by_int3++;
	else
		wrong++;
}

int main(void)
{
	struct sigaction sa = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
	char line[64];
	int i;

	sigemptyset(&sa.sa_mask);
	sigaddset(&sa.sa_mask, SIGUSR1);
	sigaction(SIGTRAP, &sa, NULL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("pid %d\n", getpid());
	while (fgets(line, sizeof(line), stdin)) {
		for (i = 0; i < 10; i++) {
			flag = i;
			raise(SIGTRAP);
			flag = -i;
			__asm__ volatile("int3");
			sigqueue(getpid(), SIGTRAP, (union sigval){ .sival_int = 42 });
		}
		printf("ok %d %d %d %d\n", by_raise, by_int3, by_sigqueue, wrong);
	}
	return 0;
}
