/*
 * probe_place - the memory of ours in a program: the home, once, and an area near each module that is patched (probe/wire.h). Each
 * step leaves what a later watchctl finds and takes out, should this one be killed.
 */
#ifndef WATCHCTL_PATCH_PROBE_PROBE_PLACE_H
#define WATCHCTL_PATCH_PROBE_PROBE_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/calls/call_wire.h"
#include "probe/wire.h"
#include "watchctl/base/error.h"
#include "watchctl/patch/probe/probe_image.h"
#include "watchctl/target/stop/tracee.h"

struct probe_place {
	pid_t pid;
	struct tracee *held; /* of a launched program: its thread, stopped; its tid becomes 0 once it runs */
	uint64_t cookie;
	uint64_t home;	      /* 0: nothing is placed */
	uint64_t code, entry; /* of the compiled probes; where trampolines go */
	uint64_t size;	      /* of the home */
	uint64_t ring_at, ring_size;
	struct probe_shared *shared;   /* as we map it */
	struct probe_counter *counter; /* in there: of each site, by its id */
	uint64_t counter_at;	       /* ... as the program has it */
	size_t counters;	       /* how many there can be */
	const uint64_t *tally;	       /* in there: of each thread that has one, by the ids of sites */
	uint32_t ntallies;
	struct call_shared *calls; /* in there; NULL: not asked for */
	uint64_t calls_at;	   /* ... as the program has it */
	struct call_plans *plans;  /* in there; NULL: not asked for */
	uint64_t
		thread_pointer; /* fs_base of one of the threads, which stood when it was placed; 0: not known */
	uint32_t nnear;
	struct probe_range near[PROBE_NEARS];
};

struct probe_place_request {
	pid_t pid;
	struct tracee *held;
	const struct probe_image *image;
	size_t counters;      /* sites that there can be */
	bool tallied;	      /* threads count by themselves, where they can */
	uint32_t slots;	      /* of each ring: a power of two */
	uint32_t stack_bytes; /* of probe_stack() */
	uint64_t call_bytes;  /* of the chunks of struct call_shared; 0: there is none */
	bool call_plans;      /* ... and struct call_plans */
};

/* Stops one thread for a moment. WC_ENOTSUP, WC_EPERM, WC_ETARGET; then nothing is left. */
struct wc_error *probe_place(const struct probe_place_request *q, struct probe_place *ret);

/*
 * Maps a near area at @r->start, for which struct probe_near is to be written. *@taken: something else is there by now; nothing has
 * been changed, and no error is returned.
 */
struct wc_error *probe_place_near(struct probe_place *p, const struct probe_range *r, bool *taken);

/*
 * Maps @n areas of code alone, of whose trampolines the records lie in a near area; each is to begin with struct probe_pun_head. Of one
 * that could not be mapped, for something else is there by now, or there may not be so many, the code_size becomes 0.
 */
struct wc_error *probe_place_puns(struct probe_place *p, struct probe_range *r, size_t n);

/* Whether the area is what it was made as: the program may have put something else in its place. */
bool probe_place_owns(const struct probe_place *p, const struct probe_range *range);

/* How many areas there can still be. */
size_t probe_place_left(const struct probe_place *p);

/* The value of trampolines' switches while they are on. */
uint64_t probe_place_on(const struct probe_place *p);

/* How often site @id was reached. */
uint64_t probe_place_count(const struct probe_place *p, size_t id);

/* Unmaps all. Nobody may be in it, nor come to it. */
struct wc_error *probe_place_remove(struct probe_place *p);

/* Releases what is ours; touches the program no more. Accepts zeros. */
void probe_place_deinit(struct probe_place *p);

/* The inode number of our pid namespace, by which processes have their numbers; 0: not known. */
uint64_t probe_own_namespace(void);

/* Homes in the process, those that it has inherited by fork among them. For each, what is known of it. */
struct probe_homes {
	struct found_home {
		struct probe_place place; /* shared is NULL */
		pid_t owner;		  /* who placed it, as we number it; 0: that one is gone */
		bool inherited;
	} * v;
	size_t n, cap;
};

struct wc_error *probe_homes_find(pid_t pid, struct probe_homes *ret);
void probe_homes_deinit(struct probe_homes *h);

#endif
