#include "watchctl/monitor/flow/flow_places.h"

#include <stdlib.h>

#include "watchctl/base/hash.h"
#include "watchctl/base/map64.h"
#include "watchctl/trace/flow/flow_stack_tag.h"

#define PAGE 4096u

struct flow_places {
	struct event_sink sink;
	struct map64 place; /* of a file: where it begins in the log */
	uint64_t next;
};

struct flow_places *flow_places_new(struct event_sink sink)
{
	struct flow_places *p = calloc(1, sizeof(*p));

	if (p) {
		p->sink = sink;
		p->next = FLOW_STACK_MODULES;
	}
	return p;
}

void flow_places_free(struct flow_places *p)
{
	if (!p)
		return;
	map64_deinit(&p->place);
	free(p);
}

/* Files that are alike in all of this are one. */
static uint64_t identity(const struct module *m)
{
	const uint64_t size = m->end - m->start, begins = m->start - m->bias;
	uint64_t h = hash_text(HASH_START, m->path);

	h = hash_bytes(h, m->build_id, m->build_id_len);
	h = hash_bytes(h, &size, sizeof(size));
	return hash_bytes(h, &begins, sizeof(begins));
}

static struct wc_error *report(struct flow_places *p, const struct module *m, uint64_t now_ns)
{
	struct trace_event e = { .type = EVENT_MODULE, .time_ns = now_ns, .module = *m };

	e.module.start = p->next;
	e.module.end = p->next + (m->end - m->start);
	e.module.bias = m->bias + (p->next - m->start);
	return p->sink.put(p->sink.ctx, &e);
}

struct wc_error *flow_places_translate(struct flow_places *p, const struct module_list *modules,
				       uint64_t now_ns, uint64_t *address)
{
	const struct module *m = module_find(modules, *address);
	struct wc_error *err = NULL;
	uint64_t key, place;

	if (!m)
		return NULL;
	key = identity(m);
	place = (uintptr_t)map64_get(&p->place, key);
	if (!place) {
		place = p->next;
		err = map64_put(&p->place, key, (void *)(uintptr_t)place) ? report(p, m, now_ns) : &wc_enomem;
		p->next += (m->end - m->start + 2 * PAGE - 1) / PAGE * PAGE;
	}
	*address = place + (*address - m->start);
	return err;
}
