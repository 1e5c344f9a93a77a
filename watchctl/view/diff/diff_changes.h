/*
 * diff_changes - what calls have changed in memory by the time they end: what their parameters point to, and words of
 * the modules' variables, or members of them (RETURN_POINTEE, RETURN_DATA, RETURN_MEMBER of call_values.h). It is compared like a result.
 */
#ifndef WATCHCTL_VIEW_DIFF_DIFF_CHANGES_H
#define WATCHCTL_VIEW_DIFF_DIFF_CHANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/trace/call_values.h"
#include "watchctl/view/diff/diff_canon.h"

struct diff_detail;
struct diff_closeness;
struct diff_function;
struct step_values;

struct memory_change {
	char *label;  /* "*buf", "table", "table+8" */
	bool is_data; /* of a variable; else what parameter @param points to */
	uint32_t param;
	char *object; /* is_data: its name, or a member's path */
	uint32_t offset;
	const struct diff_type *type; /* of a member; else NULL */
	struct call_value v;	      /* not is_data: the parameter's value, with what it points to now */
	const uint8_t *changed;	      /* as return_extra's */
	const uint8_t *bytes;	      /* is_data: a word, or the value of a member, @len of them */
	uint32_t len;
	char *text; /* made by diff_changes_texts(); else NULL */
	bool differs;
	const char *member; /* of what a parameter points to, the first that differs; NULL */
};

struct diff_changes {
	struct memory_change *v; /* parameters first, then variables by name and offset */
	size_t n, cap;
	bool left_out; /* there is more, which was not recorded */
};

/*
 * The strong tokens of the rest of a return event's bytes, mixed into one number; 0: there are none. @which:
 * RECORDING_CHANGED_ flags, others are left alone.
 */
uint64_t diff_changes_hash(struct diff_canon *c, const struct diff_function *f, struct call_values_reader *r,
			   unsigned int which, struct diff_tokens *k);

/* Keeps the rest of a return event's bytes in @d->changes; the bytes outlive them. False: no memory. */
bool diff_changes_take(struct diff_detail *d, struct call_values_reader *r, unsigned int which);

/* Marks what differs, *@differs: something does. What only one of two calls has changed does. False: no memory. */
bool diff_changes_compare(struct diff_detail *a, struct diff_detail *b, const struct diff_closeness *c,
			  bool *differs);

/* Fills in the texts. False: no memory. */
bool diff_changes_texts(struct diff_detail *d, const struct step_values *values);

/* The labels of those that differ, "*buf, table+8", of which at most @max are listed; "" if none does. */
void diff_changes_list(const struct diff_changes *c, size_t max, char *buf, size_t cap);

/* The one of @c that is about the same place as @of; NULL: none. */
const struct memory_change *diff_changes_find(const struct diff_changes *c, const struct memory_change *of);

void diff_changes_deinit(struct diff_changes *c);

#endif
