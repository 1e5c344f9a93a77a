/*
 * trampoline - the code that a patch jumps to: for each of the program's instructions that were moved, in order, the
 * probes of the sites at it, and a copy that does the same as it did at its old place; at the end a jump back.
 *
 * No return address of the program's ever points into a trampoline: a call that was moved pushes the address behind its
 * old place, and jumps. So a call is moved only as the last instruction of its group; stacks stay exact, and a
 * trampoline may go once no thread is in it.
 *
 * Knows no process: it writes bytes for an address.
 */
#ifndef WATCHCTL_PATCH_PLAN_TRAMPOLINE_H
#define WATCHCTL_PATCH_PLAN_TRAMPOLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRAMPOLINE_INSNS 16 /* bytes of a group in which instructions may begin */
#define TRAMPOLINE_MAX 1024 /* bytes of a trampoline at most */
#define TRAMPOLINE_NONE 0xffffu

enum trampoline_when { PROBE_RUNS_BEFORE, PROBE_RUNS_AFTER, PROBE_RUNS_INSTEAD };

/* A probe in a group: at the instruction @offset bytes behind its beginning. */
struct trampoline_probe {
	uint16_t offset;
	enum trampoline_when when;
	uint64_t site; /* address of its struct probe_site in the program */
	uint32_t id;   /* of the site; for struct trampoline_record */
};

/*
 * Probes that run before record an entry or an end of a function by themselves, see probe/calls/call_wire.h, of whose struct call_shared the
 * switch holds the address. What they cannot, the probes' entry does; and all of it for probes of a group that has more than three.
 */
struct trampoline_record {
	int32_t tid_at; /* where from the thread's fs base on its number is */
	uint32_t span;	/* call_chunk_span() */
};

struct trampoline_request {
	uint64_t addr;	      /* of the group's first instruction in the program */
	const uint8_t *bytes; /* the @moved bytes of the group, as they are there */
	size_t moved;
	size_t len; /* bytes at @addr that are written over: those behind @moved are never executed */
	const struct trampoline_probe *probe; /* by offset */
	size_t nprobes;
	uint64_t at;	    /* where the trampoline will lie */
	uint64_t switch_at; /* address of struct probe_switch, within 2 GB of @at */
	uint64_t entry_at;  /* address of a pointer to the probes' entry, within 2 GB of @at */
	const struct trampoline_record *record; /* NULL: all probes are called */
};

enum trampoline_error {
	TRAMPOLINE_OK,
	TRAMPOLINE_CANNOT_MOVE, /* an instruction cannot be made to do the same elsewhere: xbegin, a jump of 16 bits */
	TRAMPOLINE_CALL_INSIDE, /* a call that is not the last instruction */
	TRAMPOLINE_TOO_FAR,	/* an operand relative to rip, or a target, is beyond 2 GB of @at */
	TRAMPOLINE_TOO_LONG,
	TRAMPOLINE_NOT_AFTER, /* a probe after an instruction behind which execution does not go on */
};

struct trampoline {
	uint8_t code[TRAMPOLINE_MAX];
	size_t len;
	/* By offset in the group: where in @code the copy of that instruction begins, its probes in front of it not
	 * included; TRAMPOLINE_NONE: none begins there. */
	uint16_t copy[TRAMPOLINE_INSNS];
	/* ... and where the probes in front of it begin: where a thread that comes to it goes. */
	uint16_t enter[TRAMPOLINE_INSNS];
};

enum trampoline_error trampoline_make(const struct trampoline_request *q, struct trampoline *ret);

/* In a few words; static. */
const char *trampoline_error_text(enum trampoline_error e);

#endif
