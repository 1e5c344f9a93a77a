#include "watchctl/patch/plan/patch_landings.h"

#include <stdlib.h>

#include "watchctl/base/vec.h"

#define JUMP_LEN \
	5u /* bytes that a return and what stands before it, or is padding behind it, must have to be patched for sure */

/* Function @from may end as @to does, to which it jumps; indices of the map. */
struct tail_jump {
	uint32_t from, to;
};

struct landings {
	const struct code_map *m;
	bool *unseen; /* of each function: not all of its ends are seen */
	struct tail_jump *jump;
	size_t njumps, jump_cap;
};

static bool is_stub(const struct code_map *m, uint64_t addr)
{
	const struct code_part *p = code_map_part(m, addr);

	return !p || p->is_stubs;
}

static uint64_t padding_at(const struct code_map *m, uint64_t addr)
{
	uint64_t at = addr;
	struct insn_brief i;

	while (at - addr < JUMP_LEN && code_map_insn(m, at, &i) && (i.is_nop || i.is_int3) &&
	       !(code_map_marks(m, at) & MARK_ANY_TARGET))
		at += i.len;
	return at - addr;
}

/* Where a jump leads out of @f. False: no memory. */
static bool add_jump(struct landings *l, uint32_t from, const struct insn_brief *i)
{
	const struct map_function *to = i->has_target ? code_map_function(l->m, i->target) : NULL;

	if (!to || is_stub(l->m, i->target)) {
		l->unseen[from] = true;
		return true;
	}
	return vec_push(l->jump, l->njumps, l->jump_cap,
			(struct tail_jump){ from, (uint32_t)(to - l->m->function) });
}

static bool look_at_function(struct landings *l, uint32_t k)
{
	const struct code_map *m = l->m;
	const struct map_function *f = &m->function[k];
	uint64_t group = f->start; /* from where on nothing leads, and nothing returns, into what comes */
	struct insn_brief i;

	for (uint64_t at = f->start; at < f->end && code_map_insn(m, at, &i); at += i.len) {
		const bool leaves = i.has_target && (i.target < f->start || i.target >= f->end);

		if (code_map_marks(m, at) & MARK_ANY_TARGET)
			group = at;
		if (i.flow == INSN_JUMP && !i.has_target && !i.has_rip)
			l->unseen[k] = true; /* by a table, or to another function */
		if (i.flow == INSN_RET && at + i.len - group + padding_at(m, at + i.len) < JUMP_LEN)
			l->unseen[k] = true;
		if (((i.flow == INSN_JUMP && (leaves || i.has_rip)) || (i.flow == INSN_COND && leaves)) &&
		    !add_jump(l, k, &i))
			return false;
		if (i.flow == INSN_CALL)
			group = at + i.len;
	}
	return true;
}

static void follow_jumps(struct landings *l)
{
	bool more = true;

	while (more) {
		more = false;
		for (size_t i = 0; i < l->njumps; i++) {
			const struct tail_jump *j = &l->jump[i];

			more |= l->unseen[j->to] && !l->unseen[j->from];
			l->unseen[j->from] |= l->unseen[j->to];
		}
	}
}

static bool is_unseen(const struct landings *l, const struct insn_brief *call)
{
	const struct map_function *to = call->has_target && !is_stub(l->m, call->target)
						? code_map_function(l->m, call->target)
						: NULL;

	return !to || l->unseen[to - l->m->function];
}

static void give(const struct landings *l, void (*each)(void *ctx, uint64_t addr), void *ctx)
{
	const struct code_map *m = l->m;
	struct insn_brief i, next;

	for (size_t k = 0; k < m->nfunctions; k++) {
		const struct map_function *f = &m->function[k];

		if (is_stub(m, f->start))
			continue;
		for (uint64_t at = f->start; at < f->end && code_map_insn(m, at, &i); at += i.len)
			if (i.flow == INSN_CALL && at + i.len < f->end && is_unseen(l, &i) &&
			    code_map_insn(m, at + i.len, &next))
				each(ctx, at + i.len);
	}
}

bool patch_landings_find(const struct code_map *m, void (*each)(void *ctx, uint64_t addr), void *ctx)
{
	struct landings l = { .m = m, .unseen = calloc(m->nfunctions + 1, sizeof(*l.unseen)) };
	bool ok = l.unseen;

	for (uint32_t k = 0; ok && k < m->nfunctions; k++)
		if (!is_stub(m, m->function[k].start))
			ok = look_at_function(&l, k);
	if (ok) {
		follow_jumps(&l);
		give(&l, each, ctx);
	}
	free(l.unseen);
	free(l.jump);
	return ok;
}
