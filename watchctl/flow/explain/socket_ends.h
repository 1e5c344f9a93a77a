/*
 * socket_ends - all unix, TCP and UDP sockets of our network namespace at one moment, from the kernel's socket diagnosis
 * (NETLINK_SOCK_DIAG), and which is the other end of which. Sockets of other network namespaces are not in it.
 */
#ifndef WATCHCTL_FLOW_EXPLAIN_SOCKET_ENDS_H
#define WATCHCTL_FLOW_EXPLAIN_SOCKET_ENDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SOCKET_PEERS 32u
#define SOCKET_NAME 109u /* sun_path and a NUL */

enum socket_family { SOCKET_UNIX, SOCKET_TCP, SOCKET_UDP };

/* Of an IPv4 socket, and an IPv6 one that talks IPv4, the address is ::ffff:a.b.c.d. */
struct inet_end {
	uint8_t addr[16];
	uint16_t port; /* of the host's byte order; 0: none */
};

struct socket_end {
	uint32_t inode; /* 0: no process has it: not accepted yet, or closed */
	enum socket_family family;
	uint8_t type;  /* SOCK_STREAM ... */
	uint8_t state; /* TCP_ESTABLISHED, TCP_LISTEN ..., also of a unix socket */
	struct inet_end own, other;
	bool has_peer; /* unix: it is connected */
	uint32_t peer; /* unix: the inode; 0: not accepted yet, or closed */
	uint32_t file,
		device; /* unix: of its path; 0: none. The device as the kernel packs it: major << 20 | minor */
	char name[SOCKET_NAME]; /* unix: as it was bound, "@name" in the abstract namespace; "": not bound */
};

enum socket_peer {
	PEER_IS,       /* those found are the other end */
	PEER_LISTENER, /* the connection is not accepted yet: those found listen for it */
	PEER_ANY,      /* it is not connected: those found have it as their other end, others may send, too */
	PEER_GONE,     /* the other end was closed */
	PEER_REMOTE,   /* its address is none of this network namespace: another machine, a container */
	PEER_UNSEEN,   /* an address of this machine, but no socket here has it: another network namespace */
};

struct socket_ends;

struct socket_ends *
socket_ends_new(void); /* NULL: no memory. What cannot be read is left out: socket_ends_error() */
void socket_ends_free(struct socket_ends *e);

/* The errno of the first table that could not be read, 0: none. */
int socket_ends_error(const struct socket_ends *e);

/* All of them, in no order. */
const struct socket_end *socket_ends_all(const struct socket_ends *e, size_t *n);

/* The socket with that inode; NULL: not in our network namespace, or of another family. */
const struct socket_end *socket_ends_get(const struct socket_ends *e, uint64_t inode);

/* Other ends of @s, at most SOCKET_PEERS of them in @peer: *n. */
enum socket_peer socket_ends_peers(const struct socket_ends *e, const struct socket_end *s,
				   const struct socket_end *peer[SOCKET_PEERS], size_t *n);

/* A unix socket that is bound to @name, or else to the file (device packed as above; 0 and 0: unknown). NULL: none. */
const struct socket_end *socket_ends_bound(const struct socket_ends *e, const char *name, uint32_t device,
					   uint32_t file);

/* "10.0.0.5:5432", "[::1]:80". */
#define INET_TEXT 64
void inet_end_text(const struct inet_end *i, char ret[INET_TEXT]);

#endif
