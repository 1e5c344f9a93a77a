/*
 * export_perfetto_impl - the packets of a Perfetto trace: events, tracks, names. The types of protobuf-c stay in
 * export_perfetto_file.c.
 *
 * No memory: the packet is left out whole and the export fails (export_fail), so that nothing is returned.
 */
#ifndef WATCHCTL_VIEW_EXPORT_EXPORT_PERFETTO_IMPL_H
#define WATCHCTL_VIEW_EXPORT_EXPORT_PERFETTO_IMPL_H

#include "watchctl/base/text_buf.h"
#include "watchctl/code/dwarf/value_type.h"
#include "watchctl/view/export/export_impl.h"

/* Of events; in the order of the names in export_perfetto_file.c. */
enum perfetto_category {
	PERFETTO_ACCESS,
	PERFETTO_STACK,
	PERFETTO_PROBE,
	PERFETTO_CALL,
	PERFETTO_SIGNAL,
	PERFETTO_STOOD,
	PERFETTO_RANGE,
	PERFETTO_LOST,
	PERFETTO_NOTE,
	PERFETTO_CATEGORIES
};

/* Names of annotations, in the order of the names in export_perfetto_file.c. */
enum perfetto_arg {
	PERFETTO_ARG_WATCH,
	PERFETTO_ARG_KIND,
	PERFETTO_ARG_ORIGIN,
	PERFETTO_ARG_OLD,
	PERFETTO_ARG_NEW,
	PERFETTO_ARG_OLD_RAW,
	PERFETTO_ARG_OLD_UNCERTAIN,
	PERFETTO_ARG_NEW_RAW,
	PERFETTO_ARG_AT,
	PERFETTO_ARG_SOURCE,
	PERFETTO_ARG_INSN,
	PERFETTO_ARG_DISPLACED,
	PERFETTO_ARG_STACK,
	PERFETTO_ARG_TAG,
	PERFETTO_ARG_VALUE,
	PERFETTO_ARG_PROBE,
	PERFETTO_ARG_TEXT,
	PERFETTO_ARG_CALL,
	PERFETTO_ARG_MODULE,
	PERFETTO_ARG_PARAMETERS,
	PERFETTO_ARG_RETURNED,
	PERFETTO_ARG_ENDED,
	PERFETTO_ARG_ERRNO,
	PERFETTO_ARG_CODE,
	PERFETTO_ARG_OCCURRENCE,
	PERFETTO_ARG_COUNT,
	PERFETTO_ARG_WHY,
	PERFETTO_ARGS
};

struct perfetto_file;

/* Writes to the output of @w, which must outlive it. NULL: no memory. */
struct perfetto_file *perfetto_file_new(struct export_writer *w);

/* Accepts NULL. */
void perfetto_file_free(struct perfetto_file *f);

/* Writes the first packet, with clocks and names, unless it is written; @time is that of the first event, 0: none. */
void perfetto_begin(struct perfetto_file *f, struct view_time time);

/*
 * The track of a process (@tid 0) or a thread, never 0; described before its first use, and again under another name.
 * @pid 0 is no process: the track of what belongs to none. @name NULL: not known, or as before.
 */
uint64_t perfetto_track(struct perfetto_file *f, int32_t pid, int32_t tid, const char *name);

/* Describes a new counter below the track @parent and returns its track. */
uint64_t perfetto_counter(struct perfetto_file *f, const char *name, uint64_t parent);

/* Annotations of the next event, each at most once. Texts are cleaned; one that is NULL or empty is left out. */
void perfetto_arg_text(struct perfetto_file *f, enum perfetto_arg arg, const char *text);
void perfetto_arg_hex(struct perfetto_file *f, enum perfetto_arg arg, uint64_t v); /* "0x2a" */
void perfetto_arg_number(struct perfetto_file *f, enum perfetto_arg arg, uint64_t v);
void perfetto_arg_signed(struct perfetto_file *f, enum perfetto_arg arg, int64_t v);
void perfetto_arg_true(struct perfetto_file *f, enum perfetto_arg arg);

/* The same: the text is what the caller appends to the buffer returned, clean, until any other function is called. */
struct text_buf *perfetto_arg_begin(struct perfetto_file *f, enum perfetto_arg arg);

/*
 * Events at @ns (CLOCK_MONOTONIC), with the annotations, which are then used up. Their name is @name, or where @more
 * is not NULL both of them with a blank between; cleaned.
 */
void perfetto_put_instant(struct perfetto_file *f, uint64_t track, enum perfetto_category category,
			  const char *name, const char *more, uint64_t ns);
void perfetto_put_begin(struct perfetto_file *f, uint64_t track, const char *name, uint64_t ns);
void perfetto_put_end(struct perfetto_file *f, uint64_t track, uint64_t ns);

/* A point of a counter's curve. Numbers above INT64_MAX are rounded to a double. */
void perfetto_put_value(struct perfetto_file *f, uint64_t track, const struct value_number *v, uint64_t ns);

#endif
