#include "watchctl/monitor/calls/call_memory.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/step/ptrace/step_errno.h"
#include "watchctl/target/proc/proc.h"

struct program_file {
	struct patch_session *session;
	char path[PATH_MAX];
	size_t len;
};

static bool is_of(const struct program_file *p, const struct proc_map *m)
{
	const size_t len = strlen(m->name);

	return len && len <= p->len && !strcmp(m->name, p->path + p->len - len);
}

/* Not of other files, which may become shorter under their mappings: nobody can write to one that is being executed. */
static bool show_map(void *ctx, const struct proc_map *m)
{
	const struct program_file *p = ctx;

	return !(m->file && m->read && !m->write && !m->shared && is_of(p, m)) ||
	       patch_session_fixed(p->session, m->start, m->end);
}

void call_memory_show(struct patch_session *s)
{
	const pid_t pid = patch_session_pid(s);
	const uint64_t thread_pointer = patch_session_thread_pointer(s);
	struct program_file p = { .session = s };
	int64_t at = 0;
	char exe[64];
	ssize_t n;

	snprintf(exe, sizeof(exe), "/proc/%d/exe", pid);
	n = readlink(exe, p.path, sizeof(p.path) - 1);
	if (n > 0) {
		p.len = (size_t)n;
		proc_maps(pid, show_map, &p);
	}
	if (thread_pointer && step_errno_offset(pid, thread_pointer, &at) && at == (int32_t)at)
		patch_session_errno(s, (int32_t)at);
}
