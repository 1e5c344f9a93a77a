#include "watchctl/target/proc/translated.h"

#include <string.h>

#include "watchctl/target/proc/proc.h"

/* @folder: what the path has before the file's name, for a file name that others may have, too. */
struct translator {
	const char *begins, *ends, *folder, *name;
};

/* Valgrind's tools are programs of their own, "memcheck-amd64-linux"; a static program has none of its libraries. */
static const struct translator known[] = {
	{ "", "-amd64-linux", "valgrind", "Valgrind" },
	{ "vgpreload_", ".so", "", "Valgrind" },
	{ "qemu-x86_64", "", "", "QEMU" },
	{ "libdynamorio.so", "", "", "DynamoRIO" },
	{ "pinbin", "", "", "Pin" },
};

static bool is_file_of(const struct translator *t, const char *path)
{
	const char *file = basename(path), *folder = strstr(path, t->folder);
	size_t len = strlen(file), end = strlen(t->ends);

	return !strncmp(file, t->begins, strlen(t->begins)) && len >= end &&
	       !strcmp(file + len - end, t->ends) && folder && folder < file;
}

static bool look_at_map(void *ctx, const struct proc_map *m)
{
	const char **found = ctx;
	size_t i;

	for (i = 0; m->exec && i < sizeof(known) / sizeof(known[0]); i++)
		if (is_file_of(&known[i], m->name)) {
			*found = known[i].name;
			return false;
		}
	return true;
}

struct wc_error *proc_check_translated(pid_t pid, const char *wanted)
{
	const char *name = NULL;

	proc_maps(pid, look_at_map, &name);
	if (!name)
		return NULL;
	return wc_error_new(
		WC_ENOTSUP,
		"process %d runs in %s, where the CPU executes a translation of its code and never the code, "
		"so that %s: run the program without %s",
		pid, name, wanted, name);
}
