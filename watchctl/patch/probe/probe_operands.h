/* probe_operands - an instruction's operands as probes look at them: see probe_address() and probe_operand() of probe/probe.h. */
#ifndef WATCHCTL_PATCH_PROBE_PROBE_OPERANDS_H
#define WATCHCTL_PATCH_PROBE_PROBE_OPERANDS_H

#include <stddef.h>
#include <stdint.h>

#include "probe/wire.h"

/*
 * Those that are written, in Intel's order, of the instruction whose @len bytes lie at @addr in the program. What probes cannot
 * know (vector registers, addresses in them, operands that the two decoders see differently) is PROBE_UNKNOWN.
 */
void probe_operands(const uint8_t *bytes, size_t len, uint64_t addr,
		    struct probe_operand ret[PROBE_OPERANDS]);

#endif
