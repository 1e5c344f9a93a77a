/*
 * private_file - files that a user has named, and that may hold what a program holds: for their owner alone,
 * whatever the umask says.
 */
#ifndef WATCHCTL_BASE_PRIVATE_FILE_H
#define WATCHCTL_BASE_PRIVATE_FILE_H

#include <stdio.h>

/*
 * Makes the file @path (mode 0600), or empties the one that is there, which keeps its mode, for writing;
 * devices, pipes and links are written to. Not so where others may make files too, as in /tmp: a link there,
 * or a file of somebody else's, may be a trap. -1: errno; ELOOP and EPERM for these.
 */
int private_file_open(const char *path, int flags);

/* The same, as a stream. NULL: errno. */
FILE *private_file_fopen(const char *path);

#endif
