/*
 * record_state - what record.bpf.c works on: the kernel's structures that it looks into, the tables of
 * handler/wire.h, what the controller and it report each other, and scratch memory.
 */
#ifndef WATCHCTL_ENGINE_KERNEL_RECORD_STATE_BPF_H
#define WATCHCTL_ENGINE_KERNEL_RECORD_STATE_BPF_H

#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "handler/walk.h"

#define SIGTRAP 5
#define PAGE 4096u
#define WINDOW 2048u
#define WINDOW_USUAL 1024u
#define ACCESS_KIND_WRITE 2
#define PTE_PRESENT 1u
#define PTE_HUGE 0x80u
#define RAW_WHEN_LAGGING 1024u
#define SHADOW_FRESH 0x10000
#define SYSCALL_INSN 0x050fu
#define TAKING 1u /* watch_taken */
#define TAKEN 2u
#define TAIL_MAX (8 * WIRE_FRAMES + sizeof(struct regs) + WIRE_RAW_MAX + sizeof(struct wire_kernel))

/* Only the members used; their places come from the running kernel's BTF. */
struct sigaction {
	void *sa_handler;
} __attribute__((preserve_access_index));

struct k_sigaction {
	struct sigaction sa;
} __attribute__((preserve_access_index));

struct sighand_struct {
	struct k_sigaction action[64];
} __attribute__((preserve_access_index));

struct upid {
	int nr;
	void *ns;
} __attribute__((preserve_access_index));

struct pid {
	unsigned int level;
	struct upid numbers[1];
} __attribute__((preserve_access_index));

struct rlimit {
	unsigned long rlim_cur;
} __attribute__((preserve_access_index));

struct signal_struct {
	struct rlimit rlim[16];
} __attribute__((preserve_access_index));

struct vm_area_struct {
	unsigned long vm_start, vm_end;
} __attribute__((preserve_access_index));

struct mm_struct {
	void *pgd;
	unsigned long start_stack, env_end;
} __attribute__((preserve_access_index));

struct thread_struct {
	unsigned long fsbase;
} __attribute__((preserve_access_index));

struct seccomp {
	int mode;
} __attribute__((preserve_access_index));

struct thread_info {
	unsigned long syscall_work; /* since Linux 5.11; bits as of enum syscall_work_bit */
} __attribute__((preserve_access_index));

enum syscall_work_bit {
	SYSCALL_WORK_BIT_SYSCALL_USER_DISPATCH = 5,
};

struct task_struct {
	struct thread_info thread_info;
	int pid, tgid;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	struct mm_struct *mm;
	struct sighand_struct *sighand;
	struct signal_struct *signal;
	struct seccomp seccomp;
	unsigned long sas_ss_sp;
	size_t sas_ss_size;
	unsigned int sas_ss_flags;
	void *rseq;
	struct thread_struct thread;
} __attribute__((preserve_access_index));

struct rseq_data {
	void *usrptr;
} __attribute__((preserve_access_index));

struct task_struct___rseq_data {
	struct rseq_data rseq;
} __attribute__((preserve_access_index));

struct pt_regs___kernel {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, flags,
		sp;
} __attribute__((preserve_access_index));

struct perf_event_attr___kernel {
	uint64_t sig_data;
} __attribute__((preserve_access_index));

struct perf_event {
	struct perf_event_attr___kernel attr;
} __attribute__((preserve_access_index));

struct bpf_perf_event_data_kern {
	struct perf_event *event;
} __attribute__((preserve_access_index));

/* Set before the program is loaded. */
const volatile bool guarding;

/* Written by the controller. */
uint8_t area[WIRE_RING_OFFSET]
	__attribute__((aligned(4096))); /* as handler/wire.h lays it out, without ring */
uint64_t expected_pc, expected_sp;	/* of a system call that the program makes for us; 0: none */
uint64_t our_handler, their_control;	/* guard: in the target */
uint64_t direct_map;			/* where the kernel maps all memory; 0: not known */
uint64_t frame_mask;			/* the address in a page table entry */
uint32_t page_levels;
uint32_t careful;     /* memory is to be read through that mapping */
uint32_t places;      /* watches that have had an event: their places are below it */
uint32_t id_level;    /* of the pid namespace as which processes are numbered */
uint64_t signal_room; /* guard: the stack that a signal's frame and the handler need */

/* Written here. */
uint64_t suppressed;
uint64_t unheld;		    /* guard: hits at which a thread was to wait, and got no signal */
uint64_t own_hits[WIRE_WATCHES];    /* made by our own handler, or for us, and nobody's */
uint32_t taken_over;		    /* guard: every hit is recorded here */
uint32_t sandboxed;		    /* guard: a thread under seccomp has made a hit */
uint32_t dispatching;		    /* guard: ... or one whose system calls the program dispatches itself */
uint32_t watch_taken[WIRE_WATCHES]; /* guard: the last value seen is in our table */

/* What read_kernel() is asked, and its answer. */
uint64_t asked_addr, asked_len, own_page_table;
uint32_t own_level; /* of its pid namespace */
uint8_t answer[PAGE];

#define PAST_WALKS 32u /* a power of two */
#define PAST_WORDS 64u /* a power of two */

struct past_word {
	uint64_t at, value;
};

/* See record_past.bpf.h. */
struct past_walk {
	uint64_t key, sp;   /* of the innermost frame: that of its rule; its stack pointer */
	uint64_t withdrawn; /* rules, until then */
	uint8_t walk_end, exact;
	uint16_t nwords; /* 0: none is known */
	uint16_t reach;	 /* bytes of the stack that they are in */
	uint16_t failed; /* since it was what it had been */
	struct past_word word[PAST_WORDS];
};

/* What every hit touches comes first: it is hardly ever in a cache. */
struct scratch {
	uint64_t frame_count, walk_end, exact;
	uint64_t word; /* read_far()'s answer */
	uint64_t window_addr, window_len, window_want;
	uint32_t past_at;	 /* in past[]: the walk under way */
	uint16_t learns, learnt; /* it is to be remembered; how many words it has by now */
	struct wire_record rec;
	uint8_t tail[TAIL_MAX + PAGE]; /* frames, registers, raw stack, the kernel's part */
	uint8_t window[WINDOW + 8];    /* of the stack */
	struct regs outer; /* of the frame that the walk has come to; the verifier wants 2 KB after it: a
			      rule's register is a byte */
	struct past_walk past[PAST_WALKS];
	struct unwind_rule rule;
	uint64_t lowest, highest; /* where the words learnt are */
	uint64_t link_at, inner_rbp;
	uint64_t stored_at[16]; /* where the walk has read each register; 0: it is as it was at the hit */
	struct filter_input input;
	int64_t result[FILTER_OPS];
	uint64_t caller_bits, range_shift;
	struct wire_watch theirs;
	int known_tid; /* guard: the thread whose stack that is, up to its control block, until then */
	uint64_t known_start, known_end, known_until;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* a CPU; set before it is loaded */
	__type(key, uint32_t);
	__type(value, struct scratch);
} scratches SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); /* set before it is loaded */
} records SEC(".maps");

static __always_inline struct wire_control *control(void)
{
	return (struct wire_control *)area;
}

static __always_inline const struct wire_filter *filter_of(uint32_t watch)
{
	return (const struct wire_filter *)(area + WIRE_FILTERS_OFFSET) + (watch & (WIRE_WATCHES - 1));
}

static __always_inline struct wire_shadow *shadows(uint32_t watch)
{
	return (struct wire_shadow *)(area + WIRE_SHADOWS_OFFSET) +
	       (watch & (WIRE_WATCHES - 1)) * WIRE_SHADOWS;
}

static __always_inline const struct wire_access_fact *facts(void)
{
	return (const struct wire_access_fact *)(area + WIRE_FACTS_OFFSET);
}

static __always_inline const struct wire_rule *rules(void)
{
	return (const struct wire_rule *)(area + WIRE_RULES_OFFSET);
}

#endif
