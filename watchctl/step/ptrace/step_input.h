/*
 * step_input - which system calls deliver input, and where in the program's memory it lies. Arithmetic, and reads of
 * the program's memory and of /proc: no thread is touched.
 */
#ifndef WATCHCTL_STEP_PTRACE_STEP_INPUT_H
#define WATCHCTL_STEP_PTRACE_STEP_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/code/memory_view.h"
#include "watchctl/trace/event.h"

#define STEP_INPUT_NAME 4352u /* a path, and the peer of a socket */

/* How the bytes lie there. */
enum input_shape {
	SHAPE_NONE,
	SHAPE_RESULT, /* at the argument, as many as the result says */
	SHAPE_FIXED,  /* ... as many as the table says */
	SHAPE_VECTOR, /* a struct iovec array, whose length is the next argument */
	SHAPE_MESSAGE,
	SHAPE_MESSAGES, /* as many struct mmsghdr as the result says */
	SHAPE_MAP,
};

#define NO_ARG 0xffu

struct input_call {
	uint16_t number;
	uint8_t kind;  /* enum input_kind; of one with a descriptor INPUT_FILE, which @fd decides */
	uint8_t shape; /* enum input_shape */
	uint8_t fd, path, at, pos; /* arguments, 0..5, or NO_ARG */
	uint16_t size;		   /* SHAPE_FIXED */
};

/* NULL: it delivers none that is recorded. */
const struct input_call *step_input_call(uint64_t number);

/* Not the input's doing: the system call did nothing, and is made again. */
bool step_input_is_retry(int64_t result);

/*
 * Copies as much as there is, at most @cap bytes, of what a call with these arguments and result >= 0 delivered. *@size:
 * how much it was. How much was copied.
 */
size_t step_input_copy(const struct input_call *c, const uint64_t arg[6], int64_t result,
		       const struct memory_view *mem, uint8_t *buf, size_t cap, uint64_t *size);

/* What descriptor @fd of thread @tid leads to. */
struct input_source {
	enum input_kind kind; /* INPUT_FILE, _STREAM, _RANDOM */
	uint64_t size;	      /* INPUT_FILE: of the file */
	char name[STEP_INPUT_NAME];
};

/* False: nobody knows. */
bool step_input_source(pid_t tid, int fd, struct input_source *ret);

/* Where the descriptor stands in its file. False: nobody knows. */
bool step_input_position(pid_t tid, int fd, uint64_t *ret);

#endif
