/* library_elf - the file of a drop-in library: what it shows of the original, and what it does. */
#ifndef WATCHCTL_PATCH_LIBRARY_LIBRARY_ELF_H
#define WATCHCTL_PATCH_LIBRARY_LIBRARY_ELF_H

#include "probe/library/library.h"
#include "watchctl/base/text_buf.h"
#include "watchctl/patch/library/library_source.h"

struct library_elf {
	const struct library_source *source;
	const char *original;	     /* what the loader is to load in its place: a file beside the drop-in */
	const char *watchctl;	     /* what is executed to patch; fits into struct library_settings */
	const struct text_buf *plan; /* see library_plan.h */
};

/* @to->failed: no memory. */
void library_elf_write(const struct library_elf *l, struct text_buf *to);

#endif
