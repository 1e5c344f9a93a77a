/*
 * record_guard - whether a thread can take a SIGTRAP where it stands, for the guard of record.bpf.c. It
 * cannot
 *
 * - where the stack has no room for the signal's frame and the handler. How far a stack goes is known of the
 * one that the kernel made for the first thread, and of those that have the thread's own control block above
 * them, as every libc makes them. Any other is of the program's making: a coroutine's, of a few kilobytes,
 * with somebody's memory or nothing below it;
 * - inside a restartable sequence: a signal makes the kernel start it again, and the access in it hit again,
 * for ever;
 * - where the signal's frame and the handler would lie on something that is watched: what the kernel writes
 * there would be a hit, and none of the program's;
 * - where our handler is mapped no more, because the program has unmapped all that it does not know.
 *
 * What is not known counts as no: such hits are recorded in the kernel, which is as good.
 */
#ifndef WATCHCTL_ENGINE_KERNEL_RECORD_GUARD_BPF_H
#define WATCHCTL_ENGINE_KERNEL_RECORD_GUARD_BPF_H

#include "watchctl/engine/kernel/record_stack.bpf.h"

#define RLIMIT_STACK 3
#define STACK_MAX \
	(128ull << 20) /* below the first thread's stack the kernel leaves at least so much for it */
#define SS_AUTODISARM (1u << 31)
#define STACK_KNOWN_NS 100000000ull

/* The kernel's, include/uapi/linux/rseq.h. */
struct rseq_cs {
	uint32_t version, flags;
	uint64_t start_ip, post_commit_offset, abort_ip;
};

struct bounds {
	uint64_t start, end;
};

static long take_bounds(struct task_struct *task, struct vm_area_struct *vma, struct bounds *ret)
{
	(void)task;
	ret->start = vma->vm_start;
	ret->end = vma->vm_end;
	return 0;
}

/* The first thread's stack grows down to its limit. */
static __always_inline bool is_on_first_stack(const struct task_struct *task, uint64_t sp)
{
	uint64_t top = task->mm->start_stack, limit = task->signal->rlim[RLIMIT_STACK].rlim_cur;

	if (task->mm->env_end > top)
		top = task->mm->env_end;
	if (limit > STACK_MAX)
		limit = STACK_MAX;
	return sp < top && top - sp + signal_room <= limit;
}

/* To look takes a lock: what was found holds for a while. */
static __always_inline bool is_on_own_stack(struct task_struct *task, struct scratch *s, uint64_t sp)
{
	uint64_t tcb = task->thread.fsbase, now = bpf_ktime_get_ns();
	struct bounds b = { 0, 0 };

	if (s->known_tid == task->pid && now < s->known_until && sp < s->known_end)
		return sp >= s->known_start && sp - s->known_start >= signal_room;
	if (sp >= tcb || bpf_find_vma(task, sp, take_bounds, &b, 0) || tcb >= b.end)
		return false;
	s->known_tid = task->pid;
	s->known_start = b.start;
	s->known_end = tcb;
	s->known_until = now + STACK_KNOWN_NS;
	return sp - b.start >= signal_room;
}

/* Where a signal's frame would end. */
static __always_inline uint64_t frame_end(const struct task_struct *task, uint64_t sp)
{
	uint64_t alternate = task->sas_ss_sp, size = task->sas_ss_size;

	if (size && (sp - alternate - 1 >= size || (task->sas_ss_flags & SS_AUTODISARM)))
		return alternate + size;
	return sp - SIGNAL_RED_ZONE;
}

static __always_inline bool has_room(struct task_struct *task, struct scratch *s, uint64_t sp)
{
	if (task->sas_ss_size)
		return frame_end(task, sp) - task->sas_ss_sp >= signal_room;
	return task->pid == task->tgid ? is_on_first_stack(task, sp) : is_on_own_stack(task, s, sp);
}

/* A thread's own copy of a variable lies elsewhere. */
static __always_inline bool is_watched(uint64_t start, uint64_t end)
{
	unsigned int i;

	for (i = 0; i < WIRE_WATCHES; i++) {
		const volatile struct wire_watch *w = &control()->watch[i];

		if (w->size && !(w->flags & WIRE_WATCH_OFF) && w->addr < end && w->addr + w->size > start)
			return true;
	}
	return false;
}

/* Where the thread has registered it; as a number: it is the program's memory. 0: nowhere. */
static __always_inline uint64_t rseq_of(const struct task_struct *task)
{
	const struct task_struct___rseq_data *newer = (const void *)task;
	uint64_t at = 0;

	if (bpf_core_field_exists(newer->rseq.usrptr)) /* since Linux 6.19 */
		bpf_core_read(&at, sizeof(at), &newer->rseq.usrptr);
	else if (bpf_core_field_exists(task->rseq))
		bpf_core_read(&at, sizeof(at), &task->rseq);
	return at;
}

static __always_inline bool is_in_restartable_sequence(const struct task_struct *task, uint64_t pc)
{
	uint64_t area = rseq_of(task), at = 0;
	struct rseq_cs cs;

	if (!area || !read_user(&at, sizeof(at), area + 8) || !at || (at & 31) ||
	    !read_user(&cs, sizeof(cs), at))
		return false;
	return pc - cs.start_ip < cs.post_commit_offset;
}

/* Other controllers, and we, know a handler by these bytes: see struct wire_signature. */
static __always_inline bool is_watchctl(uint64_t handler)
{
	const uint64_t watchctl = 0x6c74636863746177, handler_ = 0x72656c646e616820; /* "watchctl handler" */
	uint64_t name[2];

	return !bpf_probe_read_user(name, sizeof(name), (const void *)(handler - sizeof(name))) &&
	       name[0] == watchctl && name[1] == handler_;
}

static __always_inline bool can_take_signal(struct task_struct *task, uint64_t pc, uint64_t sp)
{
	uint32_t cpu = bpf_get_smp_processor_id();
	struct scratch *s = bpf_map_lookup_elem(&scratches, &cpu);

	uint64_t end = frame_end(task, sp);

	return s && has_room(task, s, sp) && !is_watched(end - signal_room, end) &&
	       !is_in_restartable_sequence(task, pc) && is_watchctl(our_handler);
}

#endif
