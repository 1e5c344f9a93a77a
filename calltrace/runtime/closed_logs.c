#include "calltrace/runtime/closed_logs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/vec.h"
#include "watchctl/trace/calls/call_format.h"
#include "watchctl/trace/log/tracelog_files.h"
#include "watchctl/trace/log/tracelog_member.h"

#define METADATA "metadata"

struct walk {
	const struct output_place *own;
	int (*each)(const struct closed_log *l, void *ctx);
	void *ctx;
	char path[PATH_MAX]; /* of what is looked at */
};

/* Names in directories */

struct names {
	char **name;
	size_t n, cap;
};

static void names_deinit(struct names *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->name[i]);
	free(l->name);
}

static bool names_add(struct names *l, const char *name)
{
	char *copy = strdup(name);

	if (copy && vec_push(l->name, l->n, l->cap, copy))
		return true;
	free(copy);
	return false;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All in @dir, but for itself and its parent; by name. 0, or -errno; names_deinit() in any case. */
static int names_read(int dir, struct names *ret)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	scoped(closedirp) DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	int err = errno;

	if (!d) {
		closep(&fd);
		return -err;
	}
	while ((errno = 0, e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && !names_add(ret, e->d_name))
			return -ENOMEM;
	err = errno;
	if (ret->n)
		qsort(ret->name, ret->n, sizeof(*ret->name), by_name);
	return -err;
}

/* Logs */

static bool is_number(const char *text)
{
	return *text && text[strspn(text, "0123456789")] == '\0';
}

static bool begins_and_number(const char *name, const char *prefix)
{
	const size_t len = strlen(prefix);

	return !strncmp(name, prefix, len) && is_number(name + len);
}

/* Files of a log, those too that somebody who completes it has left when he was killed. */
static bool belongs_to_log(const char *name)
{
	static const char *const files[] = { METADATA, TRACELOG_PLAIN, TRACELOG_RECORDER, "symbols" };
	uint64_t number;

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		if (!strcmp(name, files[i]))
			return true;
	return tracelog_file_number(name, &number) || begins_and_number(name, TRACELOG_CALLS) ||
	       begins_and_number(name, ".metadata.") || begins_and_number(name, ".symbols.");
}

/* Leaves out symbolic links, to a file of another log, say. */
static bool is_plain_file(int dir, const char *name, struct stat *st)
{
	return fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st->st_mode);
}

static bool has_calls(int dir, const char *path)
{
	scoped(freep) char *text = NULL;
	struct tracelog_identity id;
	struct wc_error *err;
	struct stat st;

	if (!is_plain_file(dir, METADATA, &st))
		return false;
	err = tracelog_metadata_read(dir, path, &id, &text);
	wc_error_free(err);
	return !err && strstr(text, CALL_STREAM_BEGIN);
}

static bool is_closed_log(const struct walk *w, int dir)
{
	struct stat st;

	if (fstat(dir, &st) < 0)
		return false;
	if (w->own && st.st_dev == w->own->device && st.st_ino == w->own->inode)
		return false;
	return has_calls(dir, w->path) && !tracelog_mark_held(dir, NULL);
}

static int measure(struct closed_log *l)
{
	__attribute__((cleanup(names_deinit))) struct names in = { 0 };
	int err = names_read(l->dir, &in);
	struct stat st;

	for (size_t i = 0; !err && i < in.n; i++) {
		if (!belongs_to_log(in.name[i]) || !is_plain_file(l->dir, in.name[i], &st)) {
			l->has_others = true;
			continue;
		}
		l->bytes += (uint64_t)st.st_size;
		if (st.st_mtime > l->modified_s)
			l->modified_s = st.st_mtime;
	}
	return err;
}

/* Failures that say that there is no log, or none that we may know of. */
static bool is_nothing(int err)
{
	return err == -ENOENT || err == -ENOTDIR || err == -ELOOP || err == -EACCES;
}

/* The last name of the pattern is @name, in @parent. */
static int look_at_log(struct walk *w, int parent, const char *name)
{
	scoped(closep) int dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct closed_log l = { .path = w->path, .parent = parent, .dir = dir, .name = name };
	int err;

	if (dir < 0)
		return is_nothing(-errno) ? 0 : -errno;
	if (!is_closed_log(w, dir))
		return 0;
	err = measure(&l);
	return err ? err : w->each(&l, w->ctx);
}

int closed_log_delete(const struct closed_log *l)
{
	__attribute__((cleanup(names_deinit))) struct names in = { 0 };
	int err;

	if (l->has_others)
		return -ENOTEMPTY;
	err = names_read(l->dir, &in);
	if (err)
		return err;
	for (size_t i = 0; i < in.n; i++)
		if (!belongs_to_log(in.name[i]))
			return -ENOTEMPTY;
	for (size_t i = 0; i < in.n; i++)
		if (strcmp(in.name[i], METADATA) != 0 && unlinkat(l->dir, in.name[i], 0) < 0)
			return -errno;
	if (unlinkat(l->dir, METADATA, 0) < 0 || unlinkat(l->parent, l->name, AT_REMOVEDIR) < 0)
		return -errno;
	return 0;
}

/* Patterns */

static bool pattern_matches(const char *p, const char *end, const char *name);

/* @p: behind a number, which is at the beginning of @name, and as printf() writes it. */
static bool number_matches(const char *p, const char *end, const char *name)
{
	const size_t digits = strspn(name, "0123456789"), longest = *name == '0' ? 1 : digits;

	for (size_t i = 1; i <= longest && digits; i++)
		if (pattern_matches(p, end, name + i))
			return true;
	return false;
}

/* Of one component [@p, @end). */
static bool pattern_matches(const char *p, const char *end, const char *name)
{
	const char *text = program_invocation_short_name;

	for (; p < end && *p != '%'; p++, name++)
		if (*p != *name)
			return false;
	if (p == end)
		return !*name;
	p += 2;
	if (p[-1] == 'p' || p[-1] == 'n')
		return number_matches(p, end, name);
	if (p[-1] == '%')
		text = "%";
	return !strncmp(name, text, strlen(text)) && pattern_matches(p, end, name + strlen(text));
}

static bool pattern_has_number(const char *p, const char *end)
{
	for (; p < end; p++)
		if (*p == '%' && (*++p == 'p' || *p == 'n'))
			return true;
	return false;
}

static bool pattern_makes_sense(const char *p)
{
	for (; *p; p++)
		if (*p == '%' && (!*++p || !strchr("pne%", *p)))
			return false;
	return true;
}

/* The only name that [@p, @end), without a number, stands for. */
static bool pattern_name(const char *p, const char *end, char *ret, size_t cap)
{
	size_t len = 0, n;

	for (; p < end; p++) {
		const char *text = p;

		n = 1;
		if (*p == '%' && *++p == 'e') {
			text = program_invocation_short_name;
			n = strlen(text);
		}
		if (len + n >= cap)
			return false;
		memcpy(ret + len, text, n);
		len += n;
	}
	ret[len] = '\0';
	return true;
}

/* The walk */

static int walk_in(struct walk *w, int dir, size_t len, const char *pattern);

/* @name is the meaning of [pattern, end). @len: of the path up to it. */
static int walk_to(struct walk *w, int dir, size_t len, const char *name, bool is_found, const char *end)
{
	const size_t n = strlen(name), slash = len && w->path[len - 1] != '/';
	scoped(closep) int below = -1;

	if (len + slash + n >= sizeof(w->path))
		return is_found ? 0 : -EINVAL;
	memcpy(w->path + len, "/", slash);
	memcpy(w->path + len + slash, name, n + 1);
	while (*end == '/')
		end++;
	if (!*end)
		return look_at_log(w, dir, name);
	below = openat(dir, name, O_PATH | O_DIRECTORY | O_CLOEXEC | (is_found ? O_NOFOLLOW : 0));
	if (below < 0)
		return is_nothing(-errno) ? 0 : -errno;
	return walk_in(w, below, len + slash + n, end);
}

/* @pattern, which is not empty, below the directory @dir, whose path has @len bytes. */
static int walk_in(struct walk *w, int dir, size_t len, const char *pattern)
{
	__attribute__((cleanup(names_deinit))) struct names in = { 0 };
	const char *end = strchrnul(pattern, '/');
	char name[NAME_MAX + 1];
	int ret = 0;

	if (!pattern_has_number(pattern, end))
		return pattern_name(pattern, end, name, sizeof(name)) ? walk_to(w, dir, len, name, false, end)
								      : -EINVAL;
	ret = names_read(dir, &in);
	if (ret)
		return is_nothing(ret) ? 0 : ret;
	for (size_t i = 0; i < in.n && !ret; i++)
		if (pattern_matches(pattern, end, in.name[i]))
			ret = walk_to(w, dir, len, in.name[i], true, end);
	return ret;
}

int closed_logs_each(const char *pattern, const struct output_place *own,
		     int (*each)(const struct closed_log *l, void *ctx), void *ctx)
{
	scoped(freep) struct walk *w = malloc(sizeof(*w));
	scoped(closep) int dir = -1;

	if (!w)
		return -ENOMEM;
	if (!pattern_makes_sense(pattern))
		return -EINVAL;
	*w = (struct walk){ .own = own, .each = each, .ctx = ctx };
	if (*pattern == '/')
		strcpy(w->path, "/");
	else if (!getcwd(w->path, sizeof(w->path)))
		return -errno;
	dir = open(*pattern == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	while (*pattern == '/')
		pattern++;
	return *pattern ? walk_in(w, dir, strlen(w->path), pattern) : 0;
}
