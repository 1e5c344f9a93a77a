#include "watchctl/step/lldb/planner_types.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/hash.h"
#include "watchctl/base/vec.h"

#define NESTED_MAX 32 /* members of members */

void planner_types_deinit(struct planner_types *t)
{
	strings_deinit(&t->pool);
	map64_deinit(&t->shallow);
	map64_deinit(&t->followed);
	map64_deinit(&t->by_hash);
	free(t->v);
	*t = (struct planner_types){ 0 };
}

const struct type_event *planner_types_at(const struct planner_types *t, uint32_t id)
{
	return id < t->n ? t->v[id] : NULL;
}

static uint64_t hash_number(uint64_t h, uint64_t n)
{
	return hash_bytes(h, &n, sizeof(n));
}

static uint64_t hash_type(const struct type_event *e)
{
	uint64_t h = hash_text(HASH_START, e->name ? e->name : "");

	h = hash_number(h, (uint64_t)e->kind << 32 | e->size);
	h = hash_number(h, (uint64_t)e->target << 32 | e->nmembers);
	for (uint32_t i = 0; i < e->nmembers; i++) {
		h = hash_text(h, e->member[i].name);
		h = hash_number(h, (uint64_t)e->member[i].offset << 32 | e->member[i].type);
	}
	return hash_number(h, e->nenumerators);
}

static bool texts_are_equal(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool members_are_equal(const struct type_event *a, const struct type_event *b)
{
	for (uint32_t i = 0; i < a->nmembers; i++) {
		const struct type_member *x = &a->member[i], *y = &b->member[i];

		if (x->type != y->type || x->offset != y->offset || x->bit_offset != y->bit_offset ||
		    x->bit_size != y->bit_size || strcmp(x->name, y->name) != 0)
			return false;
	}
	for (uint32_t i = 0; i < a->nenumerators; i++)
		if (a->enumerator[i].value != b->enumerator[i].value ||
		    strcmp(a->enumerator[i].name, b->enumerator[i].name) != 0)
			return false;
	return true;
}

static bool types_are_equal(const struct type_event *a, const struct type_event *b)
{
	return a->kind == b->kind && a->size == b->size && a->is_signed == b->is_signed &&
	       a->target == b->target && a->nmembers == b->nmembers && a->nenumerators == b->nenumerators &&
	       texts_are_equal(a->name, b->name) && members_are_equal(a, b);
}

/* A copy of @e under the next id, all of it in the pool. */
static struct type_event *add_type(struct planner_types *t, const struct type_event *e)
{
	struct type_event *add = strings_room(&t->pool, sizeof(*add));
	struct type_member *member = strings_room(&t->pool, e->nmembers * sizeof(*member) + 1);
	struct enumerator *enumerator = strings_room(&t->pool, e->nenumerators * sizeof(*enumerator) + 1);

	if (!add || !member || !enumerator)
		return NULL;
	*add = *e;
	add->id = (uint32_t)t->n;
	add->name = strings_keep(&t->pool, e->name);
	for (uint32_t i = 0; i < e->nmembers; i++) {
		member[i] = e->member[i];
		member[i].name = strings_keep(&t->pool, e->member[i].name);
		if (!member[i].name)
			return NULL;
	}
	for (uint32_t i = 0; i < e->nenumerators; i++) {
		enumerator[i].value = e->enumerator[i].value;
		enumerator[i].name = (char *)strings_keep(&t->pool, e->enumerator[i].name);
		if (!enumerator[i].name)
			return NULL;
	}
	add->member = member;
	add->enumerator = enumerator;
	return vec_push(t->v, t->n, t->cap, add) ? add : NULL;
}

const struct type_event *planner_types_put(struct planner_types *t, const struct type_event *e)
{
	uint64_t h = hash_type(e);
	const struct type_event *have;
	struct type_event *add;

	while ((have = map64_get(&t->by_hash, h)) && !types_are_equal(have, e))
		h++;
	if (have)
		return have;
	add = add_type(t, e);
	return add && map64_put(&t->by_hash, h, add) ? add : NULL;
}

static bool convert_members(struct planner_types *t, const struct lldb_type_info *info, struct type_event *e,
			    struct type_member *room)
{
	for (uint32_t i = 0; i < info->nmembers && e->nmembers < TYPE_MEMBERS_MAX; i++) {
		const struct lldb_member *m = &info->member[i];
		const struct type_event *type = planner_types_of(t, m->type, false);

		if (!type)
			return false;
		room[e->nmembers++] =
			(struct type_member){ m->name, type->id, m->offset, m->bit_offset, m->bit_size };
	}
	e->member = room;
	return true;
}

static const struct type_event *convert(struct planner_types *t, const struct lldb_type_info *info,
					bool follow)
{
	struct type_event e = { .kind = info->kind,
				.size = info->size,
				.name = info->name,
				.is_signed = info->is_signed,
				.target = NO_TYPE,
				.nenumerators = info->nenumerators,
				.enumerator = info->enumerator };
	scoped(freep) struct type_member *room = NULL;
	bool has_target = info->kind == TYPE_ARRAY || info->kind == TYPE_STRING || follow;

	if (has_target && info->target) {
		const struct type_event *target = planner_types_of(t, info->target, false);

		if (!target)
			return NULL;
		e.target = target->id;
	}
	if (info->nmembers) {
		room = calloc(info->nmembers, sizeof(*room));
		if (!room || !convert_members(t, info, &e, room))
			return NULL;
	}
	return planner_types_put(t, &e);
}

/* Members by value nest as deep as their sizes allow, which is not deep; a damaged file could go round. */
const struct type_event *planner_types_of(struct planner_types *t, const struct lldb_type *type, bool follow)
{
	static const struct type_event in_progress;
	const struct lldb_type_info *info;
	const struct type_event *e;
	struct map64 *map;

	if (!type)
		return NULL;
	info = lldb_type_info(type);
	follow = follow && info->kind == TYPE_POINTER;
	map = follow ? &t->followed : &t->shallow;
	e = map64_get(map, (uintptr_t)type);
	if (e == &in_progress)
		return planner_types_put(t, &(struct type_event){ .name = info->name, .target = NO_TYPE });
	if (e || !map64_put(map, (uintptr_t)type, (void *)&in_progress))
		return e;
	e = convert(t, info, follow);
	map64_put(map, (uintptr_t)type, (void *)e);
	return e;
}

static bool put_scalars(struct abi_layout *l, const struct lldb_type *type, uint32_t offset,
			unsigned int depth);

static bool put_array(struct abi_layout *l, const struct lldb_type_info *info, uint32_t offset,
		      unsigned int depth)
{
	uint32_t each = info->target ? lldb_type_info(info->target)->size : 0;

	if (info->is_complex && each == 16) {
		abi_put(l, ABI_SCALAR_COMPLEX_X87, offset, info->size);
		return true;
	}
	if (info->is_vector) {
		/* Larger ones go by registers only in code that is compiled for a CPU that has these. */
		abi_put(l, ABI_SCALAR_VECTOR, offset, info->size);
		return info->size <= 16;
	}
	if (!info->size)
		return true; /* a flexible one, at the end */
	if (!each)
		return false;
	for (uint32_t at = 0; at + each <= info->size && at < 8 * ABI_EIGHTBYTES; at += each)
		if (!put_scalars(l, info->target, offset + at, depth + 1))
			return false;
	return true;
}

static bool put_members(struct abi_layout *l, const struct lldb_type_info *info, uint32_t offset,
			unsigned int depth)
{
	for (uint32_t i = 0; i < info->nmembers; i++) {
		const struct lldb_member *m = &info->member[i];

		if (m->bit_size)
			abi_put(l, ABI_SCALAR_BITS, offset + m->offset + m->bit_offset / 8,
				(m->bit_offset % 8 + m->bit_size + 7u) / 8);
		else if (!put_scalars(l, m->type, offset + m->offset, depth + 1))
			return false;
	}
	return true;
}

static bool put_scalars(struct abi_layout *l, const struct lldb_type *type, uint32_t offset,
			unsigned int depth)
{
	const struct lldb_type_info *info = lldb_type_info(type);

	if (depth > NESTED_MAX)
		return false;
	switch (info->kind) {
	case TYPE_SIGNED:
	case TYPE_UNSIGNED:
	case TYPE_BOOL:
	case TYPE_CHAR:
	case TYPE_ENUM:
	case TYPE_POINTER:
	case TYPE_STRING:
		abi_put(l, ABI_SCALAR_INTEGER, offset, info->size);
		return info->size <= 16;
	case TYPE_FLOAT:
		abi_put(l, info->size == 16 ? ABI_SCALAR_X87 : ABI_SCALAR_FLOAT, offset, info->size);
		return true;
	case TYPE_ARRAY:
		return put_array(l, info, offset, depth);
	case TYPE_STRUCT:
	case TYPE_UNION:
		return !info->is_incomplete && put_members(l, info, offset, depth);
	default:
		return false;
	}
}

/*
 * LLDB leaves out bit fields that it finds fault with: of a record in registers, each of them holds something, unless
 * it is as large for its alignment alone.
 */
static bool lacks_members(const struct lldb_type_info *info, const struct param_type_facts *facts,
			  const struct abi_layout *l)
{
	return info->size > 8 && info->size <= 16 && facts->align < 16 && !l->in_memory && info->nmembers &&
	       (l->class[0] == ABI_NO_CLASS || l->class[1] == ABI_NO_CLASS);
}

bool planner_types_layout(const struct lldb_type *type, const struct param_type_facts *facts,
			  struct abi_layout *ret)
{
	const struct lldb_type_info *info = lldb_type_info(type);
	bool is_record = info->kind == TYPE_STRUCT || info->kind == TYPE_UNION;

	*ret = (struct abi_layout){ .size = info->size };
	if (is_record && (!facts || facts->passing == PARAM_PASSING_UNKNOWN))
		return false;
	ret->by_reference = is_record && facts->passing == PARAM_BY_REFERENCE;
	if (facts && facts->is_quad)
		abi_put(ret, ABI_SCALAR_FLOAT, 0, 16);
	else if (!ret->by_reference && !put_scalars(ret, type, 0, 0))
		return false;
	if (is_record && !ret->by_reference && lacks_members(info, facts, ret))
		return false;
	/* Of those that large, only what is one vector could be in registers: see put_array(). */
	if (is_record && info->size > 16)
		ret->in_memory = true;
	if (facts && facts->align > ret->align)
		ret->align = facts->align;
	return true;
}
