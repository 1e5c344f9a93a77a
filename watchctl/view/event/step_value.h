/*
 * step_value - values of parameters and results as people read them: "12", "RED|0x4", "'a' (97)", "\"a
 * text\"", "0x55.. <table+8> -> {next = NULL, key = 3}", "{1, 2, 3}", "<optimised out>".
 */
#ifndef WATCHCTL_VIEW_EVENT_STEP_VALUE_H
#define WATCHCTL_VIEW_EVENT_STEP_VALUE_H

#include <stddef.h>

#include "watchctl/code/symbols/symbolizer.h"
#include "watchctl/trace/call_values.h"

/* Of a result that nobody reads: its text, for printf(). */
#define UNUSED_RESULT "(unused: %s)"

struct step_values {
	struct type_lookup types;
	struct symbolizer *symbolizer; /* names what pointers point to; NULL: they are numbers */
};

/*
 * Writes the text of @v, whose type is @type (NULL: not known), to @buf; what does not fit @cap ends in
 * "...". Texts of the program are escaped as in C; names of types and members are as the log has them, so
 * clean the text before it goes to a terminal. Returns its length.
 */
size_t step_value_text(const struct step_values *c, const struct type_event *type, const struct call_value *v,
		       char *buf, size_t cap);

/* The same of what @v points to alone; "" when nothing of it was recorded. */
size_t step_value_pointee_text(const struct step_values *c, const struct type_event *type,
			       const struct call_value *v, char *buf, size_t cap);

#endif
