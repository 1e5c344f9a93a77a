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
#include "watchctl/code/elf/module.h"
#include "watchctl/code/elf/symbol_search.h"
#include "watchctl/code/memory_view.h"
#include "watchctl/code/regs.h"
#include "watchctl/code/symbols/symbolizer.h"
#include "watchctl/code/unwind/unwind_rule.h"

#define LOOK_FRAMES 128u

/* One address of a stack, named by the symbolizer of its process. */
struct look_frame {
	uint64_t ip;		   /* frame 0: the instruction that goes on; others: return addresses */
	const struct location *at; /* of a return address, of the byte before it */
	char *function;		   /* the real one's name without parameters; NULL: not known */
	bool signal; /* a signal handler's frame returns here: the frame outside it was interrupted */
};

struct look_thread {
	pid_t pid, tid;
	pid_t own_tid; /* as its own pid namespace numbers it */
	pid_t parent;  /* of its process; 0: none that we see */
	char comm[16];
	char state;    /* R, S, D, T, t, Z, X, as ps(1) shows it */
	bool is_32bit; /* its system calls and registers are not read */
	bool running;  /* it was on a CPU: what it is in is not known */
	bool in_syscall;
	long number; /* of the system call */
	uint64_t arg[6];
	uint64_t asleep_ns; /* since it ran last; 0: not known, or it runs */
	uint64_t ran_ns;    /* CPU time between the two looks */
	/* Where the kernel writes 0, and wakes, as it ends (set_tid_address); 0: not known. */
	uint64_t clear_child;
	/* A lock of the kernel's that it waits for, and who has it or had it last; 0: none, or not known. */
	uint64_t blocker;
	pid_t blocker_tid;
	struct regs regs;
	bool has_regs; /* all of them; else only rsp and rip, and not even those of one that is running */

	/* After look_stack(). */
	struct look_frame *frame; /* owned */
	unsigned int nframes;
	enum walk_end end;
	bool walked;
	bool stopped; /* it was stopped for a moment, to read its registers */

	/* The look's own. */
	bool seen;
	unsigned int round;
	uint64_t seen_ns, ran_at_ns;
};

struct look_process {
	pid_t pid, parent;
	char comm[16];		     /* of its first thread */
	struct look_thread **thread; /* of the look; those of this process by tid. Zombies too. */
	size_t nthreads, thread_cap;
	/* The rest is read by look_open(); empty where it may not be. */
	struct module_list modules;
	struct symbolizer *symbolizer;
	struct cfi *cfi;
	struct memory_view mem; /* reads the memory of @pid */
	bool opened;
};

struct look;

/*
 * Two looks at the system, @between_ms apart. By BPF where it is permitted, else by /proc. WC_ETARGET: @pid, the process
 * that is asked about, ended. @search: where names are looked for; outlives the look.
 */
struct wc_error *look_new(pid_t pid, unsigned int between_ms, const struct symbol_search *search,
			  struct look **ret);
void look_free(struct look *l); /* accepts NULL */
void look_freep(struct look **l);

/* Why BPF could not be used, a phrase; NULL: it was. Without it registers take a stop of each thread that is explained. */
const char *look_without_kernel(const struct look *l);

/* The process of that pid. NULL: there is none in our pid namespace. */
struct look_process *look_process(struct look *l, pid_t pid);

/* Its modules and memory are there. False: it has ended, it is a kernel thread, or may not be looked at. */
bool look_open(struct look *l, struct look_process *p);

/* Every process, by pid: @i from 0 on. NULL: that was the last one. */
struct look_process *look_process_at(const struct look *l, size_t i);

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
