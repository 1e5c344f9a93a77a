/*
 * inject - place the handler in a live process and withdraw it: each step with its undo.
 *
 *	inject_place		stops one thread, briefly; maps code and shared area; SIGTRAP then goes to the
 *				handler, which passes on what is not ours
 *	inject_uninstall	restores the program's own action
 *	inject_remove		unmaps everything that was placed
 */
#ifndef WATCHCTL_TARGET_INJECT_INJECT_H
#define WATCHCTL_TARGET_INJECT_INJECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "handler/wire.h"
#include "watchctl/base/error.h"
#include "watchctl/target/inject/placed.h"
#include "watchctl/target/stop/tracee.h"

struct injection {
	pid_t pid;
	uint64_t base; /* of the mapping in the target; 0: none */
	uint64_t size;
	uint64_t control; /* base + WIRE_CODE_SIZE */
	uint64_t handler; /* the address that SIGTRAP goes to */
	void *shared;	  /* the area as mapped by us, NULL where sharing is refused */
	uint64_t shared_size;
	uint64_t stop_ns; /* how long the stop for placing took */
	pid_t stop_tid;
	bool installed;
	bool adopted; /* its stub may still be in use by a thread on its way home, or not be where ours is */
	uint64_t stale_base, stale_size; /* what a controller that was killed has left mapped; 0: nothing */
	uint64_t stale_handler;		 /* where SIGTRAP went then */
	struct tracee *held; /* a launched program's thread, stopped; its tid becomes 0 once it runs */
};

/*
 * @control: what the control block shall hold; layout offsets, `old`, `ours` and code bounds are filled
 * in here. @size of the shared area is a multiple of the page size. @force_private: do not share.
 * @held: see struct injection; NULL for a running program.
 */
struct wc_error *inject_place(pid_t pid, struct wire_control *control, uint64_t shared_size,
			      bool force_private, struct tracee *held, struct injection *ret);

/*
 * Makes a thread touch @addr[i] (read, or atomic rewrite with the same value where write[i]) and sees
 * whether the trap comes. @ret[i]: it did. Changes nothing the program could see: where the access faults,
 * because the memory has gone, nobody learns of it.
 */
struct wc_error *inject_self_test(struct injection *inj, unsigned int n, const uint64_t *addr,
				  const bool *write, int si_code, bool *ret);

/* False: the program has unmapped it, or parts of it, or executes another program. */
bool inject_is_mapped(const struct injection *inj);

/*
 * For one that is not mapped any more: SIGTRAP does what it did before, unless the program has an action of
 * its own. Nothing else is touched: the program may have put something of its own in the handler's place.
 */
struct wc_error *inject_give_up(struct injection *inj);

/* Whether SIGTRAP still reaches our handler, directly or through another watchctl's. Stops a thread to ask.
 */
struct wc_error *inject_is_installed(struct injection *inj, bool *ret);

/*
 * Puts the program's own SIGTRAP action back (from the control block). Where another watchctl's handler
 * stands in front of ours, takes ours out from behind it. *replaced: the program has installed one of its
 * own, and may hold on to ours to restore it: nothing is changed, and inject_remove() must not be called.
 * All events must be closed and no SIGTRAP of ours pending. The same in processes that share the memory.
 */
struct wc_error *inject_uninstall(struct injection *inj, bool *replaced);

/*
 * Unmaps, once no thread is inside the handler. Not where the program holds the handler's address, which it
 * may set as its action again: WC_EFAIL, and the handler passes signals on.
 */
struct wc_error *inject_remove(struct injection *inj);

/*
 * Brings every thread through the kernel's signal path, once: what waited to be queued is queued then, and is
 * delivered when the thread goes on; a SIGTRAP of ours that a thread blocks is taken from it, anybody else's
 * is left there. False: not all of them could be stopped.
 */
bool inject_flush(struct injection *inj);

/* A SIGTRAP is on its way to some thread of @pid, which does not block it. */
bool inject_has_pending(pid_t pid);

/* To withdraw a handler whose controller was killed. */
void inject_adopt(pid_t pid, const struct placed *p, struct injection *ret);

/* Releases what is ours; touches the target no more. Accepts zero-initialised. */
void injection_deinit(struct injection *inj);

/* Reads and writes the shared area, by our mapping or through the kernel. False: the target is gone. */
bool injection_read(const struct injection *inj, uint64_t offset, void *buf, size_t len);
bool injection_write(const struct injection *inj, uint64_t offset, const void *buf, size_t len);

#endif
