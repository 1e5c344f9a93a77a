/*
 * eh_frame_expression - what a DWARF expression of a table contains; private to eh_frame.
 */
#ifndef WATCHCTL_CODE_UNWIND_EH_FRAME_EXPRESSION_H
#define WATCHCTL_CODE_UNWIND_EH_FRAME_EXPRESSION_H

#include "watchctl/code/unwind/eh_frame_read.h"

/*
 * Whether the operations that fill @block depend on registers other than rip, on memory and on numbers alone, and
 * each is run once: no address of the file's, no branch, no division, none that is not known.
 */
bool eh_expression_is_plain(struct cursor block);

#endif
