/*
 * id_map - pointers by ids that a log has given out, most of which are small: those are found without hashing. As
 * map64 otherwise.
 */
#ifndef WATCHCTL_BASE_ID_MAP_H
#define WATCHCTL_BASE_ID_MAP_H

#include <string.h>

#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"

#define ID_MAP_NEAR 65536u /* ids below have a place each, up to the largest one that was stored */

/* Zero-initialised is empty. */
struct id_map {
	void **near;
	size_t n; /* places */
	struct map64 far;
};

/* The value stored under @id, or NULL. */
static inline void *id_map_get(const struct id_map *m, uint32_t id)
{
	if (id < m->n)
		return m->near[id];
	return id < ID_MAP_NEAR ? NULL : map64_get(&m->far, id);
}

/* Stores or replaces. False: no memory, nothing changed. */
static inline bool id_map_put(struct id_map *m, uint32_t id, void *value)
{
	const size_t n = m->n;

	if (id >= ID_MAP_NEAR)
		return map64_put(&m->far, id, value);
	if (!vec_reserve((void **)&m->near, &m->n, (size_t)id + 1, sizeof(*m->near)))
		return false;
	memset(m->near + n, 0, (m->n - n) * sizeof(*m->near));
	m->near[id] = value;
	return true;
}

/* Releases the table, not the values; the map is empty afterwards. */
static inline void id_map_deinit(struct id_map *m)
{
	free(m->near);
	map64_deinit(&m->far);
	*m = (struct id_map){ 0 };
}

/* The same, and calls @release, free() for example, with each value before, or with NULL. */
static inline void id_map_deinit_values(struct id_map *m, void (*release)(void *value))
{
	for (size_t i = 0; i < m->n; i++)
		release(m->near[i]);
	map64_deinit_values(&m->far, release);
	id_map_deinit(m);
}

#endif
