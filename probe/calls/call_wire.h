/*
 * call_wire - the memory through which `watchctl trace` gets entries and ends of functions out of a program: a part of what probe/wire.h
 * describes, and as little trusted.
 *
 * Each thread has a place by its number, in which stand where its next event goes and where its chunk ends. An event takes its slot with
 * one instruction, so that one of a signal's handler comes before it or after it, never in the same slot. What is written last says that
 * the event is complete.
 *
 * Chunks are taken from a pool. One in which the last slot is taken is the reader's as soon as its slots are written; he gives it back
 * with zeros in it.
 *
 * Where values are recorded, they lie in the slots behind the event's; those are taken together.
 */
#ifndef PROBE_CALLS_CALL_WIRE_H
#define PROBE_CALLS_CALL_WIRE_H

#include "probe/calls/call_offsets.h"

#include <stdint.h>

/* At a function's first instruction, or one that leaves it: there rsp points at the return address. */
struct call_slot {
	uint64_t tsc; /* with CALL_TSC_VALUES or CALL_TSC_NOTHING */
	/* Written last. rsp / 8 from bit CALL_SITE_BITS on; below that the id of the site. 0: not written yet. */
	uint64_t place;
	uint64_t return_address;
};

#define CALL_SITES (1u << CALL_SITE_BITS)

#define CALL_TSC_VALUES (1ull << 63) /* a struct call_values begins in the slot behind it */
#define CALL_TSC_NOTHING \
	(1ull << 62) /* it is no event: as many slots as return_address says are passed over */

/* In return_address, while the slots behind it are being written: so many belong together, the first among them. */
#define CALL_TAKEN 0xca11000000000000ull

/*
 * For each fetch of the plan, in its order: u8 enum call_got; of CALL_GOT and CALL_GOT_SOME u16 n, and n bytes. Behind the last
 * fetch whatever comes is without meaning.
 */
struct call_values {
	uint32_t len; /* of @bytes */
	uint32_t pad;
	uint8_t bytes[];
};

enum call_got {
	CALL_GOT,
	CALL_GOT_SOME,	/* there is more */
	CALL_GOT_FAULT, /* it cannot be read */
	CALL_GOT_NULL,	/* the pointer is 0 */
	CALL_GOT_NONE,
};

enum call_fetch_op {
	CALL_FETCH_GPR,	  /* @len bytes of general register @reg (by DWARF's numbers), from byte @offset on */
	CALL_FETCH_XMM,	  /* ... of xmm register @reg */
	CALL_FETCH_YMM,	  /* 32 bytes of ymm register @reg */
	CALL_FETCH_X87,	  /* 16 bytes: st(@reg) */
	CALL_FETCH_STACK, /* @len bytes at rsp + @offset */
	CALL_FETCH_MEMORY, /* @len bytes at the pointer that fetch @base gave, + @offset */
	CALL_FETCH_STRING, /* ... at most, up to a NUL, which is not among them */
	CALL_FETCH_ERRNO,
};

struct call_fetch {
	uint8_t op, reg, base, pad;
	uint16_t len, pad2;
	int32_t offset;
};

#define CALL_FETCHES 96u

/* Fetches of a site that is CALL_VALUED. */
struct call_plan {
	uint16_t n;	/* at most CALL_FETCHES */
	uint16_t slots; /* that this takes at most, with the event's own */
	struct call_fetch fetch[];
};

#define CALL_PLAN_MOST (sizeof(struct call_plan) + CALL_FETCHES * sizeof(struct call_fetch))

#define CALL_VALUES_SLACK 8u /* bytes behind the last value that may be written */

/*
 * Slot @at is in the chunk whose last one is @last if last - at <= span, both being addresses: where a signal's handler has got another
 * chunk since @at was taken, it is not. Between two chunks is room for some slots, so that what is taken behind one is in none.
 */
#define CALL_CHUNK_GUARD 256u

static inline uint32_t call_chunk_slots(uint32_t chunk_bytes)
{
	return (chunk_bytes - CALL_CHUNK_GUARD) / CALL_SLOT_SIZE;
}

static inline uint32_t call_chunk_span(uint32_t chunk_bytes)
{
	return (call_chunk_slots(chunk_bytes) - 1) * CALL_SLOT_SIZE;
}

/* A thread's own. Only itself changes it, as long as it lives. */
struct call_thread_place {
	/* Changed as one (cmpxchg16b): a signal's handler sees both old, or both new. */
	_Alignas(CALL_PLACE_SIZE) uint64_t next; /* address of the next slot; beyond @last, none is there */
	uint64_t last;				 /* address of the chunk's last slot; 0: it has none */
	uint32_t
		tid; /* as the C library keeps it, once it has had a chunk: trampolines record by themselves from then on; else 0 */
	uint32_t owner; /* the same, from the first event on; 0: it is free */
	/*
	 * The mapping that its stack is in; 0: not known. The reader's. Of a thread that was created, only what is below its thread control
	 * block is its stack: behind that, other memory may have become part of the same mapping.
	 */
	uint64_t stack_start, stack_end;
	uint32_t stack_is_main; /* it is the one that the process began with: all of it is */
	uint32_t pad;
};

#define CALL_PLACES 65536u /* by the low 16 bits of the thread's number */
#define CALL_NEIGHBOURS \
	8u /* places that a thread may have, from its own on: threads there record slower, but do */

enum call_off {
	CALL_ON = 0,
	CALL_COUNTED = 1, /* not recorded, but counted in its struct probe_counter */
	CALL_IGNORED = CALL_OFF_IGNORED,
	CALL_VALUED = CALL_OFF_VALUED, /* recorded, with what its plan says */
};

enum call_chunk_state {
	CALL_CHUNK_FREE = 0,
	CALL_CHUNK_CLAIMED = 1, /* whose it is, is being written */
	CALL_CHUNK_USED = 2,
};

struct call_chunk {
	uint32_t state; /* enum call_chunk_state */
	uint32_t tid;
	uint32_t number; /* of a thread's chunks the older has the lower one */
	uint32_t pad;
};

#define CALL_CHUNKS 16384u
#define CALL_PLANS_BYTES (8u << 20)
#define CALL_CHUNK_LEAST 4096u
#define CALL_CHUNK_LEAST_VALUES 32768u /* where there are plans: the most that one may take has room */
#define CALL_CHUNK_MOST 65536u

/* Memory of the program that can be read as long as it lives: what is not to be written of its own file, and of its loader's. */
struct call_span {
	uint64_t start, end;
};

#define CALL_FIXED 16u

/* Begins a page, and is followed by the chunks, on a page of their own. */
struct call_shared {
	struct call_thread_place place[CALL_PLACES];
	uint8_t off
		[CALL_SITES]; /* by the ids of sites; not 0: it is only counted, in its struct probe_counter */
	struct call_chunk chunk[CALL_CHUNKS];
	uint32_t nchunks, chunk_bytes;
	uint32_t nfree;
	uint32_t next_number;
	uint64_t chunk_at; /* address of the first, in the program */
	uint64_t plans_at; /* address of struct call_plans; 0: there are none */
	int32_t errno_at;  /* where from the thread's fs base on the C library's errno is; 0: not known */
	uint32_t nfixed;
	uint32_t
		waits; /* 1: who finds no chunk waits until there is one, as long as struct probe_shared's heartbeat goes on */
	uint32_t pad;
	struct call_span fixed[CALL_FIXED];
};

/* Begins a page; only what is used of it is ever touched. */
struct call_plans {
	uint32_t of
		[CALL_SITES]; /* by the ids of sites: where in @bytes the struct call_plan is; a multiple of 4 */
	uint8_t bytes[CALL_PLANS_BYTES];
};

_Static_assert(__builtin_offsetof(struct call_shared, off) == CALL_OFF_AT &&
		       sizeof(struct call_thread_place) == CALL_PLACE_SIZE &&
		       1u << CALL_PLACE_SHIFT == CALL_PLACE_SIZE &&
		       __builtin_offsetof(struct call_thread_place, last) == CALL_PLACE_LAST &&
		       __builtin_offsetof(struct call_thread_place, tid) == CALL_PLACE_TID &&
		       sizeof(struct call_slot) == CALL_SLOT_SIZE &&
		       __builtin_offsetof(struct call_slot, place) == CALL_SLOT_PLACE &&
		       __builtin_offsetof(struct call_slot, return_address) == CALL_SLOT_RETURN,
	       "as trampolines and call_buffered.S have them");

static inline uint64_t call_slot_sp(uint64_t place)
{
	return place >> CALL_SITE_BITS << 3;
}

static inline uint32_t call_slot_site(uint64_t place)
{
	return place & (CALL_SITES - 1);
}

#endif
