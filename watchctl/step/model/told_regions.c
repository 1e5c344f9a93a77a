#include "watchctl/step/model/told_regions.h"

#include <string.h>

#include "watchctl/base/hash.h"
#include "watchctl/target/proc/proc.h"

struct region_walk {
	struct told_regions *told;
	pid_t pid;
	uint64_t time_ns;
	struct event_sink sink;
	struct wc_error *err;
};

static enum region_kind region_kind(const struct proc_map *m)
{
	if (!strcmp(m->name, "[heap]"))
		return REGION_HEAP;
	if (!strncmp(m->name, "[stack", 6))
		return REGION_STACK;
	if (!m->name[0] || !strncmp(m->name, "[anon", 5))
		return REGION_ANONYMOUS;
	return m->name[0] == '[' ? REGION_OTHER : REGION_FILE;
}

static bool report_region(void *ctx, const struct proc_map *m)
{
	struct region_walk *w = ctx;
	struct trace_event e = { .type = EVENT_REGION,
				 .time_ns = w->time_ns,
				 .region = { .pid = w->pid,
					     .kind = region_kind(m),
					     .start = m->start,
					     .end = m->end,
					     .name = m->name[0] ? m->name : NULL } };
	uint64_t key = hash_text(HASH_START, m->name);

	key = hash_bytes(key, &m->start, sizeof(m->start));
	key = hash_bytes(key, &m->end, sizeof(m->end));
	if (map64_get(&w->told->told, key))
		return true;
	if (!map64_put(&w->told->told, key, w->told))
		w->err = &wc_enomem;
	else
		w->err = w->sink.put(w->sink.ctx, &e);
	return !w->err;
}

struct wc_error *told_regions_tell(struct told_regions *t, pid_t pid, uint64_t time_ns,
				   struct event_sink sink)
{
	struct region_walk w = { .told = t, .pid = pid, .time_ns = time_ns, .sink = sink };

	proc_maps(pid, report_region, &w);
	return w.err;
}

void told_regions_deinit(struct told_regions *t)
{
	map64_deinit(&t->told);
}
