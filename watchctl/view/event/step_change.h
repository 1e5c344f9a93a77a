/*
 * step_change - what a call has changed in memory (RETURN_POINTEE, RETURN_DATA, RETURN_MEMBER of call_values.h), as
 * people read it.
 */
#ifndef WATCHCTL_VIEW_EVENT_STEP_CHANGE_H
#define WATCHCTL_VIEW_EVENT_STEP_CHANGE_H

#include <stddef.h>
#include <stdint.h>

#include "watchctl/trace/call_values.h"
#include "watchctl/view/event/step_value.h"

#define STEP_CHANGE_WORD 8u

/* "table+8", "*buf", "*#2"; returns its length. @param is the name of the parameter, or NULL. */
size_t step_change_label(const struct return_extra *e, uint32_t at, const char *param, char *buf, size_t cap);

/* Of a word of a variable, @len up to 8 bytes: "5", "{4, 6}" (two of 4 bytes, where it looks like that), "0x7f..". */
size_t step_change_word(const uint8_t *bytes, uint32_t len, char *buf, size_t cap);

/* The value of a RETURN_MEMBER, as one of its type. */
struct call_value step_change_value(const struct return_extra *e);

/* Writes it; @type: its type, NULL: it is not known. */
size_t step_change_member(const struct step_values *c, const struct type_event *type,
			  const struct return_extra *e, char *buf, size_t cap);

/* Writes what a parameter of the type @type points to now. */
size_t step_change_pointee(const struct step_values *c, const struct type_event *type,
			   const struct return_extra *e, char *buf, size_t cap);

#endif
