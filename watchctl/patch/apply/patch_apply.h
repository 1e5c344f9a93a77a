/*
 * patch_apply - writes patches over the code of a running program, and takes them out, while all its threads stand still: none ever
 * executes half of one. Before the first byte is written the program's memory says what is about to be, so that whoever comes
 * after us, should we be killed, can take it out.
 */
#ifndef WATCHCTL_PATCH_APPLY_PATCH_APPLY_H
#define WATCHCTL_PATCH_APPLY_PATCH_APPLY_H

#include <stddef.h>
#include <stdint.h>

#include "probe/wire.h"
#include "watchctl/base/error.h"
#include "watchctl/patch/probe/probe_place.h"

enum patch_result {
	PATCH_APPLIED,
	PATCH_CHANGED, /* the bytes there are not those of the module's file: another tool's, or the program's own change */
	PATCH_UNREADABLE, /* the bytes there cannot be read: the module is being unloaded, or its file was cut */
	PATCH_IN_USE,	  /* a thread is in the middle of it, and stays there */
	PATCH_REFUSED,	  /* the bytes cannot be written at once: they cross a page */
	PATCH_NEEDED, /* another watchctl's jump ends in these bytes, or one of these jumps would end in bytes of its patch */
};

struct patch_job {
	struct probe_patch patch;
	uint64_t record;		 /* where in the program its probe_patch lies */
	uint16_t enter[PROBE_PATCH_MAX]; /* as patch.copy, but with the probes in front of each copy */
	const struct patch_job *via;	 /* its way station, which is written first; NULL: none */
	size_t group;			 /* the caller's */
	uint64_t station;		 /* likewise */
	bool waits;			 /* patch_apply()'s */
	bool was_applied;		 /* before, and may be so still */
	bool was_refused;		 /* before, and stays so */
	enum patch_result result;
};

/* Why it is not applied, as a part of a sentence; "" of PATCH_APPLIED. */
const char *patch_result_text(enum patch_result r);

/* Of @n jobs by address that which begins at @addr; NULL: none does. */
struct patch_job *patch_job_at(struct patch_job *job, size_t n, uint64_t addr);

struct patch_hold_times {
	uint64_t longest_ns; /* that the threads stood */
	unsigned int stops;
};

/*
 * Trampolines and sites are in place. By address. WC_ETARGET, WC_EPERM, WC_ENOTSUP: as stop_all() has them; jobs that are applied stay
 * so, and patch_undo() takes them out.
 */
struct wc_error *patch_apply(struct probe_place *p, struct patch_job *job, size_t n,
			     struct patch_hold_times *times);

struct patch_again {
	size_t applied, missed;
	enum patch_result why;	 /* the first is missed */
	struct probe_patch mark; /* one that is applied; len 0: none */
};

/*
 * The patches of the near area @area once more: their module was unloaded, and the same file is loaded at the same place. A thread that
 * is in the middle of one already is waited for. Errors as patch_apply().
 */
struct wc_error *patch_again(struct probe_place *p, const struct probe_range *area, struct patch_again *ret,
			     struct patch_hold_times *times);

/*
 * The module of the near area @area is not there any more: none of its patches need be taken out. Those that stand in the program
 * nevertheless are kept in mind.
 */
void patch_forget_gone(const struct probe_place *p, const struct probe_range *area);

struct patch_undone {
	size_t restored;
	size_t foreign; /* of patches whose bytes somebody else has changed since: they stay */
	bool occupied; /* a thread is still in a trampoline, or will come back to one: nothing may be unmapped */
};

/*
 * Switches all off, writes all original bytes back, and waits for some seconds until nobody is in the trampolines. Does what is
 * still to be done, whoever has begun.
 */
struct wc_error *patch_undo(struct probe_place *p, struct patch_undone *ret, struct patch_hold_times *times);

/* 0 or 1 to all switches. */
struct wc_error *patch_switch(const struct probe_place *p, uint64_t on);

#endif
