/* Which files a log has, and opening them. All that are there are opened at once: one that is removed while
 * it is read can still be read. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/trace/log/tracelog_files.h"
#include "watchctl/trace/log/tracelog_member.h"
#include "watchctl/trace/log/tracelog_reader.h"

struct wc_error *tracelog_reader_new(const char *path, struct tracelog_reader **ret)
{
	struct tracelog_reader *r = calloc(1, sizeof(*r));

	if (!r)
		return &wc_enomem;
	r->dir = -1;
	r->path = strdup(path);
	if (!r->path) {
		free(r);
		return &wc_enomem;
	}
	*ret = r;
	return NULL;
}

void tracelog_reader_close(struct tracelog_reader *r)
{
	size_t i;

	if (!r)
		return;
	tracelog_reader_close(r->again);
	for (i = 0; i < r->nfiles; i++)
		if (r->file[i].fd >= 0)
			close(r->file[i].fd);
	if (r->dir >= 0)
		close(r->dir);
	tracelog_decoder_deinit(&r->decoder);
	free(r->file);
	free(r->gap);
	free(r->buf);
	free(r->one);
	free(r->path);
	free(r);
}

void tracelog_reader_closep(struct tracelog_reader **r)
{
	tracelog_reader_close(*r);
}

/* Memory */

struct wc_error *tracelog_reader_open_memory_ring(const char *metadata, size_t metadata_len,
						  const struct log_file *file, size_t n,
						  struct tracelog_reader **ret)
{
	scoped(tracelog_reader_closep) struct tracelog_reader *r = NULL;
	struct wc_error *err;
	size_t i;

	err = tracelog_reader_new("(memory)", &r);
	if (err)
		return err;
	err = tracelog_metadata_parse(r->path, metadata, metadata_len, &r->id);
	for (i = 0; i < n && !err; i++)
		if (!vec_push(r->file, r->nfiles, r->cap, file[i]))
			err = &wc_enomem;
	if (err)
		return err;
	r->ring = r->decoder.ring = true;
	*ret = take_ptr(r);
	return NULL;
}

struct wc_error *tracelog_reader_open_memory(const char *metadata, size_t metadata_len, const uint8_t *events,
					     size_t events_len, struct tracelog_reader **ret)
{
	static const uint8_t nothing;
	const struct log_file f = { .fd = -1, .mem = events ? events : &nothing, .size = events_len };
	struct wc_error *err = tracelog_reader_open_memory_ring(metadata, metadata_len, &f, 1, ret);

	if (!err)
		(*ret)->ring = (*ret)->decoder.ring = false;
	return err;
}

/* Files */

static struct wc_error *open_directory(const char *path, int *ret)
{
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir >= 0) {
		*ret = dir;
		return NULL;
	}
	if (errno == ENOENT)
		return wc_error_new(WC_ELOG, "there is no log %s", path);
	if (errno == ENOTDIR)
		return wc_error_new(WC_ELOG, "%s is not a log: a log is a directory", path);
	return wc_error_errno(WC_ELOG, errno, "cannot open the log %s", path);
}

static struct wc_error *add_member(struct tracelog_reader *r, const char *name, uint64_t number)
{
	struct log_file f = { .number = number, .fd = -1 };
	struct wc_error *err = tracelog_open_member(r->dir, r->path, name, &f.fd, &f.size);

	if (err)
		return err;
	posix_fadvise(f.fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	if (vec_push(r->file, r->nfiles, r->cap, f))
		return NULL;
	close(f.fd);
	return &wc_enomem;
}

static bool is_there(const struct tracelog_reader *r, const char *name)
{
	return faccessat(r->dir, name, F_OK, 0) == 0 || errno != ENOENT;
}

static void reverse(struct log_file *file, size_t n)
{
	struct log_file *last = file + n;

	while (file + 1 < last) {
		struct log_file f = *file;

		*file++ = *--last;
		*last = f;
	}
}

/*
 * Those from the number @from on, the newest first: the recorder removes the oldest while we are at it, so
 * that what could be opened has no gap. *@gone: one was not there any more, and with it those before it.
 */
static struct wc_error *add_listed(struct tracelog_reader *r, uint64_t from, bool *gone)
{
	scoped(freep) uint64_t *number = NULL;
	const size_t first = r->nfiles;
	char name[TRACELOG_NAME_MAX];
	struct wc_error *err;
	size_t n = 0;

	*gone = false;
	err = tracelog_file_numbers(r->dir, &number, &n);
	while (n-- && !err && !*gone && number[n] >= from) {
		tracelog_file_name(number[n], name);
		err = add_member(r, name, number[n]);
		*gone = err && !is_there(r, name);
	}
	if (*gone) {
		wc_error_free(err);
		err = NULL;
	}
	if (r->nfiles > first)
		reverse(r->file + first, r->nfiles - first);
	return err;
}

/* A recorder that is so fast that not even the newest of those listed was there any more has newer ones. */
static struct wc_error *add_files(struct tracelog_reader *r, uint64_t from)
{
	const size_t first = r->nfiles;
	struct wc_error *err;
	bool gone;

	do
		err = add_listed(r, from, &gone);
	while (!err && gone && r->nfiles == first);
	return err;
}

static struct wc_error *open_log(const char *path, const char *member, struct tracelog_reader **ret)
{
	scoped(tracelog_reader_closep) struct tracelog_reader *r = NULL;
	struct wc_error *err;

	err = tracelog_reader_new(path, &r);
	if (!err)
		err = open_directory(path, &r->dir);
	if (!err)
		err = tracelog_metadata_read(r->dir, r->path, &r->id, NULL);
	if (!err && !member)
		err = add_files(r, 0);
	if (err)
		return err;
	r->ring = r->decoder.ring = r->nfiles > 0;
	if (!r->ring)
		err = add_member(r, member ? member : TRACELOG_PLAIN, 0);
	if (err)
		return err;
	*ret = take_ptr(r);
	return NULL;
}

struct wc_error *tracelog_reader_open(const char *path, struct tracelog_reader **ret)
{
	return open_log(path, NULL, ret);
}

struct wc_error *tracelog_reader_open_symbols(const char *path, struct tracelog_reader **ret)
{
	scoped(closep) int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	*ret = NULL;
	if (dir >= 0 && faccessat(dir, "symbols", F_OK, 0) < 0 && errno == ENOENT)
		return NULL;
	return open_log(path, "symbols", ret);
}

bool tracelog_is_recording(const char *path)
{
	scoped(closep) int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return dir >= 0 && tracelog_mark_held(dir, NULL);
}

/* Following */

static struct wc_error *look_at_size(struct tracelog_reader *r, struct log_file *f, bool *more)
{
	struct stat st;

	if (fstat(f->fd, &st) < 0)
		return wc_error_errno(WC_ELOG, errno, "cannot read the log %s", r->path);
	if ((uint64_t)st.st_size > f->size) {
		f->size = (uint64_t)st.st_size;
		*more = true;
	}
	return NULL;
}

struct wc_error *tracelog_reader_look(struct tracelog_reader *r, bool *more)
{
	const size_t last = r->nfiles - 1;
	const uint64_t number = r->file[last].number;
	struct wc_error *err = NULL;

	if (r->ring)
		err = add_files(r, number + 1);
	/* After those: the last one was complete when the next began. */
	if (!err)
		err = look_at_size(r, &r->file[last], more);
	if (r->nfiles - 1 > last)
		*more = true;
	return err;
}
