/*
 * export_out - where an export goes: standard output, or files that appear whole or not at all. What is
 * written lies in files without a name (O_TMPFILE), or where the file system has none of these in
 * ".NAME.XXXXXX" beside them, and gets its names when all of it is there; their mode is 0600. What exists
 * already is replaced only by force; what is no regular file (a device, a fifo) is written to.
 */
#ifndef WATCHCTL_VIEW_EXPORT_EXPORT_OUT_H
#define WATCHCTL_VIEW_EXPORT_EXPORT_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "watchctl/base/error.h"

struct export_out;

/* @path NULL or "-": standard output. WC_EUSAGE: it exists, and @force is not given; it is a directory. */
struct wc_error *export_out_open(const char *path, bool force, struct export_out **ret);

/* The part that is being written. */
FILE *export_out_file(const struct export_out *o);

/* True if there may be another part. */
bool export_out_splits(const struct export_out *o);

/* Ends this part and begins another: of "trace.json", "trace.2.json". */
struct wc_error *export_out_next(struct export_out *o);

/*
 * All is written: the files get their names. After an error nothing of it is left, but
 * for what took the place of others by force; WC_EFAIL: no space, I/O
 * error. What goes to standard output is only flushed: its caller looks at ferror(stdout).
 */
struct wc_error *export_out_commit(struct export_out *o);

/* WC_EFAIL: what was written so far does not fit. Of standard output, its caller finds that. */
struct wc_error *export_out_check(const struct export_out *o);

/* How many files there are, and their names. */
size_t export_out_parts(const struct export_out *o);
const char *export_out_name(const struct export_out *o, size_t part);

/* Without a commit, leaves nothing behind. Accepts NULL. */
void export_out_free(struct export_out *o);
void export_out_freep(struct export_out **o);

#endif
