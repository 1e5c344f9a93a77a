#include "watchctl/engine/intake/past_counts.h"

#include "watchctl/base/vec.h"
#include "watchctl/engine/plan/watchpoint.h"

static struct past_count *past_counts_find(const struct past_counts *p, uint32_t id)
{
	size_t i;

	for (i = 0; i < p->n; i++)
		if (p->v[i].id == id)
			return &p->v[i];
	return NULL;
}

bool past_counts_add(struct past_counts *p, uint32_t id, const struct engine_counts *c)
{
	struct past_count *past = past_counts_find(p, id);

	if (!past)
		return vec_push(p->v, p->n, p->cap, (struct past_count){ id, *c });
	counts_add(&past->counts, c);
	return true;
}

struct engine_counts past_counts_of(const struct past_counts *p, uint32_t id)
{
	const struct past_count *past = past_counts_find(p, id);

	return past ? past->counts : (struct engine_counts){ 0 };
}

void past_counts_drop(struct past_counts *p, uint32_t id)
{
	struct past_count *past = past_counts_find(p, id);

	if (past)
		*past = p->v[--p->n];
}

void past_counts_deinit(struct past_counts *p)
{
	free(p->v);
	*p = (struct past_counts){ 0 };
}
