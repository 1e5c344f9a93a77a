#include "watchctl/trace/log/tracelog_member.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/write_all.h"

#define METADATA_MAX (1u << 20)

/* O_NONBLOCK: a fifo by that name must not hang us; it is refused by the type check. */
struct wc_error *tracelog_open_member(int dir, const char *path, const char *name, int *ret, uint64_t *size)
{
	scoped(closep) int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0 && errno == ENOENT)
		return wc_error_new(WC_ELOG, "%s is not a log of watchctl: it has no file `%s`", path, name);
	if (fd < 0 || fstat(fd, &st) < 0)
		return wc_error_errno(WC_ELOG, errno, "cannot open %s/%s", path, name);
	if (!S_ISREG(st.st_mode))
		return wc_error_new(WC_ELOG, "%s is not a log of watchctl: %s/%s is not a regular file", path,
				    path, name);
	*size = (uint64_t)st.st_size;
	*ret = take_fd(fd);
	return NULL;
}

struct wc_error *tracelog_metadata_read(int dir, const char *path, struct tracelog_identity *ret,
					char **ret_text)
{
	scoped(freep) char *text = NULL;
	scoped(closep) int fd = -1;
	struct wc_error *err;
	uint64_t size;
	size_t len = 0;
	ssize_t n;

	err = tracelog_open_member(dir, path, "metadata", &fd, &size);
	if (err)
		return err;
	if (size > METADATA_MAX)
		size = METADATA_MAX;
	text = malloc(size + 1);
	if (!text)
		return &wc_enomem;
	while (len < size && (n = read(fd, text + len, size - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	err = tracelog_metadata_parse(path, text, len, ret);
	if (!err && ret_text)
		*ret_text = take_ptr(text);
	return err;
}

struct wc_error *tracelog_metadata_describe(int dir, const char *path, const struct tracelog_stream *s,
					    struct tracelog_identity *ret)
{
	scoped(freep) char *metadata = NULL;
	struct wc_error *err = tracelog_metadata_read(dir, path, ret, &metadata);
	int failed;

	if (err || !metadata || strstr(metadata, s->begin))
		return err;
	failed = tracelog_metadata_append(dir, metadata, s->text);
	return failed ? wc_error_errno(WC_ELOG, failed, "cannot write %s to the log %s", s->what, path)
		      : NULL;
}

int tracelog_create_beside(int dir, const char *name, int *ret)
{
	struct stat st;
	int fd, err;

	if (fstatat(dir, "metadata", &st, 0) < 0)
		return errno;
	unlinkat(dir, name, 0); /* an earlier process of our number may have left one */
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return errno;
	if (fchown(fd, st.st_uid, st.st_gid) < 0 && errno != EPERM) {
		err = errno;
		close(fd);
		unlinkat(dir, name, 0);
		return err;
	}
	fchmod(fd, st.st_mode & 0666);
	*ret = fd;
	return 0;
}

int tracelog_metadata_append(int dir, const char *text, const char *more)
{
	scoped(closep) int fd = -1;
	char name[40];
	int err;

	snprintf(name, sizeof(name), ".metadata.%d", getpid());
	err = tracelog_create_beside(dir, name, &fd);
	if (err)
		return err;
	err = write_all(fd, text, strlen(text));
	if (!err)
		err = write_all(fd, more, strlen(more));
	if (!err && (fsync(fd) < 0 || renameat(dir, name, dir, "metadata") < 0))
		err = errno;
	if (err)
		unlinkat(dir, name, 0);
	return err;
}
