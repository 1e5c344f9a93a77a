/*
 * open_memory - what a parameter or result points to, put together from its slots (calltrace/abi.h) into words of
 * LOG/calls.N. Slots that do not fit together, as where a signal handler has recorded calls between them, are left out.
 */
#ifndef CALLTRACE_RUNTIME_OPEN_MEMORY_H
#define CALLTRACE_RUNTIME_OPEN_MEMORY_H

#include <stdint.h>

#include "calltrace/abi.h"
#include "calltrace/runtime/call_output.h"
#include "calltrace/runtime/open_calls.h"

struct memory_piece {
	uint64_t first;
	uint32_t last;
} __attribute__((packed));

#define MEMORY_PIECES ((CALLTRACE_MEMORY_MAX + CALLTRACE_PIECE - 1) / CALLTRACE_PIECE)

_Static_assert(sizeof(struct memory_piece) == CALLTRACE_PIECE, "as a slot has it");

/* One whose bytes have not all come. Zero-initialise. */
struct open_memory {
	uint32_t function;
	uint32_t bytes;	     /* how many there are; 0: nothing is expected */
	uint32_t npieces;    /* that have come */
	uint32_t packets, n; /* of the output, when it began */
	union {
		uint64_t word[1 + MEMORY_PIECES * CALLTRACE_PIECE / 8];
		struct {
			uint64_t head;
			struct memory_piece piece[MEMORY_PIECES];
		};
	};
};

/* A slot of CALLTRACE_MEMORY or CALLTRACE_BYTES, of the innermost call. Behind the last one of some memory, puts it. */
void open_memory_take(struct open_memory *m, struct open_calls *s, const struct call_fact *f, uint64_t tsc,
		      struct call_output *out);

#endif
