#include "watchctl/code/elf/module_jit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/task.h"
#include "watchctl/base/vec.h"

struct mapping {
	uint64_t start, end;
	bool executable;
	char path[64]; /* as far as it matters here */
};

bool module_jit_may_be(const char *path)
{
	static const char *const prefix[] = { "[anon",	   "[heap]",	"[stack]", "/memfd:",
					      "/dev/shm/", "/dev/zero", "/SYSV",   "//anon" };

	if (!*path)
		return true;
	for (size_t i = 0; i < sizeof(prefix) / sizeof(*prefix); i++)
		if (strncmp(path, prefix[i], strlen(prefix[i])) == 0)
			return true;
	return false;
}

static bool module_jit_parse(const char *line, struct mapping *ret)
{
	char perm[5];

	ret->path[0] = '\0';
	if (sscanf(line, "%lx-%lx %4s %*x %*x:%*x %*u %63[^\n]", &ret->start, &ret->end, perm, ret->path) < 3)
		return false;
	ret->executable = perm[2] == 'x';
	return true;
}

bool module_is_jit(const struct module *m)
{
	return strcmp(m->path, MODULE_JIT) == 0;
}

/* Nothing happens where @run is empty. */
static bool add_run(struct module_list *l, struct module *run)
{
	struct module m = *run;

	*run = (struct module){ 0 };
	if (!m.end)
		return true;
	m.path = strdup(MODULE_JIT);
	m.open_path = strdup(MODULE_JIT);
	if (m.path && m.open_path && vec_push(l->v, l->n, l->cap, m))
		return true;
	free(m.path);
	free(m.open_path);
	return false;
}

/* Only those that an ELF file is behind: they come first in the list, and are sorted. */
static bool is_in_file(const struct module_list *l, size_t nfiles, const struct mapping *m)
{
	struct module_list files = { .v = l->v, .n = nfiles };

	return module_find(&files, m->start) != NULL;
}

static int by_start(const void *a, const void *b)
{
	const struct module *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

struct wc_error *module_list_add_jit(pid_t pid, struct module_list *l)
{
	scoped(freep) char *line = NULL;
	scoped(fclosep) FILE *f = NULL;
	struct module run = { 0 };
	uint64_t run_end = 0; /* of the memory that may go on: its last pages need not be executable */
	size_t cap = 0, nfiles = l->n;
	struct mapping m;
	char path[32];
	bool ok = true;

	snprintf(path, sizeof(path), "/proc/%d/maps", task_with_memory(pid));
	f = fopen(path, "re");
	while (f && ok && getline(&line, &cap, f) > 0) {
		if (!module_jit_parse(line, &m) || !module_jit_may_be(m.path) || is_in_file(l, nfiles, &m))
			continue;
		if (m.start != run_end)
			ok = add_run(l, &run);
		run_end = m.end;
		if (!m.executable)
			continue;
		if (!run.end)
			run.start = m.start;
		run.end = m.end;
	}
	if (ok && (!f || !feof(f)))
		return wc_error_errno(WC_EFAIL, errno, "cannot read %s", path);
	ok = ok && add_run(l, &run);
	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), by_start);
	return ok ? NULL : &wc_enomem;
}
