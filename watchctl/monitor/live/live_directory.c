#include "watchctl/monitor/live/live_directory.h"

#include <errno.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define TREE_FDS 16

static bool has_room(const char *parent, uint64_t bytes)
{
	struct statvfs fs;

	return !statvfs(parent, &fs) && (uint64_t)fs.f_bavail * fs.f_frsize >= bytes;
}

/* Nobody can guess it, so that nobody can be there first. */
static struct wc_error *choose_in(const char *parent, char **ret)
{
	uint64_t n[2];

	if (getrandom(n, sizeof(n), 0) != sizeof(n))
		return wc_error_errno(WC_EFAIL, errno, "cannot name a directory for the log");
	if (asprintf(ret, "%s/watchctl-%016llx%016llx", parent, (unsigned long long)n[0],
		     (unsigned long long)n[1]) >= 0)
		return NULL;
	*ret = NULL;
	return &wc_enomem;
}

static bool can_hold(const char *parent, uint64_t bytes)
{
	struct stat st;

	return parent && parent[0] == '/' && !stat(parent, &st) && S_ISDIR(st.st_mode) &&
	       !access(parent, W_OK | X_OK) && has_room(parent, bytes);
}

struct wc_error *live_directory_choose(uint64_t bytes, char **ret)
{
	const char *const parents[] = { getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp" };
	const size_t n = sizeof(parents) / sizeof(parents[0]);
	size_t i;

	for (i = 0; i < 2 * n; i++)
		if (can_hold(parents[i % n], i < n ? bytes : 0))
			return choose_in(parents[i % n], ret);
	return choose_in(parents[n - 1], ret); /* why not there is said when it is made */
}

struct wc_error *live_directory_make(const char *path)
{
	return mkdir(path, 0700)
		       ? wc_error_errno(WC_ELOG, errno, "cannot make the directory %s for the log", path)
		       : NULL;
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
