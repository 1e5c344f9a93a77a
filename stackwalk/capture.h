/*
 * capture - what the parts of libstackwalk know of each other.
 */
#ifndef STACKWALK_CAPTURE_H
#define STACKWALK_CAPTURE_H

#include <stdint.h>

#include "stackwalk/self_walk.h"
#include "stackwalk/stackwalk.h"
#include "watchctl/code/unwind/capture_wire.h"

#define CAPTURE_PAGE 4096u

union capture_control_pages {
	struct capture_control control;
	char pages[(sizeof(struct capture_control) + CAPTURE_PAGE - 1) / CAPTURE_PAGE * CAPTURE_PAGE];
} __attribute__((aligned(4096)));

/* The one descriptor of this copy of the library; a collector finds it by an ELF note. */
extern const struct capture_descriptor capture_descriptor;
extern union capture_control_pages capture_control_pages;
#define capture_control (capture_control_pages.control)
extern struct capture_name capture_names[CAPTURE_NAMES];

/* Nobody collects (any more): captures cost a load and a branch again. */
void capture_switch_off(void);

/* Called by the entry points, which pass the registers of their caller. @flags: CAPTURE_NAMED,
 * CAPTURE_HAS_VALUE. */
void capture_record(uint64_t tag, uint64_t value, uint32_t flags, const struct self_regs *from);
void capture_named(struct stackwalk_tag *tag, uint64_t value, uint32_t flags, const struct self_regs *from);
unsigned int capture_frames(uint64_t *frame, unsigned int max, enum stackwalk_end *why,
			    const struct self_regs *from);

/*
 * The calling thread's ring under @session, whose first record then says whose it is. NULL: there is none to
 * be had, which is counted.
 */
struct capture_ring *capture_ring_claim(uint64_t session);

/* Once, when the library is loaded. */
void capture_ring_setup(void);

/* Room for a record of @words words, at *position; NULL: the ring is full, which is counted. */
uint64_t *capture_ring_reserve(struct capture_ring *ring, uint32_t words, uint64_t *position);

/* Writes the record's first word: it is whole. */
void capture_ring_commit(uint64_t *record, uint64_t position, uint32_t words, uint32_t nframes,
			 uint32_t flags, uint32_t walk_end);

/* Of the calling thread. Only capture_ring.c writes it. */
struct capture_thread {
	struct capture_ring *ring;
	uint64_t session; /* under which it was claimed; 0: never */
	uint64_t retry; /* time stamp counter before which another try for a ring is no use; 0: none failed */
};

extern __thread struct capture_thread capture_thread __attribute__((tls_model("initial-exec")));

static inline uint64_t capture_tsc(void)
{
	return __builtin_ia32_rdtsc();
}

#endif
