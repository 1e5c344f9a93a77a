#include "watchctl/monitor/live_directory.h"

#include <errno.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#define TREE_FDS 16

static bool has_room(const char *parent, uint64_t bytes)
{
	struct statvfs fs;

	return !statvfs(parent, &fs) && (uint64_t)fs.f_bavail * fs.f_frsize >= bytes;
}

static struct wc_error *make_in(const char *parent, char **ret)
{
	struct wc_error *err;
	char *path = NULL;

	if (asprintf(&path, "%s/watchctl-XXXXXX", parent) < 0)
		return &wc_enomem;
	if (mkdtemp(path)) {
		*ret = path;
		return NULL;
	}
	err = wc_error_errno(WC_ELOG, errno, "cannot make a directory in %s for the log", parent);
	free(path);
	return err;
}

struct wc_error *live_directory_make(uint64_t bytes, char **ret)
{
	const char *const parents[] = { getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp" };
	const size_t n = sizeof(parents) / sizeof(parents[0]);
	struct wc_error *err = NULL;
	size_t pass, i;

	for (pass = 0; pass < 2; pass++) {
		for (i = 0; i < n; i++) {
			if (!parents[i] || parents[i][0] != '/' || (!pass && !has_room(parents[i], bytes)))
				continue;
			wc_error_free(err);
			err = make_in(parents[i], ret);
			if (!err)
				return NULL;
		}
	}
	return err;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
	(void)st;
	(void)type;
	(void)where;
	remove(path);
	return 0;
}

void live_directory_remove(const char *path)
{
	nftw(path, remove_one, TREE_FDS, FTW_DEPTH | FTW_PHYS);
}
