/* export_chrome_impl - the file of a Trace Event Format export: its events, parts and names. */
#ifndef WATCHCTL_VIEW_EXPORT_EXPORT_CHROME_IMPL_H
#define WATCHCTL_VIEW_EXPORT_EXPORT_CHROME_IMPL_H

#include "watchctl/base/map64.h"
#include "watchctl/view/export/export_calls.h"
#include "watchctl/view/export/export_impl.h"
#include "watchctl/view/export/export_text.h"
#include "watchctl/view/words/json.h"

struct chrome_writer {
	struct export_writer w;
	struct json json;
	struct text_buf text;
	struct export_threads threads;
	struct map64 reported; /* pid, tid -> what they are called */
	struct map64 tracks;   /* watch, tid -> the value reported last */
	uint64_t part;	       /* 1.. */
	uint64_t written;      /* bytes of it */
	uint64_t last_ns;      /* of all events */
	bool comma, large_reported;
	int32_t pid;	      /* of the first process; 0: none told yet */
	uint64_t real_offset; /* add to CLOCK_MONOTONIC; 0: not known */
};

/* Begins an event's object: its name and category (NULL: none). */
struct json *chrome_begin(struct chrome_writer *c, const char *name, const char *category);

/* Writes the event: ph, pid, tid, ts, and what c->json has as an object; that is emptied. */
void chrome_put_event(struct chrome_writer *c, const char *ph, int32_t pid, int32_t tid, uint64_t ns);

/* What comes behind the last event, as it is. */
void chrome_put_text(struct chrome_writer *c, const char *s);

/* Before each event: begins a part where one is needed, reports the names of process and thread (tid 0: none).
 */
void chrome_in_thread(struct chrome_writer *c, int32_t pid, int32_t tid, const char *comm);

/* @name NULL: not known. */
void chrome_report_process(struct chrome_writer *c, int32_t pid, const char *name);

/* Ends the innermost open call; @why NULL: it returned. */
void chrome_end_call(struct chrome_writer *c, struct export_thread *th, const char *why, uint64_t ns);

/* Ends what is open, and the file. */
void chrome_finish(struct chrome_writer *c);

#endif
