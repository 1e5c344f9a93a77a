/* libdw_rule - from a row of a CFI table, as libdw computes it, to struct unwind_rule.
 */
#ifndef TESTS_ORACLE_LIBDW_RULE_H
#define TESTS_ORACLE_LIBDW_RULE_H

#include <elfutils/libdw.h>

#include "watchctl/code/unwind/unwind_rule.h"

/* UNWIND_NO_RULE for rows of a shape that struct unwind_rule cannot express. */
void libdw_rule(Dwarf_Frame *frame, struct unwind_rule *ret);

#endif
