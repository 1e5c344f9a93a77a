/*
 * dpkg keeps a file a package with the paths that it installed, a line each. These are from before folders
 * like /lib became links below /usr: a path may stand there in either form.
 */
#include "watchctl/code/elf/debug_package.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/fault_guard.h"
#include "watchctl/base/utf8.h"
#include "watchctl/code/elf/elffile.h"

#define LISTS "/var/lib/dpkg/info"

static bool holds_line(const char *text, size_t len, const char *line)
{
	size_t n = strlen(line);

	for (const char *at = text; (at = memmem(at, len - (size_t)(at - text), line, n)); at++)
		if ((at == text || at[-1] == '\n') && (at + n == text + len || at[n] == '\n'))
			return true;
	return false;
}

static bool list_holds(int dir, const char *name, const char *path, const char *other)
{
	scoped(closep) int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	void *text;
	bool ret;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !st.st_size)
		return false;
	text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (text == MAP_FAILED)
		return false;
	ret = holds_line(text, (size_t)st.st_size, path) ||
	      (other && holds_line(text, (size_t)st.st_size, other));
	munmap(text, (size_t)st.st_size);
	return ret;
}

/* The Debian package that installed @path, malloc'd, without architecture. NULL: none, or not known. */
static char *package_of(const char *path)
{
	scoped(closedirp) DIR *d = opendir(LISTS);
	scoped(freep) char *below = NULL;
	const char *other = NULL;
	const struct dirent *e;

	if (strncmp(path, "/usr/", 5) == 0)
		other = path + 4;
	else if (path[0] == '/' && asprintf(&below, "/usr%s", path) >= 0)
		other = below;
	while (d && (e = readdir(d))) {
		size_t len = strlen(e->d_name);

		if (len > 5 && !strcmp(e->d_name + len - 5, ".list") &&
		    list_holds(dirfd(d), e->d_name, path, other)) {
			len -= 5;
			if (memchr(e->d_name, ':', len))
				len = strcspn(e->d_name, ":");
			return strndup(e->d_name, len);
		}
	}
	return NULL;
}

/* A sentence without its capital letter and full stop, malloc'd. */
static char *advice_for(const char *path)
{
	scoped(freep) char *package = package_of(path);
	char clean[64], *text;

	if (!package)
		return NULL;
	utf8_clean(package, clean, sizeof(clean));
	if (asprintf(&text, "its package is %s: %s-dbgsym (or -dbg) has the debug information", clean,
		     clean) < 0)
		return NULL;
	return text;
}

/* Not in a container, say, where another file has the path. */
static bool is_installed_here(const struct module *m)
{
	struct stat used, here;

	return !m->deleted && m->open_path && stat(m->open_path, &used) == 0 && stat(m->path, &here) == 0 &&
	       used.st_dev == here.st_dev && used.st_ino == here.st_ino;
}

struct look {
	struct elffile *file;
	bool lacks;
};

static void look_for_dwarf(void *ctx)
{
	struct look *l = ctx;
	uint64_t bias;

	l->lacks = elffile_state(l->file) == ELFFILE_OK && !elffile_dwarf(l->file, &bias);
}

static bool lacks_debug_information(const struct module *m)
{
	struct look l = { .file = elffile_new(m) };

	if (l.file && !fault_guarded(look_for_dwarf, &l))
		elffile_abandon(l.file);
	elffile_free(l.file);
	return l.lacks;
}

char *debug_package_advice(const struct module *m)
{
	return is_installed_here(m) && lacks_debug_information(m) ? advice_for(m->path) : NULL;
}

char *debug_package_advice_at(const char *path, const uint8_t *build_id, uint8_t build_id_len)
{
	struct module m = { .path = (char *)path, .open_path = (char *)path, .build_id_len = build_id_len };

	if (!build_id_len)
		return NULL;
	memcpy(m.build_id, build_id, build_id_len);
	return debug_package_advice(&m);
}

struct wc_error *debug_package_hint(struct wc_error *err, const struct module *m)
{
	scoped(freep) char *advice = debug_package_advice(m);
	struct wc_error *longer;

	if (!advice)
		return err;
	advice[0] = (char)toupper((unsigned char)advice[0]);
	longer = wc_error_new(err->kind, "%s %s.", err->text, advice);
	wc_error_free(err);
	return longer;
}
