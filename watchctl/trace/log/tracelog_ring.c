#include "watchctl/trace/log/tracelog_ring.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/base/write_all.h"
#include "watchctl/trace/log/tracelog_files.h"

#define SHARE \
	16 /* of the bounds that a file gets: so much of what they allow is there at least, less one \
	    */
#define LIMIT_WITHOUT_BYTES (1ull << 30)

bool tracelog_ring_is_bounded(const struct tracelog_ring *r)
{
	return r->bounds.bytes || r->bounds.keep_ns;
}

uint64_t tracelog_ring_file_limit(const struct tracelog_ring *r)
{
	return r->bounds.bytes ? r->bounds.bytes / SHARE : LIMIT_WITHOUT_BYTES;
}

uint64_t tracelog_ring_bytes(const struct tracelog_ring *r)
{
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < r->nfiles; i++)
		sum += r->file[i].size;
	return sum;
}

static void file_name(const struct tracelog_ring *r, const struct ring_file *f, char name[TRACELOG_NAME_MAX])
{
	if (tracelog_ring_is_bounded(r))
		tracelog_file_name(f->number, name);
	else
		snprintf(name, TRACELOG_NAME_MAX, "%s", TRACELOG_PLAIN);
}

/* What somebody else put there counts as well: names that were added, for one. */
static uint64_t measure_others(const struct tracelog_ring *r)
{
	int own = openat(r->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	scoped(closedirp) DIR *d = own < 0 ? NULL : fdopendir(own);
	const struct dirent *entry;
	uint64_t sum = 0, number;
	struct stat st;

	if (!d) {
		if (own >= 0)
			close(own);
		return r->others;
	}
	while ((entry = readdir(d)))
		if (!tracelog_file_number(entry->d_name, &number) &&
		    fstatat(r->dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
			sum += (uint64_t)st.st_size;
	return sum;
}

static struct wc_error *create_next(struct tracelog_ring *r, const struct ring_file *f, int *ret)
{
	char name[TRACELOG_NAME_MAX];

	file_name(r, f, name);
	*ret = tracelog_file_create(r->dir, name);
	if (*ret < 0)
		return wc_error_errno(WC_ELOG, errno, "cannot create %s/%s", r->path, name);
	return NULL;
}

struct wc_error *tracelog_ring_next(struct tracelog_ring *r)
{
	const struct ring_file f = { .number = r->next_number };
	scoped(closep) int fd = -1;
	struct wc_error *err;

	err = create_next(r, &f, &fd);
	if (err)
		return err;
	if (!vec_push(r->file, r->nfiles, r->cap, f))
		return &wc_enomem;
	r->next_number++;
	if (r->fd >= 0 && close(take_fd(r->fd)) < 0)
		err = wc_error_errno(WC_ELOG, errno, "cannot complete a file of the log %s", r->path);
	r->fd = take_fd(fd);
	return err;
}

static void remove_oldest(struct tracelog_ring *r)
{
	char name[TRACELOG_NAME_MAX];

	file_name(r, &r->file[0], name);
	unlinkat(r->dir, name, 0);
	memmove(r->file, r->file + 1, --r->nfiles * sizeof(*r->file));
}

void tracelog_ring_expire(struct tracelog_ring *r, uint64_t now_ns)
{
	while (r->bounds.keep_ns && r->nfiles > 1 && r->file[0].end_ns < now_ns &&
	       now_ns - r->file[0].end_ns > r->bounds.keep_ns)
		remove_oldest(r);
}

static struct wc_error *make_room(struct tracelog_ring *r, size_t len)
{
	uint64_t sum;

	if (!r->bounds.bytes)
		return NULL;
	r->others = measure_others(r);
	sum = r->others + tracelog_ring_bytes(r) + len;
	while (sum > r->bounds.bytes && r->nfiles > 1) {
		sum -= r->file[0].size;
		remove_oldest(r);
	}
	if (sum > r->bounds.bytes)
		return wc_error_new(
			WC_ELOG,
			"the log %s may have %llu bytes in all, of which files that hold no events have "
			"%llu: what is left is too little for one event of %zu bytes and what belongs to "
			"it; allow more",
			r->path, (unsigned long long)r->bounds.bytes, (unsigned long long)r->others, len);
	return NULL;
}

static struct wc_error *cannot_write(const struct tracelog_ring *r, int err)
{
	uint64_t kept = tracelog_ring_bytes(r);

	return wc_error_hint(wc_error_errno(WC_ELOG, err, "cannot write the log %s", r->path),
			     "the %llu bytes written before are whole and can be reported; to record more, "
			     "free space or choose another place for the log",
			     (unsigned long long)kept);
}

struct wc_error *tracelog_ring_write(struct tracelog_ring *r, const void *packet, size_t len, uint64_t end_ns)
{
	struct ring_file *f;
	struct wc_error *err = make_room(r, len);
	int failed;

	if (err)
		return err;
	f = &r->file[r->nfiles - 1];
	failed = write_all(r->fd, packet, len);
	if (failed) {
		/* Half a packet would only be noise to a reader; if this fails too, the reader copes with it.
		 */
		if (ftruncate(r->fd, (off_t)f->size) < 0)
			failed = failed ? failed : errno;
		return cannot_write(r, failed);
	}
	f->size += len;
	f->end_ns = end_ns;
	return NULL;
}

void tracelog_ring_remove(struct tracelog_ring *r)
{
	while (r->nfiles)
		remove_oldest(r);
}

void tracelog_ring_close(struct tracelog_ring *r)
{
	if (r->fd >= 0)
		close(take_fd(r->fd));
	if (r->dir >= 0)
		close(take_fd(r->dir));
	free(r->file);
	r->file = NULL;
	r->nfiles = r->cap = 0;
}
