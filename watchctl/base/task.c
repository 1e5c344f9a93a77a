#include "watchctl/base/task.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"

const char *task_stat(pid_t pid, pid_t tid, char *buf, size_t len)
{
	char path[64];
	const char *name_end;

	if (tid)
		snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	else
		snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	scoped(fclosep) FILE *f = fopen(path, "re");

	buf[f ? fread(buf, 1, len - 1, f) : 0] = '\0';
	name_end = strrchr(buf, ')'); /* the name may hold anything */
	return name_end && name_end[1] == ' ' ? name_end + 2 : NULL;
}

bool task_start_ticks(pid_t pid, uint64_t *ret)
{
	char text[1024];
	const char *field = task_stat(pid, 0, text, sizeof(text));

	for (int i = 3; field && i < 22; i++) { /* the state is field 3 */
		field = strchr(field, ' ');
		field = field ? field + 1 : NULL;
	}
	if (!field)
		return false;
	*ret = strtoull(field, NULL, 10);
	return true;
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

	if (!has_ended(pid, 0))
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
