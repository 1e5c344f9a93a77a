#include "watchctl/code/interval.h"
#include "watchctl/base/bisect.h"

#include <stdlib.h>

/* By start; of equal starts the shorter, then the higher rank, comes last, where the search begins. */
static int interval_cmp(const void *a, const void *b)
{
	const struct interval *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->end != y->end)
		return x->end > y->end ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* reach = how far this one and all before it go: where it is not beyond an address, none of them is. */
void intervals_sort(struct intervals *l)
{
	uint64_t reach = 0;

	if (!l->n)
		return;
	qsort(l->v, l->n, sizeof(*l->v), interval_cmp);
	for (size_t i = 0; i < l->n; i++) {
		if (l->v[i].end > reach)
			reach = l->v[i].end;
		l->v[i].reach = reach;
	}
}

static size_t first_above(const struct intervals *l, uint64_t addr)
{
	size_t low = BISECT(l->n, i, l->v[i].start <= addr);
	return low;
}

const struct interval *intervals_find(const struct intervals *l, uint64_t addr, const struct interval *last)
{
	size_t i = last ? (size_t)(last - l->v) : first_above(l, addr);

	while (i-- > 0 && l->v[i].reach > addr)
		if (l->v[i].end > addr)
			return &l->v[i];
	return NULL;
}

void intervals_deinit(struct intervals *l)
{
	free(l->v);
	*l = (struct intervals){ 0 };
}
