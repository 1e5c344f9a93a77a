#include "watchctl/target/stop/helper_process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define ARG_START 48 /* fields of /proc/self/stat: proc(5) */

/* All but the standard streams and two others. */
static void close_all_but(int a, int b)
{
	unsigned int low = (unsigned int)(a < b ? a : b), high = (unsigned int)(a < b ? b : a);

	if (low > 3)
		close_range(3, low - 1, 0);
	if (high > low + 1)
		close_range(low + 1, high - 1, 0);
	close_range(high + 1, ~0u, 0);
}

bool helper_withdraw(int owner_fd, int memory_fd)
{
	int null, fd;

	setsid();
	close_all_but(owner_fd, memory_fd); /* first: where the limit is low, there is room only then */
	null = open("/dev/null", O_RDWR);
	for (fd = 0; null >= 0 && fd < 3; fd++)
		dup2(null, fd);
	if (null >= 3)
		close(null);
	if (memory_fd == HELPER_OWNER_FD)
		memory_fd = dup(memory_fd);
	if (null < 0 || memory_fd < 0 || dup2(owner_fd, HELPER_OWNER_FD) < 0 ||
	    dup2(memory_fd, HELPER_MEMORY_FD) < 0)
		return false;
	close_range(HELPER_MEMORY_FD + 1, ~0u, 0);
	(void)!chdir("/"); /* where that fails, a file system stays busy while we live */
	return true;
}

void helper_ignore_signals(void)
{
	static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGTSTP, SIGTTIN, SIGTTOU };
	size_t i;

	for (i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		signal(ignored[i], SIG_IGN);
}

void helper_spare(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, "-1000", 5) < 0) {
		close(fd); /* not permitted: as likely as any other */
		return;
	}
	close(fd);
}

void helper_rename(const char *comm, const char *line)
{
	char stat[1024] = "", *field = NULL;
	uintptr_t start = 0, end = 0;
	int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC), i;

	prctl(PR_SET_NAME, comm);
	if (fd < 0)
		return;
	if (read(fd, stat, sizeof(stat) - 1) > 0)
		field = strrchr(stat, ')'); /* the end of field 2 */
	close(fd);
	for (i = 2; field && i < ARG_START; i++)
		field = strchr(field + 1, ' ');
	if (field) {
		start = strtoul(field, &field, 10);
		end = strtoul(field, NULL, 10);
	}
	if (!start || end <= start)
		return;
	memset((void *)start, 0, end - start);
	memcpy((void *)start, line, strnlen(line, end - start - 1));
}
