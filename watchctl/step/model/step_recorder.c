#include "watchctl/step/model/step_recorder.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/hash.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/text_buf.h"
#include "watchctl/base/utf8.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/elf/debug_package.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/unwind/cfi.h"
#include "watchctl/step/model/step_changes.h"
#include "watchctl/step/model/step_open.h"
#include "watchctl/step/model/step_stack.h"
#include "watchctl/step/model/step_values.h"
#include "watchctl/step/model/told_regions.h"
#include "watchctl/step/model/told_types.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/proc/proc_words.h"
#include "watchctl/trace/call_values.h"

/* Packages beyond these are not named. */
#define PACKAGES_MAX 3

/* A function as the log knows it. */
struct reported_function {
	const struct function_plan *plan;
	uint64_t start; /* in the process; 0: not known */
	uint32_t id;
	bool reported;
};

/* A module, and how many of its functions have no types. */
struct untyped_module {
	char *path;
	uint8_t build_id[BUILD_ID_MAX];
	uint8_t build_id_len;
	uint64_t functions;
};

struct step_recorder {
	struct event_sink sink;
	struct cfi *cfi;
	struct module_list modules;	  /* that were reported; strings are ours */
	struct reported_function **point; /* by point; NULL: no plan yet */
	size_t npoints, points_cap;
	struct map64 functions; /* plan -> struct reported_function, owned */
	struct told_types types;
	struct told_regions regions;
	struct step_changes changes;
	struct step_members members;
	const struct step_globals *globals;
	struct step_open open;
	uint32_t nfunctions;
	struct untyped_module *untyped;
	size_t nuntyped, untyped_cap;
	uint64_t now;
	struct step_tally totals;
	uint8_t values[CALL_VALUES_MAX]; /* of a call, or of a return with what the call has changed */
};

struct step_recorder *step_recorder_new(const struct planner_ops *ops, struct planner *planner,
					const struct step_globals *globals, struct event_sink sink)
{
	struct step_recorder *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->types = (struct told_types){ .ops = ops, .planner = planner };
	r->members = (struct step_members){ .ops = ops, .planner = planner };
	r->globals = globals;
	r->open = (struct step_open){ .ops = ops, .planner = planner };
	r->sink = sink;
	r->cfi = cfi_new();
	if (!r->cfi) {
		free(r);
		return NULL;
	}
	return r;
}

void step_recorder_free(struct step_recorder *r)
{
	if (!r)
		return;
	map64_deinit_values(&r->functions, free);
	told_types_deinit(&r->types);
	told_regions_deinit(&r->regions);
	step_changes_deinit(&r->changes);
	step_members_deinit(&r->members);
	step_open_deinit(&r->open);
	module_list_deinit(&r->modules);
	cfi_free(r->cfi);
	for (size_t i = 0; i < r->nuntyped; i++)
		free(r->untyped[i].path);
	free(r->untyped);
	free(r->point);
	free(r);
}

static struct wc_error *put(struct step_recorder *r, struct trace_event *e)
{
	e->time_ns = r->now;
	return r->sink.put(r->sink.ctx, e);
}

struct wc_error *step_recorder_note(struct step_recorder *r, const char *text)
{
	struct trace_event e = { .type = EVENT_NOTE, .note.text = text };

	return put(r, &e);
}

/* Modules and mappings */

static bool same_module(const struct module *a, const struct module *b)
{
	return a->start == b->start && a->bias == b->bias && !strcmp(a->path, b->path) &&
	       a->build_id_len == b->build_id_len && !memcmp(a->build_id, b->build_id, a->build_id_len);
}

static bool lists(const struct module_list *l, const struct module *m)
{
	size_t i;

	for (i = 0; i < l->n; i++)
		if (same_module(&l->v[i], m))
			return true;
	return false;
}

static bool copy_module(const struct module *m, struct module *ret)
{
	*ret = *m;
	ret->path = strdup(m->path);
	ret->open_path = m->open_path ? strdup(m->open_path) : NULL;
	return ret->path && (!m->open_path || ret->open_path);
}

static struct wc_error *report_module(struct step_recorder *r, pid_t pid, const struct module *m, bool gone)
{
	struct trace_event e = { .type = gone ? EVENT_MODULE_GONE : EVENT_MODULE,
				 .module_pid = pid,
				 .module = *m };

	if (gone)
		cfi_remove(r->cfi, m->start, m->end);
	else if (!cfi_add(r->cfi, m))
		return &wc_enomem;
	return put(r, &e);
}

struct wc_error *step_recorder_modules(struct step_recorder *r, pid_t pid, const struct module_list *modules)
{
	struct module_list copy = { 0 };
	struct wc_error *err = NULL;
	size_t i;

	for (i = 0; i < r->modules.n && !err; i++)
		if (!lists(modules, &r->modules.v[i]))
			err = report_module(r, pid, &r->modules.v[i], true);
	for (i = 0; i < modules->n && !err; i++) {
		struct module m = { 0 };

		if (!lists(&r->modules, &modules->v[i]))
			err = report_module(r, pid, &modules->v[i], false);
		if (!copy_module(&modules->v[i], &m) || !vec_push(copy.v, copy.n, copy.cap, m)) {
			free(m.path);
			free(m.open_path);
			err = wc_error_first(err, &wc_enomem);
		}
	}
	module_list_deinit(&r->modules);
	r->modules = copy;
	step_open_forget_code(&r->open);
	return err;
}

struct wc_error *step_recorder_regions(struct step_recorder *r, pid_t pid)
{
	return told_regions_tell(&r->regions, pid, r->now, r->sink);
}

/* Types and functions */

static const struct type_event *type_of(const struct step_recorder *r, uint32_t id)
{
	return told_types_find(&r->types, id);
}

static struct wc_error *count_untyped(struct step_recorder *r, const struct function_event *f)
{
	struct untyped_module m = { .functions = 1, .build_id_len = f->build_id_len };

	r->totals.untyped_functions++;
	for (size_t i = 0; f->module && i < r->nuntyped; i++)
		if (!strcmp(r->untyped[i].path, f->module)) {
			r->untyped[i].functions++;
			return NULL;
		}
	if (!f->module)
		return NULL;
	m.path = strdup(f->module);
	if (f->build_id_len)
		memcpy(m.build_id, f->build_id, f->build_id_len);
	if (m.path && vec_push(r->untyped, r->nuntyped, r->untyped_cap, m))
		return NULL;
	free(m.path);
	return &wc_enomem;
}

static struct wc_error *report_function(struct step_recorder *r, struct reported_function *f)
{
	struct trace_event e = { .type = EVENT_FUNCTION, .function = f->plan->function };
	struct wc_error *err = told_types_tell_function(&r->types, &f->plan->function, r->now, r->sink);

	if (err)
		return err;
	f->reported = true;
	r->totals.functions++;
	if (f->plan->function.flags & FUNCTION_NO_TYPES)
		err = count_untyped(r, &f->plan->function);
	if (err)
		return err;
	e.function.id = f->id;
	return put(r, &e);
}

static uint64_t start_of(const struct step_recorder *r, const struct function_event *f)
{
	for (size_t i = 0; f->module && f->address && i < r->modules.n; i++)
		if (!strcmp(r->modules.v[i].path, f->module))
			return f->address + r->modules.v[i].bias;
	return 0;
}

struct wc_error *step_recorder_plan(struct step_recorder *r, uint32_t point, const struct function_plan *plan)
{
	struct reported_function *f = map64_get(&r->functions, (uintptr_t)plan);

	if (!f) {
		f = calloc(1, sizeof(*f));
		if (!f || !map64_put(&r->functions, (uintptr_t)plan, f)) {
			free(f);
			return &wc_enomem;
		}
		f->plan = plan;
		f->start = start_of(r, &plan->function);
		f->id = r->nfunctions++;
	}
	if (!vec_reserve((void **)&r->point, &r->points_cap, point + 1, sizeof(struct reported_function *)))
		return &wc_enomem;
	while (r->npoints <= point)
		r->point[r->npoints++] = NULL;
	r->point[point] = f;
	return NULL;
}

/* Calls */

static struct wc_error *on_entry(struct step_recorder *r, const struct step_record *rec,
				 struct reported_function *f)
{
	const struct function_plan *plan = f->plan;
	struct trace_event e = { .type = EVENT_CALL };
	struct wc_error *err = f->reported ? NULL : report_function(r, f);
	struct step_frames frames;
	size_t len = 0;
	uint32_t i;

	if (err)
		return err;
	if (!step_open_enter(&r->open, rec->tid, rec->call, plan, f->start))
		return &wc_enomem;
	for (i = 0; i < plan->function.nparams; i++)
		step_value_put(&plan->recipe[i], rec->fetched, type_of(r, plan->function.param[i].type),
			       r->values, sizeof(r->values), &len);
	step_stack_callers(r->cfi, rec, &frames);
	r->totals.calls++;
	r->totals.untyped += !!(plan->function.flags & FUNCTION_NO_TYPES);
	e.call = (struct call_event){
		.call = rec->call->call,
		.parent = rec->call->parent,
		.pid = rec->pid,
		.tid = rec->tid,
		.function = f->id,
		.depth = rec->call->depth < UINT16_MAX ? (uint16_t)rec->call->depth : UINT16_MAX,
		.flags = rec->call->flags,
		.sp = rec->call->sp,
		.walk_end = frames.walk_end,
		.nframes = frames.n,
		.frame = frames.v,
		.values = r->values,
		.values_len = (uint32_t)len,
	};
	return put(r, &e);
}

/* Says, behind the result, that it may be nobody's. */
static void put_unused(struct step_recorder *r, const struct step_record *rec,
		       const struct function_plan *plan, size_t *len)
{
	static const struct return_extra unused = { .kind = RETURN_UNUSED };

	if (!plan->sets_result && step_open_is_unused(&r->open, rec->tid, rec->call, plan))
		return_extra_put(r->values, sizeof(r->values), len, &unused);
}

static struct wc_error *on_return(struct step_recorder *r, const struct step_record *rec,
				  struct reported_function *f)
{
	const struct function_plan *plan = f->plan;
	bool came_back = rec->how == RETURN_RETURNED;
	struct trace_event e = { .type = EVENT_RETURN,
				 .ret = { .call = rec->call->call,
					  .pid = rec->pid,
					  .tid = rec->tid,
					  .function = f->id,
					  .how = rec->how,
					  .values = r->values } };
	size_t len = 0;
	const struct changes_out out = { .globals = r->globals,
					 .members = &r->members,
					 .types = &r->types,
					 .time_ns = r->now,
					 .sink = r->sink,
					 .buf = r->values,
					 .cap = sizeof(r->values),
					 .len = &len };
	struct wc_error *err;

	if (came_back && plan->result.state == VALUE_OK) {
		step_value_put(&plan->result, rec->fetched, type_of(r, plan->function.return_type), r->values,
			       sizeof(r->values), &len);
		put_unused(r, rec, plan, &len);
	}
	err = step_changes_put(&r->changes, rec->call->call, &out);
	if (err)
		return err;
	step_open_leave(&r->open, rec->tid, rec->call->call);
	e.ret.values_len = (uint32_t)len;
	e.ret.has_error = came_back && step_value_error(plan, rec->fetched, &e.ret.error);
	r->totals.returns++;
	return put(r, &e);
}

static struct wc_error *on_written(struct step_recorder *r, const struct step_record *rec)
{
	const struct reported_function *f = rec->point < r->npoints ? r->point[rec->point] : NULL;

	return !f || step_changes_take(&r->changes, rec, f->plan) ? NULL : &wc_enomem;
}

static struct wc_error *on_call(struct step_recorder *r, const struct step_record *rec)
{
	struct reported_function *f = rec->point < r->npoints ? r->point[rec->point] : NULL;

	if (!f)
		return wc_error_new(WC_EFAIL,
				    "the stepper reported a call of function %u before it requested its plan",
				    rec->point);
	return rec->kind == STEP_ENTRY ? on_entry(r, rec, f) : on_return(r, rec, f);
}

/* The rest */

static struct wc_error *on_thread(struct step_recorder *r, const struct step_record *rec)
{
	char name[COMM_LEN + 1] = "";
	struct trace_event e = { .type = EVENT_THREAD,
				 .thread = { .pid = rec->pid,
					     .tid = rec->tid,
					     .comm = name,
					     .creator = rec->creator,
					     .creating_call = rec->creating_call,
					     .stack_start = rec->stack_start,
					     .stack_end = rec->stack_end } };

	proc_thread_name(rec->pid, rec->tid, name, sizeof(name));
	r->totals.threads++;
	return put(r, &e);
}

static struct wc_error *on_range(struct step_recorder *r, const struct step_record *rec)
{
	struct trace_event e = { .type = EVENT_RANGE,
				 .range = { .occurrence = rec->occurrence,
					    .what = rec->range_what,
					    .pid = rec->pid,
					    .tid = rec->tid } };
	struct wc_error *err = step_recorder_regions(r, rec->pid);

	if (rec->range_what == RANGE_BEGIN)
		r->totals.occurrences++;
	else
		r->totals.last_end = rec->range_what;
	return err ? err : put(r, &e);
}

static struct wc_error *on_blocked(struct step_recorder *r, const struct step_record *rec)
{
	struct trace_event e = { .type = EVENT_BLOCKED };
	struct step_frames frames;

	step_stack_whole(r->cfi, rec, &frames);
	e.blocked = (struct blocked_event){
		.pid = rec->pid,
		.tid = rec->tid,
		.call = rec->inside,
		.syscall = rec->syscall,
		.walk_end = frames.walk_end,
		.nframes = frames.n,
		.frame = frames.v,
	};
	return put(r, &e);
}

static struct wc_error *on_signal(struct step_recorder *r, const struct step_record *rec)
{
	struct trace_event e = { .type = EVENT_SIGNAL,
				 .signal = { .pid = rec->pid,
					     .tid = rec->tid,
					     .signal = rec->signal,
					     .code = rec->code,
					     .ip = rec->regs.r[WREG_RIP],
					     .call = rec->inside } };

	r->totals.signals++;
	return put(r, &e);
}

static struct wc_error *on_input(struct step_recorder *r, const struct step_record *rec)
{
	const struct step_input *in = &rec->input;
	struct trace_event e = { .type = EVENT_INPUT };

	e.input = (struct input_event){
		.pid = rec->pid,
		.tid = rec->tid,
		.call = rec->inside,
		.kind = in->kind,
		.syscall = rec->syscall,
		.fd = in->fd,
		.result = in->result,
		.offset = in->offset,
		.size = in->size,
		.hashed = in->hashed,
		.hash = in->hash,
		.name = rec->why,
		.bytes = rec->stack,
		.len = rec->stack_len,
	};
	return put(r, &e);
}

static struct wc_error *on_insn(struct step_recorder *r, const struct step_record *rec)
{
	struct trace_event e = {
		.type = EVENT_STEP,
		.step = { .pid = rec->pid, .tid = rec->tid, .call = rec->inside, .ip = rec->regs.r[WREG_RIP] }
	};

	r->totals.steps++;
	return put(r, &e);
}

static struct wc_error *on_lost(struct step_recorder *r, const struct step_record *rec)
{
	struct trace_event e = { .type = EVENT_LOST,
				 .lost = { .watch = WATCH_CALLS, .count = rec->lost, .why = rec->why } };

	r->totals.lost += rec->lost;
	return put(r, &e);
}

struct wc_error *step_recorder_put(struct step_recorder *r, const struct step_record *rec)
{
	if (rec->time_ns > r->now)
		r->now = rec->time_ns;
	switch (rec->kind) {
	case STEP_ENTRY:
	case STEP_RETURN:
		return on_call(r, rec);
	case STEP_WRITTEN:
		return on_written(r, rec);
	case STEP_INSN:
		return on_insn(r, rec);
	case STEP_SIGNAL:
		return on_signal(r, rec);
	case STEP_INPUT:
		return on_input(r, rec);
	case STEP_THREAD:
		return on_thread(r, rec);
	case STEP_RANGE:
		return on_range(r, rec);
	case STEP_BLOCKED:
		return on_blocked(r, rec);
	case STEP_LOST:
		return on_lost(r, rec);
	case STEP_NOTE:
		return step_recorder_note(r, rec->why);
	case STEP_THREAD_END:
		step_open_end_thread(&r->open, rec->tid);
		return NULL;
	case STEP_MODULES: /* whoever asked for the record answers it */
	case STEP_NEED_PLAN:
	case STEP_FORK:
	case STEP_EXEC:
	case STEP_EXIT:
	case STEP_DONE:
	case STEP_PAUSED:
		break;
	}
	return NULL;
}

void step_recorder_totals(const struct step_recorder *r, struct step_tally *ret)
{
	*ret = r->totals;
}

static int most_functions(const void *a, const void *b)
{
	const struct untyped_module *x = a, *y = b;

	return x->functions != y->functions ? (x->functions < y->functions ? 1 : -1)
					    : strcmp(x->path, y->path);
}

/* Adds the packages of the first modules that have one. */
static void add_packages(struct text_buf *t, const struct untyped_module *m, size_t n)
{
	size_t added = 0;

	for (size_t i = 0; i < n && added < PACKAGES_MAX; i++) {
		scoped(freep) char *advice =
			debug_package_advice_at(m[i].path, m[i].build_id, m[i].build_id_len);
		char name[256];

		if (!advice)
			continue;
		text_buf_printf(t, "; %" PRIu64 " of them %s in %s: %s", m[i].functions,
				m[i].functions == 1 ? "is" : "are",
				utf8_clean(basename(m[i].path), name, sizeof(name)), advice);
		added++;
	}
}

char *step_recorder_untyped(struct step_recorder *r)
{
	const struct step_tally *t = &r->totals;
	struct text_buf text = { 0 };
	char *ret = NULL;

	if (!t->untyped)
		return NULL;
	text_buf_printf(&text,
			"%" PRIu64 " of %" PRIu64
			" functions have no debug information: their argument registers "
			"are recorded, without names and types (%" PRIu64 " call%s)",
			t->untyped_functions, t->functions, t->untyped, t->untyped == 1 ? "" : "s");
	if (r->nuntyped)
		qsort(r->untyped, r->nuntyped, sizeof(*r->untyped), most_functions);
	add_packages(&text, r->untyped, r->nuntyped);
	if (!text.failed)
		ret = strdup(text_buf_text(&text));
	text_buf_deinit(&text);
	return ret;
}
