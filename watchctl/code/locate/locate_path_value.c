/*
 * Steps that calculate: "&x", "p+3", "(T *)p", "v[1]@3". A place is then no longer what lies in memory but a
 * pointer (PATH_ADDRESS: @addr, and the type of what is there) or a number. Pointers that are read on the way
 * are remembered as everywhere.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/code/locate/locate_path_value.h"

#define SLICE_MAX (1ull << 32)

uint64_t path_element_size(const struct path_place *p)
{
	return p->stars ? 8 : p->type.known ? dtype_size(&p->type) : 0;
}

uint64_t path_size(const struct path_place *p)
{
	uint64_t size = path_element_size(p);

	if (p->kind != PATH_OBJECT)
		return 8;
	return p->slice ? p->slice * size : size ? size : p->size;
}

char *path_type_name(const struct path_place *p)
{
	unsigned int stars = p->stars + (p->kind == PATH_ADDRESS);
	scoped(freep) char *name = p->type.known ? dtype_name(&p->type) : strdup("void");
	char points[16] = " ", *text;
	size_t n = name ? strcspn(name, "[") : 0;

	if (!name || p->kind == PATH_NUMBER)
		return p->kind == PATH_NUMBER ? strdup("long") : NULL;
	if (!p->type.known && !stars)
		return NULL;
	for (unsigned int i = 0; i < stars && i < sizeof(points) - 2; i++)
		points[i + 1] = '*'; /* the rest is NUL */
	if (name[n] && stars)	     /* "struct node (*)[3]" */
		return asprintf(&text, "%.*s(%s)%s", (int)n, name, points + 1, name + n) < 0 ? NULL : text;
	if (p->slice)
		return asprintf(&text, "%.*s%s [%" PRIu64 "]%s", (int)(name[n] && n ? n - 1 : n), name,
				stars ? points : "", p->slice, name + n) < 0
			       ? NULL
			       : text;
	return asprintf(&text, "%s%s", name,
			!stars			  ? ""
			: n && name[n - 1] == '*' ? points + 1
						  : points) < 0
		       ? NULL
		       : text;
}

bool path_value_type(const struct path_place *p, struct value_type *ret)
{
	struct value_type v = { .kind = p->slice ? VALUE_AGGREGATE : VALUE_POINTER };

	if (!p->stars && !p->slice && p->kind == PATH_OBJECT) {
		if (!dtype_value_type(&p->type, &v))
			return false;
		v.bit_offset = (uint8_t)p->bit_offset;
		v.bit_size = (uint8_t)p->bit_size;
	} else if (p->kind != PATH_NUMBER) {
		v.name = path_type_name(p);
		if (!v.name)
			return false;
	} else {
		v.kind = VALUE_SIGNED;
	}
	*ret = v;
	return true;
}

struct wc_error *path_check_place(const struct path_place *p)
{
	if (p->kind == PATH_NUMBER)
		return wc_error_new(
			WC_ENAME,
			"'%s' is a number, %" PRId64 ", not a variable. To watch the memory at an "
			"address, give its size, 0x%" PRIx64 ":SIZE, or its type, *(int *)0x%" PRIx64 ".",
			p->text, p->number, (uint64_t)p->number, (uint64_t)p->number);
	if (p->kind != PATH_ADDRESS)
		return NULL;
	if (p->text[0] == '&')
		return wc_error_new(
			WC_ENAME,
			"'%s' is an address, a value that never changes. To watch the memory there, omit "
			"the '&': '%s'.",
			p->text, p->text + 1);
	return wc_error_new(
		WC_ENAME, "'%s' is an address, a calculated value. To watch the memory there, write '*(%s)'.",
		p->text, p->text);
}

struct wc_error *path_no_operand(const struct path_place *p, const char *what)
{
	return wc_error_new(WC_ENAME, "'%s' is %s: '%s' cannot be applied to it.", p->text,
			    p->kind == PATH_NUMBER    ? "a number"
			    : p->kind == PATH_ADDRESS ? "an address"
			    : p->slice		      ? "several elements"
						      : "an object",
			    what);
}

/* Numbers */

static struct wc_error *read_failed(const struct path_place *p)
{
	return wc_error_new(WC_ENAME,
			    "The value of '%s' cannot be read from the process, so what depends on it is not "
			    "known: write the number itself.",
			    p->text);
}

bool path_is_whole(const struct value_type *t)
{
	return t->kind == VALUE_SIGNED || t->kind == VALUE_UNSIGNED || t->kind == VALUE_CHAR ||
	       t->kind == VALUE_BOOL || t->kind == VALUE_ENUM;
}

/* A whole number of at most 8 bytes: its value is read once, now. */
static struct wc_error *load_number(struct path_place *p, const struct memory_view *mem, int64_t *ret)
{
	uint64_t size = p->bit_size ? p->storage : path_size(p), raw = 0;
	struct value_type type = { 0 };
	struct value_number n;
	bool whole;

	if (p->is_tls)
		return wc_error_new(WC_ENAME,
				    "'%s' is thread-local: every thread has its own value. Write the number "
				    "itself.",
				    p->text);
	if (!path_value_type(p, &type))
		return &wc_enomem;
	whole = path_is_whole(&type) && (size == 1 || size == 2 || size == 4 || size == 8);
	if (whole && mem && memory_read(mem, p->addr, &raw, size)) {
		n = value_to_number(&type, (unsigned int)size, raw);
		*ret = n.kind == NUMBER_SIGNED ? n.i : (int64_t)n.u;
		value_type_deinit(&type);
		return NULL;
	}
	value_type_deinit(&type);
	return whole ? read_failed(p) : path_wrong_kind(p, "which is not a whole number.");
}

struct wc_error *path_number(struct path_place *p, const struct memory_view *mem, int64_t *ret)
{
	struct wc_error *err;

	if (p->kind == PATH_NUMBER) {
		*ret = p->number;
		return NULL;
	}
	if (p->kind == PATH_ADDRESS || p->stars || p->slice)
		return wc_error_new(WC_ENAME,
				    "'%s' is not a number: write a number, or a variable with a numeric "
				    "value.",
				    p->text);
	err = path_open(p, mem);
	return err ? err : load_number(p, mem, ret);
}

void path_become_number(struct path_place *p, int64_t n)
{
	p->kind = PATH_NUMBER;
	p->number = n;
	p->type = (struct dtype){ 0 };
	p->stars = 0;
	p->slice = 0;
	p->bit_size = 0;
}

static struct wc_error *calculate(struct path_place *p, const struct locate_step *step,
				  const struct memory_view *mem)
{
	int64_t a = 0, b = step->index ? step->index[0] : 0, n;
	struct wc_error *err = path_number(p, mem, &a);

	if (err)
		return err;
	if (!locate_calculate(step->op, a, b, &n))
		return wc_error_new(WC_ENAME, "'%s' is %" PRId64 ": %s.", p->text, a,
				    step->op == LOCATE_DIV ? "it cannot be divided by 0"
							   : "the result does not fit in 64 bits");
	path_become_number(p, n);
	return NULL;
}

/* Addresses */

void path_become_address(struct path_place *p, uint64_t addr, const struct dtype *type, unsigned int stars)
{
	p->kind = PATH_ADDRESS;
	p->addr = addr;
	p->type = *type;
	p->stars = stars;
	p->slice = 0;
	p->size = 0;
	p->bit_size = 0;
}

struct wc_error *path_decay(struct path_place *p, const struct memory_view *mem, bool *is)
{
	struct dtype s = dtype_strip(&p->type), to;
	struct wc_error *err;
	uint64_t value = 0;

	*is = p->kind == PATH_ADDRESS;
	if (p->kind != PATH_OBJECT || p->slice)
		return NULL;
	if (!p->stars && dtype_tag(&s) == DW_TAG_array_type && dwarf_family_indexes_as_c(dtype_family(&s)) &&
	    !dwarf_hasattr(&s.die, DW_AT_data_location)) {
		to = dtype_element(&s);
		path_become_address(p, p->addr, &to, 0);
		*is = true;
		return NULL;
	}
	if (!p->stars && dtype_tag(&s) != DW_TAG_pointer_type)
		return NULL;
	*is = true;
	err = path_load_pointer(p, mem, &value);
	if (err)
		return err;
	to = p->stars ? p->type : dtype_target(&s);
	path_become_address(p, value, &to, p->stars ? p->stars - 1 : 0);
	p->is_tls = false;
	return NULL;
}

static struct wc_error *size_unknown(const struct path_place *p)
{
	scoped(freep) char *type = path_type_name(p);

	return wc_error_new(
		WC_ENAME,
		"'%s' is of type '%s', whose size is not known: cast it to a pointer to the type of its "
		"elements, ((T *)%s), or give the address and size (0x...:SIZE).",
		p->text, type ? type : "?", p->text);
}

static struct wc_error *move(struct path_place *p, int64_t by)
{
	uint64_t size = path_element_size(p);

	if (!size)
		return size_unknown(p);
	p->addr += (uint64_t)by * size;
	return NULL;
}

/* From an address to what is there. */
static struct wc_error *locate_path_value_enter(struct path_place *p, const struct memory_view *mem)
{
	uint8_t byte;

	p->kind = PATH_OBJECT;
	if (p->is_tls || !mem || memory_read(mem, p->addr, &byte, 1))
		return NULL;
	p->null_pointer = p->npointers > 0;
	return wc_error_new(WC_ENAME,
			    "'%s' is the address 0x%" PRIx64
			    ", which the process has not mapped. It may not be set yet, or be wrong.",
			    p->text, p->addr);
}

static struct wc_error *take_address(struct path_place *p, const struct memory_view *mem)
{
	struct dtype type;
	struct wc_error *err;

	if (p->kind != PATH_OBJECT || p->slice)
		return path_no_operand(p, "&");
	if (!p->stars) {
		err = path_open(p, mem);
		if (err)
			return err;
	}
	if (p->bit_size)
		return wc_error_new(WC_ENAME, "'%s' is a bit field: it has no address of its own.", p->text);
	type = p->type;
	path_become_address(p, p->addr, &type, p->stars);
	return NULL;
}

static struct wc_error *locate_path_value_add(struct path_place *p, const struct locate_step *step,
					      const struct memory_view *mem)
{
	bool is_pointer = false;
	struct wc_error *err;

	err = p->kind == PATH_OBJECT && !p->stars && !p->slice ? path_open(p, mem) : NULL;
	if (!err)
		err = path_decay(p, mem, &is_pointer);
	if (err || !is_pointer)
		return err ? err : calculate(p, step, mem);
	return move(p, step->op == LOCATE_ADD ? step->index[0] : (int64_t)(0 - (uint64_t)step->index[0]));
}

/* Slices */

static struct wc_error *slice(struct path_place *p, int64_t n, const struct memory_view *mem)
{
	struct wc_error *err;

	if (p->kind != PATH_OBJECT || p->slice || p->bit_size)
		return path_no_operand(p, "@");
	err = p->stars ? NULL : path_open(p, mem);
	if (err)
		return err;
	if (n < 1 || (uint64_t)n > SLICE_MAX)
		return wc_error_new(
			WC_ENAME, "@%" PRId64 " is not a valid number of elements of '%s': write 1 or more.",
			n, p->text);
	if (!path_element_size(p))
		return size_unknown(p);
	p->slice = n > 1 ? (uint64_t)n : 0;
	return NULL;
}

static struct wc_error *index_slice(struct path_place *p, const struct locate_step *step)
{
	int64_t i = step->op == LOCATE_INDEX && step->nindices == 1 ? step->index[0] : -1;

	if (step->op != LOCATE_INDEX || i < 0 || (uint64_t)i >= p->slice)
		return wc_error_new(WC_ENAME,
				    "'%s' are %" PRIu64 " elements: name one of them, '(%s)[0]' to [%" PRIu64
				    "].",
				    p->text, p->slice, p->text, p->slice - 1);
	p->slice = 0;
	return move(p, i);
}

/* What is done to an address */

static struct wc_error *go_on_from_address(struct path_place *p, const struct locate_step *step,
					   const struct memory_view *mem)
{
	struct wc_error *err = NULL;

	switch (step->op) {
	case LOCATE_DEREF:
		if (!p->type.known && !p->stars)
			return size_unknown(p);
		return locate_path_value_enter(p, mem);
	case LOCATE_INDEX:
		if (step->round || step->nindices != 1)
			return path_no_operand(p, step->round ? "( )" : ",");
		err = move(p, step->index[0]);
		return err ? err : locate_path_value_enter(p, mem);
	case LOCATE_MEMBER:
		if (!dwarf_family_dot_follows(dtype_family(&p->type)))
			return wc_error_new(WC_ENAME, "'%s' is an address: write '(%s)->%s' to follow it.",
					    p->text, p->text, step->name);
		/* fall through */
	case LOCATE_ARROW:
		if (p->stars)
			return path_no_operand(p, "->");
		err = locate_path_value_enter(p, mem);
		return err ? err : path_to_member(p, step->name, mem);
	default:
		return path_no_operand(p, step->op == LOCATE_ADDRESS ? "&"
					  : step->op == LOCATE_SLICE ? "@"
								     : "*");
	}
}

static struct wc_error *go_on_from_number(struct path_place *p, const struct locate_step *step)
{
	if (step->op == LOCATE_DEREF)
		return wc_error_new(
			WC_ENAME,
			"'%s' is a number, and the type of the memory there is not known: write the type "
			"before the number, *(int *)%s, or the address with its size, 0x%" PRIx64 ":SIZE.",
			p->text, p->text, (uint64_t)p->number);
	return path_no_operand(p, step->op == LOCATE_INDEX     ? "[ ]"
				  : step->op == LOCATE_ARROW   ? "->"
				  : step->op == LOCATE_SLICE   ? "@"
				  : step->op == LOCATE_ADDRESS ? "&"
							       : ".");
}

static struct wc_error *go_on(struct path_place *p, const struct locate_step *step,
			      const struct memory_view *mem, bool *done)
{
	bool is_pointer = false;
	struct wc_error *err;

	if (p->kind == PATH_OBJECT && !p->stars && !p->slice) {
		*done = false;
		return NULL;
	}
	if (p->slice)
		return index_slice(p, step);
	err = path_decay(p, mem, &is_pointer);
	if (err)
		return err;
	return p->kind == PATH_NUMBER ? go_on_from_number(p, step) : go_on_from_address(p, step, mem);
}

struct wc_error *path_step_value(struct path_place *p, const struct locate_step *step,
				 const struct memory_view *mem, bool *done)
{
	*done = true;
	switch (step->op) {
	case LOCATE_ADDRESS:
		return take_address(p, mem);
	case LOCATE_CAST:
		return path_cast(p, step, mem);
	case LOCATE_SLICE:
		return slice(p, step->index[0], mem);
	case LOCATE_ADD:
	case LOCATE_SUB:
		return locate_path_value_add(p, step, mem);
	case LOCATE_MUL:
	case LOCATE_DIV:
	case LOCATE_NEGATE:
		return calculate(p, step, mem);
	default:
		return go_on(p, step, mem, done);
	}
}
