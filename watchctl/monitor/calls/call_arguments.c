#include "watchctl/monitor/calls/call_arguments.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/step/model/planner_registers.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/trace/call_values.h"

#define HEAD 3u /* bytes in front of a value, see struct call_values */

struct wc_error *call_arguments_open(pid_t pid, const struct planner_ops *ops,
				     const struct planner_options *o, struct call_arguments **ret)
{
	struct call_arguments *a = calloc(1, sizeof(*a));
	struct planner_options options = *o;
	struct wc_error *err;
	char exe[64];

	if (!a)
		return &wc_enomem;
	a->pid = pid;
	a->types.ops = ops ? ops : &planner_registers;
	options.memory = proc_memory(&a->pid);
	snprintf(exe, sizeof(exe), "/proc/%d/exe", pid);
	err = a->types.ops->open(exe, &options, &a->types.planner);
	if (err) {
		free(a);
		return err;
	}
	*ret = a;
	return NULL;
}

void call_arguments_free(struct call_arguments *a)
{
	if (!a)
		return;
	told_types_deinit(&a->types);
	map64_deinit_values(&a->both, free);
	a->types.ops->close(a->types.planner);
	free(a);
}

/* Plans */

/* Only modules that have traced functions: to look at the others would cost time, and tell nothing. */
static struct wc_error *tell_modules(struct call_arguments *a, const struct call_functions *f)
{
	struct module_list list = { .v = calloc(f->nfiles ? f->nfiles : 1, sizeof(*list.v)) };
	struct wc_error *err;

	if (!list.v)
		return &wc_enomem;
	for (; list.n < f->nfiles; list.n++)
		list.v[list.n] = f->file[list.n].m;
	err = a->types.ops->set_modules(a->types.planner, &list);
	a->nfiles = f->nfiles;
	free(list.v);
	return err;
}

/* Where it is not known beforehand which function will have returned: all that most results are. */
static const struct function_plan any_plan = {
	.function = { .return_type = NO_TYPE },
	.sets_result = true,
	.plan = { .leave = { .n = 5,
			     .v = { { .op = FETCH_GPR, .reg = WREG_RAX, .len = 8 },
				    { .op = FETCH_GPR, .reg = WREG_RDX, .len = 8 },
				    { .op = FETCH_XMM, .reg = 0, .len = 16 },
				    { .op = FETCH_XMM, .reg = 1, .len = 16 },
				    { .op = FETCH_ERRNO, .len = 4 } } } },
};

struct wc_error *call_arguments_plan(struct call_arguments *a, struct call_functions *f, uint32_t i)
{
	struct call_function *function = &f->function[i];
	const uint64_t address =
		function->address ? function->address : f->file[function->file].m.bias + function->addr;
	struct wc_error *err = a->nfiles < f->nfiles && !a->told_modules ? tell_modules(a, f) : NULL;

	if (!err && function->is_hidden) {
		function->plan = &any_plan;
		return NULL;
	}
	return err ? err : a->types.ops->plan(a->types.planner, address, function->is_over, &function->plan);
}

static bool is_followed(const struct fetch *f)
{
	return f->op == FETCH_MEMORY || f->op == FETCH_STRING;
}

/* The fetch of @have that gives what @want's fetch @i does; have->n: none. @same: of each earlier one. */
static uint32_t find_same(const struct fetch_list *want, uint32_t i, const struct fetch_list *have,
			  const uint32_t same[PLAN_FETCHES])
{
	const struct fetch *w = &want->v[i];
	const bool follows = is_followed(w);
	uint32_t k;

	for (k = 0; k < have->n; k++) {
		const struct fetch *h = &have->v[k];

		if (h->op == w->op && h->offset == w->offset &&
		    (follows ? h->len == w->len && same[w->base] == h->base
			     : h->reg == w->reg && h->len >= w->len))
			break;
	}
	return k;
}

/* The result of @plan's function, behind all that most results are. NULL: no memory. */
static const struct function_plan *plan_both(struct call_arguments *a, const struct function_plan *plan)
{
	const struct fetch_list *own = &plan->plan.leave;
	struct function_plan *both = map64_get(&a->both, (uintptr_t)plan);
	struct fetch_list *to;
	uint32_t at[PLAN_FETCHES];

	if (both || own->n + any_plan.plan.leave.n > PLAN_FETCHES)
		return both ? both : plan;
	both = malloc(sizeof(*both));
	if (!both)
		return NULL;
	*both = any_plan;
	to = &both->plan.leave;
	for (uint32_t i = 0; i < own->n; i++) {
		at[i] = find_same(own, i, to, at);
		if (at[i] < to->n)
			continue;
		to->v[to->n] = own->v[i];
		if (is_followed(&own->v[i]))
			to->v[to->n].base = (uint8_t)at[own->v[i].base];
		to->n++;
	}
	if (map64_put(&a->both, (uintptr_t)plan, both))
		return both;
	free(both);
	return NULL;
}

struct wc_error *call_arguments_at(struct call_arguments *a, const struct call_functions *f,
				   struct call_site *s)
{
	const struct call_point *p = s->callee ? call_choice_point(f->choice, s->callee) : NULL;
	const struct call_function *callee =
		p && p->function != CALL_POINT_NEW ? &f->function[p->function] : NULL;

	s->values = s->place;
	s->plan = f->function[s->function].plan;
	if (s->place == CALL_JUMP && s->lands) {
		s->values = CALL_LANDING;
		s->plan = &any_plan;
	} else if (s->place == CALL_LANDING && callee && callee->plan) {
		s->plan = callee->is_over ? callee->plan : plan_both(a, callee->plan);
	}
	return s->plan || !f->function[s->function].plan ? NULL : &wc_enomem;
}

static bool has_entry(enum call_place place)
{
	return call_place_is_entry(place);
}

static bool has_leave(enum call_place place)
{
	return place == CALL_WHOLE || place == CALL_RETURN || place == CALL_LANDING;
}

static const uint8_t ops[] = {
	[FETCH_GPR] = CALL_FETCH_GPR,	    [FETCH_XMM] = CALL_FETCH_XMM,
	[FETCH_YMM] = CALL_FETCH_YMM,	    [FETCH_X87] = CALL_FETCH_X87,
	[FETCH_STACK] = CALL_FETCH_STACK,   [FETCH_MEMORY] = CALL_FETCH_MEMORY,
	[FETCH_STRING] = CALL_FETCH_STRING, [FETCH_ERRNO] = CALL_FETCH_ERRNO,
};

/* Appends them; returns how many bytes they give at most: no list is taken that gives more than PLAN_BYTES. */
static uint32_t add_fetches(const struct fetch_list *l, struct call_plan *room)
{
	const uint16_t first = room->n;
	uint32_t bytes = 0;

	for (uint32_t i = 0; i < l->n; i++) {
		const struct fetch *f = &l->v[i];

		room->fetch[room->n++] = (struct call_fetch){ .op = ops[f->op],
							      .reg = f->reg,
							      .base = (uint8_t)(first + f->base),
							      .len = f->len,
							      .offset = f->offset };
		bytes += HEAD + f->len;
	}
	return bytes < PLAN_BYTES + HEAD * PLAN_FETCHES ? bytes : PLAN_BYTES + HEAD * PLAN_FETCHES;
}

#define ROOM_BEHIND (32u + 1 + CALL_VALUES_SLACK) /* that a fetch wants, besides its own */

_Static_assert(2 * (PLAN_BYTES + HEAD * PLAN_FETCHES) + 256 < CALL_CHUNK_LEAST_VALUES / 2,
	       "a chunk has room for them");
_Static_assert(CALL_FETCHES >= 2 * PLAN_FETCHES, "entry and leave of one site");

bool call_arguments_fetches(const struct function_plan *plan, enum call_place place, struct call_plan *room)
{
	uint32_t bytes = sizeof(struct call_values) + ROOM_BEHIND;

	room->n = 0;
	if (has_entry(place))
		bytes += add_fetches(&plan->plan.entry, room);
	if (has_leave(place))
		bytes += add_fetches(&plan->plan.leave, room);
	room->slots = (uint16_t)(1 + (bytes + CALL_SLOT_SIZE - 1) / CALL_SLOT_SIZE);
	return room->n;
}

/* Values */

static enum value_state state_of(uint8_t how)
{
	switch (how) {
	case CALL_GOT:
		return VALUE_OK;
	case CALL_GOT_SOME:
		return VALUE_CUT;
	case CALL_GOT_FAULT:
		return VALUE_UNREADABLE;
	case CALL_GOT_NULL:
		return VALUE_NULL;
	default:
		return VALUE_NONE;
	}
}

/* Of the program's bytes, which it may change meanwhile, each is read once. Returns where the next list's begin. */
static const uint8_t *read_list(const uint8_t *at, const uint8_t *end, uint32_t n, struct fetched *ret)
{
	ret->n = n;
	ret->nbytes = 0;
	for (uint32_t i = 0; i < n; i++) {
		uint16_t len = 0;

		ret->state[i] = at < end ? (uint8_t)state_of(*at++) : VALUE_NONE;
		ret->len[i] = 0;
		ret->at[i] = (uint16_t)ret->nbytes;
		if (ret->state[i] != VALUE_OK && ret->state[i] != VALUE_CUT)
			continue;
		if ((size_t)(end - at) >= sizeof(len)) {
			memcpy(&len, at, sizeof(len));
			at += sizeof(len);
		}
		if (len > end - at || len > PLAN_BYTES - ret->nbytes) {
			ret->state[i] = VALUE_NONE;
			at = end;
			continue;
		}
		memcpy(ret->bytes + ret->nbytes, at, len);
		ret->len[i] = len;
		ret->nbytes += len;
		at += len;
	}
	return at;
}

void call_arguments_read(struct call_arguments *a, const struct function_plan *plan, enum call_place place,
			 const struct call_passed *c)
{
	const uint8_t *at = c->values, *end = at ? at + c->values_len : NULL;

	a->entry.n = a->leave.n = 0;
	a->left = has_leave(place) && at ? plan : NULL;
	if (has_entry(place))
		at = read_list(at, end, plan->plan.entry.n, &a->entry);
	if (has_leave(place))
		read_list(at, end, plan->plan.leave.n, &a->leave);
}

const struct fetched *call_arguments_result(struct call_arguments *a, const struct function_plan *plan)
{
	const struct fetch_list *want = &plan->plan.leave, *have;
	struct fetched *ret = &a->other;
	uint32_t same[PLAN_FETCHES];

	if (!a->left || a->left == plan)
		return a->left ? &a->leave : NULL;
	have = &a->left->plan.leave;
	ret->n = want->n;
	ret->nbytes = 0;
	for (uint32_t i = 0; i < want->n; i++) {
		const uint32_t k = same[i] = find_same(want, i, have, same);
		const bool found = k < a->leave.n;
		uint16_t len = found ? a->leave.len[k] : 0;

		if (want->v[i].op != FETCH_STRING && len > want->v[i].len)
			len = want->v[i].len;
		ret->state[i] = found ? a->leave.state[k] : VALUE_NONE;
		ret->at[i] = (uint16_t)ret->nbytes;
		ret->len[i] = len;
		if (found)
			memcpy(ret->bytes + ret->nbytes, a->leave.bytes + a->leave.at[k], len);
		ret->nbytes += len;
	}
	return ret;
}
