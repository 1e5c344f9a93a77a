#include "watchctl/code/insn/code_paths.h"

#include <stdlib.h>

#include "watchctl/base/vec.h"

bool code_view_decode(const struct code_view *code, uint64_t addr, struct insn *insn, struct insn_regs *regs)
{
	const uint8_t *bytes;
	size_t n = code->bytes(code->ctx, addr, &bytes);

	if (n > INSN_MAX)
		n = INSN_MAX;
	return n && insn_decode(bytes, n, addr, insn) && insn_regs_find(bytes, n, regs);
}

void code_paths_deinit(struct code_paths *p)
{
	free(p->v);
	map64_deinit(&p->seen);
}

void code_paths_add(struct code_paths *p, uint64_t at, uint32_t holds)
{
	if (!vec_push(p->v, p->n, p->cap, (struct code_path){ at, holds }))
		p->no_memory = true;
}

bool code_paths_take(struct code_paths *p, struct code_path *ret)
{
	if (!p->n)
		return false;
	*ret = p->v[--p->n];
	return true;
}

bool code_paths_is_new(struct code_paths *p, uint64_t at, uint32_t *holds)
{
	uintptr_t seen = (uintptr_t)map64_get(&p->seen, at);

	if (seen) {
		uint32_t both = (uint32_t)(seen - 1) & *holds;

		if (both == seen - 1)
			return false;
		*holds = both;
	}
	if (map64_put(&p->seen, at, (void *)((uintptr_t)*holds + 1)))
		return true;
	p->no_memory = true;
	return false;
}
