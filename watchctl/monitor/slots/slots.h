/*
 * slots - who holds the debug registers of a process, as far as it can be known; and freeing those that a
 * watchctl that was killed has left.
 *
 * The sources, and what each shows:
 *	handlers in the process		exactly what their sessions watch, and whether these live
 *	the tracer of a ptrace session	the same
 *	open files			a ring session's target; of other perf events, only that they exist
 *	ptrace, a short stop		what ptrace has set in DR0-DR3: ours (-i), or what a debugger left; not while another
 *					tracer holds the thread, and never what perf has set
 *	perf, by taking the rest	how many registers a thread has in use, whoever uses them
 */
#ifndef WATCHCTL_MONITOR_SLOTS_SLOTS_H
#define WATCHCTL_MONITOR_SLOTS_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/code/insn/insn.h"
#include "watchctl/code/symbols/symbolizer.h"
#include "watchctl/monitor/slots/holders.h"
#include "watchctl/target/inject/placed.h"
#include "watchctl/target/proc/proc.h"

#define SLOTS 4u
#define SLOT_NAME 160u

enum slot_engine { SLOT_HANDLER, SLOT_RING, SLOT_PTRACE };

struct slot_watch {
	uint64_t addr; /* 0: another in each thread */
	uint32_t size;
	enum access_kind access;
	bool for_itself; /* no watch of its user's: there it waits for threads, libraries, pointers to change
			  */
	bool by_ptrace;	 /* armed with -i: which register it is can be seen in the threads */
	int slot;	 /* -1: the kernel chose, or it has not been seen */
};

/* One watchctl that has to do with the process. */
struct slot_session {
	enum slot_engine engine;
	bool lives;
	pid_t owner; /* as we number it; of one that was killed: as it did. 0: it cannot be seen from here */
	uint64_t owner_start; /* as proc_start_time() says, while it lives */
	const char *command;  /* its arguments; NULL: not known */
	bool knows_watches;   /* else watch[] is empty because nobody can say */
	struct slot_watch watch[WIRE_WATCHES];
	unsigned int nwatches;	     /* armed now; of one that was killed: what may still be in a register */
	const struct placed *placed; /* SLOT_HANDLER; else NULL */
	bool other_version;	     /* of watchctl: nothing but that it is there is known */
	pid_t inherited_from;  /* the handler is a copy, from when the process was forked from that one; 0: no
				*/
	bool follows_children; /* and it records there as well */
	pid_t own_tracer;      /* SLOT_PTRACE */
};

enum slot_sight {
	SLOT_SEEN,
	SLOT_NONE,   /* perf says that none is in use, or that all are known: not looked at */
	SLOT_TRACED, /* somebody else's tracee */
	SLOT_BUSY,   /* did not stop in time */
	SLOT_DENIED, /* not permitted */
};

/* What ptrace reports one register. */
struct slot_register {
	bool armed;
	uint64_t addr;
	uint32_t size;
	enum access_kind access;
	int session; /* that armed it; -1: nobody known */
};

struct slot_thread {
	pid_t tid;
	char name[17];
	int used; /* as perf counts; -1: not known */
	enum slot_sight sight;
	struct slot_register reg[SLOTS]; /* SLOT_SEEN; else nothing is armed there as far as is known */
	/* Of `used`, how many nothing of the above explains: at least, and at most. */
	unsigned int unexplained_min, unexplained_max;
};

struct slots {
	pid_t pid;
	char name[17];
	pid_t tracer; /* of some thread, and no tracer of ours; 0: none */
	char tracer_name[17];
	struct slot_session *session;
	size_t nsessions, session_cap;
	struct placed_list placed; /* what the sessions of the handler engine refer to */
	struct slot_thread *thread;
	size_t nthreads, thread_cap;
	/* May hold what is unexplained. They belong to the list given to slots_read(). */
	const struct holder **perf;
	size_t nperf, perf_cap;
	struct symbolizer *symbols;
};

/*
 * @holders must outlive *ret. Threads with registers in use are stopped for a moment each. WC_ETARGET,
 * WC_EPERM, WC_ENOTSUP as proc_check().
 */
struct wc_error *slots_read(pid_t pid, const struct holder_list *holders, struct slots *ret);

/* Accepts zero-initialised. */
void slots_deinit(struct slots *s);

/* For scoped(slots_deinitp). */
static inline void slots_deinitp(struct slots *s)
{
	slots_deinit(s);
}

/* Processes in which something of watchctl's is found, in ascending order. */
struct wc_error *slots_find_ours(const struct holder_list *holders, struct thread_ids *ret);

/* The variable or function there, as "name+4"; false: unknown. */
bool slots_name(const struct slots *s, uint64_t addr, char buf[SLOT_NAME]);

/* True when both threads have the same registers in use, as far as is known. */
bool slots_alike(const struct slot_thread *a, const struct slot_thread *b);

enum slots_freed_kind {
	SLOTS_FREED_HANDLER,
	SLOTS_FREED_REGISTER,
	SLOTS_FREED_CHILDREN, /* a handler, in as many processes as it says */
	SLOTS_ENDED,	      /* a session that lived */
	SLOTS_LEFT,	      /* something is still there, and counts as a failure: see why */
	SLOTS_REGISTER_CLEAR, /* was asked to be cleared, and nothing is in it */
};

struct slots_freed {
	enum slots_freed_kind kind;
	pid_t owner; /* 0: not known, or none */
	unsigned int slot;
	uint64_t addr; /* of the watched variable, or of the handler */
	uint64_t size;
	enum access_kind access;
	char name[SLOT_NAME]; /* "": unknown */
	unsigned int threads; /* in which it was cleared */
	size_t processes;
	const char *why;
};

struct slots_clear {
	pid_t pid;		/* with @children it may have ended */
	bool children;		/* what is left in processes that were forked from it, as well */
	bool all;		/* sessions that live are ended */
	unsigned int registers; /* bit n: DRn as well, whoever has armed it */
	void (*report)(void *ctx, const struct slots_freed *f);
	void *ctx;
};

/*
 * Frees what watchctl has left, and what the request names besides. Goes on after a failure; each is
 * reported as SLOTS_LEFT, and the first is returned. A session that lives and is not to be ended is such a
 * failure (WC_EFAIL); a tracer that holds the process another (WC_EPERM).
 */
struct wc_error *slots_clear(const struct slots_clear *request);

#endif
