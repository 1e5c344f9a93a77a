#include "watchctl/flow/explain/socket_ends.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"

/* A connection that waits to be accepted: the inode of the client's socket, and of the listener. */
struct pending {
	uint32_t client, listener;
};

struct local_address {
	uint8_t addr[16];
};

struct socket_ends {
	struct socket_end *end;
	size_t n, cap;
	struct pending *pending;
	size_t npending, pending_cap;
	struct local_address *local;
	size_t nlocal, local_cap;
	struct map64 by_inode;
	int error;
	bool failed; /* no memory */
};

static void map_v4(const void *v4, uint8_t ret[16])
{
	memset(ret, 0, 10);
	memset(ret + 10, 0xff, 2);
	memcpy(ret + 12, v4, 4);
}

static bool is_v4(const uint8_t addr[16])
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(addr, prefix, sizeof(prefix));
}

/* 0.0.0.0 or :: */
static bool is_any(const uint8_t addr[16])
{
	static const uint8_t zero[16];

	return !memcmp(addr, zero, 16) || (is_v4(addr) && !memcmp(addr + 12, zero, 4));
}

void inet_end_text(const struct inet_end *i, char ret[INET_TEXT])
{
	char addr[INET6_ADDRSTRLEN] = "?";

	if (is_v4(i->addr)) {
		inet_ntop(AF_INET, i->addr + 12, addr, sizeof(addr));
		snprintf(ret, INET_TEXT, "%s:%u", addr, i->port);
	} else {
		inet_ntop(AF_INET6, i->addr, addr, sizeof(addr));
		snprintf(ret, INET_TEXT, "[%s]:%u", addr, i->port);
	}
}

static void add(struct socket_ends *e, const struct socket_end *new)
{
	if (!vec_push(e->end, e->n, e->cap, *new))
		e->failed = true;
}

static void add_inet(struct socket_ends *e, const struct nlmsghdr *h, enum socket_family family)
{
	const struct inet_diag_msg *m = NLMSG_DATA(h);
	struct socket_end new = { .family = family, .type = family == SOCKET_TCP ? SOCK_STREAM : SOCK_DGRAM };

	if (h->nlmsg_len < NLMSG_LENGTH(sizeof(*m)))
		return;
	new.inode = m->idiag_inode;
	new.state = m->idiag_state;
	new.own.port = ntohs(m->id.idiag_sport);
	new.other.port = ntohs(m->id.idiag_dport);
	if (m->idiag_family == AF_INET) {
		map_v4(m->id.idiag_src, new.own.addr);
		map_v4(m->id.idiag_dst, new.other.addr);
	} else {
		memcpy(new.own.addr, m->id.idiag_src, 16);
		memcpy(new.other.addr, m->id.idiag_dst, 16);
	}
	add(e, &new);
}

static void add_tcp(struct socket_ends *e, const struct nlmsghdr *h)
{
	add_inet(e, h, SOCKET_TCP);
}

static void add_udp(struct socket_ends *e, const struct nlmsghdr *h)
{
	add_inet(e, h, SOCKET_UDP);
}

static void take_name(struct socket_end *s, const char *name, size_t len)
{
	if (len >= sizeof(s->name))
		len = sizeof(s->name) - 1;
	memcpy(s->name, name, len);
	if (len && !name[0])
		s->name[0] = '@';
}

static void take_pending(struct socket_ends *e, uint32_t listener, const struct rtattr *a)
{
	const uint32_t *client = RTA_DATA(a);

	for (size_t i = 0; i < RTA_PAYLOAD(a) / sizeof(*client); i++)
		if (!vec_push(e->pending, e->npending, e->pending_cap,
			      (struct pending){ client[i], listener }))
			e->failed = true;
}

static void take_unix(struct socket_ends *e, const struct rtattr *a, struct socket_end *s)
{
	const struct unix_diag_vfs *file = RTA_DATA(a);

	switch (a->rta_type) {
	case UNIX_DIAG_NAME:
		take_name(s, RTA_DATA(a), RTA_PAYLOAD(a));
		break;
	case UNIX_DIAG_VFS:
		if (RTA_PAYLOAD(a) >= sizeof(*file)) {
			s->file = file->udiag_vfs_ino;
			s->device = file->udiag_vfs_dev;
		}
		break;
	case UNIX_DIAG_PEER:
		s->has_peer = RTA_PAYLOAD(a) >= sizeof(s->peer);
		if (s->has_peer)
			memcpy(&s->peer, RTA_DATA(a), sizeof(s->peer));
		break;
	case UNIX_DIAG_ICONS:
		take_pending(e, s->inode, a);
		break;
	}
}

static void add_unix(struct socket_ends *e, const struct nlmsghdr *h)
{
	const struct unix_diag_msg *m = NLMSG_DATA(h);
	struct socket_end new = { .family = SOCKET_UNIX };
	unsigned int left;

	if (h->nlmsg_len < NLMSG_LENGTH(sizeof(*m)))
		return;
	new.inode = m->udiag_ino;
	new.type = m->udiag_type;
	new.state = m->udiag_state;
	left = h->nlmsg_len - (unsigned int)NLMSG_LENGTH(sizeof(*m));
	for (const struct rtattr *a = (const struct rtattr *)(m + 1); RTA_OK(a, left); a = RTA_NEXT(a, left))
		take_unix(e, a, &new);
	add(e, &new);
}

typedef void add_fn(struct socket_ends *e, const struct nlmsghdr *h);

/* One datagram of the answer, of @len bytes. True: there are more. */
static bool take_messages(struct socket_ends *e, const struct nlmsghdr *h, size_t len, add_fn *fn, int *error)
{
	for (; NLMSG_OK(h, len); h = NLMSG_NEXT(h, len)) {
		if (h->nlmsg_type == NLMSG_DONE)
			return false;
		if (h->nlmsg_type == NLMSG_ERROR) {
			*error = -((const struct nlmsgerr *)NLMSG_DATA(h))->error;
			return false;
		}
		if (h->nlmsg_type == SOCK_DIAG_BY_FAMILY)
			fn(e, h);
	}
	return true;
}

#define ANSWER_MAX 65536u

/* Asks for all sockets that @request, of @len bytes, is about. Returns 0 or errno. */
static int dump(struct socket_ends *e, const void *request, size_t len, add_fn *fn)
{
	union {
		struct nlmsghdr head;
		char bytes[256];
	} ask = { .head = { .nlmsg_len = (uint32_t)NLMSG_LENGTH(len),
			    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			    .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP } };
	int error = 0;
	ssize_t n;

	scoped(closep) int s = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	scoped(freep) struct nlmsghdr *answer = malloc(ANSWER_MAX);
	if (!answer)
		return ENOMEM;
	memcpy(NLMSG_DATA(&ask.head), request, len);
	if (s < 0 || send(s, &ask, ask.head.nlmsg_len, 0) < 0)
		return errno;
	do {
		n = recv(s, answer, ANSWER_MAX, 0);
	} while ((n < 0 && errno == EINTR) || (n > 0 && take_messages(e, answer, (size_t)n, fn, &error)));
	return n < 0 ? errno : error;
}

static void note_error(struct socket_ends *e, int error)
{
	if (!e->error)
		e->error = error;
}

static void read_unix(struct socket_ends *e)
{
	const struct unix_diag_req ask = { .sdiag_family = AF_UNIX,
					   .udiag_states = UINT32_MAX,
					   .udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_VFS | UDIAG_SHOW_PEER |
							 UDIAG_SHOW_ICONS };

	note_error(e, dump(e, &ask, sizeof(ask), add_unix));
}

/* A kernel without IPv6 has no table of it: that is no error. */
static void read_inet(struct socket_ends *e, uint8_t protocol, add_fn *fn)
{
	struct inet_diag_req_v2 ask = { .sdiag_family = AF_INET,
					.sdiag_protocol = protocol,
					.idiag_states = UINT32_MAX };

	note_error(e, dump(e, &ask, sizeof(ask), fn));
	ask.sdiag_family = AF_INET6;
	dump(e, &ask, sizeof(ask), fn);
}

static void add_local(struct socket_ends *e, const struct sockaddr *a)
{
	struct local_address new = { 0 };

	if (a && a->sa_family == AF_INET)
		map_v4(&((const struct sockaddr_in *)a)->sin_addr, new.addr);
	else if (a && a->sa_family == AF_INET6)
		memcpy(new.addr, &((const struct sockaddr_in6 *)a)->sin6_addr, 16);
	else
		return;
	if (!vec_push(e->local, e->nlocal, e->local_cap, new))
		e->failed = true;
}

static void read_local(struct socket_ends *e)
{
	struct ifaddrs *all = NULL;

	if (getifaddrs(&all) != 0)
		return;
	for (const struct ifaddrs *i = all; i; i = i->ifa_next)
		add_local(e, i->ifa_addr);
	freeifaddrs(all);
}

static void index_inodes(struct socket_ends *e)
{
	for (size_t i = 0; i < e->n; i++)
		if (e->end[i].inode && !map64_put(&e->by_inode, e->end[i].inode, &e->end[i]))
			e->failed = true;
}

struct socket_ends *socket_ends_new(void)
{
	struct socket_ends *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	read_unix(e);
	read_inet(e, IPPROTO_TCP, add_tcp);
	read_inet(e, IPPROTO_UDP, add_udp);
	read_local(e);
	index_inodes(e);
	if (e->failed) {
		socket_ends_free(e);
		return NULL;
	}
	return e;
}

void socket_ends_free(struct socket_ends *e)
{
	if (!e)
		return;
	map64_deinit(&e->by_inode);
	free(e->local);
	free(e->pending);
	free(e->end);
	free(e);
}

int socket_ends_error(const struct socket_ends *e)
{
	return e->error;
}

const struct socket_end *socket_ends_all(const struct socket_ends *e, size_t *n)
{
	*n = e->n;
	return e->end;
}

const struct socket_end *socket_ends_get(const struct socket_ends *e, uint64_t inode)
{
	return map64_get(&e->by_inode, inode);
}

const struct socket_end *socket_ends_bound(const struct socket_ends *e, const char *name, uint32_t device,
					   uint32_t file)
{
	const struct socket_end *same_name = NULL;

	for (const struct socket_end *s = e->end; s < e->end + e->n; s++) {
		/* A connection that was accepted has the name of its listener. */
		if (s->family != SOCKET_UNIX || !s->name[0] ||
		    (s->type != SOCK_DGRAM && s->state != TCP_LISTEN))
			continue;
		if (file && s->file == file && s->device == device)
			return s;
		/* A file that is not the one is not it, whatever name it was bound with. */
		if (!strcmp(s->name, name) && (!file || !s->file))
			same_name = s;
	}
	return same_name;
}

static const struct socket_end *pending_at(const struct socket_ends *e, uint32_t client)
{
	for (size_t i = 0; i < e->npending; i++)
		if (e->pending[i].client == client)
			return socket_ends_get(e, e->pending[i].listener);
	return NULL;
}

struct found {
	const struct socket_end **peer;
	size_t n;
};

static void find(struct found *f, const struct socket_end *s)
{
	if (s && f->n < SOCKET_PEERS)
		f->peer[f->n++] = s;
}

static enum socket_peer unix_peers(const struct socket_ends *e, const struct socket_end *s, struct found *f)
{
	if (s->has_peer && s->peer) {
		find(f, socket_ends_get(e, s->peer));
		return f->n ? PEER_IS : PEER_UNSEEN;
	}
	find(f, s->has_peer ? pending_at(e, s->inode) : NULL);
	if (f->n)
		return PEER_LISTENER;
	/* A datagram socket with a name has it for others to send to, and keeps it when its own peer is closed. */
	if (s->type != SOCK_DGRAM || (s->has_peer && !s->name[0]))
		return s->has_peer ? PEER_GONE : PEER_ANY;
	for (const struct socket_end *i = e->end; i < e->end + e->n; i++)
		if (i->family == SOCKET_UNIX && i->has_peer && i->peer == s->inode)
			find(f, i);
	return PEER_ANY;
}

static bool same_end(const struct inet_end *a, const struct inet_end *b)
{
	return a->port == b->port && !memcmp(a->addr, b->addr, 16);
}

static bool bound_to(const struct inet_end *bound, const struct inet_end *to)
{
	return bound->port == to->port && (is_any(bound->addr) || !memcmp(bound->addr, to->addr, 16));
}

static bool is_local(const struct socket_ends *e, const uint8_t addr[16])
{
	if (is_v4(addr) && addr[12] == 127)
		return true;
	for (size_t i = 0; i < e->nlocal; i++)
		if (!memcmp(e->local[i].addr, addr, 16))
			return true;
	return false;
}

/* Sockets that have no other end, and that datagrams or connections of @s come to. */
static void find_bound(const struct socket_ends *e, const struct socket_end *s, struct found *f)
{
	for (const struct socket_end *i = e->end; i < e->end + e->n; i++)
		if (i->family == s->family && !i->other.port && i->inode && bound_to(&i->own, &s->other) &&
		    (i->family == SOCKET_UDP || i->state == TCP_LISTEN))
			find(f, i);
}

static enum socket_peer inet_peers(const struct socket_ends *e, const struct socket_end *s, struct found *f)
{
	bool orphan = false;

	if (!s->other.port)
		return PEER_ANY;
	for (const struct socket_end *i = e->end; i < e->end + e->n; i++) {
		if (i->family != s->family || !same_end(&i->own, &s->other) || !same_end(&i->other, &s->own))
			continue;
		orphan |= !i->inode && i->state != TCP_SYN_RECV && i->state != TCP_ESTABLISHED;
		find(f, i->inode ? i : NULL);
	}
	if (f->n)
		return PEER_IS;
	if (!is_local(e, s->other.addr))
		return PEER_REMOTE;
	if (orphan)
		return PEER_GONE;
	find_bound(e, s, f);
	if (f->n)
		return s->family == SOCKET_UDP ? PEER_IS : PEER_LISTENER;
	return PEER_UNSEEN;
}

enum socket_peer socket_ends_peers(const struct socket_ends *e, const struct socket_end *s,
				   const struct socket_end *peer[SOCKET_PEERS], size_t *n)
{
	struct found f = { .peer = peer };
	const enum socket_peer ret = s->family == SOCKET_UNIX ? unix_peers(e, s, &f) : inet_peers(e, s, &f);

	*n = f.n;
	return ret;
}
