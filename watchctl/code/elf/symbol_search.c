#include "watchctl/code/elf/symbol_search.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/read_failure.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/elf/debuginfod.h"
#include "watchctl/code/elf/module_elf.h"

#define SYSTEM_DIR "/usr/lib/debug"

/* A user's folder is searched that deep, and that many files of it are looked at. */
#define TREE_DEPTH 16
#define TREE_FILES (1u << 20)

struct plain_file {
	uint8_t id[BUILD_ID_MAX];
	uint8_t id_len;
	char *path;
};

struct path_map {
	char *old, *new;
};

struct symbol_search {
	char **dir;
	size_t ndirs, dir_cap;
	struct plain_file *plain; /* in the user's folders */
	size_t nplain, plain_cap;
	struct path_map *map;
	size_t nmaps, map_cap;
	char *sysroot;
	bool fetch;
};

struct symbol_search *symbol_search_new(void)
{
	return calloc(1, sizeof(struct symbol_search));
}

void symbol_search_free(struct symbol_search *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->ndirs; i++)
		free(s->dir[i]);
	for (size_t i = 0; i < s->nplain; i++)
		free(s->plain[i].path);
	for (size_t i = 0; i < s->nmaps; i++) {
		free(s->map[i].old);
		free(s->map[i].new);
	}
	free(s->dir);
	free(s->plain);
	free(s->map);
	free(s->sysroot);
	free(s);
}

int symbol_search_open_regular(const char *path)
{
	struct stat st;
	int fd;

	if (stat(path, &st) < 0) {
		read_failure_note(path, errno);
		return -1;
	}
	if (!S_ISREG(st.st_mode)) {
		errno = ENOENT;
		return -1;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		read_failure_note(path, errno);
	return fd;
}

/* The user's folders */

static bool add_plain(struct symbol_search *s, const char *path)
{
	scoped(closep) int fd = symbol_search_open_regular(path);
	struct plain_file f = { 0 };

	if (fd < 0 || !module_elf_build_id(fd, f.id, &f.id_len))
		return true;
	f.path = strdup(path);
	if (f.path && vec_push(s->plain, s->nplain, s->plain_cap, f))
		return true;
	free(f.path);
	return false;
}

/* Links to folders are not followed: they may lead round in a circle. */
static bool add_tree(struct symbol_search *s, const char *dir, unsigned int depth, unsigned int *left)
{
	scoped(closedirp) DIR *d = opendir(dir);
	const struct dirent *e;

	while (d && (e = readdir(d)) && *left) {
		scoped(freep) char *path = NULL;
		struct stat st;

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || !strcmp(e->d_name, ".build-id"))
			continue;
		if (asprintf(&path, "%s/%s", dir, e->d_name) < 0) {
			path = NULL;
			return false;
		}
		if (lstat(path, &st) < 0)
			continue;
		if (S_ISDIR(st.st_mode) && depth && !add_tree(s, path, depth - 1, left))
			return false;
		if (S_ISDIR(st.st_mode))
			continue;
		--*left;
		if (!add_plain(s, path))
			return false;
	}
	return true;
}

struct wc_error *symbol_search_add_dir(struct symbol_search *s, const char *dir)
{
	unsigned int left = TREE_FILES;
	scoped(freep) char *copy = NULL;
	DIR *d = opendir(dir);

	if (!d)
		return wc_error_new(WC_EUSAGE, "the folder %s cannot be read: %m", dir);
	closedir(d);
	copy = strdup(dir);
	if (!copy || !vec_push(s->dir, s->ndirs, s->dir_cap, copy))
		return &wc_enomem;
	take_ptr(copy);
	return add_tree(s, dir, TREE_DEPTH, &left) ? NULL : &wc_enomem;
}

/* Other places for modules */

/* A copy without slashes at its end; "/" becomes "". */
static char *copy_folder(const char *path)
{
	size_t len = strlen(path);

	while (len && path[len - 1] == '/')
		len--;
	return strndup(path, len);
}

struct wc_error *symbol_search_map_path(struct symbol_search *s, const char *old, const char *new)
{
	struct path_map m;

	if (old[0] != '/' || !new[0])
		return wc_error_new(
			WC_EUSAGE,
			"a replacement of a path has the form OLD=NEW, where OLD is a full path as in the "
			"log, not \"%s=%s\"",
			old, new);
	m = (struct path_map){ copy_folder(old), copy_folder(new) };
	if (m.old && m.new &&vec_push(s->map, s->nmaps, s->map_cap, m))
		return NULL;
	free(m.old);
	free(m.new);
	return &wc_enomem;
}

struct wc_error *symbol_search_set_sysroot(struct symbol_search *s, const char *dir)
{
	struct stat st;

	if (stat(dir, &st) < 0)
		return wc_error_new(WC_EUSAGE, "the sysroot %s cannot be read: %m", dir);
	if (!S_ISDIR(st.st_mode))
		return wc_error_new(WC_EUSAGE, "the sysroot %s is not a folder", dir);
	free(s->sysroot);
	s->sysroot = copy_folder(dir);
	return s->sysroot ? NULL : &wc_enomem;
}

char *symbol_search_module_path(const struct symbol_search *s, const char *path)
{
	char *ret;

	if (!s || path[0] != '/')
		return NULL;
	for (size_t i = 0; i < s->nmaps; i++) {
		size_t len = strlen(s->map[i].old);

		if (!strncmp(path, s->map[i].old, len) && (path[len] == '/' || !path[len]))
			return asprintf(&ret, "%s%s", s->map[i].new, path + len) < 0 ? NULL : ret;
	}
	if (s->sysroot)
		return asprintf(&ret, "%s%s", s->sysroot, path) < 0 ? NULL : ret;
	return NULL;
}

void symbol_search_allow_fetch(struct symbol_search *s)
{
	s->fetch = true;
}

/* Candidates */

/* What a candidate must prove: the build id, or where there is none, the checksum. */
struct proof {
	const uint8_t *id;
	size_t id_len;
	bool id_is_in_name; /* a file without a build id of its own will do */
	uint32_t crc;
};

static bool crc_matches(int fd, uint32_t want)
{
	uint8_t buf[1 << 16];
	uLong crc = crc32(0, NULL, 0);
	off_t at = 0;
	ssize_t n;

	while ((n = pread(fd, buf, sizeof(buf), at)) > 0) {
		crc = crc32(crc, buf, (uInt)n);
		at += n;
	}
	return n == 0 && crc == want;
}

static bool is_proven(int fd, const struct proof *p)
{
	uint8_t id[BUILD_ID_MAX], id_len;

	if (p->id_len && module_elf_build_id(fd, id, &id_len))
		return id_len == p->id_len && !memcmp(id, p->id, id_len);
	if (p->id_len)
		return p->id_is_in_name;
	return crc_matches(fd, p->crc);
}

/* Takes @candidate, which asprintf() made. */
static int try_file(char *candidate, const struct proof *p, char **path)
{
	scoped(freep) char *name = candidate;
	scoped(closep) int fd = name ? symbol_search_open_regular(name) : -1;

	if (fd < 0 || !is_proven(fd, p))
		return -1;
	*path = take_ptr(name);
	return take_fd(fd);
}

static __attribute__((format(printf, 1, 2))) char *text(const char *fmt, ...)
{
	va_list args;
	char *ret;

	va_start(args, fmt);
	if (vasprintf(&ret, fmt, args) < 0)
		ret = NULL;
	va_end(args);
	return ret;
}

/* The folders with debug files, one after the other, malloc'd; NULL: no more. */
static char *debug_dir(const struct symbol_search *s, const char *root, size_t i)
{
	size_t ndirs = s ? s->ndirs : 0;

	if (i < ndirs)
		return strdup(s->dir[i]);
	i -= ndirs;
	if (s && s->sysroot && i-- == 0)
		return text("%s" SYSTEM_DIR, s->sysroot);
	if (root[0] && i-- == 0)
		return text("%s" SYSTEM_DIR, root);
	return i == 0 ? strdup(SYSTEM_DIR) : NULL;
}

static int open_below_build_id(const struct symbol_search *s, const char *root, const struct proof *p,
			       char **path)
{
	char id[2 * BUILD_ID_MAX + 1];
	int fd = -1;

	for (size_t i = 0; i < p->id_len; i++)
		snprintf(id + 2 * i, 3, "%02x", p->id[i]);
	for (size_t i = 0; fd < 0; i++) {
		scoped(freep) char *dir = debug_dir(s, root, i);

		if (!dir)
			break;
		fd = try_file(text("%s/.build-id/%.2s/%s.debug", dir, id, id + 2), p, path);
	}
	return fd;
}

static int open_plain(const struct symbol_search *s, const struct proof *p, char **path)
{
	for (size_t i = 0; s && i < s->nplain; i++) {
		const struct plain_file *f = &s->plain[i];
		int fd;

		if (f->id_len != p->id_len || memcmp(f->id, p->id, f->id_len) != 0)
			continue;
		fd = try_file(strdup(f->path), p, path);
		if (fd >= 0)
			return fd;
	}
	return -1;
}

int symbol_search_open_build_id(const struct symbol_search *s, const char *root, const uint8_t *id,
				size_t id_len, char **path)
{
	const struct proof p = { .id = id, .id_len = id_len, .id_is_in_name = true };
	int fd;

	if (id_len < 2 || id_len > BUILD_ID_MAX)
		return -1;
	fd = open_below_build_id(s, root, &p, path);
	if (fd < 0)
		fd = open_plain(s, &p, path);
	if (fd < 0)
		fd = debuginfod_open_cached(id, id_len, path);
	return fd;
}

int symbol_search_fetch(const struct symbol_search *s, const uint8_t *id, size_t id_len, char **path)
{
	if (!s || !s->fetch || !debuginfod_is_configured() || id_len < 2 || id_len > BUILD_ID_MAX)
		return -1;
	return debuginfod_fetch(id, id_len, path);
}

static char *folder_of(const char *file)
{
	const char *slash = strrchr(file, '/');

	return slash ? strndup(file, (size_t)(slash - file)) : strdup(".");
}

/* Next to the file itself. */
static int open_beside(const char *file, const char *name, const struct proof *p, char **path)
{
	scoped(freep) char *dir = folder_of(file);
	int fd;

	if (!dir)
		return -1;
	fd = try_file(text("%s/%s", dir, name), p, path);
	return fd >= 0 ? fd : try_file(text("%s/.debug/%s", dir, name), p, path);
}

/* In the folders with debug files, below which there is the whole path of the file. */
static int open_below(const struct symbol_search *s, const char *root, const char *file, const char *name,
		      const struct proof *p, char **path)
{
	scoped(freep) char *dir = folder_of(file);
	int fd = -1;

	for (size_t i = 0; dir && fd < 0; i++) {
		scoped(freep) char *debug = debug_dir(s, root, i);

		if (!debug)
			break;
		fd = try_file(text("%s%s/%s", debug, dir, name), p, path);
		if (fd < 0)
			fd = try_file(text("%s/%s", debug, name), p, path);
	}
	return fd;
}

int symbol_search_open_debuglink(const struct symbol_search *s, const char *root, const struct debuglink *l,
				 char **path)
{
	const struct proof p = { .id = l->id, .id_len = l->id_len, .crc = l->crc };
	scoped(freep) char *usual = l->link ? NULL : text("%s.debug", basename(l->module));
	scoped(freep) char *real = realpath(l->opened, NULL);
	const char *name = l->link ? l->link : usual;
	int fd;

	/* A link is a name, not a path: one that leads elsewhere was not made by a linker. */
	if (!name || strchr(name, '/') || (!l->link && !l->id_len))
		return -1;
	fd = open_beside(l->opened, name, &p, path);
	if (fd < 0 && real && strcmp(real, l->opened) != 0)
		fd = open_beside(real, name, &p, path);
	if (fd < 0)
		fd = open_below(s, root, l->module, name, &p, path);
	if (fd < 0 && real && !root[0] && strcmp(real, l->module) != 0)
		fd = open_below(s, root, real, name, &p, path);
	return fd;
}

int symbol_search_open_altlink(const struct symbol_search *s, const char *root, const char *file,
			       const char *name, const uint8_t *id, size_t id_len, char **path)
{
	const struct proof p = { .id = id, .id_len = id_len };
	scoped(freep) char *dir = folder_of(file);
	int fd = -1;

	if (!dir || !id_len)
		return -1;
	if (name[0] != '/')
		fd = try_file(text("%s/%s", dir, name), &p, path);
	if (fd < 0 && name[0] == '/' && s && s->sysroot)
		fd = try_file(text("%s%s", s->sysroot, name), &p, path);
	if (fd < 0 && name[0] == '/' && root[0])
		fd = try_file(text("%s%s", root, name), &p, path);
	if (fd < 0 && name[0] == '/')
		fd = try_file(strdup(name), &p, path);
	/* Packages put them into DIR/.dwz/ARCH/NAME. */
	if (fd < 0)
		fd = symbol_search_open_build_id(s, root, id, id_len, path);
	return fd >= 0 ? fd : symbol_search_fetch(s, id, id_len, path);
}
