/*
 * kernel_recorder - the part of the recording that runs in the kernel: loads record.bpf.c, gives it its
 * tables, and takes its records out. Needs the right to load BPF programs (root, or CAP_BPF and CAP_PERFMON),
 * a kernel with BTF, and Linux 5.17; as a guard, Linux 6.11.
 */
#ifndef WATCHCTL_ENGINE_KERNEL_KERNEL_RECORDER_H
#define WATCHCTL_ENGINE_KERNEL_KERNEL_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "handler/wire.h"
#include "watchctl/base/error.h"
#include "watchctl/code/memory_view.h"
#include "watchctl/engine/intake/intake.h"
#include "watchctl/engine/plan/area.h"

struct kernel_recorder;

struct kernel_recorder_spec {
	struct wire_control control; /* frames, raw_size, flags, code bounds: what the area begins with */
	size_t buffer_size;	     /* of the ring; a power of two, at least a page */
	/*
	 * Not 0: a guard before this SIGTRAP handler of the target, whose control block is at `their_control`
	 * there; it records only what the handler must not be called for: see record.bpf.c.
	 */
	uint64_t handler, their_control;
	int32_t depth; /* of the pid namespace, below ours, as which records number processes; -1: their own
			*/
};

/*
 * Loads it; of a guard, tries on ourselves whether this kernel obeys it. NULL: not to be had; *why then says
 * what is missing, a phrase.
 */
struct kernel_recorder *kernel_recorder_open(const struct kernel_recorder_spec *spec, const char **why);
void kernel_recorder_close(struct kernel_recorder *r); /* accepts NULL */

/* The tables and watches, in memory of the kernel. Lives as long as @r. */
const struct wire_area *kernel_recorder_area(const struct kernel_recorder *r);

/*
 * Puts it on a breakpoint event of the @i-th watch, which must be disabled still; threads that inherit the
 * event inherit it.
 */
bool kernel_recorder_attach(const struct kernel_recorder *r, int perf_fd, unsigned int i);

/*
 * True: reading a variable that is watched for reads raises no trap of ours, and such watches may see the
 * kernel's accesses. False: those reads would be counted.
 */
bool kernel_recorder_reads_silently(const struct kernel_recorder *r);

/* From now on memory is read so. Costs some time a hit; needed while anything is watched for reads. */
void kernel_recorder_read_silently(struct kernel_recorder *r);

/*
 * Place @i is given to another watch, which is about to be written into the area. Of a guard: what it knows
 * of the last value seen is forgotten, or the new one's, once it records everything anyway.
 */
void kernel_recorder_forget(struct kernel_recorder *r, unsigned int i);

/* Takes in what was recorded until @until_ns, as long as @in has room. *any: there was something. */
struct wc_error *kernel_recorder_take(struct kernel_recorder *r, struct intake *in, uint64_t until_ns,
				      bool *any);

/* Sleeps until a hit wants attention (its code is not known yet), @fd is readable, or the time is over. */
void kernel_recorder_wait(struct kernel_recorder *r, int fd, uint64_t ns);

/* Of watch @i: hits that were filtered out or lost in the kernel. */
void kernel_recorder_counts(const struct kernel_recorder *r, unsigned int i, uint64_t *filtered,
			    uint64_t *lost);

/*
 * From now on hits by a system call that returns to @pc with its stack at @sp are ours, and not recorded:
 * kernel_recorder_own() counts them. 0, 0: no more.
 */
void kernel_recorder_expect(struct kernel_recorder *r, uint64_t pc, uint64_t sp);

/* Of watch @i: hits that we made, and nobody's: a guard's, by the handler itself. Accepts NULL. */
uint64_t kernel_recorder_own(const struct kernel_recorder *r, unsigned int i);

/* A guard's: hits whose signal was not made because the handler was not ours. Accepts NULL. */
uint64_t kernel_recorder_suppressed(const struct kernel_recorder *r);

/* A guard's: hits at which a thread was to wait, and could be given no signal. Accepts NULL. */
uint64_t kernel_recorder_unheld(const struct kernel_recorder *r);

/* A guard's: a thread under seccomp has made a hit, which was recorded in the kernel. Accepts NULL. */
bool kernel_recorder_sandboxed(const struct kernel_recorder *r);

/* The same of a thread whose system calls the program dispatches itself. Accepts NULL. */
bool kernel_recorder_dispatching(const struct kernel_recorder *r);

/* The kernel's memory, its code in particular. ctx is @r. */
struct memory_view kernel_recorder_memory(struct kernel_recorder *r);

#endif
