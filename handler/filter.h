/*
 * filter - decides whether a hit is recorded, where it happens: in the injected handler, in the kernel's
 * BPF program, in the tracer. Compiled from `--if` and its companions by watchctl/engine/plan/filter.c.
 *
 * The condition is a list of operations, each on the results of earlier ones; the last result, as a truth
 * value, is the answer. All arithmetic is on 64 bits and wraps. Where the condition needs something that is
 * not known of this hit, the answer is "undecided": such a hit is recorded, and the controller decides.
 *
 * Freestanding; also compiled for the kernel's virtual machine.
 */
#ifndef HANDLER_FILTER_H
#define HANDLER_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/code/regs.h"

#define FILTER_OPS 32u /* a power of two */
#define FILTER_NAMES 2u
#define FILTER_NAME_LEN 16u /* TASK_COMM_LEN */
#define FILTER_RANGES 24u
#define FILTER_REGS 32u /* a power of two, WREG_COUNT or more */

enum filter_op_code {
	FILTER_CONST,	  /* imm */
	FILTER_OLD,	  /* value before, zero-extended */
	FILTER_NEW,	  /* value after */
	FILTER_TID,	  /* thread id, as the target numbers its threads */
	FILTER_SIZE,	  /* bytes that the instruction accessed */
	FILTER_NAME_IS,	  /* the thread's name is names[imm] */
	FILTER_SIGN,	  /* a, of imm bytes, sign-extended */
	FILTER_FLOAT_KEY, /* a, the bits of a float of imm bytes (4, 8), as an integer of the same order */
	FILTER_FLOAT_NAN, /* a, the bits of a float of imm bytes, is not a number */
	FILTER_ADD,	  /* a + b */
	FILTER_SUB,
	FILTER_MUL,
	FILTER_AND,
	FILTER_OR,
	FILTER_XOR,
	FILTER_LEFT,	     /* a << (b & 63) */
	FILTER_RIGHT,	     /* logical */
	FILTER_RIGHT_SIGNED, /* arithmetic */
	FILTER_EQUAL,
	FILTER_LESS,  /* signed */
	FILTER_BELOW, /* unsigned */
	FILTER_BOTH,  /* a != 0 && b != 0 */
	FILTER_EITHER,
	FILTER_NOT, /* a == 0 */
	FILTER_REG, /* register imm, as enum reg numbers them */
	FILTER_OP_CODES
};

struct filter_op {
	uint8_t code, a, b; /* a, b: earlier results */
	uint8_t pad[5];
	int64_t imm;
};

/* What the condition needs to know: bits of wire_filter.needs and filter_input.known. */
enum filter_need {
	FILTER_NEEDS_OLD = 1,
	FILTER_NEEDS_NEW = 2,
	FILTER_NEEDS_TID = 4,
	FILTER_NEEDS_SIZE = 8,
	FILTER_NEEDS_NAME = 16,
	FILTER_NEEDS_REGS = 32,
};

/* A range of code, [start, end). */
struct filter_range {
	uint64_t start, end;
};

struct wire_filter {
	uint32_t n;	   /* operations; 0: no condition */
	uint32_t needs;	   /* enum filter_need */
	uint32_t ncallers; /* the stack must go through one of callers[0..ncallers); 0: no such condition */
	uint32_t nnot_callers; /* and through none of the nnot_callers that follow */
	uint64_t sample;       /* of the hits that pass all else, every sample-th is recorded; 0, 1: all */
	uint64_t interval_ns;  /* and none sooner than this after the last one; 0: all */
	char names[FILTER_NAMES][FILTER_NAME_LEN];
	struct filter_op op[FILTER_OPS];
	struct filter_range callers[FILTER_RANGES];
};

struct filter_input {
	uint32_t known; /* enum filter_need */
	uint32_t size;
	uint64_t old_value, new_value;
	int64_t tid;
	char name[FILTER_NAME_LEN]; /* padded with NUL */
	uint64_t reg[FILTER_REGS];  /* of the thread, behind the instruction that accessed */
};

_Static_assert(WREG_COUNT <= FILTER_REGS, "each has its place");

enum filter_answer { FILTER_DROP = 0, FILTER_PASS = 1, FILTER_UNDECIDED = 2 };

static inline bool filter_has_work(const struct wire_filter *f)
{
	return f->n || f->ncallers || f->nnot_callers || f->sample > 1 || f->interval_ns;
}

static inline int64_t filter_sign(uint64_t value, uint64_t bytes)
{
	unsigned int shift = (unsigned int)(64 - 8 * bytes) & 63;

	return (int64_t)(value << shift) >> shift;
}

/* IEEE 754: sign and magnitude; -0 and 0 become equal. */
static inline int64_t filter_float_key(uint64_t bits, uint64_t bytes)
{
	int64_t v = filter_sign(bits, bytes);
	uint64_t magnitude = (uint64_t)v & (bytes == 4 ? 0x7fffffffull : 0x7fffffffffffffffull);

	return v < 0 ? -(int64_t)magnitude : (int64_t)magnitude;
}

static inline bool filter_float_nan(uint64_t bits, uint64_t bytes)
{
	if (bytes == 4)
		return (bits & 0x7fffffffu) > 0x7f800000u;
	return (bits & 0x7fffffffffffffffull) > 0x7ff0000000000000ull;
}

static inline bool filter_name_is(const struct wire_filter *f, const struct filter_input *in, uint64_t which)
{
	const char *name = f->names[which & (FILTER_NAMES - 1)];
	unsigned int i;

	for (i = 0; i < FILTER_NAME_LEN; i++) {
		if (name[i] != in->name[i])
			return false;
		if (!name[i])
			break;
	}
	return true;
}

static inline int64_t filter_apply(const struct wire_filter *f, const struct filter_op *op,
				   const struct filter_input *in, int64_t a, int64_t b)
{
	uint64_t ua = (uint64_t)a, ub = (uint64_t)b;

	switch (op->code) {
	case FILTER_CONST:
		return op->imm;
	case FILTER_OLD:
		return (int64_t)in->old_value;
	case FILTER_NEW:
		return (int64_t)in->new_value;
	case FILTER_TID:
		return in->tid;
	case FILTER_SIZE:
		return in->size;
	case FILTER_NAME_IS:
		return filter_name_is(f, in, (uint64_t)op->imm);
	case FILTER_SIGN:
		return filter_sign(ua, (uint64_t)op->imm);
	case FILTER_FLOAT_KEY:
		return filter_float_key(ua, (uint64_t)op->imm);
	case FILTER_FLOAT_NAN:
		return filter_float_nan(ua, (uint64_t)op->imm);
	case FILTER_ADD:
		return (int64_t)(ua + ub);
	case FILTER_SUB:
		return (int64_t)(ua - ub);
	case FILTER_MUL:
		return (int64_t)(ua * ub);
	case FILTER_AND:
		return a & b;
	case FILTER_OR:
		return a | b;
	case FILTER_XOR:
		return a ^ b;
	case FILTER_LEFT:
		return (int64_t)(ua << (ub & 63));
	case FILTER_RIGHT:
		return (int64_t)(ua >> (ub & 63));
	case FILTER_RIGHT_SIGNED:
		return a >> (ub & 63);
	case FILTER_EQUAL:
		return a == b;
	case FILTER_LESS:
		return a < b;
	case FILTER_BELOW:
		return ua < ub;
	case FILTER_BOTH:
		return a && b;
	case FILTER_EITHER:
		return a || b;
	case FILTER_NOT:
		return !a;
	case FILTER_REG:
		return (int64_t)in->reg[(uint64_t)op->imm & (FILTER_REGS - 1)];
	default:
		return 1;
	}
}

/* The condition alone: callers, sample and interval are looked at later. @v: FILTER_OPS words of scratch. */
static inline enum filter_answer filter_condition(const struct wire_filter *f, const struct filter_input *in,
						  int64_t *v)
{
	int64_t last = 1;
	unsigned int i;

	if (!f->n)
		return FILTER_PASS;
	if (f->needs & ~in->known)
		return FILTER_UNDECIDED;
	for (i = 0; i < FILTER_OPS && i < f->n; i++) {
		const struct filter_op *op = &f->op[i];

		last = filter_apply(f, op, in, v[op->a & (FILTER_OPS - 1)], v[op->b & (FILTER_OPS - 1)]);
		v[i] = last;
	}
	return last ? FILTER_PASS : FILTER_DROP;
}

/* Bit 0: code at @pc belongs to the callers wanted; bit 1: to those not wanted. A return address: less one.
 */
static inline unsigned int filter_caller_bits(const struct wire_filter *f, uint64_t pc)
{
	unsigned int i, bits = 0;

	for (i = 0; i < FILTER_RANGES && i < f->ncallers + f->nnot_callers; i++)
		if (pc >= f->callers[i].start && pc < f->callers[i].end)
			bits |= i < f->ncallers ? 1 : 2;
	return bits;
}

/* From the bits of all frames, together. @more: there may be frames that were not found. */
static inline enum filter_answer filter_callers(const struct wire_filter *f, unsigned int bits, bool more)
{
	if (f->nnot_callers && (bits & 2))
		return FILTER_DROP;
	if (f->ncallers && !(bits & 1))
		return more ? FILTER_UNDECIDED : FILTER_DROP;
	return f->nnot_callers && more ? FILTER_UNDECIDED : FILTER_PASS;
}

#endif
