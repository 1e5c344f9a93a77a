#include "watchctl/view/export/export_out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"

#define BUFFER (1u << 18)
#define TRIES 100

struct part {
	char *name;
	char *draft; /* where it lies until then; NULL: it has no name */
	FILE *f;
	bool named;
};

struct export_out {
	const char *path; /* NULL: standard output */
	bool force;
	bool direct; /* no regular file: written as it comes */
	struct part *part;
	size_t n, cap;
};

static struct wc_error *cannot_write(const char *name, int sys_errno)
{
	return wc_error_errno(WC_EFAIL, sys_errno, "cannot write %s", name);
}

/* "dir/trace.json" -> "dir" */
static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return !slash ? strdup(".") : slash == path ? strdup("/") : strndup(path, slash - path);
}

/* "trace.json" -> "trace.2.json" */
static char *part_name(const char *path, size_t number)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
	int stem = dot && dot > base ? (int)(dot - path) : (int)strlen(path);
	char *name;

	if (number == 1)
		return strdup(path);
	return asprintf(&name, "%.*s.%zu%s", stem, path, number, path + stem) < 0 ? NULL : name;
}

/* "dir/trace.json" -> "dir/.trace.json.XXXXXX" */
static char *draft_name(const char *path)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	char *name;

	return asprintf(&name, "%.*s.%s.XXXXXX", (int)(base - path), path, base) < 0 ? NULL : name;
}

/* A file without a name can only be given one through /proc. */
static int open_nameless(const char *folder)
{
	char link[40];
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0)
		return -1;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (!faccessat(AT_FDCWD, link, F_OK, AT_SYMLINK_NOFOLLOW))
		return fd;
	close(fd);
	return -1;
}

static struct wc_error *use(struct part *p, int fd)
{
	p->f = fdopen(fd, "w");
	if (p->f)
		return NULL;
	close(fd);
	return &wc_enomem;
}

static struct wc_error *open_draft(struct part *p)
{
	scoped(freep) char *folder = folder_of(p->name);
	int fd;

	if (!folder)
		return &wc_enomem;
	fd = open_nameless(folder);
	if (fd < 0) {
		p->draft = draft_name(p->name);
		if (!p->draft)
			return &wc_enomem;
		fd = mkostemp(p->draft, O_CLOEXEC);
		if (fd < 0) {
			int why = errno;

			free(p->draft);
			p->draft = NULL;
			return cannot_write(p->name, why);
		}
	}
	return use(p, fd);
}

static struct wc_error *open_direct(struct part *p)
{
	int fd = open(p->name, O_WRONLY | O_CLOEXEC | O_NOCTTY);

	return fd < 0 ? cannot_write(p->name, errno) : use(p, fd);
}

static struct wc_error *already_there(const char *name)
{
	return wc_error_new(WC_EUSAGE, "%s exists already (--force replaces it)", name);
}

static struct wc_error *begin_part(struct export_out *o)
{
	struct part p = { .name = part_name(o->path, o->n + 1) };
	struct wc_error *err;
	struct stat st;

	if (!p.name || !vec_push(o->part, o->n, o->cap, p)) {
		free(p.name);
		return &wc_enomem;
	}
	if (!o->direct && !o->force && !lstat(p.name, &st))
		return already_there(p.name);
	err = o->direct ? open_direct(&o->part[o->n - 1]) : open_draft(&o->part[o->n - 1]);
	if (!err)
		setvbuf(o->part[o->n - 1].f, NULL, _IOFBF, BUFFER);
	return err;
}

struct wc_error *export_out_open(const char *path, bool force, struct export_out **ret)
{
	scoped(export_out_freep) struct export_out *o = calloc(1, sizeof(*o));
	struct wc_error *err = NULL;
	struct stat st;

	if (!o)
		return &wc_enomem;
	o->path = path && strcmp(path, "-") != 0 ? path : NULL;
	o->force = force;
	if (o->path && !stat(o->path, &st)) {
		if (S_ISDIR(st.st_mode))
			return wc_error_new(WC_EUSAGE, "cannot write %s: it is a directory", path);
		o->direct = !S_ISREG(st.st_mode);
	}
	if (o->path)
		err = begin_part(o);
	if (!err)
		*ret = take_ptr(o);
	return err;
}

FILE *export_out_file(const struct export_out *o)
{
	return o->path ? o->part[o->n - 1].f : stdout;
}

bool export_out_splits(const struct export_out *o)
{
	return o->path && !o->direct;
}

/* All that was written is in the file. */
static struct wc_error *export_out_finish(const struct part *p)
{
	bool failed = ferror(p->f);
	int why = failed ? EIO : 0;

	errno = 0;
	if (failed)
		fputc('\n', p->f);
	if (fflush(p->f))
		why = errno ? errno : EIO;
	else if (!failed)
		return NULL;
	/* What failed first may be over by now; what the disk says to another byte is the better reason. */
	return cannot_write(p->name, why);
}

struct wc_error *export_out_check(const struct export_out *o)
{
	return o->path && ferror(export_out_file(o)) ? export_out_finish(&o->part[o->n - 1]) : NULL;
}

struct wc_error *export_out_next(struct export_out *o)
{
	struct wc_error *err = export_out_finish(&o->part[o->n - 1]);

	return err ? err : begin_part(o);
}

/* Links the nameless file @fd as @name. 0 or an errno. */
static int link_file(int fd, const char *name)
{
	char from[40];

	snprintf(from, sizeof(from), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, from, AT_FDCWD, name, AT_SYMLINK_FOLLOW) ? errno : 0;
}

/* Gives the nameless file a name to be renamed from. */
static int link_draft(struct part *p)
{
	unsigned int i;
	int why = ENOMEM;

	for (i = 0; i < TRIES; i++) {
		char *name = draft_name(p->name);

		if (!name)
			return ENOMEM;
		snprintf(name + strlen(name) - 6, 7, "%06x",
			 ((unsigned int)getpid() + i * 0x10001) & 0xffffff);
		why = link_file(fileno(p->f), name);
		if (!why) {
			p->draft = name;
			return 0;
		}
		free(name);
		if (why != EEXIST)
			break;
	}
	return why;
}

static struct wc_error *give_name(const struct export_out *o, struct part *p)
{
	unsigned int how = o->force ? 0 : RENAME_NOREPLACE;
	int why = 0;

	if (!p->draft && !o->force)
		why = link_file(fileno(p->f), p->name);
	else if (!p->draft)
		why = link_draft(p);
	if (!why && p->draft && renameat2(AT_FDCWD, p->draft, AT_FDCWD, p->name, how)) {
		why = errno;
		/* File systems that cannot tell: a link never replaces anything. */
		if (why == EINVAL && !o->force && !link(p->draft, p->name)) {
			unlink(p->draft);
			why = 0;
		}
	}
	if (why == EEXIST)
		return already_there(p->name);
	if (why)
		return cannot_write(p->name, why);
	free(p->draft);
	p->draft = NULL;
	p->named = true;
	return NULL;
}

static struct wc_error *close_part(struct part *p)
{
	FILE *f = take_ptr(p->f);

	return fclose(f) ? cannot_write(p->name, errno) : NULL;
}

struct wc_error *export_out_commit(struct export_out *o)
{
	struct wc_error *err = NULL;
	size_t i;

	for (i = 0; i < o->n && !err; i++)
		err = export_out_finish(&o->part[i]);
	for (i = 0; i < o->n && !err && !o->direct; i++)
		err = give_name(o, &o->part[i]);
	for (i = 0; i < o->n && !err; i++)
		err = close_part(&o->part[i]);
	if (!err)
		return NULL;
	/* By force, they have taken the place of others, which are gone in any case. */
	for (i = 0; i < o->n && !o->force; i++)
		if (o->part[i].named)
			unlink(o->part[i].name);
	return err;
}

size_t export_out_parts(const struct export_out *o)
{
	return o->n;
}

const char *export_out_name(const struct export_out *o, size_t part)
{
	return o->part[part].name;
}

void export_out_free(struct export_out *o)
{
	size_t i;

	if (!o)
		return;
	for (i = 0; i < o->n; i++) {
		struct part *p = &o->part[i];

		if (p->f)
			fclose(p->f);
		if (p->draft)
			unlink(p->draft);
		free(p->draft);
		free(p->name);
	}
	free(o->part);
	free(o);
}

void export_out_freep(struct export_out **o)
{
	export_out_free(*o);
}
