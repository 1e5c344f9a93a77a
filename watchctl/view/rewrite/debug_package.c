/*
 * dpkg keeps a file a package with the paths that it installed, a line each. These are from before folders
 * like /lib became links below /usr: a path may stand there in either form.
 */
#include "watchctl/view/rewrite/debug_package.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"

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

char *debug_package_of(const char *path)
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
