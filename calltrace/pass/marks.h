/*
 * marks - entries and exits of functions that the compiler may inline: calls of a function that does not exist, which go
 * along with what they are in. Placed before the inliner runs; the pass, at the end, makes events of them.
 *
 *	call void @__calltrace_mark(i32 INDEX, i32 KIND)	INDEX: in the module's list of choices, !calltrace.choices
 *
 * The choices are those of that time: a function has the size that its source gave it.
 */
#ifndef CALLTRACE_PASS_MARKS_H
#define CALLTRACE_PASS_MARKS_H

#include "calltrace/pass/choice.h"

/* Places marks in @m's functions, as @s chooses them. True: something has changed. */
bool marks_place(LLVMModuleRef m, const struct settings *s);

/* Choices of marks_place(), which choices_make() found in its module. */
struct marked {
	char *linkage_name;
	char *file; /* NULL: not known */
	uint32_t line, insns;
	bool is_traced;
	char *why;
	struct choice *choice;			 /* in the list of all */
	LLVMValueRef own_record, inlined_record; /* NULL: not made yet */
};

/* *@n of them, NULL if there are none. False: no memory. Frees nothing. */
bool marks_read(LLVMModuleRef m, struct marked **ret, size_t *n);
void marks_free(struct marked *marked, size_t n);

/* The mark that the instruction @i is, or false. UINT32_MAX: the optimizer has made a variable of it. */
bool mark_is(LLVMValueRef i, uint32_t *index, uint32_t *kind);

/* That function has none of its callers left, and the list goes. */
void marks_forget(LLVMModuleRef m);

#endif
