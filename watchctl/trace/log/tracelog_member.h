/*
 * tracelog_member - the files in the directory of a log that is there: opening one, reading its metadata, and adding to
 * it. @dir: the directory, @path: its name, for sentences.
 */
#ifndef WATCHCTL_TRACE_LOG_TRACELOG_MEMBER_H
#define WATCHCTL_TRACE_LOG_TRACELOG_MEMBER_H

#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/trace/log/tracelog_format.h"

/* *@ret: to read from; *@size: bytes. WC_ELOG: it is not there, or no regular file. */
struct wc_error *tracelog_open_member(int dir, const char *path, const char *name, int *ret, uint64_t *size);

/* *@ret_text: all of the metadata, malloced; NULL: it is not wanted. WC_ELOG: this is no log of ours, or a newer one. */
struct wc_error *tracelog_metadata_read(int dir, const char *path, struct tracelog_identity *ret,
					char **ret_text);

/* Creates @name with the owner and the permissions of the metadata: who could read that still can. 0, or an errno. */
int tracelog_create_beside(int dir, const char *name, int *ret);

/*
 * The metadata, which were @text, have @more behind it from now on. At once: whoever reads the log meanwhile sees the
 * old text or the new one. 0, or an errno: they are as they were.
 */
int tracelog_metadata_append(int dir, const char *text, const char *more);

/* A stream class that only some logs have. */
struct tracelog_stream {
	const char *begin; /* of its description, and of no other */
	const char *text;  /* its description */
	const char *what;  /* "calls" */
};

/*
 * Describes @s in the metadata of the log @path, unless they do that already. *@ret: whose files they must be. WC_ELOG: no
 * log of ours, or it cannot be written to.
 */
struct wc_error *tracelog_metadata_describe(int dir, const char *path, const struct tracelog_stream *s,
					    struct tracelog_identity *ret);

#endif
