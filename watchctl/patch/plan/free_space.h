/*
 * free_space - where in a process memory may be mapped: nothing is there, and neither the heap of brk(2) nor the stack grows to
 * there.
 */
#ifndef WATCHCTL_PATCH_PLAN_FREE_SPACE_H
#define WATCHCTL_PATCH_PLAN_FREE_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct free_span {
	uint64_t start, end; /* whole pages */
};

struct free_space {
	struct free_span *v; /* by address */
	size_t n, cap;
	size_t mappings; /* that the process has */
};

/* False: its mappings cannot be read (errno), or there is no memory (ENOMEM); *@ret is empty. */
bool free_space_read(pid_t pid, struct free_space *ret);
void free_space_deinit(struct free_space *f); /* accepts zeros */

/*
 * An area of @size bytes (whole pages), all of which are in [low, high), as near to the middle of that as there is. False:
 * nowhere.
 */
bool free_space_find(const struct free_space *f, uint64_t low, uint64_t high, uint64_t size, uint64_t *ret);

/* Whether one of the addresses from @low to @high is free. */
bool free_space_any(const struct free_space *f, uint64_t low, uint64_t high);

/* The first span that ends behind @addr; f->n: none. */
size_t free_space_from(const struct free_space *f, uint64_t addr);

#endif
