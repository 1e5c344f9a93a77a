#include "watchctl/monitor/reported_modules.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/hash.h"
#include "watchctl/base/vec.h"

struct reported_module {
	int32_t pid;
	uint64_t start, bias, file; /* a hash of path and build id */
};

static struct reported_module identity(const struct trace_event *e)
{
	const struct module *m = &e->module;
	uint64_t h = hash_text(HASH_START, m->path);

	return (struct reported_module){
		.pid = e->module_pid,
		.start = m->start,
		.bias = m->bias,
		.file = hash_bytes(h, m->build_id, m->build_id_len),
	};
}

static bool same(const struct reported_module *a, const struct reported_module *b)
{
	return a->pid == b->pid && a->start == b->start && a->bias == b->bias && a->file == b->file;
}

bool reported_modules_is_news(struct reported_modules *t, const struct trace_event *e, bool *ok)
{
	struct reported_module m = identity(e);
	size_t i;

	*ok = true;
	for (i = 0; i < t->n && !same(&t->v[i], &m); i++)
		;
	if (e->type == EVENT_MODULE) {
		if (i < t->n)
			return false;
		*ok = vec_push(t->v, t->n, t->cap, m);
		return true;
	}
	if (i == t->n)
		return false;
	t->v[i] = t->v[--t->n];
	return true;
}

void reported_modules_deinit(struct reported_modules *t)
{
	free(t->v);
	*t = (struct reported_modules){ 0 };
}
