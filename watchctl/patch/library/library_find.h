/* library_find - the file that the dynamic loader would take for a name, by its cache. */
#ifndef WATCHCTL_PATCH_LIBRARY_LIBRARY_FIND_H
#define WATCHCTL_PATCH_LIBRARY_LIBRARY_FIND_H

#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"

/* @name: a SONAME. *@ret is the caller's. WC_ENAME: the cache, or the loader's own folders, have none; with near names. */
struct wc_error *library_find(const char *name, char **ret);

/* The same of a cache's @size bytes, any bytes; NULL: it is not in there. What it gives points into @bytes. */
const char *library_find_in_cache(const uint8_t *bytes, size_t size, const char *name);

#endif
