#include "watchctl/code/lookup/locate_type.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/code/dwarf/dwarf_eval.h"
#include "watchctl/code/dwarf/dwarf_unit.h"

#define DEPTH_MAX 64

/* The type that DW_AT_type of @die names; where its unit does not report its language, it is @around. */
static struct dtype type_of(struct locate_index *x, Dwarf_Die *die, const struct dwarf_language *around)
{
	struct dtype t = { .index = x };
	const struct dwarf_language *own;
	Dwarf_Attribute mem;
	Dwarf_Die whole;

	t.known = dwarf_formref_die(dwarf_attr_integrate(die, DW_AT_type, &mem), &t.die) != NULL;
	/* -fdebug-types-section: a stub that names a unit of its own. */
	if (t.known && dwarf_attr(&t.die, DW_AT_signature, &mem) && dwarf_formref_die(&mem, &whole))
		t.die = whole;
	own = t.known ? dwarf_die_language(&t.die) : NULL;
	t.language = own ? own : around;
	return t;
}

struct dtype dtype_of(struct locate_index *x, Dwarf_Die *die)
{
	const struct dwarf_language *own = dwarf_die_language(die);

	return type_of(x, die, own ? own : dwarf_language(0));
}

struct dtype dtype_part(const struct dtype *outer, Dwarf_Die *die)
{
	return type_of(outer->index, die, outer->language);
}

struct dtype dtype_target(const struct dtype *t)
{
	struct dtype s = *t;

	return type_of(s.index, &s.die, s.language);
}

/* What a part of @t without a type of its own holds, as if it were one. */
static struct dtype dtype_inside(const struct dtype *t, Dwarf_Die *die)
{
	return (struct dtype){ .index = t->index, .known = true, .die = *die, .language = t->language };
}

enum dwarf_family dtype_family(const struct dtype *t)
{
	return t->language ? t->language->family : FAMILY_C;
}

bool dtype_is_aggregate_tag(int tag)
{
	return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}

struct dtype dtype_strip(const struct dtype *t)
{
	struct dtype s = *t;
	Dwarf_Attribute mem;
	Dwarf_Die whole;

	/* 0: peeled to a type; 1: to void */
	if (s.known && dwarf_peel_type(&s.die, &s.die) != 0)
		s.known = false;
	/* Behind a typedef, too, may be a stub. */
	if (s.known && dwarf_attr(&s.die, DW_AT_signature, &mem) && dwarf_formref_die(&mem, &whole))
		s.die = whole;
	if (s.known && dwarf_hasattr(&s.die, DW_AT_declaration) &&
	    (dtype_is_aggregate_tag(dwarf_tag(&s.die)) || dwarf_tag(&s.die) == DW_TAG_enumeration_type) &&
	    locate_index_complete_type(s.index, &s.die, &whole))
		s.die = whole;
	return s;
}

int dtype_tag(const struct dtype *t)
{
	struct dtype s = *t;

	return s.known ? dwarf_tag(&s.die) : 0;
}

bool dtype_is_reference(const struct dtype *t)
{
	int tag = dtype_tag(t);

	return tag == DW_TAG_reference_type || tag == DW_TAG_rvalue_reference_type;
}

/* How many values an enumeration has that begins at 0 and leaves none out. */
static bool enumeration_count(Dwarf_Die *type, uint64_t *ret)
{
	Dwarf_Attribute mem;
	uint64_t n = 0;
	int64_t value;
	Dwarf_Die die;

	if (dwarf_child(type, &die) != 0)
		return false;
	do {
		if (dwarf_tag(&die) != DW_TAG_enumerator)
			continue;
		if (!dwarf_attr_integrate(&die, DW_AT_const_value, &mem) ||
		    !dwarf_attr_number(&mem, &value) || value != (int64_t)n)
			return false;
		n++;
	} while (dwarf_siblingof(&die, &die) == 0);
	*ret = n;
	return true;
}

/* The number of elements that a subrange or enumeration gives to its dimension. */
static bool dimension_count(Dwarf_Die *range, enum dwarf_family family, uint64_t *ret)
{
	Dwarf_Attribute mem;
	int64_t upper, lower = dwarf_family_lower(family);
	Dwarf_Word count;

	if (dwarf_tag(range) == DW_TAG_enumeration_type)
		return enumeration_count(range, ret);
	if (dwarf_attr_integrate(range, DW_AT_count, &mem)) {
		if (dwarf_formudata(&mem, &count) != 0)
			return false;
		*ret = count;
		return true;
	}
	if (dwarf_attr_integrate(range, DW_AT_lower_bound, &mem) && !dwarf_attr_number(&mem, &lower))
		return false;
	if (!dwarf_attr_integrate(range, DW_AT_upper_bound, &mem) || !dwarf_attr_number(&mem, &upper) ||
	    upper - lower + 1 < 0)
		return false;
	*ret = (uint64_t)(upper - lower + 1);
	return true;
}

/* Dimension @dim of the array @die, 0 the first. False: there is none. */
static bool array_dimension(Dwarf_Die *die, unsigned int dim, Dwarf_Die *ret)
{
	Dwarf_Die child;

	if (dwarf_child(die, &child) != 0)
		return false;
	do {
		int tag = dwarf_tag(&child);

		if (tag != DW_TAG_subrange_type && tag != DW_TAG_enumeration_type)
			continue;
		if (dim-- == 0) {
			*ret = child;
			return true;
		}
	} while (dwarf_siblingof(&child, &child) == 0);
	return false;
}

bool dtype_dimension(const struct dtype *array, Dwarf_Die *ret)
{
	struct dtype a = *array;

	return array_dimension(&a.die, a.dim, ret);
}

bool dtype_count(const struct dtype *array, uint64_t *ret)
{
	Dwarf_Die range;

	return dtype_dimension(array, &range) && dimension_count(&range, dtype_family(array), ret);
}

struct dtype dtype_element(const struct dtype *array)
{
	struct dtype a = *array;
	Dwarf_Die next;

	if (array_dimension(&a.die, a.dim + 1, &next)) {
		a.dim++;
		return a;
	}
	return dtype_target(&a);
}

static uint64_t size_at_depth(const struct dtype *t, unsigned int depth);

/* Of one whose bounds are constants; packed elements take less than their size, and padded ones more. */
static uint64_t array_size(struct dtype *s, unsigned int depth)
{
	struct dtype element = dtype_element(s);
	Dwarf_Word n;
	uint64_t count;

	if (!s->dim && !dwarf_hasattr(&s->die, DW_AT_data_location) &&
	    dwarf_die_number(&s->die, DW_AT_byte_size, &n))
		return n;
	if (!dtype_count(s, &count))
		return 0;
	if (element.dim <= s->dim && dwarf_die_number(&s->die, DW_AT_bit_stride, &n))
		return (count * n + 7) / 8;
	return count * size_at_depth(&element, depth + 1);
}

static uint64_t size_at_depth(const struct dtype *t, unsigned int depth)
{
	struct dtype s = dtype_strip(t);
	Dwarf_Word size;

	if (!s.known || depth == DEPTH_MAX)
		return 0;
	switch (dwarf_tag(&s.die)) {
	case DW_TAG_array_type:
		return array_size(&s, depth);
	case DW_TAG_string_type:
		/* With a place that reports the length, byte_size is that place's. */
		return !dwarf_hasattr(&s.die, DW_AT_string_length) &&
				       dwarf_die_number(&s.die, DW_AT_byte_size, &size)
			       ? size
			       : 0;
	case DW_TAG_pointer_type:
	case DW_TAG_reference_type:
	case DW_TAG_rvalue_reference_type:
		return dwarf_die_number(&s.die, DW_AT_byte_size, &size) ? size : 8;
	case DW_TAG_subroutine_type:
		return 0;
	default:
		if (dwarf_die_number(&s.die, DW_AT_byte_size, &size))
			return size;
		return dwarf_aggregate_size(&s.die, &size) == 0 ? size : 0;
	}
}

uint64_t dtype_size(const struct dtype *t)
{
	return size_at_depth(t, 0);
}

bool dtype_is_empty(const struct dtype *t)
{
	struct dtype s = dtype_strip(t), element;
	Dwarf_Word size;
	uint64_t count;

	if (dtype_is_aggregate_tag(dtype_tag(&s)))
		return dwarf_die_number(&s.die, DW_AT_byte_size, &size) && !size;
	for (; dtype_tag(&s) == DW_TAG_array_type && dtype_count(&s, &count); s = element) {
		if (!count)
			return true;
		element = dtype_element(&s);
		if (element.dim <= s.dim)
			return dtype_is_empty(&element);
	}
	return false;
}

/* The address of member @die of the object at @addr. */
static bool member_address(Dwarf_Die *die, uint64_t addr, const struct memory_view *mem, uint64_t *ret)
{
	struct dwarf_eval at = { .object = addr, .mem = mem };
	Dwarf_Attribute attr;
	Dwarf_Word offset = 0;
	Dwarf_Op *op;
	size_t n;

	/* A union's members, and bit fields of DWARF 5, have none. */
	if (!dwarf_attr(die, DW_AT_data_member_location, &attr) || dwarf_formudata(&attr, &offset) == 0) {
		*ret = addr + offset;
		return true;
	}
	/* For a virtual base: a little program that reads the offset from the object's table of functions. */
	return dwarf_attr_location(&attr, &op, &n) == 0 && n &&
	       dwarf_eval_ops(&at, op, n, &addr, ret) == EVAL_OK;
}

/* Sets @m to the smallest aligned unit of 1, 2, 4 or 8 bytes that holds the field at bit @bit of @addr. */
static void set_bit_field(struct dmember *m, uint64_t addr, uint64_t bit, uint64_t size)
{
	uint64_t unit;

	for (unit = 1; unit < 8; unit *= 2)
		if (bit / (8 * unit) == (bit + size - 1) / (8 * unit))
			break;
	m->addr = addr + bit / (8 * unit) * unit;
	m->bit_offset = (unsigned int)(bit % (8 * unit));
	/* A packed field may cross even eight aligned bytes: begin at its first byte then. */
	if (m->bit_offset + size > 64) {
		m->addr = addr + bit / 8;
		m->bit_offset = (unsigned int)(bit % 8);
	}
	m->bit_size = (unsigned int)size;
	m->storage = unit;
}

static bool member_bits(Dwarf_Die *die, uint64_t object, struct dmember *m)
{
	Dwarf_Word size, bit, storage;
	uint64_t offset;

	if (!dwarf_die_number(die, DW_AT_bit_size, &size) || !size || size > 64)
		return false;
	if (dwarf_die_number(die, DW_AT_data_bit_offset, &bit)) {
		set_bit_field(m, object, bit, size);
		return true;
	}
	/* Before DWARF 4: counted from the most significant bit of a storage unit. */
	if (!dwarf_die_number(die, DW_AT_bit_offset, &bit))
		return false;
	if (!dwarf_die_number(die, DW_AT_byte_size, &storage))
		storage = dtype_size(&m->type);
	if (!member_address(die, 0, NULL, &offset))
		return false;
	set_bit_field(m, object, 8 * offset + 8 * storage - bit - size, size);
	return true;
}

/* Rust's members of tuples are numbers: ".0" is "__0" in debug information. */
static bool member_is_called(const char *own, const char *name, enum dwarf_family family)
{
	if (dwarf_family_ignores_case(family) && strcasecmp(own, name) == 0)
		return true;
	return strcmp(own, name) == 0 ||
	       (name[0] >= '0' && name[0] <= '9' && strncmp(own, "__", 2) == 0 && strcmp(own + 2, name) == 0);
}

/* What belongs to an object without a name of its own: the variants of a Rust enum, which are its members. */
static bool is_variant(int tag)
{
	return tag == DW_TAG_variant_part || tag == DW_TAG_variant;
}

static enum member_result find_member(const struct dtype *t, uint64_t addr, const char *name,
				      const struct memory_view *mem, unsigned int depth, struct dmember *ret);

/* Looks for @name inside the unnamed member or base class @die. */
static enum member_result find_inside(const struct dtype *t, Dwarf_Die *die, uint64_t addr, const char *name,
				      const struct memory_view *mem, unsigned int depth, struct dmember *ret)
{
	struct dtype inner = dtype_part(t, die);
	struct dmember probe;
	uint64_t at;

	inner = dtype_strip(&inner);
	if (!dtype_is_aggregate_tag(dtype_tag(&inner)))
		return MEMBER_NONE;
	if (member_address(die, addr, mem, &at))
		return find_member(&inner, at, name, mem, depth + 1, ret);
	/* Only an error if the member is in there. */
	return find_member(&inner, 0, name, NULL, depth + 1, &probe) == MEMBER_NONE ? MEMBER_NONE
										    : MEMBER_UNREADABLE;
}

/* Fortran's "type, extends(base) :: cell" has a first member "base", of that type, whose members are its own.
 */
static bool is_extended(const struct dtype *t, Dwarf_Die *die)
{
	struct dtype inner;
	Dwarf_Word offset;
	const char *type;

	if (dtype_family(t) != FAMILY_FORTRAN || dwarf_tag(die) != DW_TAG_member || !dwarf_diename(die) ||
	    !dwarf_die_number(die, DW_AT_data_member_location, &offset) || offset)
		return false;
	inner = dtype_part(t, die);
	inner = dtype_strip(&inner);
	type = dtype_is_aggregate_tag(dtype_tag(&inner)) ? dwarf_diename(&inner.die) : NULL;
	return type && strcasecmp(type, dwarf_diename(die)) == 0;
}

static enum member_result find_member(const struct dtype *t, uint64_t addr, const char *name,
				      const struct memory_view *mem, unsigned int depth, struct dmember *ret)
{
	struct dtype s = *t;
	Dwarf_Die die;

	if (depth == DEPTH_MAX || !s.known || dwarf_child(&s.die, &die) != 0)
		return MEMBER_NONE;
	/* Own members first: they hide those of base classes. */
	do {
		int tag = dwarf_tag(&die);
		const char *own = dwarf_diename(&die);
		enum member_result r;

		if (is_variant(tag)) {
			struct dtype inside = dtype_inside(t, &die);

			r = find_member(&inside, addr, name, mem, depth + 1, ret);
			if (r != MEMBER_NONE)
				return r;
			continue;
		}
		if (tag != DW_TAG_member && tag != DW_TAG_variable)
			continue;
		if (own && member_is_called(own, name, dtype_family(t))) {
			if (tag == DW_TAG_variable || dwarf_hasattr(&die, DW_AT_external) ||
			    dwarf_hasattr(&die, DW_AT_declaration))
				return MEMBER_STATIC;
			*ret = (struct dmember){ .type = dtype_part(t, &die) };
			if (member_bits(&die, addr, ret))
				return MEMBER_FOUND;
			return member_address(&die, addr, mem, &ret->addr) ? MEMBER_FOUND : MEMBER_UNREADABLE;
		}
		if (own || tag != DW_TAG_member)
			continue;
		r = find_inside(t, &die, addr, name, mem, depth, ret);
		if (r != MEMBER_NONE)
			return r;
	} while (dwarf_siblingof(&die, &die) == 0);
	dwarf_child(&s.die, &die);
	do {
		enum member_result r;

		if (dwarf_tag(&die) != DW_TAG_inheritance && !is_extended(t, &die))
			continue;
		r = find_inside(t, &die, addr, name, mem, depth, ret);
		if (r != MEMBER_NONE)
			return r;
	} while (dwarf_siblingof(&die, &die) == 0);
	return MEMBER_NONE;
}

enum member_result dtype_member(const struct dtype *t, uint64_t addr, const char *name,
				const struct memory_view *mem, struct dmember *ret)
{
	return find_member(t, addr, name, mem, 0, ret);
}

/* @die, a member or base class of @t. False: @each has had enough. */
static bool report_member(const struct dtype *t, Dwarf_Die *die, uint64_t addr, const struct memory_view *mem,
			  bool variant, bool (*each)(void *ctx, const struct dmember_reported *m), void *ctx)
{
	struct dmember_reported reported = { .name = dwarf_diename(die),
					     .is_base = dwarf_tag(die) == DW_TAG_inheritance,
					     .is_variant = variant,
					     .m = { .type = dtype_part(t, die) } };

	if (reported.is_base) {
		struct dtype s = dtype_strip(&reported.m.type);

		reported.name = s.known ? dwarf_diename(&s.die) : NULL;
	}
	reported.is_placed = (!reported.is_base && member_bits(die, addr, &reported.m)) ||
			     member_address(die, addr, mem, &reported.m.addr);
	return each(ctx, &reported);
}

static bool each_member(const struct dtype *t, uint64_t addr, const struct memory_view *mem, bool variant,
			unsigned int depth, bool (*each)(void *ctx, const struct dmember_reported *m),
			void *ctx)
{
	struct dtype s = *t;
	Dwarf_Die die;

	if (depth == DEPTH_MAX || !s.known || dwarf_child(&s.die, &die) != 0)
		return true;
	do {
		int tag = dwarf_tag(&die);

		if (is_variant(tag)) {
			struct dtype inside = dtype_inside(t, &die);

			if (!each_member(&inside, addr, mem, true, depth + 1, each, ctx))
				return false;
			continue;
		}
		if ((tag != DW_TAG_member && tag != DW_TAG_inheritance) ||
		    dwarf_hasattr(&die, DW_AT_declaration) ||
		    (tag == DW_TAG_member && dwarf_hasattr(&die, DW_AT_external)))
			continue;
		if (!report_member(t, &die, addr, mem, variant, each, ctx))
			return false;
	} while (dwarf_siblingof(&die, &die) == 0);
	return true;
}

void dtype_each_member(const struct dtype *t, uint64_t addr, const struct memory_view *mem,
		       bool (*each)(void *ctx, const struct dmember_reported *m), void *ctx)
{
	each_member(t, addr, mem, false, 0, each, ctx);
}

static void list_members(FILE *f, const struct dtype *t, unsigned int depth, unsigned int *n)
{
	const unsigned int most = 40;
	struct dtype s = *t;
	Dwarf_Die die;

	if (depth == DEPTH_MAX || !s.known || dwarf_child(&s.die, &die) != 0)
		return;
	do {
		int tag = dwarf_tag(&die);
		const char *name = dwarf_diename(&die);
		struct dtype inner;

		if (is_variant(tag)) {
			inner = dtype_inside(t, &die);
			list_members(f, &inner, depth + 1, n);
			continue;
		}
		if (tag != DW_TAG_member && tag != DW_TAG_inheritance)
			continue;
		if (dwarf_hasattr(&die, DW_AT_declaration) || dwarf_hasattr(&die, DW_AT_external))
			continue;
		if (tag == DW_TAG_member && name) {
			if (*n < most)
				fprintf(f, "%s%s", *n ? ", " : "", name);
			else if (*n == most)
				fprintf(f, ", ...");
			(*n)++;
			continue;
		}
		inner = dtype_part(t, &die);
		inner = dtype_strip(&inner);
		list_members(f, &inner, depth + 1, n);
	} while (dwarf_siblingof(&die, &die) == 0);
}

char *dtype_member_list(const struct dtype *t)
{
	struct dtype s = dtype_strip(t);
	unsigned int n = 0;
	uint64_t count;
	char *text = NULL;
	size_t len;
	FILE *f;

	if (dtype_tag(&s) == DW_TAG_array_type) {
		if (!dtype_count(&s, &count) || !count)
			return NULL;
		if (asprintf(&text, count > 1 ? "[0] .. [%lu]" : "[0]", count - 1) < 0)
			return NULL;
		return text;
	}
	if (!dtype_is_aggregate_tag(dtype_tag(&s)))
		return NULL;
	f = open_memstream(&text, &len);
	if (!f)
		return NULL;
	list_members(f, &s, 0, &n);
	fclose(f);
	if (n)
		return text;
	free(text);
	return NULL;
}

bool dtype_first_parameter(const struct dtype *s, struct dtype *ret)
{
	struct dtype t = *s;
	Dwarf_Die die;

	if (dwarf_child(&t.die, &die) != 0)
		return false;
	do {
		if (dwarf_tag(&die) != DW_TAG_template_type_parameter)
			continue;
		*ret = dtype_part(s, &die);
		return ret->known;
	} while (dwarf_siblingof(&die, &die) == 0);
	return false;
}
