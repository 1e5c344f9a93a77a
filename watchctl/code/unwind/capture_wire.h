/*
 * capture_wire - what a program with libstackwalk in it shares with whoever collects its captures.
 *
 * The collector finds the descriptor by an ELF note of a mapped module (it survives strip):
 *
 *	name "stackwalk", type CAPTURE_NOTE, desc: int64_t, the distance from the desc itself to the
 * descriptor
 *
 * and from there on reads and writes the program's memory: nothing is mapped, opened or stopped in it. All
 * numbers are in the byte order of x86-64, all addresses are the program's.
 *
 *	start	read each ring's head, write it to its tail; write frames_max, ring_size, lease,
 *		heartbeat and session to the control block; last, 1 to the flag
 *	poll	write heartbeat; of each ring read head, calls and lost, then the bytes [tail, head);
 *		write tail
 *	stop	write 0 to the flag, poll once more, write 0 to session
 *
 * A program that ends by exit(), or closes the plugin that the library is in, clears the flag, writes 1 to
 * `ended` and waits a moment: for the collector to take the rest and to write 0 to session.
 *
 * A collector that dies leaves the flag set. The program clears it by itself: on a full ring when the
 * heartbeat is older than the lease. A child made by fork() finds its control block wiped
 * (MADV_WIPEONFORK), hence session 0, and clears its flag at its first capture.
 *
 * A ring belongs to one thread at a time, which alone writes it. Positions are bytes since the ring was
 * made, and only grow. The record at position p lies at data + (p & (size - 1)), in one piece: behind the
 * data is room for one record that begins at its end. It is whole when its `position` is that of p and
 * `words` is not 0; that is written last, some nanoseconds after `head` was advanced over it. What does not
 * become whole was abandoned (a longjmp out of a signal handler that had interrupted it, or the death of
 * the thread): after a while it is passed over up to the next whole record, and reported as lost.
 *
 * Freestanding: shared by the program and the collector.
 */
#ifndef WATCHCTL_CODE_UNWIND_CAPTURE_WIRE_H
#define WATCHCTL_CODE_UNWIND_CAPTURE_WIRE_H

#include <stdint.h>

#define CAPTURE_NOTE_NAME "stackwalk"
#define CAPTURE_NOTE 1
#define CAPTURE_MAGIC 0x316b6c776b637473u /* "stckwlk1" */
#define CAPTURE_VERSION 1

#define CAPTURE_RINGS 4096u  /* threads that can capture at the same time; more are counted as lost */
#define CAPTURE_FRAMES 128u  /* most frames of a stack */
#define CAPTURE_NAMES 1024u  /* named tags of a program; index 0 is not used */
#define CAPTURE_NAME_LEN 120 /* the longest name, with its end */
#define CAPTURE_RING_HEAD 4096u
#define CAPTURE_RING_MIN (16u << 10)
#define CAPTURE_RING_MAX (256u << 20)

/* Never changes after the program's start, but for dlclose. */
struct capture_descriptor {
	uint64_t magic;
	uint32_t version;
	uint32_t size; /* of this struct */
	uint64_t flag; /* address of a uint32_t: captures are recorded while it is not 0; may lie in another
			  module than the rest (a copy relocation) */
	uint64_t control; /* of the struct capture_control */
	uint64_t names;	  /* of the struct capture_name[CAPTURE_NAMES] */
};

/* A named tag. An entry never changes once its `len`, which is written last, is not 0. */
struct capture_name {
	uint32_t len;	  /* of the text with its end; 0: not there yet */
	uint32_t claimed; /* by the thread that fills it in */
	char text[CAPTURE_NAME_LEN];
};

/* All zero in a program that nobody collects from, and in a fresh child. */
struct capture_control {
	uint64_t session;    /* a random number, different for each collection; 0: none */
	uint64_t heartbeat;  /* time stamp counter, at each poll */
	uint64_t lease;	     /* ticks of it after which a silent collector is taken for dead */
	uint32_t frames_max; /* 1..CAPTURE_FRAMES */
	uint32_t ring_size;  /* bytes of a new ring's data, a power of two */
	uint32_t collector;  /* its pid, as it sees itself; only for messages */
	uint32_t nrings;     /* written by the program: entries of ring[] that may be used */
	uint64_t no_ring;    /* captures lost because all rings were taken, or their memory refused */
	uint64_t ended;	     /* written by the program, last: 1 when nothing more will be captured */
	uint64_t padding[9];
	uint64_t ring[CAPTURE_RINGS]; /* addresses of struct capture_ring; 0: not there (yet) */
};

struct capture_ring {
	uint64_t size;	/* of the data, a power of two */
	uint32_t owner; /* thread id, in the program's own pid namespace */
	uint32_t padding0;
	uint64_t padding1[6];

	uint64_t head;	/* the position after the last record */
	uint64_t calls; /* captures asked for: recorded + lost, but for those being written */
	uint64_t lost;	/* because the ring was full */
	uint64_t padding2[5];

	uint64_t tail; /* written by the collector: what lies before is free */
	uint64_t padding3[7];
	/* data at CAPTURE_RING_HEAD */
};

/* capture_record.flags */
#define CAPTURE_NAMED 1u     /* tag is an index into the names; 0: a name for which there was no room */
#define CAPTURE_HAS_VALUE 2u /* a value comes before the frames */
#define CAPTURE_OWNER \
	4u /* what follows is by the thread `tag`; two words with its name instead of frames \
	    */

struct capture_record {
	uint32_t position; /* low half of its position in 8-byte words */
	uint8_t words;	   /* from here to the next record */
	uint8_t nframes;   /* that many frames in `rest`; there may be unused words behind them */
	uint8_t flags;
	uint8_t walk_end; /* enum walk_end */
	uint64_t tsc;
	uint64_t tag;
	uint64_t rest[]; /* the value if it has one, then the frames: return addresses, innermost first */
};

#define CAPTURE_RECORD_MAX (sizeof(struct capture_record) + 8 * (1 + CAPTURE_FRAMES))

_Static_assert(sizeof(struct capture_name) == 128, "part of a layout shared with the collector");
_Static_assert(sizeof(struct capture_control) == 128 + 8 * CAPTURE_RINGS, "likewise");
_Static_assert(sizeof(struct capture_ring) == 192, "likewise");
_Static_assert(CAPTURE_RECORD_MAX / 8 <= 255, "words has 8 bits");

#endif
