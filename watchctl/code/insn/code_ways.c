#include "watchctl/code/insn/code_ways.h"

#include <stdlib.h>

#include "watchctl/base/vec.h"
#include "watchctl/code/insn/insn.h"

void code_ways_deinit(struct code_ways *w)
{
	free(w->v);
	map64_deinit(&w->index);
	*w = (struct code_ways){ 0 };
}

static bool scan(const struct code_view *code, uint64_t at, struct insn_brief *ret)
{
	const uint8_t *bytes;
	size_t n = code->bytes(code->ctx, at, &bytes);

	return n && insn_scan(bytes, n < INSN_MAX ? n : INSN_MAX, at, ret);
}

/* The index of the way at @at, which is added if it is new. SIZE_MAX: none, as w->is_cut then says, or no memory. */
static size_t take(struct code_ways *w, const struct code_view *code, uint64_t at, bool *ok)
{
	uintptr_t known = (uintptr_t)map64_get(&w->index, at);
	struct code_way new = { .at = at };

	if (known)
		return known - 1;
	if (w->n == CODE_WAYS_INSNS_MAX || !scan(code, at, &new.insn)) {
		w->is_cut = true;
		return SIZE_MAX;
	}
	*ok = vec_push(w->v, w->n, w->cap, new) && map64_put(&w->index, at, (void *)(uintptr_t)w->n);
	return *ok ? w->n - 1 : SIZE_MAX;
}

static bool add_next(struct code_ways *w, const struct code_view *code, size_t i, uint64_t at)
{
	bool ok = true;
	size_t next = take(w, code, at, &ok);

	if (next != SIZE_MAX)
		w->v[i].next[w->v[i].nnext++] = next;
	return ok;
}

static bool add_jump(struct code_ways *w, const struct code_view *code, const struct code_inside *inside,
		     size_t i)
{
	const struct insn_brief *insn = &w->v[i].insn;

	if (!insn->has_target)
		w->v[i].is_unknown = true;
	else if (!inside->has(inside->ctx, insn->target))
		w->v[i].leaves = true;
	else
		return add_next(w, code, i, insn->target);
	return true;
}

static bool go_on(struct code_ways *w, const struct code_view *code, const struct code_inside *inside,
		  size_t i)
{
	const struct insn_brief insn = w->v[i].insn;
	const uint64_t behind = w->v[i].at + insn.len;

	switch ((enum insn_flow)insn.flow) {
	case INSN_NEXT:
	case INSN_BEGIN:
		return insn.is_int3 || add_next(w, code, i, behind);
	case INSN_CALL:
		return !w->passes_calls || add_next(w, code, i, behind);
	case INSN_JUMP:
		return add_jump(w, code, inside, i);
	case INSN_COND:
		return add_next(w, code, i, behind) && add_jump(w, code, inside, i);
	case INSN_RET:
	case INSN_STOP:
		break;
	}
	return true;
}

bool code_ways_find(struct code_ways *w, const struct code_view *code, const struct code_inside *inside,
		    uint64_t from, bool pass_calls)
{
	bool ok = true;
	size_t i;

	*w = (struct code_ways){ .passes_calls = pass_calls };
	take(w, code, from, &ok);
	for (i = 0; ok && i < w->n; i++)
		ok = go_on(w, code, inside, i);
	return ok;
}

static uint8_t reached_behind(const struct code_ways *w, const struct code_way *v)
{
	uint8_t bits = 0;
	unsigned int k;

	for (k = 0; k < v->nnext; k++)
		bits |= w->v[v->next[k]].reaches;
	return bits;
}

/* Backwards, until nothing is new. */
static void spread(struct code_ways *w)
{
	bool new = true;
	size_t i;

	while (new) {
		new = false;
		for (i = w->n; i-- > 0;) {
			struct code_way *v = &w->v[i];
			uint8_t bits = v->is_event ? v->is_event : v->reaches | reached_behind(w, v);

			new |= bits != v->reaches;
			v->reaches = bits;
		}
	}
}

void code_ways_reach(struct code_ways *w)
{
	uint8_t missing;
	size_t i;

	spread(w);
	missing = w->n ? (uint8_t)((CODE_EVENT_A | CODE_EVENT_B) & ~w->v[0].reaches) : 0;
	for (i = 0; missing && i < w->n; i++)
		if (w->v[i].is_unknown)
			w->v[i].reaches |= missing;
	if (missing)
		spread(w);
}

/* One run goes the one way and the other run the other way; or, of one event, there is a way that does not lead to it. */
static bool parts(uint8_t one, uint8_t other, uint8_t events)
{
	if (one == other)
		return false;
	if (events != (CODE_EVENT_A | CODE_EVENT_B))
		return true;
	return (one & CODE_EVENT_A && other & CODE_EVENT_B) || (one & CODE_EVENT_B && other & CODE_EVENT_A);
}

bool code_ways_decides(const struct code_ways *w, size_t i, uint8_t events)
{
	const struct code_way *v = &w->v[i];
	uint8_t one, other;

	if (v->is_event)
		return false;
	if (v->is_unknown)
		return (v->reaches & events) == events;
	if (v->insn.flow != INSN_COND || !v->nnext)
		return false;
	one = w->v[v->next[0]].reaches & events;
	other = v->nnext == 2 ? w->v[v->next[1]].reaches & events : 0;
	return parts(one, other, events);
}
