#include "watchctl/patch/apply/patch_copies.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/bisect.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/insn/insn_scan.h"
#include "watchctl/patch/apply/patch_apply_impl.h"
#include "watchctl/patch/probe/probe_place.h"
#include "watchctl/target/proc/proc.h"

#define NONE 0xffffu
#define TRAMPOLINE_MAX_BYTES 4096u

/* Behind a copy, and behind its original. */
struct behind {
	uint64_t copy, original;
};

struct behinds {
	struct behind *v;
	size_t n, cap;
};

/* By address. */
struct overwritten {
	struct probe_patch *v;
	size_t n, cap;
};

struct patch_copies {
	pid_t pid;
	struct behinds behind;
	struct overwritten patch;
};

struct patch_copies *patch_copies_new(pid_t pid)
{
	struct patch_copies *c = calloc(1, sizeof(*c));

	if (c)
		c->pid = pid;
	return c;
}

static void forget(struct patch_copies *c)
{
	free(c->behind.v);
	free(c->patch.v);
	*c = (struct patch_copies){ .pid = c->pid };
}

void patch_copies_free(struct patch_copies *c)
{
	if (c)
		forget(c);
	free(c);
}

/* Where the instruction ends whose beginning is @i bytes behind the patch's. */
static unsigned int end_of(const struct probe_patch *p, unsigned int i)
{
	for (i++; i < p->moved; i++)
		if (p->copy[i] != NONE)
			return i;
	return p->moved;
}

/* False: no memory. */
static bool take_patch(struct patch_copies *c, const struct probe_patch *p)
{
	const struct memory_view mem = proc_memory(&c->pid);
	const uint64_t len = p->trampoline_end - p->trampoline;
	uint8_t code[TRAMPOLINE_MAX_BYTES];
	struct insn_brief insn;

	if (!patch_is_sound(p) || p->moved > PROBE_PATCH_MAX)
		return true;
	if (!vec_push(c->patch.v, c->patch.n, c->patch.cap, *p))
		return false;
	if (!p->moved || len > sizeof(code) || !memory_read(&mem, p->trampoline, code, len))
		return true;
	for (unsigned int i = 0; i < p->moved; i++) {
		const uint64_t at = p->copy[i];
		struct behind b = { .original = p->addr + end_of(p, i) };

		if (at >= len || !insn_scan(code + at, len - at, p->trampoline + at, &insn))
			continue;
		b.copy = p->trampoline + at + insn.len;
		if (!vec_push(c->behind.v, c->behind.n, c->behind.cap, b))
			return false;
	}
	return true;
}

/* Those of one session. False: no memory. */
static bool take_place(struct patch_copies *c, const struct probe_place *place)
{
	scoped(patch_areas_deinit) struct patch_area_list areas = { 0 };

	if (!patch_areas_read(place, &areas))
		return false;
	for (size_t i = 0; i < areas.n; i++)
		for (uint32_t k = 0; k < areas.v[i].head.npatches; k++)
			if (!take_patch(c, &areas.v[i].patch[k]))
				return false;
	return true;
}

static int by_copy(const void *a, const void *b)
{
	const struct behind *x = a, *y = b;

	return x->copy < y->copy ? -1 : x->copy > y->copy;
}

static int by_address(const void *a, const void *b)
{
	const struct probe_patch *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

bool patch_copies_look(struct patch_copies *c)
{
	scoped(probe_homes_deinit) struct probe_homes homes = { 0 };
	struct patch_copies now = { .pid = c->pid };
	struct wc_error *err = probe_homes_find(c->pid, &homes);
	bool ok = !err;

	wc_error_free(err);
	for (size_t i = 0; i < homes.n && ok; i++)
		ok = take_place(&now, &homes.v[i].place);
	if (err ||
	    proc_is_ending(c->pid, c->pid)) { /* nothing can be read: what was known is all there was */
		forget(&now);
		return true;
	}
	if (!ok) {
		forget(&now);
		return false;
	}
	if (now.behind.n)
		qsort(now.behind.v, now.behind.n, sizeof(*now.behind.v), by_copy);
	if (now.patch.n)
		qsort(now.patch.v, now.patch.n, sizeof(*now.patch.v), by_address);
	forget(c);
	*c = now;
	return true;
}

uint64_t patch_copies_original(const struct patch_copies *c, uint64_t pc)
{
	const struct behind key = { .copy = pc }, *found;

	if (!c->behind.n)
		return 0;
	found = bsearch(&key, c->behind.v, c->behind.n, sizeof(key), by_copy);
	return found ? found->original : 0;
}

void patch_copies_restore(const struct patch_copies *c, uint64_t addr, uint8_t *code, size_t len)
{
	size_t low;

	/* The first patch that ends behind @addr: patches do not overlap. */
	low = BISECT(c->patch.n, i, c->patch.v[i].addr + c->patch.v[i].len <= addr);
	for (; low < c->patch.n && c->patch.v[low].addr < addr + len; low++) {
		const struct probe_patch *p = &c->patch.v[low];

		for (unsigned int i = 0; i < p->len; i++)
			if (p->addr + i >= addr && p->addr + i - addr < len &&
			    code[p->addr + i - addr] == p->written[i])
				code[p->addr + i - addr] = p->original[i];
	}
}
