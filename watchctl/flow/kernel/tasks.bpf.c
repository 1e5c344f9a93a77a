/*
 * tasks.bpf.c - what the kernel knows of every thread, in one pass over all of them (a BPF iterator, bpf_iter(task)): no
 * thread is stopped, none notices. Registers are those with which a thread entered the kernel: of one that is on a CPU
 * just now they are old.
 */
#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "watchctl/flow/kernel/tasks_wire.h"

/* Only the members used; their places come from the running kernel's BTF. */
struct sched_entity {
	uint64_t sum_exec_runtime, exec_start;
} __attribute__((preserve_access_index));

struct thread_struct {
	unsigned long fsbase;
} __attribute__((preserve_access_index));

struct upid {
	int nr;
} __attribute__((preserve_access_index));

struct pid {
	unsigned int level;
	struct upid numbers[1]; /* level + 1 of them */
} __attribute__((preserve_access_index));

/* Of the locks that a task in D state may wait for, what says who has them. */
struct atomic_word {
	long counter;
} __attribute__((preserve_access_index));

struct mutex {
	struct atomic_word owner; /* atomic_long_t: the task, and flags in the low three bits */
} __attribute__((preserve_access_index));

struct rw_semaphore {
	struct atomic_word owner; /* likewise, in the low two; of readers only the last one to take it */
} __attribute__((preserve_access_index));

struct semaphore {
	unsigned long last_holder;
} __attribute__((preserve_access_index));

struct task_struct {
	struct pid *thread_pid;
	struct task_struct *group_leader;
	uint32_t __state;
	int exit_state, on_cpu;
	char comm[16];
	unsigned long blocker;
	void *mm;
	void *clear_child_tid;
	struct task_struct *real_parent;
	struct sched_entity se;
	struct thread_struct thread;
} __attribute__((preserve_access_index));

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
} __attribute__((preserve_access_index));

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} __attribute__((preserve_access_index));

/* arch/x86/include/asm/ptrace.h: the same on every kernel, as the entry code pushes it. */
struct pt_regs {
	uint64_t r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp,
		ss;
};

/* The number of @t in the pid namespace at @level, 0 being the first one; 0: it is not in it. */
static __always_inline int number_at(struct task_struct *t, unsigned int level)
{
	struct pid *pid = BPF_CORE_READ(t, thread_pid);
	int nr = 0;

	if (!pid || BPF_CORE_READ(pid, level) < level)
		return 0;
	bpf_core_read(&nr, sizeof(nr),
		      (const char *)&pid->numbers[0] + level * bpf_core_type_size(struct upid));
	return nr;
}

#define USER32_CS 0x23u /* __USER32_CS, arch/x86/include/asm/segment.h */

static __always_inline void read_regs(struct task_struct *t, struct tasks_record *ret)
{
	const void *at = (const void *)bpf_task_pt_regs(t);
	struct pt_regs r;

	if (bpf_probe_read_kernel(&r, sizeof(r), at))
		return;
	ret->is_32bit = r.cs == USER32_CS;
	if (ret->is_32bit)
		return;
	ret->regs.r[WREG_RAX] = r.ax;
	ret->regs.r[WREG_RDX] = r.dx;
	ret->regs.r[WREG_RCX] = r.cx;
	ret->regs.r[WREG_RBX] = r.bx;
	ret->regs.r[WREG_RSI] = r.si;
	ret->regs.r[WREG_RDI] = r.di;
	ret->regs.r[WREG_RBP] = r.bp;
	ret->regs.r[WREG_RSP] = r.sp;
	ret->regs.r[WREG_R8] = r.r8;
	ret->regs.r[WREG_R9] = r.r9;
	ret->regs.r[WREG_R10] = r.r10;
	ret->regs.r[WREG_R11] = r.r11;
	ret->regs.r[WREG_R12] = r.r12;
	ret->regs.r[WREG_R13] = r.r13;
	ret->regs.r[WREG_R14] = r.r14;
	ret->regs.r[WREG_R15] = r.r15;
	ret->regs.r[WREG_RIP] = r.ip;
	ret->regs.r[WREG_RFLAGS] = r.flags;
	ret->regs.r[WREG_FS_BASE] = t->thread.fsbase;
	ret->syscall = (int64_t)r.orig_ax;
	ret->has_regs = 1;
}

/* include/linux/hung_task.h */
enum { BLOCKER_MUTEX, BLOCKER_SEM, BLOCKER_RWSEM_READER, BLOCKER_RWSEM_WRITER, BLOCKER_KIND = 3 };

static __always_inline int blocker_owner(unsigned long blocker, unsigned int level)
{
	const void *lock = (const void *)(blocker & ~(unsigned long)BLOCKER_KIND);
	unsigned long owner = 0;

	switch (blocker & BLOCKER_KIND) {
	case BLOCKER_MUTEX:
		bpf_core_read(&owner, sizeof(owner), &((const struct mutex *)lock)->owner.counter);
		break;
	case BLOCKER_SEM:
		if (bpf_core_field_exists(((const struct semaphore *)lock)->last_holder))
			bpf_core_read(&owner, sizeof(owner), &((const struct semaphore *)lock)->last_holder);
		break;
	default:
		bpf_core_read(&owner, sizeof(owner), &((const struct rw_semaphore *)lock)->owner.counter);
		break;
	}
	owner &= ~7ul;
	return owner ? number_at((struct task_struct *)owner, level) : 0;
}

SEC("iter/task")
int tasks_look(struct bpf_iter__task *c)
{
	struct task_struct *t = c->task;
	struct task_struct *me = (struct task_struct *)bpf_get_current_task();
	struct tasks_record rec = { 0 };
	unsigned int level;

	if (!t)
		return 0;
	level = BPF_CORE_READ(me, thread_pid, level);
	rec.pid = number_at(t->group_leader, level);
	rec.tid = number_at(t, level);
	rec.parent = number_at(BPF_CORE_READ(t, real_parent, group_leader), level);
	rec.own_tid = number_at(t, BPF_CORE_READ(t, thread_pid, level));
	rec.state = t->__state;
	rec.exit_state = (uint32_t)t->exit_state;
	rec.on_cpu = (uint32_t)t->on_cpu;
	rec.ran_ns = t->se.sum_exec_runtime;
	rec.ran_at_ns = t->se.exec_start;
	rec.clear_child = (uint64_t)t->clear_child_tid;
	rec.is_kernel = !t->mm;
	rec.syscall = -1;
	if (bpf_core_field_exists(t->blocker))
		rec.blocker = t->blocker;
	if (rec.blocker)
		rec.blocker_tid = blocker_owner(rec.blocker, level);
	bpf_probe_read_kernel(rec.comm, sizeof(rec.comm), t->comm);
	if (t->mm)
		read_regs(t, &rec);
	bpf_seq_write(c->meta->seq, &rec, sizeof(rec));
	return 0;
}

char licence[] SEC("license") = "GPL";
