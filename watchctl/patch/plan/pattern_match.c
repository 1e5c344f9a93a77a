#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/bisect.h"
#include "watchctl/code/insn/insn.h"
#include "watchctl/code/insn/insn_regs.h"
#include "watchctl/code/insn/insn_view.h"
#include "watchctl/code/reg_names.h"
#include "watchctl/patch/plan/pattern.h"

/* One instruction that is being compared. */
struct candidate {
	const uint8_t *bytes;
	uint64_t addr;
	const struct insn_brief *brief;
	const struct pattern_binding *names; /* NULL: they stand for nothing */
	bool disputed;			     /* capstone takes it for one of another length */
};

/* Memory */

static bool same_name(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

/* As it is written: base, index and displacement in their places; an index of scale 1 may stand in either. */
static bool fits_place(const struct pattern_memory *m, const char *base, const char *index, uint8_t scale,
		       int64_t disp)
{
	bool plain = same_name(m->base, base) && same_name(m->index, index) && (!index || m->scale == scale);
	bool swapped = m->scale <= 1 && scale == 1 && same_name(m->base, index) && same_name(m->index, base);

	if (!m->rest)
		return (plain || swapped) && m->disp == disp;
	if (m->base && !same_name(m->base, base) && !(scale == 1 && same_name(m->base, index)))
		return false;
	if (m->index && !(same_name(m->index, index) && m->scale == scale) &&
	    !(scale == 1 && m->scale <= 1 && same_name(m->index, base)))
		return false;
	return !m->disp || m->disp == disp;
}

static const char *reg_text(int8_t reg)
{
	static const char *const names[] = { "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8",
					     "r9",  "r10", "r11", "r12", "r13", "r14", "r15", "rip" };

	return reg >= 0 && (size_t)reg < sizeof(names) / sizeof(*names) ? names[reg] : NULL;
}

static bool accesses(const struct insn_mem *m, enum access_kind kind)
{
	return m->kind == (uint8_t)kind || m->kind == ACCESS_READWRITE;
}

static bool fits_access(const struct candidate *c, const struct pattern_memory *m, enum access_kind kind)
{
	struct insn i;

	if (!insn_decode(c->bytes, c->brief->len, c->addr, &i))
		return false;
	for (uint8_t k = 0; k < i.nmem; k++) {
		const struct insn_mem *have = &i.mem[k];

		if (accesses(have, kind) && (!m->size || m->size == have->size) && have->base != -2 &&
		    have->index != -2 &&
		    fits_place(m, reg_text(have->base), reg_text(have->index), have->scale, have->disp))
			return true;
	}
	return false;
}

/* What push and call write is the stack, which is not what is looked for. */
static bool is_store(const struct candidate *c)
{
	struct insn i;

	if (!insn_decode(c->bytes, c->brief->len, c->addr, &i) || i.is_call || i.undo == INSN_UNDO_PUSH)
		return false;
	for (uint8_t k = 0; k < i.nmem; k++)
		if (accesses(&i.mem[k], ACCESS_WRITE))
			return true;
	return false;
}

/* In any width: the low bytes of zmm3 are ymm3, and of that xmm3. */
static bool uses_vector(const struct candidate *c, const char *name, bool written)
{
	const unsigned long n = strtoul(name + 3, NULL, 10);
	struct insn_regs regs;

	return n < 32 && insn_regs_find(c->bytes, c->brief->len, &regs) &&
	       (written ? regs.vector_writes : regs.vector_reads) >> n & 1;
}

static bool uses_register(const struct candidate *c, const char *name, bool written)
{
	struct insn_regs regs;
	struct reg_name reg;
	struct insn i;

	if (pattern_is_vector(name))
		return uses_vector(c, name, written);
	if (!reg_by_name(name, &reg))
		return false;
	if (written)
		return insn_decode(c->bytes, c->brief->len, c->addr, &i) && i.writes >> reg.reg & 1;
	return insn_regs_find(c->bytes, c->brief->len, &regs) && regs.reads >> reg.reg & 1;
}

static bool fits_use(const struct candidate *c, const struct pattern_element *e)
{
	bool written = e->kind == ELEMENT_WRITES;

	if (e->operand[0].kind == OPERAND_MEM)
		return fits_access(c, &e->operand[0].mem, written ? ACCESS_WRITE : ACCESS_READ);
	return uses_register(c, e->operand[0].name, written);
}

/* Operands */

static bool fits_class(const char *class, const struct insn_view_operand *o)
{
	if (o->kind != INSN_VIEW_REG || !o->reg)
		return false;
	if (!strncmp(class, "reg", 3))
		return !pattern_is_vector(o->reg) && (!class[3] || atoi(class + 3) == 8 * o->size);
	return pattern_is_vector(o->reg) && (!strcmp(class, "vec") || !strncmp(class, o->reg, 3));
}

void pattern_binding_deinit(struct pattern_binding *b)
{
	for (size_t i = 0; i < b->nnames; i++)
		free(b->name[i].addr);
	free(b->name);
	*b = (struct pattern_binding){ 0 };
}

static bool holds_address(const struct bound_name *n, uint64_t addr)
{
	size_t low = BISECT(n->n, i, n->addr[i] < addr);
	return low < n->n && n->addr[low] == addr;
}

/* Whether the name stands for @addr. A pattern has a few names at most. */
static bool stands_for(const struct pattern_binding *b, const struct pattern_operand *o, uint64_t addr)
{
	for (size_t i = 0; b && i < b->nnames; i++)
		if (b->name[i].operand == o)
			return holds_address(&b->name[i], addr);
	return false;
}

/* Where a call or jump goes: directly, or through a pointer of the dynamic linker's. */
static bool fits_name(const struct pattern_operand *o, const struct candidate *c)
{
	const struct insn_brief *i = c->brief;

	if (i->flow != INSN_CALL && i->flow != INSN_JUMP && i->flow != INSN_COND)
		return false;
	return i->has_target ? stands_for(c->names, o, i->target)
			     : i->has_rip && stands_for(c->names, o, i->refers);
}

static bool fits_operand(const struct pattern_operand *o, const struct insn_view_operand *have,
			 const struct candidate *c)
{
	switch (o->kind) {
	case OPERAND_ANY:
		return true;
	case OPERAND_REG:
		return have->kind == INSN_VIEW_REG && same_name(o->name, have->reg);
	case OPERAND_CLASS:
		return fits_class(o->name, have);
	case OPERAND_IMM:
		return have->kind == INSN_VIEW_IMM;
	case OPERAND_NUMBER:
		return have->kind == INSN_VIEW_IMM && have->imm == o->number;
	case OPERAND_MEM:
		return have->kind == INSN_VIEW_MEM && (!o->mem.size || o->mem.size == have->size) &&
		       fits_place(&o->mem, have->base, have->index, have->scale, have->disp);
	default:
		return fits_name(o, c);
	}
}

static bool fits_operands(const struct pattern_element *e, const struct insn_view *view,
			  const struct candidate *c)
{
	if (view->noperands != e->noperands)
		return false;
	for (size_t i = 0; i < e->noperands; i++)
		if (!fits_operand(&e->operand[i], &view->operand[i], c))
			return false;
	return true;
}

/* Elements */

/* repe and repz are one, as rep is on the instructions that do not compare. */
static bool has_prefix(const char *prefixes, const char *wanted)
{
	static const char *const same[][3] = { { "rep", "repe", "repz" }, { "repne", "repnz", "repnz" } };

	if (strstr(prefixes, wanted))
		return strcmp(wanted, "rep") != 0 || !strstr(prefixes, "repn");
	for (size_t i = 0; i < 2; i++)
		for (size_t k = 0; k < 3; k++)
			for (size_t j = 0; !strcmp(wanted, same[i][k]) && j < 3; j++)
				if (!strcmp(prefixes, same[i][j]))
					return true;
	return false;
}

/* What the sweep's few facts rule out: most of all instructions. */
static bool may_fit(const struct pattern_element *e, const struct insn_brief *i)
{
	switch (e->kind) {
	case ELEMENT_INSN:
		return e->may[i->name] && (!e->prefix || strcmp(e->prefix, "lock") != 0 || i->is_locked);
	case ELEMENT_CALL:
		return i->flow == INSN_CALL;
	case ELEMENT_BRANCH:
		return i->flow == INSN_JUMP || i->flow == INSN_COND;
	case ELEMENT_SYSCALL:
		return i->is_syscall;
	case ELEMENT_LOCKED:
		return i->is_locked;
	case ELEMENT_RET:
		return i->flow == INSN_RET;
	default:
		return true;
	}
}

/* The name as capstone has it, or as Zydis has it: `jne` and `jnz`. */
static bool fits_name_of(const struct pattern_element *e, const struct insn_view *view,
			 const struct insn_brief *i)
{
	const char *known = insn_scan_name(i->name);

	if (!fnmatch(e->name, view->name, 0) || !fnmatch(e->name, known, 0))
		return true;
	/* A third name of a condition, jnae; of others, like movabs, capstone says which of them it is. */
	return i->flow == INSN_COND || !strncmp(known, "set", 3) || !strncmp(known, "cmov", 4);
}

static bool fits_view(const struct pattern_element *e, struct candidate *c)
{
	struct insn_view view;

	/* What capstone does not know, it has no other opinion about. */
	if (!insn_view(c->bytes, INSN_MAX, c->addr,
		       e->noperands && e->kind != ELEMENT_READS && e->kind != ELEMENT_WRITES, &view))
		return !e->noperands && !e->prefix &&
		       (e->kind != ELEMENT_INSN || !fnmatch(e->name, insn_scan_name(c->brief->name), 0));
	c->disputed = view.len != c->brief->len;
	if (e->kind == ELEMENT_INSN && !fits_name_of(e, &view, c->brief))
		return false;
	if (e->prefix && !has_prefix(view.prefixes, e->prefix))
		return false;
	return !view.has_operands || fits_operands(e, &view, c);
}

static bool element_fits(const struct pattern_element *e, struct candidate *c)
{
	if (!may_fit(e, c->brief))
		return false;
	if ((e->kind == ELEMENT_READS || e->kind == ELEMENT_WRITES) && !fits_use(c, e))
		return false;
	if (e->kind == ELEMENT_STORE && !is_store(c))
		return false;
	return fits_view(e, c);
}

static enum pattern_match match_mask(const struct pattern *p, const uint8_t *code, size_t len)
{
	if (len < p->nbytes)
		return PATTERN_NO;
	for (size_t i = 0; i < p->nbytes; i++)
		if ((code[i] & p->mask[i]) != p->byte[i])
			return PATTERN_NO;
	return PATTERN_FITS;
}

enum pattern_match pattern_match(const struct pattern *p, const struct pattern_binding *names,
				 const uint8_t *code, size_t len, uint64_t addr,
				 const struct insn_brief *first)
{
	struct insn_brief i = *first;
	bool disputed = false;
	size_t at = 0;

	if (p->kind == PATTERN_MASK)
		return match_mask(p, code, len);
	for (size_t k = 0; k < p->nelements; k++) {
		uint8_t padded[INSN_MAX] = { 0 };
		struct candidate c = { padded, addr + at, &i, names, false };

		if (k && (at >= len || !insn_scan(code + at, len - at, addr + at, &i)))
			return PATTERN_NO;
		if (!may_fit(&p->element[k], &i))
			return PATTERN_NO;
		memcpy(padded, code + at, len - at < INSN_MAX ? len - at : INSN_MAX);
		if (!element_fits(&p->element[k], &c))
			return PATTERN_NO;
		disputed |= c.disputed;
		at += i.len;
	}
	return disputed ? PATTERN_DISPUTED : PATTERN_FITS;
}
