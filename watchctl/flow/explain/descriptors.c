#include "watchctl/flow/explain/descriptors.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/flow/explain/socket_ends.h"
#include "watchctl/flow/explain/wait_descriptor.h"
#include "watchctl/target/proc/proc.h"

#define INFO_MAX (1u << 20) /* an epoll of some 10000 descriptors */

#define MAJOR_VT 4u /* Documentation/admin-guide/devices.txt */
#define MAJOR_TTY 5u
#define MAJOR_PTS 136u
#define MAJOR_SERIAL 204u
#define MAJOR_HVC 229u

struct descriptors {
	struct holder *holder; /* sorted: see order() */
	size_t n, cap;
	bool is_read, failed;
	unsigned int denied;
	struct socket_ends *sockets;
	char **remote; /* mount points: see read_remote() */
	size_t nremote, remote_cap;
	bool remote_is_read;
};

struct descriptors *descriptors_new(void)
{
	return calloc(1, sizeof(struct descriptors));
}

void descriptors_free(struct descriptors *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->nremote; i++)
		free(d->remote[i]);
	free(d->remote);
	socket_ends_free(d->sockets);
	free(d->holder);
	free(d);
}

bool descriptor_info(pid_t pid, pid_t tid, int fd, struct text_buf *ret)
{
	char path[64], part[4096];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/fdinfo/%d", pid, tid, fd);
	scoped(closep) int file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return false;
	while ((n = read(file, part, sizeof(part))) > 0 && ret->len < INFO_MAX)
		text_buf_put(ret, part, (size_t)n);
	return n >= 0 && !ret->failed;
}

const char *info_field(const char *info, const char *key)
{
	const size_t len = strlen(key);

	for (const char *line = info; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, key, len))
			return line + len + strspn(line + len, " \t");
	}
	return NULL;
}

/* A place in /proc where descriptors of a thread are. */
struct fd_place {
	struct descriptors *d;
	pid_t pid, tid;
	int dir; /* its directory fd */
};

/* Makes the number after @key of fdinfo the identity of @ret, if there is one; 0 is one, too. */
static void identify(const struct fd_place *at, int fd, const char *key, struct descriptor *ret)
{
	scoped(text_buf_deinit) struct text_buf info = { 0 };
	const char *value = NULL;

	if (descriptor_info(at->pid, at->tid, fd, &info))
		value = info_field(text_buf_text(&info), key);
	ret->device = value != NULL;
	ret->id = value ? strtoull(value, NULL, 10) : 0;
}

/* The controlling terminal of @pid, which its /dev/tty is: major << 32 | minor; 0: none. */
static uint64_t controlling_terminal(pid_t pid)
{
	char path[32], text[512];
	const char *end;
	size_t n;
	int tty;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	scoped(fclosep) FILE *f = fopen(path, "re");
	if (!f)
		return 0;
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0';
	end = strrchr(text, ')');
	if (!end || sscanf(end + 1, " %*c %*d %*d %*d %d", &tty) != 1)
		return 0;
	return (uint64_t)major((dev_t)tty) << 32 | minor((dev_t)tty);
}

static const struct {
	const char *link;
	enum descriptor_kind kind;
} anonymous[] = {
	{ "anon_inode:[eventfd]", DESCRIPTOR_EVENTFD },	  { "anon_inode:[timerfd]", DESCRIPTOR_TIMERFD },
	{ "anon_inode:[signalfd]", DESCRIPTOR_SIGNALFD }, { "anon_inode:inotify", DESCRIPTOR_INOTIFY },
	{ "anon_inode:[fanotify]", DESCRIPTOR_FANOTIFY }, { "anon_inode:[pidfd]", DESCRIPTOR_PIDFD },
	{ "anon_inode:[eventpoll]", DESCRIPTOR_EPOLL },	  { "anon_inode:[io_uring]", DESCRIPTOR_IO_URING },
};

static bool is_terminal(unsigned int device)
{
	return device == MAJOR_VT || device == MAJOR_TTY || device == MAJOR_SERIAL || device == MAJOR_HVC;
}

static void terminal(const struct fd_place *at, int fd, uint64_t rdev, struct descriptor *ret)
{
	if (rdev == ((uint64_t)MAJOR_TTY << 32 | 2)) {
		ret->kind = DESCRIPTOR_PTY_MASTER;
		identify(at, fd, "tty-index:", ret);
		return;
	}
	if (rdev == (uint64_t)MAJOR_TTY << 32)
		rdev = controlling_terminal(at->pid);
	if (rdev >> 32 >= MAJOR_PTS && rdev >> 32 < MAJOR_PTS + 8) {
		ret->kind = DESCRIPTOR_PTY_SLAVE;
		ret->device = 1; /* so that /dev/pts/0 has an identity, too */
		ret->id = ((rdev >> 32) - MAJOR_PTS) * 256 + (uint32_t)rdev;
	} else if (is_terminal((unsigned int)(rdev >> 32))) {
		ret->kind = DESCRIPTOR_TERMINAL;
		ret->id = rdev;
	}
}

/* File systems that ask their server whenever a path leads to an open file (d_weak_revalidate of the kernel). */
static bool asks_server(const char *type)
{
	return !strcmp(type, "nfs") || !strcmp(type, "nfs4") || !strcmp(type, "9p");
}

/* The mount points of these, in our own mount namespace. */
static void read_remote(struct descriptors *d)
{
	const struct mntent *m;
	char *path;
	FILE *f;

	if (d->remote_is_read)
		return;
	d->remote_is_read = true;
	f = setmntent("/proc/self/mounts", "re");
	while (f && (m = getmntent(f)) != NULL) {
		if (!asks_server(m->mnt_type))
			continue;
		path = strdup(m->mnt_dir);
		if (!path || !vec_push(d->remote, d->nremote, d->remote_cap, path))
			free(path);
	}
	if (f)
		endmntent(f);
}

static bool is_remote(struct descriptors *d, const char *path)
{
	read_remote(d);
	for (size_t i = 0; i < d->nremote; i++) {
		const size_t len = strlen(d->remote[i]);

		if (!strncmp(path, d->remote[i], len) && (len == 1 || path[len] == '/' || !path[len]))
			return true;
	}
	return false;
}

/* A path: by the file there, without a sync of its attributes. */
static void by_file(const struct fd_place *at, int fd, struct descriptor *ret)
{
	char number[16];
	struct statx s;

	snprintf(number, sizeof(number), "%d", fd);
	if (statx(at->dir, number, AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO | STATX_SIZE, &s) != 0)
		return;
	if (S_ISCHR(s.stx_mode)) {
		terminal(at, fd, (uint64_t)s.stx_rdev_major << 32 | s.stx_rdev_minor, ret);
		return;
	}
	ret->kind = S_ISFIFO(s.stx_mode) ? DESCRIPTOR_PIPE : DESCRIPTOR_FILE;
	ret->device = (uint64_t)s.stx_dev_major << 32 | s.stx_dev_minor;
	ret->id = s.stx_ino;
	ret->size = s.stx_size;
}

/* A path to a server, which is not followed. */
static void by_inode(const struct fd_place *at, int fd, struct descriptor *ret)
{
	ret->kind = DESCRIPTOR_FILE;
	identify(at, fd, "ino:", ret);
}

static void by_name(const struct fd_place *at, int fd, const char *link, struct descriptor *ret)
{
	if (sscanf(link, "pipe:[%" SCNu64 "]", &ret->id) == 1)
		ret->kind = DESCRIPTOR_PIPE;
	else if (sscanf(link, "socket:[%" SCNu64 "]", &ret->id) == 1)
		ret->kind = DESCRIPTOR_SOCKET;
	else if (link[0] == '/' && is_remote(at->d, link))
		by_inode(at, fd, ret);
	else if (link[0] == '/')
		by_file(at, fd, ret);
	for (size_t i = 0; i < sizeof(anonymous) / sizeof(anonymous[0]); i++)
		if (!strcmp(link, anonymous[i].link))
			ret->kind = anonymous[i].kind;
	if (ret->kind == DESCRIPTOR_EVENTFD)
		identify(at, fd, "eventfd-id:", ret);
}

/* The end of a long path says more than its beginning. */
static void take_name(struct descriptor *d, const char *link, size_t len)
{
	if (len < sizeof(d->name)) {
		memcpy(d->name, link, len + 1);
		return;
	}
	memcpy(d->name, "...", 3);
	memcpy(d->name + 3, link + len - (sizeof(d->name) - 4), sizeof(d->name) - 3);
}

static bool read_at(const struct fd_place *at, const char *number, struct descriptor *ret)
{
	char link[PATH_MAX];
	const ssize_t n = readlinkat(at->dir, number, link, sizeof(link) - 1);
	struct stat s;

	if (n < 0 || fstatat(at->dir, number, &s, AT_SYMLINK_NOFOLLOW) != 0)
		return false;
	link[n] = '\0';
	*ret = (struct descriptor){ .reads = s.st_mode & S_IRUSR, .writes = s.st_mode & S_IWUSR };
	by_name(at, atoi(number), link, ret);
	take_name(ret, link, (size_t)n);
	return true;
}

bool descriptor_read(struct descriptors *d, pid_t pid, pid_t tid, int fd, struct descriptor *ret)
{
	char path[64], number[16];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/fd", pid, tid);
	scoped(closep) int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return false;
	snprintf(number, sizeof(number), "%d", fd);
	return read_at(&(struct fd_place){ d, pid, tid, dir }, number, ret);
}

static bool has_identity(const struct descriptor *d)
{
	return d->kind != DESCRIPTOR_OTHER && d->kind <= DESCRIPTOR_FILE && (d->device || d->id);
}

static void index_one(struct descriptors *d, const struct fd_place *at, const char *number)
{
	struct descriptor it;

	if (!isdigit((unsigned char)number[0]) || !read_at(at, number, &it) || !has_identity(&it))
		return;
	if (!vec_push(d->holder, d->n, d->cap,
		      (struct holder){ .pid = at->pid,
				       .fd = atoi(number),
				       .kind = it.kind,
				       .reads = it.reads,
				       .writes = it.writes,
				       .device = it.device,
				       .id = it.id }))
		d->failed = true;
}

/* Kernel threads have no descriptors, and have them read by root only. */
static void count_denied(struct descriptors *d, pid_t pid)
{
	struct proc_status s;

	if (errno != EACCES && errno != EPERM)
		return;
	if (proc_status_read(pid, pid, &s) && !s.kthread)
		d->denied++;
}

static bool index_process(void *ctx, pid_t pid)
{
	struct descriptors *d = ctx;
	char path[32];
	const struct dirent *entry;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	scoped(closedirp) DIR *dir = opendir(path);
	if (!dir) {
		count_denied(d, pid);
		return true;
	}
	const struct fd_place at = { d, pid, pid, dirfd(dir) };
	while ((entry = readdir(dir)) != NULL)
		index_one(d, &at, entry->d_name);
	return true;
}

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int same_object(const struct holder *a, const struct holder *b)
{
	int ret = compare(a->kind, b->kind);

	if (!ret)
		ret = compare(a->device, b->device);
	return ret ? ret : compare(a->id, b->id);
}

static int order(const void *a, const void *b)
{
	const struct holder *left = a, *right = b;
	int ret = same_object(left, right);

	if (!ret)
		ret = compare((uint64_t)left->pid, (uint64_t)right->pid);
	return ret ? ret : compare((uint64_t)left->fd, (uint64_t)right->fd);
}

static void read_once(struct descriptors *d)
{
	if (d->is_read)
		return;
	d->is_read = true;
	proc_each(index_process, d);
	if (d->n)
		qsort(d->holder, d->n, sizeof(d->holder[0]), order);
}

const struct holder *descriptors_holders(struct descriptors *d, enum descriptor_kind kind, uint64_t device,
					 uint64_t id, size_t *n)
{
	const struct holder wanted = { .kind = kind, .device = device, .id = id };
	size_t low = 0, high;

	*n = 0;
	read_once(d);
	high = d->n;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (same_object(&d->holder[middle], &wanted) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	while (low + *n < d->n && !same_object(&d->holder[low + *n], &wanted))
		++*n;
	return *n ? &d->holder[low] : NULL;
}

unsigned int descriptors_denied(struct descriptors *d)
{
	read_once(d);
	return d->denied;
}

bool descriptors_complete(struct descriptors *d)
{
	read_once(d);
	return !d->failed;
}

const struct socket_ends *descriptors_sockets(struct descriptors *d)
{
	if (!d->sockets)
		d->sockets = socket_ends_new();
	return d->sockets;
}
