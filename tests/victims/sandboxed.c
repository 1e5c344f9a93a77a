/* build: gcc -O1 -g */
/* sandboxed - puts itself under seccomp (everything allowed): "pid N" before, or with "late" after a line. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

volatile int flag;

static int sandbox(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog prog = { 1, &allow };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

int main(int argc, char **argv)
{
	char line[64];
	int late = argc > 1 && !strcmp(argv[1], "late");

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!late && sandbox())
		return 1;
	printf("pid %d\n", getpid());
	while (fgets(line, sizeof(line), stdin)) {
		if (late && sandbox())
			return 1;
		late = 0;
		flag++;
		printf("ok %d\n", flag);
	}
	return 0;
}
