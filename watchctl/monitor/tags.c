/*
 * Writing goes through a descriptor of /proc/PID/mem, which belongs to the memory that was there when it was
 * opened: after an exec, or in another process that has the number now, it writes nothing. Reading does not
 * go that way, because the order in which it copies is not that of the addresses; what was read from another
 * program by mistake is found out by the session's number, which a collector checks afterwards.
 */
#include "watchctl/monitor/tags.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/base/task.h"
#include "watchctl/base/vec.h"
#include "watchctl/engine/intake/code_facts.h"
#include "watchctl/engine/intake/followed.h"
#include "watchctl/monitor/capture_note.h"
#include "watchctl/target/proc/proc.h"

#define MODULES_NS 100000000ull	   /* how often it looks for libraries that came or went */
#define MODULES_MIN_NS 20000000ull /* at most, for the sake of an address in none of them */
#define MOVED_CHEAP_NS 1000000ull
#define STARTING_NS 2000000000ull /* a program that has just begun loads its libraries now */
#define STARTING_WAIT_NS 1000000ull

struct copy {
	uint64_t descriptor, module;	 /* its address, and where its module begins */
	struct tag_collector *collector; /* NULL: done with */
};

struct tags {
	struct tags_options options;
	struct event_sink sink;
	struct tag_host host;
	struct code_facts *facts; /* for the modules */
	int mem_fd;
	bool other_namespace; /* its thread ids are not ours */
	struct copy *copy;
	size_t ncopies, cap;
	unsigned int found;
	char *first; /* the first one's file */
	uint64_t opened_ns, modules_ns, unknown_ns;
	uint64_t modules_cost_ns; /* of the last look at them */
	bool changed;		  /* the modules, since the last search for copies */
	bool unready;		  /* a library is mapped and not relocated yet */
	struct tag_counts counts; /* of those that are done with */

	/* While captures are put that may be older than the last change of the modules: see put_module(). */
	bool holding;
	struct module_list gone, late;
	uint64_t moved_ns, moved_cost_ns; /* the last look whether there was a change */
};

static bool read_memory(void *ctx, uint64_t addr, void *buf, size_t len)
{
	const struct tags *t = ctx;
	struct memory_view memory = proc_memory(&t->options.pid);

	return memory.read(memory.ctx, addr, buf, len);
}

static bool write_memory(void *ctx, uint64_t addr, const void *buf, size_t len)
{
	const struct tags *t = ctx;

	return pwrite(t->mem_fd, buf, len, (off_t)addr) == (ssize_t)len;
}

/* The memory that we write to is nobody's any more: the process has ended, or executed another program. */
static bool memory_is_gone(const struct tags *t)
{
	char c;

	return pread(t->mem_fd, &c, 1, 0) == 0;
}

/* Modules that change */

static bool keep_module(struct module_list *l, const struct module *m)
{
	struct module copy;

	if (!module_copy(m, &copy))
		return false;
	if (vec_push(l->v, l->n, l->cap, copy))
		return true;
	module_deinit(&copy);
	return false;
}

static struct wc_error *report_module(const struct tags *t, enum event_type type, const struct module *m)
{
	struct trace_event e = { .type = type, .time_ns = monotonic_ns() };

	e.module = *m;
	return t->sink.put(t->sink.ctx, &e);
}

static struct wc_error *report_modules(const struct tags *t, enum event_type type, struct module_list *l)
{
	struct wc_error *err = NULL;
	size_t i;

	for (i = 0; i < l->n; i++) {
		if (!err)
			err = report_module(t, type, &l->v[i]);
		module_deinit(&l->v[i]);
	}
	l->n = 0;
	return err;
}

/*
 * Captures that wait in the rings are older than a change of the modules that is found now, or younger. One
 * that lies where a library has taken another's place may be of either: it gets no name, because what went is
 * reported before them and what came after them. Libraries that only went are reported after them, those that only
 * came before.
 */
static struct wc_error *put_module(void *ctx, const struct trace_event *e)
{
	struct tags *t = ctx;
	struct wc_error *err = NULL;
	bool replaces = false;
	size_t i = 0;

	if (!t->holding || (e->type != EVENT_MODULE && e->type != EVENT_MODULE_GONE))
		return t->sink.put(t->sink.ctx, e);
	if (e->type == EVENT_MODULE_GONE)
		return keep_module(&t->gone, &e->module) ? NULL : &wc_enomem;
	while (i < t->gone.n && !err) {
		struct module *m = &t->gone.v[i];

		if (m->start >= e->module.end || e->module.start >= m->end) {
			i++;
			continue;
		}
		replaces = true;
		err = report_module(t, EVENT_MODULE_GONE, m);
		module_deinit(m);
		*m = t->gone.v[--t->gone.n];
	}
	for (i = 0; i < t->late.n; i++)
		replaces |= t->late.v[i].start < e->module.end && e->module.start < t->late.v[i].end;
	if (err || !replaces)
		return err ? err : t->sink.put(t->sink.ctx, e);
	return keep_module(&t->late, &e->module) ? NULL : &wc_enomem;
}

static struct wc_error *stop_holding(struct tags *t)
{
	struct wc_error *err;

	t->holding = false;
	err = report_modules(t, EVENT_MODULE_GONE, &t->gone);
	return wc_error_first(err, report_modules(t, EVENT_MODULE, &t->late));
}

/* A program with thousands of mappings is looked at less often: never more than a twentieth of the time. */
static uint64_t at_least(const struct tags *t, uint64_t ns)
{
	return 20 * t->modules_cost_ns > ns ? 20 * t->modules_cost_ns : ns;
}

/* At each poll, unless that takes long: then at most a twentieth of the time. */
static bool modules_moved(struct tags *t, uint64_t now)
{
	uint64_t begin;
	bool moved;

	if (t->moved_cost_ns > MOVED_CHEAP_NS && now - t->moved_ns < 20 * t->moved_cost_ns)
		return false;
	begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	moved = code_facts_moved(t->facts);
	t->moved_ns = now;
	t->moved_cost_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
	return moved;
}

static struct wc_error *tags_refresh(struct tags *t, uint64_t now)
{
	bool changed = false;
	struct wc_error *err = code_facts_refresh(t->facts, t->modules_ns, &changed);
	size_t i;

	t->modules_ns = monotonic_ns();
	t->modules_cost_ns = t->modules_ns - now;
	t->changed |= changed;
	for (i = 0; i < t->ncopies && changed; i++)
		if (t->copy[i].collector)
			tag_collector_forget_stacks(t->copy[i].collector);
	return err;
}

/* An address in no module we know may be of a library that has just come; or of a JIT. */
static struct wc_error *tags_know(void *ctx, const uint64_t *frame, uint32_t n, uint64_t time_ns)
{
	struct tags *t = ctx;
	uint64_t now;
	uint32_t i;

	for (i = 0; i < n && code_facts_covers(t->facts, frame[i]); i++)
		;
	if (i == n)
		return NULL;
	now = monotonic_ns();
	if (now - t->unknown_ns < at_least(t, MODULES_MIN_NS))
		return NULL;
	t->unknown_ns = now;
	return tags_refresh(t, now);
}

/* What is in the rings is older than this look: a change after it is found by the next one. */
static struct wc_error *taken(void *ctx)
{
	struct tags *t = ctx;
	uint64_t now = monotonic_ns();

	return modules_moved(t, now) ? tags_refresh(t, now) : NULL;
}

static void name_thread(void *ctx, uint32_t owner, struct tag_thread *ret)
{
	const struct tags *t = ctx;
	struct proc_status s;

	ret->pid = t->options.pid;
	ret->tid = t->other_namespace ? followed_global_tid(t->options.pid, (pid_t)owner) : (pid_t)owner;
	if (!ret->comm[0] && proc_status_read(ret->pid, ret->tid, &s))
		memcpy(ret->comm, s.name, COMM_LEN);
}

static bool lives_in_other_namespace(pid_t pid)
{
	struct stat ours, theirs;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
	return stat(path, &theirs) || stat("/proc/self/ns/pid", &ours) || ours.st_ino != theirs.st_ino ||
	       ours.st_dev != theirs.st_dev;
}

/* Copies of the library */

static bool is_known(const struct tags *t, uint64_t descriptor, uint64_t module)
{
	size_t i;

	for (i = 0; i < t->ncopies; i++)
		if (t->copy[i].descriptor == descriptor && t->copy[i].module == module)
			return true;
	return false;
}

static void done_with(struct tags *t, struct copy *k)
{
	struct tag_counts c;

	tag_collector_counts(k->collector, &c);
	t->counts.has_counted &= c.has_counted;
	t->counts.counted += c.counted;
	t->counts.recorded += c.recorded;
	t->counts.lost_full += c.lost_full;
	t->counts.lost_no_ring += c.lost_no_ring;
	t->counts.lost_unfinished += c.lost_unfinished;
	tag_collector_free(k->collector);
	k->collector = NULL;
}

static bool shares_flag(const struct tags *t, const struct tag_collector *c)
{
	size_t i;

	for (i = 0; i < t->ncopies; i++)
		if (t->copy[i].collector && tag_collector_flag(t->copy[i].collector) == tag_collector_flag(c))
			return true;
	return false;
}

static struct wc_error *tags_start(struct tags *t, struct copy *k)
{
	struct tag_settings s = {
		.frames = t->options.frames,
		.ring_size = t->options.ring_size,
		.pid = (uint32_t)getpid(),
		.lease_ns = TAG_LEASE_NS,
		.shared_flag = shares_flag(t, k->collector),
	};
	struct wc_error *err = tag_collector_start(k->collector, &s, t->options.stop);

	if (err) {
		tag_collector_free(k->collector);
		k->collector = NULL;
		return err;
	}
	t->found++;
	return NULL;
}

/* In the place of one that was unloaded, where there is one. */
static bool tags_keep(struct tags *t, const struct copy *k)
{
	size_t i;

	for (i = 0; i < t->ncopies && t->copy[i].descriptor; i++)
		;
	if (i == t->ncopies)
		return vec_push(t->copy, t->ncopies, t->cap, *k);
	t->copy[i] = *k;
	return true;
}

static struct wc_error *tags_report(const struct tags *t, const char *text)
{
	struct trace_event e = { .type = EVENT_NOTE, .time_ns = monotonic_ns(), .note = { text } };

	return t->sink.put(t->sink.ctx, &e);
}

/* From now on one can rely on a library's captures; of the first library the session says so itself. */
static struct wc_error *say_begun(struct tags *t, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	char text[PATH_MAX + 64];

	if (!t->first) {
		t->first = strdup(name);
		return t->first ? NULL : &wc_enomem;
	}
	snprintf(text, sizeof(text), "captures are collected from %s, too", name);
	return tags_report(t, text);
}

/* One library in @m: collected from, if it is ready. */
static struct wc_error *adopt(struct tags *t, const struct module *m, uint64_t descriptor)
{
	struct copy k = { descriptor, m->start, NULL };
	struct wc_error *err = tag_collector_open(&t->host, descriptor, m->start, m->end, &k.collector);

	if (!err && !k.collector) {
		t->unready = true;
		return NULL;
	}
	if (!err)
		err = tags_start(t, &k);
	if (!tags_keep(t, &k)) {
		tag_collector_free(k.collector);
		wc_error_free(err);
		return &wc_enomem;
	}
	return err ? wc_error_context(err, "%s", m->path) : say_begun(t, m->path);
}

static struct wc_error *drop(struct tags *t, struct copy *k)
{
	struct wc_error *err = tag_collector_stop(k->collector);

	done_with(t, k);
	return err;
}

/* It may be loaded again, at the same place. One that goes in good order gives its last captures first. */
static struct wc_error *unloaded(struct tags *t, struct copy *k)
{
	struct tag_counts c;
	struct wc_error *err = tag_collector_stop(k->collector);

	tag_collector_counts(k->collector, &c);
	done_with(t, k);
	k->descriptor = k->module = 0;
	t->changed = true;
	if (err || c.in_order)
		return err;
	return tags_report(
		t,
		"a library with captures was unloaded: its captures since watchctl last read it are not known");
}

static struct wc_error *look_for_copies(struct tags *t)
{
	const struct module_list *l = code_facts_modules(t->facts);
	const struct memory_view mem = { read_memory, t };
	struct wc_error *err = NULL;
	uint64_t descriptor;
	size_t i;

	t->unready = t->changed = false;
	for (i = 0; i < l->n && !err; i++)
		if (capture_note_find(&mem, &l->v[i], &descriptor) && !is_known(t, descriptor, l->v[i].start))
			err = adopt(t, &l->v[i], descriptor);
	return err;
}

/* In a program that runs, a library that cannot be collected from is reported; the others go on. */
static struct wc_error *look_again(struct tags *t)
{
	struct wc_error *err = look_for_copies(t), *put_err;

	if (!err || (err->kind != WC_ENOTSUP && err->kind != WC_ETARGET))
		return err;
	put_err = tags_report(t, err->text);
	wc_error_free(err);
	return put_err;
}

struct wc_error *tags_present(pid_t pid, bool *ret)
{
	scoped(module_list_deinit) struct module_list l = { 0 };
	struct memory_view mem = proc_memory(&pid);
	struct wc_error *err = module_list_read(pid, &l);
	uint64_t descriptor;
	size_t i;

	*ret = false;
	for (i = 0; i < l.n && !*ret; i++)
		*ret = capture_note_find(&mem, &l.v[i], &descriptor);
	return err;
}

/* Opening and closing */

static struct wc_error *open_memory(struct tags *t)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", task_with_memory(t->options.pid));
	t->mem_fd = open(path, O_RDWR | O_CLOEXEC);
	if (t->mem_fd >= 0)
		return NULL;
	return wc_error_errno(
		errno == ENOENT || errno == ESRCH ? WC_ETARGET : WC_EPERM, errno,
		"the memory of process %d cannot be opened for writing: run watchctl as its owner "
		"or as root",
		t->options.pid);
}

static struct wc_error *probe(const struct tags *t)
{
	const struct module_list *l = code_facts_modules(t->facts);
	char c = 0;

	if (!l->n || read_memory((void *)(uintptr_t)t, l->v[0].start, &c, 1) || errno != EPERM)
		return NULL;
	return wc_error_errno(WC_EPERM, EPERM,
			      "the memory of process %d may not be read: run watchctl as root, or permit "
			      "tracing (kernel.yama.ptrace_scope)",
			      t->options.pid);
}

struct wc_error *tags_open(const struct tags_options *o, struct event_sink sink, struct tags **ret)
{
	struct tags *t = calloc(1, sizeof(*t));
	struct wc_error *err;

	if (!t)
		return &wc_enomem;
	t->options = *o;
	t->sink = sink;
	t->counts.has_counted = true;
	t->opened_ns = monotonic_ns();
	t->other_namespace = lives_in_other_namespace(o->pid);
	t->host = (struct tag_host){
		.memory = { read_memory, write_memory, t },
		.sink = sink,
		.tags = o->tags,
		.know = tags_know,
		.taken = taken,
		.thread = name_thread,
		.ctx = t,
	};
	t->mem_fd = -1;
	t->facts = code_facts_new(o->pid, NULL, (struct event_sink){ put_module, t });
	err = t->facts ? open_memory(t) : &wc_enomem;
	if (!err)
		err = tags_refresh(t, t->opened_ns);
	if (!err)
		err = probe(t);
	if (!err)
		err = look_for_copies(t);
	if (err) {
		wc_error_free(tags_stop(t));
		tags_free(t);
		return err;
	}
	*ret = t;
	return NULL;
}

void tags_free(struct tags *t)
{
	size_t i;

	if (!t)
		return;
	for (i = 0; i < t->ncopies; i++)
		tag_collector_free(t->copy[i].collector);
	free(t->copy);
	free(t->first);
	for (i = 0; i < t->gone.n; i++)
		module_deinit(&t->gone.v[i]);
	for (i = 0; i < t->late.n; i++)
		module_deinit(&t->late.v[i]);
	free(t->gone.v);
	free(t->late.v);
	code_facts_free(t->facts);
	closep(&t->mem_fd);
	free(t);
}

unsigned int tags_found(const struct tags *t)
{
	return t->found;
}

const char *tags_first(const struct tags *t)
{
	return t->first;
}

bool tags_may_come(const struct tags *t)
{
	return t->unready;
}

/* Polling */

static uint64_t modules_wait(const struct tags *t, uint64_t now)
{
	bool starting = (!t->found || t->unready) && now - t->opened_ns < STARTING_NS;

	return starting ? STARTING_WAIT_NS : at_least(t, MODULES_NS);
}

static struct wc_error *poll_copy(struct tags *t, struct copy *k, struct tags_poll *ret)
{
	struct tag_poll p;
	struct wc_error *err = tag_collector_poll(k->collector, &p);

	if (err)
		return err;
	if (p.state == TAGS_COLLECTING) {
		if (p.wait_ns < ret->wait_ns)
			ret->wait_ns = p.wait_ns;
		if (p.until_ns < ret->until_ns)
			ret->until_ns = p.until_ns;
		return NULL;
	}
	if (p.state == TAGS_TAKEN_OVER)
		ret->state = TAGS_SUPPLANTED;
	else if (memory_is_gone(t))
		ret->state = TAGS_ENDED;
	else
		return unloaded(t, k);
	return NULL;
}

struct wc_error *tags_poll(struct tags *t, struct tags_poll *ret)
{
	uint64_t now = monotonic_ns();
	struct wc_error *err = NULL;
	size_t i;

	*ret = (struct tags_poll){ TAGS_RUN, TAG_POLL_MAX_NS, now };
	if (memory_is_gone(t)) {
		ret->state = TAGS_ENDED;
		return NULL;
	}
	t->holding = true;
	if (now - t->modules_ns >= modules_wait(t, now)) {
		err = tags_refresh(t, now);
		if (!err && (t->changed || t->unready))
			err = look_again(t);
	}
	for (i = 0; i < t->ncopies && !err; i++)
		if (t->copy[i].collector)
			err = poll_copy(t, &t->copy[i], ret);
	/* What is left in a ring is as old as what was put. */
	if (ret->until_ns)
		err = wc_error_first(err, stop_holding(t));
	if (modules_wait(t, now) < ret->wait_ns)
		ret->wait_ns = modules_wait(t, now);
	return err;
}

struct wc_error *tags_stop(struct tags *t)
{
	struct wc_error *err = NULL;
	size_t i;

	t->holding = true;
	for (i = 0; i < t->ncopies; i++)
		if (t->copy[i].collector)
			err = wc_error_first(err, drop(t, &t->copy[i]));
	return wc_error_first(err, stop_holding(t));
}

void tags_counts(const struct tags *t, struct tag_counts *sum)
{
	sum->has_counted &= t->counts.has_counted;
	sum->counted += t->counts.counted;
	sum->recorded += t->counts.recorded;
	sum->lost_full += t->counts.lost_full;
	sum->lost_no_ring += t->counts.lost_no_ring;
	sum->lost_unfinished += t->counts.lost_unfinished;
}
