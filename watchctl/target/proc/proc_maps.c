/*
 * What is mapped where: reported by /proc/PID/maps.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/task.h"
#include "watchctl/target/proc/proc.h"

static bool parse_map(const char *line, struct proc_map *m)
{
	char perms[5] = "";
	int path_at = 0;
	uint32_t major, minor;
	size_t len;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %" SCNx32 ":%" SCNx32 " %" SCNu64 " %n",
		   &m->start, &m->end, perms, &m->offset, &major, &minor, &m->file, &path_at) < 7)
		return false;
	m->device = (uint64_t)major << 32 | minor;
	m->read = perms[0] == 'r';
	m->write = perms[1] == 'w';
	m->exec = perms[2] == 'x';
	m->shared = perms[3] == 's';
	len = path_at ? strcspn(line + path_at, "\n") : 0;
	line += path_at;
	if (len >= sizeof(m->name)) {
		line += len - (sizeof(m->name) - 1);
		len = sizeof(m->name) - 1;
	}
	memcpy(m->name, line, len);
	m->name[len] = '\0';
	return true;
}

bool proc_maps(pid_t pid, bool (*fn)(void *ctx, const struct proc_map *m), void *ctx)
{
	scoped(freep) char *line = NULL;
	struct proc_map m;
	size_t cap = 0;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/maps", task_with_memory(pid));
	scoped(fclosep) FILE *f = fopen(path, "re");
	if (!f)
		return false;
	while (getline(&line, &cap, f) > 0)
		if (parse_map(line, &m) && !fn(ctx, &m))
			return true;
	return feof(f);
}

struct map_query {
	uint64_t addr;
	struct proc_map *ret;
	bool found;
};

static bool holds_address(void *ctx, const struct proc_map *m)
{
	struct map_query *q = ctx;

	if (q->addr < m->start || q->addr >= m->end)
		return true;
	*q->ret = *m;
	q->found = true;
	return false;
}

bool proc_map_at(pid_t pid, uint64_t addr, struct proc_map *ret)
{
	struct map_query q = { .addr = addr, .ret = ret };

	if (!proc_maps(pid, holds_address, &q))
		return false;
	if (!q.found)
		errno = 0;
	return q.found;
}

struct wc_error *proc_map_error(pid_t pid, uint64_t addr)
{
	if (errno)
		return proc_unread_error(pid);
	return wc_error_new(WC_ENAME, "nothing is mapped at 0x%llx in process %d", (unsigned long long)addr,
			    pid);
}
