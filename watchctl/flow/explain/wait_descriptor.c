#include "watchctl/flow/explain/wait_descriptor.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/utf8.h"
#include "watchctl/flow/explain/descriptors.h"
#include "watchctl/flow/explain/wait_events.h"
#include "watchctl/flow/explain/wait_file_lock.h"
#include "watchctl/flow/explain/wait_object.h"
#include "watchctl/target/proc/proc.h"

/* A call that is waited in. */
struct call {
	const struct waiter *by;
	long number;
	const uint64_t *arg;
};

static int fd_arg(const struct call *c, unsigned int i)
{
	return (int)c->arg[i];
}

static void do_read(const struct call *c, struct wait *ret)
{
	wait_object(c->by, fd_arg(c, 0), WANTED_READ, ret, NULL);
}

static void do_write(const struct call *c, struct wait *ret)
{
	wait_object(c->by, fd_arg(c, 0), WANTED_WRITE, ret, NULL);
}

static void do_accept(const struct call *c, struct wait *ret)
{
	wait_object(c->by, fd_arg(c, 0), WANTED_CONNECTION, ret, NULL);
}

static void do_connect(const struct call *c, struct wait *ret)
{
	if (!wait_unix_address(c->by, fd_arg(c, 0), c->arg[1], c->arg[2], true, ret))
		wait_object(c->by, fd_arg(c, 0), WANTED_CONNECT, ret, NULL);
}

static void do_sendto(const struct call *c, struct wait *ret)
{
	if (!c->arg[4] || !wait_unix_address(c->by, fd_arg(c, 0), c->arg[4], c->arg[5], false, ret))
		do_write(c, ret);
}

/* The first message of sendmmsg(2) begins as that of sendmsg(2). */
static void do_sendmsg(const struct call *c, struct wait *ret)
{
	struct msghdr m;

	if (!memory_read(c->by->mem, c->arg[1], &m, sizeof(m)) || !m.msg_name ||
	    !wait_unix_address(c->by, fd_arg(c, 0), (uintptr_t)m.msg_name, m.msg_namelen, false, ret))
		do_write(c, ret);
}

/* To a pipe's write end it writes; from its read end it reads. */
static void do_vmsplice(const struct call *c, struct wait *ret)
{
	struct descriptor it;

	if (descriptor_read(c->by->d, c->by->pid, c->by->tid, fd_arg(c, 0), &it) && !it.writes)
		do_read(c, ret);
	else
		do_write(c, ret);
}

static void do_splice(const struct call *c, struct wait *ret)
{
	wait_move(c->by, fd_arg(c, 0), fd_arg(c, 2), ret);
}

static void do_tee(const struct call *c, struct wait *ret)
{
	wait_move(c->by, fd_arg(c, 0), fd_arg(c, 1), ret);
}

static void do_sendfile(const struct call *c, struct wait *ret)
{
	wait_move(c->by, fd_arg(c, 1), fd_arg(c, 0), ret);
}

static void do_poll(const struct call *c, struct wait *ret)
{
	ret->has_limit = c->number == SYS_poll ? (int)c->arg[2] >= 0 : c->arg[2] != 0;
	wait_poll(c->by, c->arg[0], (unsigned int)c->arg[1], ret);
}

static void do_select(const struct call *c, struct wait *ret)
{
	ret->has_limit = c->arg[4] != 0;
	wait_select(c->by, fd_arg(c, 0), c->arg[1], c->arg[2], ret);
}

static void do_epoll(const struct call *c, struct wait *ret)
{
	ret->has_limit = c->number == SYS_epoll_pwait2 ? c->arg[3] != 0 : (int)c->arg[3] >= 0;
	wait_epoll(c->by, fd_arg(c, 0), ret);
}

static void do_flock(const struct call *c, struct wait *ret)
{
	wait_flock(c->by, fd_arg(c, 0), (int)c->arg[1], ret);
}

static void do_fcntl(const struct call *c, struct wait *ret)
{
	wait_record_lock(c->by, fd_arg(c, 0), (int)c->arg[1], c->arg[2], ret);
}

static void do_io_uring(const struct call *c, struct wait *ret)
{
	ret->kind = WAIT_EVENTS;
	wait_what(ret, "completions of the io_uring (descriptor %d)", fd_arg(c, 0));
	wait_evidence(ret, "which requests an io_uring has is not to be seen from outside");
}

/* Any process may open a queue by its name: those that have it open are not all. */
static void of_queue(const struct call *c, bool reads, struct wait *ret)
{
	const int fd = fd_arg(c, 0);
	struct descriptor it;
	size_t n;

	ret->kind = WAIT_PEER;
	ret->has_limit = c->arg[4] != 0;
	if (!descriptor_read(c->by->d, c->by->pid, c->by->tid, fd, &it)) {
		wait_what(ret, "a message queue (descriptor %d)", fd);
		wait_evidence(ret, "the descriptor cannot be read");
		return;
	}
	ret->object = it.id;
	wait_what(ret, "%s the message queue %s (descriptor %d)", reads ? "a message from" : "room in",
		  it.name, fd);
	const struct holder *h = descriptors_holders(c->by->d, it.kind, it.device, it.id, &n);
	wait_add_holders(c->by, h, n, reads ? HOLDER_WRITES : HOLDER_READS, "the queue", ret);
	ret->ender = ret->n ? ENDER_SOME : ENDER_UNKNOWN;
	wait_evidence(ret, "%sany process may open it by its name", *ret->evidence ? "; " : "");
}

static void do_mq_receive(const struct call *c, struct wait *ret)
{
	of_queue(c, true, ret);
}

static void do_mq_send(const struct call *c, struct wait *ret)
{
	of_queue(c, false, ret);
}

/* The text at @addr, as much of it as there is. False: none of it can be read, or it is too long. */
static bool read_path(const struct memory_view *mem, uint64_t addr, char ret[PATH_MAX])
{
	for (size_t n = 0; n < PATH_MAX; n++)
		if (!memory_read(mem, addr + n, ret + n, 1))
			return false;
		else if (!ret[n])
			return true;
	return false;
}

/* Arguments of open(2) and its like. */
struct opening {
	int dir;
	int flags;
	char path[PATH_MAX];
};

static bool read_opening(const struct call *c, struct opening *ret)
{
	const bool at = c->number == SYS_openat || c->number == SYS_openat2;
	struct open_how how;

	ret->dir = at ? fd_arg(c, 0) : AT_FDCWD;
	ret->flags = (int)c->arg[at ? 2 : 1];
	if (c->number == SYS_creat)
		ret->flags = O_WRONLY;
	if (c->number == SYS_openat2) {
		if (!memory_read(c->by->mem, c->arg[2], &how, sizeof(how)))
			return false;
		ret->flags = (int)how.flags;
	}
	return read_path(c->by->mem, c->arg[at ? 1 : 0], ret->path);
}

/* The directory that the path begins at, as the process sees it. */
static int open_start(pid_t pid, const struct opening *o)
{
	char path[64], from[24] = "cwd";

	if (o->path[0] == '/')
		strcpy(from, "root");
	else if (o->dir != AT_FDCWD)
		snprintf(from, sizeof(from), "fd/%d", o->dir);
	snprintf(path, sizeof(path), "/proc/%d/%s", pid, from);
	return open(path, O_PATH | O_CLOEXEC);
}

/*
 * Looks at the file without opening it, and only if the kernel has all of the path in memory, as it has of a FIFO that is being
 * opened: to look a path up on a server that does not answer would be to wait as the thread does. Linux 5.12.
 */
static bool stat_opening(pid_t pid, const struct opening *o, struct statx *ret)
{
	const struct open_how how = { .flags = O_PATH | O_CLOEXEC,
				      .resolve = RESOLVE_CACHED | (o->path[0] == '/' ? RESOLVE_IN_ROOT : 0) };

	scoped(closep) int start = open_start(pid, o);
	if (start < 0)
		return false;
	scoped(closep) int file = (int)syscall(SYS_openat2, start, o->path, &how, sizeof(how));
	return file >= 0 &&
	       statx(file, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, ret) == 0;
}

static void do_open(const struct call *c, struct wait *ret)
{
	struct opening o;
	struct statx s;

	ret->kind = WAIT_KERNEL;
	if (!read_opening(c, &o)) {
		wait_what(ret, "a file to be opened");
		wait_evidence(ret, "its path cannot be read");
		return;
	}
	wait_what(ret, "the file %.200s to be opened", o.path);
	if (!stat_opening(c->by->pid, &o, &s)) {
		wait_evidence(ret, "the file of that path cannot be looked at without waiting for it");
	} else if (!S_ISFIFO(s.stx_mode)) {
		wait_evidence(ret, "it is no FIFO: its file system, device or a lease is in the way");
	} else {
		const bool reads = (o.flags & O_ACCMODE) == O_RDONLY;

		ret->kind = WAIT_PEER;
		ret->object = s.stx_ino;
		ret->what[0] = '\0';
		wait_what(ret, "a %s of the FIFO %.200s", reads ? "writer" : "reader", o.path);
		wait_evidence(
			ret,
			"it opens a FIFO, and no process has it open for %s: any that opens it so ends the wait",
			reads ? "writing" : "reading");
	}
}

static const struct {
	long number;
	void (*fn)(const struct call *c, struct wait *ret);
} calls[] = {
	{ SYS_read, do_read },
	{ SYS_readv, do_read },
	{ SYS_pread64, do_read },
	{ SYS_preadv, do_read },
	{ SYS_preadv2, do_read },
	{ SYS_recvfrom, do_read },
	{ SYS_recvmsg, do_read },
	{ SYS_recvmmsg, do_read },
	{ SYS_write, do_write },
	{ SYS_writev, do_write },
	{ SYS_pwrite64, do_write },
	{ SYS_pwritev, do_write },
	{ SYS_pwritev2, do_write },
	{ SYS_sendto, do_sendto },
	{ SYS_sendmsg, do_sendmsg },
	{ SYS_sendmmsg, do_sendmsg },
	{ SYS_vmsplice, do_vmsplice },
	{ SYS_splice, do_splice },
	{ SYS_tee, do_tee },
	{ SYS_sendfile, do_sendfile },
	{ SYS_accept, do_accept },
	{ SYS_accept4, do_accept },
	{ SYS_connect, do_connect },
	{ SYS_poll, do_poll },
	{ SYS_ppoll, do_poll },
	{ SYS_select, do_select },
	{ SYS_pselect6, do_select },
	{ SYS_epoll_wait, do_epoll },
	{ SYS_epoll_pwait, do_epoll },
	{ SYS_epoll_pwait2, do_epoll },
	{ SYS_flock, do_flock },
	{ SYS_fcntl, do_fcntl },
	{ SYS_open, do_open },
	{ SYS_openat, do_open },
	{ SYS_openat2, do_open },
	{ SYS_creat, do_open },
	{ SYS_mq_timedreceive, do_mq_receive },
	{ SYS_mq_timedsend, do_mq_send },
	{ SYS_io_uring_enter, do_io_uring },
};

static bool may_wait(long number, const uint64_t arg[6])
{
	return number != SYS_fcntl || (int)arg[1] == F_SETLKW || (int)arg[1] == F_OFD_SETLKW;
}

static bool has_other_threads(pid_t pid)
{
	struct thread_ids ids = { 0 };
	const bool ret = proc_threads(pid, &ids) && ids.n > 1;

	thread_ids_deinit(&ids);
	return ret;
}

/* Paths, names of sockets and of processes are of others' making; and a text may have been cut inside a character. */
static void clean(struct wait *w)
{
	char text[WAIT_TEXT] = "";

	memcpy(w->what, utf8_clean(w->what, text, sizeof(text)), sizeof(text));
	memcpy(w->evidence, utf8_clean(w->evidence, text, sizeof(text)), sizeof(text));
}

bool wait_descriptor(struct descriptors *d, pid_t pid, pid_t tid, const struct memory_view *mem, long number,
		     const uint64_t arg[6], struct wait *ret)
{
	const struct waiter by = {
		.d = d, .pid = pid, .tid = tid, .mem = mem, .has_threads = has_other_threads(pid)
	};
	const struct call c = { &by, number, arg };

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (calls[i].number != number || !may_wait(number, arg))
			continue;
		*ret = (struct wait){ 0 };
		calls[i].fn(&c, ret);
		clean(ret);
		return true;
	}
	return false;
}
