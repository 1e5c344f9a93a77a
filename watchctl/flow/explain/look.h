/*
 * look - what is seen of the threads of the system at one moment, without stopping any of them: state, system call, registers,
 * how long a thread has been asleep; and, on demand, the modules, stack and names of a process's threads.
 */
#ifndef WATCHCTL_FLOW_EXPLAIN_LOOK_H
#define WATCHCTL_FLOW_EXPLAIN_LOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/base/map64.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/memory_view.h"
#include "watchctl/code/regs.h"
#include "watchctl/code/symbols/symbolizer.h"
#include "watchctl/code/unwind/unwind_rule.h"

#define LOOK_FRAMES 128u

/* What is at one address of a stack: from the symbolizer of its process. */
struct look_frame {
	uint64_t ip; /* frame 0: the instruction that goes on; others: return addresses */
	const struct location *at;
	bool signal; /* a signal handler's frame returns here: the frame outside it was interrupted */
};

struct look_thread {
	pid_t pid, tid;
	char comm[16];
	char state; /* R, S, D, T, t, Z, X */
	bool in_syscall;
	long number; /* of the system call */
	uint64_t arg[6];
	uint64_t asleep_ns; /* since it ran last; 0: not known, or it runs */
	uint64_t ran_ns;    /* CPU time between the two looks */
	uint64_t
		clear_child; /* where the kernel writes 0 and wakes as it ends (set_tid_address); 0: not known */
	uint64_t
		blocker; /* task_struct.blocker: lock of the kernel's that it waits for, with its kind; 0: none, or not known */
	struct regs regs;
	bool has_regs;

	/* After look_stack(). */
	struct look_frame *frame; /* owned */
	unsigned int nframes;
	enum walk_end end;
	bool walked;
};

struct look_process {
	pid_t pid, parent;
	pid_t ns_pid; /* its own idea of its pid */
	char comm[16];
	struct look_thread **thread; /* of the look; those of this process by tid */
	size_t nthreads, thread_cap;
	struct module_list modules;
	struct symbolizer *symbolizer;
	struct cfi *cfi;
	struct memory_view mem; /* reads @pid's memory */
};

struct look;

/*
 * Two looks at the system, some @between_ms apart. WC_EPERM and the like: not even @pid can be looked at.
 * @pid: the process that is asked about, whose threads must be seen.
 */
struct wc_error *look_new(pid_t pid, unsigned int between_ms, struct look **ret);
void look_free(struct look *l);

/* The process of that pid, with its threads, modules and names read when it is first asked for. NULL: it is gone, may not be
 * looked at, or there is no memory. */
struct look_process *look_process(struct look *l, pid_t pid);

/* The thread @tid of @p; with 0 its first thread. NULL: there is none. */
struct look_thread *look_thread(const struct look_process *p, pid_t tid);

/* The thread that process @p knows as @tid, in its own pid namespace. NULL: there is none. */
struct look_thread *look_thread_inside(const struct look_process *p, pid_t tid);

/* Walks the stack of @t, once. frame[] may be empty. */
void look_stack(struct look *l, struct look_process *p, struct look_thread *t);

/* The function of frame @i of @t, without parameters ("pthread_mutex_lock"), or NULL; the base name of its module, or NULL. */
const char *look_function(const struct look_thread *t, unsigned int i);
const char *look_module(const struct look_thread *t, unsigned int i);

#endif
