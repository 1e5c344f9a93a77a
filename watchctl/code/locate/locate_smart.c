/*
 * What libstdc++ has inside of its smart pointers and its containers of nodes. A std::unique_ptr is a tuple of
 * the pointer and what deletes it, in base classes whose order is the compiler's; the pointer is the one to
 * the type that it was made for.
 */
#include <string.h>
#include <stdlib.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/code/locate/locate_path_parts.h"
#include "watchctl/code/lookup/locate_type_find.h"

#define DEPTH_MAX 8

struct pointer_to {
	const struct dtype *target;
	struct dmember found;
	unsigned int depth;
	bool is_found;
};

static bool is_pointer_to(const struct dtype *t, const struct dtype *target)
{
	struct dtype s = dtype_strip(t), to;

	if (dtype_tag(&s) != DW_TAG_pointer_type)
		return false;
	to = dtype_target(&s);
	to = dtype_strip(&to);
	return to.known ? dtype_is_same(&to, target) : !target->known;
}

static bool look_at_member(void *ctx, const struct dmember_reported *m)
{
	struct pointer_to *q = ctx;
	struct dtype s = dtype_strip(&m->m.type);

	if (m->is_placed && is_pointer_to(&m->m.type, q->target)) {
		q->found = m->m;
		q->is_found = true;
	} else if (m->is_placed && q->depth < DEPTH_MAX && dtype_is_aggregate_tag(dtype_tag(&s))) {
		q->depth++;
		dtype_each_member(&s, m->m.addr, NULL, look_at_member, q);
		q->depth--;
	}
	return !q->is_found;
}

static bool is_template(const struct dtype *s, const char *name)
{
	struct dtype t = *s;
	const char *own = dtype_is_aggregate_tag(dtype_tag(s)) ? dwarf_diename(&t.die) : NULL;
	size_t len = strlen(name);

	return dtype_family(s) == FAMILY_CXX && own && strncmp(own, name, len) == 0 && own[len] == '<';
}

struct wc_error *path_open_smart_pointer(struct path_place *p, const struct dtype *s, bool array,
					 const struct memory_view *mem, bool *is)
{
	struct dtype target;
	struct pointer_to q = { .target = &target };

	*is = false;
	if ((!is_template(s, "unique_ptr") && !is_template(s, "shared_ptr")) ||
	    !dtype_first_parameter(s, &target))
		return NULL;
	target = dtype_strip(&target);
	if (array != (dtype_tag(&target) == DW_TAG_array_type))
		return NULL;
	if (array) {
		target = dtype_element(&target);
		target = dtype_strip(&target);
	}
	dtype_each_member(s, p->addr, NULL, look_at_member, &q);
	if (!q.is_found)
		return NULL;
	*is = true;
	p->addr = q.found.addr;
	p->type = q.found.type;
	p->size = 0;
	return NULL;
}

/* Its number of elements, as an expression. */
struct container_size {
	const char *name, *size;
};

struct wc_error *path_no_container_element(const struct path_place *p, const struct dtype *s)
{
	static const struct container_size containers[] = {
		{ "map", "_M_t._M_impl._M_node_count" },
		{ "multimap", "_M_t._M_impl._M_node_count" },
		{ "set", "_M_t._M_impl._M_node_count" },
		{ "multiset", "_M_t._M_impl._M_node_count" },
		{ "unordered_map", "_M_h._M_element_count" },
		{ "unordered_multimap", "_M_h._M_element_count" },
		{ "unordered_set", "_M_h._M_element_count" },
		{ "unordered_multiset", "_M_h._M_element_count" },
		{ "list", "_M_impl._M_node._M_size" },
		{ "deque", "_M_impl._M_start" },
	};

	scoped(freep) char *type = NULL;
	size_t i = 0, n = sizeof(containers) / sizeof(*containers);

	while (i < n && !is_template(s, containers[i].name))
		i++;
	if (i == n)
		return NULL;
	type = dtype_name(&p->type);
	return wc_error_new(
		WC_ENAME,
		"'%s' is of type '%s', whose elements cannot be found by an index. Give the address and "
		"the size of the element: 0xADDR with -s SIZE, or 0x...:SIZE (gdb prints the address: "
		"print &*%s.begin()). Its %s is '%s.%s'.",
		p->text, type ? type : "?", p->text,
		strcmp(containers[i].name, "deque") ? "number of elements" : "beginning", p->text,
		containers[i].size);
}
