/*
 * access_fact - what the handler is given about an instruction, so that it can know at once, at later hits of
 * the same place, which bytes were accessed, how, and what they hold now. Pure: tests hold it against
 * executed code.
 */
#ifndef WATCHCTL_ENGINE_INTAKE_ACCESS_FACT_H
#define WATCHCTL_ENGINE_INTAKE_ACCESS_FACT_H

#include <stdbool.h>

#include "handler/wire.h"
#include "watchctl/code/insn/access.h"

/*
 * The entry for a trap at fact->pc. False where the handler cannot compute the operand of the instruction
 * before it from the registers as the trap finds them.
 */
bool access_fact_make(const struct code_fact *fact, struct wire_access_fact *ret);

#endif
