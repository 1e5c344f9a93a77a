#include "watchctl/base/task.h"

#include <asm/param.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"

const char *task_stat(pid_t pid, pid_t tid, char *buf, size_t len)
{
	char path[64];
	const char *name_end;

	ssize_t n;

	if (tid)
		snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	else
		snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	scoped(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);

	n = fd < 0 ? 0 : read(fd, buf, len - 1);
	buf[n > 0 ? n : 0] = '\0';
	name_end = strrchr(buf, ')'); /* the name may hold anything */
	return name_end && name_end[1] == ' ' ? name_end + 2 : NULL;
}

/* A thread's own file: for that of its process the kernel adds up what all its threads have used. */
bool task_start_ticks(pid_t pid, uint64_t *ret)
{
	char text[1024];
	const char *field = task_stat(pid, pid, text, sizeof(text));

	for (int i = 3; field && i < 22; i++) { /* the state is field 3 */
		field = strchr(field, ' ');
		field = field ? field + 1 : NULL;
	}
	if (!field)
		return false;
	*ret = strtoull(field, NULL, 10);
	return true;
}

uint64_t task_ticks_now(void)
{
	const uint64_t ns_per_s = 1000000000u;
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return ((uint64_t)t.tv_sec * ns_per_s + (uint64_t)t.tv_nsec) / (ns_per_s / HZ);
}

static bool has_ended(pid_t pid, pid_t tid)
{
	char text[1024];
	const char *state = task_stat(pid, tid, text, sizeof(text));

	return !state || *state == 'Z' || *state == 'X';
}

pid_t task_with_memory(pid_t pid)
{
	const struct dirent *entry;
	char path[64];

	if (!has_ended(pid, pid))
		return pid;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	scoped(closedirp) DIR *tasks = opendir(path);

	while (tasks && (entry = readdir(tasks))) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (tid > 0 && tid != pid && !has_ended(pid, tid))
			return tid;
	}
	return pid;
}
