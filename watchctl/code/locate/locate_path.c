#include "watchctl/code/locate/locate_path.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/code/dwarf/dwarf_unit.h"
#include "watchctl/code/locate/locate_path_parts.h"

/* Pointers to pointers, and no more of them than somebody writes. */
#define OPEN_MAX 8

static struct wc_error *no_memory_to_read(const struct path_place *p)
{
	return wc_error_new(WC_ENAME,
			    "'%s' is a pointer, and there is no process to read it from. Name a variable, or "
			    "give an address.",
			    p->text);
}

static struct wc_error *thread_local_pointer(const struct path_place *p)
{
	return wc_error_new(
		WC_ENAME,
		"'%s' is thread-local: every thread has its own pointer, with its own target. Watch '%s' "
		"itself, or watch the target in one thread by its address (0x...:SIZE).",
		p->text, p->text);
}

/* Reads the pointer that lies at @p, and remembers that it was. */
struct wc_error *path_load_pointer(struct path_place *p, const struct memory_view *mem, uint64_t *ret)
{
	uint64_t value;

	if (p->is_tls)
		return thread_local_pointer(p);
	if (!mem)
		return no_memory_to_read(p);
	if (!memory_read(mem, p->addr, &value, sizeof(value))) {
		p->null_pointer = p->npointers > 0;
		return wc_error_new(WC_ENAME,
				    "The pointer '%s' at 0x%" PRIx64
				    " cannot be read. The process may not have mapped that memory yet.",
				    p->text, p->addr);
	}
	if (p->npointers < LOCATE_POINTERS)
		p->pointer[p->npointers++] = p->addr;
	if (!value) {
		p->null_pointer = true;
		if (dtype_family(&p->type) == FAMILY_FORTRAN)
			return wc_error_new(
				WC_ENAME,
				"'%s' is currently not allocated, or not associated. With --follow the "
				"watch begins when it is.",
				p->text);
		return wc_error_new(
			WC_ENAME,
			"'%s' is currently a null pointer, so it has no target to watch. Watch '%s' itself to see "
			"when it is set.",
			p->text, p->text);
	}
	*ret = value;
	return NULL;
}

/* Goes where the pointer at @p leads. */
struct wc_error *path_follow_pointer(struct path_place *p, const struct memory_view *mem)
{
	uint64_t to = 0;
	uint8_t byte;
	struct wc_error *err = path_load_pointer(p, mem, &to);

	if (err)
		return err;
	if (!memory_read(mem, to, &byte, 1)) {
		p->null_pointer = true;
		return wc_error_new(WC_ENAME,
				    "'%s' points to 0x%" PRIx64
				    ", which the process has not mapped. It may not be set yet, "
				    "or point to memory that was freed.",
				    p->text, to);
	}
	p->addr = to;
	return NULL;
}

bool dtype_is_class_wrapper(const struct dtype *stripped)
{
	struct dtype s = *stripped;
	const char *name = dtype_is_aggregate_tag(dtype_tag(&s)) ? dwarf_diename(&s.die) : NULL;

	return name && dtype_family(&s) == FAMILY_FORTRAN && strncmp(name, "__class_", 8) == 0;
}

/* A variable that stands for another one, to those who write the language. */
static bool stands_for_another(const struct dtype *stripped)
{
	struct dtype to;

	if (dtype_is_reference(stripped))
		return true;
	if (dtype_family(stripped) != FAMILY_FORTRAN || dtype_tag(stripped) != DW_TAG_pointer_type)
		return false;
	to = dtype_target(stripped);
	to = dtype_strip(&to);
	return to.known && dtype_tag(&to) != DW_TAG_subroutine_type;
}

/* @inside: a member that the compiler made is asked for. */
static struct wc_error *open_place(struct path_place *p, bool inside, bool *opened,
				   const struct memory_view *mem)
{
	for (unsigned int turns = 0; turns < OPEN_MAX; turns++) {
		struct dtype s = dtype_strip(&p->type);
		struct wc_error *err = NULL;

		if (stands_for_another(&s)) {
			err = path_follow_pointer(p, mem);
			p->type = err ? p->type : dtype_target(&s);
			p->size = err ? p->size : 0;
		} else if (!inside && dtype_is_class_wrapper(&s)) {
			err = path_to_member(p, "_data", mem);
			s = dtype_strip(&p->type);
			if (!err && dtype_tag(&s) == DW_TAG_pointer_type && !stands_for_another(&s))
				return path_wrong_kind(
					p, "whose type is known only at run time. Give the address instead "
					   "(0x...:SIZE).");
		} else {
			return NULL;
		}
		if (err)
			return err;
		*opened = true;
	}
	return NULL;
}

struct wc_error *path_open(struct path_place *p, const struct memory_view *mem)
{
	bool opened = false;

	return open_place(p, false, &opened, mem);
}

static struct wc_error *settle_array(struct path_place *p, const struct dtype *s,
				     const struct memory_view *mem, char **members)
{
	struct path_place at = *p;
	struct array_shape shape;
	struct wc_error *err = path_array_shape(&at, s, mem, &shape);
	uint64_t size = err ? 0 : array_shape_size(&shape);

	memcpy(p->pointer, at.pointer, sizeof(p->pointer));
	p->npointers = at.npointers;
	p->bounds = at.bounds;
	p->null_pointer = at.null_pointer;
	if (err)
		return err;
	if (shape.is_described && array_shape_is_empty(&shape)) {
		p->null_pointer = p->npointers > 0;
		return wc_error_new(WC_ENAME, "'%s' currently has no elements: there is nothing to watch.",
				    p->text);
	}
	p->addr = shape.data;
	p->size = shape.is_described ? size : p->size;
	if (members)
		*members = array_shape_range(&shape, dtype_family(s));
	return NULL;
}

struct wc_error *path_settle(struct path_place *p, const struct memory_view *mem, char **members)
{
	struct dtype s = dtype_strip(&p->type);
	struct dwarf_eval at = { .object = p->addr, .bias = p->bias, .mem = p->is_tls ? NULL : mem };

	if (p->kind != PATH_OBJECT || p->stars || p->slice)
		return NULL;
	if (dtype_tag(&s) == DW_TAG_string_type)
		array_string_size(&s, &at, &p->size);
	/* What is known without the process needs none: the size of an array in C, say. */
	if (dtype_tag(&s) != DW_TAG_array_type ||
	    (dwarf_family_indexes_as_c(dtype_family(&s)) && !dwarf_hasattr(&s.die, DW_AT_data_location)))
		return NULL;
	return settle_array(p, &s, mem, members);
}

static struct wc_error *no_such_member(const struct path_place *p, const struct dtype *s, const char *name)
{
	scoped(freep) char *members = dtype_member_list(s);
	scoped(freep) char *type = dtype_name(s);

	return wc_error_new(WC_ENAME, "'%s' has no member '%s'. The members of %s are: %s.", p->text, name,
			    type ? type : "its type", members ? members : "none");
}

struct wc_error *path_wrong_kind(const struct path_place *p, const char *why)
{
	scoped(freep) char *type = dtype_name(&p->type);

	return wc_error_new(WC_ENAME, "'%s' is of type '%s', %s", p->text, type ? type : "?", why);
}

struct wc_error *path_to_member(struct path_place *p, const char *name, const struct memory_view *mem)
{
	struct dtype s = dtype_strip(&p->type);
	struct dmember m;

	if (!dtype_is_aggregate_tag(dtype_tag(&s)))
		return path_wrong_kind(p, "which has no members.");
	switch (dtype_member(&s, p->addr, name, p->is_tls ? NULL : mem, &m)) {
	case MEMBER_FOUND:
		break;
	case MEMBER_STATIC:
		return wc_error_new(
			WC_ENAME,
			"'%s' is a static member of '%s': it is one variable for all objects. Name it %s::%s instead.",
			name, p->text, dwarf_diename(&s.die) ? dwarf_diename(&s.die) : "its class", name);
	case MEMBER_UNREADABLE:
		return wc_error_new(
			WC_ENAME,
			"The location of '%s' in '%s' cannot be computed: it is in a virtual base class, and the "
			"object's virtual table could not be read. The object may not be constructed yet.",
			name, p->text);
	case MEMBER_NONE:
		return no_such_member(p, &s, name);
	}
	p->addr = m.addr;
	p->type = m.type;
	p->bit_offset = m.bit_offset;
	p->bit_size = m.bit_size;
	p->storage = m.storage;
	p->size = 0;
	return NULL;
}

/* Goes to what the pointer at @p points to, or to the first element of the array there. */
struct wc_error *path_to_target(struct path_place *p, const struct memory_view *mem)
{
	struct dtype s = dtype_strip(&p->type);
	struct wc_error *err;
	int tag = dtype_tag(&s);

	if (tag == DW_TAG_array_type && dwarf_family_indexes_as_c(dtype_family(&s))) {
		p->type = dtype_element(&s);
		return NULL;
	}
	if (tag && tag != DW_TAG_pointer_type)
		return path_wrong_kind(p, "which is not a pointer.");
	if (!tag && p->size != 8)
		return wc_error_new(
			WC_ENAME, "'%s' has no known type, and its size is not that of a pointer.", p->text);
	err = path_follow_pointer(p, mem);
	if (err)
		return err;
	p->size = 0;
	p->type = tag ? dtype_target(&s) : (struct dtype){ 0 };
	return NULL;
}

static struct wc_error *arrow_needed(const struct path_place *p, const char *name)
{
	return wc_error_new(WC_ENAME, "'%s' is a pointer: write '%s->%s' to follow it.", p->text, p->text,
			    name);
}

static struct wc_error *type_unknown(const struct path_place *p, const struct locate_step *step)
{
	return wc_error_new(WC_ENAME,
			    "The type of '%s' is not known, so '%s' cannot be found in it. Install the debug "
			    "information of its module, build it with -g, or give an address (0x...:SIZE).",
			    p->text, step->name ? step->name : "an element");
}

static struct wc_error *language_unknown(const struct path_place *p)
{
	const struct dwarf_language *l = p->type.language;

	return wc_error_new(
		WC_ENAME,
		"'%s' belongs to a program in %s, for which members and elements are not supported. Give the address "
		"and the size (0x...:SIZE), which a debugger for that language can print.",
		p->text, l->name);
}

static struct wc_error *step_to_member(struct path_place *p, const struct dtype *s, const char *name,
				       const struct memory_view *mem)
{
	enum dwarf_family family = dtype_family(s);
	bool is_pointer = dtype_tag(s) == DW_TAG_pointer_type;
	struct wc_error *err;

	/* Ada's word for what a pointer points to. */
	if (family == FAMILY_ADA && strcasecmp(name, "all") == 0 && (is_pointer || dtype_is_fat_pointer(s)))
		return is_pointer ? path_to_target(p, mem) : NULL;
	if (is_pointer) {
		if (!dwarf_family_dot_follows(family))
			return arrow_needed(p, name);
		err = path_to_target(p, mem);
		if (err)
			return err;
	}
	return path_to_member(p, name, mem);
}

static struct wc_error *step_through_arrow(struct path_place *p, const struct dtype *s, const char *name,
					   const struct memory_view *mem)
{
	const char *dot = dtype_family(s) == FAMILY_FORTRAN ? "%" : ".";
	struct wc_error *err;

	if (dtype_is_aggregate_tag(dtype_tag(s)))
		return wc_error_new(WC_ENAME, "'%s' is an object, not a pointer: write '%s%s%s'.", p->text,
				    p->text, dot, name);
	err = path_to_target(p, mem);
	return err ? err : path_to_member(p, name, mem);
}

static struct wc_error *step_unnamed(struct path_place *p, const struct locate_step *step,
				     const struct memory_view *mem)
{
	bool opened = false, is_smart = false, inside = step->op == LOCATE_MEMBER && step->name[0] == '_';
	struct wc_error *err;
	struct dtype s;

	err = open_place(p, inside, &opened, mem);
	if (err)
		return err;
	s = dtype_strip(&p->type);
	if (p->bit_size)
		return path_wrong_kind(p, "a bit field, which has no members.");
	if (!dtype_tag(&s) && step->op != LOCATE_DEREF)
		return type_unknown(p, step);
	if (step->op == LOCATE_ARROW || (step->op == LOCATE_DEREF && !step->behind)) {
		err = path_open_smart_pointer(p, &s, false, mem, &is_smart);
		if (err)
			return err;
		s = dtype_strip(&p->type);
	}
	switch (step->op) {
	case LOCATE_MEMBER:
		return step_to_member(p, &s, step->name, mem);
	case LOCATE_ARROW:
		return step_through_arrow(p, &s, step->name, mem);
	case LOCATE_INDEX:
		return path_to_element(p, step, mem);
	default:
		break;
	}
	/* "*p" of what debuggers show as a pointer, and the language does not. */
	if (opened && dtype_family(&s) == FAMILY_FORTRAN)
		return NULL;
	return path_to_target(p, mem);
}

static struct wc_error *take_step(struct path_place *p, const struct locate_step *step,
				  const struct memory_view *mem)
{
	bool done = false;
	struct wc_error *err;

	if (p->type.known && dtype_family(&p->type) == FAMILY_OTHER && step->op != LOCATE_ADDRESS)
		return language_unknown(p);
	err = path_step_value(p, step, mem, &done);
	return err || done ? err : step_unnamed(p, step, mem);
}

struct wc_error *path_step(struct path_place *p, const struct locate_step *step,
			   const struct memory_view *mem)
{
	struct path_place next = *p;
	struct wc_error *err = take_step(&next, step, mem);

	if (err) {
		memcpy(p->pointer, next.pointer, sizeof(p->pointer));
		p->npointers = next.npointers;
		p->bounds = next.bounds;
		p->null_pointer = next.null_pointer;
		return err;
	}
	err = path_add_text(p, step);
	if (err)
		return err;
	next.text = p->text;
	next.text_kind = p->text_kind;
	*p = next;
	return NULL;
}
