/*
 * filter - from what the user wrote to the program that is run at each hit (handler/filter.h).
 *
 * The language is condition.h's. Its words here are "old", "new", "thread", "size", "true", "false", "NULL" and
 * enumerators of the variable's type; registers are "$rax" .. "$r15", "$rip", "$eflags", and "$eax" .. "$r15d", the
 * lower half, signed. A "text" is compared with thread: its name. There is no division, and no caller: see --caller.
 *
 * old and new are what the variable's type makes of its bytes: a signed short is from -32768 to 32767, a bit
 * field only its bits, a float can be compared with other floats and numbers. thread is the thread's id; size
 * is how many bytes the instruction accessed. Registers are those of the record: as the instruction that
 * accessed left them, so $rip is behind it; at an execute watch as it is about to run; in a system call those
 * that the program came with. They are signed but for $rip, $rsp and $rbp. Where SIGTRAP was blocked they are
 * not known, and such a hit is kept.
 */
#ifndef WATCHCTL_ENGINE_PLAN_FILTER_H
#define WATCHCTL_ENGINE_PLAN_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "handler/filter.h"
#include "watchctl/base/error.h"
#include "watchctl/code/dwarf/value_type.h"

struct filter_spec {
	const char *condition; /* NULL: none */
	bool changes;	       /* new != old */
	const char *thread;    /* a name, or a thread id; NULL: all */
	uint64_t sample;       /* 0, 1: all */
	double rate;	       /* most records a second; 0: no limit */
	bool has_value;	       /* false for execute watches: old, new and size mean nothing */
};

/*
 * Compiles all but the callers. @type and @size are those of the variable. WC_EUSAGE: malformed, with a caret
 * below the place; a type that does not fit; more than FILTER_OPS operations.
 */
struct wc_error *filter_compile(const struct filter_spec *spec, const struct value_type *type, uint32_t size,
				struct wire_filter *ret);

#endif
