/*
 * Two sources. fdinfo has the locks that belong to an open file ("lock:" lines), and so names all who hold that file now; a
 * lock of flock(2) or of an open file description outlives the process that took it when a child inherited the
 * descriptor. /proc/locks has the locks of those whose descriptors may not be read, but only by the pid that took them.
 */
#include "watchctl/flow/explain/wait_file_lock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/text_buf.h"

enum lock_kind { LOCK_FLOCK, LOCK_POSIX, LOCK_OFD };

/* Lines as in /proc/locks. The end is included. */
struct file_lock {
	enum lock_kind kind;
	bool exclusive;
	pid_t pid; /* that took it; -1: of an open file description; 0: it is not in our pid namespace */
	uint64_t device, inode, start, end;
};

struct lock_wait {
	const struct waiter *by;
	int fd;
	struct descriptor it;
	struct file_lock wish;
	const struct holder *holder;
	size_t nholders;
	struct wait *ret;
};

static const char *const kind_name[] = {
	[LOCK_FLOCK] = "FLOCK", [LOCK_POSIX] = "POSIX", [LOCK_OFD] = "OFDLCK"
};

/* After the number and the colon. False: it is a lease, or a wait ("->"). */
static bool parse_lock(const char *text, struct file_lock *ret)
{
	char kind[8], mode[8], end[24];
	unsigned int major, minor;

	if (sscanf(text, "%*d: %7s %*15s %7s %d %x:%x:%" SCNu64 " %" SCNu64 " %23s", kind, mode, &ret->pid,
		   &major, &minor, &ret->inode, &ret->start, end) != 8)
		return false;
	ret->device = (uint64_t)major << 32 | minor;
	ret->end = strcmp(end, "EOF") == 0 ? INT64_MAX : strtoull(end, NULL, 10);
	ret->exclusive = !strcmp(mode, "WRITE");
	for (ret->kind = LOCK_FLOCK; ret->kind <= LOCK_OFD; ret->kind++)
		if (!strcmp(kind, kind_name[ret->kind]))
			return true;
	return false;
}

/* Locks of flock(2) and of fcntl(2) do not see each other. */
static bool conflicts(const struct file_lock *a, const struct file_lock *b)
{
	return (a->kind == LOCK_FLOCK) == (b->kind == LOCK_FLOCK) && (a->exclusive || b->exclusive) &&
	       a->start <= b->end && b->start <= a->end;
}

static bool is_own(const struct lock_wait *w, const struct file_lock *l)
{
	return l->kind == LOCK_POSIX && w->wish.kind == LOCK_POSIX && l->pid == w->by->pid;
}

/* A lock of the open file that is waited with is no obstacle, whoever else has it. */
static bool is_same_open_file(const struct lock_wait *w, const struct holder *h)
{
	if (h->pid == w->by->pid && h->fd == w->fd)
		return true;
	return syscall(SYS_kcmp, w->by->pid, h->pid, KCMP_FILE, (unsigned long)w->fd, (unsigned long)h->fd) ==
	       0;
}

static bool has_ended(pid_t pid)
{
	return pid > 0 && kill(pid, 0) != 0 && errno == ESRCH;
}

static void say_owner(struct lock_wait *w, const struct file_lock *l, const struct holder *h)
{
	char process[PROCESS_TEXT];

	if (w->ret->n > 1)
		return;
	wait_process_text(h->pid, process);
	wait_evidence(w->ret, "the open file of descriptor %d of %s has the lock (%s %s", h->fd, process,
		      kind_name[l->kind], l->exclusive ? "WRITE" : "READ");
	if (l->kind != LOCK_FLOCK && l->end == INT64_MAX)
		wait_evidence(w->ret, ", bytes from %" PRIu64 " on", l->start);
	else if (l->kind != LOCK_FLOCK)
		wait_evidence(w->ret, ", bytes %" PRIu64 " to %" PRIu64, l->start, l->end);
	wait_evidence(w->ret, ")%s", h->pid == w->by->pid ? ": the waiting process itself" : "");
	if (l->pid != h->pid && has_ended(l->pid))
		wait_evidence(w->ret,
			      "; process %d, which took it, has ended, and the descriptor was inherited",
			      l->pid);
}

/* Of one holder of the file: the first lock that is in the way. */
static void by_open_file(struct lock_wait *w, const struct holder *h)
{
	scoped(text_buf_deinit) struct text_buf info = { 0 };
	const char *line;
	struct file_lock l;
	char why[sizeof(w->ret->whom->why)];

	if (!descriptor_info(h->pid, h->pid, h->fd, &info))
		return;
	for (line = info_field(text_buf_text(&info), "lock:"); line; line = info_field(line, "lock:")) {
		if (!parse_lock(line, &l) || !conflicts(&l, &w->wish) || is_own(w, &l) ||
		    is_same_open_file(w, h))
			continue;
		snprintf(why, sizeof(why), "the lock is of the open file of its descriptor %d", h->fd);
		if (wait_add(w->ret, h->pid, 0, false, why))
			say_owner(w, &l, h);
		return;
	}
}

static bool holds_file(const struct lock_wait *w, pid_t pid)
{
	for (size_t i = 0; i < w->nholders; i++)
		if (w->holder[i].pid == pid)
			return true;
	return false;
}

/* Some file systems give stat(2) another device than /proc/locks: there, who has the file open decides. */
static bool is_of_file(const struct lock_wait *w, const struct file_lock *l)
{
	return l->inode == w->it.id && (l->device == w->it.device || holds_file(w, l->pid));
}

static void by_pid(struct lock_wait *w, const struct file_lock *l)
{
	char process[PROCESS_TEXT];
	const bool certain = l->kind == LOCK_POSIX;

	if (l->pid <= 0 || has_ended(l->pid)) {
		wait_evidence(w->ret, "%s/proc/locks has a lock of %s, but no descriptor of it can be seen",
			      *w->ret->evidence ? "; " : "",
			      l->pid > 0 ? "a process that has ended" : "an open file");
		return;
	}
	if (!wait_add(w->ret, l->pid, 0, !certain,
		      certain ? "/proc/locks: the lock is its" : "/proc/locks: it took the lock"))
		return;
	wait_process_text(l->pid, process);
	wait_evidence(w->ret, "%s/proc/locks: %s took the lock (%s)", *w->ret->evidence ? "; " : "", process,
		      kind_name[l->kind]);
}

/* A lock that an open file was seen to have needs no pid; nor does one of a process whose open files were looked at. */
static bool is_explained(const struct lock_wait *w, const struct file_lock *l)
{
	if (l->kind != LOCK_POSIX)
		return w->ret->n > 0 || holds_file(w, l->pid);
	for (size_t i = 0; i < w->ret->n; i++)
		if (w->ret->whom[i].pid == l->pid)
			return true;
	return false;
}

static void read_locks(struct lock_wait *w)
{
	char line[160];
	struct file_lock l;

	scoped(fclosep) FILE *f = fopen("/proc/locks", "re");
	if (!f)
		return;
	while (fgets(line, sizeof(line), f))
		if (parse_lock(line, &l) && is_of_file(w, &l) && conflicts(&l, &w->wish) && !is_own(w, &l) &&
		    !is_explained(w, &l))
			by_pid(w, &l);
}

static void judge_lock(struct lock_wait *w)
{
	struct wait *ret = w->ret;

	if (!ret->n) {
		if (!*ret->evidence)
			wait_evidence(
				ret,
				"no lock of this machine is in the way now; if its file system is of another "
				"machine, that one knows");
		return;
	}
	wait_only_holders(w->by, "the open file", ret);
	for (size_t i = 0; i < ret->n; i++)
		if (ret->whom[i].guessed)
			ret->ender = ENDER_SOME;
}

static void find_owners(struct lock_wait *w)
{
	w->holder = descriptors_holders(w->by->d, w->it.kind, w->it.device, w->it.id, &w->nholders);
	for (size_t i = 0; i < w->nholders; i++)
		by_open_file(w, &w->holder[i]);
	read_locks(w);
	judge_lock(w);
}

static bool begin(struct lock_wait *w)
{
	w->ret->kind = WAIT_FILE_LOCK;
	if (!descriptor_read(w->by->d, w->by->pid, w->by->tid, w->fd, &w->it)) {
		wait_what(w->ret, "a file lock (descriptor %d)", w->fd);
		wait_evidence(w->ret, "the descriptor cannot be read");
		return false;
	}
	w->ret->object = w->it.id;
	wait_what(w->ret, "the file lock on %s (descriptor %d)", w->it.name, w->fd);
	return true;
}

void wait_flock(const struct waiter *by, int fd, int operation, struct wait *ret)
{
	struct lock_wait w = { .by = by,
			       .fd = fd,
			       .wish = { LOCK_FLOCK, .exclusive = operation & LOCK_EX, .end = INT64_MAX },
			       .ret = ret };

	if (begin(&w))
		find_owners(&w);
}

static uint64_t position(const struct lock_wait *w)
{
	scoped(text_buf_deinit) struct text_buf info = { 0 };
	const char *value = NULL;

	if (descriptor_info(w->by->pid, w->by->tid, w->fd, &info))
		value = info_field(text_buf_text(&info), "pos:");
	return value ? strtoull(value, NULL, 10) : 0;
}

/* The bytes that struct flock @f means. */
static void set_range(struct lock_wait *w, const struct flock *f)
{
	uint64_t start = (uint64_t)f->l_start, len = (uint64_t)f->l_len;

	if (f->l_whence == SEEK_CUR)
		start += position(w);
	else if (f->l_whence == SEEK_END)
		start += w->it.size;
	if (f->l_len < 0)
		start += len;
	w->wish.start = start;
	w->wish.end = !f->l_len ? INT64_MAX : f->l_len < 0 ? start - len - 1 : start + len - 1;
}

void wait_record_lock(const struct waiter *by, int fd, int command, uint64_t lock, struct wait *ret)
{
	struct lock_wait w = { .by = by,
			       .fd = fd,
			       .wish = { .kind = command == F_OFD_SETLKW ? LOCK_OFD : LOCK_POSIX },
			       .ret = ret };
	struct flock f;

	if (!begin(&w))
		return;
	if (!memory_read(by->mem, lock, &f, sizeof(f))) {
		wait_evidence(ret, "the range of the lock cannot be read");
		return;
	}
	w.wish.exclusive = f.l_type == F_WRLCK;
	set_range(&w, &f);
	find_owners(&w);
}

/* Tries again and again */

/* A descriptor of the process that may try, for writing. */
struct open_file {
	pid_t pid;
	int fd;
	struct descriptor it;
};

static bool read_open_file(const struct waiter *by, int fd, struct open_file *ret)
{
	ret->pid = by->pid;
	ret->fd = fd;
	return descriptor_read(by->d, by->pid, by->tid, fd, &ret->it) && ret->it.kind == DESCRIPTOR_FILE &&
	       ret->it.writes;
}

/* A descriptor that was inherited has the number that it had, and with it the lock of flock(2). */
static bool is_shared(const struct open_file *f, pid_t with)
{
	return syscall(SYS_kcmp, f->pid, with, KCMP_FILE, (unsigned long)f->fd, (unsigned long)f->fd) == 0;
}

static bool is_in_way(const struct open_file *f, const struct file_lock *l)
{
	return l->exclusive && l->inode == f->it.id && l->device == f->it.device && l->pid > 0 &&
	       l->pid != f->pid && !has_ended(l->pid) && !is_shared(f, l->pid);
}

static bool add_retried(FILE *locks, const struct open_file *f, double sleep_s, struct wait *ret)
{
	char line[160], process[PROCESS_TEXT];
	struct file_lock l;

	rewind(locks);
	while (fgets(line, sizeof(line), locks)) {
		if (!parse_lock(line, &l) || !is_in_way(f, &l) ||
		    !wait_add(ret, l.pid, 0, true,
			      "it has a lock on a file that the waiting process has open"))
			continue;
		ret->kind = WAIT_FILE_LOCK;
		ret->ender = ENDER_SOME;
		ret->has_limit = true;
		ret->object = f->it.id;
		wait_process_text(l.pid, process);
		wait_what(ret, "the file lock on %s (descriptor %d)", f->it.name, f->fd);
		wait_evidence(ret,
			      "it sleeps for %.9g s, as between two tries, and /proc/locks: %s has an "
			      "exclusive lock (%s) on that file",
			      sleep_s, process, kind_name[l.kind]);
		return true;
	}
	return false;
}

bool wait_lock_retry(const struct waiter *by, double sleep_s, struct wait *ret)
{
	const struct dirent *entry;
	struct open_file f;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/fd", by->pid);
	scoped(closedirp) DIR *dir = opendir(path);
	scoped(fclosep) FILE *locks = fopen("/proc/locks", "re");

	while (dir && locks && (entry = readdir(dir)))
		if (entry->d_name[0] != '.' && read_open_file(by, atoi(entry->d_name), &f) &&
		    add_retried(locks, &f, sleep_s, ret))
			return true;
	return false;
}
