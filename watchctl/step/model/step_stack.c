#include "watchctl/step/model/step_stack.h"

#include <string.h>

struct slice {
	uint64_t start;
	const uint8_t *bytes;
	uint32_t len;
};

static bool read_slice(void *ctx, uint64_t addr, void *buf, size_t len)
{
	const struct slice *s = ctx;

	if (addr < s->start || len > s->len || addr - s->start > s->len - len)
		return false;
	memcpy(buf, s->bytes + (addr - s->start), len);
	return true;
}

void step_stack_whole(struct cfi *cfi, const struct step_record *rec, struct step_frames *ret)
{
	struct slice s = { rec->regs.r[WREG_RSP], rec->stack, rec->stack ? rec->stack_len : 0 };
	const struct memory_view mem = { read_slice, &s };
	enum walk_end why;

	ret->n = cfi_walk(cfi, &rec->regs, &mem, ret->v, STACK_MAX, &why);
	ret->walk_end = (uint8_t)why;
}

/* The slice ends where the parent's return address lies: as far as that is all that was wanted. */
static void mark_reached(const struct step_record *rec, struct step_frames *f)
{
	if (rec->call->parent && f->walk_end == WALK_END_UNREADABLE)
		f->walk_end = WALK_END_COMPLETE;
}

/*
 * A function's first instruction has its return address on top of the stack, whatever tables say or lack
 * (those of stubs may). The walk from there is that of a thread that has just returned.
 */
void step_stack_callers(struct cfi *cfi, const struct step_record *rec, struct step_frames *ret)
{
	struct step_record returned = *rec;

	ret->walk_end = WALK_END_COMPLETE;
	ret->n = rec->call->flags & CALL_TAIL ? 0 : 1;
	ret->v[0] = rec->call->return_address;
	if (!ret->n || !rec->stack || rec->stack_len <= sizeof(uint64_t))
		return;
	step_stack_whole(cfi, rec, ret);
	mark_reached(rec, ret);
	if (ret->n > 1 && ret->v[1] == rec->call->return_address) {
		memmove(ret->v, ret->v + 1, --ret->n * sizeof(ret->v[0]));
		return;
	}
	returned.regs.r[WREG_RIP] = rec->call->return_address;
	returned.regs.r[WREG_RSP] += sizeof(uint64_t);
	returned.stack += sizeof(uint64_t);
	returned.stack_len -= sizeof(uint64_t);
	step_stack_whole(cfi, &returned, ret);
	mark_reached(rec, ret);
}
