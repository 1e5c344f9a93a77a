/*
 * walk - common to all code that records a hit where it happens: look up its code address in the tables
 * that the controller publishes (handler/wire.h), and walk the stack as far as they go. Freestanding.
 */
#ifndef HANDLER_WALK_H
#define HANDLER_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "handler/wire.h"
#include "watchctl/code/unwind/unwind_rule.h"

/* About the trap's rip; NULL: nothing is published. */
static inline const struct wire_access_fact *wire_find_fact(const struct wire_access_fact *table, uint64_t pc)
{
	uint64_t i = wire_hash(pc);
	unsigned int n;

	for (n = 0; n < WIRE_PROBES; n++, i++) {
		const struct wire_access_fact *f = &table[i & (WIRE_ACCESS_FACTS - 1)];
		uint64_t key = __atomic_load_n(&f->key, __ATOMIC_ACQUIRE);

		if (key == pc)
			return f;
		if (!key)
			break;
	}
	return 0;
}

/* @key: an address, or a return address | WIRE_RETURN_ADDRESS. False: no rule is published. */
static inline bool wire_find_rule(const struct wire_rule *table, uint64_t key, struct unwind_rule *ret)
{
	uint64_t i = wire_hash(key);
	unsigned int n;

	for (n = 0; n < WIRE_PROBES; n++, i++) {
		const struct wire_rule *r = &table[i & (WIRE_RULES - 1)];
		uint64_t found = __atomic_load_n(&r->key, __ATOMIC_ACQUIRE);

		if (found == key) {
			*ret = r->rule;
			/* Withdrawn while we copied? Then it is as if it had not been there. */
			return __atomic_load_n(&r->key, __ATOMIC_ACQUIRE) == key;
		}
		if (!found)
			break;
	}
	return false;
}

/* The address of the fact's memory operand; false where a part of it is not known. */
static inline bool wire_operand(const struct wire_access_fact *f, const struct regs *regs, uint64_t *ret)
{
	uint64_t addr = (uint64_t)f->disp;

	if (f->seg) {
		if (!regs->r[WREG_FS_BASE])
			return false;
		addr += regs->r[WREG_FS_BASE];
	}
	if (f->base >= 0)
		addr += regs->r[(unsigned int)f->base];
	if (f->index >= 0)
		addr += regs->r[(unsigned int)f->index] * f->scale;
	*ret = addr;
	return true;
}

/*
 * The @size bytes at @addr out of what the instruction itself moved: exact even when another thread writes
 * next. @regs are those after it. Higher bytes of *ret are whatever followed.
 */
static inline bool wire_value_from_fact(const struct wire_access_fact *f, const struct regs *regs,
					uint64_t addr, uint32_t size, uint64_t *ret)
{
	uint64_t from, value;

	if (!f || f->value_from == WIRE_VALUE_MEMORY || !wire_operand(f, regs, &from))
		return false;
	if (addr < from || addr + size > from + f->size)
		return false;
	value = f->value_from == WIRE_VALUE_IMM ? f->imm : regs->r[f->value_reg] >> f->value_shift;
	*ret = value >> (8 * (addr - from));
	return true;
}

static inline uint64_t wire_truncate(uint64_t value, uint32_t size)
{
	return size < 8 ? value & ((1ull << (8 * size)) - 1) : value;
}

/*
 * Walks outwards from *regs as far as the rules go, up to @max frames; frame[0] is rip. On
 * WALK_END_UNKNOWN_PC *regs are those of the last frame, and *exact says whether its address is where it was
 * interrupted, or a return address.
 */
static inline enum walk_end wire_walk(const struct wire_rule *table, uint32_t max, unwind_read_fn read,
				      void *ctx, struct regs *regs, uint64_t *frame, uint32_t *ret_n,
				      bool *exact)
{
	enum walk_end end = WALK_END_DEPTH;
	struct unwind_rule rule;
	uint32_t n = 1;

	*exact = true;
	frame[0] = regs->r[WREG_RIP];
	while (n < max) {
		uint64_t sp = regs->r[WREG_RSP], pc = regs->r[WREG_RIP];
		enum unwind_step_result step;

		if (!wire_find_rule(table, *exact ? pc : pc | WIRE_RETURN_ADDRESS, &rule)) {
			end = WALK_END_UNKNOWN_PC;
			break;
		}
		step = unwind_step(&rule, regs, read, ctx);
		if (step != UNWIND_STEP_OK) {
			end = step == UNWIND_STEP_END	       ? WALK_END_COMPLETE
			      : step == UNWIND_STEP_UNREADABLE ? WALK_END_UNREADABLE
							       : WALK_END_NO_RULE;
			break;
		}
		if (rule.kind != UNWIND_SIGFRAME && regs->r[WREG_RSP] <= sp) {
			end = WALK_END_NOT_ASCENDING;
			break;
		}
		if (!regs->r[WREG_RIP]) {
			end = WALK_END_COMPLETE;
			break;
		}
		frame[n++] = regs->r[WREG_RIP];
		*exact = rule.kind == UNWIND_SIGFRAME;
	}
	*ret_n = n;
	return end;
}

#endif
