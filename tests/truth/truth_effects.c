/*
 * Whether the statements about reads are true, by their effects. The processor's breakpoints tell a read from
 * a write, but not a write from a read and write. So each place that is said to be written is filled with two
 * different contents: if anything afterwards depends on them, it was read as well.
 */
#include <stdio.h>
#include <string.h>

#include "tests/truth/truth.h"

static unsigned long pure, pure_wrong, both, both_seen, both_unseen, unsettled;

struct outcome {
	uint64_t regs[17];
	uint8_t state[16384];
	uint8_t memory[ARENA_SIZE];
};

static bool run(const struct truth_form *f, uint64_t a, const struct truth_access *flip, struct outcome *ret)
{
	static struct truth_run r;

	if (!truth_execute(f, a, NULL, flip, &r) || r.signal)
		return false;
	memcpy(ret->regs, truth_out, sizeof(ret->regs));
	ret->regs[15] = 0; /* rsp: as deep as we are */
	memcpy(ret->state, truth_xout, sizeof(ret->state));
	memcpy(ret->memory, truth_arena, ARENA_SIZE);
	return true;
}

static bool in_access(const struct truth_access *x, uint64_t a, unsigned int i)
{
	uint64_t start = truth_at(a, x->off) - (uintptr_t)truth_arena;

	return i >= start && i < start + x->len;
}

/* A byte of the access itself tells of a read only if it was made something new of. */
static bool differs(const struct truth_access *x, uint64_t a, const struct outcome *one,
		    const struct outcome *other, const uint8_t *original)
{
	if (memcmp(one->regs, other->regs, sizeof(one->regs)) != 0 ||
	    memcmp(one->state, other->state, sizeof(one->state)) != 0)
		return true;
	for (unsigned int i = 0; i < ARENA_SIZE; i++) {
		if (one->memory[i] == other->memory[i])
			continue;
		if (!in_access(x, a, i) || one->memory[i] != original[i])
			return true;
	}
	return false;
}

static bool overlaps_another(const struct truth_form *f, unsigned int k)
{
	const struct truth_access *x = &f->access[k];

	for (unsigned int i = 0; i < f->naccess + f->nothers; i++)
		if (i != k && truth_overlap(truth_at(0x100000, x->off), x->len,
					    truth_at(0x100000, f->access[i].off), f->access[i].len))
			return true;
	return f->blob && truth_overlap(truth_at(0x100000, x->off), x->len, truth_at(0x100000, f->blob_off),
					f->blob_len);
}

static void check_access(const struct truth_form *f, uint64_t a, const struct truth_access *x,
			 const struct outcome *usual, const uint8_t *original)
{
	static struct outcome flipped;
	bool reads;

	if (!run(f, a, x, &flipped))
		return;
	reads = differs(x, a, usual, &flipped, original);
	if (x->kind == ACCESS_WRITE) {
		pure++;
		if (reads) {
			pure_wrong++;
			complain(f, "said to write %u bytes at A%+d only, but their old content matters",
				 x->len, x->off);
		}
		return;
	}
	both++;
	both_seen += reads;
	both_unseen += !reads;
}

void effects_form(const struct truth_form *f)
{
	uint64_t a = (uint64_t)(uintptr_t)truth_arena + ARENA_HOME;
	static struct outcome usual, again;
	static uint8_t original[ARENA_SIZE];
	bool any = false;

	for (unsigned int k = 0; k < f->naccess; k++)
		any |= f->access[k].kind & ACCESS_WRITE && !f->access[k].maybe && !overlaps_another(f, k);
	if (!any || f->flags & (FORM_BY_KERNEL | FORM_DECOY))
		return;
	truth_fill(f, a, NULL);
	memcpy(original, truth_arena, ARENA_SIZE);
	if (!run(f, a, NULL, &usual) || !run(f, a, NULL, &again))
		return;
	if (memcmp(usual.regs, again.regs, sizeof(usual.regs)) != 0 ||
	    memcmp(usual.state, again.state, sizeof(usual.state)) != 0) {
		unsettled++;
		return;
	}
	for (unsigned int k = 0; k < f->naccess; k++)
		if (f->access[k].kind & ACCESS_WRITE && !f->access[k].maybe && !overlaps_another(f, k))
			check_access(f, a, &f->access[k], &usual, original);
}

bool effects_report(void)
{
	printf("\nwrites that the manual says read nothing: %lu, %lu of them do\n", pure, pure_wrong);
	printf("reads and writes: %lu, the read shown by its effect in %lu, without effect in %lu; %lu forms "
	       "differ from "
	       "run to run\n",
	       both, both_seen, both_unseen, unsettled);
	return !pure_wrong;
}
