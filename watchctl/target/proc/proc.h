/*
 * proc - what /proc says about a process and its threads. Reads only; nothing here stops anything.
 */
#ifndef WATCHCTL_TARGET_PROC_PROC_H
#define WATCHCTL_TARGET_PROC_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/code/memory_view.h"

#define PROC_DEPTH 33 /* MAX_PID_NS_LEVEL of include/linux/pid_namespace.h, and the first one */

struct proc_status {
	char name[17];
	char state; /* R, S, D, T, t, Z, X */
	pid_t tgid;
	pid_t parent;
	pid_t tracer;	       /* 0: none */
	uint32_t uid;	       /* effective */
	int seccomp;	       /* 0 none, 1 strict, 2 filter */
	pid_t ns_id;	       /* the id in the innermost pid namespace */
	unsigned int depth;    /* how many pid namespaces lie between ours and that one */
	pid_t ids[PROC_DEPTH]; /* in each of them: ids[0] in ours, ids[depth] is ns_id */
	bool kthread;
	bool has_memory; /* false: kernel thread, or past its end */
	bool shadow_stack;
	uint64_t stack_kb;	 /* of all mappings that grow like a stack */
	uint64_t pending;	 /* signals pending for the thread or the process, bit signo - 1 */
	uint64_t thread_pending; /* ... for the thread alone */
	uint64_t blocked, ignored, caught;
};

#define PROC_SIGTRAP (1ull << 4)

/* False: the thread is gone. @tid may be a process id. */
bool proc_status_read(pid_t pid, pid_t tid, struct proc_status *ret);

/* The id in the pid namespace at @depth, or the innermost one if there are not so many; 0: not known. */
pid_t proc_id_at(const struct proc_status *s, unsigned int depth);

/* Signals that do nothing to the process: it ignores them, or they do nothing unless they are caught. */
uint64_t proc_ignored_signals(const struct proc_status *s);

/* The thread has begun to end: it runs no more of its program. Also true when it is gone. */
bool proc_is_ending(pid_t pid, pid_t tid);

struct thread_ids {
	pid_t *v;
	size_t n, cap;
};

/* The system call that a thread waits in, and its first argument. False: it waits in none, or cannot be asked. */
bool proc_in_syscall(pid_t pid, pid_t tid, long *number, uint64_t *arg);

/*
 * Where a thread that is in the kernel will go on in user mode: its stack pointer and its place in the code.
 * False: it is running, or gone.
 */
bool proc_resting(pid_t pid, pid_t tid, uint64_t *sp, uint64_t *pc);

bool thread_ids_have(const struct thread_ids *t, pid_t tid);

/* The threads of @pid now. False: the process is gone (or there is no memory, or no file left to open). */
bool proc_threads(pid_t pid, struct thread_ids *ret);

/* Why something of @pid could not be read: WC_ETARGET, it has ended; WC_EFAIL, we have no room. */
struct wc_error *proc_unread_error(pid_t pid);
bool proc_is_thread_of(pid_t pid, pid_t tid);

/* The strictest seccomp mode of its threads, each of which has its own: 0 none, 1 strict, 2 filter. */
int proc_seccomp(pid_t pid);

/*
 * Processes that share the memory of @pid without being threads of it (CLONE_VM without CLONE_THREAD; a child
 * in vfork), as far as we may know. Each has SIGTRAP actions of its own unless it shares those, too.
 */
void proc_sharers(pid_t pid, struct thread_ids *ret);

/* Of these. */
bool proc_shares_with_any(pid_t pid, const struct thread_ids *others);

/* A child of @pid is one of them; true also where nobody knows. Quick. */
bool proc_made_sharer(pid_t pid);

enum proc_sharing { PROC_SHARED, PROC_SEPARATE, PROC_UNKNOWN };
enum proc_sharing proc_shares_memory(pid_t a, pid_t b);
bool proc_shares_actions(pid_t a, pid_t b); /* true only where it is known */

void thread_ids_deinit(struct thread_ids *t);

/*
 * NULL when @pid can be watched at all. Else WC_ETARGET (no such process, zombie, kernel thread),
 * WC_ENOTSUP (a 32-bit program; no /proc, or that of another PID namespace), WC_EPERM (another user's).
 */
struct wc_error *proc_check(pid_t pid);

/* Reads another process's memory; ctx is a pointer to its pid_t. */
struct memory_view proc_memory(const pid_t *pid);

/* As much as can be read from @addr up, at most @len bytes; how much. */
size_t proc_read_some(pid_t pid, uint64_t addr, void *buf, size_t len);

/* Writes all of it or nothing more; false with errno. Ordinary permissions: no write to read-only pages. */
bool proc_write(pid_t pid, uint64_t addr, const void *buf, size_t len);

/* As above, but also into private read-only pages, which become private copies. Needs ptrace rights. */
bool proc_write_force(pid_t pid, uint64_t addr, const void *buf, size_t len);

struct proc_map {
	uint64_t start, end;
	bool read, write, exec, shared;
	uint64_t offset; /* in the file, of start */
	uint64_t device,
		file;  /* the file's st_dev as major << 32 | minor, and its st_ino; 0: anonymous, private */
	char name[64]; /* last 63 characters of the path, or "[stack]"; "" for anonymous */
};

/* Calls @fn for each line of /proc/PID/maps until it returns false. False: cannot be read (errno). */
bool proc_maps(pid_t pid, bool (*fn)(void *ctx, const struct proc_map *m), void *ctx);

/* The mapping that holds @addr. False: none (errno is 0), or it cannot be known (errno). */
bool proc_map_at(pid_t pid, uint64_t addr, struct proc_map *ret);

/* Right after it said false: WC_ENAME, nothing is mapped; else why that cannot be known. */
struct wc_error *proc_map_error(pid_t pid, uint64_t addr);

#define SAME_PAGE_PLACES 4u

/* Where the page of shared memory at an address is mapped besides. */
struct same_page {
	uint64_t here[SAME_PAGE_PLACES]; /* its address in the same process, at most so many */
	unsigned int nhere;
	pid_t process[SAME_PAGE_PLACES]; /* some of the nprocesses others */
	unsigned int nprocesses;
	bool complete; /* all processes were looked at: we may, and it did not take too long */
};

/* @addr: in @pid. False: its memory is not shared, or that cannot be known. */
bool proc_is_shared(pid_t pid, uint64_t addr);
bool proc_same_page(pid_t pid, uint64_t addr, struct same_page *ret);

/* @pid is @ancestor, or a child, grandchild ... of it, as far as those between still live; 64 of them. */
bool proc_descends_from(pid_t pid, pid_t ancestor);

/* When the process started, in clock ticks since boot: with the pid, its identity. 0: it is gone. */
uint64_t proc_start_time(pid_t pid);

/* The process that started then is at work: one that has ended, and that its parent has not waited for, is not. */
bool proc_lives(pid_t pid, uint64_t start);

/* Of ourselves. Looked up once: a thread may stand still while we ask. */
uint64_t proc_own_start_time(void);

/* Where the kernel began the main stack: another place in each program that is executed. 0: not to be known.
 */
uint64_t proc_stack_start(pid_t pid);

/* From where on brk(2) lets the heap grow. 0: not to be known. */
uint64_t proc_heap_start(pid_t pid);

/*
 * Whether it has executed another program since proc_stack_start() was @stack_start. For when something
 * failed: of an exec that is under way the end is waited for, some 20 ms. False also where it has ended.
 */
bool proc_has_execed(pid_t pid, uint64_t stack_start);

#define PROC_PAGE_PRESENT_OR_SWAPPED (3ull << 62)
#define PROC_PAGE_OF_FILE (1ull << 61) /* or shared: no copy of the process's own */

/* The kernel's words about @n pages from that of @addr on: Documentation/admin-guide/mm/pagemap.rst. False:
 * not known (errno; 0: it has no memory any more). */
bool proc_pagemap(pid_t pid, uint64_t addr, uint64_t *ret, size_t n);

/*
 * Whoever touches the page at @addr may have to wait for the program itself, or another one, to fill it in
 * (userfaultfd): we must not, nor have one of its threads do so for us.
 */
bool proc_page_waits(pid_t pid, uint64_t addr);

struct proc_namespace {
	uint64_t id;	    /* 0: not known */
	unsigned int depth; /* below ours; 0: it is ours */
};

/* The pid namespace of @pid, which must not have ended. */
void proc_namespace_read(pid_t pid, struct proc_namespace *ret);

/*
 * The process, in that namespace or one below, that has the id @inner there, as we number it; @inner itself
 * where it cannot be found.
 */
pid_t proc_global_pid(const struct proc_namespace *ns, pid_t inner);

/*
 * Calls @fn for each process there is, by ascending number, until it returns false: also for those that are
 * forked meanwhile, unless their numbers have begun anew.
 */
void proc_each(bool (*fn)(void *ctx, pid_t pid), void *ctx);

/* "name (pid N)" of another process, for messages. */
void proc_describe(pid_t pid, char *buf, size_t len);

#endif
