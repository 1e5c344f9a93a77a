/* export_impl - a format: a view of the chosen events that writes, and what ends the file. */
#ifndef WATCHCTL_VIEW_EXPORT_EXPORT_IMPL_H
#define WATCHCTL_VIEW_EXPORT_EXPORT_IMPL_H

#include "watchctl/base/error.h"
#include "watchctl/view/export/export.h"

struct export_writer {
	const struct view_ops *ops; /* their ctx is the writer */
	/* After the last event: writes what ends the file. NULL: nothing does. */
	struct wc_error *(*finish)(struct export_writer *w);
	void (*free)(struct export_writer *w);
	struct export_out *out;
	const struct export_options *opt;
	const char *log;
	struct wc_error *err; /* the first one of a callback, which cannot return it */
};

/* NULL: no memory. */
struct export_writer *export_chrome_new(void);
struct export_writer *export_folded_new(void);
struct export_writer *export_speedscope_new(void);
struct export_writer *export_csv_new(void);
struct export_writer *export_jsonl_new(void);
struct export_writer *export_dot_new(void);
struct export_writer *export_perf_new(void);
struct export_writer *export_callgrind_new(void);
struct export_writer *export_perfetto_new(void);

/* Remembers @err if it is the first one. */
static inline void export_fail(struct export_writer *w, struct wc_error *err)
{
	w->err = wc_error_first(w->err, err);
}

#endif
