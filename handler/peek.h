/*
 * peek - the program's memory, as the handler may touch it: never by an instruction that could fault, for
 * another thread may give memory back at any instant, also between a look whether it is there and a load; and
 * never where a load would be the next trap, because reads are watched there. So through the kernel, but for
 * what certainly stays while this thread runs.
 */
#ifndef HANDLER_PEEK_H
#define HANDLER_PEEK_H

#include <stdbool.h>
#include <stdint.h>

#include "handler/wire.h"

/* Of the process that we run in, as it numbers itself: for the two below. */
long peek_pid(const struct wire_control *ctl);

/* Copies @len bytes from @addr; returns how many there were, up to the first page that cannot be read. */
uint64_t peek_some(long pid, uint64_t addr, void *buf, uint64_t len);

/* All of them, or false. */
bool peek(long pid, uint64_t addr, void *buf, uint64_t len);

/* Writes @len bytes to @addr; false: they were not all written. */
bool poke(long pid, uint64_t addr, const void *buf, uint64_t len);

/* Something of [addr, addr + len) is watched for reads, in all threads at the same address. */
bool is_read_watched(const struct wire_control *ctl, uint64_t addr, uint64_t len);

#define PEEK_WINDOW 512u

/* For a walk over a stack. */
struct stack_reader {
	long pid;
	uint64_t lo, hi; /* may be loaded from */
	uint64_t window_addr, window_len;
	uint64_t window[PEEK_WINDOW / 8]; /* what the kernel has copied */
};

/* @frame: lies in the signal's frame, or below; @sp: the interrupted stack pointer. */
void stack_reader_init(const struct wire_control *ctl, uint64_t frame, uint64_t sp, struct stack_reader *ret);

/* An unwind_read_fn; @ctx: the reader. */
bool stack_reader_read(void *ctx, uint64_t addr, uint64_t *ret);

#endif
