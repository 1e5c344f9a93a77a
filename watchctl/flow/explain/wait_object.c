#include "watchctl/flow/explain/wait_object.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/text_buf.h"
#include "watchctl/target/proc/proc.h"

#define PID_NS_FIRST 0xEFFFFFFCu /* PROC_PID_INIT_INO of include/linux/proc_ns.h */

void wait_say(char *text, size_t size, const char *fmt, ...)
{
	const size_t len = strlen(text);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text + len, size - len, fmt, ap);
	va_end(ap);
}

void wait_process_text(pid_t pid, char ret[PROCESS_TEXT])
{
	struct proc_status s;

	if (proc_status_read(pid, pid, &s))
		snprintf(ret, PROCESS_TEXT, "%.16s/%d", s.name, pid);
	else
		snprintf(ret, PROCESS_TEXT, "process %d, which has ended", pid);
}

static bool holder_fits(const struct holder *h, enum holder_use use)
{
	return use == HOLDER_ANY || (use == HOLDER_READS ? h->reads : h->writes);
}

/* How many descriptors of other processes than the waiter's fit. */
static size_t of_others(const struct waiter *by, const struct holder *h, size_t n, enum holder_use use)
{
	size_t ret = 0;

	for (size_t i = 0; i < n; i++)
		ret += h[i].pid != by->pid && holder_fits(&h[i], use);
	return ret;
}

static void say_holder(const struct waiter *by, const struct holder *h, const char *role, size_t count,
		       struct wait *w)
{
	char process[PROCESS_TEXT];

	wait_process_text(h->pid, process);
	wait_evidence(w, "%s%s is descriptor %d of ", *w->evidence ? "; " : "", role, h->fd);
	if (h->pid == by->pid && !by->has_threads)
		wait_evidence(w, "%s itself only: it waits for itself", process);
	else if (h->pid == by->pid)
		wait_evidence(w, "%s itself only: of another thread of it", process);
	else
		wait_evidence(w, "%s", process);
	if (count > 1)
		wait_evidence(w, " (%zu descriptors in all)", count);
}

size_t wait_add_holders(const struct waiter *by, const struct holder *h, size_t n, enum holder_use use,
			const char *role, struct wait *ret)
{
	const size_t others = of_others(by, h, n, use);
	const struct holder *first = NULL;
	size_t count = 0;
	char why[sizeof(ret->whom->why)];

	for (size_t i = 0; i < n; i++) {
		const bool self = h[i].pid == by->pid;

		if (!holder_fits(&h[i], use) || (self && others && !by->has_threads))
			continue;
		snprintf(why, sizeof(why), "%s is its descriptor %d", role, h[i].fd);
		if (!wait_add(ret, h[i].pid, 0, false, why))
			continue;
		count++;
		if (!first || (first->pid == by->pid && !self))
			first = &h[i];
	}
	if (first)
		say_holder(by, first, role, count, ret);
	return count;
}

static void say_denied(const struct waiter *by, struct wait *w)
{
	const unsigned int denied = descriptors_denied(by->d);

	if (denied)
		wait_evidence(w, "; the descriptors of %u process%s may not be read", denied,
			      denied == 1 ? "" : "es");
	else
		wait_evidence(w, "; there was no memory for all descriptors");
}

/* In a container, the other end of a pipe is often held outside of it. */
static bool sees_all_processes(void)
{
	struct stat s;

	return stat("/proc/self/ns/pid", &s) == 0 && s.st_ino == PID_NS_FIRST;
}

void wait_only_holders(const struct waiter *by, const char *role, struct wait *ret)
{
	const bool all = !descriptors_denied(by->d) && descriptors_complete(by->d);

	if (!ret->n)
		wait_evidence(ret, "%sno process that can be seen holds %s", *ret->evidence ? "; " : "",
			      role);
	if (ret->n)
		ret->ender = all ? ENDER_THREADS : ENDER_SOME;
	else
		ret->ender = all && sees_all_processes() ? ENDER_NOBODY : ENDER_UNKNOWN;
	if (!all)
		say_denied(by, ret);
	else if (ret->ender == ENDER_UNKNOWN)
		wait_evidence(ret, "; it may be of a process outside of our pid namespace");
}

static const struct holder *holders_of(const struct waiter *by, const struct descriptor *it, size_t *n)
{
	return descriptors_holders(by->d, it->kind, it->device, it->id, n);
}

static void of_pipe(const struct waiter *by, const struct descriptor *it, enum wanted wanted,
		    struct wait *ret)
{
	const bool reads = wanted == WANTED_READ;
	const char *role = reads ? "its write end" : "its read end";
	size_t n;
	const struct holder *h = holders_of(by, it, &n);

	wait_add_holders(by, h, n, reads ? HOLDER_WRITES : HOLDER_READS, role, ret);
	wait_only_holders(by, role, ret);
	/* The kernel would have ended the wait if there were none: then it is where /proc does not look. */
	if (!ret->n)
		wait_evidence(
			ret,
			"; it can only be on its way through a socket (SCM_RIGHTS), or be closed this moment");
}

/* Each descriptor of an eventfd can do all: also the one that is waited on, by another thread. */
static void of_eventfd(const struct waiter *by, const struct descriptor *it, struct wait *ret)
{
	size_t n;
	const struct holder *h = holders_of(by, it, &n);

	if (!it->device) {
		wait_evidence(ret, "this kernel does not say which descriptors are the same eventfd");
		return;
	}
	wait_add_holders(by, h, n, HOLDER_ANY, "the eventfd", ret);
	wait_only_holders(by, "the eventfd", ret);
}

/* A time left of fdinfo "(seconds, nanoseconds)" that is not zero. */
static bool is_armed(const char *value)
{
	uint64_t s, ns;

	return value && sscanf(value, "(%" SCNu64 ", %" SCNu64 ")", &s, &ns) == 2 && (s || ns);
}

static void of_timer(const struct waiter *by, int fd, struct wait *ret)
{
	scoped(text_buf_deinit) struct text_buf info = { 0 };

	if (!descriptor_info(by->pid, by->tid, fd, &info)) {
		wait_evidence(ret, "the state of the timer cannot be read");
	} else if (is_armed(info_field(text_buf_text(&info), "it_value:"))) {
		ret->ender = ENDER_TIME;
		wait_evidence(ret, "the timer is set");
	} else {
		wait_evidence(ret, "the timer is not set: somebody must set it first (timerfd_settime)");
	}
}

static void of_pidfd(const struct waiter *by, int fd, struct wait *ret)
{
	scoped(text_buf_deinit) struct text_buf info = { 0 };
	const char *value = NULL;
	pid_t pid;

	ret->kind = WAIT_CHILD;
	if (descriptor_info(by->pid, by->tid, fd, &info))
		value = info_field(text_buf_text(&info), "Pid:");
	pid = value ? atoi(value) : 0;
	if (pid <= 0) {
		wait_evidence(ret, "%s",
			      value ? "its process has ended, or is not in our pid namespace"
				    : "fdinfo does not say which process it is of");
		return;
	}
	wait_evidence(ret, "the descriptor is a pidfd of process %d", pid);
	if (wait_add(ret, pid, 0, false, "the pidfd is of it"))
		ret->ender = ENDER_THREADS;
}

/*
 * A pty has two ends. Others may open its slave any time, a user may sit behind its master, and devpts of another container may
 * have one of the same number: so those found are never all.
 */
static void of_pty(const struct waiter *by, const struct descriptor *it, struct wait *ret)
{
	const bool slave = it->kind == DESCRIPTOR_PTY_SLAVE;
	const char *role = slave ? "its master" : "its slave";
	size_t n;
	const struct holder *h = descriptors_holders(
		by->d, slave ? DESCRIPTOR_PTY_MASTER : DESCRIPTOR_PTY_SLAVE, it->device, it->id, &n);

	if (!it->device)
		h = NULL, n = 0;
	wait_add_holders(by, h, n, HOLDER_ANY, role, ret);
	ret->ender = ret->n ? ENDER_SOME : ENDER_OUTSIDE;
	if (!ret->n)
		wait_evidence(ret, "no process that can be seen holds %s", role);
	if (descriptors_denied(by->d))
		say_denied(by, ret);
}

static void of_signalfd(struct wait *ret)
{
	ret->kind = WAIT_SIGNAL;
	wait_evidence(ret, "any process that may send it a signal of the set ends the wait");
}

static void outside(struct wait *ret, const char *evidence)
{
	ret->ender = ENDER_OUTSIDE;
	wait_evidence(ret, "%s", evidence);
}

/* Others may have it open, but which of them writes, and what is waited for, only its file system knows. */
static void of_file(struct wait *ret)
{
	ret->kind = WAIT_KERNEL;
	wait_evidence(ret, "it is a file: its file system, device or server answers");
}

static void find_enders(const struct waiter *by, const struct descriptor *it, int fd, enum wanted wanted,
			struct wait *ret)
{
	switch (it->kind) {
	case DESCRIPTOR_PIPE:
		of_pipe(by, it, wanted, ret);
		break;
	case DESCRIPTOR_SOCKET:
		wait_socket(by, it, fd, wanted, ret);
		break;
	case DESCRIPTOR_EVENTFD:
		of_eventfd(by, it, ret);
		break;
	case DESCRIPTOR_PTY_MASTER:
	case DESCRIPTOR_PTY_SLAVE:
		of_pty(by, it, ret);
		break;
	case DESCRIPTOR_TERMINAL:
		outside(ret, "it is a terminal: a user or a line");
		break;
	case DESCRIPTOR_FILE:
		of_file(ret);
		break;
	case DESCRIPTOR_TIMERFD:
		of_timer(by, fd, ret);
		break;
	case DESCRIPTOR_SIGNALFD:
		of_signalfd(ret);
		break;
	case DESCRIPTOR_INOTIFY:
	case DESCRIPTOR_FANOTIFY:
		outside(ret, "any change of the files that it watches ends the wait");
		break;
	case DESCRIPTOR_PIDFD:
		of_pidfd(by, fd, ret);
		break;
	case DESCRIPTOR_EPOLL:
		wait_evidence(ret, "an epoll inside another one inside a third is not looked into");
		break;
	case DESCRIPTOR_IO_URING:
		wait_evidence(ret, "which requests an io_uring has is not to be seen from outside");
		break;
	case DESCRIPTOR_OTHER:
		wait_evidence(ret, "what its driver waits for is not known");
		break;
	}
}

static void name_of(const struct waiter *by, const struct descriptor *it, char name[OBJECT_NAME])
{
	switch (it->kind) {
	case DESCRIPTOR_PIPE:
		if (it->device)
			snprintf(name, OBJECT_NAME, "the FIFO %s", it->name);
		else
			snprintf(name, OBJECT_NAME, "the pipe [%" PRIu64 "]", it->id);
		break;
	case DESCRIPTOR_SOCKET:
		wait_socket_name(by, it, name);
		break;
	case DESCRIPTOR_EVENTFD:
		if (it->device)
			snprintf(name, OBJECT_NAME, "the eventfd %" PRIu64, it->id);
		else
			snprintf(name, OBJECT_NAME, "an eventfd");
		break;
	case DESCRIPTOR_PTY_MASTER:
		snprintf(name, OBJECT_NAME, "the master of the terminal /dev/pts/%" PRIu64, it->id);
		break;
	case DESCRIPTOR_PTY_SLAVE:
		snprintf(name, OBJECT_NAME, "the terminal /dev/pts/%" PRIu64, it->id);
		break;
	case DESCRIPTOR_TERMINAL:
		snprintf(name, OBJECT_NAME, "the terminal %s", it->name);
		break;
	case DESCRIPTOR_TIMERFD:
		snprintf(name, OBJECT_NAME, "a timer (timerfd)");
		break;
	case DESCRIPTOR_SIGNALFD:
		snprintf(name, OBJECT_NAME, "signals (signalfd)");
		break;
	case DESCRIPTOR_PIDFD:
		snprintf(name, OBJECT_NAME, "a process (pidfd)");
		break;
	case DESCRIPTOR_INOTIFY:
	case DESCRIPTOR_FANOTIFY:
		snprintf(name, OBJECT_NAME, "changes of files (%snotify)",
			 it->kind == DESCRIPTOR_INOTIFY ? "i" : "fa");
		break;
	case DESCRIPTOR_EPOLL:
		snprintf(name, OBJECT_NAME, "an epoll");
		break;
	case DESCRIPTOR_IO_URING:
		snprintf(name, OBJECT_NAME, "an io_uring");
		break;
	case DESCRIPTOR_FILE:
	case DESCRIPTOR_OTHER:
		snprintf(name, OBJECT_NAME, "%s%s", it->name[0] == '/' ? "the file " : "", it->name);
		break;
	}
}

/* "a byte from ", as it stands before the name. */
static const char *wish(const struct descriptor *it, enum wanted wanted)
{
	switch (it->kind) {
	case DESCRIPTOR_PIPE:
	case DESCRIPTOR_SOCKET:
	case DESCRIPTOR_PTY_MASTER:
	case DESCRIPTOR_PTY_SLAVE:
	case DESCRIPTOR_TERMINAL:
		break;
	case DESCRIPTOR_EVENTFD:
		return wanted == WANTED_READ ? "a count in " : "room in ";
	default:
		return "";
	}
	switch (wanted) {
	case WANTED_WRITE:
		return "room in ";
	case WANTED_CONNECTION:
		return "a connection to ";
	case WANTED_CONNECT:
		return "the other end of ";
	default:
		return "a byte from ";
	}
}

static void unread(int fd, int error, struct wait *ret, char name[OBJECT_NAME])
{
	snprintf(name, OBJECT_NAME, "descriptor %d", fd);
	wait_what(ret, "descriptor %d", fd);
	wait_evidence(ret, "%s",
		      error == EACCES || error == EPERM ? "its descriptors may not be read"
							: "it has no such descriptor (any more)");
}

void wait_object(const struct waiter *by, int fd, enum wanted wanted, struct wait *ret,
		 char name[OBJECT_NAME])
{
	struct descriptor it;
	char own[OBJECT_NAME];

	ret->kind = WAIT_PEER;
	if (!name)
		name = own;
	if (!descriptor_read(by->d, by->pid, by->tid, fd, &it)) {
		unread(fd, errno, ret, name);
		return;
	}
	ret->object = it.id;
	name_of(by, &it, name);
	wait_what(ret, "%s%s (descriptor %d)", wish(&it, wanted), name, fd);
	find_enders(by, &it, fd, wanted, ret);
}
