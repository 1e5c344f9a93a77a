#include "watchctl/monitor/flow/flow_stacks.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/unwind/cfi.h"
#include "watchctl/flow/kernel/kernel_tasks.h"
#include "watchctl/monitor/flow/flow_places.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/trace/flow/flow_stack_tag.h"

#define MOST (1u << 20) /* stacks in a log */
#define MOST_AT_ONCE 256u
#define SHARE 20u /* of the time between two looks, what a look may take */
#define OFTEN_NS 20000000u

#define TASK_SLEEPS 3u /* interruptible or not: include/linux/sched.h */
#define TASK_NOLOAD 0x400u

/* A process whose waits are told. */
struct stacked {
	struct module_list modules;
	struct cfi *cfi;
};

/* A thread that sleeps for long enough. */
struct sleeper {
	struct tasks_record r;
	uint64_t frame[STACK_MAX];
	unsigned int n;
	enum walk_end end;
	bool still; /* it was found again as it was */
};

struct flow_stacks {
	struct flow_stacks_ask ask; /* without the pids */
	struct event_sink sink;
	struct kernel_tasks *tasks;
	struct flow_places *places;
	struct map64 chosen; /* pid -> struct stacked, owned, once one was walked */
	struct map64 taken;  /* tid -> when it ran last before the wait that was walked */
	struct sleeper *sleeper;
	size_t nsleepers, cap;
	uint64_t now_ns; /* on the scheduler's clock */
	uint64_t next_ns, ntaken, left_out;
	bool all, starved;
};

/* Choosing */

static bool is_chosen(struct flow_stacks *s, const struct tasks_record *r)
{
	const uint64_t pid = (uint64_t)r->pid;

	if (s->all || map64_get(&s->chosen, pid))
		return true;
	if (!map64_get(&s->chosen, (uint64_t)r->parent))
		return false;
	wc_error_free(flow_stacks_add(s, r->pid));
	return !s->starved;
}

static bool sleeps(const struct tasks_record *r)
{
	return !r->exit_state && !r->on_cpu && (r->state & TASK_SLEEPS) && !(r->state & TASK_NOLOAD);
}

static bool was_taken(const struct flow_stacks *s, const struct tasks_record *r)
{
	return (uintptr_t)map64_get(&s->taken, (uint64_t)r->tid) == r->ran_at_ns;
}

static bool take_sleeper(void *ctx, const struct tasks_record *r)
{
	struct flow_stacks *s = ctx;
	struct sleeper *at;

	if (r->tid == gettid())
		s->now_ns = r->ran_at_ns;
	if (!r->pid || r->is_kernel || r->is_32bit || !r->has_regs || r->pid == getpid() ||
	    !is_chosen(s, r) || !sleeps(r) || !r->ran_at_ns || was_taken(s, r))
		return !s->starved;
	if (!vec_reserve((void **)&s->sleeper, &s->cap, s->nsleepers + 1, sizeof(*s->sleeper))) {
		s->starved = true;
		return false;
	}
	at = &s->sleeper[s->nsleepers++];
	at->r = *r;
	at->n = 0;
	at->still = false;
	return true;
}

/* Only our own record says what time it is on that clock: it may have come last. */
static void keep_long_ones(struct flow_stacks *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->nsleepers; i++) {
		const uint64_t since_ns = s->sleeper[i].r.ran_at_ns;

		if (since_ns + s->ask.least_ns > s->now_ns)
			continue;
		if (n == MOST_AT_ONCE) {
			s->left_out++;
			continue;
		}
		if (n != i)
			memcpy(&s->sleeper[n], &s->sleeper[i], sizeof(s->sleeper[0]));
		n++;
	}
	s->nsleepers = n;
}

/* Walking */

static void stacked_deinit(struct stacked *p)
{
	module_list_deinit(&p->modules);
	cfi_free(p->cfi);
	*p = (struct stacked){ 0 };
}

static void stacked_free(void *value)
{
	if (value)
		stacked_deinit(value);
	free(value);
}

static bool same_modules(const struct module_list *a, const struct module_list *b)
{
	for (size_t i = 0; i < a->n && i < b->n; i++)
		if (a->v[i].start != b->v[i].start || a->v[i].end != b->v[i].end ||
		    a->v[i].bias != b->v[i].bias || strcmp(a->v[i].path, b->v[i].path) != 0)
			return false;
	return a->n == b->n;
}

static bool open_modules(struct stacked *p, struct module_list *modules)
{
	stacked_deinit(p);
	p->modules = *modules;
	*modules = (struct module_list){ 0 };
	p->cfi = cfi_new();
	for (size_t i = 0; p->cfi && i < p->modules.n; i++)
		if (!cfi_add(p->cfi, &p->modules.v[i]))
			return false;
	return p->cfi != NULL;
}

/* As it is now; false: it has ended, or there is no memory. */
static bool refresh(struct flow_stacks *s, struct stacked *p, pid_t pid)
{
	struct module_list now = { 0 };
	bool ok;

	wc_error_free(module_list_read(pid, &now));
	ok = now.n != 0;
	if (ok && !(p->cfi && same_modules(&p->modules, &now))) {
		ok = open_modules(p, &now);
		s->starved |= !ok;
	}
	module_list_deinit(&now);
	return ok;
}

static struct stacked *stacked_of(struct flow_stacks *s, pid_t pid)
{
	struct stacked *p = map64_get(&s->chosen, (uint64_t)pid);

	if (!p)
		wc_error_free(flow_stacks_add(s, pid));
	return p ? p : map64_get(&s->chosen, (uint64_t)pid);
}

static void walk(struct flow_stacks *s, struct sleeper *t)
{
	const struct memory_view mem = proc_memory(&t->r.pid);
	struct stacked *p = stacked_of(s, t->r.pid);

	if (p && refresh(s, p, t->r.pid))
		t->n = cfi_walk(p->cfi, &t->r.regs, &mem, t->frame, STACK_MAX, &t->end);
}

static bool find_again(void *ctx, const struct tasks_record *r)
{
	struct flow_stacks *s = ctx;

	for (size_t i = 0; i < s->nsleepers; i++) {
		struct sleeper *t = &s->sleeper[i];

		if (t->r.tid == r->tid)
			t->still = t->r.pid == r->pid && sleeps(r) && t->r.ran_at_ns == r->ran_at_ns;
	}
	return true;
}

/* Reporting */

static struct wc_error *put(const struct flow_stacks *s, const struct trace_event *e)
{
	return s->sink.put(s->sink.ctx, e);
}

static struct wc_error *put_thread(const struct flow_stacks *s, const struct tasks_record *r, uint64_t now_ns)
{
	char comm[sizeof(r->comm) + 1] = "";
	const struct trace_event e = {
		.type = EVENT_THREAD,
		.time_ns = now_ns,
		.thread = { .pid = r->pid, .tid = r->tid, .comm = comm },
	};

	memcpy(comm, r->comm, sizeof(r->comm));
	return put(s, &e);
}

static struct wc_error *put_stack(struct flow_stacks *s, struct sleeper *t, uint64_t now_ns)
{
	const struct stacked *p = map64_get(&s->chosen, (uint64_t)t->r.pid);
	struct trace_event e = { .type = EVENT_CAPTURE, .time_ns = now_ns };
	struct wc_error *err = NULL;

	for (unsigned int i = 0; !err && i < t->n; i++)
		err = flow_places_translate(s->places, &p->modules, now_ns, &t->frame[i]);
	if (!err)
		err = put_thread(s, &t->r, now_ns);
	e.capture = (struct capture_event){ .pid = t->r.pid,
					    .tid = t->r.tid,
					    .walk_end = (uint8_t)t->end,
					    .nframes = t->n,
					    .frame = t->frame };
	return err ? err : put(s, &e);
}

static struct wc_error *put_all(struct flow_stacks *s, uint64_t now_ns)
{
	struct wc_error *err = NULL;

	for (size_t i = 0; !err && i < s->nsleepers; i++) {
		struct sleeper *t = &s->sleeper[i];

		if (!t->still || !t->n)
			continue;
		if (!map64_put(&s->taken, (uint64_t)t->r.tid, (void *)(uintptr_t)t->r.ran_at_ns))
			return &wc_enomem;
		if (s->ntaken++ >= MOST)
			s->left_out++;
		else
			err = put_stack(s, t, now_ns);
	}
	return err;
}

static struct wc_error *look(struct flow_stacks *s, uint64_t now_ns)
{
	s->nsleepers = 0;
	s->now_ns = 0;
	if (!kernel_tasks_read(s->tasks, take_sleeper, s))
		return s->starved ? &wc_enomem : NULL; /* not all are told: some next time */
	keep_long_ones(s);
	if (!s->nsleepers)
		return NULL;
	for (size_t i = 0; i < s->nsleepers; i++)
		walk(s, &s->sleeper[i]);
	if (s->starved)
		return &wc_enomem;
	/* Its memory may have changed while it was walked, if it ran. */
	kernel_tasks_read(s->tasks, find_again, s);
	return put_all(s, now_ns);
}

struct wc_error *flow_stacks_poll(struct flow_stacks *s)
{
	const uint64_t begin_ns = monotonic_ns();
	struct wc_error *err;
	uint64_t wait_ns;

	if (begin_ns < s->next_ns)
		return NULL;
	err = look(s, begin_ns);
	wait_ns = (monotonic_ns() - begin_ns) * SHARE;
	if (wait_ns < s->ask.least_ns / 2)
		wait_ns = s->ask.least_ns / 2;
	if (wait_ns < OFTEN_NS)
		wait_ns = OFTEN_NS;
	s->next_ns = monotonic_ns() + wait_ns;
	return err;
}

/* Beginning and end */

struct wc_error *flow_stacks_add(struct flow_stacks *s, pid_t pid)
{
	struct stacked *p = map64_get(&s->chosen, (uint64_t)pid) ? NULL : calloc(1, sizeof(*p));

	if (map64_get(&s->chosen, (uint64_t)pid))
		return NULL;
	if (p && map64_put(&s->chosen, (uint64_t)pid, p))
		return NULL;
	free(p);
	s->starved = true;
	return &wc_enomem;
}

static struct wc_error *put_tag(const struct flow_stacks *s)
{
	const struct trace_event e = {
		.type = EVENT_TAG,
		.time_ns = monotonic_ns(),
		.tag = { .name = FLOW_STACK_TAG },
	};

	return put(s, &e);
}

struct wc_error *flow_stacks_open(const struct flow_stacks_ask *ask, struct event_sink sink,
				  struct flow_stacks **ret)
{
	struct flow_stacks *s = calloc(1, sizeof(*s));
	struct wc_error *err = NULL;
	const char *why;

	if (!s)
		return &wc_enomem;
	s->ask = *ask;
	s->ask.pid = NULL;
	s->sink = sink;
	s->all = !ask->npids;
	s->places = flow_places_new(sink);
	s->tasks = kernel_tasks_open(&why);
	if (!s->tasks)
		err = wc_error_new(WC_ENOTSUP, "cannot take stacks of waits: %s", why);
	else if (!s->places)
		err = &wc_enomem;
	for (size_t i = 0; !err && i < ask->npids; i++)
		err = flow_stacks_add(s, ask->pid[i]);
	if (!err)
		err = put_tag(s);
	if (err)
		flow_stacks_free(s);
	else
		*ret = s;
	return err;
}

uint64_t flow_stacks_left_out(const struct flow_stacks *s)
{
	return s->left_out;
}

void flow_stacks_free(struct flow_stacks *s)
{
	if (!s)
		return;
	kernel_tasks_close(s->tasks);
	flow_places_free(s->places);
	map64_deinit_values(&s->chosen, stacked_free);
	map64_deinit(&s->taken);
	free(s->sleeper);
	free(s);
}
