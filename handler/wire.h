/*
 * wire - the memory that the injected handler and the controller share, and that only they read.
 *
 *	base                 base + WIRE_CODE_SIZE
 *	|                    |
 *	v                    v
 *	+--------------------+---------------------+------+---------+---------+--------------+-------+------+
 *	| handler code, r-x  | struct wire_control | boot | filters | shadows | access facts | rules | ring |
 *	| private            | rw-, shared with the controller where the system allows it                   |
 *	+--------------------+---------------------+------+---------+---------+--------------+-------+------+
 *
 * The handler finds the control block at a fixed distance from its own code, so the code holds no
 * address at all. The ring is written by the threads of the target (reserve by adding to `head`,
 * commit by storing the position, keyed, into the record) and read by the controller alone, who advances
 * `tail`. A record whose space is not there is counted in `lost` and dropped: the target never waits.
 *
 * The controller trusts nothing in here: the target owns the memory too.
 */
#ifndef HANDLER_WIRE_H
#define HANDLER_WIRE_H

#include <stdint.h>

#include "handler/filter.h"
#include "watchctl/code/regs.h"
#include "watchctl/code/unwind/unwind_rule.h"

#define WIRE_MAGIC 0x7761746368637431u /* "watchct1" */
#define WIRE_VERSION 3u
#define WIRE_CODE_SIZE 0x4000u
#define WIRE_WATCHES 16u    /* more than debug registers: what was disarmed may still have hits under way */
#define WIRE_FRAMES 64u	    /* most frames a record can hold */
#define WIRE_RAW_MAX 32768u /* most bytes of raw stack a record can hold */
#define WIRE_ACCESS_FACTS 4096u /* slots, power of two */
#define WIRE_RULES 32768u
#define WIRE_PROBES 16u /* how far a lookup goes before it gives up: entries are placed no further */
#define WIRE_RETURN_ADDRESS (1ull << 63) /* in a rule's key: the rule is for the row at key - 1 */
#define WIRE_KEY_GONE 1ull		 /* the entry was withdrawn; lookups go on past it */

enum wire_flags {
	WIRE_USE_TSC = 1, /* rdtsc is constant, and the target may execute it; else clock_gettime */
	WIRE_HAVE_FSGSBASE = 2,
	WIRE_CHILDREN = 4,   /* the handler lives on in forked children, whose hits are recorded too */
	WIRE_TAKEN_OVER = 8, /* left by a watchctl that was killed; its owner is the one that will unmap it */
};

/*
 * What stands directly before the handler's first instruction, in every version: how another controller
 * (and the guard in the kernel) knows a handler of watchctl, and finds its control block.
 */
struct wire_signature {
	int32_t to_control; /* from the signature's own address */
	uint32_t pad;
	char name[16]; /* WIRE_SIGNATURE, no NUL */
};

#define WIRE_SIGNATURE "watchctl handler"

/* The kernel's struct sigaction for rt_sigaction(2), x86-64. */
struct wire_sigaction {
	uint64_t handler, flags, restorer, mask;
};

enum wire_watch_flags {
	WIRE_WATCH_READS = 1, /* the debug register fires on reads: the handler must not load the value */
	WIRE_WATCH_READS_ONLY = 2, /* drop what is known to be a pure write */
	WIRE_WATCH_EXECUTE = 4,
	WIRE_WATCH_HOLD = 8,	    /* wait for the controller after recording: see wire_control.done */
	WIRE_WATCH_FILTER = 16,	    /* wire_filter of the same index applies */
	WIRE_WATCH_PER_THREAD = 32, /* another address in each thread: the trap shows which */
	WIRE_WATCH_OFF = 64,	    /* disarmed: what still comes was under way */
	WIRE_WATCH_PARTIAL =
		128, /* not armed in all threads: the signal of another watch says nothing of it */
	WIRE_WATCH_SHARED =
		256, /* others may write there: the value seen last says little of the one before */
};

struct wire_watch {
	uint64_t addr;
	uint32_t size;
	uint32_t flags;
	uint64_t shadow; /* last value seen: where the old value of the next access comes from */
	uint64_t filtered;
	uint64_t lost;
	uint64_t passed;		 /* hits that passed the filter's condition: for its `sample` */
	uint64_t recorded_ns;		 /* CLOCK_MONOTONIC of the last one recorded, for its interval_ns */
	uint32_t want_offset, want_size; /* the bytes asked for, within the register's */
};

/* How to know the value and kind of an access at once, as a function of the trap's rip. */
struct wire_access_fact {
	uint64_t key;	    /* trap rip; 0: empty */
	uint8_t kind;	    /* enum access_kind; 0 where it depends on more than the address */
	uint8_t value_from; /* enum wire_value_from */
	uint8_t value_reg, value_shift;
	int8_t base, index; /* of the memory operand, enum reg or -1 */
	uint8_t scale, seg; /* seg: 0 flat, 1 fs */
	uint32_t size;	    /* of the operand; 0: it cannot be computed from the registers */
	uint32_t insn_len;
	int64_t disp;
	uint64_t imm;
	uint32_t certain; /* it accesses every byte of its operand, each time it runs */
	uint32_t pad0;
	uint64_t pad[2];
};

enum wire_value_from {
	WIRE_VALUE_MEMORY = 0, /* read it */
	WIRE_VALUE_REG = 1,    /* a plain load or store of a register */
	WIRE_VALUE_IMM = 2,
};

/* The last value seen at one address of a WIRE_WATCH_PER_THREAD watch. */
struct wire_shadow {
	uint64_t addr; /* 0: empty */
	uint64_t value;
};

#define WIRE_SHADOWS 1024u /* of each watch; a power of two */

struct wire_rule {
	uint64_t key; /* address, or return address | WIRE_RETURN_ADDRESS; 0: empty */
	struct unwind_rule rule;
};

struct wire_control {
	uint64_t magic;
	uint32_t version;
	uint32_t flags;
	uint64_t cookie;     /* sig_data of our events: cookie | watch index; the low byte is 0 here */
	uint64_t commit_key; /* random: old bytes in the ring never look like a commit */
	uint32_t max_frames;
	uint32_t raw_size;		 /* bytes of stack to record where a rule is missing */
	uint64_t ring_offset, ring_size; /* from the control block; size is a power of two */
	uint64_t facts_offset, rules_offset;
	uint64_t code_start, code_end; /* where the handler itself is */
	uint64_t mapping_size;	       /* from code_start: all that is ours in the target */
	uint64_t owner_start;	       /* of the controller: start time in clock ticks since boot, and pid */
	int32_t owner_pid;
	int32_t target_pid;	  /* as the target numbers itself */
	uint64_t first_stack_top; /* of the first thread's stack; 0: not known */
	uint64_t test_start,
		test_end;	   /* in our code: what tries watches out, and nothing else, accesses them */
	struct wire_sigaction old; /* the program's own SIGTRAP action: chained to, and put back */
	struct wire_sigaction ours;
	uint32_t hwbkpt_watch; /* watch + 1 that was armed through ptrace: its traps carry no cookie */
	uint32_t nwatches;     /* watch[] up to here has been in use */

	uint64_t head __attribute__((aligned(64)));
	uint64_t tail __attribute__((aligned(64)));
	uint64_t heartbeat; /* CLOCK_MONOTONIC in ns at the last pass of the controller */
	uint32_t wake __attribute__((aligned(64))); /* a futex: 0 while the controller sleeps on it */
	uint32_t unheld; /* threads that went on at a WIRE_WATCH_HOLD site before the controller was done */
	/*
	 * Positions in the ring. The controller has done what records up to `done` ask for (the low half is a
	 * futex): a thread at a WIRE_WATCH_HOLD site waits until that is its own record's end, for
	 * `patience_ns` at most. Who waited in vain sets `behind` to `head`; while `done` is before that,
	 * nobody waits.
	 */
	uint64_t done, behind;
	uint64_t patience_ns;
	struct wire_watch watch[WIRE_WATCHES] __attribute__((aligned(64)));
	/* What `old` was put back in place of, as the kernel reported: `ours`, once it was taken out. Then
	 * scratch. */
	struct wire_sigaction withdrawn[2];
	uint64_t placed; /* when, in clock ticks since boot: who was forked earlier may have all but the
			    action */
	uint64_t rules_withdrawn; /* how often rules were: what is remembered of walks from before is void */
	uint64_t causeless; /* debug exceptions that the processor gave no cause for; they went no further */
};

#define WIRE_TRAP_CODE 3 /* bytes, from rip - 2 on */

/*
 * SIGTRAP, TRAP_BRKPT, at rip, in a thread that takes no single steps: what raises that besides a debug exception that left
 * DR6 empty, which the kernel takes for an int1 (exc_debug_user() in arch/x86/kernel/traps.c). Told by the two bytes before
 * rip: an int1 (f1), an int n (cd), a system call (0f 05, 0f 34) that was stepped; and by the one at rip, where some
 * hypervisors leave it for an int1. Hypervisors lose DR6 at times; then it is a hit of ours.
 */
static inline int wire_code_raises_trap(const uint8_t around[WIRE_TRAP_CODE])
{
	return around[1] == 0xf1 || around[2] == 0xf1 || around[0] == 0xcd ||
	       (around[0] == 0x0f && (around[1] == 0x05 || around[1] == 0x34));
}

#define SIGNAL_RED_ZONE 128u /* what a signal's frame leaves alone, below the interrupted stack pointer */

#define WIRE_CONTROL_SIZE 0x1000u
#define WIRE_BOOT_SIZE 0x10000u /* stack and signal frame for remote system calls */

/* Where the parts of the shared area begin, from the control block; the ring, to the end, is the last. */
#define WIRE_FILTERS_OFFSET (WIRE_CONTROL_SIZE + WIRE_BOOT_SIZE)
#define WIRE_FILTERS_SIZE 0x4000u
#define WIRE_SHADOWS_OFFSET (WIRE_FILTERS_OFFSET + WIRE_FILTERS_SIZE)
#define WIRE_FACTS_OFFSET (WIRE_SHADOWS_OFFSET + WIRE_WATCHES * WIRE_SHADOWS * sizeof(struct wire_shadow))
#define WIRE_RULES_OFFSET (WIRE_FACTS_OFFSET + WIRE_ACCESS_FACTS * sizeof(struct wire_access_fact))
#define WIRE_RING_OFFSET (WIRE_RULES_OFFSET + WIRE_RULES * sizeof(struct wire_rule))

enum wire_record_flags {
	WIRE_HAS_OLD = 1,
	WIRE_HAS_NEW = 2,
	WIRE_SELF_TEST = 4, /* the access was made by our own code */
	WIRE_PADDING = 8,   /* fills the end of the ring */
	WIRE_TIME_NS = 16,  /* time is CLOCK_MONOTONIC, else the time stamp counter */
	WIRE_EXACT_PC =
		64, /* the frame without a rule is an interrupted one: its address is no return address */
	WIRE_ASYNC = 32, /* SIGTRAP was blocked: the registers are not those of the access */
	WIRE_KERNEL =
		128, /* made by the kernel on the program's behalf: regs are the program's, entering it */
	WIRE_UNDECIDED =
		256, /* the filter could not be decided where the hit happened: it is to be asked again */
	WIRE_TENTATIVE =
		512, /* another watch fired at an instruction not known yet, which may have hit this too */
	WIRE_NO_FACT =
		1024, /* nothing was published about the instruction: the values are what memory held then */
};

/*
 * Followed by nframes u64. Where the walk met an address without a rule (WALK_END_UNKNOWN_PC), also by the
 * registers of that frame (struct regs; of the callee-saved ones, rip and rsp) and raw_len bytes (a multiple
 * of 8) of stack from its rsp, which is raw_addr, upwards: the controller walks on from there.
 */
struct wire_record {
	uint64_t commit; /* position in the ring ^ commit_key once it is whole */
	uint32_t size;	 /* bytes, header included, multiple of 16 */
	uint16_t flags;
	uint8_t watch;
	uint8_t walk_end; /* enum walk_end */
	uint64_t time;
	uint32_t tid; /* as the target's pid namespace numbers it */
	uint32_t nframes;
	uint64_t old_value, new_value;
	uint64_t raw_addr;
	uint32_t raw_len;
	int32_t pid;	 /* as the target's pid namespace numbers it; 0: the target itself */
	int32_t syscall; /* WIRE_KERNEL: the number of the system call; -1: none, or not known */
	uint32_t pad;
	uint64_t addr; /* of the debug register, for a WIRE_WATCH_PER_THREAD watch; 0: the watch's */
	struct regs regs;
};

#define WIRE_KERNEL_FRAMES 16u

/* At the end of a WIRE_KERNEL record, behind the raw stack if there is one: the kernel after the access. */
struct wire_kernel {
	struct regs regs;
	uint32_t nframes, pad;
	uint64_t frame[WIRE_KERNEL_FRAMES]; /* the first is rip, the others return addresses */
};

_Static_assert(sizeof(struct wire_watch) == 64, "one cache line a watch");
_Static_assert(sizeof(struct wire_access_fact) == 64, "one cache line a fact");
_Static_assert(sizeof(struct wire_rule) == 32, "two rules a cache line");
_Static_assert(sizeof(struct wire_control) <= WIRE_CONTROL_SIZE, "fits its page");
_Static_assert(WIRE_WATCHES * sizeof(struct wire_filter) <= WIRE_FILTERS_SIZE, "fit their place");
_Static_assert(sizeof(struct wire_record) % 8 == 0, "frames follow aligned");

static inline uint64_t wire_hash(uint64_t key)
{
	key ^= key >> 29;
	key *= 0x9e3779b97f4a7c15ull;
	return key >> 20;
}

#endif
