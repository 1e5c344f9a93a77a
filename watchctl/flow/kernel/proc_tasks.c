#include "watchctl/flow/kernel/proc_tasks.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/target/proc/proc.h"

/* task_struct.__state and .exit_state, as include/linux/sched.h numbers them. */
static void put_state(char letter, struct tasks_record *r)
{
	static const struct {
		char letter;
		uint32_t state, exit_state;
	} known[] = {
		{ 'S', 1, 0 }, { 'D', 2, 0 },	    { 'T', 4, 0 },
		{ 't', 8, 0 }, { 'X', 0x80, 0x10 }, { 'Z', 0x80, 0x20 },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].letter == letter) {
			r->state = known[i].state;
			r->exit_state = known[i].exit_state;
		}
}

static FILE *open_file(const struct tasks_record *r, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", r->pid, r->tid, name);
	return fopen(path, "re");
}

/* proc(5), /proc/PID/syscall. "running": it is on a CPU. */
static void read_syscall(struct tasks_record *r)
{
	static const enum reg order[] = { WREG_RDI, WREG_RSI, WREG_RDX, WREG_R10, WREG_R8, WREG_R9 };
	scoped(fclosep) FILE *f = open_file(r, "syscall");
	uint64_t *reg = r->regs.r;

	r->syscall = -1;
	if (!f)
		return;
	if (fscanf(f, "%" SCNd64, &r->syscall) != 1) {
		r->syscall = -1;
		r->on_cpu = 1;
		return;
	}
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]) && r->syscall >= 0; i++)
		if (fscanf(f, " %" SCNx64, &reg[order[i]]) != 1)
			return;
	if (fscanf(f, " %" SCNx64 " %" SCNx64, &reg[WREG_RSP], &reg[WREG_RIP]) != 2)
		reg[WREG_RSP] = reg[WREG_RIP] = 0;
}

/* Documentation/scheduler/sched-stats.rst, /proc/PID/schedstat; and /proc/PID/sched, whose times are ms. */
static void read_times(struct tasks_record *r)
{
	scoped(fclosep) FILE *stat = open_file(r, "schedstat"), *sched = open_file(r, "sched");
	char line[128];
	uint64_t ms, ns;

	if (stat && fscanf(stat, "%" SCNu64, &r->ran_ns) != 1)
		r->ran_ns = 0;
	while (sched && fgets(line, sizeof(line), sched))
		if (!strncmp(line, "se.exec_start", 13) && sscanf(strchr(line, ':') ? strchr(line, ':') : "",
								  ": %" SCNu64 ".%" SCNu64, &ms, &ns) == 2) {
			r->ran_at_ns = ms * 1000000 + ns;
			return;
		}
}

static bool read_thread(pid_t pid, pid_t tid, struct tasks_record *ret)
{
	struct proc_status s;

	*ret = (struct tasks_record){ .pid = pid, .tid = tid, .syscall = -1 };
	if (!proc_status_read(pid, tid, &s))
		return false;
	ret->parent = s.parent;
	ret->own_tid = s.ns_id;
	ret->is_kernel = s.kthread;
	snprintf(ret->comm, sizeof(ret->comm), "%.15s", s.name);
	put_state(s.state, ret);
	if (ret->is_kernel)
		return true;
	read_syscall(ret);
	read_times(ret);
	return true;
}

struct reading {
	bool (*take)(void *ctx, const struct tasks_record *r);
	void *ctx;
	bool ended;
};

static bool read_process(void *ctx, pid_t pid)
{
	struct reading *to = ctx;
	struct thread_ids threads = { 0 };
	struct tasks_record r;

	if (proc_threads(pid, &threads))
		for (size_t i = 0; i < threads.n && !to->ended; i++)
			if (read_thread(pid, threads.v[i], &r))
				to->ended = !to->take(to->ctx, &r);
	thread_ids_deinit(&threads);
	return !to->ended;
}

bool proc_tasks_read(bool (*take)(void *ctx, const struct tasks_record *r), void *ctx)
{
	struct reading to = { .take = take, .ctx = ctx };

	proc_each(read_process, &to);
	return !to.ended;
}
