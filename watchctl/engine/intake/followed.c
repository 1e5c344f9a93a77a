#include "watchctl/engine/intake/followed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/code/elf/module_jit.h"
#include "watchctl/session/process_event.h"
#include "watchctl/target/proc/proc.h"

#define LOOK_NS 1000000000ull
#define THREADS_MAX (1u << 17)
#define PROCESSES_MAX (1u << 12) /* they have lists of modules */
#define NAMES_MAX (1u << 16)

struct thread_id {
	pid_t tid;
	char comm[COMM_LEN + 1];
	uint32_t named; /* followed.named, when it was reported */
};

void followed_init(struct followed *f, pid_t pid, struct event_sink sink)
{
	struct proc_status s;

	*f = (struct followed){ .pid = pid, .sink = sink, .inner = pid };
	proc_namespace_read(pid, &f->ns);
	if (!proc_status_read(pid, pid, &s))
		return;
	memcpy(f->name, s.name, sizeof(f->name));
	if (s.ns_id)
		f->inner = s.ns_id;
}

static void free_process(void *process)
{
	struct followed_process *p = process;

	module_list_deinit(&p->modules);
	free(p);
}

void followed_bound(struct followed *f)
{
	if (f->threads.n > THREADS_MAX)
		map64_deinit_values(&f->threads, free);
	if (f->processes.n > PROCESSES_MAX)
		map64_deinit_values(&f->processes, free_process);
	if (f->reported.n > PROCESSES_MAX)
		map64_deinit(&f->reported);
	if (f->names.n > NAMES_MAX)
		map64_deinit_values(&f->names, free);
}

void followed_deinit(struct followed *f)
{
	map64_deinit_values(&f->threads, free);
	map64_deinit_values(&f->processes, free_process);
	map64_deinit_values(&f->names, free);
	map64_deinit(&f->reported);
	*f = (struct followed){ 0 };
}

/* The target may live in a pid namespace of its own: its thread ids are not ours. */
static pid_t global_tid(pid_t pid, pid_t inner, unsigned int depth)
{
	struct proc_status s;
	struct thread_ids ids;
	pid_t found = inner;
	size_t i;

	if (proc_status_read(pid, inner, &s) && proc_id_at(&s, depth) == inner)
		return inner;
	if (!proc_threads(pid, &ids))
		return inner;
	for (i = 0; i < ids.n; i++) {
		if (proc_status_read(pid, ids.v[i], &s) && proc_id_at(&s, depth) == inner) {
			found = ids.v[i];
			break;
		}
	}
	thread_ids_deinit(&ids);
	return found;
}

pid_t followed_global_tid(pid_t pid, pid_t inner)
{
	return global_tid(pid, inner, PROC_DEPTH);
}

/* Names */

void followed_named(struct followed *f, pid_t tid, const char *name)
{
	char *copy = strndup(name, COMM_LEN), *old = map64_get(&f->names, (uint64_t)tid);

	f->named++;
	if (copy && map64_put(&f->names, (uint64_t)tid, copy))
		free(old);
	else
		free(copy);
}

void followed_hears(struct followed *f)
{
	followed_named(f, f->pid, f->name);
}

void followed_other_program(struct followed *f)
{
	struct proc_status s;

	if (!proc_status_read(f->pid, f->pid, &s))
		return;
	memcpy(f->name, s.name, sizeof(f->name));
	followed_named(f, f->pid, f->name);
}

bool followed_is_ours(const struct followed *f, pid_t pid, pid_t tid)
{
	return pid == f->pid || map64_get(&f->names, (uint64_t)tid);
}

/* A new thread has its parent's name. */
void followed_born(struct followed *f, pid_t tid, pid_t parent_tid)
{
	const char *name = map64_get(&f->names, (uint64_t)parent_tid);

	followed_named(f, tid, name ? name : f->name);
}

/* What was reported is right also of one that executes another program by now. Empty where it is not known. */
static void name_of(const struct followed *f, pid_t pid, pid_t tid, char ret[COMM_LEN + 1])
{
	const char *reported = map64_get(&f->names, (uint64_t)tid);
	struct proc_status s = { 0 };

	if (reported || !proc_status_read(pid, tid, &s))
		snprintf(s.name, sizeof(s.name), "%s", reported ? reported : "");
	memcpy(ret, s.name, COMM_LEN + 1);
}

struct wc_error *followed_report(struct followed *f, pid_t pid, uint64_t time_ns)
{
	char name[COMM_LEN + 1];

	if (map64_get(&f->reported, (uint64_t)pid))
		return NULL;
	if (!map64_put(&f->reported, (uint64_t)pid, f))
		return &wc_enomem;
	name_of(f, pid, pid, name);
	return process_event_put_child(pid, f->pid, name, time_ns, f->sink);
}

/* What nobody can be found for is the target's own. */
static void identify(const struct followed *f, struct followed_process *p, pid_t inner)
{
	p->pid = inner == f->inner ? f->pid : proc_global_pid(&f->ns, inner);
	if (p->pid == f->pid || !f->is_child || f->is_child(f->ctx, p->pid))
		return;
	p->pid = f->find_below ? f->find_below(f->ctx, inner) : 0;
	p->below = p->pid != 0;
	if (!p->below)
		p->pid = f->pid;
}

struct followed_process *followed_process(struct followed *f, pid_t inner, uint64_t now_ns,
					  struct wc_error **err)
{
	struct followed_process *p;

	*err = NULL;
	if (!inner || f->alone)
		inner = f->inner;
	p = map64_get(&f->processes, (uint64_t)inner);
	if (p)
		return p;
	*err = &wc_enomem;
	p = calloc(1, sizeof(*p));
	if (!p || !map64_put(&f->processes, (uint64_t)inner, p)) {
		free(p);
		return NULL;
	}
	identify(f, p, inner);
	*err = p->pid == f->pid ? NULL : followed_report(f, p->pid, now_ns);
	return *err ? NULL : p;
}

/* Than what was reported of it; takes it. */
static bool has_other_name(const struct followed *f, struct thread_id *t)
{
	const char *name;

	if (t->named == f->named)
		return false;
	t->named = f->named;
	name = map64_get(&f->names, (uint64_t)t->tid);
	if (!name || !strcmp(name, t->comm))
		return false;
	snprintf(t->comm, sizeof(t->comm), "%s", name);
	return true;
}

/* NULL: no memory. */
static struct thread_id *new_thread(struct followed *f, const struct followed_process *p, pid_t inner,
				    uint64_t key)
{
	struct thread_id *t = calloc(1, sizeof(*t));

	if (!t || !map64_put(&f->threads, key, t)) {
		free(t);
		return NULL;
	}
	t->tid = f->ns.depth || p->below ? global_tid(p->pid, inner, p->below ? PROC_DEPTH : f->ns.depth)
					 : inner;
	t->named = f->named;
	name_of(f, p->pid, t->tid, t->comm);
	return t;
}

struct wc_error *followed_thread(struct followed *f, const struct followed_process *p, pid_t inner,
				 uint64_t now_ns, pid_t *ret)
{
	uint64_t key = (uint64_t)(uint32_t)p->pid << 32 | (uint32_t)inner;
	struct thread_id *t = map64_get(&f->threads, key);
	struct trace_event event = { .type = EVENT_THREAD, .time_ns = now_ns };

	if (t && !has_other_name(f, t)) {
		*ret = t->tid;
		return NULL;
	}
	if (!t)
		t = new_thread(f, p, inner, key);
	if (!t)
		return &wc_enomem;
	*ret = t->tid;
	event.thread.pid = p->pid;
	event.thread.tid = t->tid;
	event.thread.comm = t->comm;
	return f->sink.put(f->sink.ctx, &event);
}

static bool same_code(const struct module *a, const struct module *b)
{
	return a->bias == b->bias && a->build_id_len == b->build_id_len &&
	       !memcmp(a->build_id, b->build_id, a->build_id_len) && !strcmp(a->path, b->path);
}

unsigned int followed_frames(struct followed_process *p, const struct module_list *modules,
			     const uint64_t *frame, unsigned int n, uint64_t now_ns)
{
	unsigned int i;

	if (!p->looked_ns || now_ns - p->looked_ns > LOOK_NS) {
		struct module_list now = { 0 };
		struct wc_error *err = module_list_read(p->pid, &now);

		if (!err && now.n)
			err = module_list_add_jit(p->pid, &now);
		p->looked_ns = now_ns;
		if (!err && now.n) {
			module_list_deinit(&p->modules);
			p->modules = now;
		} else {
			module_list_deinit(&now);
		}
		wc_error_free(err);
	}
	for (i = 0; i < n && p->modules.n; i++) {
		const struct module *mine = module_find(&p->modules, frame[i]);
		const struct module *theirs = module_find(modules, frame[i]);

		if (!mine != !theirs || (mine && !same_code(mine, theirs)))
			break;
	}
	return p->modules.n ? i : n;
}
