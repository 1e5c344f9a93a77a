#include "watchctl/flow/blame/slow.h"

#define WAIT_SHARE 20u /* shorter ones are not why a unit took long */

/* The first unit's waits were before it all began, but for one that is alone. */
static size_t steps_that_count(const struct flow_path *p)
{
	return p->n > 1 ? p->n - 1 : p->n;
}

static void look_at_step(const struct blame_log *b, const struct flow_step *step, struct blame_slow *s)
{
	for (uint32_t i = step->wait; i < step->wait + step->nwaits; i++) {
		const struct flow_edge *e = &b->edge[s->path.wait[i]];
		const uint64_t end_ns = e->to_ns < step->until_ns ? e->to_ns : step->until_ns;

		if (end_ns - e->from_ns <= s->wait_ns)
			continue;
		s->wait = s->path.wait[i];
		s->wait_ns = end_ns - e->from_ns;
	}
}

struct wc_error *blame_slow_find(const struct blame_log *b, uint32_t thread, struct blame_slow *ret)
{
	const uint32_t node = b->seen->thread[thread].last_node;
	const struct flow_edge *e;
	struct wc_error *err;

	*ret = (struct blame_slow){ .asked = thread, .waiter = thread, .who = thread, .wait = FLOW_NONE };
	if (node == FLOW_NONE)
		return NULL;
	err = flow_path_find(b->g, node, b->seen->end_ns, WAIT_SHARE, &ret->path);
	if (err)
		return err;
	for (size_t i = 0; i < steps_that_count(&ret->path); i++)
		look_at_step(b, &ret->path.step[i], ret);
	if (ret->path.n)
		ret->path_ns = ret->path.step[0].until_ns -
			       b->node[ret->path.step[steps_that_count(&ret->path) - 1].node].begin_ns;
	if (ret->wait == FLOW_NONE)
		return NULL;
	e = &b->edge[ret->wait];
	ret->waiter = ret->who = b->node[e->to].thread;
	if (e->from != FLOW_NONE)
		ret->who = b->node[e->from].thread;
	return NULL;
}

void blame_slow_deinit(struct blame_slow *s)
{
	flow_path_deinit(&s->path);
}
