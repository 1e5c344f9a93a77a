#include "watchctl/code/elf/module.h"

#include <ctype.h>
#include <string.h>

const struct module *module_find(const struct module_list *l, uint64_t addr)
{
	size_t low = 0, high = l->n;

	/* The last module that starts at or below addr. */
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (l->v[mid].start <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low && addr < l->v[low - 1].end ? &l->v[low - 1] : NULL;
}

/* How well @name names @path: 3 the path or its end, 2 the base name up to a version, 0 not. */
static int name_match(const char *path, const char *name)
{
	const char *base = basename(path), *rest;
	size_t len = strlen(name), path_len = strlen(path);

	if (strcmp(path, name) == 0 || strcmp(base, name) == 0)
		return 3;
	/* "x86_64-linux-gnu/libc.so.6" */
	if (strchr(name, '/') && path_len > len && strcmp(path + path_len - len, name) == 0 &&
	    (name[0] == '/' || path[path_len - len - 1] == '/'))
		return 3;
	if (!len || strncmp(base, name, len) != 0)
		return 0;
	/* "libc", "libc.so", "libfoo" for libfoo-1.2.so, "python3" for python3.11 */
	rest = base + len;
	if (strncmp(rest, ".so", 3) == 0 && (!rest[3] || rest[3] == '.'))
		return 2;
	if ((rest[0] == '.' || rest[0] == '-') && isdigit((unsigned char)rest[1]))
		return 2;
	return 0;
}

bool module_answers(const struct module_list *l, const struct module *m, const char *name)
{
	int match = name_match(m->path, name);

	for (size_t i = 0; i < l->n && match; i++)
		if (name_match(l->v[i].path, name) > match)
			return false;
	return match > 0;
}

const struct module *module_by_name(const struct module_list *l, const char *name)
{
	const struct module *best = NULL;
	int best_match = 0;

	for (size_t i = 0; i < l->n; i++) {
		int match = name_match(l->v[i].path, name);

		if (match > best_match) {
			best_match = match;
			best = &l->v[i];
		}
	}
	return best;
}
