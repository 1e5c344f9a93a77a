#include "watchctl/trace/log/tracelog_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"

#define DIGITS 10

/* What the mark holds. A reader that comes while it is written sees that the two do not fit, and looks again.
 */
struct mark {
	char magic[8];
	uint64_t flushed_ns;
	uint64_t not_flushed_ns; /* its complement */
	int64_t pid;
};

static const char magic[8] = "watchrec";

void tracelog_file_name(uint64_t number, char name[TRACELOG_NAME_MAX])
{
	snprintf(name, TRACELOG_NAME_MAX, TRACELOG_PLAIN ".%0*" PRIu64, DIGITS, number % 10000000000u);
}

bool tracelog_file_number(const char *name, uint64_t *ret)
{
	size_t prefix = strlen(TRACELOG_PLAIN ".");

	if (strncmp(name, TRACELOG_PLAIN ".", prefix) != 0 || strlen(name + prefix) != DIGITS ||
	    strspn(name + prefix, "0123456789") != DIGITS)
		return false;
	*ret = strtoull(name + prefix, NULL, 10);
	return true;
}

static int by_number(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

struct wc_error *tracelog_file_numbers(int dir, uint64_t **ret, size_t *n)
{
	int own = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	scoped(closedirp) DIR *d = own < 0 ? NULL : fdopendir(own);
	scoped(freep) uint64_t *number = NULL;
	const struct dirent *entry;
	size_t count = 0, cap = 0;
	uint64_t one;

	if (!d) {
		struct wc_error *err = wc_error_errno(WC_ELOG, errno, "cannot list the files of the log");

		if (own >= 0)
			close(own);
		return err;
	}
	while ((errno = 0, entry = readdir(d)))
		if (tracelog_file_number(entry->d_name, &one) && !vec_push(number, count, cap, one))
			return &wc_enomem;
	if (errno)
		return wc_error_errno(WC_ELOG, errno, "cannot list the files of the log");
	if (count)
		qsort(number, count, sizeof(*number), by_number);
	*ret = take_ptr(number);
	*n = count;
	return NULL;
}

bool tracelog_is_calls(const char *name)
{
	return !strncmp(name, TRACELOG_CALLS, strlen(TRACELOG_CALLS));
}

bool tracelog_is_flow(const char *name)
{
	return !strncmp(name, TRACELOG_FLOW, strlen(TRACELOG_FLOW));
}

bool tracelog_is_beside(const char *name)
{
	return tracelog_is_calls(name) || tracelog_is_flow(name);
}

/* Another descriptor of @dir, to go through it from the beginning; NULL: errno. */
static DIR *list_dir(int dir)
{
	scoped(closep) int own = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = own < 0 ? NULL : fdopendir(own);

	if (d)
		take_fd(own);
	return d;
}

bool tracelog_has_flow(int dir)
{
	scoped(closedirp) DIR *d = list_dir(dir);
	const struct dirent *e;

	while (d && (e = readdir(d)))
		if (tracelog_is_flow(e->d_name))
			return true;
	return false;
}

void tracelog_beside_remove(int dir)
{
	scoped(closedirp) DIR *d = list_dir(dir);
	const struct dirent *e;

	while (d && (e = readdir(d)))
		if (tracelog_is_beside(e->d_name))
			unlinkat(dir, e->d_name, 0);
}

int tracelog_file_create(int dir, const char *name)
{
	return openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/* The mark */

int tracelog_mark_create(int dir)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	scoped(closep) int fd = tracelog_file_create(dir, TRACELOG_RECORDER);

	if (fd < 0)
		return -1;
	tracelog_mark_flushed(fd, 0);
	if (fcntl(fd, F_OFD_SETLK, &lock) < 0) {
		unlinkat(dir, TRACELOG_RECORDER, 0);
		return -1;
	}
	return take_fd(fd);
}

void tracelog_mark_flushed(int fd, uint64_t time_ns)
{
	struct mark m = { .flushed_ns = time_ns, .not_flushed_ns = ~time_ns, .pid = getpid() };
	ssize_t n;

	memcpy(m.magic, magic, sizeof(magic));
	n = pwrite(fd, &m, sizeof(m), 0);
	(void)n; /* a disk so full that not even these few bytes fit: the log itself will say so */
}

static uint64_t flushed_until(int fd)
{
	struct mark m;
	int tries;

	for (tries = 0; tries < 100; tries++) {
		if (pread(fd, &m, sizeof(m), 0) != sizeof(m) || memcmp(m.magic, magic, sizeof(magic)) != 0)
			return 0;
		if (m.flushed_ns == ~m.not_flushed_ns)
			return m.flushed_ns;
	}
	return 0;
}

bool tracelog_mark_exists(int dir)
{
	return faccessat(dir, TRACELOG_RECORDER, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

bool tracelog_mark_held(int dir, uint64_t *flushed_ns)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	scoped(closep) int fd =
		openat(dir, TRACELOG_RECORDER, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

	if (flushed_ns)
		*flushed_ns = 0;
	/* Where it cannot be known now, the next look shows; who cannot lock it makes no such file. */
	if (fd < 0)
		return errno == EMFILE || errno == ENFILE || errno == ENOMEM;
	if (fcntl(fd, F_OFD_GETLK, &lock) < 0)
		return true;
	if (lock.l_type == F_UNLCK)
		return false;
	if (flushed_ns)
		*flushed_ns = flushed_until(fd);
	return true;
}
