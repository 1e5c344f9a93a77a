#include "watchctl/code/dwarf/dwarf_unit.h"

#include <string.h>

bool dwarf_unit_next(Dwarf *dwarf, struct dwarf_unit_iter *it, Dwarf_Die *ret)
{
	Dwarf_Half version;
	Dwarf_Die cu, split;
	uint8_t type;

	while (dwarf_get_units(dwarf, it->cu, &it->cu, &version, &type, &cu, &split) == 0) {
		if (type == DW_UT_skeleton && split.addr)
			*ret = split;
		else if (dwarf_tag(&cu) == DW_TAG_compile_unit)
			*ret = cu;
		else
			continue;
		it->skeleton = cu;
		return true;
	}
	return false;
}

static const char *unit_string(Dwarf_Die *cu, unsigned int attr)
{
	Dwarf_Attribute mem;

	return dwarf_formstring(dwarf_attr(cu, attr, &mem));
}

const char *dwarf_missing_split(Dwarf *dwarf)
{
	Dwarf_CU *unit = NULL;
	Dwarf_Half version;
	Dwarf_Die cu, split;
	uint8_t type;

	while (dwarf_get_units(dwarf, unit, &unit, &version, &type, &cu, &split) == 0) {
		const char *name =
			type == DW_UT_skeleton && !split.addr ? unit_string(&cu, DW_AT_dwo_name) : NULL;

		if (type == DW_UT_skeleton && !split.addr && !name)
			name = unit_string(&cu, DW_AT_GNU_dwo_name);
		if (name)
			return name;
	}
	return NULL;
}

const char *dwarf_unit_short_path(Dwarf_Die *cu, const char *path)
{
	const char *name = unit_string(cu, DW_AT_name), *dir = unit_string(cu, DW_AT_comp_dir);
	size_t len = dir ? strlen(dir) : 0;

	if (!name || name[0] == '/' || !len || strncmp(path, dir, len) != 0 || path[len] != '/')
		return path;
	path += len + 1;
	while (strncmp(path, "./", 2) == 0)
		path += 2;
	return path;
}

const char *dwarf_unit_file(Dwarf_Die *cu, Dwarf_Word index)
{
	Dwarf_Files *files;
	size_t n;

	if (dwarf_getsrcfiles(cu, &files, &n) != 0 || index >= n)
		return NULL;
	return dwarf_filesrc(files, index, NULL, NULL);
}

const char *dwarf_die_decl_file(Dwarf_Die *die, Dwarf_Die *unit)
{
	Dwarf_Attribute mem;
	Dwarf_Word index;
	Dwarf_Die cu;

	if (dwarf_formudata(dwarf_attr_integrate(die, DW_AT_decl_file, &mem), &index) != 0 ||
	    !dwarf_cu_die(mem.cu, &cu, NULL, NULL, NULL, NULL, NULL, NULL))
		return NULL;
	if (unit)
		*unit = cu;
	return dwarf_unit_file(&cu, index);
}

bool dwarf_die_number(Dwarf_Die *die, unsigned int attr, Dwarf_Word *ret)
{
	Dwarf_Attribute mem;

	return dwarf_formudata(dwarf_attr_integrate(die, attr, &mem), ret) == 0;
}

bool dwarf_die_flag(Dwarf_Die *die, unsigned int attr)
{
	Dwarf_Attribute mem;
	bool value = false;

	return dwarf_formflag(dwarf_attr_integrate(die, attr, &mem), &value) == 0 && value;
}

bool dwarf_attr_number(Dwarf_Attribute *attr, int64_t *ret)
{
	unsigned int form = dwarf_whatform(attr);
	Dwarf_Sword s;
	Dwarf_Word u;

	if (form == DW_FORM_sdata || form == DW_FORM_implicit_const) {
		if (dwarf_formsdata(attr, &s) != 0)
			return false;
		*ret = s;
		return true;
	}
	if (dwarf_formudata(attr, &u) != 0)
		return false;
	*ret = (int64_t)u;
	return true;
}

int dwarf_attr_location(Dwarf_Attribute *attr, Dwarf_Op **op, size_t *n)
{
	Dwarf_Attribute expr = *attr;
	Dwarf_Block block;

	/* Up to 127 bytes, block1's length byte reads the same as exprloc's LEB128. */
	if (dwarf_formblock(attr, &block) == 0 &&
	    (expr.form == DW_FORM_block || (expr.form == DW_FORM_block1 && block.length < 128)))
		expr.form = DW_FORM_exprloc;
	return dwarf_getlocation(&expr, op, n);
}

const char *dwarf_die_linkage_name(Dwarf_Die *die)
{
	Dwarf_Attribute mem;
	const char *name = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &mem));

	return name ? name : dwarf_formstring(dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &mem));
}
