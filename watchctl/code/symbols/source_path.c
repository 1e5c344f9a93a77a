#include "watchctl/code/symbols/source_path.h"

#include <stdio.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/code/dwarf/dwarf_unit.h"
#include "watchctl/code/elf/elffile.h"

static void elffile_freep(struct elffile **f)
{
	elffile_free(*f);
}

/* The folder that @cu was compiled in; NULL: not reported, or not where it is. */
static const char *unit_folder(Dwarf_Die *cu)
{
	Dwarf_Attribute mem;
	const char *dir = dwarf_formstring(dwarf_attr(cu, DW_AT_comp_dir, &mem));

	return dir && dir[0] == '/' ? dir : NULL;
}

/* @path of the line table of @cu, in full; libdw leaves the folder out where DWARF 5 does. NULL: not known.
 */
static char *in_full(Dwarf_Die *cu, const char *path, bool *no_memory)
{
	const char *dir = unit_folder(cu);
	char *full = NULL;

	if (path[0] == '/')
		full = strdup(path);
	else if (!dir)
		return NULL;
	else if (asprintf(&full, "%s/%s", dir, path) < 0)
		full = NULL;
	*no_memory = !full;
	return full;
}

/* Looks through the line table of one unit. False: no memory. */
static bool search_unit(Dwarf_Die *cu, const char *file, char **ret, enum source_found *found)
{
	Dwarf_Files *files;
	size_t i, n;

	if (dwarf_getsrcfiles(cu, &files, &n) != 0)
		return true;
	for (i = 0; i < n && *found != SOURCE_AMBIGUOUS; i++) {
		const char *path = dwarf_filesrc(files, i, NULL, NULL);
		scoped(freep) char *full = NULL;
		bool no_memory = false;

		if (!path || strcmp(dwarf_unit_short_path(cu, path), file) != 0)
			continue;
		full = in_full(cu, path, &no_memory);
		if (!full && no_memory)
			return false;
		if (full && !*ret) {
			*ret = take_ptr(full);
			*found = SOURCE_FOUND;
		} else if (full && strcmp(*ret, full) != 0) {
			*found = SOURCE_AMBIGUOUS;
		}
	}
	return true;
}

struct wc_error *source_path(const char *module, const char *file, char **ret, enum source_found *found)
{
	struct module m = { .path = (char *)module };
	scoped(elffile_freep) struct elffile *elf = elffile_new(&m);
	struct dwarf_unit_iter it = { 0 };
	enum source_found result = SOURCE_UNKNOWN;
	scoped(freep) char *path = NULL;
	uint64_t bias;
	Dwarf_Die cu;
	Dwarf *dwarf;

	if (!elf)
		return &wc_enomem;
	dwarf = elffile_dwarf(elf, &bias);
	while (dwarf && result != SOURCE_AMBIGUOUS && dwarf_unit_next(dwarf, &it, &cu))
		if (!search_unit(&cu, file, &path, &result))
			return &wc_enomem;
	*found = result;
	if (result == SOURCE_FOUND)
		*ret = take_ptr(path);
	return NULL;
}
