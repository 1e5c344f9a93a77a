/*
 * placed - handlers that any watchctl has placed into a process, found by the signature in front of the first
 * instruction of each (handler/wire.h). It only reads, and stops no thread.
 *
 * The process owns that memory, so nothing of it is trusted: a handler is reported only if it is in mappings
 * that can be a handler's, at the address that it states.
 */
#ifndef WATCHCTL_TARGET_INJECT_PLACED_H
#define WATCHCTL_TARGET_INJECT_PLACED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "handler/wire.h"
#include "watchctl/base/error.h"

struct placed {
	uint64_t control_at;
	uint32_t version;	      /* other than WIRE_VERSION: what is there is not understood */
	struct wire_control *control; /* a copy, owned; NULL: of another version */
};

struct placed_list {
	struct placed *v; /* by address */
	size_t n, cap;
};

/* WC_ETARGET: the process is gone; WC_EPERM: its memory may not be read. */
struct wc_error *placed_find(pid_t pid, struct placed_list *ret);

/* Accepts zero-initialised. */
void placed_list_deinit(struct placed_list *l);

/* The control block of the handler whose first instruction is at @handler; false: it is none of our version.
 */
bool placed_control_of(pid_t pid, uint64_t handler, struct wire_control *ret, uint64_t *ret_addr);

/* Process @c is meant for, as we number it, is not @pid: that one has a copy since it was forked. */
bool placed_is_inherited(pid_t pid, const struct wire_control *c);

enum placed_owner {
	PLACED_OWNED,
	PLACED_SILENT, /* no such process is to be seen, but it gave a sign of life a moment ago */
	PLACED_ORPHAN, /* killed: no such process, and no sign of life for a second */
};

/*
 * Of the controller that @c names. @ret_pid (may be NULL): how we number it; 0: it lives where we cannot see
 * it, or not at all.
 */
enum placed_owner placed_owner(const struct wire_control *c, pid_t *ret_pid);

/* Without a look at other pid namespaces: quick, for while a thread is stopped. */
bool placed_looks_orphaned(const struct wire_control *c);

/* As placed_owner(), but waits until it is known: for a second at most, and only where it was PLACED_SILENT.
 */
enum placed_owner placed_owner_wait(pid_t pid, const struct placed *p, pid_t *ret_pid);

#endif
