/* The part of wait_object that is about sockets. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>

#include "watchctl/flow/explain/socket_ends.h"
#include "watchctl/flow/explain/wait_object.h"

static const struct socket_end *end_of(const struct waiter *by, uint64_t inode)
{
	const struct socket_ends *ends = descriptors_sockets(by->d);

	return ends ? socket_ends_get(ends, inode) : NULL;
}

static void name_inet(const struct socket_end *s, char name[OBJECT_NAME])
{
	const char *protocol = s->family == SOCKET_TCP ? "TCP" : "UDP";
	char own[INET_TEXT], other[INET_TEXT];

	inet_end_text(&s->own, own);
	inet_end_text(&s->other, other);
	if (s->other.port)
		snprintf(name, OBJECT_NAME, "the %s connection %s -> %s", protocol, own, other);
	else
		snprintf(name, OBJECT_NAME, "the %s socket %s", protocol, own);
}

static void name_unix(const struct waiter *by, const struct socket_end *s, char name[OBJECT_NAME])
{
	const struct socket_end *peer = s->peer ? end_of(by, s->peer) : NULL;

	if (s->name[0])
		snprintf(name, OBJECT_NAME, "the socket %s", s->name);
	else if (peer && peer->name[0])
		snprintf(name, OBJECT_NAME, "the socket [%u] to %s", s->inode, peer->name);
	else
		snprintf(name, OBJECT_NAME, "the unix socket [%u]", s->inode);
}

void wait_socket_name(const struct waiter *by, const struct descriptor *it, char name[OBJECT_NAME])
{
	const struct socket_end *s = end_of(by, it->id);

	if (!s)
		snprintf(name, OBJECT_NAME, "the socket [%" PRIu64 "]", it->id);
	else if (s->family == SOCKET_UNIX)
		name_unix(by, s, name);
	else
		name_inet(s, name);
}

static bool same_network(pid_t pid)
{
	struct stat ours, its;
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/ns/net", pid);
	return stat("/proc/self/ns/net", &ours) != 0 || stat(path, &its) != 0 ||
	       (ours.st_ino == its.st_ino && ours.st_dev == its.st_dev);
}

/* Of a socket that is in none of our tables. */
static void say_unlisted(const struct waiter *by, int fd, struct wait *ret)
{
	const struct socket_ends *ends = descriptors_sockets(by->d);
	char path[64], protocol[32];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/fd/%d", by->pid, by->tid, fd);
	n = getxattr(path, "system.sockprotoname", protocol, sizeof(protocol) - 1);
	protocol[n > 0 ? n : 0] = '\0';
	if (!ends)
		wait_evidence(ret, "there was no memory for the table of sockets");
	else if (!same_network(by->pid))
		wait_evidence(ret,
			      "the process is in another network namespace, whose sockets are not looked up");
	else if (socket_ends_error(ends))
		wait_evidence(ret, "the kernel does not list its sockets: %s",
			      strerror(socket_ends_error(ends)));
	else if (*protocol)
		wait_evidence(
			ret,
			"a socket of %s is not among the unix, TCP and UDP sockets of this network namespace",
			protocol);
	else
		wait_evidence(ret, "it is not among the unix, TCP and UDP sockets of this network namespace");
}

static size_t add_ends(const struct waiter *by, const struct socket_end *const *peer, size_t n,
		       const char *role, struct wait *ret)
{
	size_t count = 0, held;

	for (size_t i = 0; i < n; i++) {
		const struct holder *h =
			descriptors_holders(by->d, DESCRIPTOR_SOCKET, 0, peer[i]->inode, &held);

		count += wait_add_holders(by, h, held, HOLDER_ANY, role, ret);
	}
	return count;
}

/* The kernel lists those with an inode as open: one that no process is seen to hold is held where /proc does not look. */
static void only_open(const struct waiter *by, const char *role, struct wait *ret)
{
	wait_only_holders(by, role, ret);
	if (ret->ender != ENDER_NOBODY)
		return;
	ret->ender = ENDER_UNKNOWN;
	wait_evidence(ret, "; it is open, and may be on its way through a socket (SCM_RIGHTS)");
}

static void say_address(const struct socket_end *s, const char *rest, struct wait *ret)
{
	char other[INET_TEXT];

	inet_end_text(&s->other, other);
	wait_evidence(ret, "%s%s", other, rest);
}

static void of_unseen(const struct socket_end *s, struct wait *ret)
{
	if (s->family == SOCKET_UNIX)
		wait_evidence(ret,
			      "its other end, socket [%u], is not in this network namespace, or is closed",
			      s->peer);
	else
		say_address(s,
			    " is an address of this machine, but no socket of this network namespace has it",
			    ret);
}

/* Not connected: those who have it as their other end are likely, but others may send to its name. */
static void of_any(const struct waiter *by, const struct socket_end *s, const struct socket_end *const *peer,
		   size_t n, struct wait *ret)
{
	if (add_ends(by, peer, n, "a socket connected to it", ret)) {
		ret->ender = ENDER_SOME;
		return;
	}
	if (s->family == SOCKET_UNIX && s->type == SOCK_DGRAM && !s->name[0]) {
		ret->ender = ENDER_NOBODY;
		wait_evidence(ret, "it is not connected, and has no name that anything could be sent to");
		return;
	}
	ret->ender = ENDER_OUTSIDE;
	wait_evidence(ret, "it is not connected: any process that may send to it");
}

static void of_connection(const struct waiter *by, const struct socket_end *s, struct wait *ret)
{
	const struct socket_end *peer[SOCKET_PEERS];
	size_t n;

	switch (socket_ends_peers(descriptors_sockets(by->d), s, peer, &n)) {
	case PEER_IS:
		add_ends(by, peer, n, "its other end", ret);
		only_open(by, "its other end", ret);
		break;
	case PEER_LISTENER:
		wait_evidence(ret, "the connection is not accepted yet");
		add_ends(by, peer, n, "the listening socket", ret);
		only_open(by, "the listening socket", ret);
		break;
	case PEER_ANY:
		of_any(by, s, peer, n, ret);
		break;
	case PEER_GONE:
		ret->ender = ENDER_NOBODY;
		wait_evidence(ret, "its other end is closed");
		break;
	case PEER_REMOTE:
		ret->ender = ENDER_OUTSIDE;
		say_address(s, " is no address of this network namespace: another machine, or a container",
			    ret);
		break;
	case PEER_UNSEEN:
		of_unseen(s, ret);
		break;
	}
}

void wait_socket(const struct waiter *by, const struct descriptor *it, int fd, enum wanted wanted,
		 struct wait *ret)
{
	const struct socket_end *s = end_of(by, it->id);

	if (!s) {
		say_unlisted(by, fd, ret);
	} else if (s->state == TCP_LISTEN || wanted == WANTED_CONNECTION) {
		ret->ender = ENDER_OUTSIDE;
		wait_evidence(ret, "it listens: any process that may connect to it");
	} else {
		of_connection(by, s, ret);
	}
}

/* The file of @path as @pid sees it, as the kernel packs its device. Zeros: not known. */
static void file_of(pid_t pid, const char *path, uint32_t *device, uint32_t *file)
{
	char whole[sizeof(struct sockaddr_un) + 40];
	struct statx s;

	*device = *file = 0;
	snprintf(whole, sizeof(whole), "/proc/%d/%s/%s", pid, path[0] == '/' ? "root" : "cwd", path);
	if (path[0] == '@' || statx(-1, whole, AT_STATX_DONT_SYNC, STATX_INO, &s) != 0)
		return;
	*device = s.stx_dev_major << 20 | s.stx_dev_minor;
	*file = (uint32_t)s.stx_ino;
}

static bool read_address(const struct waiter *by, uint64_t addr, uint64_t len, char name[SOCKET_NAME])
{
	struct sockaddr_un a = { 0 };
	const size_t head = offsetof(struct sockaddr_un, sun_path);

	memset(name, 0, SOCKET_NAME);
	if (len <= head || len > sizeof(a) || !memory_read(by->mem, addr, &a, len) || a.sun_family != AF_UNIX)
		return false;
	memcpy(name, a.sun_path, len - head);
	if (!name[0])
		name[0] = '@';
	return true;
}

bool wait_unix_address(const struct waiter *by, int fd, uint64_t addr, uint64_t len, bool connects,
		       struct wait *ret)
{
	const struct socket_ends *ends = descriptors_sockets(by->d);
	const char *role = connects ? "the listening socket" : "the receiving socket";
	const struct socket_end *s;
	uint32_t device, file;
	char name[SOCKET_NAME];

	if (!ends || !read_address(by, addr, len, name))
		return false;
	file_of(by->pid, name, &device, &file);
	ret->kind = WAIT_PEER;
	wait_what(ret, "%s the socket %s (descriptor %d)", connects ? "a connection to" : "room in", name,
		  fd);
	s = same_network(by->pid) ? socket_ends_bound(ends, name, device, file) : NULL;
	if (!s) {
		wait_evidence(ret, "no socket of this network namespace is bound to that name");
		return true;
	}
	ret->object = s->inode;
	add_ends(by, &s, 1, role, ret);
	only_open(by, role, ret);
	return true;
}
