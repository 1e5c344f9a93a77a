/*
 * map64 - a hash map from 64-bit keys to pointers. Keys are never removed one by one; the
 * map does not own the values. Any key is allowed, 0 included.
 */
#ifndef WATCHCTL_BASE_MAP64_H
#define WATCHCTL_BASE_MAP64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map64_slot {
	uint64_t key;
	void *value;
	bool used;
};

/* Zero-initialised is empty. */
struct map64 {
	struct map64_slot *slot;
	size_t n, cap;
};

/* The value stored under @key, or NULL. */
void *map64_get(const struct map64 *m, uint64_t key);

/* Stores or replaces. False: no memory, nothing changed. */
bool map64_put(struct map64 *m, uint64_t key, void *value);

/* Releases the table, not the values; the map is empty afterwards. */
void map64_deinit(struct map64 *m);

/* The same, and calls @release, free() for example, with each value before. */
void map64_deinit_values(struct map64 *m, void (*release)(void *value));

#endif
