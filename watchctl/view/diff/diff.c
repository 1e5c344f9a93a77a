#include "watchctl/view/diff/diff.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/trace/log/tracelog.h"
#include "watchctl/view/diff/diff_impl.h"
#include "watchctl/view/diff/diff_told.h"
#include "watchctl/view/diff/diff_withheld.h"

/* Loading: both at once */

struct loading {
	const char *path;
	struct diff_scope scope;
	struct diff_masks masks; /* its own: hits are counted while both are loaded */
	struct diff_told told;
	struct diff_side *side;
	struct wc_error *err;
};

static void *load_thread(void *arg)
{
	struct loading *l = arg;

	l->err = diff_side_load(l->path, &l->scope, &l->side);
	return NULL;
}

static struct wc_error *copy_masks(const struct diff_masks *from, struct diff_masks *to)
{
	struct wc_error *err = NULL;
	size_t i;

	to->no_values = from->no_values;
	for (i = 0; !err && i < from->n; i++)
		err = diff_masks_add(to, from->v[i].text, NULL, false);
	return err;
}

static struct wc_error *diff_prepare(struct loading *l, const struct diff_options *o, const char *path,
				     const struct diff_masks *masks)
{
	*l = (struct loading){ .path = path,
			       .scope = { .from = o->from,
					  .to = o->to,
					  .by_name = o->by_name,
					  .weak = o->weak,
					  .redact = o->redact } };
	l->scope.masks = &l->masks;
	return copy_masks(masks, &l->masks);
}

/* A program whose file has another name is the same program: its functions and data have the same identities. */
static void match_programs(struct loading *a, struct loading *b)
{
	const char *in_a = diff_base_name(a->told.exe), *in_b = diff_base_name(b->told.exe);

	if (!in_a || !in_b || !strcmp(in_a, in_b))
		return;
	a->scope.program = in_a;
	b->scope.program = in_b;
}

static struct wc_error *read_told_functions(struct loading *l)
{
	return diff_told_read_functions(l->path, l->scope.by_name, l->scope.program, &l->told);
}

/* Words and members are not compared with each other. */
static unsigned int changes_of_both(unsigned int a, unsigned int b)
{
	const unsigned int both = a & b;

	return (a ^ b) & RECORDING_CHANGED_MEMBERS ? both & ~RECORDING_CHANGED_DATA : both;
}

/* Each loads with what the other records, where that is known. */
static struct wc_error *read_told(struct loading *a, struct loading *b)
{
	struct wc_error *err = diff_told_read(a->path, &a->told);

	if (!err)
		err = diff_told_read(b->path, &b->told);
	match_programs(a, b);
	if (!err)
		err = read_told_functions(a);
	if (!err)
		err = read_told_functions(b);
	a->scope.changes = b->scope.changes = changes_of_both(a->told.changes, b->told.changes);
	if (!err && a->told.is_compact && b->told.is_compact) {
		a->scope.other = &b->told;
		b->scope.other = &a->told;
	}
	return err;
}

static void load_both(struct loading *a, struct loading *b)
{
	pthread_t thread;
	bool second = pthread_create(&thread, NULL, load_thread, b) == 0;

	load_thread(a);
	if (second)
		pthread_join(thread, NULL);
	else
		load_thread(b);
}

static void keep_hits(struct diff_masks *m, const struct diff_masks *a, const struct diff_masks *b)
{
	size_t i;

	for (i = 0; i < m->n; i++)
		m->v[i].hits = a->v[i].hits + b->v[i].hits;
}

struct wc_error *diff_load_sides(const struct diff_options *o, const char *good, const char *bad,
				 struct diff_masks *masks, struct diff_side **a, struct diff_side **b)
{
	struct loading la, lb;
	struct wc_error *err = diff_prepare(&la, o, good, masks), *other = diff_prepare(&lb, o, bad, masks);

	err = wc_error_first(err, other);
	if (!err)
		err = read_told(&la, &lb);
	/* One of them reports for both: they take about as long. */
	la.scope.progress = o->progress;
	if (!err && o->progress)
		progress_phase(o->progress, "reading the logs");
	if (!err) {
		load_both(&la, &lb);
		err = wc_error_first(la.err, lb.err);
		keep_hits(masks, &la.masks, &lb.masks);
	}
	diff_masks_deinit(&la.masks);
	diff_masks_deinit(&lb.masks);
	diff_told_deinit(&la.told);
	diff_told_deinit(&lb.told);
	if (err) {
		diff_side_free(la.side);
		diff_side_free(lb.side);
		return err;
	}
	*a = la.side;
	*b = lb.side;
	return NULL;
}

/* Notes */

bool diff_note(struct diff_result *r, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		return false;
	if (vec_push(r->note, r->nnotes, r->notes_cap, text))
		return true;
	free(text);
	return false;
}

/* Groups */

static bool is_signal(const struct diff_result *r, const struct diff_finding *f)
{
	const struct diff_threads *p = &r->compare.pair[f->pair];
	const struct diff_call *c = f->b != NO_CALL ? &p->b->call[f->b] : &p->a->call[f->a];

	return (c->flags & DIFF_SIGNAL) != 0;
}

static const struct diff_function *function_of(const struct diff_result *r, const struct diff_finding *f,
					       bool *only_in_a)
{
	const struct diff_threads *p = &r->compare.pair[f->pair];

	*only_in_a = f->b == NO_CALL;
	if (f->b != NO_CALL)
		return diff_function_of(p->b, f->b);
	return diff_function_of(p->a, f->a);
}

static struct diff_group *group_of(struct diff_result *r, struct map64 *index, const struct diff_finding *f)
{
	bool only_in_a;
	const struct diff_function *function = function_of(r, f, &only_in_a);
	uint64_t key = function->identity * 16 + 2 * f->kind + only_in_a;
	uintptr_t at = (uintptr_t)map64_get(index, key);
	struct diff_group g = { .function = function, .kind = f->kind, .only_in_a = only_in_a, .f = *f };

	g.is_signal = is_signal(r, f);
	if (at)
		return &r->group[at - 1];
	if (!vec_push(r->group, r->ngroups, r->groups_cap, g) ||
	    !map64_put(index, key, (void *)(uintptr_t)r->ngroups))
		return NULL;
	return &r->group[r->ngroups - 1];
}

static bool add_name(struct diff_group *g, const char *name, uint32_t place, bool pointee)
{
	char one[300], *more;

	if (name)
		snprintf(one, sizeof(one), "%s%.250s", pointee ? "*" : "", name);
	else
		snprintf(one, sizeof(one), "%s#%u", pointee ? "*" : "", place + 1);
	if (g->what && (strlen(g->what) > 400 || diff_list_has(g->what, one)))
		return true;
	if (asprintf(&more, "%s%s%s", g->what ? g->what : "", g->what ? ", " : "", one) < 0)
		return false;
	free(g->what);
	g->what = more;
	return true;
}

bool diff_list_has(const char *list, const char *one)
{
	size_t n = strlen(one);

	for (; list && *list; list += strcspn(list, ","), list += strspn(list, ", "))
		if (strcspn(list, ",") == n && !memcmp(list, one, n))
			return true;
	return false;
}

static bool name_params(struct diff_group *g, const struct diff_detail *d)
{
	uint32_t i;

	for (i = 0; d && i < d->nparams; i++) {
		const struct diff_value *v = &d->param[i];

		if ((v->differs || v->to_differs) && !add_name(g, v->name, i, !v->differs))
			return false;
	}
	return true;
}

/* Where the result itself is the same, by what the first such call has changed. */
static bool name_changes(struct diff_group *g, const struct diff_detail *d)
{
	char text[300];

	if (!d || !d->changes_differ || d->error_differs || d->result.differs || d->result.to_differs)
		return true;
	diff_changes_list(&d->changes, 4, text, sizeof(text));
	g->what = *text ? strdup(text) : NULL;
	return !*text || g->what;
}

static bool is_control(enum finding_kind kind)
{
	return kind != FINDING_PARAMS && kind != FINDING_RESULT;
}

static struct wc_error *take_finding(struct diff_result *r, struct map64 *index, const struct diff_finding *f,
				     const struct diff_detail *d, bool unseen)
{
	struct diff_group *g = group_of(r, index, f);
	bool control = is_control(f->kind);

	if (!g || (f->kind == FINDING_PARAMS && !name_params(g, d)) ||
	    (f->kind == FINDING_RESULT && !g->count && !name_changes(g, d)))
		return &wc_enomem;
	g->count++;
	*(control ? &r->ncontrols : &r->nvalues) += 1;
	if (control ? !r->has_control : !r->has_value) {
		*(control ? &r->has_control : &r->has_value) = true;
		(control ? &r->control : &r->value)->f = *f;
		(control ? &r->control : &r->value)->unseen = unseen;
	}
	return NULL;
}

/* Looks into a finding about values: *@real, it is a difference. */
static struct wc_error *look_into(struct diff_result *r, const struct diff_options *o,
				  const struct diff_finding *f, struct diff_detail *a, struct diff_detail *b,
				  bool *real)
{
	const struct diff_threads *p = &r->compare.pair[f->pair];
	const struct diff_closeness close = { .tolerance = o->tolerance };
	struct wc_error *err;
	bool params, result;

	err = diff_detail_read(r->a, p->a, f->a, a);
	if (!err)
		err = diff_detail_read(r->b, p->b, f->b, b);
	if (!err && !diff_detail_compare(a, b, &close, &params, &result))
		err = &wc_enomem;
	if (!err)
		*real = f->kind == FINDING_PARAMS ? params : result;
	return err;
}

/* Every finding, in order: those about values are looked into, as long as there are not too many. */
static struct wc_error *take_findings(struct diff_result *r, const struct diff_options *o)
{
	struct map64 index = { 0 };
	struct wc_error *err = NULL;
	size_t i, looked = 0;

	if (o->progress)
		progress_phase(o->progress, "looking into the differences");
	for (i = 0; !err && i < r->compare.n; i++) {
		const struct diff_finding *f = &r->compare.v[i];
		struct diff_detail a = { 0 }, b = { 0 };
		bool real = true, values = !is_control(f->kind), look = values && looked < LOOK_MAX;

		r->unread += values && !look;
		if (look) {
			looked++;
			err = look_into(r, o, f, &a, &b, &real);
		}
		if (!err && (real || o->weak))
			err = take_finding(r, &index, f, look ? &b : NULL, !real);
		diff_detail_deinit(&a);
		diff_detail_deinit(&b);
		if (o->progress)
			progress_at(o->progress, (double)i / (double)r->compare.n);
	}
	map64_deinit(&index);
	return err;
}

/* Where threads stood */

static struct wc_error *read_stand(struct diff_result *r, uint32_t pair)
{
	const struct diff_thread *t = r->compare.pair[pair].b;
	struct diff_stand s = { .number = diff_pair_number(pair), .thread = t };
	enum log_outcome outcome;
	struct trace_event e;
	struct wc_error *err;

	err = tracelog_read_again(r->b->log, t->blocked, &e, &outcome);
	if (err || outcome != LOG_EVENT || e.type != EVENT_BLOCKED)
		return err;
	s.syscall = e.blocked.syscall;
	s.stack.end = (enum walk_end)e.blocked.walk_end;
	if (!vec_reserve((void **)&s.stack.v, &s.stack.cap, e.blocked.nframes, sizeof(*s.stack.v)))
		return &wc_enomem;
	if (e.blocked.nframes)
		memcpy(s.stack.v, e.blocked.frame, e.blocked.nframes * sizeof(*s.stack.v));
	s.stack.n = e.blocked.nframes;
	return vec_push(r->stand, r->nstand, r->stand_cap, s) ? NULL : &wc_enomem;
}

static struct wc_error *read_stands(struct diff_result *r)
{
	struct wc_error *err = NULL;
	uint32_t i;

	for (i = 0; !err && i < r->compare.npairs; i++)
		if (r->compare.pair[i].b && r->compare.pair[i].b->blocked && !r->compare.pair[i].left_out)
			err = read_stand(r, i);
	return err;
}

/* The whole */

struct wc_error *diff_compare_sides(struct diff_result *r, const struct diff_options *o)
{
	struct wc_error *err;

	if (o->progress)
		progress_phase(o->progress, "comparing the calls");
	err = diff_compare_run(&r->compare, r->a, r->b, o->thread, o->progress);
	if (!err)
		err = take_findings(r, o);
	r->differs = r->nvalues || r->ncontrols || r->compare.dropped;
	return err;
}

static struct wc_error *read_masks(struct diff_result *r, const struct diff_options *o)
{
	struct wc_error *err = o->masks ? diff_masks_read(&r->masks, o->masks) : NULL;
	size_t i;

	for (i = 0; !err && i < o->nignore; i++)
		err = diff_masks_add(&r->masks, o->ignore[i], "--ignore", false);
	return err;
}

/* A report of its own also says where in the code the runs part. */
static struct wc_error *read_first(struct diff_result *r, struct diff_story *s)
{
	struct wc_error *err = diff_story_read(r, &s->f, s);

	return err ? err : diff_parting_find(&r->compare, &s->f, &s->parting);
}

static struct wc_error *compare_calls(struct diff_result *r, const struct diff_options *o)
{
	struct wc_error *err = diff_compare_sides(r, o);

	if (!err && r->has_value)
		err = read_first(r, &r->value);
	if (!err && r->has_control)
		err = read_first(r, &r->control);
	if (!err)
		err = read_stands(r);
	return err;
}

static struct wc_error *compare_marks(struct diff_result *r, const struct diff_options *o)
{
	struct wc_error *err =
		diff_marks_run(o->good[0], o->bad,
			       &(struct diff_marks_options){ .by_name = o->by_name,
							     .redact = o->redact,
							     .progress = o->progress,
							     .cut_a = r->a->why != NULL,
							     .cut_b = r->b->why != NULL,
							     .no_names = r->a->why_names || r->b->why_names },
			       &r->marks);

	r->differs |= r->marks.differences != 0;
	r->withheld += r->marks.withheld;
	return err;
}

static bool has_marks(const struct diff_side *s)
{
	return s->accesses || s->captures;
}

static struct wc_error *read_withheld(struct diff_result *r, const struct diff_options *o)
{
	struct wc_error *err = diff_withheld_read(o->bad, &r->masks, &r->withheld, &r->all_withheld);
	size_t i;

	for (i = 0; !err && i < o->ngood; i++)
		err = diff_withheld_read(o->good[i], &r->masks, &r->withheld, &r->all_withheld);
	return err;
}

/* Where there is nothing to say about them, silence must not be taken for agreement. */
static struct wc_error *note_withheld(struct diff_result *r)
{
	bool ok = true;

	if (r->all_withheld)
		ok = diff_note(r, "values are withheld from a log: no parameters and results were compared");
	if (ok && r->withheld)
		ok = diff_note(r,
			       "values are withheld from a log, and were not compared: those of %" PRIu64
			       " function%s, watch%s or tag%s",
			       r->withheld, r->withheld == 1 ? "" : "s", r->withheld == 1 ? "" : "es",
			       r->withheld == 1 ? "" : "s");
	return ok ? NULL : &wc_enomem;
}

/* Where the cause of a difference may be among them. */
static bool note_noise(struct diff_result *r)
{
	const struct diff_inputs *a = &r->a->inputs, *b = &r->b->inputs;
	uint64_t clocks = a->clocks + b->clocks, randoms = a->randoms + b->randoms;
	uint64_t system = a->system + b->system;

	return !r->differs || r->inputs.differs || !r->inputs.compared || !(clocks || randoms || system) ||
	       diff_note(r,
			 "inputs that differ in any two runs were not compared: clocks read %" PRIu64
			 " time%s, random numbers %" PRIu64 " time%s, files of /proc and /sys %" PRIu64
			 " time%s",
			 clocks, clocks == 1 ? "" : "s", randoms, randoms == 1 ? "" : "s", system,
			 system == 1 ? "" : "s");
}

static bool note_uncompared(struct diff_result *r)
{
	const struct diff_inputs *a = &r->a->inputs, *b = &r->b->inputs;

	if (!diff_side_is_steps(r->a) || !diff_side_is_steps(r->b))
		return true;
	if (a->withheld || b->withheld)
		return diff_note(r, "inputs are withheld, and were not compared");
	if (!r->inputs.compared)
		return diff_note(r,
				 "inputs were not compared: a log does not have what system calls delivered");
	if (a->recorded == INPUTS_RANGE || b->recorded == INPUTS_RANGE)
		if (!diff_note(r, "inputs from before the range are not in the logs: they may differ"))
			return false;
	if (r->inputs.unseen &&
	    !diff_note(r,
		       "%" PRIu64
		       " byte%s of input %s read but not recorded, and not compared (step --bytes N records "
		       "more)",
		       r->inputs.unseen, r->inputs.unseen == 1 ? "" : "s",
		       r->inputs.unseen == 1 ? "was" : "were"))
		return false;
	return true;
}

/* Before the calls: what came in is the cause of what they did. */
static struct wc_error *compare_inputs(struct diff_result *r)
{
	struct wc_error *err = diff_inputs_compare(&r->a->inputs, &r->b->inputs, &r->input_noise, &r->inputs);

	return err || note_uncompared(r) ? err : &wc_enomem;
}

static struct wc_error *compare_chosen(struct diff_result *r, const struct diff_options *o)
{
	struct wc_error *err = o->ngood > 1 ? diff_learn(r, o) : NULL;

	if (!err)
		err = diff_load_sides(o, o->good[0], o->bad, &r->masks, &r->a, &r->b);
	if (!err)
		err = diff_check_sides(r, o);
	if (!err && !r->incomparable)
		err = compare_inputs(r);
	if (!err && !r->incomparable)
		err = compare_calls(r, o);
	r->differs |= r->inputs.differs;
	if (!err && !note_noise(r))
		err = &wc_enomem;
	if (!err && !r->incomparable && has_marks(r->a) && has_marks(r->b))
		err = compare_marks(r, o);
	if (!err)
		err = note_withheld(r);
	if (!err)
		err = diff_doubt_sides(r);
	if (!err && o->save_masks)
		err = diff_masks_write(&r->masks, o->save_masks);
	return err;
}

static struct wc_error *diff_work(struct diff_result *r, const struct diff_options *asked)
{
	scoped(freep) const char **good = calloc(asked->ngood, sizeof(*good));
	struct diff_options chosen = *asked;
	struct wc_error *err = good ? read_masks(r, asked) : &wc_enomem;

	if (!err)
		err = read_withheld(r, asked);
	if (!err)
		err = diff_choose_reference(r, asked, good);
	chosen.good = good;
	return err ? err : compare_chosen(r, &chosen);
}

struct wc_error *diff_run(const struct diff_options *o, struct diff_result **ret)
{
	scoped(diff_result_freep) struct diff_result *r = calloc(1, sizeof(*r));
	struct wc_error *err;

	if (!r)
		return &wc_enomem;
	err = diff_work(r, o);
	if (err)
		return err;
	*ret = take_ptr(r);
	return NULL;
}

/* Forgets what was found, but not masks and notes. */
void diff_result_clear(struct diff_result *r)
{
	size_t i;

	diff_story_deinit(&r->value);
	diff_story_deinit(&r->control);
	for (i = 0; i < r->ngroups; i++)
		free(r->group[i].what);
	for (i = 0; i < r->nstand; i++)
		diff_stack_deinit(&r->stand[i].stack);
	r->ngroups = r->nstand = 0;
	r->has_value = r->has_control = r->differs = false;
	r->nvalues = r->ncontrols = r->unread = 0;
	diff_compare_deinit(&r->compare);
	diff_input_result_deinit(&r->inputs);
	diff_side_free(r->a);
	diff_side_free(r->b);
	r->a = r->b = NULL;
}

void diff_result_free(struct diff_result *r)
{
	size_t i;

	if (!r)
		return;
	diff_result_clear(r);
	diff_marks_deinit(&r->marks);
	diff_masks_deinit(&r->masks);
	map64_deinit(&r->input_noise);
	for (i = 0; i < r->nnotes; i++)
		free(r->note[i]);
	for (i = 0; i < r->ndoubts; i++)
		free(r->doubt[i]);
	free(r->note);
	free(r->doubt);
	free(r->group);
	free(r->stand);
	free(r);
}

void diff_result_freep(struct diff_result **r)
{
	diff_result_free(*r);
}
