#include "calltrace/opt/opt_output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/write_all.h"

static struct wc_error *failed(const char *path, int number)
{
	return number ? wc_error_errno(WC_EFAIL, number, "cannot write %s",
				       strcmp(path, "-") ? path : "standard output")
		      : NULL;
}

/* Devices and fifos, which nobody can replace. */
static int write_in_place(const char *path, const void *bytes, size_t len)
{
	scoped(closep) int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? errno : write_all(fd, bytes, len);
}

/* By another file that takes its name. 0, or an errno. */
static int replace(const char *path, const void *bytes, size_t len, mode_t mode)
{
	scoped(freep) char *temporary = NULL;
	scoped(closep) int fd = -1;
	int number;

	if (asprintf(&temporary, "%s.XXXXXX", path) < 0)
		return ENOMEM;
	fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return errno;
	number = write_all(fd, bytes, len);
	if (!number && (fchmod(fd, mode) < 0 || rename(temporary, path) < 0))
		number = errno;
	if (number)
		unlink(temporary);
	return number;
}

struct wc_error *opt_output_write(const char *path, const void *bytes, size_t len)
{
	const mode_t mask = umask(0);
	struct stat st;

	umask(mask);
	if (!strcmp(path, "-"))
		return failed(path, write_all(STDOUT_FILENO, bytes, len));
	if (lstat(path, &st) < 0)
		return failed(path, replace(path, bytes, len, 0666 & ~mask));
	if (S_ISREG(st.st_mode))
		return failed(path, replace(path, bytes, len, st.st_mode & 07777));
	return failed(path, write_in_place(path, bytes, len));
}
