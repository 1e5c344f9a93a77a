#include "watchctl/flow/explain/look.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/unwind/cfi.h"
#include "watchctl/flow/explain/look_impl.h"
#include "watchctl/flow/kernel/kernel_tasks.h"
#include "watchctl/flow/kernel/proc_tasks.h"
#include "watchctl/target/proc/proc.h"

struct look {
	const struct symbol_search *search;
	struct kernel_tasks *kernel; /* NULL: by /proc */
	const char *without;	     /* then: why */
	struct map64 thread;	     /* tid -> struct look_thread, owned */
	struct map64 process;	     /* pid -> struct look_process */
	struct look_process **at;    /* the same, by pid; owned */
	size_t nprocesses, process_cap;
	unsigned int round; /* 0, 1: of the two looks */
	uint64_t now_ns;    /* on the scheduler's clock: when we ourselves were seen running */
	bool starved;
};

/* As include/linux/sched.h numbers states, and as fs/proc/array.c makes letters of them. */
static char state_letter(const struct tasks_record *r)
{
	if (r->exit_state)
		return r->exit_state & 0x10 ? 'X' : 'Z';
	if (r->state & 2)
		return r->state & 0x400 ? 'I' : 'D';
	if (r->state & 4)
		return 'T';
	if (r->state & 8)
		return 't';
	return r->state & 1 ? 'S' : 'R';
}

static void put_syscall(struct look_thread *t, const struct tasks_record *r)
{
	static const enum reg order[] = { WREG_RDI, WREG_RSI, WREG_RDX, WREG_R10, WREG_R8, WREG_R9 };

	t->in_syscall = r->syscall >= 0 && !t->running;
	t->number = (long)r->syscall;
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		t->arg[i] = t->in_syscall ? r->regs.r[order[i]] : 0;
}

static struct look_thread *thread_of(struct look *l, const struct tasks_record *r)
{
	struct look_thread *old = map64_get(&l->thread, (uint64_t)r->tid), *t;

	if (old && old->pid == r->pid)
		return old;
	t = calloc(1, sizeof(*t));
	if (!t || !map64_put(&l->thread, (uint64_t)r->tid, t)) {
		free(t);
		return NULL;
	}
	free(old); /* its number belongs to another process by now */
	t->pid = r->pid;
	t->tid = r->tid;
	return t;
}

/* Kernel threads have no program to be explained. */
static bool take_thread(void *ctx, const struct tasks_record *r)
{
	struct look *l = ctx;
	struct look_thread *t;
	uint64_t before;

	if (!r->tid || !r->pid || (r->is_kernel && !r->exit_state))
		return true;
	t = thread_of(l, r);
	l->starved |= !t;
	if (!t)
		return false;
	before = t->seen_ns;
	t->seen_ns = r->ran_ns;
	t->ran_ns = !l->round ? 0 : t->seen ? r->ran_ns - before : r->ran_ns;
	t->seen = true;
	t->round = l->round;
	t->own_tid = r->own_tid;
	t->parent = r->parent;
	t->state = state_letter(r);
	t->running = r->on_cpu != 0;
	t->is_32bit = r->is_32bit != 0;
	t->has_regs = r->has_regs && !t->running;
	t->regs = r->regs;
	t->clear_child = r->clear_child;
	t->blocker = r->blocker;
	t->blocker_tid = r->blocker_tid;
	t->ran_at_ns = r->ran_at_ns;
	memcpy(t->comm, r->comm, sizeof(t->comm));
	t->comm[sizeof(t->comm) - 1] = '\0';
	put_syscall(t, r);
	if (r->tid == gettid())
		l->now_ns = r->ran_at_ns;
	return true;
}

/* False: not all threads could be read. */
static bool look_round(struct look *l, unsigned int round)
{
	l->round = round;
	return l->kernel ? kernel_tasks_read(l->kernel, take_thread, l) : proc_tasks_read(take_thread, l);
}

/* Those of the last look, by process. */

static struct look_process *process_of(struct look *l, pid_t pid)
{
	struct look_process *p = map64_get(&l->process, (uint64_t)pid);

	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->pid = pid;
	if (vec_push(l->at, l->nprocesses, l->process_cap, p)) {
		if (map64_put(&l->process, (uint64_t)pid, p))
			return p;
		l->nprocesses--;
	}
	free(p);
	return NULL;
}

static bool add_thread(struct look *l, struct look_thread *t)
{
	struct look_process *p = process_of(l, t->pid);

	if (!p || !vec_push(p->thread, p->nthreads, p->thread_cap, t))
		return false;
	if (t->tid == t->pid || p->nthreads == 1) {
		p->parent = t->parent;
		memcpy(p->comm, t->comm, sizeof(p->comm));
	}
	if (t->state != 'R' && t->ran_at_ns && l->now_ns > t->ran_at_ns)
		t->asleep_ns = l->now_ns - t->ran_at_ns;
	return true;
}

static int by_tid(const void *a, const void *b)
{
	const struct look_thread *const *x = a, *const *y = b;

	return ((*x)->tid > (*y)->tid) - ((*x)->tid < (*y)->tid);
}

static int by_pid(const void *a, const void *b)
{
	const struct look_process *const *x = a, *const *y = b;

	return ((*x)->pid > (*y)->pid) - ((*x)->pid < (*y)->pid);
}

static bool sort_threads(struct look *l)
{
	for (size_t i = 0; i < l->thread.cap; i++) {
		struct look_thread *t = l->thread.slot[i].used ? l->thread.slot[i].value : NULL;

		if (t && t->round && !add_thread(l, t))
			return false;
	}
	for (size_t i = 0; i < l->nprocesses; i++)
		qsort(l->at[i]->thread, l->at[i]->nthreads, sizeof(l->at[i]->thread[0]), by_tid);
	if (l->nprocesses)
		qsort(l->at, l->nprocesses, sizeof(l->at[0]), by_pid);
	return true;
}

struct wc_error *look_new(pid_t pid, unsigned int between_ms, const struct symbol_search *search,
			  struct look **ret)
{
	struct look *l = calloc(1, sizeof(*l));
	bool whole;

	if (!l)
		return &wc_enomem;
	l->search = search;
	l->kernel = kernel_tasks_open(&l->without);
	whole = look_round(l, 0);
	poll(NULL, 0, (int)between_ms);
	whole &= look_round(l, 1);
	if (!whole && !l->starved) {
		look_free(l);
		return wc_error_new(WC_EFAIL,
				    "the kernel did not give all threads of the system: try once more");
	}
	if (l->starved || !sort_threads(l)) {
		look_free(l);
		return &wc_enomem;
	}
	if (!look_process(l, pid)) {
		look_free(l);
		return wc_error_new(WC_ETARGET, "the process %d has ended", pid);
	}
	*ret = l;
	return NULL;
}

static void free_thread(void *value)
{
	struct look_thread *t = value;

	look_forget_stack(t);
	free(t);
}

static void free_process(struct look_process *p)
{
	cfi_free(p->cfi);
	symbolizer_free(p->symbolizer);
	module_list_deinit(&p->modules);
	free(p->thread);
	free(p);
}

void look_free(struct look *l)
{
	if (!l)
		return;
	kernel_tasks_close(l->kernel);
	for (size_t i = 0; i < l->nprocesses; i++)
		free_process(l->at[i]);
	map64_deinit(&l->process);
	map64_deinit_values(&l->thread, free_thread);
	free(l->at);
	free(l);
}

void look_freep(struct look **l)
{
	look_free(*l);
}

const char *look_without_kernel(const struct look *l)
{
	return l->kernel ? NULL : l->without;
}

struct look_process *look_process(struct look *l, pid_t pid)
{
	return map64_get(&l->process, (uint64_t)pid);
}

struct look_process *look_process_at(const struct look *l, size_t i)
{
	return i < l->nprocesses ? l->at[i] : NULL;
}

struct look_thread *look_thread(const struct look_process *p, pid_t tid)
{
	for (size_t i = 0; i < p->nthreads; i++)
		if (p->thread[i]->tid == (tid ? tid : p->pid))
			return p->thread[i];
	return !tid && p->nthreads ? p->thread[0] : NULL;
}

struct look_thread *look_thread_inside(const struct look_process *p, pid_t tid)
{
	for (size_t i = 0; i < p->nthreads; i++)
		if (p->thread[i]->own_tid == tid)
			return p->thread[i];
	return NULL;
}

static bool add_modules(struct look *l, struct look_process *p)
{
	symbolizer_set_search(p->symbolizer, l->search);
	for (size_t i = 0; i < p->modules.n; i++)
		if (!symbolizer_add(p->symbolizer, &p->modules.v[i]) || !cfi_add(p->cfi, &p->modules.v[i]))
			return false;
	return symbolizer_add_process(p->symbolizer, p->pid, 0, 0);
}

bool look_open(struct look *l, struct look_process *p)
{
	if (p->opened)
		return p->modules.n != 0;
	p->opened = true;
	p->mem = proc_memory(&p->pid);
	p->symbolizer = symbolizer_new();
	p->cfi = cfi_new();
	wc_error_free(module_list_read(p->pid, &p->modules));
	if (p->symbolizer && p->cfi && add_modules(l, p))
		return p->modules.n != 0;
	module_list_deinit(&p->modules);
	p->modules = (struct module_list){ 0 };
	return false;
}
