/*
 * patch_threads - whether stopped threads will come back to code, so that it must not be changed under them. Where they are says their
 * rip. Where they come back to at the end of a signal handler says the frame that the kernel has put on the stack; return addresses
 * never lie in bytes that are patched, nor in trampolines, but stale ones do, in frames that do not use all of their room.
 */
#ifndef WATCHCTL_PATCH_APPLY_PATCH_THREADS_H
#define WATCHCTL_PATCH_APPLY_PATCH_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/target/stop/stop_all.h"

/* Addresses inside [start, end) are of interest. */
struct code_range {
	uint64_t start, end;
	bool found; /* set by patch_threads_look() */
};

/*
 * Looks through the stacks, from the stack pointers up to the ends of their mappings, for frames of signals, and marks the ranges
 * (sorted, disjoint) into which one of them leads back. False: a stack could not be read, or there is no memory.
 */
bool patch_threads_look(const struct stop_all *s, struct code_range *range, size_t n);

/* The range of @n that holds @addr; NULL: none. */
struct code_range *code_range_find(struct code_range *range, size_t n, uint64_t addr);

#endif
