#include "watchctl/step/model/told_types.h"

#include "watchctl/base/error.h"

const struct type_event *told_types_find(const struct told_types *t, uint32_t id)
{
	return id == NO_TYPE ? NULL : t->ops->type(t->planner, id);
}

static struct wc_error *tell_parts(struct told_types *t, const struct type_event *type, uint64_t time_ns,
				   struct event_sink sink)
{
	struct wc_error *err = NULL;

	if (type->kind == TYPE_ARRAY)
		err = told_types_tell(t, type->target, time_ns, sink);
	for (uint32_t i = 0; i < type->nmembers && !err; i++)
		err = told_types_tell(t, type->member[i].type, time_ns, sink);
	return err;
}

struct wc_error *told_types_tell(struct told_types *t, uint32_t id, uint64_t time_ns, struct event_sink sink)
{
	const struct type_event *type = told_types_find(t, id);
	struct trace_event e = { .type = EVENT_TYPE, .time_ns = time_ns };
	struct wc_error *err;

	if (!type || map64_get(&t->told, (uint64_t)id + 1))
		return NULL;
	if (!map64_put(&t->told, (uint64_t)id + 1, t))
		return &wc_enomem;
	err = tell_parts(t, type, time_ns, sink);
	if (err)
		return err;
	e.type_info = *type;
	e.type_info.id = id;
	err = sink.put(sink.ctx, &e);
	if (!err && (type->kind == TYPE_POINTER || type->kind == TYPE_STRING))
		err = told_types_tell(t, type->target, time_ns, sink);
	return err;
}

struct wc_error *told_types_tell_function(struct told_types *t, const struct function_event *f,
					  uint64_t time_ns, struct event_sink sink)
{
	struct wc_error *err = told_types_tell(t, f->return_type, time_ns, sink);

	for (uint32_t i = 0; i < f->nparams && !err; i++)
		err = told_types_tell(t, f->param[i].type, time_ns, sink);
	return err;
}

void told_types_deinit(struct told_types *t)
{
	map64_deinit(&t->told);
}
