#include "watchctl/step/model/step_session.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/base/task.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/locate/code_name.h"
#include "watchctl/code/locate/locate.h"
#include "watchctl/code/lookup/locator.h"
#include "watchctl/session/process_event.h"
#include "watchctl/session/session.h"
#include "watchctl/step/model/step_recording.h"
#include "watchctl/step/model/step_start.h"
#include "watchctl/target/proc/proc.h"

#define PUMP_MS 50
#define REGIONS_LATE_NS 200000000ull
#define REGIONS_NS 2000000ull

/* What the stepper knows by its number. */
struct session_point {
	uint64_t address;
	const char *name;
	uint64_t calls;
	bool over;
	bool function; /* has a plan; else an end of the range */
};

struct step_session {
	const struct step_request *request;
	struct event_sink sink;
	struct stepper *stepper;
	struct planner *planner;
	bool owns_planner;
	struct step_select *select;
	struct step_recorder *recorder;
	struct locator *locator;
	struct module_list modules;
	struct session_point *point;
	size_t npoints, points_cap;
	struct step_globals globals;
	size_t said_left_out;	   /* variables */
	bool found_from, found_to; /* where there is one, its library is loaded */
	enum recording_inputs inputs;
	bool started, stuck, asked_to_stop;
	uint64_t regions_ns, listed_ns;
	int status;
};

static void say_nothing(void *ctx, const char *fmt, ...)
{
	(void)ctx;
	(void)fmt;
}

static uint8_t changes_of(const struct step_request *q)
{
	const uint8_t data = RECORDING_CHANGED_DATA | RECORDING_CHANGED_MEMBERS;

	if (!q->stepper->set_data)
		return 0;
	return RECORDING_CHANGED_POINTEES | (q->globals ? data : 0);
}

static struct wc_error *report_recording(struct step_session *s)
{
	const struct step_request *q = s->request;
	const struct step_recording r = { .stepper = q->stepper->name,
					  .planner = q->planner_ops->version(),
					  .selection = &q->selection,
					  .from = q->from,
					  .to = q->to,
					  .depth = q->depth,
					  .threads = q->threads,
					  .plans = &q->plans,
					  .instructions = q->instructions,
					  .inputs = s->inputs,
					  .changes = changes_of(q) };

	return step_recording_put(&r, monotonic_ns(), s->sink);
}

/* Points */

static struct wc_error *add_points(struct step_session *s, const struct step_point *p,
				   const struct session_point *what, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!vec_push(s->point, s->npoints, s->points_cap, what[i]))
			return &wc_enomem;
	return s->request->stepper->add_points(s->stepper, p, n);
}

static struct wc_error *add_end(struct step_session *s, const char *expr, enum point_use use, bool *found)
{
	const struct memory_view mem = proc_memory(&s->request->pid);
	struct variable v = { 0 };
	struct step_point p = { .use = (uint8_t)use };
	struct session_point what = { 0 };
	bool missing = false;
	struct wc_error *err;

	if (!expr || *found)
		return NULL;
	err = locate_code(s->locator, expr, &s->modules, &mem, &v, &missing);
	if (err && missing && s->npoints) {
		wc_error_free(err); /* not loaded yet: asked again when libraries come */
		return NULL;
	}
	if (err)
		return err;
	p.address = what.address = v.addr;
	variable_deinit(&v);
	p.is_function = step_select_function(s->select, p.address, &p.size);
	*found = true;
	return add_points(s, &p, &what, 1);
}

static struct wc_error *add_functions(struct step_session *s)
{
	const struct stepper_ops *ops = s->request->stepper;
	const struct step_chosen *chosen;
	const struct stepper_code *code;
	const struct step_point *p;
	struct session_point *what;
	struct wc_error *err;
	size_t n, ncode, i;

	err = step_select_update(s->select, &s->modules, &p, &chosen, &n);
	if (err)
		return err;
	what = calloc(n ? n : 1, sizeof(*what));
	if (!what)
		return &wc_enomem;
	for (i = 0; i < n; i++)
		what[i] = (struct session_point){ .address = chosen[i].address,
						  .name = chosen[i].name,
						  .over = chosen[i].over,
						  .function = true };
	err = add_points(s, p, what, n);
	free(what);
	code = step_select_code(s->select, &ncode);
	return err ? err : ops->set_code(s->stepper, code, ncode);
}

static struct wc_error *say_left_out(struct step_session *s)
{
	const struct step_globals *g = &s->globals;
	char text[240];

	if (!g->left_out || s->said_left_out == g->left_out)
		return NULL;
	s->said_left_out = g->left_out;
	snprintf(text, sizeof(text),
		 "%zu variables of %" PRIu64
		 " bytes are too large for their changes to be recorded (the limit is %u "
		 "bytes together: --globals)",
		 g->left_out, g->left_out_bytes, s->request->globals);
	return step_recorder_note(s->recorder, text);
}

static struct wc_error *add_globals(struct step_session *s)
{
	const struct step_request *q = s->request;
	const struct step_globals *g = &s->globals;
	struct stepper_code *object;
	struct wc_error *err;
	size_t i;

	if (!q->globals || !q->stepper->set_data)
		return NULL;
	err = step_globals_read(&s->globals, &s->modules, &q->selection, q->globals);
	object = calloc(g->n + 1, sizeof(*object));
	if (!err && !object)
		err = &wc_enomem;
	for (i = 0; !err && i < g->n; i++)
		object[i] = (struct stepper_code){ g->v[i].start, g->v[i].end };
	err = err ? err : q->stepper->set_data(s->stepper, object, g->n);
	free(object);
	return err ? err : say_left_out(s);
}

/* What is in the process now, what is to be recorded of it, and where the range begins and ends. */
static struct wc_error *find_all(struct step_session *s)
{
	const struct step_request *q = s->request;
	struct module_list old = s->modules;
	struct wc_error *err;
	size_t i;

	s->modules = (struct module_list){ 0 };
	err = module_list_read(q->pid, &s->modules);
	for (i = 0; i < old.n && !err; i++) {
		const struct module *now = module_find(&s->modules, old.v[i].start);

		if (!now || strcmp(now->path, old.v[i].path) != 0)
			err = q->stepper->remove_points(s->stepper, old.v[i].start, old.v[i].end);
	}
	module_list_deinit(&old);
	err = err ? err : q->planner_ops->set_modules(s->planner, &s->modules);
	err = err ? err : add_functions(s);
	err = err ? err : add_globals(s);
	err = err ? err : add_end(s, q->from, POINT_FROM, &s->found_from);
	return err ? err : add_end(s, q->to, POINT_TO, &s->found_to);
}

/* Its life */

static struct wc_error *open_stepper(struct step_session *s)
{
	const struct step_request *q = s->request;
	const struct stepper_options o = {
		.pid = q->pid,
		.held = q->held,
		.range = { .has_from = q->from,
			   .has_to = q->to,
			   .from_is_function = q->from && !q->to,
			   .occurrence = q->occurrence ? q->occurrence : 1,
			   .count = q->count },
		.threads = q->threads,
		.depth = q->depth,
		.events = q->events,
		.stuck_ns = q->stuck_ns,
		.instructions = q->instructions,
		.stack_bytes = q->stack_bytes,
		.inputs = s->inputs,
		.input_bytes = q->input_bytes,
		.host = q->host,
		.say = q->say ? q->say : say_nothing,
		.say_ctx = q->say_ctx,
	};

	return q->stepper->open(&o, &s->stepper);
}

static struct wc_error *open_planner(struct step_session *s)
{
	const struct step_request *q = s->request;
	struct planner_options plans = q->plans;
	char exe[64];

	if (!plans.memory.read)
		plans.memory = proc_memory(&q->pid);
	s->planner = q->planner;
	if (s->planner)
		return NULL;
	s->owns_planner = true;
	snprintf(exe, sizeof(exe), "/proc/%d/exe", task_with_memory(q->pid));
	return q->planner_ops->open(exe, &plans, &s->planner);
}

/* Before a running program's range begins, we do not stop its threads more than we must. */
static enum recording_inputs inputs_of(const struct step_request *q)
{
	if (q->no_inputs)
		return INPUTS_NONE;
	if (!q->stepper->sees_inputs)
		return INPUTS_START;
	return q->held ? INPUTS_WHOLE : INPUTS_RANGE;
}

static struct wc_error *step_session_prepare(struct step_session *s)
{
	const struct step_request *q = s->request;
	struct wc_error *err = open_planner(s);

	if (err)
		return err;
	s->select = step_select_new(&q->selection, q->planner_ops, s->planner);
	s->recorder = step_recorder_new(q->planner_ops, s->planner, &s->globals, s->sink);
	s->locator = locator_new();
	if (!s->select || !s->recorder || !s->locator)
		return &wc_enomem;
	err = open_stepper(s);
	err = err ? err : find_all(s);
	err = err ? err : process_event_put(q->pid, s->sink);
	err = err ? err : report_recording(s);
	if (!err && s->inputs != INPUTS_NONE)
		err = step_start_report(q->pid, monotonic_ns(), s->sink);
	err = err ? err : step_recorder_modules(s->recorder, q->pid, &s->modules);
	return err ? err : step_recorder_regions(s->recorder, q->pid);
}

struct wc_error *step_session_open(const struct step_request *q, struct event_sink sink,
				   struct step_session **ret)
{
	struct step_session *s = calloc(1, sizeof(*s));
	struct wc_error *err;

	if (!s)
		return &wc_enomem;
	s->request = q;
	s->sink = sink;
	s->inputs = inputs_of(q);
	err = step_session_prepare(s);
	if (err) {
		wc_error_free(step_session_close(s));
		return err;
	}
	*ret = s;
	return NULL;
}

struct wc_error *step_session_close(struct step_session *s)
{
	struct wc_error *err = NULL;

	if (!s)
		return NULL;
	if (s->stepper)
		err = s->request->stepper->close(s->stepper);
	step_recorder_free(s->recorder);
	step_select_free(s->select);
	locator_free(s->locator);
	step_globals_deinit(&s->globals);
	if (s->owns_planner)
		s->request->planner_ops->close(s->planner);
	module_list_deinit(&s->modules);
	free(s->point);
	free(s);
	return err;
}

/* The pump */

static struct wc_error *plan(struct step_session *s, uint32_t point)
{
	const struct step_request *q = s->request;
	const struct function_plan *plan;
	struct wc_error *err;

	if (point >= s->npoints || !s->point[point].function)
		return wc_error_new(WC_EFAIL,
				    "the stepper requested a plan for point %u, which is not a function",
				    point);
	err = q->planner_ops->plan(s->planner, s->point[point].address, s->point[point].over, &plan);
	err = err ? err : step_recorder_plan(s->recorder, point, plan);
	if (!err && monotonic_ns() - s->regions_ns > REGIONS_NS) {
		err = step_recorder_regions(s->recorder, q->pid);
		s->regions_ns = monotonic_ns();
	}
	return err ? err : q->stepper->set_plan(s->stepper, point, &plan->plan);
}

static struct wc_error *report_fork(struct step_session *s, const struct step_record *rec)
{
	char text[160];

	snprintf(text, sizeof(text), "process %d, forked by thread %d, is not recorded", rec->child,
		 rec->tid);
	return step_recorder_note(s->recorder, text);
}

static enum session_end end_of(const struct step_session *s)
{
	if (s->stuck)
		return SESSION_STUCK;
	return s->asked_to_stop ? SESSION_STOPPED : SESSION_DONE;
}

/* What hangs will not come by again: whatever else was asked for, that is the answer. */
static struct wc_error *on_range(struct step_session *s, const struct step_record *rec)
{
	struct wc_error *err = step_recorder_put(s->recorder, rec);

	if (err || rec->range_what != RANGE_STUCK)
		return err;
	s->stuck = s->asked_to_stop = true;
	return s->request->stepper->stop(s->stepper);
}

/* What moved the program was killed. Readers of the log have to know, too. */
static struct wc_error *cut_short(struct step_session *s, const char *why)
{
	struct wc_error *err = step_recorder_note(s->recorder, why);

	return err ? err : wc_error_new(WC_EFAIL, "%s", why);
}

/* *@over: the recording is, in the way *@end says. */
static struct wc_error *step_session_take(struct step_session *s, const struct step_record *rec, bool *over,
					  enum session_end *end)
{
	struct wc_error *err = NULL;

	switch (rec->kind) {
	case STEP_NEED_PLAN:
		return plan(s, rec->point);
	case STEP_MODULES:
		err = find_all(s);
		err = err ? err : step_recorder_modules(s->recorder, s->request->pid, &s->modules);
		return err ? err : s->request->stepper->modules_done(s->stepper);
	case STEP_FORK:
		return report_fork(s, rec);
	case STEP_RANGE:
		return on_range(s, rec);
	case STEP_EXIT:
		s->status = rec->status;
		*end = SESSION_EXITED;
		break;
	case STEP_EXEC:
		*end = SESSION_EXECED;
		err = step_recorder_note(s->recorder,
					 "the process executed another program: the recording ends");
		break;
	case STEP_DONE:
		*end = end_of(s);
		if (rec->why)
			err = cut_short(s, rec->why);
		break;
	case STEP_PAUSED:
		*end = SESSION_PAUSED;
		break;
	case STEP_ENTRY:
		if (rec->point < s->npoints)
			s->point[rec->point].calls++;
		return step_recorder_put(s->recorder, rec);
	default:
		return step_recorder_put(s->recorder, rec);
	}
	*over = true;
	return err;
}

static struct wc_error *report_regions(struct step_session *s)
{
	uint64_t now = monotonic_ns();

	if (now - s->listed_ns < REGIONS_LATE_NS)
		return NULL;
	s->listed_ns = now;
	return step_recorder_regions(s->recorder, s->request->pid);
}

static struct wc_error *step_pump(void *self, bool may_wait, enum source_state *state, enum session_end *end)
{
	struct step_session *s = self;
	const struct step_record *rec = NULL;
	bool over = false;
	struct wc_error *err = s->request->stepper->next(s->stepper, may_wait ? PUMP_MS : 0, &rec);

	if (!err && rec)
		err = step_session_take(s, rec, &over, end);
	if (over)
		*state = SOURCE_ENDED;
	return err || over ? err : report_regions(s);
}

static struct wc_error *step_stop(void *self)
{
	struct step_session *s = self;

	if (s->asked_to_stop)
		return NULL;
	s->asked_to_stop = true;
	return s->request->stepper->stop(s->stepper);
}

static struct wc_error *pump_until_ended(struct step_session *s, const struct session_limits *l,
					 enum session_end *ret)
{
	static const struct source_ops ops = { .pump = step_pump, .stop = step_stop };

	return session_run(&(struct source){ &ops, s }, 1, l, ret);
}

struct wc_error *step_session_run(struct step_session *s, const struct session_limits *l,
				  enum session_end *ret)
{
	struct wc_error *err = s->request->stepper->start(s->stepper);

	if (!err && !s->started && s->request->started)
		s->request->started(s->request->started_ctx);
	s->started = true;
	return err ? err : pump_until_ended(s, l, ret);
}

struct wc_error *step_session_finish(struct step_session *s, enum session_end *ret)
{
	volatile sig_atomic_t now = true;

	s->asked_to_stop = false; /* one that has paused since is asked again */
	return pump_until_ended(s, &(struct session_limits){ .stop = &now }, ret);
}

void step_session_totals(const struct step_session *s, struct step_tally *totals,
			 struct stepper_counts *counts)
{
	step_recorder_totals(s->recorder, totals);
	s->request->stepper->counts(s->stepper, counts);
}

static bool is_named(const struct session_point *p, const char *name)
{
	return name && p->name && !strcmp(p->name, name);
}

/* The point with most calls of those that are not called @but; NULL: there is none. */
static const struct session_point *busiest(const struct step_session *s, const char *but)
{
	const struct session_point *ret = NULL;
	size_t i;

	for (i = 0; i < s->npoints; i++)
		if (s->point[i].calls && (!ret || s->point[i].calls > ret->calls) &&
		    !is_named(&s->point[i], but))
			ret = &s->point[i];
	return ret;
}

void step_session_most(const struct step_session *s, struct step_most ret[STEP_MOST])
{
	const char *but = NULL;
	size_t n, i;

	for (n = 0; n < STEP_MOST; n++) {
		const struct session_point *p = busiest(s, but);

		ret[n] = (struct step_most){ .calls = p && !p->name ? p->calls : 0 };
		if (!p || !p->name)
			continue;
		but = ret[n].name = p->name;
		for (i = 0; i < s->npoints; i++)
			ret[n].calls += is_named(&s->point[i], p->name) ? s->point[i].calls : 0;
	}
}

char *step_session_untyped(struct step_session *s)
{
	return step_recorder_untyped(s->recorder);
}

int step_session_status(const struct step_session *s)
{
	return s->status;
}

void step_session_selected(const struct step_session *s, size_t *functions, size_t *over, size_t *modules)
{
	step_select_count(s->select, functions, over, modules);
}
