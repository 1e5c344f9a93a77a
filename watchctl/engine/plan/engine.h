/*
 * engine - arms watches on one process and pumps what they record into a sink.
 *
 * The order of life: open, arm (any number of times), pump until it says that the target is gone or the
 * caller has had enough, close. close leaves the target as it was found, whatever happened before.
 */
#ifndef WATCHCTL_ENGINE_PLAN_ENGINE_H
#define WATCHCTL_ENGINE_PLAN_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "handler/filter.h"
#include "watchctl/base/error.h"
#include "watchctl/code/insn/insn.h"
#include "watchctl/trace/event.h"

#define ENGINE_WATCHES 4u

#define HOLD_NS 300000000ull	     /* so long a thread waits at a hook at most, whatever becomes of us */
#define HOLD_START_NS 10000000000ull /* ... while a launched program has not begun, and we are heard of */

/*
 * What to watch: one debug register in every thread. Immutable once armed. Several may have the same id: the
 * parts of one variable that a single register does not cover. They are disarmed and counted together.
 */
struct watchpoint {
	uint32_t id;	    /* in the events; 0.. */
	uint64_t addr;	    /* of the debug register, aligned to size; 0 with `address` */
	uint32_t size;	    /* 1, 2, 4, 8 */
	uint64_t want_addr; /* the bytes asked for, inside those; want_size 0: all of them */
	uint32_t want_size;
	enum access_kind access; /* READ, WRITE, READWRITE or EXECUTE */
	bool shared;		 /* others may write to its memory as well, which traps nowhere here */
	int slot;  /* explicit debug register 0..3, armed through ptrace; -1: the kernel chooses */
	bool hook; /* no event: the thread waits while pump() returns PUMP_HOOK, for a limited time */
	const struct wire_filter *filter; /* copied when armed; NULL: every hit is recorded */
	bool tested; /* a known access was seen where its pointer led before: none is made again, which would
		      * stop a thread each time the pointer moves */
	/*
	 * A variable of which each thread has its own: its address in the thread with that thread pointer
	 * (fs base). False: that thread has none (yet). NULL: `addr` holds for all threads.
	 */
	bool (*address)(void *ctx, uint64_t thread_pointer, uint64_t *ret);
	void *address_ctx;
};

struct engine_options {
	unsigned int frames; /* most frames of a stack, 1..64 */
	size_t buffer_size;  /* of the ring, a power of two */
	bool private_ring;   /* do not share memory: read the ring through the kernel */
	void (*say)(void *ctx, const char *fmt, ...)
		__attribute__((format(printf, 2, 3))); /* verbose remarks */
	void *say_ctx;
	struct tracee *held; /* a launched program, stopped before its first instruction; NULL: running */
	bool values;	     /* WC_ENOTSUP where only those values would be known that instructions tell */
	bool follow_fork;    /* children are watched as well, by engines whose follows_fork is true */
	bool may_yield;	     /* PUMP_ENDED also where hits begin to be missed: another engine goes on */
	bool follow_exec; /* pump() returns PUMP_EXECED and the engine lives on, unarmed, if follows_exec */
};

struct arm_report {
	uint32_t threads, threads_armed;
	bool verified; /* a known access was seen to trap */
	bool kernel;   /* accesses by the kernel are seen too */
	const char *
		kernel_refusal; /* why not: "it needs CAP_PERFMON"; NULL: they make no sense here. Constant */
	bool has_value;
	uint64_t value; /* what the variable held just before it was armed */
};

enum pump_result {
	PUMP_IDLE,   /* nothing left to deliver for now */
	PUMP_HOOK,   /* a hook was hit, see hooked(): its thread waits until the next pump() */
	PUMP_EXITED, /* the target ended; everything recorded has been delivered */
	PUMP_EXECED, /* the target runs another program now, or ran one, and has ended; as above */
	PUMP_ENDED,  /* the engine had to give up for the target's sake: engine_why() says why */
};

struct engine_counts {
	bool has_counted;
	uint64_t counted;  /* by the CPU, as perf counts */
	uint64_t recorded; /* delivered to the sink */
	uint64_t filtered; /* dropped because the watch did not ask for that kind */
	uint64_t lost_full, lost_merged;
	bool replaced; /* lost_merged: because the program had replaced our handler */
	bool ended;    /* ... because they were in the program's own memory when it ended */
	bool corrupt;  /* ... because it had written into the event buffer, which was read no further */
};

/* The thread that waits at a hook. */
struct engine_hook {
	uint32_t id;
	pid_t pid, tid;
	struct regs regs;
};

struct engine;

struct engine_ops {
	const char *name;
	bool follows_fork, follows_exec;
	bool sees_births; /* threads of a per-thread watch are armed before they run */
	bool hooks_late;  /* a thread does not wait at a hook: it is reported afterwards */
	struct wc_error *(*open)(pid_t pid, const struct engine_options *o, struct event_sink sink,
				 struct engine **ret);
	struct wc_error *(*arm)(struct engine *e, const struct watchpoint *w, struct arm_report *ret);
	void (*disarm)(struct engine *e, uint32_t id);
	/*
	 * Arms @id, which has an `address`, in threads that have none of it yet. *ret (may be NULL): how
	 * many were armed now. Engines that see every thread's birth themselves do it themselves as well.
	 */
	struct wc_error *(*extend)(struct engine *e, uint32_t id, uint32_t *ret);
	/*
	 * A launched program has loaded the libraries that it begins with: who waits at a hook from now on
	 * does so for HOLD_NS at most, as in a program that ran already. NULL: nobody waits at hooks.
	 */
	void (*begun)(struct engine *e);
	/* After PUMP_HOOK, until the next pump(). */
	void (*hooked)(const struct engine *e, struct engine_hook *ret);
	/* Delivers what is there, waits for more up to @timeout_ms. */
	struct wc_error *(*pump)(struct engine *e, int timeout_ms, enum pump_result *ret);
	/* Why PUMP_ENDED; lives as long as the engine. */
	const char *(*why)(const struct engine *e);
	/*
	 * After disarm(@id): hits that were counted and have not been taken in; pump() brings them. 0: none,
	 * as far as can be known.
	 */
	uint64_t (*outstanding)(const struct engine *e, uint32_t id);
	/* Makes those come that a thread of the target has not got round to; NULL: there are no such. */
	void (*flush)(struct engine *e);
	/*
	 * After disarm(@id), for good: delivers what was taken in of it, and counts. What still comes is
	 * dropped; it counts as lost.
	 */
	struct wc_error *(*finish)(struct engine *e, uint32_t id, struct engine_counts *ret);
	/* Disarms everything and delivers the rest; counts are final afterwards. */
	struct wc_error *(*stop)(struct engine *e);
	void (*counts)(const struct engine *e, uint32_t id, struct engine_counts *ret);
	/* Withdraws from the target. Remarks about what had to be left behind go to say(). NULL is accepted.
	 */
	struct wc_error *(*close)(struct engine *e);
};

extern const struct engine_ops engine_handler; /* the fastest with values and exact stacks */
extern const struct engine_ops engine_ring;    /* nothing injected: the kernel records */
extern const struct engine_ops engine_ptrace;  /* a stop a hit; works wherever ptrace does */

#endif
