#include "watchctl/cli/output/page_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/private_file.h"

static struct wc_error *write_page(const struct page_writer *w, FILE *out, const char *file)
{
	struct wc_error *err = w->write(w->ctx, out);

	if (err)
		return err;
	if (fflush(out) || ferror(out))
		return wc_error_errno(WC_EFAIL, errno, "cannot write %s", file);
	return NULL;
}

/* A new file takes the place of an old one when it is whole. */
static struct wc_error *replace(const struct page_writer *w, const char *file)
{
	scoped(freep) char *fresh = NULL;
	scoped(fclosep) FILE *out = NULL;
	struct wc_error *err;
	int fd;

	if (asprintf(&fresh, "%s.XXXXXX", file) < 0) {
		fresh = NULL;
		return &wc_enomem;
	}
	/* For its owner alone: values are in it. */
	fd = mkostemp(fresh, O_CLOEXEC);
	if (fd < 0)
		return wc_error_errno(WC_EFAIL, errno, "cannot write %s", file);
	out = fdopen(fd, "w");
	if (!out)
		close(fd);
	err = out ? write_page(w, out, file) : wc_error_errno(WC_EFAIL, errno, "cannot write %s", file);
	if (!err && rename(fresh, file) < 0)
		err = wc_error_errno(WC_EFAIL, errno, "cannot write %s", file);
	if (err)
		unlink(fresh);
	return err;
}

/* Only what is a file of its own, or nothing yet, is replaced. */
struct wc_error *page_file_write(const struct page_writer *w, const char *file)
{
	scoped(fclosep) FILE *out = NULL;
	struct stat st;

	if (strcmp(file, "-") == 0)
		return write_page(w, stdout, "the page");
	if (lstat(file, &st) < 0 || S_ISREG(st.st_mode))
		return replace(w, file);
	out = private_file_fopen(file);
	if (!out)
		return wc_error_errno(WC_EFAIL, errno, "cannot write %s", file);
	return write_page(w, out, file);
}
