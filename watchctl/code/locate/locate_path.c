#include "watchctl/code/locate/locate_path.h"

#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/code/elf/debug_package.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/locate/locate_path_parts.h"
#include "watchctl/code/lookup/locator.h"

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

static struct wc_error *arrow_needed(const struct path_place *p, const char *name)
{
	return wc_error_new(WC_ENAME, "'%s' is a pointer: write '%s->%s' to follow it.", p->text, p->text,
			    name);
}

static struct wc_error *type_unknown(const struct path_place *p, const struct locate_step *step)
{
	const struct module *m = p->modules && !p->is_tls ? module_find(p->modules, p->addr) : NULL;
	struct locate_index *x = m ? locator_index(p->locator, m) : NULL;
	scoped(freep) char *missing = x ? locate_index_missing(x) : NULL;
	struct wc_error *err = wc_error_new(
		WC_ENAME, "The type of '%s' is not known, so '%s' cannot be found in it. %s", p->text,
		step->name ? step->name : "an element",
		missing ? missing
			: "Install the debug information of its module, build it with -g, or give "
			  "an address (0x...:SIZE).");

	return m && !missing ? debug_package_hint(err, m) : err;
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

	err = path_open_place(p, inside, &opened, mem);
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
	next.may_go_on |= step->op != LOCATE_INDEX;
	next.text = p->text;
	next.text_kind = p->text_kind;
	*p = next;
	return NULL;
}
