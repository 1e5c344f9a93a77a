/*
 * A followed child starts with its parent's modules, and only what differs is reported of it. To re-emit that
 * at a later time, when both have loaded and unloaded others, the processes are reported in their old order, and
 * in between only the modules that all of them have now; what each has besides comes when all processes are
 * there.
 */
#include "watchctl/trace/log/tracelog_reemit.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/hash.h"
#include "watchctl/base/vec.h"
#include "watchctl/trace/log/tracelog_format.h"
#include "watchctl/trace/tags/tag_table.h"

#define NOTES_MAX 16
#define FACTS_MAX (1u << 17)  /* of threads, and of code facts */
#define TAGS_SPARE (1u << 17) /* more than whoever makes them refers to */
#define NO_FILE UINT64_MAX

/* Offsets in the fields of a process and of what was lost; see the metadata. */
#define OFF_REALTIME 4
#define OFF_COUNT 4

static struct reported *reported_new(uint16_t id, const uint8_t *fields, size_t len)
{
	struct reported *t = malloc(sizeof(*t) + len);

	if (!t)
		return NULL;
	*t = (struct reported){ .id = id, .owners = 1, .len = (uint32_t)len };
	memcpy(t->fields, fields, len);
	return t;
}

static size_t reported_bytes(const struct reported *t)
{
	return TRACELOG_EVENT_HEAD + t->len;
}

static void reported_unref(struct reported *t)
{
	if (t && --t->owners == 0)
		free(t);
}

/* Facts */

static struct reported *facts_get(const struct reported_facts *f, uint64_t key)
{
	size_t place = (uintptr_t)map64_get(&f->place, key);

	return place ? f->v[place - 1].reported : NULL;
}

/* Takes @t. */
static bool facts_put(struct reported_facts *f, uint64_t key, struct reported *t)
{
	size_t place = (uintptr_t)map64_get(&f->place, key);

	if (place) {
		reported_unref(f->v[place - 1].reported);
		f->v[place - 1].reported = t;
		return true;
	}
	if (!vec_push(f->v, f->n, f->cap, (struct reported_fact){ key, t })) {
		reported_unref(t);
		return false;
	}
	if (map64_put(&f->place, key, (void *)(uintptr_t)f->n))
		return true;
	reported_unref(f->v[--f->n].reported);
	return false;
}

static void facts_deinit(struct reported_facts *f)
{
	size_t i;

	for (i = 0; i < f->n; i++)
		reported_unref(f->v[i].reported);
	free(f->v);
	map64_deinit(&f->place);
	*f = (struct reported_facts){ 0 };
}

/*
 * Too many: forgets the oldest @drop of them, first those that no event of the file @file referred to. No
 * memory for the new table: forgets all, which costs names, not events.
 */
static void facts_shrink(struct reported_facts *f, size_t drop, uint64_t file)
{
	struct reported_facts kept = { 0 };
	size_t i;
	int pass;

	for (pass = 0; pass < 2; pass++) {
		for (i = 0; i < f->n && drop; i++) {
			if (!f->v[i].reported || (pass == 0 && f->v[i].reported->file == file))
				continue;
			reported_unref(f->v[i].reported);
			f->v[i].reported = NULL;
			drop--;
		}
	}
	for (i = 0; i < f->n; i++) {
		struct reported *t = f->v[i].reported;

		f->v[i].reported = NULL;
		if (t)
			facts_put(&kept, f->v[i].key, t);
	}
	facts_deinit(f);
	*f = kept;
}

static struct wc_error *keep_fact(struct tracelog_reemit *r, struct reported_facts *f, uint64_t key,
				  struct reported *t)
{
	t->file = r->file;
	if (f->n > FACTS_MAX)
		facts_shrink(f, f->n / 2, r->file);
	return facts_put(f, key, t) ? NULL : &wc_enomem;
}

/* A program may have a new number for each request, for days. Their table refers to its last ones only. */
static struct wc_error *keep_tag(struct tracelog_reemit *r, uint32_t id, struct reported *t)
{
	t->file = r->file;
	if (r->tags.n >= TAG_TABLE_MAX + TAGS_SPARE)
		facts_shrink(&r->tags, r->tags.n - TAG_TABLE_MAX, NO_FILE);
	return facts_put(&r->tags, id, t) ? NULL : &wc_enomem;
}

/* As above, of what is reported at the beginning of each file. */
static struct wc_error *keep_held(struct tracelog_reemit *r, struct reported_facts *f, uint64_t key,
				  struct reported *t)
{
	const struct reported *old = facts_get(f, key);

	if (old)
		r->bytes -= reported_bytes(old);
	r->bytes += reported_bytes(t);
	return facts_put(f, key, t) ? NULL : &wc_enomem;
}

/* Processes and modules */

/* pid 0: the first process reported. NULL: there is none by that number. */
static struct reported_process *find_process(struct tracelog_reemit *r, int32_t pid)
{
	size_t i;

	if (r->current < r->nprocesses && r->process[r->current].pid == pid)
		return &r->process[r->current];
	for (i = 0; i < r->nprocesses; i++) {
		if (r->process[i].pid == pid || !pid) {
			r->current = i;
			return &r->process[i];
		}
	}
	return NULL;
}

static void drop_module(struct tracelog_reemit *r, struct reported *t)
{
	if (t->owners == 1)
		r->bytes -= reported_bytes(t);
	reported_unref(t);
}

static void forget_modules(struct tracelog_reemit *r, struct reported_process *p)
{
	while (p->nmodules)
		drop_module(r, p->module[--p->nmodules].reported);
}

static void forget_process(struct tracelog_reemit *r, struct reported_process *p)
{
	forget_modules(r, p);
	free(p->module);
	r->bytes -= reported_bytes(p->reported);
	reported_unref(p->reported);
}

static bool inherit_modules(struct reported_process *p, const struct reported_process *parent)
{
	size_t i;

	if (!vec_reserve((void **)&p->module, &p->cap, parent->nmodules, sizeof(*p->module)))
		return false;
	for (i = 0; i < parent->nmodules; i++) {
		p->module[i] = parent->module[i];
		p->module[i].reported->owners++;
	}
	p->nmodules = parent->nmodules;
	return true;
}

static struct wc_error *keep_process(struct tracelog_reemit *r, const struct process_event *e,
				     struct reported *t)
{
	struct reported_process *p = e->pid ? find_process(r, e->pid) : NULL;
	const struct reported_process *parent = NULL;

	r->bytes += reported_bytes(t);
	if (p) {
		/* Another program: its modules are gone. */
		r->bytes -= reported_bytes(p->reported);
		forget_modules(r, p);
		reported_unref(p->reported);
		p->reported = t;
		p->parent = e->parent;
		return NULL;
	}
	if (!vec_push(r->process, r->nprocesses, r->cap,
		      (struct reported_process){
			      .pid = e->pid, .parent = e->parent, .reported = t, .last_file = r->file })) {
		reported_unref(t);
		return &wc_enomem;
	}
	p = &r->process[r->nprocesses - 1];
	if (e->parent)
		parent = find_process(r, e->parent);
	return !parent || inherit_modules(p, parent) ? NULL : &wc_enomem;
}

static struct reported_module *find_module(struct reported_process *p, uint64_t start)
{
	size_t i;

	for (i = 0; i < p->nmodules; i++)
		if (p->module[i].start == start)
			return &p->module[i];
	return NULL;
}

static struct wc_error *keep_module(struct tracelog_reemit *r, const struct trace_event *e,
				    struct reported *t)
{
	struct reported_process *p = find_process(r, e->module_pid);
	struct reported_module *m;

	if (!p) { /* nobody's, so nobody can need it later */
		reported_unref(t);
		return NULL;
	}
	r->bytes += reported_bytes(t);
	m = find_module(p, e->module.start);
	if (m) {
		drop_module(r, m->reported);
		m->reported = t;
		return NULL;
	}
	if (vec_push(p->module, p->nmodules, p->cap, (struct reported_module){ e->module.start, t }))
		return NULL;
	reported_unref(t);
	return &wc_enomem;
}

static void forget_module(struct tracelog_reemit *r, const struct trace_event *e)
{
	struct reported_process *p = find_process(r, e->module_pid);
	struct reported_module *m = p ? find_module(p, e->module.start) : NULL;

	if (!m)
		return;
	drop_module(r, m->reported);
	memmove(m, m + 1, (size_t)(p->module + p->nmodules - (m + 1)) * sizeof(*m));
	p->nmodules--;
}

/*
 * A program that forks for days: a child that is not there any more, and of which nothing was heard for a
 * whole file, is forgotten. The first process never is: the recording is about it.
 */
static void forget_ended(struct tracelog_reemit *r, uint64_t heard_before)
{
	size_t i, kept = 0;

	for (i = 0; i < r->nprocesses; i++) {
		struct reported_process *p = &r->process[i];

		if (i && p->parent && p->last_file < heard_before && kill(p->pid, 0) < 0 && errno == ESRCH)
			forget_process(r, p);
		else
			r->process[kept++] = *p;
	}
	r->nprocesses = kept;
	r->current = 0;
}

void reemit_shrink(struct tracelog_reemit *r)
{
	forget_ended(r, UINT64_MAX);
}

void reemit_seen(struct tracelog_reemit *r, int32_t pid)
{
	struct reported_process *p = find_process(r, pid);

	if (p)
		p->last_file = r->file;
}

/* What is reported */

static struct wc_error *keep_lost(struct tracelog_reemit *r, const struct lost_event *l, struct reported *t)
{
	uint64_t key = hash_text(HASH_START ^ l->watch, l->why ? l->why : ""), sum = l->count, before;
	const struct reported *old = facts_get(&r->lost, key);

	if (old) {
		memcpy(&before, old->fields + OFF_COUNT, sizeof(before));
		sum += before;
		memcpy(t->fields + OFF_COUNT, &sum, sizeof(sum));
	}
	return keep_held(r, &r->lost, key, t);
}

static void keep_recording(struct tracelog_reemit *r, struct reported *t)
{
	if (r->recording)
		r->bytes -= reported_bytes(r->recording);
	reported_unref(r->recording);
	r->recording = t;
	r->bytes += reported_bytes(t);
}

#define CHECK_NUMBER(name, number, traits) \
	_Static_assert((number) < REEMIT_TYPES || !((traits)&EVENT_STAYS), "REEMIT_TYPES");
EVENT_TYPES(CHECK_NUMBER)

/* Those of which nothing more is to be known here have an id for their first field. */
static struct wc_error *keep_by_id(struct tracelog_reemit *r, enum event_type type, struct reported *t)
{
	uint32_t id;

	memcpy(&id, t->fields, sizeof(id));
	return keep_held(r, &r->held[type], id, t);
}

/* Takes @t. */
static struct wc_error *tracelog_reemit_keep(struct tracelog_reemit *r, const struct trace_event *e,
					     struct reported *t)
{
	switch (e->type) {
	case EVENT_PROCESS:
		return keep_process(r, &e->process, t);
	case EVENT_MODULE:
		return keep_module(r, e, t);
	case EVENT_THREAD:
		return keep_fact(r, &r->threads, (uint32_t)e->thread.tid, t);
	case EVENT_CODE:
		return keep_fact(r, &r->code, e->code.pc, t);
	case EVENT_TAG:
		return keep_tag(r, e->tag.id, t);
	case EVENT_REGION:
		return keep_held(r, &r->held[EVENT_REGION],
				 e->region.start ^ (uint64_t)(uint32_t)e->region.pid << 48, t);
	case EVENT_NOTE:
		return keep_held(r, &r->notes, r->notes.n, t);
	case EVENT_LOST:
		return keep_lost(r, &e->lost, t);
	case EVENT_RECORDING:
		keep_recording(r, t);
		return NULL;
	default:
		return keep_by_id(r, e->type, t);
	}
}

static bool holds_on(const struct tracelog_reemit *r, enum event_type type)
{
	if (type == EVENT_NOTE) /* how it was armed */
		return !r->has_begun && r->notes.n < NOTES_MAX;
	return event_is(type, EVENT_STAYS);
}

struct wc_error *reemit_keep(struct tracelog_reemit *r, const struct trace_event *e, const uint8_t *fields,
			     size_t len)
{
	struct reported *t;

	if (e->type == EVENT_MODULE_GONE)
		forget_module(r, e);
	if (!holds_on(r, e->type))
		return NULL;
	t = reported_new((uint16_t)e->type, fields, len);
	if (!t)
		return &wc_enomem;
	t->time_ns = e->time_ns;
	return tracelog_reemit_keep(r, e, t);
}

static const struct reported *once_a_file(const struct tracelog_reemit *r, struct reported *t)
{
	if (!t || t->file == r->file)
		return NULL;
	t->file = r->file;
	return t;
}

const struct reported *reemit_thread(struct tracelog_reemit *r, int32_t pid, int32_t tid)
{
	struct reported *t = facts_get(&r->threads, (uint32_t)tid);
	int32_t owner;

	if (!t)
		return NULL;
	memcpy(&owner, t->fields, sizeof(owner));
	return owner == pid ? once_a_file(r, t) : NULL;
}

const struct reported *reemit_code(struct tracelog_reemit *r, uint64_t pc)
{
	return once_a_file(r, facts_get(&r->code, pc));
}

const struct reported *reemit_tag(struct tracelog_reemit *r, uint32_t id)
{
	return once_a_file(r, facts_get(&r->tags, id));
}

/* The beginning of a file */

static struct wc_error *put_facts(struct reported_facts *f, struct reported_sink sink)
{
	struct wc_error *err = NULL;
	size_t i;

	for (i = 0; i < f->n && !err; i++)
		err = sink.put(sink.ctx, f->v[i].reported);
	return err;
}

/* The time of day belongs to the moment at which it is reported. */
static void set_time(struct reported *t, uint64_t time_ns)
{
	uint64_t realtime;

	memcpy(&realtime, t->fields + OFF_REALTIME, sizeof(realtime));
	if (realtime)
		realtime += time_ns - t->time_ns;
	memcpy(t->fields + OFF_REALTIME, &realtime, sizeof(realtime));
	t->time_ns = time_ns;
}

static bool all_have(const struct tracelog_reemit *r, const struct reported *t)
{
	return t->owners == r->nprocesses;
}

/* The module's event says whose it is, in its last field: of @p, whoever told it first. */
static struct wc_error *put_module(const struct tracelog_reemit *r, const struct reported_process *p,
				   struct reported *t, struct reported_sink sink)
{
	uint8_t *field = t->fields + t->len - sizeof(int32_t);
	struct wc_error *err;
	int32_t before;

	memcpy(&before, field, sizeof(before));
	if (before || p != r->process)
		memcpy(field, &p->pid, sizeof(p->pid));
	err = sink.put(sink.ctx, t);
	memcpy(field, &before, sizeof(before));
	return err;
}

/* A child that starts with what its parent had, when it is reported now. */
static bool starts_with_common(struct tracelog_reemit *r, const struct reported_process *p)
{
	const struct reported_process *parent = p->parent ? find_process(r, p->parent) : NULL;

	return parent && parent < p && parent->has_common;
}

static struct wc_error *put_processes(struct tracelog_reemit *r, uint64_t time_ns, struct reported_sink sink)
{
	struct wc_error *err = NULL;
	struct reported_process *p;
	size_t i;

	for (p = r->process; p < r->process + r->nprocesses && !err; p++) {
		set_time(p->reported, time_ns);
		err = sink.put(sink.ctx, p->reported);
		p->has_common = p == r->process || starts_with_common(r, p);
		for (i = 0; p == r->process && i < p->nmodules && !err; i++)
			if (all_have(r, p->module[i].reported))
				err = put_module(r, p, p->module[i].reported, sink);
	}
	for (p = r->process; p < r->process + r->nprocesses; p++)
		for (i = 0; i < p->nmodules && !err; i++)
			if (!p->has_common || !all_have(r, p->module[i].reported))
				err = put_module(r, p, p->module[i].reported, sink);
	return err;
}

struct wc_error *reemit_all(struct tracelog_reemit *r, uint64_t file, uint64_t time_ns,
			    struct reported_sink sink)
{
	struct wc_error *err = NULL;
	size_t i;

	r->file = file;
	forget_ended(r, file - 1);
	if (r->recording)
		err = sink.put(sink.ctx, r->recording);
	if (!err)
		err = put_processes(r, time_ns, sink);
	for (i = 0; i < REEMIT_TYPES && !err; i++)
		err = put_facts(&r->held[i], sink);
	if (!err)
		err = put_facts(&r->notes, sink);
	return err ? err : put_facts(&r->lost, sink);
}

void reemit_deinit(struct tracelog_reemit *r)
{
	struct reported_facts *const facts[] = { &r->notes, &r->lost, &r->threads, &r->code, &r->tags };
	size_t i;

	for (i = 0; i < r->nprocesses; i++)
		forget_process(r, &r->process[i]);
	free(r->process);
	for (i = 0; i < sizeof(facts) / sizeof(facts[0]); i++)
		facts_deinit(facts[i]);
	for (i = 0; i < REEMIT_TYPES; i++)
		facts_deinit(&r->held[i]);
	reported_unref(r->recording);
	*r = (struct tracelog_reemit){ 0 };
}
