#include "watchctl/target/proc/proc_words.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/task.h"

static size_t read_file(const char *path, char *buf, size_t len)
{
	scoped(fclosep) FILE *f = fopen(path, "re");
	size_t n = f ? fread(buf, 1, len - 1, f) : 0;

	buf[n] = '\0';
	return n;
}

void proc_thread_name(pid_t pid, pid_t tid, char *buf, size_t len)
{
	char path[80];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", pid, tid);
	read_file(path, buf, len);
	buf[strcspn(buf, "\n")] = '\0';
}

void proc_words_read(pid_t pid, struct proc_words *ret)
{
	char path[64];
	ssize_t len;
	size_t i, n;

	memset(ret, 0, sizeof(*ret));
	proc_thread_name(pid, pid, ret->comm, sizeof(ret->comm));
	snprintf(path, sizeof(path), "/proc/%d/cmdline", task_with_memory(pid));
	n = read_file(path, ret->cmdline, sizeof(ret->cmdline));
	for (i = 0; i + 1 < n; i++)
		if (!ret->cmdline[i])
			ret->cmdline[i] = ' ';
	snprintf(path, sizeof(path), "/proc/%d/exe", task_with_memory(pid));
	len = readlink(path, ret->exe, sizeof(ret->exe) - 1);
	ret->exe[len > 0 ? len : 0] = '\0';
	gethostname(ret->host, sizeof(ret->host) - 1);
}
