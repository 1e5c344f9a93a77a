/*
 * listing - what stands around a place in the code, for people: lines of its source file, and instructions.
 */
#ifndef WATCHCTL_VIEW_EVENT_LISTING_H
#define WATCHCTL_VIEW_EVENT_LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/view/event/view.h"

struct listing_line {
	uint32_t line; /* of source; 0: an instruction */
	uint64_t ip;   /* of an instruction, as in the recorded process; 0: a line of source */
	bool here;     /* the place itself */
	char *text;    /* clean UTF-8: no control characters, tabs expanded to 8 columns */
};

/* Zero-initialised is empty. */
struct listing {
	struct listing_line *v;
	size_t n;
	const char *why; /* nothing is there: a phrase like "the file is not here"; a constant. NULL:
			    something is */
	bool newer; /* source: the file is younger than the program it belongs to: lines may have moved */
};

/*
 * Lines @line - @around to @line + @around of the source @file, as debug information names it: a relative
 * name is looked up in the debug information of @module, which knows the folder it was compiled in, and never
 * in another folder. @module: the path of the program or library it belongs to (NULL: not known), also to
 * say whether the source is younger. Files that are no regular ones, larger than 16 MB or not text are not
 * listed. False: no memory.
 */
bool listing_source(const char *file, const char *module, uint32_t line, uint32_t around,
		    struct listing *ret);

/*
 * @before instructions before @ip in its function, and @after from @ip on, as far as the function reaches:
 * decoded forward from the function's start, out of the module's file, if that is still the one that was
 * mapped. None come before @ip where the function's start is not known, or decoding from there does not lead
 * to @ip. Targets of jumps and calls, and variables, are named: "call 0x401136 <set_flag>". @s knows the
 * modules. False: no memory.
 */
bool listing_code(struct symbolizer *s, enum insn_syntax syntax, uint64_t ip, uint32_t before, uint32_t after,
		  struct listing *ret);

void listing_deinit(struct listing *l);

#endif
