/* cfi_rule - from a row of a CFI table, as libdw computes it, to struct unwind_rule; private to stackwalk/.
 */
#ifndef STACKWALK_CFI_RULE_H
#define STACKWALK_CFI_RULE_H

#include <elfutils/libdw.h>

#include "stackwalk/unwind_rule.h"

/* UNWIND_NO_RULE for rows of a shape that struct unwind_rule cannot express. */
void cfi_rule_from_frame(Dwarf_Frame *frame, struct unwind_rule *ret);

#endif
