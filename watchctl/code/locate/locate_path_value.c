/*
 * What a place is as a value: its size, its type, its number, the address that it is or becomes. A place that was
 * calculated is no longer what lies in memory but a pointer (PATH_ADDRESS: @addr, and the type of what is there) or a
 * number. Pointers that are read on the way are remembered as everywhere.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/code/locate/locate_path_value.h"

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

static bool has_no_bytes(const struct path_place *p)
{
	struct dtype s = dtype_strip(&p->type);

	if (p->kind != PATH_OBJECT || p->stars || p->slice || !dtype_is_empty(&s))
		return false;
	return dtype_tag(&s) != DW_TAG_array_type || !p->may_go_on;
}

struct wc_error *path_check_place(const struct path_place *p)
{
	if (p->kind == PATH_NUMBER)
		return wc_error_new(
			WC_ENAME,
			"'%s' is a number, %" PRId64 ", not a variable. To watch the memory at an "
			"address, give its size, 0x%" PRIx64 ":SIZE, or its type, *(int *)0x%" PRIx64 ".",
			p->text, p->number, (uint64_t)p->number, (uint64_t)p->number);
	if (has_no_bytes(p))
		return wc_error_new(WC_ENAME, "The size of '%s' is 0: it has no bytes that could be watched.",
				    p->text);
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

struct wc_error *path_take_number(const struct path_place *p, const struct value_number *n, int64_t *ret)
{
	if (n->kind == NUMBER_UNSIGNED && n->u > INT64_MAX)
		return wc_error_new(WC_ENAME,
				    "'%s' is %" PRIu64
				    ": calculations here are in signed numbers of 64 bits, up to %" PRId64
				    ". Write the result itself.",
				    p->text, n->u, INT64_MAX);
	*ret = n->kind == NUMBER_SIGNED ? n->i : (int64_t)n->u;
	return NULL;
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
		value_type_deinit(&type);
		return path_take_number(p, &n, ret);
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
