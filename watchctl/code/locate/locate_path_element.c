/*
 * Elements: of arrays in any language, of what pointers lead to, and of the containers whose insides are
 * simple (slices, strings, vectors). Where a language would mean something else by the index than C does, C's
 * meaning is not taken.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/code/dwarf/dwarf_unit.h"
#include "watchctl/code/locate/locate_path_parts.h"

#define DEPTH_MAX 8

/* An array that describes itself in memory */

static void note_cell(struct path_place *p, uint64_t addr, bool bounds)
{
	if (!addr || (bounds && addr % 8) || p->npointers == LOCATE_POINTERS)
		return;
	p->bounds |= (unsigned int)bounds << p->npointers;
	p->pointer[p->npointers++] = addr;
}

static struct wc_error *shape_error(struct path_place *p, enum array_state state)
{
	switch (state) {
	case ARRAY_UNALLOCATED:
		p->null_pointer = true;
		return wc_error_new(
			WC_ENAME,
			"'%s' currently has no elements, because it is not allocated, or not associated. With "
			"--follow the watch begins when it is.",
			p->text);
	case ARRAY_UNREADABLE:
		if (p->is_tls)
			return wc_error_new(
				WC_ENAME,
				"'%s' is thread-local, and each thread has its elements at other addresses. Watch an "
				"element of one thread by its address (0x...:SIZE).",
				p->text);
		return wc_error_new(
			WC_ENAME,
			"The address of the elements of '%s' cannot be read from the process: give the address of one "
			"(0x...:SIZE).",
			p->text);
	case ARRAY_UNKNOWN:
	case ARRAY_OK:
		break;
	}
	return wc_error_new(
		WC_ENAME,
		"The debug information describes the addresses of the elements of '%s' in a form that "
		"watchctl does not support: give the address of one (0x...:SIZE).",
		p->text);
}

struct wc_error *path_array_shape(struct path_place *p, const struct dtype *t, const struct memory_view *mem,
				  struct array_shape *ret)
{
	struct dwarf_eval at = { .object = p->addr, .bias = p->bias, .mem = p->is_tls ? NULL : mem };
	enum array_state state = array_shape_of(t, &at, ret);

	note_cell(p, ret->pointer, false);
	if (state != ARRAY_OK)
		return shape_error(p, state);
	note_cell(p, ret->bounds, true);
	return NULL;
}

/* "(1,2)" */
static void write_indices(const struct locate_step *step, unsigned int from, char *buf, size_t len)
{
	size_t n = (size_t)snprintf(buf, len, "%c", step->round ? '(' : '[');

	for (unsigned int i = from; i < step->nindices && n < len; i++)
		n += (size_t)snprintf(buf + n, len - n, "%s%" PRId64, i > from ? "," : "", step->index[i]);
	if (n < len)
		snprintf(buf + n, len - n, "%c", step->round ? ')' : ']');
}

static struct wc_error *out_of_bounds(struct path_place *p, const struct array_shape *s,
				      const struct locate_step *step, unsigned int from,
				      enum dwarf_family family)
{
	scoped(freep) char *range = array_shape_range(s, family);
	const struct array_dim *d = &s->dim[0];
	char wanted[512];

	/* What describes it may be in the making. */
	p->null_pointer |= s->is_described && p->npointers > 0;
	write_indices(step, from, wanted, sizeof(wanted));
	if (dwarf_family_indexes_as_c(family) && d->has_count && !d->count)
		return wc_error_new(WC_ENAME, "'%s' has no elements: %s is none of them.", p->text, wanted);
	if (dwarf_family_indexes_as_c(family))
		return wc_error_new(WC_ENAME,
				    "'%s' has %" PRIu64 " elements, [%" PRId64 "] to [%" PRId64
				    "]: %s is none of them.",
				    p->text, d->count, d->lower, d->lower + (int64_t)d->count - 1, wanted);
	return wc_error_new(WC_ENAME, "'%s' has the elements %s: %s is none of them.", p->text,
			    range ? range : "that were given at its declaration", wanted);
}

static struct wc_error *too_few(const struct path_place *p, const struct array_shape *s,
				enum dwarf_family family)
{
	scoped(freep) char *range = array_shape_range(s, family);

	if (range)
		range[strcspn(range, " ")] = '\0';
	return wc_error_new(WC_ENAME, "'%s' has %u dimensions: name one element, like %s%s.", p->text,
			    s->ndims, p->text, range ? range : "(1,1)");
}

static struct wc_error *packed(const struct path_place *p, const struct array_shape *s, int64_t index)
{
	uint64_t byte = s->data + (uint64_t)((index - s->dim[0].lower) * (int64_t)s->bits / 8);

	if (s->ndims != 1 || p->is_tls)
		return wc_error_new(WC_ENAME, "'%s' is packed: its elements have no addresses of their own.",
				    p->text);
	return wc_error_new(
		WC_ENAME,
		"'%s' is packed, %u bits for an element: it has no address of its own. Watch the byte "
		"that it begins in, 0x%" PRIx64 ":1.",
		p->text, s->bits, byte);
}

static bool index_is_outside(const struct path_place *p, const struct array_shape *s, unsigned int k,
			     int64_t index, enum dwarf_family family)
{
	const struct array_dim *d = &s->dim[k];

	if (index < d->lower)
		return d->has_count || !dwarf_family_indexes_as_c(family);
	/* "char data[0]" at the end of a structure of C's has as many as were allocated. */
	if (!d->has_count ||
	    (!d->count && p->may_go_on && dwarf_family_indexes_as_c(family) && !s->is_described))
		return false;
	return (uint64_t)index - (uint64_t)d->lower >= d->count;
}

/* As many of the indices from *@used on as the array type @t has dimensions. */
static struct wc_error *index_array(struct path_place *p, const struct dtype *t,
				    const struct locate_step *step, unsigned int *used,
				    const struct memory_view *mem, const uint64_t *moved)
{
	unsigned int left = step->nindices - *used, n;
	enum dwarf_family family = dtype_family(t);
	struct array_shape s;
	struct wc_error *err = path_array_shape(p, t, mem, &s);

	if (err)
		return err;
	if (moved)
		s.data = *moved;
	n = left < s.ndims ? left : s.ndims;
	if (n < s.ndims && (s.column_major || s.is_described || s.bits))
		return too_few(p, &s, family);
	for (unsigned int k = 0; k < n; k++)
		if (index_is_outside(p, &s, k, step->index[*used + k], family))
			return out_of_bounds(p, &s, step, *used, family);
	if (s.bits)
		return packed(p, &s, step->index[*used]);
	for (unsigned int k = 0; k < n; k++) {
		if (!s.dim[k].stride && !dtype_size(&s.element) && !dtype_is_empty(&s.element))
			return path_wrong_kind(p, "of unknown size: its elements cannot be counted.");
		s.data += (uint64_t)(step->index[*used + k] - s.dim[k].lower) * (uint64_t)s.dim[k].stride;
	}
	p->addr = s.data;
	p->size = 0;
	p->type = s.element;
	if (n < s.ndims) {
		p->type = *t;
		p->type.dim += n;
	}
	*used += n;
	return NULL;
}

bool dtype_is_fat_pointer(const struct dtype *stripped)
{
	struct dmember m;

	return dtype_family(stripped) == FAMILY_ADA && dtype_is_aggregate_tag(dtype_tag(stripped)) &&
	       dtype_member(stripped, 0, "P_ARRAY", NULL, &m) == MEMBER_FOUND &&
	       dtype_member(stripped, 0, "P_BOUNDS", NULL, &m) == MEMBER_FOUND;
}

/* Its bounds are reported from where the pointer is, its elements are where that leads. */
static struct wc_error *index_fat_pointer(struct path_place *p, const struct locate_step *step,
					  unsigned int *used, const struct memory_view *mem)
{
	struct path_place array = *p;
	struct wc_error *err = path_to_member(&array, "P_ARRAY", mem);
	struct dtype s;
	uint64_t data;

	if (!err)
		err = path_to_target(&array, mem);
	memcpy(p->pointer, array.pointer, sizeof(p->pointer));
	p->npointers = array.npointers;
	p->null_pointer = array.null_pointer;
	if (err)
		return err;
	data = array.addr;
	s = dtype_strip(&array.type);
	if (dtype_tag(&s) != DW_TAG_array_type)
		return path_wrong_kind(p, "which is neither an array nor a pointer.");
	return index_array(p, &s, step, used, mem, &data);
}

/* Pointers */

/* The element @index of those that the pointer at @p leads to, each @size bytes. */
static struct wc_error *index_pointer(struct path_place *p, int64_t index, uint64_t size,
				      const struct dtype *type, const struct memory_view *mem)
{
	struct wc_error *err = path_follow_pointer(p, mem);

	if (err)
		return err;
	p->size = 0;
	p->may_go_on = true;
	p->type = *type;
	if (!size)
		return path_wrong_kind(p, "of unknown size: its elements cannot be counted.");
	p->addr += (uint64_t)index * size;
	return NULL;
}

/* Containers: a pointer to the first element, and how many there are */

struct container {
	enum dwarf_family family;
	const char *data[2]; /* the way to the pointer */
	const char *len[2];  /* to the number of elements; NULL: to one past the last */
	const char *end[2];
};

static const struct container containers[] = {
	{ FAMILY_GO, { "array" }, { "len" }, { NULL } },	 /* []T */
	{ FAMILY_GO, { "str" }, { "len" }, { NULL } },		 /* string */
	{ FAMILY_RUST, { "data_ptr" }, { "length" }, { NULL } }, /* &[T], &str, Box<[T]> */
	/* std::vector and std::string of libstdc++ */
	{ FAMILY_CXX, { "_M_impl", "_M_start" }, { NULL }, { "_M_impl", "_M_finish" } },
	{ FAMILY_CXX, { "_M_dataplus", "_M_p" }, { "_M_string_length" }, { NULL } },
};

static bool find_member(const struct path_place *p, const char *const name[2], const struct memory_view *mem,
			struct dmember *ret)
{
	struct dtype s = dtype_strip(&p->type);
	uint64_t addr = p->addr;

	for (unsigned int i = 0; i < 2 && name[i]; i++) {
		if (!dtype_is_aggregate_tag(dtype_tag(&s)) ||
		    dtype_member(&s, addr, name[i], p->is_tls ? NULL : mem, ret) != MEMBER_FOUND)
			return false;
		addr = ret->addr;
		s = dtype_strip(&ret->type);
	}
	return name[0];
}

static bool is_pointer(const struct dmember *m)
{
	struct dtype s = dtype_strip(&m->type);

	return dtype_tag(&s) == DW_TAG_pointer_type;
}

static const struct container *container_of_type(const struct path_place *p, const struct dtype *s,
						 const struct memory_view *mem, struct dmember *data)
{
	for (size_t i = 0; i < sizeof(containers) / sizeof(*containers); i++) {
		const struct container *c = &containers[i];
		struct dmember other;

		if (c->family == dtype_family(s) && find_member(p, c->data, mem, data) && is_pointer(data) &&
		    find_member(p, c->len[0] ? c->len : c->end, mem, &other))
			return c;
	}
	return NULL;
}

static bool read_word(const struct path_place *p, const struct dmember *m, const struct memory_view *mem,
		      int64_t *ret)
{
	return mem && !p->is_tls && memory_read(mem, m->addr, ret, sizeof(*ret));
}

static struct wc_error *check_count(const struct path_place *p, int64_t count, int64_t index)
{
	if (index >= 0 && index < count)
		return NULL;
	return wc_error_new(WC_ENAME,
			    "'%s' currently has %" PRId64 " elements: [%" PRId64 "] is none of them.",
			    p->text, count, index);
}

/* Goes from the container at @p to the element of type @type that its pointer @data leads to. */
static struct wc_error *index_behind(struct path_place *p, const struct dmember *data,
				     const struct dtype *type, int64_t index, const struct memory_view *mem)
{
	p->addr = data->addr;
	p->type = data->type;
	return index_pointer(p, index, dtype_size(type), type, mem);
}

static struct wc_error *index_container(struct path_place *p, const struct container *c,
					const struct dmember *data, int64_t index,
					const struct memory_view *mem)
{
	struct dtype s = dtype_strip(&data->type), type = dtype_target(&s);
	uint64_t size = dtype_size(&type);
	struct wc_error *err = NULL;
	int64_t begin, end;
	struct dmember m;

	if (c->len[0]) {
		if (find_member(p, c->len, mem, &m) && read_word(p, &m, mem, &end))
			err = check_count(p, end, index);
	} else if (size && find_member(p, c->end, mem, &m) && read_word(p, &m, mem, &end) &&
		   read_word(p, data, mem, &begin)) {
		err = check_count(p, (end - begin) / (int64_t)size, index);
	}
	return err ? err : index_behind(p, data, &type, index, mem);
}

/* The first pointer inside @t at @addr: a Vec of Rust's has it in several structs, which change with
 * releases. */
static bool find_pointer(const struct dtype *t, uint64_t addr, unsigned int depth, struct dmember *ret);

struct pointer_search {
	struct dmember *ret;
	unsigned int depth;
	bool found;
};

static bool look_at_member(void *ctx, const struct dmember_reported *m)
{
	struct pointer_search *q = ctx;

	if (!m->is_placed)
		return true;
	if (is_pointer(&m->m)) {
		*q->ret = m->m;
		q->found = true;
	} else {
		struct dtype s = dtype_strip(&m->m.type);

		q->found = find_pointer(&s, m->m.addr, q->depth + 1, q->ret);
	}
	return !q->found;
}

static bool find_pointer(const struct dtype *t, uint64_t addr, unsigned int depth, struct dmember *ret)
{
	struct pointer_search q = { .ret = ret, .depth = depth };

	if (depth < DEPTH_MAX && dtype_is_aggregate_tag(dtype_tag(t)))
		dtype_each_member(t, addr, NULL, look_at_member, &q);
	return q.found;
}

static bool is_rust_vector(const struct path_place *p, const struct dtype *s, struct dmember *data,
			   struct dmember *len, struct dtype *type)
{
	static const char *const buf[2] = { "buf", NULL }, *const length[2] = { "len", NULL };
	struct dtype t = *s, inner;
	const char *name = dwarf_diename(&t.die);
	struct dmember m;

	if (dtype_family(s) != FAMILY_RUST || !name || strncmp(name, "Vec<", 4) != 0 ||
	    !find_member(p, buf, NULL, &m) || !find_member(p, length, NULL, len))
		return false;
	inner = dtype_strip(&m.type);
	return find_pointer(&inner, m.addr, 0, data) && dtype_first_parameter(s, type);
}

/* String is a struct around a Vec<u8>. */
static bool is_rust_string(const struct dtype *s)
{
	struct dtype t = *s;
	const char *name = dwarf_diename(&t.die);

	return dtype_family(s) == FAMILY_RUST && name && strcmp(name, "String") == 0;
}

static struct wc_error *no_elements(const struct path_place *p, const struct dtype *s)
{
	scoped(freep) char *members = dtype_is_aggregate_tag(dtype_tag(s)) ? dtype_member_list(s) : NULL;
	scoped(freep) char *type = dtype_name(&p->type);
	struct wc_error *err = path_no_container_element(p, s);

	if (err)
		return err;
	if (!members && dtype_tag(s) != DW_TAG_pointer_type)
		return path_wrong_kind(p, "which is neither an array nor a pointer.");
	return wc_error_new(
		WC_ENAME,
		"'%s' is of type '%s', whose elements cannot be found by an index. %s%s%s the address "
		"and the size (0x...:SIZE).",
		p->text, type ? type : "?", members ? "Use its members (" : "", members ? members : "",
		members ? "), or give" : "Give");
}

static struct wc_error *index_aggregate(struct path_place *p, const struct dtype *s,
					const struct locate_step *step, unsigned int *used,
					const struct memory_view *mem)
{
	const struct container *c;
	struct dmember data, len;
	struct wc_error *err;
	struct dtype type;
	bool is_smart;
	int64_t count;

	if (dtype_is_fat_pointer(s))
		return index_fat_pointer(p, step, used, mem);
	if (is_rust_string(s))
		return path_to_member(p, "vec", mem);
	if (is_rust_vector(p, s, &data, &len, &type)) {
		err = read_word(p, &len, mem, &count) ? check_count(p, count, step->index[*used]) : NULL;
		return err ? err : index_behind(p, &data, &type, step->index[(*used)++], mem);
	}
	err = path_open_smart_pointer(p, s, true, mem, &is_smart);
	if (err || is_smart)
		return err;
	c = container_of_type(p, s, mem, &data);
	if (c)
		return index_container(p, c, &data, step->index[(*used)++], mem);
	if (dtype_family(s) == FAMILY_CXX &&
	    dtype_member(s, p->addr, "_M_elems", NULL, &data) == MEMBER_FOUND)
		return path_to_member(p, "_M_elems", mem);
	return no_elements(p, s);
}

/* What a language other than C goes to by itself when what points to it is indexed. */
static bool has_elements(const struct dtype *stripped)
{
	static const char *const members[] = { "array", "str" }; /* of Go's slices and strings */
	struct dmember m;

	if (dtype_tag(stripped) == DW_TAG_array_type)
		return true;
	if (!dtype_is_aggregate_tag(dtype_tag(stripped)))
		return false;
	for (size_t i = 0; i < 2 && dtype_family(stripped) == FAMILY_GO; i++)
		if (dtype_member(stripped, 0, members[i], NULL, &m) == MEMBER_FOUND && is_pointer(&m))
			return true;
	return dtype_family(stripped) != FAMILY_GO;
}

/* In C a pointer is an array of what it points to; elsewhere it stands for the array that it points to. */
static struct wc_error *index_behind_pointer(struct path_place *p, const struct dtype *s,
					     const struct locate_step *step, unsigned int *used,
					     const struct memory_view *mem)
{
	struct dtype to = dtype_target(s), whole = dtype_strip(&to);
	enum dwarf_family family = dtype_family(s);

	if (family != FAMILY_C && family != FAMILY_CXX && has_elements(&whole))
		return path_to_target(p, mem);
	if (family == FAMILY_GO || family == FAMILY_ADA)
		return no_elements(p, s);
	return index_pointer(p, step->index[(*used)++], dtype_size(&to), &to, mem);
}

static struct wc_error *check_brackets(const struct path_place *p, const struct locate_step *step,
				       enum dwarf_family family)
{
	char text[512] = "";
	size_t n = 0;

	if (!dwarf_family_indexes_as_c(family) || (!step->round && step->nindices == 1))
		return NULL;
	for (unsigned int i = 0; i < step->nindices && n < sizeof(text); i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "[%" PRId64 "]", step->index[i]);
	return wc_error_new(WC_ENAME, "The language of '%s' has another syntax for elements: write '%s%s'.",
			    p->text, p->text, text);
}

struct wc_error *path_to_element(struct path_place *p, const struct locate_step *step,
				 const struct memory_view *mem)
{
	struct wc_error *err = check_brackets(p, step, dtype_family(&p->type));

	for (unsigned int used = 0, turns = 0; used < step->nindices && !err; turns++) {
		struct dtype s = dtype_strip(&p->type);
		int tag = dtype_tag(&s);

		if (turns > LOCATE_INDICES + DEPTH_MAX)
			return no_elements(p, &s);
		if (tag == DW_TAG_array_type)
			err = index_array(p, &s, step, &used, mem, NULL);
		else if (tag == DW_TAG_pointer_type)
			err = index_behind_pointer(p, &s, step, &used, mem);
		else if (dtype_is_aggregate_tag(tag))
			err = index_aggregate(p, &s, step, &used, mem);
		else
			err = no_elements(p, &s);
	}
	return err;
}
