#include "watchctl/base/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"

/* Others may make files in the folder of @path, under any name. */
static bool is_in_public(const char *path)
{
	const char *slash = strrchr(path, '/');
	scoped(freep) char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	struct stat st;

	return !folder || stat(folder, &st) || st.st_mode & S_IWOTH;
}

/* A file there that somebody else has made, or can reach under another name. */
static bool is_trap(const struct stat *st)
{
	return st->st_uid != geteuid() || (S_ISREG(st->st_mode) && st->st_nlink > 1);
}

int private_file_open(const char *path, int flags)
{
	bool shared = is_in_public(path);
	struct stat st;
	int failed = 0;

	flags |= O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | (shared ? O_NOFOLLOW : 0);
	scoped(closep) int fd = open(path, flags, 0600);
	if (fd < 0 || fstat(fd, &st))
		return -1;
	if (shared && is_trap(&st))
		failed = EPERM;
	else if (S_ISREG(st.st_mode) && !(flags & O_APPEND) && ftruncate(fd, 0))
		failed = errno;
	if (!failed)
		return take_fd(fd);
	errno = failed;
	return -1;
}

FILE *private_file_fopen(const char *path)
{
	int fd = private_file_open(path, 0);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");

	if (!f)
		closep(&fd);
	return f;
}
