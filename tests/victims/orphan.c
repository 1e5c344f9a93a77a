/* build: gcc -O2 -g */
/*
 * orphan - a program that goes on in a child, as daemons do: "pid N", then, after a line N on standard input,
 * forks a child that writes `flag` N times some time after the parent has ended, and ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

volatile int flag;

int main(void)
{
	char line[64];
	int i, n;

	printf("pid %d\n", getpid());
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	n = atoi(line);
	if (fork())
		return 0;
	usleep(500000);
	for (i = 1; i <= n; i++)
		flag = i;
	return 0;
}
