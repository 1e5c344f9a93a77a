#include "watchctl/view/callpage/callpage_calls.h"

#include <stdlib.h>

#include "watchctl/base/vec.h"

const char *const callpage_column_name[CALLPAGE_COLUMNS] = { "time",  "duration", "function", "thread",
							     "depth", "state",	  "number" };

/* NULL: no memory. */
static struct callpage_open *open_of(struct callpage_calls *c, uint32_t thread)
{
	while (c->nthreads <= thread)
		if (!vec_push(c->open, c->nthreads, c->open_cap, (struct callpage_open){ 0 }))
			return NULL;
	return &c->open[thread];
}

static bool keep(struct callpage_calls *c, const struct callpage_call *call, const uint32_t *args)
{
	struct callpage_call fresh = *call;
	size_t i;

	/* The script searches by time: a clock that goes back, in a log that somebody has made, must not. */
	if (c->n && fresh.begin_ns < c->v[c->n - 1].begin_ns)
		fresh.begin_ns = c->v[c->n - 1].begin_ns;
	fresh.args = (uint32_t)c->nvalues;
	for (i = 0; i < call->nargs; i++)
		if (!vec_push(c->value, c->nvalues, c->value_cap, args[i]))
			return false;
	return vec_push(c->v, c->n, c->cap, fresh);
}

/* What is at its depth or deeper has ended without an end of its own: it stays open in no other way. */
static void close_below(struct callpage_calls *c, struct callpage_open *o, uint32_t depth, uint64_t now)
{
	while (o->n > depth) {
		uint32_t i = o->v[--o->n];

		if (i != CALLPAGE_NOT_KEPT && !c->v[i].end_ns)
			c->v[i].end_ns = now;
	}
}

bool callpage_calls_begin(struct callpage_calls *c, const struct callpage_call *call, const uint32_t *args)
{
	struct callpage_open *o = open_of(c, call->thread);
	uint32_t at = CALLPAGE_NOT_KEPT;

	if (!o)
		return false;
	close_below(c, o, call->depth, call->begin_ns);
	if (c->n >= c->max) {
		c->left_out++;
	} else {
		if (!keep(c, call, args))
			return false;
		at = (uint32_t)c->n - 1;
	}
	while (o->n < call->depth)
		if (!vec_push(o->v, o->n, o->cap, CALLPAGE_NOT_KEPT))
			return false;
	return vec_push(o->v, o->n, o->cap, at);
}

struct callpage_call *callpage_calls_end(struct callpage_calls *c, uint32_t thread, uint32_t depth,
					 uint64_t number)
{
	struct callpage_open *o = thread < c->nthreads ? &c->open[thread] : NULL;
	uint32_t at = o && depth < o->n ? o->v[depth] : CALLPAGE_NOT_KEPT;

	if (at == CALLPAGE_NOT_KEPT)
		return NULL;
	return c->v[at].number == number ? &c->v[at] : NULL;
}

static uint64_t cell(const struct callpage_calls *c, size_t i, int column, uint64_t end_ns)
{
	static const struct callpage_call none;
	const struct callpage_call *call = &c->v[i], *before = i ? call - 1 : &none;
	uint64_t end = call->end_ns ? call->end_ns : end_ns;

	switch (column) {
	case 0:
		return call->begin_ns - before->begin_ns;
	case 1:
		return end > call->begin_ns ? end - call->begin_ns : 0;
	case 2:
		return call->function;
	case 3:
		return call->thread;
	case 4:
		return call->depth;
	case 5:
		return (uint64_t)call->how << 4 | (call->flags & 15);
	default:
		return call->number - before->number - 1;
	}
}

static bool encode_values(const struct callpage_calls *c, struct page_bytes *values)
{
	bool ok = true;
	size_t i, k;

	for (i = 0; ok && i < c->n; i++) {
		const struct callpage_call *call = &c->v[i];

		ok = page_bytes_number(values, call->nargs);
		for (k = 0; ok && k < call->nargs; k++)
			ok = page_bytes_number(values, c->value[call->args + k]);
		ok = ok && page_bytes_number(values, call->result);
	}
	return ok;
}

bool callpage_calls_encode(const struct callpage_calls *c, uint64_t end_ns, struct page_bytes *columns,
			   size_t start[CALLPAGE_COLUMNS], struct page_bytes *values)
{
	bool ok = true;
	int column;
	size_t i;

	for (column = 0; ok && column < CALLPAGE_COLUMNS; column++) {
		start[column] = columns->n;
		for (i = 0; ok && i < c->n; i++)
			ok = page_bytes_number(columns, cell(c, i, column, end_ns));
	}
	return ok && encode_values(c, values);
}

void callpage_calls_deinit(struct callpage_calls *c)
{
	size_t i;

	for (i = 0; i < c->nthreads; i++)
		free(c->open[i].v);
	free(c->open);
	free(c->v);
	free(c->value);
	*c = (struct callpage_calls){ 0 };
}
