/*
 * A jump of 5 bytes, e9 and a displacement, reaches a trampoline within 2 GB: it runs the probe, then copies of the
 * instructions that stood under the jump, and goes on behind them. A call would be shorter to return from, but writes
 * below rsp, where a leaf function keeps its variables.
 *
 *  - Instructions may move when no jump leads to any of them but the first: who comes from elsewhere would land in the
 *    middle of the displacement. That the one at the site is not the first of those that move does not matter: then
 *    it is only reached through them.
 *  - What an instruction computes from its own address is computed anew: displacements from rip, targets of calls
 *    and of jumps, which become near ones. It cannot be done for a call of the next instruction, which is there to
 *    find out where it runs. A call moves as the last instruction alone: it pushes the address behind its old place, so
 *    that what is there must stay.
 *  - Where less than 5 bytes can move, the jump may end in bytes that are never executed; or two bytes, eb and a
 *    distance, lead to 5 such bytes nearby.
 *  - Or the jump is written into the bytes alone of the instructions that can move, and those behind, which stay, are read as
 *    the high bytes of its displacement (Duck, Gao, Roychoudhury: Binary Rewriting without Control Flow Recovery,
 *    PLDI 2020). Prefixes in front of the jump that do nothing shift which bytes these are. The trampoline has to lie where
 *    that leads.
 *  - int3 always fits.
 */
#include "watchctl/patch/plan/patch_tactic.h"

#include <string.h>

#include "watchctl/base/bisect.h"
#include "watchctl/patch/plan/free_space.h"

#define JUMP_LEN 5u
#define SHORT_LEN 2u

/* No further back than an instruction is long: one of 5 bytes or more is all that is needed there. */
#define BACK_MAX 15u

/* Below this nothing is mapped: vm.mmap_min_addr. */
#define LOWEST 0x10000

#define HIGHEST 0x7ffffffff000ll

/* Instructions in a row. */
struct group {
	uint64_t start, end;
	uint8_t n;
	bool falls;    /* execution goes on behind them */
	uint64_t call; /* the last of them is one; 0: it is none */
};

/* What execution comes to from elsewhere. */
static uint64_t target_within(const struct code_map *m, uint64_t start, uint64_t end)
{
	for (uint64_t at = start; at < end; at++)
		if (code_map_marks(m, at) & MARK_ANY_TARGET)
			return at;
	return 0;
}

static uint64_t used_within(const struct code_map *m, uint64_t start, uint64_t end)
{
	for (uint64_t at = start; at < end; at++)
		if (code_map_marks(m, at) & MARK_USED)
			return at;
	return 0;
}

static bool falls_through(const struct insn_brief *i)
{
	return i->flow != INSN_JUMP && i->flow != INSN_RET && i->flow != INSN_STOP;
}

/* A call of the next instruction asks for its own address; what processors disagree about is left where it is. */
static bool can_move(const struct insn_brief *i, uint64_t at)
{
	if (i->flow == INSN_BEGIN || i->is_odd || i->is_endbr)
		return false;
	return !(i->flow == INSN_CALL && i->has_target && i->target == at + i->len);
}

static bool fail(struct tactic_choice *ret, enum tactic_why why, uint64_t other)
{
	ret->why = why;
	ret->other = other;
	return false;
}

/* Adds the instruction at g->end. False: it cannot move there, *@ret says why. */
static bool group_add(const struct code_map *m, struct group *g, struct tactic_choice *ret)
{
	const unsigned int wanted = MARK_START | MARK_KNOWN;
	const struct map_function *f = code_map_function(m, g->start);
	uint64_t at = g->end, other;
	struct insn_brief i;

	if ((code_map_marks(m, at) & wanted) != wanted || !code_map_insn(m, at, &i) || (f && at >= f->end))
		return fail(ret, WHY_END, at);
	other = target_within(m, at + (g->n == 0), at + i.len);
	if (other)
		return fail(ret, other > at && g->n == 0 ? WHY_MIDDLE : WHY_TARGET, other);
	if (!can_move(&i, at))
		return fail(ret, i.is_endbr ? WHY_ENDBR : WHY_FIXED_INSN, at);
	other = used_within(m, at, at + i.len);
	if (other)
		return fail(ret, WHY_TAKEN_BYTES, other);
	if (g->n && f && f->jump)
		return fail(ret, WHY_UNRESOLVED, f->jump);
	if (g->call) /* it returns to what is behind it: that must stay */
		return fail(ret, WHY_FIXED_INSN, g->call);
	g->end += i.len;
	g->n++;
	g->falls = falls_through(&i);
	g->call = i.flow == INSN_CALL ? at : 0;
	return true;
}

/* Whole instructions from @start on, as many as 5 bytes take; they hold the one at @site. */
static bool group_whole(const struct code_map *m, uint64_t start, uint64_t site, struct group *g,
			struct tactic_choice *why)
{
	*g = (struct group){ .start = start, .end = start, .falls = true };
	while (g->end - start < JUMP_LEN || g->end <= site) {
		if (!g->falls)
			return fail(why, WHY_END, g->end);
		if (!group_add(m, g, why))
			return false;
	}
	return true;
}

static void take(struct code_map *m, uint64_t start, uint64_t len)
{
	for (uint64_t i = 0; i < len; i++)
		code_map_mark(m, start + i, MARK_USED);
}

/* @len bytes are overwritten, all that moves is taken. */
static void choose_group(struct code_map *m, const struct group *g, enum tactic tactic, enum tactic_why why,
			 uint8_t len, struct tactic_choice *ret)
{
	uint8_t moved = (uint8_t)(g->end - g->start);

	*ret = (struct tactic_choice){
		.tactic = tactic, .why = why, .start = g->start, .len = len, .moved = moved, .nmoved = g->n
	};
	take(m, g->start, moved > len ? moved : len);
}

/* Instructions that do nothing, from @addr on: patchable entries, and what aligns loops. */
static bool try_nop(struct code_map *m, uint64_t addr, struct tactic_choice *ret)
{
	struct tactic_choice why;
	struct group g;
	struct insn_brief i;
	uint64_t at;

	if (!group_whole(m, addr, addr, &g, &why))
		return false;
	for (at = addr; at < g.end; at += i.len)
		if (!code_map_insn(m, at, &i) || !i.is_nop)
			return false;
	choose_group(m, &g, TACTIC_NOP, WHY_NOP, JUMP_LEN, ret);
	return true;
}

/* How many bytes from @addr on are never executed, up to @want. */
static uint64_t padding_at(const struct code_map *m, uint64_t addr, uint64_t want)
{
	uint64_t at = addr;
	struct insn_brief i;

	while (at - addr < want && code_map_insn(m, at, &i) && (i.is_nop || i.is_int3) &&
	       !target_within(m, at, at + i.len) && !used_within(m, at, at + i.len))
		at += i.len;
	return at - addr;
}

/* The next site behind @addr; 0: there is none. */
static uint64_t next_site(const struct tactic_sites *all, uint64_t addr)
{
	const size_t i = BISECT(all->n, k, all->addr[k] <= addr);

	return i < all->n ? all->addr[i] : 0;
}

/*
 * Of a return, or a jump that is not taken back, little may be left behind @g to be patched by itself, as where a call returns to the end of a
 * function: then it moves with @g.
 */
static void take_short_end(const struct code_map *m, const struct tactic_sites *all, struct group *g)
{
	const uint64_t site = next_site(all, g->end - 1);
	struct group longer = *g;
	struct tactic_choice ignored;
	struct insn_brief i;

	if (!site || site - g->end >= JUMP_LEN || !code_map_insn(m, site, &i) || falls_through(&i) ||
	    site + i.len - g->end + padding_at(m, site + i.len, JUMP_LEN) >= JUMP_LEN)
		return;
	while (longer.falls && longer.end <= site && group_add(m, &longer, &ignored))
		;
	if (longer.end > site)
		*g = longer;
}

static bool try_jump(struct code_map *m, uint64_t addr, const struct tactic_sites *all,
		     struct tactic_choice *ret)
{
	struct tactic_choice ignored;
	uint64_t start = addr;
	struct group g;

	if (group_whole(m, addr, addr, &g, ret)) {
		take_short_end(m, all, &g);
		choose_group(m, &g, TACTIC_JUMP, g.n == 1 ? WHY_WHOLE : WHY_MOVED, JUMP_LEN, ret);
		return true;
	}
	while (!(code_map_marks(m, start) & MARK_ANY_TARGET) && code_map_before(m, start, &start) &&
	       addr - start <= BACK_MAX) {
		if (!group_whole(m, start, addr, &g, &ignored))
			continue;
		choose_group(m, &g, TACTIC_JUMP, WHY_MOVED, JUMP_LEN, ret);
		return true;
	}
	return false;
}

/* The last instruction of those that move does not go on, and what follows is padding. */
static bool try_tail(struct code_map *m, uint64_t start, uint64_t site, struct tactic_choice *ret)
{
	struct group g = { .start = start, .end = start, .falls = true };
	struct tactic_choice ignored;

	while (g.falls && g.end - start < JUMP_LEN && group_add(m, &g, &ignored))
		;
	if (g.falls || g.end <= site || g.end - start >= JUMP_LEN)
		return false;
	if (g.end - start + padding_at(m, g.end, JUMP_LEN - (g.end - start)) < JUMP_LEN)
		return false;
	choose_group(m, &g, TACTIC_PADDING, WHY_TAIL, JUMP_LEN, ret);
	return true;
}

static bool try_tails(struct code_map *m, uint64_t addr, struct tactic_choice *ret)
{
	uint64_t start = addr;

	if (try_tail(m, addr, addr, ret))
		return true;
	while (!(code_map_marks(m, start) & MARK_ANY_TARGET) && code_map_before(m, start, &start) &&
	       addr - start <= BACK_MAX)
		if (try_tail(m, start, addr, ret))
			return true;
	return false;
}

/* The first padding that begins at @addr or behind it. */
static size_t padding_from(const struct code_map *m, uint64_t addr)
{
	size_t low = BISECT(m->npaddings, i, m->padding[i].start < addr);
	return low;
}

/* Where in @p a jump fits; 0: nowhere. */
static uint64_t room_in(const struct code_map *m, const struct code_padding *p)
{
	struct insn_brief i;

	for (uint64_t at = p->start; at + JUMP_LEN <= p->start + p->len; at += i.len) {
		if (padding_at(m, at, JUMP_LEN) >= JUMP_LEN)
			return at;
		if (!code_map_insn(m, at, &i))
			break;
	}
	return 0;
}

/* A jump of two bytes reaches -128..127 from its end. */
static bool try_short(struct code_map *m, uint64_t addr, struct tactic_choice *ret)
{
	struct group g = { .start = addr, .end = addr, .falls = true };
	struct tactic_choice ignored;
	uint64_t from;

	while (g.falls && g.end - addr < SHORT_LEN && group_add(m, &g, &ignored))
		;
	from = addr + SHORT_LEN;
	if (g.end < from)
		return false;
	/* A long padding may begin before the reach and end within it: it is not used. */
	for (size_t i = padding_from(m, from - 128); i < m->npaddings; i++) {
		uint64_t at;

		if (m->padding[i].start > from + 127)
			break;
		at = room_in(m, &m->padding[i]);
		if (!at || at > from + 127)
			continue;
		choose_group(m, &g, TACTIC_PADDING, WHY_SHORT, SHORT_LEN, ret);
		ret->via = at;
		take(m, at, JUMP_LEN);
		return true;
	}
	return false;
}

/*
 * The addresses that a jump behind @prefixes bytes reaches, if of its displacement the lowest bytes are free and the
 * others are what stands there. False: some of those bytes are not there.
 */
static bool pun_range(const struct code_map *m, uint64_t addr, unsigned int len, unsigned int prefixes,
		      uint64_t *low, uint64_t *high)
{
	uint64_t end = addr + prefixes + JUMP_LEN;
	unsigned int nfree = 8 * (len - 1 - prefixes);
	const struct code_part *p = code_map_part(m, addr);
	uint32_t fixed = 0;

	if (end - p->start > p->len)
		return false;
	for (unsigned int i = len - 1 - prefixes; i < 4; i++)
		fixed |= (uint32_t)p->bytes[addr - p->start + 1 + prefixes + i] << (8 * i);
	*low = end + (uint64_t)(int64_t)(int32_t)fixed;
	*high = *low + ((1ull << nfree) - 1);
	return true;
}

/* In a process: whether something is free there. */
static bool has_room(const struct code_map *m, uint64_t low, uint64_t high)
{
	int64_t first = (int64_t)(low + m->bias), last = (int64_t)(high + m->bias);

	first = first < LOWEST ? LOWEST : first;
	last = last > HIGHEST ? HIGHEST : last;
	return first <= last && free_space_any(m->room, (uint64_t)first, (uint64_t)last);
}

/*
 * Whether something may be mapped there: not where the module is, nor below a program that cannot be moved down. Of a library, what
 * is mapped within 2 GB of it is only known in a process.
 */
static bool is_plausible(const struct code_map *m, uint64_t low, uint64_t high)
{
	if (m->room)
		return has_room(m, low, high);
	if (m->is_fixed)
		return (int64_t)high >= LOWEST && (low < m->start || high >= m->end);
	return (int64_t)low < (int64_t)m->start || (int64_t)high >= (int64_t)m->end;
}

/* Whole instructions from @start on, shorter than a jump, with the one at @site: as many as there are. False: none. */
static bool group_short(const struct code_map *m, uint64_t start, uint64_t site, struct group *ret)
{
	struct group g = { .start = start, .end = start, .falls = true };
	struct tactic_choice ignored;

	*ret = g;
	while (g.falls && group_add(m, &g, &ignored) && g.end - start < JUMP_LEN)
		*ret = g;
	return ret->end > site;
}

static bool site_within(const struct tactic_sites *all, uint64_t start, uint64_t end)
{
	size_t low = BISECT(all->n, i, all->addr[i] < start);
	return low < all->n && all->addr[low] < end;
}

/* The group may have a punned jump in its place. The bytes behind it must stay as they are. */
static bool pun_group(struct code_map *m, const struct group *g, const struct tactic_sites *all,
		      struct tactic_choice *ret)
{
	const unsigned int len = (unsigned int)(g->end - g->start);
	uint64_t low, high;

	for (unsigned int prefixes = 0; prefixes < len; prefixes++) {
		uint64_t end = g->start + prefixes + JUMP_LEN;

		if (site_within(all, g->end, end) || used_within(m, g->end, end))
			return false;
		if (!pun_range(m, g->start, len, prefixes, &low, &high) || !is_plausible(m, low, high))
			continue;
		choose_group(m, g, TACTIC_PUN, WHY_PUN, (uint8_t)len, ret);
		take(m, g->start, end - g->start);
		ret->pun_low = low;
		ret->pun_high = high;
		ret->prefixes = (uint8_t)prefixes;
		return true;
	}
	return false;
}

/* The longer the group, the more bytes of the displacement are its own. */
static bool try_pun(struct code_map *m, uint64_t addr, const struct tactic_sites *all,
		    struct tactic_choice *ret)
{
	struct group group[JUMP_LEN];
	uint64_t start = addr;
	unsigned int n = 0;

	do {
		if (group_short(m, start, addr, &group[n]))
			n++;
	} while (!(code_map_marks(m, start) & MARK_ANY_TARGET) && code_map_before(m, start, &start) &&
		 addr - start < JUMP_LEN - 1);
	for (unsigned int len = JUMP_LEN - 1; len; len--)
		for (unsigned int i = 0; i < n; i++)
			if (group[i].end - group[i].start == len && pun_group(m, &group[i], all, ret))
				return true;
	return false;
}

/* An instruction that a jump enters in its middle, behind a prefix: int3 leaves the rest as it is. */
static bool is_behind_prefix(const struct code_map *m, uint64_t addr, uint64_t target)
{
	static const uint8_t prefixes[] = { 0xf0, 0xf2, 0xf3, 0x66 };
	const struct code_part *p = code_map_part(m, addr);

	return target == addr + 1 && memchr(prefixes, p->bytes[addr - p->start], sizeof(prefixes)) &&
	       code_map_marks(m, target) & MARK_JUMP;
}

static void refuse(struct tactic_choice *ret, enum tactic_why why, uint64_t other)
{
	*ret = (struct tactic_choice){ .tactic = TACTIC_REFUSED, .why = why, .other = other };
}

/*
 * mov $15, %eax or %rax; syscall: rt_sigreturn. Debuggers and unwinders take a frame for a signal's where they find these bytes
 * (libgcc's config/i386/linux-unwind.h).
 */
static bool is_sigreturn(const struct code_map *m, uint64_t addr)
{
	static const uint8_t with_rax[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	static const uint8_t with_eax[] = { 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	const struct code_part *p = code_map_part(m, addr);
	uint64_t at = addr - p->start, from = at < sizeof(with_rax) ? 0 : at - sizeof(with_rax) + 1;

	for (; from <= at; from++)
		if ((p->len - from >= sizeof(with_rax) &&
		     !memcmp(p->bytes + from, with_rax, sizeof(with_rax))) ||
		    (at - from < sizeof(with_eax) && p->len - from >= sizeof(with_eax) &&
		     !memcmp(p->bytes + from, with_eax, sizeof(with_eax))))
			return true;
	return false;
}

/* False: *@ret says why nothing may be written there. */
static bool may_patch(const struct code_map *m, uint64_t addr, struct insn_brief *i,
		      struct tactic_choice *ret)
{
	unsigned int mark = code_map_marks(m, addr);
	uint64_t at;

	if (!(mark & MARK_KNOWN)) {
		refuse(ret, WHY_UNKNOWN_CODE, addr);
		return false;
	}
	if (!(mark & MARK_START) || !code_map_insn(m, addr, i)) {
		refuse(ret, WHY_NO_INSN, addr);
		return false;
	}
	if (is_sigreturn(m, addr)) {
		refuse(ret, WHY_SIGRETURN, addr);
		return false;
	}
	for (at = addr; at < addr + i->len; at++) {
		if (!(code_map_marks(m, at) & MARK_DATA))
			continue;
		refuse(ret, WHY_READ, at);
		return false;
	}
	at = target_within(m, addr + 1, addr + i->len);
	if (at && !is_behind_prefix(m, addr, at)) {
		refuse(ret, WHY_MIDDLE, at);
		return false;
	}
	return true;
}

static bool is_shared(const struct tactic_choice *last, uint64_t addr)
{
	return last && last->moved && last->start <= addr && addr < last->start + last->moved;
}

static void choose_trap(struct code_map *m, uint64_t addr, struct tactic_choice *ret)
{
	ret->tactic = TACTIC_TRAP;
	ret->start = addr;
	ret->len = ret->moved = ret->nmoved = 1;
	/* The bytes behind stay what they were. */
	take(m, addr, 1);
}

static bool try_all(struct code_map *m, uint64_t addr, const struct tactic_sites *all,
		    struct tactic_choice *ret)
{
	return try_nop(m, addr, ret) || try_jump(m, addr, all, ret) || try_tails(m, addr, ret) ||
	       try_short(m, addr, ret) || try_pun(m, addr, all, ret);
}

/*
 * An endbr64 has to stay, and does nothing to the program: behind it all is as it was before it. But whatever comes there has to come
 * through it.
 */
static bool try_behind_endbr(struct code_map *m, uint64_t addr, uint64_t next, const struct tactic_sites *all,
			     struct tactic_choice *ret)
{
	const struct map_function *f = code_map_function(m, addr);
	struct tactic_choice ignored;
	struct insn_brief i;

	if (!f || f->jump || next >= f->end || code_map_marks(m, next) & (MARK_ANY_TARGET | MARK_USED) ||
	    !may_patch(m, next, &i, &ignored) || !try_all(m, next, all, &ignored) || ignored.start != next)
		return false;
	*ret = ignored;
	ret->why = ret->via ? WHY_SHORT : ret->tactic == TACTIC_PUN ? WHY_PUN : WHY_BEHIND_ENDBR;
	return true;
}

void tactic_choose(struct code_map *m, uint64_t addr, const struct tactic_sites *all,
		   const struct tactic_choice *last, struct tactic_choice *ret)
{
	struct insn_brief i;

	if (!may_patch(m, addr, &i, ret))
		return;
	if (is_shared(last, addr)) {
		*ret = *last;
		ret->why = WHY_SHARED;
		ret->other = last->start;
		return;
	}
	/* What is used and does not move with the site before is padding. */
	if (code_map_marks(m, addr) & MARK_USED) {
		refuse(ret, WHY_DEAD, addr);
		return;
	}
	*ret = (struct tactic_choice){ 0 };
	if (i.is_endbr ? try_behind_endbr(m, addr, addr + i.len, all, ret) : try_all(m, addr, all, ret))
		return;
	if (i.is_endbr)
		fail(ret, WHY_ENDBR, addr);
	choose_trap(m, addr, ret);
}
