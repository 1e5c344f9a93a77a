#include "watchctl/view/diff/diff_withheld.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/map64.h"
#include "watchctl/trace/call_values.h"
#include "watchctl/trace/log/tracelog.h"

static const char none_withheld[1]; /* in the map: a name that was reported; once masked, this */

static struct wc_error *mask(struct diff_masks *m, const char *name)
{
	scoped(freep) char *params = NULL, *result = NULL;
	struct wc_error *err;

	if (asprintf(&params, "%s:?*", name) < 0 || asprintf(&result, "%s:return", name) < 0)
		return &wc_enomem;
	err = diff_masks_withhold(m, params);
	return err ? err : diff_masks_withhold(m, result);
}

static bool begins_withheld(const uint8_t *values, uint32_t len)
{
	return len && values[0] == VALUE_WITHHELD;
}

/* The function whose values are withheld in @e; false: none. */
static bool withheld_function(const struct trace_event *e, uint32_t *ret)
{
	if (e->type == EVENT_CALL && begins_withheld(e->call.values, e->call.values_len))
		*ret = e->call.function;
	else if (e->type == EVENT_RETURN && begins_withheld(e->ret.values, e->ret.values_len))
		*ret = e->ret.function;
	else
		return false;
	return true;
}

static void free_name(void *name)
{
	if (name != none_withheld)
		free(name);
}

static struct wc_error *diff_withheld_take(const struct trace_event *e, struct map64 *names,
					   struct diff_masks *m, uint64_t *functions)
{
	struct wc_error *err;
	char *name;
	uint32_t id;

	if (e->type == EVENT_FUNCTION && e->function.name && !map64_get(names, e->function.id)) {
		name = strdup(e->function.name);
		if (name && map64_put(names, e->function.id, name))
			return NULL;
		free(name);
		return &wc_enomem;
	}
	if (!withheld_function(e, &id))
		return NULL;
	name = map64_get(names, id);
	if (!name || name == none_withheld)
		return NULL;
	err = mask(m, name);
	free(name);
	(*functions)++;
	return map64_put(names, id, (void *)none_withheld) ? err : wc_error_first(err, &wc_enomem);
}

static struct wc_error *read_calls(struct tracelog_reader *log, struct map64 *names, struct diff_masks *m,
				   uint64_t *functions)
{
	enum log_outcome outcome;
	struct trace_event e;
	struct wc_error *err;

	for (;;) {
		err = tracelog_next(log, &e, &outcome);
		if (err || outcome != LOG_EVENT)
			return err;
		err = diff_withheld_take(&e, names, m, functions);
		if (err)
			return err;
	}
}

/* What the recording says about itself, before its first call. */
static struct wc_error *read_recording(struct tracelog_reader *log, uint8_t *ret)
{
	enum log_outcome outcome;
	struct trace_event e;
	struct wc_error *err;

	*ret = RECORDING_WHOLE;
	for (;;) {
		err = tracelog_next(log, &e, &outcome);
		if (err || outcome != LOG_EVENT || e.type == EVENT_CALL || e.type == EVENT_ACCESS ||
		    e.type == EVENT_CAPTURE)
			return err;
		if (e.type != EVENT_RECORDING)
			continue;
		*ret = e.recording.withheld;
		return NULL;
	}
}

struct wc_error *diff_withheld_read(const char *path, struct diff_masks *m, uint64_t *functions, bool *all)
{
	scoped(tracelog_reader_closep) struct tracelog_reader *log = NULL;
	struct map64 names = { 0 };
	struct wc_error *err;
	uint8_t withheld = 0;

	err = tracelog_reader_open(path, &log);
	if (!err)
		err = read_recording(log, &withheld);
	if (err || withheld == RECORDING_WHOLE)
		return err;
	if (withheld == RECORDING_WITHHELD_ALL) {
		*all = m->no_values = true;
		return NULL;
	}
	err = read_calls(log, &names, m, functions);
	map64_deinit_values(&names, free_name);
	return err;
}
