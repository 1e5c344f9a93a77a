#include "watchctl/view/table/step_totals.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"
#include "watchctl/view/table/duration_spread.h"

static struct step_function_row *row_of(struct step_totals *t, const struct view_function *f)
{
	struct step_function_row *row = map64_get(&t->by_function, (uintptr_t)f);

	if (row)
		return row;
	row = calloc(1, sizeof(*row));
	if (!row || !vec_push(t->function, t->nfunctions, t->functions_cap, row)) {
		free(row);
		t->incomplete = true;
		return NULL;
	}
	row->function = f;
	if (!map64_put(&t->by_function, (uintptr_t)f, row))
		t->incomplete = true;
	return row;
}

static void set_comm(char to[COMM_LEN], const char *comm)
{
	size_t n = comm ? strnlen(comm, COMM_LEN - 1) : 0;

	if (n)
		memcpy(to, comm, n);
	to[n] = '\0';
}

static struct step_thread_row *thread_of(struct step_totals *t, int32_t pid, int32_t tid)
{
	uint64_t key = (uint64_t)(uint32_t)pid << 32 | (uint32_t)tid;
	struct step_thread_row *row = map64_get(&t->by_thread, key);

	if (row)
		return row;
	row = calloc(1, sizeof(*row));
	if (!row || !vec_push(t->thread, t->nthreads, t->threads_cap, row)) {
		free(row);
		t->incomplete = true;
		return NULL;
	}
	row->pid = pid;
	row->tid = tid;
	if (!map64_put(&t->by_thread, key, row))
		t->incomplete = true;
	return row;
}

static void on_call(void *ctx, const struct view_call *c)
{
	struct step_totals *t = ctx;
	struct step_function_row *row = row_of(t, c->function);
	struct step_thread_row *thread = thread_of(t, c->raw->pid, c->raw->tid);

	t->reported = true;
	t->calls++;
	if (row)
		row->calls++;
	if (thread) {
		thread->calls++;
		set_comm(thread->comm, c->comm);
	}
	if (t->noccurrences && t->occurrence[t->noccurrences - 1].what == RANGE_BEGIN)
		t->occurrence[t->noccurrences - 1].calls++;
}

uint64_t step_row_quantile(const struct step_function_row *r, unsigned int permille)
{
	return duration_spread_quantile(r->spread, r->timed, r->max_ns, permille);
}

static void on_return(void *ctx, const struct view_return *r)
{
	struct step_totals *t = ctx;
	struct step_function_row *row = row_of(t, r->function);

	t->reported = true;
	t->ended += r->raw->how != RETURN_NEVER;
	if (!row)
		return;
	row->ended[r->raw->how]++;
	row->errors += r->raw->has_error;
	if (!r->begun || r->raw->how != RETURN_RETURNED)
		return;
	row->timed++;
	row->total_ns += r->duration_ns;
	row->self_ns += r->self_ns;
	if (!duration_spread_add(&row->spread, r->duration_ns))
		t->incomplete = true;
	if (r->duration_ns > row->max_ns)
		row->max_ns = r->duration_ns;
}

static void begin_occurrence(struct step_totals *t, const struct range_event *r, const char *comm,
			     struct view_time time)
{
	struct step_occurrence o = {
		.number = r->occurrence, .pid = r->pid, .tid = r->tid, .begin = time, .what = RANGE_BEGIN
	};

	set_comm(o.comm, comm);
	if (!vec_push(t->occurrence, t->noccurrences, t->occurrences_cap, o))
		t->incomplete = true;
}

static void on_range(void *ctx, const struct view_event *v)
{
	const struct range_event *r = &v->raw->range;
	struct step_totals *t = ctx;
	size_t i;

	t->reported = true;
	if (r->what == RANGE_BEGIN) {
		begin_occurrence(t, r, v->comm, v->time);
		return;
	}
	for (i = t->noccurrences; i-- && t->occurrence[i].what == RANGE_BEGIN;) {
		if (t->occurrence[i].number != r->occurrence)
			continue;
		t->occurrence[i].what = r->what;
		t->occurrence[i].end = v->time;
		return;
	}
}

static void on_step(void *ctx, const struct view_step *s)
{
	struct step_totals *t = ctx;

	t->steps++;
}

static void on_signal(void *ctx, const struct view_signal *s)
{
	struct step_totals *t = ctx;
	int number = s->raw->signal;

	t->signals[number > 0 && number < 65 ? number : 0]++;
}

static void replace(struct step_totals *t, char **to, const char *text)
{
	free(*to);
	*to = text && *text ? strdup(text) : NULL;
	if (text && *text && !*to)
		t->incomplete = true;
}

static void on_recording(void *ctx, const struct view_event *v)
{
	const struct recording_event *r = &v->raw->recording;
	struct step_totals *t = ctx;

	t->reported = true;
	replace(t, &t->stepper, r->stepper);
	replace(t, &t->planner, r->planner);
	replace(t, &t->range, r->range);
	replace(t, &t->filters, r->filters);
	t->instructions = r->instructions;
}

struct view step_totals_view(struct step_totals *t)
{
	static const struct view_subscription events[] = {
		{ EVENT_RECORDING, on_recording },
		{ EVENT_RANGE, on_range },
		{ 0 },
	};
	static const struct view_ops ops = {
		.events = events,
		.call = on_call,
		.ret = on_return,
		.step = on_step,
		.signal = on_signal,
	};

	return (struct view){ .ops = &ops, .ctx = t };
}

static int by_calls(const void *a, const void *b)
{
	const struct step_function_row *x = *(const struct step_function_row *const *)a;
	const struct step_function_row *y = *(const struct step_function_row *const *)b;

	if (x->calls != y->calls)
		return x->calls < y->calls ? 1 : -1;
	return strcmp(x->function->text, y->function->text);
}

void step_totals_sort(struct step_totals *t)
{
	if (t->nfunctions)
		qsort(t->function, t->nfunctions, sizeof(struct step_function_row *), by_calls);
}

void step_totals_deinit(struct step_totals *t)
{
	size_t i;

	for (i = 0; i < t->nfunctions; i++) {
		free(t->function[i]->spread);
		free(t->function[i]);
	}
	free(t->function);
	for (i = 0; i < t->nthreads; i++)
		free(t->thread[i]);
	free(t->thread);
	free(t->occurrence);
	map64_deinit(&t->by_function);
	map64_deinit(&t->by_thread);
	free(t->stepper);
	free(t->planner);
	free(t->range);
	free(t->filters);
	*t = (struct step_totals){ 0 };
}
