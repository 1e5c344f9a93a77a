/*
 * A snapshot without values. What files of the log are needed is known to tracelog_snapshot(), which makes a
 * whole one, for us alone and for as long as this takes; from there the events are recorded anew. On the disk
 * are then no values that were not there before, in the log itself.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/trace/log/tracelog.h"
#include "watchctl/view/event/replay.h"
#include "watchctl/view/rewrite/snapshot.h"

/* Its files: counts their bytes, or removes them and itself. */
static void walk(const char *path, bool remove, uint64_t *bytes)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	scoped(closedirp) DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *e;
	struct stat st;

	while (d && (e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (bytes && !fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			*bytes += (uint64_t)st.st_size;
		if (remove)
			unlinkat(fd, e->d_name, 0);
	}
	if (remove)
		rmdir(path);
}

static struct wc_error *record_anew(const char *whole, const char *dst, const struct redact_rules *rules,
				    struct replay_ending *ending)
{
	struct tracelog_writer *log = NULL;
	struct wc_error *err = tracelog_writer_open(dst, &log);

	if (err)
		return err;
	err = replay_redacted(whole, rules, tracelog_writer_sink(log), stdout, NULL, ending);
	if (!err)
		return tracelog_writer_close(log);
	tracelog_writer_discard(log);
	return err;
}

struct wc_error *snapshot_save_redacted(const char *src, const char *dst, uint64_t last_ns,
					const struct redact_rules *rules, struct snapshot_info *ret,
					const char **unused)
{
	scoped(freep) char *whole = tracelog_hidden_name(dst, ".whole");
	struct replay_ending ending = { 0 };
	struct wc_error *err;
	struct stat st;

	*unused = NULL;
	if (!whole)
		return &wc_enomem;
	if (lstat(dst, &st) == 0)
		return wc_error_new(WC_ELOG, "%s exists already; choose another name or remove it", dst);
	err = tracelog_snapshot(src, whole, last_ns, ret);
	if (err)
		return err;
	err = record_anew(whole, dst, rules, &ending);
	walk(whole, true, NULL);
	if (err)
		return err;
	ret->lacks_flow = ret->has_flow;
	ret->bytes = 0;
	ret->files = 1;
	walk(dst, false, &ret->bytes);
	*unused = ending.unused;
	ret->damage = ending.damage;
	return NULL;
}
