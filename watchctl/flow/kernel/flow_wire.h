/*
 * flow_wire - the memory that flow.bpf.c and kernel_flow share: a ring a CPU, of the words of flow_format.h. The kernel writes
 * and drops what finds no room; we read.
 */
#ifndef WATCHCTL_FLOW_KERNEL_FLOW_WIRE_H
#define WATCHCTL_FLOW_KERNEL_FLOW_WIRE_H

#include <stdint.h>

#define FLOW_RING_HEAD 4096u

struct flow_ring {
	/* Counts of words since the beginning; a word's place is its count modulo the ring's size. */
	uint64_t reserved;	/* what follows is free, or somebody is going to write there */
	uint64_t nest;		/* programs that write now: one, and those of interrupts that hit it */
	uint64_t last_ns;	/* not after the time of the newest event */
	uint64_t lost;		/* events since the last one that found room */
	uint64_t preempt_count; /* where the kernel has this CPU's; 0: not found yet */
	uint64_t waker; /* the thread that has woken another since the last return of a call on this CPU; 0 */
	uint64_t runs;	/* the thread that the events say runs here, and bit 31; 0: they do not say yet */
	uint64_t unused[1];
	uint64_t committed; /* all before this was written */
	uint64_t unused2[7];
	uint64_t tail; /* ours: all before this was read */
	uint8_t unused3[FLOW_RING_HEAD - 17 * sizeof(uint64_t)];
	uint32_t word[]; /* a power of two of them */
};

_Static_assert(sizeof(struct flow_ring) == FLOW_RING_HEAD, "the words begin on a page");

/* Of a system call, by its number: which of its returns are recorded, and on what it is done. */
enum flow_call_class {
	FLOW_CALL_PLAIN = 0,
	FLOW_CALL_FD = 1, /* its first argument is a descriptor */
	FLOW_CALL_FUTEX_OLD = 2,
	FLOW_CALL_FUTEX_WAKE = 3, /* futex_wake(2) */
	FLOW_CALL_FUTEX_WAIT = 4, /* futex_wait(2) */
	FLOW_CALL_ACCEPT = 5,
	FLOW_CALL_CONNECT = 6,
	FLOW_CALL_SOCKETPAIR = 7,
	FLOW_CALL_PIPE = 8,    /* likewise, two descriptors, by its first argument */
	FLOW_CALL_EVENTFD = 9, /* its result is a descriptor */
	FLOW_CALL_CLASS = 15,
	FLOW_CALL_RETURN = 128, /* its return is recorded, not only where it woke a thread */
};

#define FLOW_CALLS 512u

/* Whose system calls' returns are recorded. */
enum flow_scope {
	FLOW_SCOPE_ALL = 0,
	FLOW_SCOPE_PROCESSES = 1, /* of a table, and their children */
	FLOW_SCOPE_CGROUP = 2,
};

/* Addresses in the kernel are not told: a number of 32 bits stands for each, @salt is odd and drawn anew each time. */
static inline uint32_t flow_key(uint64_t address, uint64_t salt)
{
	return (uint32_t)((address * salt) >> 32);
}

/*
 * Of an address of the network, its four words as they are in a packet; of IPv4 {0, 0, htonl(0xffff), address}. A loopback
 * address is of its network namespace only: @ns, the inode of that.
 */
static inline uint32_t flow_address_key(const uint32_t word[4], uint32_t ns, uint64_t salt)
{
	const uint32_t mapped = 0xffff0000u, one = 0x01000000u; /* htonl(0xffff), htonl(1) */
	const int is_v4_loopback = word[2] == mapped && (word[3] & 0xff) == 127;
	const int is_v6_loopback = !word[2] && word[3] == one;
	uint64_t number = ((uint64_t)word[0] << 32 | word[1]) * salt + ((uint64_t)word[2] << 32 | word[3]);

	if (!word[0] && !word[1] && (is_v4_loopback || is_v6_loopback))
		number += (uint64_t)ns << 32;
	return flow_key(number, salt);
}

#endif
