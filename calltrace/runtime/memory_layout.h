/*
 * memory_layout - how the runtime's records lie in the memory of its program, for who reads them in a dump of it after
 * the program has died. The dump is searched for the magic of struct calltrace_memory, which leads to everything else.
 *
 * A reader may be older or newer than the runtime: each change of a struct below, or of one that is in them, is a new
 * CALLTRACE_MEMORY_VERSION.
 */
#ifndef CALLTRACE_RUNTIME_MEMORY_LAYOUT_H
#define CALLTRACE_RUNTIME_MEMORY_LAYOUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "calltrace/abi.h"
#include "calltrace/runtime/call_output.h"
#include "calltrace/runtime/event_pairs.h"
#include "calltrace/runtime/open_calls.h"
#include "calltrace/runtime/raw_call.h"
#include "calltrace/runtime/ring.h"
#include "watchctl/trace/event.h"

#define CALLTRACE_MEMORY_MAGIC \
	"\x8f"                 \
	"calltrace.rings" /* 16 bytes, no NUL */
#define CALLTRACE_MEMORY_VERSION 2u

#define MODULES_MAX 1024

/* A point at which both clocks were read, at most WIDE_SAMPLE cycles of the TSC apart, but for bad luck. */
struct clock_point {
	uint64_t tsc, ns;
};

#define WIDE_SAMPLE 20000

struct thread {
	struct thread *next; /* never changes: heads are used again, not freed */
	atomic_bool is_taken;
	atomic_bool is_new; /* nobody was told of it yet */
	pid_t tid;
	char comm[COMM_LEN];

	raw_lock lock;		      /* of what follows */
	struct calltrace_slot *chunk; /* NULL: it has ended */
	struct calltrace_slot *begin; /* the first slot given since the last turn */
	struct calltrace_slot *from;  /* the first one that has not been read */
	struct ring ring;	      /* in their place, of a flight recorder */
	bool was_read;		      /* the ring, before */
	struct clock_point point;     /* of the last drain */
	struct clock_point late; /* of a flight recorder: of a turn not long ago, for readers of a dump; 0 */
	unsigned int module;	 /* that of its last event */
	void *map;
	struct open_calls calls;
	struct call_output out;
	struct event_pairs events; /* of the program's own */
};

struct traced_module {
	_Atomic uint32_t size; /* bytes of the table; 0: this place is free. Written last */
	uint32_t low;	       /* half of its address */
	uint32_t base;
	const struct calltrace_function *begin;
	uint8_t *on;
};

/* A type of the program's own events. */
struct event_type_text {
	char *name, *format;
};

/* Addresses are numbers: those of another process. */
struct calltrace_memory {
	uint8_t magic[16];
	uint32_t version;
	uint32_t thread_bytes, module_bytes, place_bytes; /* sizes of the structs */
	uint64_t self;					  /* its own address; 0: recording has not begun */
	uint64_t is_recording;				  /* of an atomic_bool */
	uint64_t first_thread;				  /* of a pointer */
	uint64_t modules, nmodules;			  /* of an array, and of an atomic_uint */
	uint64_t place;
	uint32_t ring_chunks; /* 0: not a flight recorder */
	uint32_t reserved;
	struct clock_point begin;
	uint64_t realtime_ns;		    /* CLOCK_REALTIME then */
	uint64_t event_types, nevent_types; /* as modules, nmodules */
};

/* Raise the version with each number that changes here. */
_Static_assert(sizeof(struct calltrace_memory) == 128 && sizeof(struct traced_module) == 32 &&
		       sizeof(struct thread) == 416 && sizeof(struct output_place) == PATH_MAX + 40,
	       "another layout is another version");
_Static_assert(offsetof(struct thread, chunk) == 40 && offsetof(struct thread, ring) == 64 &&
		       offsetof(struct thread, point) == 104 && offsetof(struct thread, calls) == 152 &&
		       offsetof(struct thread, out) == 184 && offsetof(struct thread, events) == 280,
	       "another layout is another version");
_Static_assert(offsetof(struct call_output, n) == 16 && offsetof(struct call_output, begin_ns) == 24 &&
		       offsetof(struct call_output, discarded) == 40 &&
		       offsetof(struct open_calls, left_ns) == 24 &&
		       offsetof(struct ring, overwritten) == 16 &&
		       offsetof(struct output_place, uuid) == PATH_MAX + 16,
	       "another layout is another version");

#endif
