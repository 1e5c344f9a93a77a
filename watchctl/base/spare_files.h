/*
 * spare_files - descriptors that are kept for later: what has been begun in another process must be undone
 * even when everything else of ours has used up the rest.
 */
#ifndef WATCHCTL_BASE_SPARE_FILES_H
#define WATCHCTL_BASE_SPARE_FILES_H

#include <stdbool.h>

#define SPARE_FILES 12

struct spare_files {
	int fd[SPARE_FILES];
	unsigned int n;
};

/* False: so many are not left; then none is kept. */
bool spare_files_keep(struct spare_files *s);

/* They can be opened now. Accepts zero-initialised, and may be called again. */
void spare_files_release(struct spare_files *s);

#endif
