#include "watchctl/step/ptrace/step_input.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/stat.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"

#define VECTORS_MAX 1024u /* UIO_MAXIOV */

/* Inside the kernel only: what becomes of a system call that a signal interrupts (linux/errno.h). */
#define RESTART_FIRST 512
#define RESTART_LAST 516

#define READS(number, shape, pos)                               \
	{                                                       \
		number, INPUT_FILE, shape, 0, NO_ARG, 1, pos, 0 \
	}
#define OPENS(number, path)                                                     \
	{                                                                       \
		number, INPUT_OPEN, SHAPE_NONE, NO_ARG, path, NO_ARG, NO_ARG, 0 \
	}

static const struct input_call calls[] = {
	READS(SYS_read, SHAPE_RESULT, NO_ARG),
	READS(SYS_pread64, SHAPE_RESULT, 3),
	READS(SYS_readv, SHAPE_VECTOR, NO_ARG),
	READS(SYS_preadv, SHAPE_VECTOR, 3),
	READS(SYS_preadv2, SHAPE_VECTOR, 3),
	READS(SYS_recvfrom, SHAPE_RESULT, NO_ARG),
	READS(SYS_recvmsg, SHAPE_MESSAGE, NO_ARG),
	READS(SYS_recvmmsg, SHAPE_MESSAGES, NO_ARG),
	{ SYS_mmap, INPUT_MAP, SHAPE_MAP, 4, NO_ARG, NO_ARG, 5, 0 },
	OPENS(SYS_open, 0),
	OPENS(SYS_openat, 1),
	OPENS(SYS_openat2, 1),
	OPENS(SYS_access, 0),
	OPENS(SYS_faccessat, 1),
	OPENS(SYS_faccessat2, 1),
	{ SYS_stat, INPUT_STATUS, SHAPE_FIXED, NO_ARG, 0, 1, NO_ARG, sizeof(struct stat) },
	{ SYS_lstat, INPUT_STATUS, SHAPE_FIXED, NO_ARG, 0, 1, NO_ARG, sizeof(struct stat) },
	{ SYS_fstat, INPUT_STATUS, SHAPE_FIXED, 0, NO_ARG, 1, NO_ARG, sizeof(struct stat) },
	{ SYS_newfstatat, INPUT_STATUS, SHAPE_FIXED, 0, 1, 2, NO_ARG, sizeof(struct stat) },
	{ SYS_statx, INPUT_STATUS, SHAPE_FIXED, 0, 1, 4, NO_ARG, sizeof(struct statx) },
	{ SYS_readlink, INPUT_LINK, SHAPE_RESULT, NO_ARG, 0, 1, NO_ARG, 0 },
	{ SYS_readlinkat, INPUT_LINK, SHAPE_RESULT, 0, 1, 2, NO_ARG, 0 },
	{ SYS_getcwd, INPUT_LINK, SHAPE_RESULT, NO_ARG, NO_ARG, 0, NO_ARG, 0 },
	{ SYS_getdents64, INPUT_ENTRIES, SHAPE_RESULT, 0, NO_ARG, 1, NO_ARG, 0 },
	{ SYS_clock_gettime, INPUT_CLOCK, SHAPE_FIXED, NO_ARG, NO_ARG, 1, NO_ARG, sizeof(struct timespec) },
	{ SYS_gettimeofday, INPUT_CLOCK, SHAPE_FIXED, NO_ARG, NO_ARG, 0, NO_ARG, sizeof(struct timeval) },
	{ SYS_time, INPUT_CLOCK, SHAPE_NONE, NO_ARG, NO_ARG, NO_ARG, NO_ARG, 0 },
	{ SYS_getrandom, INPUT_RANDOM, SHAPE_RESULT, NO_ARG, NO_ARG, 0, NO_ARG, 0 },
};

const struct input_call *step_input_call(uint64_t number)
{
	size_t i;

	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (calls[i].number == number)
			return &calls[i];
	return NULL;
}

bool step_input_is_retry(int64_t result)
{
	return result == -EAGAIN || result == -EINTR || (result <= -RESTART_FIRST && result >= -RESTART_LAST);
}

/* Bytes */

/* Where they go to, and how much room there is. */
struct copy {
	const struct memory_view *mem;
	uint8_t *buf;
	size_t len, cap;
};

static bool copy_bytes(struct copy *c, uint64_t addr, uint64_t n)
{
	size_t room = c->cap - c->len, now = n < room ? (size_t)n : room;

	if (!c->mem->read(c->mem->ctx, addr, c->buf + c->len, now))
		return false;
	c->len += now;
	return true;
}

static void copy_vector(struct copy *c, uint64_t at, uint64_t count, uint64_t size)
{
	struct iovec v;
	uint64_t i;

	for (i = 0; i < count && i < VECTORS_MAX && size && c->len < c->cap; i++) {
		uint64_t now;

		if (!c->mem->read(c->mem->ctx, at + i * sizeof(v), &v, sizeof(v)))
			return;
		now = v.iov_len < size ? v.iov_len : size;
		if (!copy_bytes(c, (uintptr_t)v.iov_base, now))
			return;
		size -= now;
	}
}

static void copy_message(struct copy *c, uint64_t at, uint64_t size)
{
	struct msghdr m;

	if (c->mem->read(c->mem->ctx, at, &m, sizeof(m)))
		copy_vector(c, (uintptr_t)m.msg_iov, m.msg_iovlen, size);
}

static uint64_t copy_messages(struct copy *c, uint64_t at, uint64_t count)
{
	struct mmsghdr m;
	uint64_t size = 0, i;

	for (i = 0; i < count && i < VECTORS_MAX; i++) {
		if (!c->mem->read(c->mem->ctx, at + i * sizeof(m), &m, sizeof(m)))
			break;
		copy_vector(c, (uintptr_t)m.msg_hdr.msg_iov, m.msg_hdr.msg_iovlen, m.msg_len);
		size += m.msg_len;
	}
	return size;
}

size_t step_input_copy(const struct input_call *c, const uint64_t arg[6], int64_t result,
		       const struct memory_view *mem, uint8_t *buf, size_t cap, uint64_t *size)
{
	struct copy to = { .mem = mem, .buf = buf, .cap = cap };
	uint64_t at = c->at == NO_ARG ? 0 : arg[c->at];

	*size = (uint64_t)result;
	switch ((enum input_shape)c->shape) {
	case SHAPE_RESULT:
		copy_bytes(&to, at, *size);
		break;
	case SHAPE_VECTOR:
		copy_vector(&to, at, arg[c->at + 1], *size);
		break;
	case SHAPE_MESSAGE:
		copy_message(&to, at, *size);
		break;
	case SHAPE_MESSAGES:
		*size = copy_messages(&to, at, (uint64_t)result);
		break;
	case SHAPE_FIXED:
		*size = c->size;
		copy_bytes(&to, at, *size);
		break;
	case SHAPE_MAP:
	case SHAPE_NONE:
		*size = 0;
		break;
	}
	return to.len;
}

/* Sources */

static void address_text(const struct sockaddr_storage *a, socklen_t len, char *buf, size_t cap)
{
	const struct sockaddr_in *v4 = (const void *)a;
	const struct sockaddr_in6 *v6 = (const void *)a;
	const struct sockaddr_un *un = (const void *)a;
	size_t path = len > offsetof(struct sockaddr_un, sun_path)
			      ? len - offsetof(struct sockaddr_un, sun_path)
			      : 0;
	char host[INET6_ADDRSTRLEN] = "?";

	buf[0] = '\0';
	if (a->ss_family == AF_INET) {
		inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
		snprintf(buf, cap, " %s:%u", host, ntohs(v4->sin_port));
	} else if (a->ss_family == AF_INET6) {
		inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
		snprintf(buf, cap, " [%s]:%u", host, ntohs(v6->sin6_port));
	} else if (a->ss_family == AF_UNIX && path && un->sun_path[0]) {
		snprintf(buf, cap, " %.*s", (int)strnlen(un->sun_path, path), un->sun_path);
	}
}

/* The kernel tells it of a descriptor only: a copy of the program's, for a moment. */
static void add_peer(pid_t tid, int fd, char *name, size_t cap)
{
	struct sockaddr_storage a = { 0 };
	socklen_t size = sizeof(a);
	scoped(closep) int process = (int)syscall(SYS_pidfd_open, tid, 0);
	scoped(closep) int copy = process < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, fd, 0);
	size_t n = strlen(name);

	if (copy >= 0 && !getpeername(copy, (struct sockaddr *)&a, &size))
		address_text(&a, size, name + n, cap - n);
}

static enum input_kind kind_of(const struct stat *s, const char *name)
{
	if (S_ISREG(s->st_mode) || S_ISDIR(s->st_mode))
		return INPUT_FILE;
	if (S_ISCHR(s->st_mode) && (!strcmp(name, "/dev/urandom") || !strcmp(name, "/dev/random")))
		return INPUT_RANDOM;
	return INPUT_STREAM;
}

bool step_input_source(pid_t tid, int fd, struct input_source *ret)
{
	char path[64];
	struct stat s;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", tid, fd);
	n = readlink(path, ret->name, sizeof(ret->name) - 1);
	if (n < 0 || stat(path, &s))
		return false;
	ret->name[n] = '\0';
	ret->kind = kind_of(&s, ret->name);
	ret->size = (uint64_t)s.st_size;
	if (S_ISSOCK(s.st_mode))
		add_peer(tid, fd, ret->name, sizeof(ret->name));
	return true;
}

bool step_input_position(pid_t tid, int fd, uint64_t *ret)
{
	char path[64], text[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", tid, fd);
	scoped(closep) int file = open(path, O_RDONLY | O_CLOEXEC);
	n = file < 0 ? -1 : read(file, text, sizeof(text) - 1);
	if (n < 0)
		return false;
	text[n] = '\0';
	return sscanf(text, "pos: %" SCNu64, ret) == 1;
}
