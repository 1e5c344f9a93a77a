/*
 * modules - the tables of functions of the executable and its libraries, found by the low half of a record's address.
 * They are added and removed under the runtime's lock; turns look them up meanwhile.
 */
#ifndef CALLTRACE_RUNTIME_MODULES_H
#define CALLTRACE_RUNTIME_MODULES_H

#include <stdbool.h>
#include <stdint.h>

#include "calltrace/abi.h"

struct traced_module;

/* All of them, for who reads a dump of the memory; *@used: the address of how many there are. */
const struct traced_module *modules_table(uint64_t *used);

/*
 * Adds [@begin, @end), whose first function becomes *@base. Returns NULL, or why it cannot be recorded: a phrase that
 * lives for ever. Nothing was turned on.
 */
const char *modules_add(const struct calltrace_function *begin, const struct calltrace_function *end,
			uint8_t *on, uint32_t *base);

/* Sets the byte of @begin's module to 0. False: it was never added. */
bool modules_stop(const struct calltrace_function *begin);

/* Frees the range of @begin's module: no slot refers to it any more. */
void modules_remove(const struct calltrace_function *begin);

/* Sets the bytes of all of them, and that of the program's own events. Async-signal-safe. */
void modules_switch(bool on);

/* Each module in turn, *@i begins with 0: its first function, *@end and *@base as of modules_add(). NULL: no more. */
const struct calltrace_function *modules_next(unsigned int *i, const struct calltrace_function **end,
					      uint32_t *base);

/* A module's records: addresses whose low halves are [low, low + size), of functions from number @base on. */
struct module_range {
	uint32_t low, size, base;
};

/* That of the module with this number; it holds until a module can be removed. */
struct module_range modules_range(unsigned int module);

/*
 * The function of the record whose address ends in @what, but for its kind. NULL: of no module. *@hint is the number of
 * a module to try first, and becomes that of the module found; *@id is the function's.
 */
const struct calltrace_function *modules_find(uint32_t what, unsigned int *hint, uint32_t *id);

#endif
