#include "watchctl/code/locate/locate_array.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/code/dwarf/dwarf_unit.h"

/* Larger than any address space: what is computed with it cannot overflow. */
#define COUNT_MAX (1ull << 48)

struct reading {
	struct dwarf_eval at; /* as given */
	struct array_shape *shape;
	enum array_state state;
};

/* Evaluates @attr. False: there is none, or r->state says what is wrong. */
static bool evaluate(struct reading *r, Dwarf_Die *die, unsigned int attr, struct dwarf_eval *e, int64_t *ret)
{
	*e = r->at;
	e->nreads = 0;
	switch (dwarf_eval_number(e, die, attr, ret)) {
	case EVAL_OK:
		r->shape->is_described |= e->nreads > 0;
		return true;
	case EVAL_NONE:
		break;
	case EVAL_UNREADABLE:
		r->state = ARRAY_UNREADABLE;
		break;
	case EVAL_UNKNOWN:
		r->state = ARRAY_UNKNOWN;
		break;
	}
	return false;
}

/* Whether the program says that there are no elements. */
static bool is_absent(struct reading *r, Dwarf_Die *array)
{
	struct dwarf_eval e;
	int64_t is;

	return (evaluate(r, array, DW_AT_allocated, &e, &is) && !is) ||
	       (evaluate(r, array, DW_AT_associated, &e, &is) && !is);
}

static void read_data(struct reading *r, Dwarf_Die *array)
{
	struct dwarf_eval e;
	int64_t data;

	r->shape->data = r->at.object;
	if (!evaluate(r, array, DW_AT_data_location, &e, &data))
		return;
	r->shape->data = (uint64_t)data;
	r->shape->is_described = true;
	if (e.nreads)
		r->shape->pointer = e.read[e.nreads - 1];
	if (!data && e.nreads)
		r->state = ARRAY_UNALLOCATED;
}

/*
 * Remembers a place that is written when the bounds are: the last of those that tell them; better the first
 * of what strides are computed with, which gfortran writes behind all others when it allocates.
 */
static void note_bounds(struct array_shape *s, const struct dwarf_eval *e, bool is_stride, bool *has_stride)
{
	for (unsigned int i = 0; i < e->nreads; i++) {
		uint64_t at = e->read[i];
		bool better = is_stride ? !*has_stride || at < s->bounds : !*has_stride && at > s->bounds;

		if (at == s->pointer)
			continue;
		if (better)
			s->bounds = at;
		*has_stride |= is_stride;
	}
}

static void read_dimension(struct reading *r, Dwarf_Die *range, enum dwarf_family family,
			   struct array_dim *ret, bool *has_stride)
{
	struct array_dim d = { .lower = dwarf_family_lower(family) };
	struct dwarf_eval e;
	int64_t n;

	if (evaluate(r, range, DW_AT_lower_bound, &e, &n)) {
		d.lower = n;
		note_bounds(r->shape, &e, false, has_stride);
	}
	if (evaluate(r, range, DW_AT_count, &e, &n)) {
		d.has_count = true;
		d.count = n > 0 ? (uint64_t)n : 0;
	} else if (evaluate(r, range, DW_AT_upper_bound, &e, &n)) {
		d.has_count = true;
		d.count = n < d.lower ? 0 : (uint64_t)n - (uint64_t)d.lower + 1;
		note_bounds(r->shape, &e, false, has_stride);
	}
	if (evaluate(r, range, DW_AT_byte_stride, &e, &n)) {
		d.stride = n;
		note_bounds(r->shape, &e, true, has_stride);
	} else if (evaluate(r, range, DW_AT_bit_stride, &e, &n) && n % 8 == 0) {
		d.stride = n / 8;
	}
	if (d.count > COUNT_MAX)
		r->state = ARRAY_UNKNOWN;
	*ret = d;
}

/* An enumeration is a dimension, too: an element for each of its values, from 0 on. */
static void read_dimensions(struct reading *r, const struct dtype *t)
{
	struct array_shape *s = r->shape;
	enum dwarf_family family = dtype_family(t);
	bool has_stride = false;
	struct dtype at = *t;
	Dwarf_Die range;

	for (; dtype_dimension(&at, &range) && r->state == ARRAY_OK; at.dim++) {
		if (s->ndims == ARRAY_DIMS) {
			r->state = ARRAY_UNKNOWN;
			return;
		}
		if (dwarf_tag(&range) == DW_TAG_enumeration_type)
			dtype_count(&at, &s->dim[s->ndims].count);
		else
			read_dimension(r, &range, family, &s->dim[s->ndims], &has_stride);
		s->dim[s->ndims].has_count |= dwarf_tag(&range) == DW_TAG_enumeration_type;
		s->ndims++;
	}
	if (!s->ndims)
		r->state = ARRAY_UNKNOWN;
}

/* What is said of all elements: their distance, or that they are packed. */
static uint64_t element_stride(struct reading *r, Dwarf_Die *array)
{
	struct array_shape *s = r->shape;
	uint64_t size = dtype_size(&s->element);
	struct dwarf_eval e;
	int64_t n;

	if (evaluate(r, array, DW_AT_byte_stride, &e, &n) && n > 0)
		return (uint64_t)n;
	if (evaluate(r, array, DW_AT_bit_stride, &e, &n) && n > 0) {
		s->bits = n % 8 ? (unsigned int)n : 0;
		return (uint64_t)n / 8;
	}
	return size;
}

/* From the dimension whose neighbours are nearest to the one whose are farthest. */
static unsigned int nth_dimension(const struct array_shape *s, unsigned int n)
{
	return s->column_major ? n : s->ndims - 1 - n;
}

static void set_strides(struct array_shape *s, uint64_t stride)
{
	for (unsigned int i = 0; i < s->ndims; i++) {
		struct array_dim *d = &s->dim[nth_dimension(s, i)];

		if (!d->stride)
			d->stride = (int64_t)stride;
		stride = d->has_count && d->count && d->stride > 0 && stride < COUNT_MAX
				 ? (uint64_t)d->stride * d->count
				 : 0;
		if (stride > COUNT_MAX)
			stride = 0;
	}
}

static bool is_column_major(struct dtype *t)
{
	Dwarf_Word order;

	if (dwarf_die_number(&t->die, DW_AT_ordering, &order))
		return order == DW_ORD_col_major;
	return dtype_family(t) == FAMILY_FORTRAN;
}

enum array_state array_shape_of(const struct dtype *t, struct dwarf_eval *at, struct array_shape *ret)
{
	struct reading r = { .at = *at, .shape = ret };
	struct dtype array = *t;

	*ret = (struct array_shape){ .column_major = is_column_major(&array) };
	ret->element = dtype_of(array.index, &array.die);
	if (is_absent(&r, &array.die)) {
		read_data(&r, &array.die); /* for the place of the pointer */
		return ARRAY_UNALLOCATED;
	}
	if (r.state == ARRAY_OK)
		read_data(&r, &array.die);
	if (r.state == ARRAY_OK)
		read_dimensions(&r, t);
	if (r.state == ARRAY_OK)
		set_strides(ret, element_stride(&r, &array.die));
	return r.state;
}

bool array_shape_is_empty(const struct array_shape *s)
{
	for (unsigned int i = 0; i < s->ndims; i++)
		if (s->dim[i].has_count && !s->dim[i].count)
			return true;
	return false;
}

uint64_t array_shape_size(const struct array_shape *s)
{
	uint64_t size = dtype_size(&s->element);

	if (s->bits || !size)
		return 0;
	for (unsigned int i = 0; i < s->ndims; i++) {
		const struct array_dim *d = &s->dim[nth_dimension(s, i)];

		if (!d->has_count || (d->count > 1 && d->stride != (int64_t)size))
			return 0;
		size *= d->count;
		if (size > COUNT_MAX)
			return 0;
	}
	return size;
}

static void put_element(FILE *f, const struct array_shape *s, enum dwarf_family family, bool last)
{
	bool round = family == FAMILY_FORTRAN || family == FAMILY_ADA;

	/* In C "grid[1]" is an element, too. */
	for (unsigned int i = 0; i < (dwarf_family_indexes_as_c(family) ? 1 : s->ndims); i++) {
		const struct array_dim *d = &s->dim[i];

		if (i == 0 || dwarf_family_indexes_as_c(family))
			fputc(round ? '(' : '[', f);
		fprintf(f, "%" PRId64, d->lower + (last ? (int64_t)d->count - 1 : 0));
		if (i + 1 < s->ndims && !dwarf_family_indexes_as_c(family))
			fputc(',', f);
		else
			fputc(round ? ')' : ']', f);
	}
}

char *array_shape_range(const struct array_shape *s, enum dwarf_family family)
{
	bool several = false;
	char *text = NULL;
	size_t len;
	FILE *f;

	for (unsigned int i = 0; i < s->ndims; i++) {
		if (!s->dim[i].has_count || !s->dim[i].count)
			return NULL;
		several |= s->dim[i].count > 1;
	}
	f = open_memstream(&text, &len);
	if (!f)
		return NULL;
	put_element(f, s, family, false);
	if (several) {
		fputs(" .. ", f);
		put_element(f, s, family, true);
	}
	return fclose(f) == 0 ? text : (free(text), NULL);
}

bool array_string_size(const struct dtype *t, struct dwarf_eval *at, uint64_t *ret)
{
	struct dtype s = *t;
	Dwarf_Attribute attr;
	Dwarf_Word bytes = sizeof(*ret);
	uint64_t place, size = dtype_size(t);
	Dwarf_Op *op;
	size_t n;

	if (!size) {
		if (!dwarf_attr_integrate(&s.die, DW_AT_string_length, &attr) ||
		    dwarf_attr_location(&attr, &op, &n) != 0 ||
		    dwarf_eval_ops(at, op, n, NULL, &place) != EVAL_OK)
			return false;
		if (!dwarf_die_number(&s.die, DW_AT_string_length_byte_size, &bytes))
			dwarf_die_number(&s.die, DW_AT_byte_size, &bytes);
		if (!bytes || bytes > sizeof(size) || !at->mem || !memory_read(at->mem, place, &size, bytes))
			return false;
	}
	*ret = size;
	return size <= COUNT_MAX;
}
