/* eh_images - the .eh_frame of each module of a process, copied out of its memory, for eh_frame_rule(). */
#ifndef TESTS_ORACLE_EH_IMAGES_H
#define TESTS_ORACLE_EH_IMAGES_H

#include <stdbool.h>
#include <stddef.h>

#include "watchctl/code/elf/module.h"
#include "watchctl/code/memory_view.h"
#include "watchctl/code/unwind/eh_frame.h"

struct eh_copy {
	uint64_t start, end, bias; /* the module's */
	struct eh_image image;	   /* of process addresses; bytes NULL: it has none */
	uint8_t *hdr, *frames;
};

struct eh_images {
	struct eh_copy *v;
	size_t n, cap;
};

/* Forgets all. Accepts zero-initialised. */
void eh_images_deinit(struct eh_images *x);

/* That of @m; copied at its first sight. NULL: it has none, or it cannot be read. */
const struct eh_image *eh_images_of(struct eh_images *x, const struct module *m,
				    const struct memory_view *mem);

#endif
