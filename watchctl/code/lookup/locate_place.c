/* Part of locate_index: what DWARF says about one entry. */
#include "watchctl/code/lookup/locate_index.h"

#include <string.h>

#include "watchctl/code/dwarf/dwarf_unit.h"

static bool is_segment_address(struct locate_index *x, uint64_t vaddr)
{
	Elf *elf = elffile_elf(locate_index_file(x));
	size_t n = 0;

	if (!elf || elf_getphdrnum(elf, &n) != 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr mem, *ph = gelf_getphdr(elf, (int)i, &mem);

		if (ph && ph->p_type == PT_LOAD && vaddr >= ph->p_vaddr && vaddr - ph->p_vaddr < ph->p_memsz)
			return vaddr != 0;
	}
	return false;
}

/*
 * Whether the symbols contradict that @die is the first of the thread-local variables: offset 0 is also what
 * linkers write for those that they left out.
 */
static bool is_discarded(struct locate_index *x, Dwarf_Die *die)
{
	struct symbols *table = locate_index_symbols(x);
	const char *name = dwarf_die_linkage_name(die);
	const struct symbol *v;
	size_t n = 0, at_zero = 0;

	if (!name)
		name = dwarf_diename(die);
	v = table ? symbols_all(table, &n) : NULL;
	for (size_t i = 0; i < n && name; i++) {
		if (v[i].use != SYMBOL_TLS || v[i].addr)
			continue;
		/* "calls.0", "flag@@VERSION", "_ZZ1fvE5calls" */
		if (strstr(v[i].name, name))
			return false;
		at_zero++;
	}
	return at_zero > 0;
}

/*
 * What DWARF says of a thread-local variable -> the offset in its module's block. GCC writes the address in
 * the image of the block, where it should write the offset, if the debug information is split (R_X86_64_64 in
 * .debug_addr); the two cannot be confused, since the image lies behind the headers.
 */
static enum variable_place tls_offset(struct locate_index *x, uint64_t value, uint64_t *ret)
{
	Elf *elf = elffile_elf(locate_index_file(x));
	size_t n = 0;

	if (!elf || elf_getphdrnum(elf, &n) != 0)
		return PLACE_COMPLEX;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr mem, *ph = gelf_getphdr(elf, (int)i, &mem);

		if (!ph || ph->p_type != PT_TLS)
			continue;
		if (value >= ph->p_memsz && value >= ph->p_vaddr)
			value -= ph->p_vaddr;
		*ret = value;
		return value < ph->p_memsz ? PLACE_TLS : PLACE_DISCARDED;
	}
	return PLACE_DISCARDED;
}

static bool op_is_tls(const Dwarf_Op *op)
{
	return op->atom == DW_OP_form_tls_address || op->atom == DW_OP_GNU_push_tls_address;
}

/* What the first operation of a location that is no address shows. */
static enum variable_place place_without_address(const Dwarf_Op *op)
{
	if ((op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31) || op->atom == DW_OP_regx)
		return PLACE_REGISTER;
	if (op->atom == DW_OP_fbreg || op->atom == DW_OP_call_frame_cfa || op->atom == DW_OP_bregx ||
	    (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31))
		return PLACE_STACK;
	if (op->atom == DW_OP_implicit_value || op->atom == DW_OP_implicit_pointer ||
	    op->atom == DW_OP_GNU_implicit_pointer || (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31))
		return PLACE_CONSTANT;
	return PLACE_COMPLEX;
}

/* The number that an operation pushes. False: it does something else. */
static bool constant_of_op(Dwarf_Attribute *attr, const Dwarf_Op *op, uint64_t *ret)
{
	Dwarf_Attribute indexed;

	if (op->atom == DW_OP_addr || (op->atom >= DW_OP_const1u && op->atom <= DW_OP_consts)) {
		*ret = op->number;
		return true;
	}
	if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31) {
		*ret = (uint64_t)(op->atom - DW_OP_lit0);
		return true;
	}
	/* Split DWARF keeps it in a table of the main file. */
	return dwarf_getlocation_attr(attr, op, &indexed) == 0 &&
	       (dwarf_formaddr(&indexed, ret) == 0 || dwarf_formudata(&indexed, ret) == 0);
}

/* An offset in the block of the module's thread-local variables, perhaps plus a constant. */
static enum variable_place place_of_tls(Dwarf_Attribute *attr, Dwarf_Op *op, size_t n, uint64_t *ret)
{
	if (n < 2 || !op_is_tls(&op[1]) || !constant_of_op(attr, &op[0], ret))
		return PLACE_COMPLEX;
	for (size_t i = 2; i < n; i++) {
		if (op[i].atom != DW_OP_plus_uconst)
			return PLACE_COMPLEX;
		*ret += op[i].number;
	}
	return PLACE_TLS;
}

/* An address, perhaps plus a constant: what compilers write for a variable with a fixed place. */
static enum variable_place place_of_ops(Dwarf_Attribute *attr, Dwarf_Op *op, size_t n, uint64_t *ret)
{
	Dwarf_Attribute addr;

	for (size_t i = 0; i < n; i++)
		if (op_is_tls(&op[i]))
			return place_of_tls(attr, op, n, ret);
	if (op[0].atom == DW_OP_addr)
		*ret = op[0].number;
	else if (dwarf_getlocation_attr(attr, &op[0], &addr) != 0 || dwarf_formaddr(&addr, ret) != 0)
		return place_without_address(&op[0]);
	for (size_t i = 1; i < n; i++) {
		if (op[i].atom == DW_OP_stack_value)
			return PLACE_CONSTANT;
		if (op[i].atom == DW_OP_plus_uconst)
			*ret += op[i].number;
		else
			return PLACE_COMPLEX;
	}
	return PLACE_ADDRESS;
}

enum variable_place locate_index_place(struct locate_index *x, Dwarf_Die *die, uint64_t *ret)
{
	Dwarf_Attribute mem, *attr = dwarf_attr_integrate(die, DW_AT_location, &mem);
	enum variable_place place;
	uint64_t addr = 0, bias;
	Dwarf_Op *op;
	size_t n;

	if (!attr) {
		if (dwarf_attr_integrate(die, DW_AT_const_value, &mem))
			return PLACE_CONSTANT;
		return dwarf_hasattr(die, DW_AT_declaration) ? PLACE_DECLARATION : PLACE_OPTIMISED;
	}
	/* A list of places, each for a part of the function. */
	if (dwarf_attr_location(attr, &op, &n) != 0)
		return PLACE_STACK;
	if (!n)
		return PLACE_OPTIMISED;
	place = place_of_ops(attr, op, n, &addr);
	if (place == PLACE_TLS)
		place = tls_offset(x, addr, ret);
	if (place == PLACE_TLS && *ret == 0 && is_discarded(x, die))
		return PLACE_DISCARDED;
	if (place != PLACE_ADDRESS)
		return place;
	locate_index_dwarf(x, &bias);
	if (!is_segment_address(x, addr + bias))
		return PLACE_DISCARDED;
	*ret = addr + bias;
	return PLACE_ADDRESS;
}
