#include "watchctl/code/tls/tls_list.h"

#include <link.h>
#include <stddef.h>

/* A list in another process may be torn while it is read: never go round for ever. */
#define STEPS_MAX 100000

static bool fail(struct tls_list *l)
{
	l->unreadable = true;
	return false;
}

/* Goes to the namespace whose struct r_debug is at @at. */
static bool enter_namespace(struct tls_list *l, uint64_t at)
{
	struct r_debug debug;

	if (!memory_read(l->mem, at, &debug, sizeof(debug)))
		return fail(l);
	l->debug = at;
	l->next = (uint64_t)debug.r_map;
	l->has_more_namespaces = debug.r_version >= 2;
	return true;
}

void tls_list_begin(struct tls_list *l, const struct tls_place *p, const struct memory_view *mem)
{
	uint64_t at = 0;

	*l = (struct tls_list){ .mem = mem };
	if (!p->debug_pointer || !memory_read(mem, p->debug_pointer, &at, sizeof(at)) || !at)
		at = p->debug;
	if (at)
		enter_namespace(l, at);
}

bool tls_list_next(struct tls_list *l)
{
	struct link_map map;
	uint64_t at;

	while (!l->next && !l->unreadable) {
		if (!l->has_more_namespaces)
			return false;
		if (!memory_read(l->mem, l->debug + offsetof(struct r_debug_extended, r_next), &at,
				 sizeof(at)))
			return fail(l);
		if (!at)
			return false;
		if (++l->steps == STEPS_MAX || !enter_namespace(l, at))
			return fail(l);
	}
	if (l->unreadable || ++l->steps == STEPS_MAX || !memory_read(l->mem, l->next, &map, sizeof(map)))
		return fail(l);
	l->map = l->next;
	l->dynamic = (uint64_t)map.l_ld;
	l->next = (uint64_t)map.l_next;
	return true;
}
