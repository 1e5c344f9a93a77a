/*
 * Location descriptions are read, not evaluated: a register, a slot of the caller's frame, memory that a
 * register points to, a constant, and pieces of these. What GCC and clang write for parameters at a
 * function's entry is of these forms; the rest (fbreg below the CFA, expressions over rbp) is about the frame
 * that the function makes later.
 */
#include "watchctl/code/dwarf/param_place.h"

#include <stdlib.h>
#include <string.h>

#include <dwarf.h>

#include "watchctl/code/dwarf/dwarf_names.h"
#include "watchctl/code/dwarf/dwarf_unit.h"
#include "watchctl/code/dwarf/param_class.h"
#include "watchctl/code/dwarf/static_owner.h"
#include "watchctl/code/elf/elffile.h"
#include "watchctl/code/regs.h"

#define DWARF_XMM0 17
#define DWARF_XMM15 32
#define OPS_MAX 64

struct param_places {
	struct elffile *file;
	struct dwarf_names *names;
	struct static_owners *statics; /* NULL: not asked for yet */
};

struct param_places *param_places_new(const struct module *m)
{
	struct param_places *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->file = elffile_new(m);
	p->names = p->file ? dwarf_names_new(p->file) : NULL;
	if (!p->names) {
		param_places_free(p);
		return NULL;
	}
	return p;
}

void param_places_free(struct param_places *p)
{
	if (!p)
		return;
	static_owners_free(p->statics);
	dwarf_names_free(p->names);
	elffile_free(p->file);
	free(p);
}

bool param_places_static(struct param_places *p, uint64_t vaddr, uint64_t *function)
{
	*function = 0;
	if (!p->statics)
		p->statics = static_owners_new(p->file);
	if (!p->statics)
		return false;
	static_owners_find(p->statics, vaddr, function);
	return true;
}

/* A description, or a part of one up to DW_OP_piece. */
struct ops {
	const Dwarf_Op *v;
	size_t n;
};

struct reading {
	Dwarf_Attribute *attr;
	bool is_list;	  /* it is said to hold at the entry, not all over the function */
	bool cfa_is_base; /* DW_OP_fbreg counts from the CFA */
	uint64_t bias;	  /* file address minus DWARF address */
};

static bool register_of(const Dwarf_Op *op, unsigned int *ret)
{
	if (op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31)
		*ret = op->atom - DW_OP_reg0;
	else if (op->atom == DW_OP_regx)
		*ret = (unsigned int)op->number;
	else
		return false;
	return true;
}

static bool base_register_of(const Dwarf_Op *op, unsigned int *reg, int64_t *offset)
{
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31) {
		*reg = op->atom - DW_OP_breg0;
		*offset = (int64_t)op->number;
	} else if (op->atom == DW_OP_bregx) {
		*reg = (unsigned int)op->number;
		*offset = (int64_t)op->number2;
	} else {
		return false;
	}
	return true;
}

static enum param_where put_register(unsigned int dwarf_reg, struct param_piece *ret)
{
	if (dwarf_reg <= WREG_R15)
		*ret = (struct param_piece){ .in = PARAM_IN_GPR, .reg = (uint8_t)dwarf_reg };
	else if (dwarf_reg >= DWARF_XMM0 && dwarf_reg <= DWARF_XMM15)
		*ret = (struct param_piece){ .in = PARAM_IN_XMM, .reg = (uint8_t)(dwarf_reg - DWARF_XMM0) };
	else
		return PARAM_COMPUTED;
	return PARAM_IN_PIECES;
}

/* The CFA is rsp + 8 at the entry; below it lies what the function is yet to make. */
static enum param_where put_from_cfa(int64_t offset, struct param_piece *ret)
{
	if (offset < 0 || offset > INT16_MAX)
		return PARAM_BY_CONVENTION;
	*ret = (struct param_piece){ .in = PARAM_ON_STACK, .offset = (int32_t)offset + 8 };
	return PARAM_IN_PIECES;
}

/* A value, with DW_OP_stack_value, or an address without. */
static enum param_where put_based(const struct reading *r, unsigned int reg, int64_t offset, bool is_value,
				  struct param_piece *ret)
{
	if (is_value)
		return offset ? PARAM_COMPUTED : put_register(reg, ret);
	if (!r->is_list || reg == WREG_RBP)
		return PARAM_BY_CONVENTION;
	if (reg > WREG_R15 || offset < INT32_MIN || offset > INT32_MAX)
		return PARAM_COMPUTED;
	if (reg == WREG_RSP) {
		if (offset < 8)
			return PARAM_COMPUTED;
		*ret = (struct param_piece){ .in = PARAM_ON_STACK, .offset = (int32_t)offset };
	} else {
		*ret = (struct param_piece){ .in = PARAM_IN_MEMORY,
					     .reg = (uint8_t)reg,
					     .offset = (int32_t)offset };
	}
	return PARAM_IN_PIECES;
}

/* DW_OP_entry_value: at the entry it is what it names. */
static enum param_where put_entry_value(const struct reading *r, const Dwarf_Op *op, struct param_piece *ret)
{
	Dwarf_Attribute inner;
	Dwarf_Op *v;
	size_t n;
	unsigned int reg;

	if (dwarf_getlocation_attr(r->attr, op, &inner) != 0 || dwarf_getlocation(&inner, &v, &n) != 0 ||
	    n != 1 || !register_of(v, &reg))
		return PARAM_COMPUTED;
	return put_register(reg, ret);
}

static bool constant_of(const struct reading *r, const Dwarf_Op *op, struct param_place *ret)
{
	Dwarf_Block block;

	ret->constant_len = 8;
	if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31)
		ret->constant = op->atom - DW_OP_lit0;
	else if (op->atom >= DW_OP_const1u && op->atom <= DW_OP_consts)
		ret->constant = op->number;
	else if (op->atom == DW_OP_addr) {
		ret->constant = op->number + r->bias;
		ret->is_address = true;
	} else if (op->atom == DW_OP_implicit_value &&
		   dwarf_getlocation_implicit_value(r->attr, op, &block) == 0 && block.length &&
		   block.length <= 8) {
		ret->constant = 0;
		memcpy(&ret->constant, block.data, block.length);
		ret->constant_len = (uint8_t)block.length;
	} else {
		return false;
	}
	return true;
}

static bool is_plus(const Dwarf_Op *op)
{
	return op->atom == DW_OP_plus_uconst;
}

/* One part of a description; the constant goes to @whole, and is one only without DW_OP_piece. */
static enum param_where put_part(const struct reading *r, struct ops part, struct param_place *whole,
				 struct param_piece *ret)
{
	bool is_value = part.n && part.v[part.n - 1].atom == DW_OP_stack_value;
	const Dwarf_Op *op = part.v;
	size_t n = part.n - (is_value ? 1 : 0);
	unsigned int reg;
	int64_t offset;

	if (!n)
		return PARAM_OPTIMIZED_OUT;
	if (op->atom == DW_OP_implicit_pointer || op->atom == DW_OP_GNU_implicit_pointer)
		return PARAM_OPTIMIZED_OUT;
	if (n == 1 && !is_value && register_of(op, &reg))
		return put_register(reg, ret);
	if (n == 1 && (op->atom == DW_OP_entry_value || op->atom == DW_OP_GNU_entry_value))
		return put_entry_value(r, op, ret);
	if (n == 1 && (is_value || op->atom == DW_OP_implicit_value) && constant_of(r, op, whole))
		return PARAM_CONSTANT;
	if (n == 1 && base_register_of(op, &reg, &offset))
		return put_based(r, reg, offset, is_value, ret);
	if (is_value)
		return PARAM_COMPUTED;
	if (op->atom == DW_OP_fbreg)
		return n == 1 && r->cfa_is_base ? put_from_cfa((int64_t)op->number, ret)
						: PARAM_BY_CONVENTION;
	if (op->atom == DW_OP_call_frame_cfa && n == 1)
		return put_from_cfa(0, ret);
	if (op->atom == DW_OP_call_frame_cfa && n == 2 && is_plus(op + 1))
		return put_from_cfa((int64_t)op[1].number, ret);
	return r->is_list ? PARAM_COMPUTED : PARAM_BY_CONVENTION;
}

static enum param_where put_pieces(const struct reading *r, struct ops all, struct param_place *ret)
{
	size_t from = 0;

	for (size_t i = 0; i < all.n; i++) {
		struct param_piece *piece = &ret->piece[ret->npieces];
		enum param_where where;

		if (all.v[i].atom != DW_OP_piece)
			continue;
		if (ret->npieces == PARAM_PIECES || all.v[i].number > UINT16_MAX)
			return PARAM_COMPUTED;
		where = put_part(r, (struct ops){ all.v + from, i - from }, ret, piece);
		if (where == PARAM_CONSTANT)
			return PARAM_COMPUTED;
		if (where != PARAM_IN_PIECES)
			return where;
		piece->size = (uint16_t)all.v[i].number;
		ret->npieces++;
		from = i + 1;
	}
	return from == all.n ? PARAM_IN_PIECES : PARAM_COMPUTED;
}

static enum param_where put_location(const struct reading *r, struct ops all, struct param_place *ret)
{
	enum param_where where;

	for (size_t i = 0; i < all.n; i++)
		if (all.v[i].atom == DW_OP_piece)
			return put_pieces(r, all, ret);
		else if (all.v[i].atom == DW_OP_bit_piece)
			return PARAM_COMPUTED;
	where = put_part(r, all, ret, &ret->piece[0]);
	ret->npieces = where == PARAM_IN_PIECES;
	return where;
}

static bool frame_base_is_cfa(Dwarf_Die *function)
{
	Dwarf_Attribute mem;
	Dwarf_Op *op;
	size_t n;

	return dwarf_attr_integrate(function, DW_AT_frame_base, &mem) &&
	       dwarf_getlocation(&mem, &op, &n) == 0 && n == 1 && op->atom == DW_OP_call_frame_cfa;
}

static enum param_where constant_value(Dwarf_Attribute *attr, struct param_place *ret)
{
	Dwarf_Block block;
	int64_t number;

	if (dwarf_attr_number(attr, &number)) {
		ret->constant = (uint64_t)number;
		ret->constant_len = 8;
		return PARAM_CONSTANT;
	}
	if (dwarf_formblock(attr, &block) != 0 || !block.length || block.length > 8)
		return PARAM_COMPUTED;
	memcpy(&ret->constant, block.data, block.length);
	ret->constant_len = (uint8_t)block.length;
	return PARAM_CONSTANT;
}

/* @entry: DWARF address. */
static enum param_where find_place(Dwarf_Die *die, uint64_t entry, struct reading r, struct param_place *ret)
{
	Dwarf_Attribute attr;
	Dwarf_Op *op;
	size_t n;
	int found;

	r.attr = &attr;
	if (dwarf_attr_integrate(die, DW_AT_const_value, &attr))
		return constant_value(&attr, ret);
	if (!dwarf_attr_integrate(die, DW_AT_location, &attr))
		return PARAM_OPTIMIZED_OUT;
	if (dwarf_attr_location(&attr, &op, &n) == 0)
		return n ? put_location(&r, (struct ops){ op, n }, ret) : PARAM_OPTIMIZED_OUT;
	r.is_list = true;
	found = dwarf_getlocation_addr(&attr, entry, &op, &n, 1);
	if (found < 0)
		return PARAM_COMPUTED;
	return found && n ? put_location(&r, (struct ops){ op, n }, ret) : PARAM_BY_CONVENTION;
}

static void find_type_facts(Dwarf_Die *die, struct param_type_facts *ret)
{
	Dwarf_Die type;
	const char *name;
	Dwarf_Word n;

	if (!param_type_of(die, &type))
		return;
	name = dwarf_diename(&type);
	ret->passing = param_passing_of(&type);
	if (dwarf_die_number(&type, DW_AT_alignment, &n))
		ret->align = (uint32_t)n;
	ret->is_quad = dwarf_tag(&type) == DW_TAG_base_type && name && dwarf_bytesize(&type) == 16 &&
		       (strcmp(name, "_Float128") == 0 || strcmp(name, "__float128") == 0);
}

static void find_declaration(Dwarf_Die *die, Dwarf_Die *unit, struct function_places *ret)
{
	const char *path = dwarf_die_decl_file(die, unit);
	Dwarf_Word line;

	if (!path || !dwarf_die_number(die, DW_AT_decl_line, &line))
		return;
	ret->file = dwarf_unit_short_path(unit, path);
	ret->line = (uint32_t)line;
}

bool param_places_find(struct param_places *p, uint64_t vaddr, struct function_places *ret)
{
	Dwarf_Die function, unit, die;
	struct reading r = { 0 };
	Dwarf_Word language, n;
	uint64_t bias;

	memset(ret, 0, sizeof(*ret));
	if (!dwarf_names_function(p->names, vaddr, &function, &unit, &bias))
		return false;
	if (dwarf_die_number(&unit, DW_AT_language, &language)) {
		ret->is_rust = language == DW_LANG_Rust;
		ret->is_go = language == DW_LANG_Go;
	}
	ret->is_external = dwarf_die_flag(&function, DW_AT_external);
	ret->is_nocall = dwarf_die_number(&function, DW_AT_calling_convention, &n) && n == DW_CC_nocall;
	find_declaration(&function, &unit, ret);
	find_type_facts(&function, &ret->result);
	r.cfa_is_base = frame_base_is_cfa(&function);
	r.bias = bias;
	if (dwarf_child(&function, &die) != 0)
		return true;
	do {
		struct param_place *param = &ret->param[ret->nparams];

		if (dwarf_tag(&die) != DW_TAG_formal_parameter ||
		    dwarf_die_flag(&die, DW_AT_variable_parameter))
			continue;
		if (ret->nparams == PARAM_PLACES_MAX)
			break;
		param->name = dwarf_diename(&die);
		find_type_facts(&die, &param->type);
		param->where = find_place(&die, vaddr - bias, r, param);
		ret->nparams++;
	} while (dwarf_siblingof(&die, &die) == 0);
	return true;
}
