#include "watchctl/view/diff/diff_told.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/trace/calls/call_reader.h"
#include "watchctl/trace/log/tracelog.h"
#include "watchctl/view/diff/base/diff_hash.h"
#include "watchctl/view/diff/diff_side_impl.h"

#define RECORDING_WITHIN 64u /* events */

/* As values of the map of functions. */
#define IS_TOLD 1u
#define HAS_VALUES 2u

static bool has_values(const struct function_event *f)
{
	return f->nparams || f->return_type != NO_TYPE;
}

static uint64_t module_of(const struct function_event *f, const char *program)
{
	return diff_mix_text(1, diff_module_name(f->module, program));
}

static bool add_function(struct diff_told *t, const struct function_event *f, bool by_name,
			 const char *program)
{
	uintptr_t flags;
	uint64_t identity;

	if (!diff_function_identity(f, by_name, program, &identity))
		return false;
	flags = (uintptr_t)map64_get(&t->functions, identity) | IS_TOLD | (has_values(f) ? HAS_VALUES : 0);
	return map64_put(&t->functions, identity, (void *)flags) &&
	       map64_put(&t->modules, module_of(f, program), (void *)(uintptr_t)IS_TOLD);
}

static struct wc_error *is_compact(const char *path, bool *ret)
{
	scoped(call_reader_closep) struct call_reader *r = NULL;
	struct wc_error *err = call_reader_open(path, &r);

	*ret = !err && call_reader_threads(r);
	return err;
}

/* They are among the first events. */
static struct wc_error *read_head(const char *path, struct diff_told *ret)
{
	scoped(tracelog_reader_closep) struct tracelog_reader *r = NULL;
	enum log_outcome outcome = LOG_EVENT;
	struct wc_error *err = tracelog_reader_open(path, &r);
	struct trace_event e;

	for (unsigned int i = 0; !err && i < RECORDING_WITHIN; i++) {
		err = tracelog_next(r, &e, &outcome);
		if (err || outcome != LOG_EVENT)
			break;
		if (e.type == EVENT_PROCESS && !ret->exe && e.process.exe) {
			ret->exe = strdup(e.process.exe);
			err = ret->exe ? NULL : &wc_enomem;
		}
		if (e.type == EVENT_RECORDING && !ret->is_compact) {
			ret->changes = e.recording.changes;
			break;
		}
	}
	return err;
}

struct wc_error *diff_told_read(const char *path, struct diff_told *ret)
{
	struct wc_error *err = is_compact(path, &ret->is_compact);

	return err ? err : read_head(path, ret);
}

struct wc_error *diff_told_read_functions(const char *path, bool by_name, const char *program,
					  struct diff_told *t)
{
	scoped(tracelog_reader_closep) struct tracelog_reader *r = NULL;
	enum log_outcome outcome = LOG_EVENT;
	struct wc_error *err = NULL;
	struct trace_event e;

	if (t->is_compact)
		err = tracelog_reader_open(path, &r);
	while (!err && t->is_compact) {
		err = tracelog_next(r, &e, &outcome);
		if (err || outcome != LOG_EVENT)
			break;
		if (e.type == EVENT_FUNCTION && !add_function(t, &e.function, by_name, program))
			err = &wc_enomem;
	}
	return err;
}

void diff_told_deinit(struct diff_told *t)
{
	map64_deinit(&t->functions);
	map64_deinit(&t->modules);
	free(t->exe);
}

bool diff_told_lacks(const struct diff_told *t, uint64_t identity, const struct function_event *f,
		     const char *program)
{
	return !map64_get(&t->functions, identity) && map64_get(&t->modules, module_of(f, program));
}

bool diff_told_values_differ(const struct diff_told *t, uint64_t identity, const struct function_event *f)
{
	const uintptr_t flags = (uintptr_t)map64_get(&t->functions, identity);

	return flags && ((flags & HAS_VALUES) != 0) != has_values(f);
}
