/*
 * wait_object - who can end a wait for one descriptor: for something to read from it, or for room to write. Shared by the calls
 * that name one descriptor and those that name many.
 */
#ifndef WATCHCTL_FLOW_EXPLAIN_WAIT_OBJECT_H
#define WATCHCTL_FLOW_EXPLAIN_WAIT_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/code/memory_view.h"
#include "watchctl/flow/explain/descriptors.h"
#include "watchctl/flow/explain/wait.h"

/* The thread that waits. */
struct waiter {
	struct descriptors *d;
	pid_t pid, tid;
	const struct memory_view *mem;
	bool has_threads; /* its process has others */
};

enum wanted {
	WANTED_READ,
	WANTED_WRITE,
	WANTED_CONNECTION, /* accept */
	WANTED_CONNECT,
};

/* The name of descriptor @fd, for a list: "the pipe [12]". */
#define OBJECT_NAME 200

/* Fills in all of *ret, which is zero. @name: the object, without the number of the descriptor; may be NULL. */
void wait_object(const struct waiter *by, int fd, enum wanted wanted, struct wait *ret,
		 char name[OBJECT_NAME]);

/* The same for a socket: wait_socket.c. *ret has its kind, object and what. */
void wait_socket(const struct waiter *by, const struct descriptor *it, int fd, enum wanted wanted,
		 struct wait *ret);
void wait_socket_name(const struct waiter *by, const struct descriptor *it, char name[OBJECT_NAME]);

/* A call that sends to, or connects to, the unix socket of the address at @addr. False: it is no such address. */
bool wait_unix_address(const struct waiter *by, int fd, uint64_t addr, uint64_t len, bool connects,
		       struct wait *ret);

/* Those of @n holders of @h that may do it: the reading ones, the writing ones, or all. */
enum holder_use { HOLDER_READS, HOLDER_WRITES, HOLDER_ANY };

/*
 * Adds the holders to @ret, and says in its evidence which descriptor is @role ("its write end") of which process. The waiter's
 * own process is added when it is the only one, or has threads that could do it. Returns how many descriptors there are.
 */
size_t wait_add_holders(const struct waiter *by, const struct holder *h, size_t n, enum holder_use use,
			const char *role, struct wait *ret);

/*
 * The ender when those that were added are all there are: ENDER_THREADS, or ENDER_NOBODY; less where not all processes may be
 * looked at.
 */
void wait_only_holders(const struct waiter *by, const char *role, struct wait *ret);

/* Appends to @text of @size bytes. */
void wait_say(char *text, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
#define wait_evidence(w, ...) wait_say((w)->evidence, sizeof((w)->evidence), __VA_ARGS__)
#define wait_what(w, ...) wait_say((w)->what, sizeof((w)->what), __VA_ARGS__)

/* "make/1234". */
#define PROCESS_TEXT 40
void wait_process_text(pid_t pid, char ret[PROCESS_TEXT]);

#endif
