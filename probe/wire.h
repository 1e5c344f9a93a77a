/*
 * wire - the memory that probes in a program share with whoever put them there. The program owns it, so nothing in it is
 * trusted by the controller.
 *
 *	home	once:	 struct probe_home (rw) | the compiled probes with their runtime (rx) | their variables (rw) |
 *			 struct probe_shared, the counters, the rings (rw, shared)
 *	near	within reach of a jump of 32 bits from a module, one for each:
 *			 trampolines (rx) | struct probe_near (rw) | struct probe_switch | sites | patches
 *	puns	where jumps lead whose displacements are in part bytes of the program's, as many as it takes:
 *			 struct probe_pun_head | trampolines (rx); all else of them is in the module's near area
 *
 * Each part is of whole pages. The home names all near areas before they are mapped, so that whoever finds it finds all; what
 * was written over the program's code stands in the patches, so that anybody can take it out.
 *
 * A fork copies all but the shared part; the switch is wiped in the child (MADV_WIPEONFORK), so that nothing is recorded there.
 */
#ifndef PROBE_WIRE_H
#define PROBE_WIRE_H

#include <stdint.h>

#define PROBE_HOME_MAGIC 0x7e0be57a7c4c714cull
#define PROBE_NEAR_MAGIC 0x7e0be57a7c4c714dull
#define PROBE_PUN_MAGIC 0x7e0be57a7c4c714eull
#define PROBE_VERSION 6u
#define PROBE_PAGE 4096u
#define PROBE_HOME_SIZE 65536u /* of struct probe_home with all that it may name */

struct probe_range {
	uint64_t start;
	uint32_t code_size, data_size; /* bytes; of puns, no data */
};

static inline int probe_range_is_puns(const struct probe_range *r)
{
	return r->code_size && !r->data_size;
}

struct probe_home {
	uint64_t magic; /* written last */
	uint32_t version;
	uint32_t nnear;
	uint64_t cookie; /* of the session */
	uint64_t start;	 /* of all: of this */
	uint64_t code_size, data_size, ring_size;
	int32_t owner_pid;    /* the controller, as it numbers itself */
	int32_t target_pid;   /* in the program's innermost pid namespace */
	uint64_t owner_start; /* see proc_start_time() */
	uint64_t owner_ns;    /* inode number of its pid namespace; 0: not known */
	struct probe_range near[];
};
#define PROBE_NEARS ((PROBE_HOME_SIZE - sizeof(struct probe_home)) / sizeof(struct probe_range))

struct probe_near {
	uint64_t magic; /* written last */
	uint64_t cookie;
	uint64_t entry; /* address of probe_entry: trampolines call it by this */
	uint32_t nsites, npatches;
	uint64_t switch_at, site_at, patch_at; /* addresses in the program */
	uint64_t code_used;
};

struct probe_pun_head {
	uint64_t magic;
	uint64_t cookie;
};

struct probe_switch {
	uint64_t on; /* 0: trampolines do nothing but the program's own instructions */
};

enum probe_operand_kind { PROBE_NO_OPERAND, PROBE_REG, PROBE_MEM, PROBE_IMM, PROBE_UNKNOWN };

#define PROBE_NO_REG 0xff

struct probe_operand {
	uint8_t kind;	     /* enum probe_operand_kind */
	uint8_t size;	     /* bytes; 0: not known */
	uint8_t base, index; /* enum reg (watchctl/code/regs.h), or PROBE_NO_REG */
	uint8_t scale;
	uint8_t segment; /* 0: flat, 1: fs, 2: gs */
	uint8_t shift;	 /* PROBE_REG: 8 for ah..bh */
	uint8_t addr32;
	int64_t disp; /* of an operand relative to rip the address; of PROBE_IMM the value */
};

#define PROBE_OPERANDS 4

enum probe_site_flags {
	PROBE_AFTER = 1,   /* behind the instruction */
	PROBE_INSTEAD = 2, /* in its place: registers are written back */
};

struct probe_site {
	uint64_t addr;	   /* of the instruction in the program */
	uint64_t rip;	   /* that the probe sees */
	uint64_t function; /* address of the probe function */
	uint64_t counter;  /* address of its struct probe_counter */
	uint32_t id;	   /* in this session */
	uint32_t flags;
	struct probe_operand operand[PROBE_OPERANDS];
	uint64_t pad[3];
};
_Static_assert(sizeof(struct probe_site) == 128, "two lines, which are only read");
/* probe/entry.S has these by number. */
_Static_assert(__builtin_offsetof(struct probe_site, rip) == 8 &&
		       __builtin_offsetof(struct probe_site, function) == 16 &&
		       __builtin_offsetof(struct probe_site, counter) == 24 &&
		       __builtin_offsetof(struct probe_site, flags) == 36 && PROBE_INSTEAD == 2,
	       "as entry.S has them");

/* In the shared memory, so that it is there when the program has ended. */
struct probe_counter {
	/* How often the site was reached while the switch was on, by threads without a tally. */
	_Alignas(64) uint64_t count;
	uint64_t lost; /* records of it that found no room */
};

/*
 * Where one thread counts by itself, without a locked instruction and without others' cache lines: its place is that of its number, cut to
 * the mask, if no other thread has taken it; else it counts in struct probe_counter. What a site was reached is the sum. One that is
 * taken stays so when its thread has ended.
 */
struct probe_tally {
	uint64_t tid;	   /* whose it is, as the C library keeps it; PROBE_TALLY_FREE */
	uint64_t count_at; /* address of its counts, 8 bytes each, by the ids of sites */
};

#define PROBE_TALLIES 32u
#define PROBE_TALLY_FREE UINT64_MAX

#define PROBE_PATCH_MAX 16

enum probe_patch_state {
	PROBE_PATCH_PLANNED = 0,
	PROBE_PATCH_WRITING = 1, /* set before the first byte is written */
	PROBE_PATCH_DONE = 2,
	PROBE_PATCH_REMOVED = 3,
};

/* What was written over what; enough to take it out again. */
struct probe_patch {
	uint64_t addr; /* in the program */
	uint64_t trampoline, trampoline_end;
	uint8_t len; /* bytes that are overwritten */
	uint8_t moved; /* bytes of whole instructions whose copies are in the trampoline; 0: it is a way station */
	uint8_t state;
	uint8_t tail; /* bytes behind @len that are a part of the jump, and stay what they are */
	uint8_t pad[4];
	uint8_t original[PROBE_PATCH_MAX]; /* @len + @tail bytes */
	uint8_t written[PROBE_PATCH_MAX];
	/* Offsets of the copies: of the instruction at @addr + i in the trampoline; 0xffff: none begins there. */
	uint16_t copy[PROBE_PATCH_MAX];
};

/* Rings: as many as CPUs, in slots of 64 bytes. */

#define PROBE_SLOT 64u
#define PROBE_RINGS 64u
#define PROBE_STACK_MAX 32768u

struct probe_ring {
	_Alignas(64) uint64_t head; /* slots that writers have taken, ever */
	_Alignas(64) uint64_t tail; /* ... that the reader has given back */
	uint32_t retired;	    /* given up by the reader, for a record in it was never completed */
	uint32_t pad;
};

enum probe_shared_flags {
	PROBE_FSGSBASE = 1, /* the bases of fs and gs can be read */
	PROBE_NO_SYSCALLS =
		2, /* a filter of the program's (seccomp) may kill it for ours: probe_read() reads nothing */
	PROBE_RDPID = 4,      /* the processor has that, and it gives the number of the CPU */
	PROBE_FAST_CALLS = 8, /* tid_at is known: record_value.S may do all by itself */
	PROBE_TALLIED = 16,   /* tid_at is known, and there are tallies */
};

struct probe_shared {
	uint32_t flags;
	uint32_t tally_mask; /* tallies that there are, less 1; <= PROBE_TALLIES - 1 */
	uint32_t nrings;     /* a power of two, <= PROBE_RINGS */
	uint32_t slots;	     /* of each ring, a power of two */
	/* Where from the thread's fs base on the C library keeps its number; 0: not known, ask the kernel. */
	int32_t tid_at;
	uint32_t stack_bytes; /* of the stack, copied by probe_stack(); a multiple of 8, <= PROBE_STACK_MAX */
	int32_t pid;	      /* of the program, as it numbers itself */
	/* What PROBE_VECTOR() saves, as XSAVE lays it out (Intel SDM vol. 1, 13.4). */
	uint32_t vector_bytes; /* a multiple of 64 */
	uint64_t vector_mask;  /* the state components; 0: there is no XSAVE, FXSAVE is used */
	uint32_t ymm_at, zmm_at,
		more_at; /* offsets: upper halves of ymm0-15, of zmm0-15; zmm16-31; 0: none */
	uint32_t pad;
	uint64_t heartbeat;  /* of the controller: CLOCK_MONOTONIC, ns */
	uint64_t counter_at; /* address of the counters, by the ids of sites */
	uint64_t counters;   /* how many there can be */
	uint64_t slot_at;    /* from here on: the slots of ring 0, then those of ring 1 ... */
	uint64_t calls_at; /* address of the struct call_shared (probe/calls/call_wire.h); 0: there is none */
	struct probe_ring ring[PROBE_RINGS];
	struct probe_tally tally[PROBE_TALLIES];
};

/* probe/vector.S has these by number. */
_Static_assert(__builtin_offsetof(struct probe_shared, vector_bytes) == 28 &&
		       __builtin_offsetof(struct probe_shared, vector_mask) == 32,
	       "as vector.S has them");

/* probe/record_offsets.h has these by number. */
_Static_assert(__builtin_offsetof(struct probe_site, id) == 32 &&
		       __builtin_offsetof(struct probe_counter, lost) == 8 &&
		       __builtin_offsetof(struct probe_shared, nrings) == 8 &&
		       __builtin_offsetof(struct probe_shared, slots) == 12 &&
		       __builtin_offsetof(struct probe_shared, tid_at) == 16 &&
		       __builtin_offsetof(struct probe_shared, slot_at) == 80 &&
		       __builtin_offsetof(struct probe_shared, calls_at) == 88 &&
		       __builtin_offsetof(struct probe_shared, ring) == 128 &&
		       sizeof(struct probe_ring) == 128 &&
		       __builtin_offsetof(struct probe_ring, tail) == 64 &&
		       __builtin_offsetof(struct probe_ring, retired) == 72 &&
		       __builtin_offsetof(struct probe_shared, tally_mask) == 4 &&
		       __builtin_offsetof(struct probe_shared, tally) == 8320 &&
		       __builtin_offsetof(struct probe_tally, count_at) == 8 &&
		       sizeof(struct probe_tally) == 16,
	       "as call_buffered.S, entry.S and record_value.S have them");

enum probe_record_kind {
	PROBE_RECORD_VALUE = 1, /* word[0]: the value */
	/* word[0]: address of the format; its arguments; its strings, PROBE_STRING_MAX bytes each */
	PROBE_RECORD_LOG = 2,
	/* word[0]: address of the tag's format, [1]: the value, [2]: bytes of stack; struct probe_regs; the stack */
	PROBE_RECORD_STACK = 3,
};

#define PROBE_HEAD_WORDS 4
#define PROBE_MORE_WORDS 7

/* The first slot of a record. */
struct probe_slot {
	uint32_t seq;	/* slots taken before this one, plus 1, cut to 32 bits: written last */
	uint16_t more;	/* slots that follow */
	uint8_t kind;	/* enum probe_record_kind */
	uint8_t nbytes; /* of PROBE_RECORD_LOG: 8-byte words of strings that follow the arguments */
	uint64_t time;
	uint32_t tid;
	uint32_t site;
	uint64_t reserved;
	uint64_t word[PROBE_HEAD_WORDS];
};

/* Those that follow. */
struct probe_more {
	uint32_t seq;
	uint16_t part; /* 1.. */
	uint16_t pad;
	uint64_t word[PROBE_MORE_WORDS];
};
_Static_assert(__builtin_offsetof(struct probe_slot, kind) == 6 &&
		       __builtin_offsetof(struct probe_slot, time) == 8 &&
		       __builtin_offsetof(struct probe_slot, tid) == 16 &&
		       __builtin_offsetof(struct probe_slot, site) == 20 &&
		       __builtin_offsetof(struct probe_slot, reserved) == 24 &&
		       __builtin_offsetof(struct probe_slot, word) == 32 && PROBE_RECORD_VALUE == 1,
	       "as record_value.S and record_offsets.h have them");
_Static_assert(sizeof(struct probe_slot) == PROBE_SLOT && sizeof(struct probe_more) == PROBE_SLOT, "slots");

#endif
