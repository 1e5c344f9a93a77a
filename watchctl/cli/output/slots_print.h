/* slots_print - struct slots for people and for programs; and the words that `list` and `clear` share. */
#ifndef WATCHCTL_CLI_OUTPUT_SLOTS_PRINT_H
#define WATCHCTL_CLI_OUTPUT_SLOTS_PRINT_H

#include <stddef.h>
#include <stdint.h>

#include "watchctl/monitor/slots/slots.h"

#define SLOTS_TEXT 512u

/* To standard output. @threads: each by itself; else those that are alike are put together. */
void slots_print_text(const struct slots *s, bool threads);
void slots_print_json(const struct slots *s, bool threads);

/* "writes to flag (4 bytes at 0x55..)". @name may be NULL or "": unknown; @addr 0: another in each thread. */
void slots_what(char *buf, size_t cap, enum access_kind access, const char *name, uint64_t addr,
		uint64_t size);

/* "r", "w", "rw", "x", as in the objects of a session. */
const char *slots_access(enum access_kind access);

const char *slots_engine(enum slot_engine engine);

typedef bool slots_like(const struct slot_thread *a, const struct slot_thread *b);

/* No thread before the @i-th is like it; then *ret_n is how many are, itself included. */
bool slots_is_first(const struct slots *s, size_t i, slots_like *like, size_t *ret_n);

#endif
