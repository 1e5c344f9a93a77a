#include "watchctl/engine/followed.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stackwalk/module_jit.h"
#include "watchctl/base/clock.h"
#include "watchctl/target/proc.h"

#define LOOK_NS 1000000000ull
#define THREADS_MAX (1u << 17)
#define PROCESSES_MAX (1u << 12) /* they have lists of modules */

struct thread_id {
	pid_t tid;
	char comm[17];
};

void followed_init(struct followed *f, pid_t pid, struct event_sink sink)
{
	struct proc_status s;

	*f = (struct followed){ .pid = pid, .sink = sink, .inner = pid };
	if (proc_status_read(pid, pid, &s) && s.ns_id)
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
}

void followed_deinit(struct followed *f)
{
	map64_deinit_values(&f->threads, free);
	map64_deinit_values(&f->processes, free_process);
	*f = (struct followed){ 0 };
}

/* The target may live in a pid namespace of its own: its thread ids are not ours. */
pid_t followed_global_tid(pid_t pid, pid_t inner)
{
	struct proc_status s;
	struct thread_ids ids;
	pid_t found = inner;
	size_t i;

	if (proc_status_read(pid, inner, &s) && s.ns_id == inner)
		return inner;
	if (!proc_threads(pid, &ids))
		return inner;
	for (i = 0; i < ids.n; i++) {
		if (proc_status_read(pid, ids.v[i], &s) && s.ns_id == inner) {
			found = ids.v[i];
			break;
		}
	}
	thread_ids_deinit(&ids);
	return found;
}

static struct wc_error *tell_child(struct followed *f, struct followed_process *p, uint64_t now_ns)
{
	struct trace_event e = { .type = EVENT_PROCESS, .time_ns = now_ns };
	struct proc_status s = { 0 };

	proc_status_read(p->pid, p->pid, &s);
	e.process = (struct process_event){
		.pid = p->pid,
		.parent = f->pid,
		.comm = s.name,
		.realtime_ns = clock_ns(CLOCK_REALTIME) - (monotonic_ns() - now_ns),
	};
	p->told = true;
	return f->sink.put(f->sink.ctx, &e);
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
	p->pid = inner == f->inner ? f->pid : proc_global_pid(f->pid, inner);
	if (p->pid != f->pid && f->is_child && !f->is_child(f->is_child_ctx, p->pid))
		p->pid = f->pid;
	*err = p->pid == f->pid ? NULL : tell_child(f, p, now_ns);
	return *err ? NULL : p;
}

struct wc_error *followed_thread(struct followed *f, const struct followed_process *p, pid_t inner,
				 uint64_t now_ns, pid_t *ret)
{
	uint64_t key = (uint64_t)(uint32_t)p->pid << 32 | (uint32_t)inner;
	struct thread_id *t = map64_get(&f->threads, key);
	struct trace_event event = { .type = EVENT_THREAD, .time_ns = now_ns };
	struct proc_status s;

	if (t) {
		*ret = t->tid;
		return NULL;
	}
	t = calloc(1, sizeof(*t));
	if (!t || !map64_put(&f->threads, key, t)) {
		free(t);
		return &wc_enomem;
	}
	t->tid = f->inner == f->pid ? inner : followed_global_tid(p->pid, inner);
	if (proc_status_read(p->pid, t->tid, &s))
		memcpy(t->comm, s.name, sizeof(t->comm));
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
