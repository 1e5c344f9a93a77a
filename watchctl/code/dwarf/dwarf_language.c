#include "watchctl/code/dwarf/dwarf_language.h"

#include "watchctl/code/dwarf/dwarf_unit.h"

/* Later than the <dwarf.h> that this is built with may know. */
#define LANG_ZIG 0x27
#define LANG_CXX17 0x2a
#define LANG_CXX20 0x2b
#define LANG_C17 0x2c
#define LANG_FORTRAN18 0x2d
#define LANG_ADA2005 0x2e
#define LANG_ADA2012 0x2f
#define LANG_FORTRAN23 0x3a
#define LANG_CXX23 0x3b
#define LANG_C23 0x3e

static const struct dwarf_language languages[] = {
	{ DW_LANG_C89, "C", FAMILY_C },
	{ DW_LANG_C, "C", FAMILY_C },
	{ DW_LANG_C99, "C", FAMILY_C },
	{ DW_LANG_C11, "C", FAMILY_C },
	{ LANG_C17, "C", FAMILY_C },
	{ LANG_C23, "C", FAMILY_C },
	{ DW_LANG_ObjC, "Objective-C", FAMILY_C },
	{ DW_LANG_OpenCL, "OpenCL C", FAMILY_C },
	{ DW_LANG_Mips_Assembler, "assembler", FAMILY_C },
	{ DW_LANG_C_plus_plus, "C++", FAMILY_CXX },
	{ DW_LANG_C_plus_plus_03, "C++", FAMILY_CXX },
	{ DW_LANG_C_plus_plus_11, "C++", FAMILY_CXX },
	{ DW_LANG_C_plus_plus_14, "C++", FAMILY_CXX },
	{ LANG_CXX17, "C++", FAMILY_CXX },
	{ LANG_CXX20, "C++", FAMILY_CXX },
	{ LANG_CXX23, "C++", FAMILY_CXX },
	{ DW_LANG_ObjC_plus_plus, "Objective-C++", FAMILY_CXX },
	{ DW_LANG_Go, "Go", FAMILY_GO },
	{ DW_LANG_Rust, "Rust", FAMILY_RUST },
	{ DW_LANG_Fortran77, "Fortran", FAMILY_FORTRAN },
	{ DW_LANG_Fortran90, "Fortran", FAMILY_FORTRAN },
	{ DW_LANG_Fortran95, "Fortran", FAMILY_FORTRAN },
	{ DW_LANG_Fortran03, "Fortran", FAMILY_FORTRAN },
	{ DW_LANG_Fortran08, "Fortran", FAMILY_FORTRAN },
	{ LANG_FORTRAN18, "Fortran", FAMILY_FORTRAN },
	{ LANG_FORTRAN23, "Fortran", FAMILY_FORTRAN },
	{ DW_LANG_Ada83, "Ada", FAMILY_ADA },
	{ DW_LANG_Ada95, "Ada", FAMILY_ADA },
	{ LANG_ADA2005, "Ada", FAMILY_ADA },
	{ LANG_ADA2012, "Ada", FAMILY_ADA },
	{ DW_LANG_Pascal83, "Pascal", FAMILY_PASCAL },
	{ DW_LANG_Cobol74, "COBOL", FAMILY_OTHER },
	{ DW_LANG_Cobol85, "COBOL", FAMILY_OTHER },
	{ DW_LANG_Modula2, "Modula-2", FAMILY_OTHER },
	{ DW_LANG_Modula3, "Modula-3", FAMILY_OTHER },
	{ DW_LANG_Java, "Java", FAMILY_OTHER },
	{ DW_LANG_PLI, "PL/I", FAMILY_OTHER },
	{ DW_LANG_D, "D", FAMILY_OTHER },
	{ DW_LANG_Haskell, "Haskell", FAMILY_OTHER },
	{ DW_LANG_OCaml, "OCaml", FAMILY_OTHER },
	{ DW_LANG_Swift, "Swift", FAMILY_OTHER },
	{ DW_LANG_Julia, "Julia", FAMILY_OTHER },
	{ LANG_ZIG, "Zig", FAMILY_OTHER },
};

const struct dwarf_language *dwarf_language(Dwarf_Word code)
{
	static const struct dwarf_language other = { 0, "a language that is not known here", FAMILY_OTHER };

	if (!code)
		return dwarf_language(DW_LANG_C);
	for (size_t i = 0; i < sizeof(languages) / sizeof(*languages); i++)
		if (languages[i].code == code)
			return &languages[i];
	return &other;
}

const struct dwarf_language *dwarf_die_language(Dwarf_Die *die)
{
	Dwarf_Word code;
	Dwarf_Die cu;

	return dwarf_diecu(die, &cu, NULL, NULL) && dwarf_die_number(&cu, DW_AT_language, &code) && code
		       ? dwarf_language(code)
		       : NULL;
}

int64_t dwarf_family_lower(enum dwarf_family family)
{
	return family == FAMILY_FORTRAN || family == FAMILY_ADA || family == FAMILY_PASCAL;
}

bool dwarf_family_ignores_case(enum dwarf_family family)
{
	return family == FAMILY_FORTRAN || family == FAMILY_ADA || family == FAMILY_PASCAL;
}

bool dwarf_family_indexes_as_c(enum dwarf_family family)
{
	return family == FAMILY_C || family == FAMILY_CXX || family == FAMILY_GO || family == FAMILY_RUST;
}

bool dwarf_family_dot_follows(enum dwarf_family family)
{
	return family == FAMILY_GO || family == FAMILY_RUST || family == FAMILY_ADA ||
	       family == FAMILY_PASCAL;
}
