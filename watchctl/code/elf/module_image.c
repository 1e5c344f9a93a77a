#include "watchctl/code/elf/module_image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/read_failure.h"
#include "watchctl/base/task.h"

#define DELETED " (deleted)"

/* The kernel writes a newline in a name as \012, and nothing else in a special way. */
static void unescape_newlines(char *s)
{
	char *out = s;

	while (*s) {
		if (strncmp(s, "\\012", 4) == 0) {
			*out++ = '\n';
			s += 4;
		} else {
			*out++ = *s++;
		}
	}
	*out = '\0';
}

bool module_mapping_parse(char *line, struct module_mapping *ret)
{
	unsigned int major, minor;
	char perm[5];
	int path = 0;

	line[strcspn(line, "\n")] = '\0';
	if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %n", &ret->start, &ret->end, perm, &ret->offset, &major,
		   &minor, &ret->ino, &path) < 7 ||
	    !path)
		return false;
	ret->dev = (uint64_t)major << 32 | minor;
	ret->executable = perm[2] == 'x';
	ret->path = line + path;
	unescape_newlines(ret->path);
	return true;
}

/* *why: errno, where something failed. */
static int open_elf(const char *path, struct module_elf *ret, uint64_t *ino, int *why)
{
	scoped(closep) int fd = -1;
	struct stat st;

	if (stat(path, &st) < 0) {
		*why = errno;
		return -1;
	}
	if (!S_ISREG(st.st_mode))
		return -1;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0) {
		*why = errno;
		return -1;
	}
	*ino = st.st_ino;
	return module_elf_from_file(fd, ret);
}

/* The path as it would be for a process that lives where we live, else one through its root. */
static char *path_through_root(pid_t pid, const char *path)
{
	struct stat ours, theirs;
	char *rooted;

	if (asprintf(&rooted, "/proc/%d/root%s", task_with_memory(pid), path) < 0)
		return NULL;
	if (stat(path, &ours) == 0 &&
	    (stat(rooted, &theirs) < 0 || (ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev))) {
		free(rooted);
		return strdup(path);
	}
	return rooted;
}

static bool same_build_id(const struct module_elf *a, const struct module_elf *b)
{
	return a->build_id_len == b->build_id_len && memcmp(a->build_id, b->build_id, a->build_id_len) == 0;
}

/* False: what lies at the image's path is not what was mapped, or cannot be opened. */
static bool image_open_by_path(pid_t pid, int mem_fd, struct module_image *img,
			       const struct module_mapping *m, int *why)
{
	struct module_elf mapped;
	uint64_t ino;
	int is_elf;

	img->open_path = path_through_root(pid, img->path);
	if (!img->open_path)
		return false;
	is_elf = open_elf(img->open_path, &img->head, &ino, why);
	if (is_elf < 0)
		return false;
	img->is_elf = is_elf;
	/* Overlay file systems show other inode numbers in maps than in stat: only the contents decide. */
	if (ino != m->ino && m->offset == 0 && is_elf && mem_fd >= 0 &&
	    module_elf_from_memory(mem_fd, m->start, &mapped))
		return same_build_id(&mapped, &img->head);
	return true;
}

/* The file itself, though its name is gone: needs CAP_CHECKPOINT_RESTORE, or that it is the program. */
static bool image_open_by_handle(pid_t pid, struct module_image *img, const struct module_mapping *m)
{
	char exe_link[32], exe[4096];
	scoped(freep) char *handle = NULL;
	uint64_t ino;
	ssize_t n;
	int is_elf, why;

	if (asprintf(&handle, "/proc/%d/map_files/%lx-%lx", task_with_memory(pid), m->start, m->end) < 0) {
		handle = NULL;
		return false;
	}
	is_elf = open_elf(handle, &img->head, &ino, &why);
	if (is_elf < 0) {
		snprintf(exe_link, sizeof(exe_link), "/proc/%d/exe", task_with_memory(pid));
		n = readlink(exe_link, exe, sizeof(exe) - 1);
		if (n < 0)
			return false;
		exe[n] = '\0';
		if (strcmp(exe, m->path) != 0)
			return false;
		is_elf = open_elf(exe_link, &img->head, &ino, &why);
		free(handle);
		handle = strdup(exe_link);
		if (is_elf < 0 || !handle)
			return false;
	}
	img->is_elf = is_elf;
	free(img->open_path);
	img->open_path = take_ptr(handle);
	return true;
}

/* Fills in what is known of the file behind @m; an image that is no ELF file is a fact too. */
bool module_image_init(struct module_image *ret, pid_t pid, int mem_fd, const struct module_mapping *m)
{
	struct module_image img = { .dev = m->dev, .ino = m->ino };
	size_t len = strlen(m->path), suffix = strlen(DELETED);
	uint64_t ino;
	int why = 0;

	img.maps_path = strdup(m->path);
	img.path = strdup(m->path);
	if (!img.maps_path || !img.path)
		goto undo;
	if (len > suffix && strcmp(m->path + len - suffix, DELETED) == 0) {
		/* A file may really be called so: then it is there, under this very name. */
		img.open_path = path_through_root(pid, m->path);
		img.deleted =
			!img.open_path || open_elf(img.open_path, &img.head, &ino, &why) < 0 || ino != m->ino;
		free(take_ptr(img.open_path));
		if (img.deleted)
			img.path[len - suffix] = '\0';
	}
	if (!img.deleted && !image_open_by_path(pid, mem_fd, &img, m, &why))
		img.deleted = img.is_elf;
	if (img.deleted || !img.open_path || (!img.is_elf && (why || access(img.open_path, R_OK) < 0))) {
		img.is_elf = false;
		if (!image_open_by_handle(pid, &img, m)) {
			read_failure_note(img.path, why);
			if (!img.open_path)
				img.open_path = path_through_root(pid, img.path);
			img.is_elf = m->offset == 0 && mem_fd >= 0 &&
				     module_elf_from_memory(mem_fd, m->start, &img.head);
		}
	}
	if (!img.open_path)
		goto undo;
	*ret = img;
	return true;
undo:
	module_image_deinit(&img);
	return false;
}

void module_image_deinit(struct module_image *img)
{
	free(img->maps_path);
	free(img->path);
	free(img->open_path);
}
