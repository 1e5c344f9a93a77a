/*
 * A walk forward over what can be reached from the first instruction, with the set of registers that were
 * written on the way there. Jumps are followed wherever they go: one that leaves the function is a tail call,
 * which passes its registers on. Calls end a path, for all argument registers are the callee's to change; a
 * register that nobody has written until then counts if the callee reads it, and then only if its code is
 * known.
 *
 * The code of a variadic function saves all registers that could hold an argument, whether one is there or
 * not: what is merely stored to the stack does not count. Code without optimisation stores all its parameters
 * there too, at rbp, which does, unless a test of al shows it to be variadic.
 */
#include "watchctl/code/insn/live_in.h"

#include <string.h>

#include "watchctl/code/insn/code_paths.h"
#include "watchctl/code/insn/insn.h"
#include "watchctl/code/insn/insn_regs.h"
#include "watchctl/code/regs.h"

#define INSNS_MAX 2000u /* of a function and its callees */
#define CALLEES_MAX 24u
#define DEPTH_MAX 2u

#define GPRS 6
#define ALL 0x3fffu /* a set: bits 0..5 general, 6..13 vector registers */
#define WIDE 14

static const uint8_t param_gpr[GPRS] = { WREG_RDI, WREG_RSI, WREG_RDX, WREG_RCX, WREG_R8, WREG_R9 };

struct budget {
	unsigned int callees, insns;
};

struct walk {
	const struct code_view *code;
	unsigned int depth;
	struct budget *left;
	struct code_paths paths; /* with what was written on each way there */
	uint32_t read, saved;	 /* with the general registers that are read whole in bits WIDE on */
	bool al_written, is_variadic;
};

static uint32_t set_of(uint32_t gprs, uint32_t vectors)
{
	uint32_t set = (vectors & 0xff) << GPRS;

	for (unsigned int i = 0; i < GPRS; i++)
		if (gprs >> param_gpr[i] & 1)
			set |= 1u << i;
	return set;
}

/* What is in @set and not in @written, together with how it is read. */
static uint32_t unwritten(uint32_t set, uint32_t written)
{
	return set & ~(written | (written & 0x3f) << WIDE);
}

static uint32_t live_set(const struct code_view *code, uint64_t addr, unsigned int depth,
			 struct budget *left);

static void call(struct walk *w, const struct insn *i, uint32_t written)
{
	if (!i->has_target || w->depth == DEPTH_MAX || !w->left->callees || (written & ALL) == ALL)
		return;
	w->left->callees--;
	w->read |= unwritten(live_set(w->code, i->target, w->depth + 1, w->left), written);
}

/* The effect of one instruction on the sets. */
static void live_in_look(struct walk *w, const struct insn_regs *r, uint32_t *written)
{
	uint32_t wide = set_of(r->wide_reads, 0) << WIDE;
	uint32_t reads = unwritten(set_of(r->reads, r->vector_reads) | wide, *written);

	if (r->saves_at_rbp)
		w->saved |= reads;
	else if (!r->pushes && !r->saves_at_rsp)
		w->read |= reads;
	if ((r->reads >> WREG_RAX & 1) && !w->al_written && !r->writes)
		w->is_variadic = true;
	if (r->writes >> WREG_RAX & 1)
		w->al_written = true;
	*written |= set_of(r->writes, r->vector_writes);
}

/* Follows one path up to its end, or to where another one was before. */
static void live_in_follow(struct walk *w, struct code_path p)
{
	struct insn_regs regs;
	struct insn i;

	while (w->left->insns && p.holds != ALL && code_paths_is_new(&w->paths, p.at, &p.holds)) {
		if (!code_view_decode(w->code, p.at, &i, &regs))
			return;
		w->left->insns--;
		live_in_look(w, &regs, &p.holds);
		if (i.is_call) {
			call(w, &i, p.holds);
			return;
		}
		if (i.is_ret || (i.is_jmp && !i.is_cond && !i.has_target))
			return;
		if (i.is_jmp && i.has_target && i.is_cond)
			code_paths_add(&w->paths, i.target, p.holds);
		p.at = i.is_jmp && !i.is_cond ? i.target : p.at + i.len;
	}
}

/* push rbp; mov rbp, rsp: the first that code without optimisation does. */
static bool begins_with_frame(const struct code_view *code, uint64_t addr)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa }, frame[] = { 0x55, 0x48, 0x89, 0xe5 };
	const uint8_t *bytes;
	size_t n = code->bytes(code->ctx, addr, &bytes);

	if (n >= sizeof(endbr64) && memcmp(bytes, endbr64, sizeof(endbr64)) == 0) {
		bytes += sizeof(endbr64);
		n -= sizeof(endbr64);
	}
	return n >= sizeof(frame) && memcmp(bytes, frame, sizeof(frame)) == 0;
}

static uint32_t live_set(const struct code_view *code, uint64_t addr, unsigned int depth, struct budget *left)
{
	struct walk w = { .code = code, .depth = depth, .left = left };
	struct code_path p;

	code_paths_add(&w.paths, addr, 0);
	while (code_paths_take(&w.paths, &p))
		live_in_follow(&w, p);
	code_paths_deinit(&w.paths);
	if (!w.is_variadic && !depth && begins_with_frame(code, addr))
		w.read |= w.saved;
	return w.read;
}

struct live_in live_in_find(const struct code_view *code, uint64_t addr)
{
	struct budget left = { CALLEES_MAX, INSNS_MAX };
	uint32_t set = live_set(code, addr, 0, &left);

	return (struct live_in){ (uint8_t)(set & 0x3f), (uint8_t)(set >> WIDE), (uint8_t)(set >> GPRS) };
}
