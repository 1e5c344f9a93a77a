#include "watchctl/view/table/call_times.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/base/vec.h"
#include "watchctl/view/table/duration_spread.h"

#define SECOND_NS 1000000000u
#define SWEEP_LEAST 64u /* threads, from which on those without open calls are looked for */

struct open_call {
	uint64_t call, begun_ns, inside_ns; /* inside: of traced calls that it made */
	struct call_times_row *row;
	bool outermost; /* of its function, in this thread */
};

struct call_times_thread {
	uint64_t tid;
	struct open_call *open; /* outermost first */
	size_t n, cap;
	struct map64 nested; /* row -> how many open calls it has here */
};

/* Threads */

static void free_thread(void *value)
{
	struct call_times_thread *th = value;

	if (!th)
		return;
	free(th->open);
	map64_deinit(&th->nested);
	free(th);
}

/* Threads end without a word: those that have nothing open are made anew when they come back. False: no memory. */
static bool sweep(struct call_times *t)
{
	struct map64 kept = { 0 };

	for (size_t i = 0; i < t->by_tid.cap; i++) {
		const struct map64_slot *s = &t->by_tid.slot[i];
		const struct call_times_thread *th = s->used ? s->value : NULL;

		if (th && th->n && !map64_put(&kept, s->key, s->value)) {
			map64_deinit(&kept);
			return false;
		}
	}
	for (size_t i = 0; i < t->by_tid.cap; i++) {
		struct call_times_thread *th = t->by_tid.slot[i].used ? t->by_tid.slot[i].value : NULL;

		if (th && !th->n)
			free_thread(th);
	}
	map64_deinit(&t->by_tid);
	t->by_tid = kept;
	t->nswept = kept.n;
	t->last = NULL;
	return true;
}

static struct call_times_thread *find_thread(struct call_times *t, int32_t tid)
{
	struct call_times_thread *th = t->last;

	if (!th || th->tid != (uint64_t)tid)
		th = map64_get(&t->by_tid, (uint64_t)tid);
	if (th)
		t->last = th;
	return th;
}

static struct call_times_thread *thread_of(struct call_times *t, int32_t tid)
{
	struct call_times_thread *th = find_thread(t, tid);

	if (th)
		return th;
	if (t->by_tid.n >= SWEEP_LEAST && t->by_tid.n >= 2 * t->nswept && !sweep(t))
		return NULL;
	th = calloc(1, sizeof(*th));
	if (!th)
		return NULL;
	th->tid = (uint64_t)tid;
	if (!map64_put(&t->by_tid, th->tid, th)) {
		free(th);
		return NULL;
	}
	return t->last = th;
}

/* How many calls of @row are open in @th. */
static uintptr_t nested(const struct call_times_thread *th, const struct call_times_row *row)
{
	return (uintptr_t)map64_get(&th->nested, (uintptr_t)row);
}

static bool set_nested(struct call_times_thread *th, const struct call_times_row *row, uintptr_t n)
{
	return map64_put(&th->nested, (uintptr_t)row,
			 (void *)n); /* NOLINT(performance-no-int-to-ptr): a count */
}

/* Functions */

static void free_row(struct call_times_row *r)
{
	if (!r)
		return;
	free(r->name);
	free(r->module);
	free(r->spread);
	free(r);
}

static char *name_of(const struct function_event *f)
{
	char *name = NULL;

	if (f->name)
		return strdup(f->name);
	return asprintf(&name, "%s+0x%" PRIx64, f->module ? f->module : "?", f->address) < 0 ? NULL : name;
}

static struct wc_error *add_function(struct call_times *t, const struct function_event *f)
{
	struct call_times_row *r = calloc(1, sizeof(*r));

	if (r) {
		r->id = f->id;
		r->name = name_of(f);
	}
	if (r && f->module)
		r->module = strdup(f->module);
	if (!r || !r->name || (f->module && !r->module) ||
	    !vec_push(t->function, t->nfunctions, t->functions_cap, r)) {
		free_row(r);
		return &wc_enomem;
	}
	if (!map64_put(&t->by_id, f->id, r)) {
		t->nfunctions--;
		free_row(r);
		return &wc_enomem;
	}
	return NULL;
}

/* Calls */

static void count_call(struct call_times *t, struct call_times_row *r, uint64_t time_ns)
{
	t->calls++;
	r->calls++;
	r->open++;
	site_rate_add(&r->rate, time_ns);
	if ((int64_t)(time_ns - r->second_ns) >= (int64_t)SECOND_NS) {
		r->second_ns = time_ns;
		r->in_second = 0;
	}
	r->in_second++;
}

static struct wc_error *enter(struct call_times *t, const struct call_event *c, uint64_t time_ns)
{
	struct call_times_row *r = map64_get(&t->by_id, c->function);
	struct call_times_thread *th = r ? thread_of(t, c->tid) : NULL;
	struct open_call open = { .call = c->call, .begun_ns = time_ns, .row = r };
	uintptr_t before;

	if (!r)
		return NULL;
	count_call(t, r, time_ns);
	if (!th)
		return &wc_enomem;
	before = nested(th, r);
	open.outermost = !before;
	return vec_push(th->open, th->n, th->cap, open) && set_nested(th, r, before + 1) ? NULL : &wc_enomem;
}

static struct wc_error *add_time(const struct open_call *c, uint64_t ns)
{
	struct call_times_row *r = c->row;

	r->timed++;
	r->sum_ns += ns;
	if (c->outermost)
		r->total_ns += ns;
	r->self_ns += ns > c->inside_ns ? ns - c->inside_ns : 0;
	if (ns > r->longest_ns)
		r->longest_ns = ns;
	return duration_spread_add(&r->spread, ns) ? NULL : &wc_enomem;
}

/* The innermost calls end first, but one that made a tail call may end before the one that it jumped to. */
static struct wc_error *leave(struct call_times *t, const struct return_event *e, uint64_t time_ns)
{
	struct call_times_thread *th = find_thread(t, e->tid);
	struct open_call c;
	uint64_t ns;
	size_t i = th ? th->n : 0;

	if (e->how == RETURN_NEVER)
		return NULL; /* it is open still */
	while (i && th->open[i - 1].call != e->call)
		i--;
	if (!i)
		return NULL;
	c = th->open[--i];
	memmove(th->open + i, th->open + i + 1, (--th->n - i) * sizeof(c));
	if (!set_nested(th, c.row, nested(th, c.row) - 1))
		return &wc_enomem;
	ns = time_ns > c.begun_ns ? time_ns - c.begun_ns : 0;
	if (i)
		th->open[i - 1].inside_ns += ns;
	c.row->open--;
	return e->how == RETURN_RETURNED ? add_time(&c, ns) : NULL;
}

/* Switched off */

static const char off_words[] = " was called so often that it was switched off: ";

/* Whether @name, of @len bytes, may mean @r. */
static bool may_be_off(const struct call_times *t, const struct call_times_row *r, const char *name,
		       size_t len)
{
	return !r->not_recorded && r->calls >= t->max_rate && strlen(r->name) == len &&
	       !memcmp(r->name, name, len);
}

/* The tracer reports it at the end, in the order of the functions: of those of one name, the first that may be meant. */
static void read_note(struct call_times *t, const char *text)
{
	static const char unnamed[] = "the function at ";
	const char *end = strstr(text, off_words);
	struct call_times_row *found = NULL;

	if (!end)
		return;
	if (!strncmp(text, unnamed, sizeof(unnamed) - 1))
		text += sizeof(unnamed) - 1;
	for (size_t i = 0; i < t->nfunctions; i++) {
		struct call_times_row *r = t->function[i];

		if (may_be_off(t, r, text, (size_t)(end - text)) && (!found || r->id < found->id))
			found = r;
	}
	if (!found)
		return;
	found->is_off = true;
	found->not_recorded = strtoull(end + sizeof(off_words) - 1, NULL, 10);
}

bool call_times_is_off(const struct call_times *t, const struct call_times_row *r, size_t noff)
{
	return r->is_off || (noff && t->max_rate && r->in_second >= t->max_rate);
}

struct wc_error *call_times_put(struct call_times *t, const struct trace_event *e)
{
	switch (e->type) {
	case EVENT_PROCESS:
		t->pid = e->process.pid;
		snprintf(t->comm, sizeof(t->comm), "%s", e->process.comm ? e->process.comm : "");
		return NULL;
	case EVENT_FUNCTION:
		return add_function(t, &e->function);
	case EVENT_CALL:
		return enter(t, &e->call, e->time_ns);
	case EVENT_RETURN:
		return leave(t, &e->ret, e->time_ns);
	case EVENT_NOTE:
		read_note(t, e->note.text);
		return NULL;
	default:
		return NULL;
	}
}

/* Sorting */

uint64_t call_times_mean(const struct call_times_row *r)
{
	return r->timed ? r->sum_ns / r->timed : 0;
}

uint64_t call_times_quantile(const struct call_times_row *r, unsigned int permille)
{
	return duration_spread_quantile(r->spread, r->timed, r->longest_ns, permille);
}

struct sorting {
	enum call_times_order by;
	uint64_t since_ns, now_ns;
};

static double key_of(const struct call_times_row *r, const struct sorting *s)
{
	switch (s->by) {
	case CALL_TIMES_CALLS:
		return (double)r->calls;
	case CALL_TIMES_RATE:
		return site_rate_now(&r->rate, s->since_ns, s->now_ns);
	case CALL_TIMES_TOTAL:
		return (double)r->total_ns;
	case CALL_TIMES_SELF:
		return (double)r->self_ns;
	case CALL_TIMES_MEAN:
		return (double)call_times_mean(r);
	case CALL_TIMES_P99:
		return (double)call_times_quantile(r, 990);
	case CALL_TIMES_LONGEST:
		return (double)r->longest_ns;
	default:
		return 0;
	}
}

static int compare(const void *a, const void *b, void *ctx)
{
	const struct call_times_row *x = *(const struct call_times_row *const *)a;
	const struct call_times_row *y = *(const struct call_times_row *const *)b;
	const double kx = key_of(x, ctx), ky = key_of(y, ctx);

	return kx < ky ? 1 : kx > ky ? -1 : strcmp(x->name, y->name);
}

void call_times_sort(struct call_times *t, enum call_times_order by, uint64_t since_ns, uint64_t now_ns)
{
	struct sorting s = { by, since_ns, now_ns };

	if (t->nfunctions)
		qsort_r(t->function, t->nfunctions, sizeof(struct call_times_row *), compare, &s);
}

void call_times_deinit(struct call_times *t)
{
	for (size_t i = 0; i < t->nfunctions; i++)
		free_row(t->function[i]);
	free(t->function);
	map64_deinit(&t->by_id);
	map64_deinit_values(&t->by_tid, free_thread);
	*t = (struct call_times){ 0 };
}
