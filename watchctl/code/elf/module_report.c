#include "watchctl/code/elf/module_report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/read_failure.h"
#include "watchctl/base/task.h"
#include "watchctl/code/elf/module_elf.h"
#include "watchctl/code/elf/module_image.h"

#define VDSO "[vdso]"

static bool build_id_is(const struct module_elf *head, const struct module_report *r)
{
	return head->build_id_len == r->build_id_len && !memcmp(head->build_id, r->build_id, r->build_id_len);
}

/* A file that was replaced, renamed or written to has another time: of the newcomer's. */
static bool is_unchanged(const struct stat *st, const struct module_report *r)
{
	return (uint64_t)st->st_ctim.tv_sec * 1000000000u + (uint64_t)st->st_ctim.tv_nsec <= r->realtime_ns;
}

/* False: it is not there, or not what was mapped. */
static bool open_reported(const char *path, const struct module_report *r, struct module_elf *ret)
{
	scoped(closep) int fd = -1;
	struct stat st;

	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0) {
		read_failure_note(path, errno);
		return false;
	}
	return module_elf_from_file(fd, ret) &&
	       (r->build_id_len ? build_id_is(ret, r) : is_unchanged(&st, r));
}

/*
 * A path of ours to what the process calls @path, below its root directory @root: the same where it lives where we live.
 * *ret NULL: there is no such file, or no root any more. False: no memory.
 */
static bool path_below(const char *root, const char *path, char **ret)
{
	struct stat theirs, ours;
	char *rooted;

	*ret = NULL;
	if (asprintf(&rooted, "%s%s", root, path) < 0)
		return false;
	if (stat(rooted, &theirs) < 0) {
		free(rooted);
		return true;
	}
	if (stat(path, &ours) < 0 || ours.st_ino != theirs.st_ino || ours.st_dev != theirs.st_dev) {
		*ret = rooted;
		return true;
	}
	free(rooted);
	*ret = strdup(path);
	return *ret;
}

/*
 * The mapping is a piece of the file that the process has mapped once more, as node does: where the file would begin then, it is not.
 * A part of it, split off by mprotect(2), has the rest beside it. False also where nobody can be asked any more.
 */
static bool is_piece(pid_t pid, const struct module_report *r, uint64_t begin)
{
	scoped(freep) char *line = NULL;
	scoped(fclosep) FILE *maps = NULL;
	bool is_asked = false, is_there = false;
	char path[32];
	size_t cap = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", task_with_memory(pid));
	maps = fopen(path, "re");
	while (maps && !is_there && getline(&line, &cap, maps) > 0) {
		struct module_mapping m;

		if (!module_mapping_parse(line, &m))
			continue;
		is_asked |= r->start >= m.start && r->start < m.end;
		is_there = begin >= m.start && begin < m.end && !strncmp(m.path, r->path, strlen(r->path));
	}
	return is_asked && !is_there;
}

static bool make(pid_t pid, const struct module_report *r, const struct module_elf *head, const char *path,
		 const char *open_path, struct module *ret, bool *ret_found)
{
	struct module m = { .path = (char *)path, .open_path = (char *)open_path };

	if (!module_elf_bias(head, r->start, r->offset, true, &m.bias))
		return true;
	m.start = module_elf_start(head, m.bias);
	m.end = module_elf_end(head, m.bias);
	if (m.end < r->end)
		m.end = r->end;
	if (!module_elf_begins_segment(head, r->offset) && is_piece(pid, r, m.start)) {
		m.start = r->start;
		m.end = r->end;
	}
	memcpy(m.build_id, head->build_id, sizeof(m.build_id));
	m.build_id_len = head->build_id_len;
	m.is_program = head->is_program;
	*ret_found = module_copy(&m, ret);
	return *ret_found;
}

/* There is one vdso for all 64-bit processes of a kernel. Its mapping is all of it. */
static bool make_vdso(pid_t pid, const struct module_report *r, struct module *ret, bool *ret_found)
{
	const void *ours = (const void *)getauxval(AT_SYSINFO_EHDR);
	struct module_elf head;

	return !ours || !module_elf_from_self(ours, &head) || make(pid, r, &head, VDSO, VDSO, ret, ret_found);
}

/* The process may end between any two steps, and its root is gone then: *ret_found is false, and another way is tried. */
static bool from_root(pid_t pid, const char *root, const struct module_report *r, struct module *ret,
		      bool *ret_found)
{
	scoped(freep) char *open_path = NULL;
	struct module_elf head;

	if (!path_below(root, r->path, &open_path))
		return false;
	return !open_path || !open_reported(open_path, r, &head) ||
	       make(pid, r, &head, r->path, open_path, ret, ret_found);
}

bool module_from_report(pid_t pid, int root_fd, const struct module_report *r, struct module *ret,
			bool *ret_found)
{
	char below[32], kept[32];

	*ret_found = false;
	if (!strcmp(r->path, VDSO))
		return make_vdso(pid, r, ret, ret_found);
	if (r->path[0] != '/')
		return true;
	snprintf(below, sizeof(below), "/proc/%d/root", task_with_memory(pid));
	snprintf(kept, sizeof(kept), "/proc/self/fd/%d", root_fd);
	if (!from_root(pid, below, r, ret, ret_found))
		return false;
	if (!*ret_found && root_fd >= 0 && !from_root(pid, kept, r, ret, ret_found))
		return false;
	return *ret_found || root_fd >= 0 || access(below, F_OK) == 0 ||
	       from_root(pid, "", r, ret, ret_found);
}

bool module_is_same_place(const struct module *a, const struct module *b)
{
	if (a->bias != b->bias || a->start >= b->end || b->start >= a->end)
		return false;
	if (a->build_id_len && b->build_id_len)
		return a->build_id_len == b->build_id_len &&
		       !memcmp(a->build_id, b->build_id, a->build_id_len);
	return !strcmp(a->path, b->path);
}
