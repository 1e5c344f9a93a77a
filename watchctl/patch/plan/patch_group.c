#include "watchctl/patch/plan/patch_group.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"

#define JUMP_LEN 5u
#define SHORT_LEN 2u

/* A segment override, which means nothing to a direct jump. */
#define IDLE_PREFIX 0x2e

/* Of a program: vm.mmap_min_addr, and the end of its half. */
#define LOWEST 0x10000
#define HIGHEST 0x7ffffffff000ll

static bool is_jump(const struct tactic_choice *c)
{
	return c->tactic == TACTIC_JUMP || c->tactic == TACTIC_NOP || c->tactic == TACTIC_PADDING ||
	       c->tactic == TACTIC_PUN;
}

static struct patch_group group_of(const struct tactic_choice *c, size_t site)
{
	struct patch_group g = { .start = c->start,
				 .via = c->via,
				 .len = c->via ? SHORT_LEN : JUMP_LEN,
				 .moved = c->moved,
				 .nmoved = c->nmoved,
				 .first_site = site,
				 .nsites = 1 };

	if (c->tactic == TACTIC_PUN) {
		g.len = c->len;
		g.tail = (uint8_t)(c->prefixes + JUMP_LEN - c->len);
		g.pun_low = c->pun_low;
		g.pun_high = c->pun_high;
	}
	return g;
}

/* The site @i has the same jump as the one before it. */
static bool joins_last(struct patch_groups *g, const struct tactic_choice *c, size_t i)
{
	struct patch_group *last;

	if (!g->n || !g->v)
		return false;
	last = &g->v[g->n - 1];
	if (last->start != c->start || last->first_site + last->nsites != i)
		return false;
	last->nsites++;
	return true;
}

bool patch_groups_make(const struct patch_site *site, size_t n, struct patch_groups *ret)
{
	for (size_t i = 0; i < n; i++) {
		const struct tactic_choice *c = &site[i].choice;

		if (!is_jump(c) || joins_last(ret, c, i))
			continue;
		if (!vec_push(ret->v, ret->n, ret->cap, group_of(c, i)))
			return false;
	}
	return true;
}

void patch_groups_deinit(struct patch_groups *g)
{
	free(g->v);
	*g = (struct patch_groups){ 0 };
}

static bool jump(uint64_t from, uint64_t to, struct patch_write *ret)
{
	int64_t d = (int64_t)(to - (from + JUMP_LEN));
	int32_t d32 = (int32_t)d;

	*ret = (struct patch_write){ .addr = from, .len = JUMP_LEN, .bytes = { 0xe9 } };
	memcpy(ret->bytes + 1, &d32, sizeof(d32));
	return d == d32;
}

bool patch_group_reach(const struct patch_group *g, uint64_t bias, uint64_t *low, uint64_t *high)
{
	int64_t first = (int64_t)(g->pun_low + bias), last = (int64_t)(g->pun_high + bias);

	first = first < LOWEST ? LOWEST : first;
	last = last > HIGHEST ? HIGHEST : last;
	*low = (uint64_t)first;
	*high = (uint64_t)last;
	return first <= last;
}

/* The whole jump, of which the first @g->len bytes are to be written. */
static bool pun(const struct patch_group *g, uint64_t bias, uint64_t to, struct patch_write *ret)
{
	const unsigned int prefixes = g->len + g->tail - JUMP_LEN;
	const uint64_t start = bias + g->start;
	struct patch_write plain;

	if (!jump(start + prefixes, to, &plain))
		return false;
	*ret = (struct patch_write){ .addr = start, .len = g->len, .tail = g->tail };
	memset(ret->bytes, IDLE_PREFIX, prefixes);
	memcpy(ret->bytes + prefixes, plain.bytes, JUMP_LEN);
	return true;
}

bool patch_group_write(const struct patch_group *g, uint64_t bias, uint64_t trampoline,
		       struct patch_write ret[2], unsigned int *n)
{
	uint64_t start = bias + g->start, via = bias + g->via;
	int64_t hop = (int64_t)(via - (start + SHORT_LEN));

	*n = g->via ? 2 : 1;
	if (g->tail)
		return pun(g, bias, trampoline, &ret[0]);
	if (!g->via)
		return jump(start, trampoline, &ret[0]);
	ret[1] = (struct patch_write){ .addr = start, .len = SHORT_LEN, .bytes = { 0xeb, (uint8_t)hop } };
	return hop == (int8_t)hop && jump(via, trampoline, &ret[0]);
}
