#include "watchctl/patch/library/library_write.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/write_all.h"
#include "watchctl/patch/library/library_elf.h"

static struct wc_error *folder_error(const char *folder, const char *what)
{
	return wc_error_errno(errno == EACCES || errno == EPERM || errno == EROFS ? WC_EPERM : WC_EUSAGE,
			      errno, "%s the folder %s", what, folder);
}

/* Of the library itself. */
static bool is_folder_of(const char *path, const struct stat *folder)
{
	scoped(freep) char *copy = strdup(path);
	char *slash = copy ? strrchr(copy, '/') : NULL;
	struct stat st;

	if (!slash)
		return false;
	slash[slash == copy] = '\0';
	return !stat(copy, &st) && st.st_dev == folder->st_dev && st.st_ino == folder->st_ino;
}

/* What lies there under the library's name may be replaced if it is one of ours. */
static struct wc_error *check_old(const struct library_source *s, const char *folder)
{
	scoped(freep) char *path = NULL;
	scoped(freep) uint8_t *plan = NULL;
	struct wc_error *err;
	struct stat st;
	size_t size;

	if (asprintf(&path, "%s/%s", folder, s->soname) < 0) {
		path = NULL;
		return &wc_enomem;
	}
	if (lstat(path, &st))
		return NULL;
	err = library_source_read_plan(path, &plan, &size);
	if (!err)
		return NULL;
	wc_error_free(err);
	return wc_error_new(
		WC_EUSAGE,
		"%s exists, and is no drop-in library that could be replaced: give another --output-dir",
		path);
}

struct wc_error *library_write_check(const struct library_source *s, const char *folder)
{
	struct stat st;

	if (stat(folder, &st))
		return errno == ENOENT ? NULL : folder_error(folder, "cannot open");
	if (!S_ISDIR(st.st_mode))
		return wc_error_new(WC_EUSAGE, "%s is no folder: --output-dir takes one", folder);
	if (is_folder_of(s->path, &st))
		return wc_error_new(
			WC_EUSAGE,
			"%s is the folder of the library itself, which stays as it is: give another --output-dir",
			folder);
	if (access(folder, W_OK | X_OK))
		return folder_error(folder, "cannot write into");
	return check_old(s, folder);
}

/* A file under a name of its own until it is complete */

struct draft {
	char *path, *final; /* owned */
	bool made;
};

static void draft_drop(struct draft *d)
{
	if (d->made)
		unlink(d->path);
	free(d->path);
	free(d->final);
}

static struct wc_error *draft_write(struct draft *d, const char *folder, const char *soname, const char *end,
				    const void *bytes, size_t n)
{
	mode_t mask = umask(0);
	int failed;

	umask(mask);
	if (asprintf(&d->path, "%s/.%s%s.XXXXXX", folder, soname, end) < 0)
		d->path = NULL;
	if (asprintf(&d->final, "%s/%s%s", folder, soname, end) < 0)
		d->final = NULL;
	if (!d->path || !d->final)
		return &wc_enomem;
	scoped(closep) int fd = mkostemp(d->path, O_CLOEXEC);

	d->made = fd >= 0;
	failed = fd < 0 ? errno : write_all(fd, bytes, n);
	if (!failed && (fchmod(fd, 0755 & ~mask) || fsync(fd)))
		failed = errno;
	return failed ? wc_error_errno(failed == EACCES ? WC_EPERM : WC_EFAIL, failed, "cannot write %s",
				       d->final)
		      : NULL;
}

static struct wc_error *draft_finish(struct draft *d)
{
	if (rename(d->path, d->final))
		return wc_error_errno(WC_EFAIL, errno, "cannot make %s", d->final);
	d->made = false;
	return NULL;
}

static struct wc_error *make(const struct library_source *s, const struct library_plan *plan,
			     const char *watchctl, struct text_buf *ret)
{
	scoped(text_buf_deinit) struct text_buf written = { 0 };
	scoped(freep) char *original = NULL;

	if (asprintf(&original, "%s.orig", s->soname) < 0) {
		original = NULL;
		return &wc_enomem;
	}
	library_plan_write(plan, &written);

	const struct library_elf l = { s, original, watchctl, &written };

	if (!written.failed)
		library_elf_write(&l, ret);
	return written.failed || ret->failed ? &wc_enomem : NULL;
}

struct wc_error *library_write(const struct library_source *s, const struct library_plan *plan,
			       const char *watchctl, const char *folder)
{
	scoped(draft_drop) struct draft original = { 0 }, drop_in = { 0 };
	scoped(text_buf_deinit) struct text_buf bytes = { 0 };
	struct wc_error *err;

	if (strlen(watchctl) >= sizeof(((struct library_settings *)0)->watchctl) ||
	    strlen(s->soname) >= sizeof(((struct library_settings *)0)->name))
		return wc_error_new(WC_ENOTSUP,
				    "the path of watchctl, or the name of the library, is too long");
	err = make(s, plan, watchctl, &bytes);
	if (!err && mkdir(folder, 0777) && errno != EEXIST)
		err = folder_error(folder, "cannot make");
	if (!err)
		err = draft_write(&original, folder, s->soname, ".orig", s->bytes, s->size);
	if (!err)
		err = draft_write(&drop_in, folder, s->soname, "", bytes.bytes, bytes.len);
	if (!err)
		err = draft_finish(&original);
	return err ? err : draft_finish(&drop_in);
}
