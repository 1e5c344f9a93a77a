#include "watchctl/trace/log/tracelog_replace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/trace/log/tracelog.h"
#include "watchctl/trace/log/tracelog_files.h"
#include "watchctl/trace/log/tracelog_snapshot.h"

struct tracelog_old {
	char *path, *hidden;
};

static void old_free(struct tracelog_old *old)
{
	free(old->path);
	free(old->hidden);
	free(old);
}

static struct wc_error *check_replaceable(const char *path)
{
	scoped(tracelog_reader_closep) struct tracelog_reader *r = NULL;
	struct wc_error *err = tracelog_reader_open(path, &r);

	if (err)
		return wc_error_context(err, "%s exists already and is not replaced", path);
	if (tracelog_is_recording(path))
		return wc_error_new(WC_ELOG, "the log %s is being recorded; choose another name", path);
	return NULL;
}

struct wc_error *tracelog_set_aside(const char *path, bool force, struct tracelog_old **ret)
{
	struct tracelog_old *old;
	struct wc_error *err;
	struct stat st;

	*ret = NULL;
	if (lstat(path, &st) < 0)
		return NULL;
	if (!force)
		return wc_error_new(
			WC_ELOG, "log %s exists already; choose another name, or --force replaces it", path);
	err = check_replaceable(path);
	if (err)
		return err;
	old = calloc(1, sizeof(*old));
	if (!old)
		return &wc_enomem;
	old->path = strdup(path);
	old->hidden = tracelog_hidden_name(path, ".old");
	if (!old->path || !old->hidden)
		err = &wc_enomem;
	else if (rename(path, old->hidden) < 0)
		err = wc_error_errno(WC_ELOG, errno, "cannot replace the log %s", path);
	if (err) {
		old_free(old);
		return err;
	}
	*ret = old;
	return NULL;
}

void tracelog_put_back(struct tracelog_old *old)
{
	if (!old)
		return;
	rename(old->hidden, old->path);
	old_free(old);
}

static bool is_ours(const char *name)
{
	return !strncmp(name, "events", 6) || tracelog_is_beside(name) || !strcmp(name, "metadata") ||
	       !strcmp(name, "symbols") || !strcmp(name, ".recorder") || !strncmp(name, ".symbols.", 9) ||
	       !strncmp(name, ".metadata.", 10);
}

void tracelog_drop_old(struct tracelog_old *old)
{
	struct dirent *e;
	int fd;

	if (!old)
		return;
	fd = open(old->hidden, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0) {
		scoped(closedirp) DIR *d = fdopendir(fd);

		while (d && (e = readdir(d)))
			if (is_ours(e->d_name))
				unlinkat(fd, e->d_name, 0);
	}
	rmdir(old->hidden);
	old_free(old);
}
