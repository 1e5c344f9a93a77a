#include "watchctl/base/task.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"

/* Its state is the field behind the name, which may contain anything: proc_pid_stat(5). */
static bool has_ended(const char *stat_path)
{
	scoped(fclosep) FILE *f = fopen(stat_path, "re");
	char line[512];
	const char *name_end;
	size_t n = f ? fread(line, 1, sizeof(line) - 1, f) : 0;

	line[n] = '\0';
	name_end = strrchr(line, ')');
	return !name_end || name_end[1] != ' ' || name_end[2] == 'Z' || name_end[2] == 'X';
}

pid_t task_with_memory(pid_t pid)
{
	const struct dirent *entry;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (!has_ended(path))
		return pid;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	scoped(closedirp) DIR *tasks = opendir(path);

	while (tasks && (entry = readdir(tasks))) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (tid <= 0 || tid == pid)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
		if (!has_ended(path))
			return tid;
	}
	return pid;
}
