/*
 * descriptors - what a descriptor is, and which processes of this machine hold which: pipes, sockets, eventfds, terminals
 * and files by an identity that is the same for all who have them open.
 *
 * All from /proc: the links of /proc/PID/fd name the object, the mode of the link is the access mode, and fdinfo is read only
 * where these two do not suffice. No descriptor is opened again: opening a pipe once more would change how many ends it has.
 * Nor is a server asked for anything: one that does not answer may be what all hang for.
 */
#ifndef WATCHCTL_FLOW_EXPLAIN_DESCRIPTORS_H
#define WATCHCTL_FLOW_EXPLAIN_DESCRIPTORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/base/text_buf.h"

#define DESCRIPTOR_NAME 160

enum descriptor_kind {
	DESCRIPTOR_OTHER,      /* not known here: a device, an anonymous inode */
	DESCRIPTOR_PIPE,       /* device 0: made by pipe(2); else a FIFO */
	DESCRIPTOR_SOCKET,     /* id: its inode */
	DESCRIPTOR_EVENTFD,    /* id: eventfd-id of fdinfo; device 0: the kernel says none */
	DESCRIPTOR_PTY_MASTER, /* id: N of /dev/pts/N */
	DESCRIPTOR_PTY_SLAVE,
	DESCRIPTOR_TERMINAL, /* a console, a serial line */
	DESCRIPTOR_FILE,     /* also directories, block devices, message queues */
	DESCRIPTOR_TIMERFD,
	DESCRIPTOR_SIGNALFD,
	DESCRIPTOR_INOTIFY,
	DESCRIPTOR_FANOTIFY,
	DESCRIPTOR_PIDFD,
	DESCRIPTOR_EPOLL,
	DESCRIPTOR_IO_URING,
};

struct descriptor {
	enum descriptor_kind kind;
	bool reads, writes;
	uint64_t device, id;	    /* 0 and 0: it has no identity that others could be compared with */
	uint64_t size;		    /* of a file */
	char name[DESCRIPTOR_NAME]; /* its link in /proc: "pipe:[12]", a path (the end of a long one) */
};

/* One descriptor of one process. */
struct holder {
	pid_t pid;
	int fd;
	enum descriptor_kind kind;
	bool reads, writes;
	uint64_t device, id;
};

struct descriptors;
struct socket_ends;

/* Describes @fd of thread @tid of @pid. False: there is none, or it may not be looked at (errno). */
bool descriptor_read(struct descriptors *d, pid_t pid, pid_t tid, int fd, struct descriptor *ret);

/* Its lines of fdinfo. False: cannot be read; *ret is as it was or holds a part. */
bool descriptor_info(pid_t pid, pid_t tid, int fd, struct text_buf *ret);

/* The text after "@key" at the beginning of a line of @info and after blanks; NULL: there is no such line. */
const char *info_field(const char *info, const char *key);

/* All who hold the same object, by pid: *n of them. NULL: none. Valid as long as @d. */
const struct holder *descriptors_holders(struct descriptors *d, enum descriptor_kind kind, uint64_t device,
					 uint64_t id, size_t *n);

/* How many processes there are whose descriptors may not be read. */
unsigned int descriptors_denied(struct descriptors *d);

/* There was memory for all. */
bool descriptors_complete(struct descriptors *d);

/* Read when first asked for. NULL: no memory. */
const struct socket_ends *descriptors_sockets(struct descriptors *d);

#endif
