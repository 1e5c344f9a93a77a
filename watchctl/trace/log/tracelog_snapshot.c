/*
 * A snapshot is made under another name beside its own and renamed when it is whole, and on the disk. Files
 * that the recorder has completed are linked where that can be: they are never written again, only removed,
 * and a link keeps them. The last one is copied up to its last whole packet.
 */
#include "watchctl/trace/log/tracelog_snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/vec.h"
#include "watchctl/base/write_all.h"
#include "watchctl/trace/log/tracelog_damage.h"
#include "watchctl/trace/log/tracelog_files.h"
#include "watchctl/trace/log/tracelog_reader.h"

#define FLUSH_WAIT_NS 2000000000ull
#define FLUSH_LOOK_NS 5000000
#define COPY_CHUNK (256u << 10)

/*
 * A file of calls, or of the system's events, up to where it was when the snapshot began: the functions of calls are among
 * the events that come then.
 */
struct beside_file {
	char *name;
	uint64_t size;
};

struct snapshot {
	const char *to; /* as the user calls it */
	char *hidden;	/* until it is whole */
	int dir;
	struct tracelog_reader *log;
	struct beside_file *beside;
	size_t nbeside, beside_cap;
	struct snapshot_info info;
};

static struct wc_error *cannot_save(const struct snapshot *s, int err)
{
	return wc_error_hint(wc_error_errno(WC_ELOG, err, "cannot save the snapshot %s", s->to),
			     "nothing of it is left");
}

/* Waiting */

/* Until the recorder has written what it had when we were asked. */
static void wait_for_flush(struct snapshot *s, const char *path)
{
	const struct timespec pause = { .tv_nsec = FLUSH_LOOK_NS };
	scoped(closep) int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint64_t flushed;

	s->info.asked_ns = monotonic_ns();
	s->info.flushed = true;
	s->info.recording = dir >= 0 && tracelog_mark_held(dir, &flushed);
	while (s->info.recording && flushed <= s->info.asked_ns) {
		if (monotonic_ns() - s->info.asked_ns > FLUSH_WAIT_NS) {
			s->info.flushed = false;
			return;
		}
		nanosleep(&pause, NULL);
		/* When it has gone, it has written everything, or never will. */
		if (!tracelog_mark_held(dir, &flushed))
			return;
	}
}

/* Which part */

/* The head of the packet at @at of @f; false: there is none, or *@err. */
static bool packet_head(struct snapshot *s, const struct log_file *f, uint64_t at, uint8_t *head,
			struct wc_error **err)
{
	*err = NULL;
	return f->size - at >= TRACELOG_PACKET_HEAD &&
	       tracelog_reader_bytes(s->log, f, at, head, TRACELOG_PACKET_HEAD, err) &&
	       !tracelog_check_head(&s->log->id, head);
}

/*
 * Walks over the packets of @f, and over what is damaged between them: the last one that is whole ends behind *@whole
 * bytes, at *@end_ns.
 */
static struct wc_error *tracelog_snapshot_measure(struct snapshot *s, const struct log_file *f,
						  uint64_t *whole, uint64_t *end_ns)
{
	uint8_t head[TRACELOG_PACKET_HEAD];
	struct wc_error *err = NULL;
	uint64_t at;

	*whole = 0;
	while (tracelog_find_packet(s->log, f, *whole, &at, &err) && packet_head(s, f, at, head, &err)) {
		*end_ns = tracelog_head_u64(head, TRACELOG_OFF_END);
		*whole = at + tracelog_head_u64(head, TRACELOG_OFF_PACKET) / 8;
	}
	return err;
}

/* 0: not known. */
static struct wc_error *begin_of(struct snapshot *s, const struct log_file *f, uint64_t *ret)
{
	uint8_t head[TRACELOG_PACKET_HEAD];
	struct wc_error *err;

	*ret = 0;
	if (packet_head(s, f, 0, head, &err))
		*ret = tracelog_head_u64(head, TRACELOG_OFF_BEGIN);
	return err;
}

/* The first file that is needed, for what happened after @cutoff_ns. */
static struct wc_error *choose_first(struct snapshot *s, uint64_t cutoff_ns, size_t *ret)
{
	struct wc_error *err = NULL;
	uint64_t begin;
	size_t i;

	for (i = s->log->nfiles - 1; i > 0 && !err; i--) {
		err = begin_of(s, &s->log->file[i], &begin);
		if (!err && begin && begin <= cutoff_ns)
			break;
	}
	*ret = i;
	return err;
}

/* Copying */

static int copy_bytes(int in, int out, uint64_t len)
{
	scoped(freep) uint8_t *buf = malloc(COPY_CHUNK);
	off_t at = 0;

	if (!buf)
		return ENOMEM;
	while ((uint64_t)at < len) {
		uint64_t left = len - (uint64_t)at;
		ssize_t n = pread(in, buf, left < COPY_CHUNK ? left : COPY_CHUNK, at);
		int err;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? errno : EIO;
		err = write_all(out, buf, (size_t)n);
		if (err)
			return err;
		at += n;
	}
	return 0;
}

/* The kernel may share the blocks, or copy within the file system. 0, or an errno. */
static int copy(int in, int out, uint64_t len)
{
	off_t from = 0, to = 0;
	ssize_t n = 1;

	while ((uint64_t)to < len && n > 0) {
		n = copy_file_range(in, &from, out, &to, (size_t)(len - (uint64_t)to), 0);
		if (n < 0 && errno == EINTR)
			n = 1;
	}
	if ((uint64_t)to == len)
		return 0;
	if (n < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EIO || errno == EFBIG))
		return errno;
	if (lseek(out, 0, SEEK_SET) < 0 || ftruncate(out, 0) < 0)
		return errno;
	return copy_bytes(in, out, len);
}

static struct wc_error *save_bytes(struct snapshot *s, int in, uint64_t len, const char *name)
{
	scoped(closep) int out = tracelog_file_create(s->dir, name);
	int err = out < 0 ? errno : copy(in, out, len);

	if (!err && fsync(out) < 0)
		err = errno;
	if (err)
		return cannot_save(s, err);
	s->info.bytes += len;
	return NULL;
}

/* A file that is complete: by a link, if it is still there and on the same file system. */
static struct wc_error *save_complete(struct snapshot *s, const struct log_file *f, const char *name)
{
	struct stat there, ours;

	if (linkat(s->log->dir, name, s->dir, name, 0) == 0) {
		if (fstat(f->fd, &ours) == 0 && fstatat(s->dir, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
		    there.st_ino == ours.st_ino && there.st_dev == ours.st_dev) {
			if (fsync(f->fd) < 0) /* the recorder does not wait for the disk */
				return cannot_save(s, errno);
			s->info.bytes += f->size;
			return NULL;
		}
		unlinkat(s->dir, name, 0);
	}
	return save_bytes(s, f->fd, f->size, name);
}

/* "metadata" and "symbols", if there is one. */
static struct wc_error *save_other(struct snapshot *s, const char *name, bool must)
{
	scoped(closep) int in = openat(s->log->dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (in < 0 && errno == ENOENT && !must)
		return NULL;
	if (in < 0 || fstat(in, &st) < 0)
		return wc_error_errno(WC_ELOG, errno, "cannot read %s/%s", s->log->path, name);
	if (!S_ISREG(st.st_mode))
		return NULL;
	return save_bytes(s, in, (uint64_t)st.st_size, name);
}

static struct wc_error *save_files(struct snapshot *s, size_t first, uint64_t whole)
{
	const size_t last = s->log->nfiles - 1;
	struct wc_error *err;
	size_t i;

	err = save_other(s, "metadata", true);
	if (!err)
		err = save_other(s, "symbols", false);
	for (i = first; i <= last && !err; i++) {
		const struct log_file *f = &s->log->file[i];
		char name[TRACELOG_NAME_MAX] = TRACELOG_PLAIN;

		/* The recorder has begun it, and written no packet: in the snapshot it would look like one that was cut. */
		if (i == last && i > first && !whole && tracelog_mark_exists(s->log->dir))
			break;
		if (s->log->ring)
			tracelog_file_name(f->number, name);
		err = i < last ? save_complete(s, f, name) : save_bytes(s, f->fd, whole, name);
		s->info.files++;
	}
	return err;
}

/* Calls, and the system's events */

static struct wc_error *add_beside(struct snapshot *s, int dir, const char *path, const char *name)
{
	struct beside_file f = { 0 };
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT && tracelog_is_flow(name)
			       ? NULL
			       : wc_error_errno(WC_ELOG, errno, "cannot read %s/%s", path, name);
	if (!S_ISREG(st.st_mode))
		return NULL;
	f.size = (uint64_t)st.st_size;
	s->info.has_flow |= tracelog_is_flow(name);
	f.name = strdup(name);
	if (f.name && vec_push(s->beside, s->nbeside, s->beside_cap, f))
		return NULL;
	free(f.name);
	return &wc_enomem;
}

static struct wc_error *find_beside(struct snapshot *s, const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	scoped(closedirp) DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct wc_error *err = NULL;
	const struct dirent *e;

	if (fd >= 0 && !d)
		close(fd);
	while (d && !err && (e = readdir(d)))
		if (tracelog_is_beside(e->d_name))
			err = add_beside(s, fd, path, e->d_name);
	return err;
}

/* Its whole packets, as those of events; what is damaged in a log that is not being recorded stays as it is. */
static uint64_t whole_beside(const struct snapshot *s, int fd, const struct beside_file *f)
{
	uint8_t head[TRACELOG_PACKET_HEAD];
	uint64_t at = 0, packet;
	uint32_t magic;

	while (s->info.recording && at < f->size) {
		if (pread(fd, head, sizeof(head), (off_t)at) != (ssize_t)sizeof(head))
			return at;
		memcpy(&magic, head, sizeof(magic));
		packet = tracelog_head_u64(head, TRACELOG_OFF_PACKET) / 8;
		if (magic != TRACELOG_MAGIC || packet < sizeof(head) || packet > f->size - at)
			return at;
		at += packet;
	}
	return f->size;
}

static struct wc_error *save_beside(struct snapshot *s)
{
	struct wc_error *err = NULL;

	for (size_t i = 0; i < s->nbeside && !err; i++) {
		const struct beside_file *f = &s->beside[i];
		scoped(closep) int in =
			openat(s->log->dir, f->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);

		if (in < 0 && errno == ENOENT && tracelog_is_flow(f->name))
			continue; /* it was the oldest one of a flight recorder */
		if (in < 0)
			return wc_error_errno(WC_ELOG, errno, "cannot read %s/%s", s->log->path, f->name);
		err = save_bytes(s, in, whole_beside(s, in, f), f->name);
	}
	return err;
}

/* The directory */

char *tracelog_hidden_name(const char *to, const char *infix)
{
	size_t len = strlen(to);
	const char *name;
	char *ret;

	while (len > 1 && to[len - 1] == '/')
		len--;
	name = memrchr(to, '/', len);
	name = name ? name + 1 : to;
	if (asprintf(&ret, "%.*s.%.*s%s.%d", (int)(name - to), to, (int)(to + len - name), name, infix,
		     getpid()) < 0)
		return NULL;
	return ret;
}

static struct wc_error *make_directory(struct snapshot *s)
{
	struct stat st;

	if (lstat(s->to, &st) == 0)
		return wc_error_new(WC_ELOG, "%s exists already; choose another name or remove it", s->to);
	s->hidden = tracelog_hidden_name(s->to, "");
	if (!s->hidden)
		return &wc_enomem;
	if (mkdir(s->hidden, 0700) < 0) {
		int err = errno;

		free(take_ptr(s->hidden));
		if (err == ENOENT)
			return wc_error_new(WC_ELOG,
					    "cannot save the snapshot %s: the directory "
					    "it should be in does not exist",
					    s->to);
		return cannot_save(s, err);
	}
	s->dir = open(s->hidden, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return s->dir < 0 ? cannot_save(s, errno) : NULL;
}

static struct wc_error *give_name(struct snapshot *s)
{
	struct stat st;
	int failed;

	if (fsync(s->dir) < 0 && errno != EINVAL)
		return cannot_save(s, errno);
	failed = renameat2(AT_FDCWD, s->hidden, AT_FDCWD, s->to, RENAME_NOREPLACE) < 0 ? errno : 0;
	if (failed == EINVAL || failed == ENOSYS) /* a file system that does not know the flag */
		failed = lstat(s->to, &st) == 0 ? EEXIST : rename(s->hidden, s->to) < 0 ? errno : 0;
	if (failed)
		return cannot_save(s, failed);
	free(take_ptr(s->hidden));
	return NULL;
}

static void snapshot_deinit(struct snapshot *s)
{
	size_t i;

	if (s->hidden && s->dir >= 0) {
		for (i = 0; s->log && i < s->log->nfiles; i++) {
			char name[TRACELOG_NAME_MAX];

			tracelog_file_name(s->log->file[i].number, name);
			unlinkat(s->dir, name, 0);
		}
		unlinkat(s->dir, TRACELOG_PLAIN, 0);
		unlinkat(s->dir, "metadata", 0);
		unlinkat(s->dir, "symbols", 0);
		tracelog_beside_remove(s->dir);
	}
	for (i = 0; i < s->nbeside; i++)
		free(s->beside[i].name);
	free(s->beside);
	if (s->hidden)
		rmdir(s->hidden);
	free(s->hidden);
	if (s->dir >= 0)
		close(s->dir);
	tracelog_reader_close(s->log);
}

static struct wc_error *save(struct snapshot *s, const char *src, uint64_t last_ns)
{
	const struct log_file *f;
	struct wc_error *err;
	uint64_t whole = 0, end, now;
	size_t first = 0;

	wait_for_flush(s, src);
	err = find_beside(s, src);
	err = wc_error_first(tracelog_reader_open(src, &s->log), err);
	if (err)
		return err;
	f = &s->log->file[s->log->nfiles - 1];
	err = tracelog_snapshot_measure(s, f, &whole, &s->info.end_ns);
	if (err)
		return err;
	if (!s->info.recording)
		s->info.ignored = f->size - whole;
	s->info.is_ring = s->log->ring;
	end = s->info.end_ns;
	now = s->info.recording ? s->info.asked_ns : end;
	if (last_ns && s->log->ring && now)
		err = choose_first(s, now > last_ns ? now - last_ns : 0, &first);
	if (!err)
		err = begin_of(s, &s->log->file[first], &s->info.begin_ns);
	if (!err)
		err = make_directory(s);
	if (!err)
		err = save_files(s, first, whole);
	if (!err)
		err = save_beside(s);
	return err ? err : give_name(s);
}

struct wc_error *tracelog_snapshot(const char *src, const char *dst, uint64_t last_ns,
				   struct snapshot_info *ret)
{
	struct snapshot s = { .to = dst, .dir = -1 };
	struct wc_error *err = save(&s, src, last_ns);

	if (!err && ret)
		*ret = s.info;
	snapshot_deinit(&s);
	return err;
}
