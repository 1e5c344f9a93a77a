/*
 * range_plan - which debug registers cover a range of bytes. Each watches 1, 2, 4 or 8 bytes, aligned to
 * their number (Intel SDM vol. 3, 18.2.5). Arithmetic only.
 */
#ifndef WATCHCTL_ENGINE_PLAN_RANGE_PLAN_H
#define WATCHCTL_ENGINE_PLAN_RANGE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#define RANGE_PARTS 4u
#define RANGE_MAX 32u

/* One register, and which of its bytes are asked for: no byte is asked for in two parts. */
struct range_part {
	uint64_t addr;
	uint32_t size;
	uint64_t want_addr;
	uint32_t want_size;
};

/*
 * Covers the @len (1..) bytes at @addr with at most @registers (1..4): the fewest bytes beside those asked
 * for, then the fewest registers. Returns how many parts; 0: they do not fit.
 */
unsigned int range_plan(uint64_t addr, uint64_t len, unsigned int registers, struct range_part *ret);

/* The fewest registers that cover it, whatever else they cover; 0: more than four. */
unsigned int range_registers(uint64_t addr, uint64_t len);

/* The most bytes from @addr on that @registers cover. */
uint32_t range_longest(uint64_t addr, unsigned int registers);

#endif
