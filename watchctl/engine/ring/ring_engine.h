/*
 * ring_engine - what the files of the ring engine share: its state, and who does what.
 *
 *	engine_ring.c	opens, pumps, closes: the table of operations
 *	ring_arm.c	arms and disarms one watch
 *	ring_verify.c	tries one out
 *	ring_samples.c	where BPF is not permitted: from the kernel's own samples to records
 */
#ifndef WATCHCTL_ENGINE_RING_RING_ENGINE_H
#define WATCHCTL_ENGINE_RING_RING_ENGINE_H

#include "watchctl/engine/arm/perf_bp.h"
#include "watchctl/engine/intake/exec_watch.h"
#include "watchctl/engine/intake/intake.h"
#include "watchctl/engine/intake/past_counts.h"
#include "watchctl/engine/kernel/kernel_recorder.h"
#include "watchctl/engine/perf/family_watch.h"
#include "watchctl/engine/plan/engine.h"
#include "watchctl/engine/plan/watchpoint.h"
#include "watchctl/engine/ring/ring_samples.h"

/* What the engine knows of watch i beside what its intake does. */
struct ring_watch {
	bool armed, disabled, finished;
	struct watchpoint w;
	struct perf_bp perf;
	uint64_t counted; /* final, once it is disabled */
	uint64_t disabled_ns;
	struct engine *engine;
};

struct engine {
	pid_t pid;
	struct engine_options options;
	struct kernel_recorder *recorder; /* NULL: not permitted; then the two that follow are there */
	struct perf_rings *rings;
	struct ring_samples *samples;
	struct kernel_access *kernel; /* with the recorder */
	struct intake intake;
	struct exec_watch exec;
	struct family_watch family; /* with follow_fork */
	struct ring_watch watch[WIRE_WATCHES];
	struct past_counts past; /* of watches whose place was taken by a later one */
	int pidfd;
	int registers_before; /* in use in a thread of the target before we armed any */
	uint64_t checked_ns;
	bool ended; /* the target itself; followed children may live on */
};

struct wc_error *ring_arm(struct engine *e, const struct watchpoint *w, struct arm_report *ret);
void ring_disarm(struct engine *e, uint32_t id);
struct wc_error *ring_extend(struct engine *e, uint32_t id, uint32_t *ret);

/*
 * Has the kernel make an access to watch @i, which is armed, on behalf of a thread of the program. It was
 * seen: true. It is a courtesy: where it cannot be made it is none, and say() is given the reason. Changes nothing.
 */
bool ring_verify(const struct engine *e, unsigned int i);

/* No more hits of watch @w, and its count is final. */
void ring_disable(struct ring_watch *w);

/* Of watch @i alone. */
void ring_counts_of(const struct engine *e, unsigned int i, struct engine_counts *ret);

/* Everything recorded so far to the sink. */
struct wc_error *ring_drain(struct engine *e);

#endif
