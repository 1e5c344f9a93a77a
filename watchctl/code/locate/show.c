/*
 * A value becomes a text, and the text of an object is made of those of its parts: on one line where that is
 * short, else a line each. Whatever the program's memory holds, the result is bounded: so many elements of an
 * array, so deep into objects, so much in all.
 */
#include "watchctl/code/locate/show.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/dwarf/dwarf_unit.h"
#include "watchctl/code/locate/locate_array.h"
#include "watchctl/code/locate/locate_object.h"
#include "watchctl/code/locate/show_text.h"
#include "watchctl/code/lookup/locate_find.h"

#define ELEMENTS_MAX 200
#define REPEATS_MIN 10
#define DEPTH_MAX 12
#define PARTS_MAX 4096 /* in all */
#define LINE_MAX_COLUMNS 88
#define VALUE_TEXT SHOW_TEXT
#define STRING_MAX 200

struct show {
	const struct show_source *from;
	char format;
	uint64_t bias; /* of the module that has the variable */
	unsigned int depth;
	size_t parts;
};

static char *show_at(struct show *s, const struct dtype *t, const struct dmember *m);

static char *text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static char *text(const char *fmt, ...)
{
	char *t = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&t, fmt, ap);
	va_end(ap);
	return n < 0 ? NULL : t;
}

/* An array of characters: as far as its first NUL, unless there is something behind that. */
static char *show_characters(struct show *s, uint64_t addr, uint64_t count)
{
	size_t n = count < STRING_MAX ? count : STRING_MAX, end;
	unsigned char buf[STRING_MAX];

	if (!memory_read(s->from->mem, addr, buf, n))
		return text("<cannot be read at 0x%" PRIx64 ">", addr);
	end = n;
	while (end && !buf[end - 1])
		end--;
	return show_quote(buf, end, count > n);
}

/* Objects */

struct parts {
	struct show *s;
	char **v;
	size_t n, cap;
	bool failed;
};

static void parts_deinit(struct parts *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->v[i]);
	free(p->v);
}

/* Takes @part; NULL: no memory. */
static bool add_part(struct parts *p, char *part)
{
	if (!part || !vec_push(p->v, p->n, p->cap, part)) {
		free(part);
		p->failed = true;
	}
	return !p->failed;
}

static void put_indented(FILE *f, const char *t)
{
	fputs("\n  ", f);
	for (; *t; t++) {
		fputc(*t, f);
		if (*t == '\n')
			fputs("  ", f);
	}
}

static char *show_join(struct parts *p)
{
	char *out = NULL;
	size_t total = 2, size;
	bool lines = false;
	FILE *f;

	if (p->failed)
		return NULL;
	for (size_t i = 0; i < p->n; i++) {
		total += strlen(p->v[i]) + 2;
		lines |= strchr(p->v[i], '\n') != NULL;
	}
	lines |= total > LINE_MAX_COLUMNS;
	f = open_memstream(&out, &size);
	if (!f)
		return NULL;
	fputc('{', f);
	for (size_t i = 0; i < p->n; i++) {
		if (lines)
			put_indented(f, p->v[i]);
		else
			fputs(p->v[i], f);
		if (i + 1 < p->n)
			fputs(lines ? "," : ", ", f);
	}
	fputs(lines && p->n ? "\n}" : "}", f);
	return fclose(f) ? (free(out), NULL) : out;
}

static bool show_member(void *ctx, const struct dmember_reported *m)
{
	struct parts *p = ctx;
	scoped(freep) char *value = NULL;

	if (m->is_variant)
		return p->n && strstr(p->v[p->n - 1], "one of its variants")
			       ? true
			       : add_part(p, text("<one of its variants: which is not known>"));
	value = m->is_placed ? show_at(p->s, &m->m.type, &m->m) : text("<its place is not known>");
	if (!value)
		return add_part(p, NULL);
	if (m->is_base)
		return add_part(p, text("<%s> = %s", m->name ? m->name : "base", value));
	return add_part(p, m->name ? text("%s = %s", m->name, value) : take_ptr(value));
}

static char *show_aggregate(struct show *s, const struct dtype *t, uint64_t addr)
{
	scoped(parts_deinit) struct parts p = { .s = s };

	dtype_each_member(t, addr, s->from->mem, show_member, &p);
	return show_join(&p);
}

static bool add_element(struct parts *p, char *value, uint64_t repeats)
{
	char *part = value && repeats > 1 ? text("%s <repeats %" PRIu64 " times>", value, repeats) : NULL;

	if (!value || repeats == 1)
		return add_part(p, value);
	if (repeats >= REPEATS_MIN) {
		free(value);
		return add_part(p, part);
	}
	free(part);
	while (--repeats)
		if (!add_part(p, strdup(value)))
			break;
	return add_part(p, value);
}

/* The dimension that changes slowest comes first. */
static const struct array_dim *dimension_of(const struct array_shape *a, unsigned int level)
{
	return &a->dim[a->column_major ? a->ndims - 1 - level : level];
}

static char *show_elements(struct show *s, const struct array_shape *a, unsigned int level, uint64_t addr);

static char *show_element(struct show *s, const struct array_shape *a, unsigned int level, uint64_t addr)
{
	struct dmember m = { .addr = addr };

	return level + 1 == a->ndims ? show_at(s, &a->element, &m) : show_elements(s, a, level + 1, addr);
}

static char *show_list(struct show *s, const struct array_shape *a, unsigned int level, uint64_t addr)
{
	const struct array_dim *d = dimension_of(a, level);
	scoped(parts_deinit) struct parts p = { .s = s };
	uint64_t count = d->count, repeats = 0;
	char *last = NULL;
	size_t shown = 0;

	for (uint64_t i = 0; i < count && !p.failed; i++) {
		char *value;

		if (shown + (repeats < REPEATS_MIN ? repeats : 1) >= ELEMENTS_MAX || s->parts >= PARTS_MAX)
			break;
		value = show_element(s, a, level, addr + i * (uint64_t)d->stride);
		if (last && value && !strcmp(last, value)) {
			free(value);
			repeats++;
			continue;
		}
		shown += repeats < REPEATS_MIN ? repeats : 1;
		if (last && !add_element(&p, last, repeats)) {
			free(value);
			return NULL;
		}
		last = value;
		repeats = 1;
		if (!value)
			return NULL;
		if (i + 1 == count)
			break;
	}
	if (last)
		add_element(&p, last, repeats);
	if (shown + 1 < count &&
	    (shown + (repeats < REPEATS_MIN ? repeats : 1) >= ELEMENTS_MAX || s->parts >= PARTS_MAX))
		add_part(&p, strdup("..."));
	return show_join(&p);
}

static bool is_character(const struct dtype *t)
{
	struct value_type v = { 0 };
	bool is = dtype_size(t) == 1 && dtype_value_type(t, &v) && v.kind == VALUE_CHAR;

	value_type_deinit(&v);
	return is;
}

static char *show_elements(struct show *s, const struct array_shape *a, unsigned int level, uint64_t addr)
{
	const struct array_dim *d = dimension_of(a, level);

	if (!d->has_count)
		return text("<an array of unknown length>");
	if (level + 1 == a->ndims && d->stride == 1 && is_character(&a->element) &&
	    (!s->format || s->format == 's'))
		return show_characters(s, addr, d->count);
	if (!d->stride)
		return text("<elements of unknown size>");
	return show_list(s, a, level, addr);
}

static char *show_array(struct show *s, const struct dtype *t, uint64_t addr)
{
	struct dwarf_eval at = { .object = addr, .bias = s->bias, .mem = s->from->mem };
	struct array_shape a;

	switch (array_shape_of(t, &at, &a)) {
	case ARRAY_OK:
		return a.bits ? text("<packed elements of %u bits>", a.bits)
			      : show_elements(s, &a, 0, a.data);
	case ARRAY_UNALLOCATED:
		return text("<not allocated>");
	case ARRAY_UNREADABLE:
		return text("<cannot be read at 0x%" PRIx64 ">", addr);
	case ARRAY_UNKNOWN:
		break;
	}
	return text("<an array of unknown length>");
}

/* Fortran's characters, whose length their type or another variable shows. */
static char *show_fortran_string(struct show *s, const struct dtype *t, uint64_t addr)
{
	struct dwarf_eval at = { .object = addr, .bias = s->bias, .mem = s->from->mem };
	uint64_t size;

	return array_string_size(t, &at, &size) ? show_characters(s, addr, size)
						: text("<a string of unknown length>");
}

/* Scalars */

/* Bytes that no number of ours holds, most significant first. */
static char *show_bytes(struct show *s, uint64_t addr, uint64_t size)
{
	unsigned char bytes[64];
	char out[2 * sizeof(bytes) + 3] = "0x";

	if (size > sizeof(bytes))
		return text("<%" PRIu64 " bytes>", size);
	if (!memory_read(s->from->mem, addr, bytes, size))
		return text("<cannot be read at 0x%" PRIx64 ">", addr);
	for (size_t i = 0; i < size; i++)
		snprintf(out + 2 + 2 * i, 3, "%02x", bytes[size - 1 - i]);
	return text("%s", out);
}

static char *show_int128(unsigned __int128 v, bool is_signed)
{
	char digits[48];
	bool minus = is_signed && (__int128)v < 0;
	size_t at = sizeof(digits);

	if (minus)
		v = -v;
	digits[--at] = '\0';
	do {
		digits[--at] = (char)('0' + (int)(v % 10));
		v /= 10;
	} while (v);
	return text("%s%s", minus ? "-" : "", digits + at);
}

/* Numbers of 16 bytes: integers, and long double with its 10. */
static char *show_wide(struct show *s, const struct dtype *t, uint64_t addr)
{
	struct dtype copy = *t;
	Dwarf_Word encoding = 0;
	union {
		unsigned __int128 n;
		long double f;
	} v;

	if (dtype_size(t) != 16 || dtype_tag(t) != DW_TAG_base_type ||
	    (s->format && s->format != 'd' && s->format != 'u' && s->format != 'f') ||
	    !dwarf_die_number(&copy.die, DW_AT_encoding, &encoding) ||
	    !memory_read(s->from->mem, addr, &v, 16))
		return show_bytes(s, addr, dtype_size(t));
	if (encoding == DW_ATE_signed || encoding == DW_ATE_unsigned)
		return show_int128(v.n, s->format ? s->format == 'd' : encoding == DW_ATE_signed);
	if (encoding == DW_ATE_float) {
		for (int digits = 1; digits <= 21; digits++) {
			char out[64];

			snprintf(out, sizeof(out), "%.*Lg", digits, v.f);
			if (digits == 21 || strtold(out, NULL) == v.f)
				return text("%s", out);
		}
	}
	return show_bytes(s, addr, 16);
}

/* Behind a pointer to characters: the string. */
static char *show_pointer(struct show *s, const struct dtype *t, uint64_t raw, const char *value)
{
	struct dtype to = dtype_target(t);
	char *string = NULL, *out;
	size_t len;

	if (dtype_is_reference(t)) {
		struct dmember m = { .addr = raw };

		string = raw ? show_at(s, &to, &m) : NULL;
		out = string ? text("@0x%" PRIx64 ": %s", raw, string) : text("@0x%" PRIx64, raw);
		free(string);
		return out;
	}
	if (raw && to.known && is_character(&to))
		string = show_string(s->from->mem, raw, STRING_MAX, &len);
	out = string ? text("0x%" PRIx64 " %s", raw, string) : text("%s", value);
	free(string);
	return out;
}

static bool show_load(struct show *s, uint64_t addr, uint64_t size, uint64_t *raw)
{
	*raw = 0;
	return memory_read(s->from->mem, addr, raw, size);
}

/* A bit field of 64 bits may begin in the middle of a byte, and so take nine. */
static bool load_field(struct show *s, const struct dmember *m, uint64_t *raw)
{
	unsigned __int128 v = 0;

	if (!memory_read(s->from->mem, m->addr, &v, (m->bit_offset + m->bit_size + 7) / 8))
		return false;
	*raw = (uint64_t)(v >> m->bit_offset);
	return true;
}

static bool is_signed(const struct value_type *t)
{
	return t->kind == VALUE_SIGNED || (t->kind == VALUE_ENUM && t->enum_signed) ||
	       (t->kind == VALUE_CHAR &&
		!(t->name && (strstr(t->name, "unsigned") || strstr(t->name, "char8_t") ||
			      strstr(t->name, "char16_t") || strstr(t->name, "char32_t"))));
}

/* A bit field as the number of @size bytes that it stands for. */
static uint64_t widen(const struct value_type *type, const struct dmember *m, uint64_t size, uint64_t raw)
{
	if (m->bit_size < 64)
		raw &= (1ull << m->bit_size) - 1;
	if (is_signed(type))
		raw = (uint64_t)show_sign_extend(raw, m->bit_size);
	return size < 8 ? raw & ((1ull << size * 8) - 1) : raw;
}

static char *format_scalar(struct show *s, const struct value_type *type, const struct dtype *stripped,
			   uint64_t size, uint64_t raw)
{
	char buf[VALUE_TEXT], symbol[VALUE_TEXT / 2];
	bool named;

	if (s->format && s->format != 's') {
		show_put_number(s->from, s->format, (unsigned int)size, is_signed(type), raw, false, buf,
				sizeof(buf));
		return text("%s", buf);
	}
	named = type->kind == VALUE_POINTER && raw && s->from->symbolizer &&
		symbolizer_data_name(s->from->symbolizer, raw, symbol, sizeof(symbol));
	value_format(type, (unsigned int)size, raw, named ? symbol : NULL, buf, sizeof(buf));
	if (dtype_tag(stripped) == DW_TAG_pointer_type || dtype_is_reference(stripped))
		return show_pointer(s, stripped, raw, buf);
	return text("%s", buf);
}

static char *show_scalar(struct show *s, const struct dtype *t, const struct dtype *stripped,
			 const struct dmember *m)
{
	uint64_t size = dtype_size(t), raw;
	struct value_type type = { 0 };
	char *out;

	if (!size || size > 8 || (size & (size - 1)))
		return size > 8 ? show_wide(s, stripped, m->addr) : text("<of unknown size>");
	if (!(m->bit_size ? load_field(s, m, &raw) : show_load(s, m->addr, size, &raw)))
		return text("<cannot be read at 0x%" PRIx64 ">", m->addr);
	if (!dtype_value_type(t, &type))
		return NULL;
	if (m->bit_size)
		raw = widen(&type, m, size, raw);
	out = format_scalar(s, &type, stripped, size, raw);
	value_type_deinit(&type);
	return out;
}

static char *show_at(struct show *s, const struct dtype *t, const struct dmember *m)
{
	struct dtype stripped = dtype_strip(t);
	int tag = dtype_tag(&stripped);
	char *out;

	if (++s->parts > PARTS_MAX || s->depth == DEPTH_MAX)
		return text("...");
	s->depth++;
	if (dtype_is_aggregate_tag(tag))
		out = show_aggregate(s, &stripped, m->addr);
	else if (tag == DW_TAG_array_type)
		out = show_array(s, &stripped, m->addr);
	else if (tag == DW_TAG_string_type)
		out = show_fortran_string(s, &stripped, m->addr);
	else
		out = show_scalar(s, t, &stripped, m);
	s->depth--;
	return out;
}

/* What has no type. */
static char *show_untyped(struct show *s, const struct object *o)
{
	uint64_t size = o->place.size, raw;
	char buf[VALUE_TEXT];

	if (o->is_function) {
		show_as(s->from, VALUE_POINTER, 8, o->place.addr, buf, sizeof(buf));
		return text("%s (a function)", buf);
	}
	if (!size)
		return text("<of unknown type and size, at 0x%" PRIx64 ">", o->place.addr);
	if (size > 8 || (size & (size - 1)))
		return show_bytes(s, o->place.addr, size);
	if (!show_load(s, o->place.addr, size, &raw))
		return text("<cannot be read at 0x%" PRIx64 ">", o->place.addr);
	show_put_number(s->from, s->format && s->format != 's' ? s->format : 'x', (unsigned int)size, true,
			raw, false, buf, sizeof(buf));
	return text("%s", buf);
}

static struct wc_error *show_find(const struct show_source *s, const char *expr, struct object *ret)
{
	struct wc_error *err = locate_object(s->locator, expr, s->modules, s->mem, false, ret);

	if (!err && ret->place.is_tls) {
		object_deinit(ret);
		return wc_error_new(
			WC_ENAME,
			"'%s' is thread-local: every thread has its own copy, and it is not known which "
			"one to print. Watch it to see the value of each thread at its accesses",
			expr);
	}
	return err;
}

/* What was calculated, and has no place of its own. */

static char *show_calculated(const struct show *s, const struct path_place *p)
{
	scoped(freep) char *type = path_type_name(p);
	scoped(freep) char *string = NULL;
	uint64_t value = p->kind == PATH_NUMBER ? (uint64_t)p->number : p->addr;
	char buf[VALUE_TEXT];
	size_t len;

	if (p->kind == PATH_NUMBER || s->format) {
		show_put_number(s->from, s->format && s->format != 's' ? s->format : 'd', 8, true, value,
				false, buf, sizeof(buf));
		return text("%s", buf);
	}
	show_as(s->from, VALUE_POINTER, 8, value, buf, sizeof(buf));
	if (!p->stars && p->type.known && is_character(&p->type))
		string = show_string(s->from->mem, value, STRING_MAX, &len);
	return text("%s%s%s%s%s%s", type ? "(" : "", type ? type : "", type ? ") " : "", buf,
		    string ? " " : "", string ? string : "");
}

/* A pointer whose type debug information has no entry for. */
static char *show_cast_pointer(struct show *s, const struct path_place *p, uint64_t addr)
{
	struct path_place value = *p;

	if (!show_load(s, addr, 8, &value.addr))
		return text("<cannot be read at 0x%" PRIx64 ">", addr);
	value.kind = PATH_ADDRESS;
	value.stars--;
	value.slice = 0;
	return show_calculated(s, &value);
}

static char *show_pointers(struct show *s, const struct path_place *p)
{
	scoped(parts_deinit) struct parts parts = { .s = s };

	for (uint64_t i = 0; i < p->slice && i < ELEMENTS_MAX; i++)
		add_part(&parts, show_cast_pointer(s, p, p->addr + 8 * i));
	if (p->slice > ELEMENTS_MAX)
		add_part(&parts, strdup("..."));
	return show_join(&parts);
}

static char *show_slice(struct show *s, const struct path_place *p)
{
	struct array_shape a = { .ndims = 1, .element = p->type };

	a.dim[0] = (struct array_dim){ .count = p->slice,
				       .has_count = true,
				       .stride = (int64_t)path_element_size(p) };
	return p->stars ? show_pointers(s, p) : show_elements(s, &a, 0, p->addr);
}

static char *show_place(struct show *s, const struct object *o)
{
	const struct path_place *p = &o->place;
	struct dmember m = {
		.addr = p->addr, .bit_offset = p->bit_offset, .bit_size = p->bit_size, .storage = p->storage
	};

	if (p->kind != PATH_OBJECT)
		return show_calculated(s, p);
	if (p->slice)
		return show_slice(s, p);
	if (p->stars)
		return show_cast_pointer(s, p, p->addr);
	return o->is_function || !p->type.known ? show_untyped(s, o) : show_at(s, &p->type, &m);
}

static struct wc_error *value_of(const struct show_source *s, const char *expr, char format, char **ret)
{
	struct show show = { .from = s, .format = format };
	scoped(object_deinit) struct object o = { 0 };
	struct wc_error *err = show_find(s, expr, &o);
	char *out;

	if (err)
		return err;
	show.bias = o.place.bias;
	out = show_place(&show, &o);
	if (!out)
		return &wc_enomem;
	*ret = out;
	return NULL;
}

static struct wc_error *address_of(const struct show_source *s, const char *expr, char **ret)
{
	scoped(object_deinit) struct object o = { 0 };
	struct wc_error *err = show_find(s, expr, &o);
	scoped(freep) char *type = NULL;
	char buf[VALUE_TEXT];
	size_t bounds;
	bool array;

	if (!err)
		err = path_settle(&o.place, s->mem, NULL);
	if (err)
		return err;
	if (o.place.bit_size)
		return wc_error_new(WC_ENAME, "'%s' is a bit field: it has no address of its own", expr);
	if (o.place.kind != PATH_OBJECT || o.place.slice)
		return wc_error_new(WC_ENAME, "'%s' is a value: it has no address", expr);
	type = o.place.type.known && !o.is_function ? path_type_name(&o.place) : NULL;
	show_as(s, VALUE_POINTER, 8, o.place.addr, buf, sizeof(buf));
	/* "struct node (*)[3]" */
	bounds = type ? strcspn(type, "[") : 0;
	array = type && type[bounds];
	*ret = type ? text("(%.*s%s%s) %s", (int)bounds, type, array ? "(*)" : " *", type + bounds, buf)
		    : text("%s", buf);
	return *ret ? NULL : &wc_enomem;
}

/* The value of a number or a pointer, and what "+ 1" means for it. */
static void set_scalar(const struct show_source *s, struct object *o, const struct dtype *stripped,
		       struct shown *ret)
{
	struct show show = { .from = s };
	struct dmember m = { .addr = o->place.addr,
			     .bit_offset = o->place.bit_offset,
			     .bit_size = o->place.bit_size };
	struct dtype to;
	struct value_type type = { 0 };

	if (!ret->size || ret->size > 8)
		return;
	ret->is_scalar = true;
	ret->has_value = m.bit_size ? load_field(&show, &m, &ret->value)
				    : show_load(&show, m.addr, ret->size, &ret->value);
	if (m.bit_size && m.bit_size < 64)
		ret->value &= (1ull << m.bit_size) - 1;
	ret->stride = 1;
	if (dtype_tag(stripped) == DW_TAG_pointer_type) {
		ret->is_pointer = true;
		to = dtype_target(stripped);
		ret->stride = to.known && dtype_size(&to) ? dtype_size(&to) : 1;
	} else if (dtype_value_type(&o->place.type, &type)) {
		if (type.kind == VALUE_SIGNED)
			ret->value = (uint64_t)show_sign_extend(
				ret->value, m.bit_size ? m.bit_size : (unsigned int)ret->size * 8);
		value_type_deinit(&type);
	}
}

/* The same of what a cast or a calculation made. */
static void set_calculated(const struct show_source *s, const struct path_place *p, struct shown *ret)
{
	struct show show = { .from = s };
	struct path_place to = *p;
	uint64_t stride;

	to.kind = PATH_ADDRESS;
	to.stars -= p->kind == PATH_OBJECT && p->stars;
	stride = p->kind == PATH_NUMBER ? 1 : path_element_size(&to);
	*ret = (struct shown){ .addr = p->addr, .size = path_size(p), .stride = stride ? stride : 1 };
	ret->is_lvalue_address = p->slice;
	if (p->slice) {
		ret->stride = path_element_size(p);
		return;
	}
	ret->is_scalar = true;
	ret->is_pointer = p->kind != PATH_NUMBER;
	ret->has_value = true;
	ret->value = p->kind == PATH_NUMBER ? (uint64_t)p->number : p->addr;
	if (p->kind == PATH_OBJECT)
		ret->has_value = show_load(&show, p->addr, 8, &ret->value);
}

static struct wc_error *place_of(const struct show_source *s, const char *expr, struct shown *ret)
{
	scoped(object_deinit) struct object o = { 0 };
	struct wc_error *err = show_find(s, expr, &o);
	struct dtype stripped, element;
	uint64_t size;
	int tag;

	if (!err)
		err = path_settle(&o.place, s->mem, NULL);
	if (err)
		return err;
	if (o.place.kind != PATH_OBJECT || o.place.stars || o.place.slice) {
		set_calculated(s, &o.place, ret);
		return NULL;
	}
	stripped = dtype_strip(&o.place.type);
	tag = dtype_tag(&stripped);
	size = o.place.type.known ? dtype_size(&o.place.type) : 0;
	*ret = (struct shown){ .addr = o.place.addr, .size = size ? size : o.place.size };
	ret->stride = ret->size ? ret->size : 1;
	ret->is_lvalue_address = o.is_function || tag == DW_TAG_array_type || dtype_is_aggregate_tag(tag);
	if (o.is_function) {
		ret->stride = 1;
	} else if (tag == DW_TAG_array_type) {
		element = dtype_element(&stripped);
		ret->stride = dtype_size(&element) ? dtype_size(&element) : 1;
	} else if (!ret->is_lvalue_address) {
		set_scalar(s, &o, &stripped, ret);
	}
	return NULL;
}

/* What is asked, and the answer: files are read for it, which may be damaged. */
struct question {
	const struct show_source *s;
	const char *expr;
	char format;
	char **text;
	struct shown *place;
	struct wc_error *err;
};

static void run_value(void *ctx)
{
	struct question *q = ctx;

	q->err = value_of(q->s, q->expr, q->format, q->text);
}

static void run_address(void *ctx)
{
	struct question *q = ctx;

	q->err = address_of(q->s, q->expr, q->text);
}

static void run_place(void *ctx)
{
	struct question *q = ctx;

	q->err = place_of(q->s, q->expr, q->place);
}

static struct wc_error *show_ask(struct question *q, void (*run)(void *ctx))
{
	struct wc_error *err = locator_guarded(q->s->locator, run, q);

	return err ? err : q->err;
}

struct wc_error *show_value(const struct show_source *s, const char *expr, char format, char **ret)
{
	struct question q = { .s = s, .expr = expr, .format = format, .text = ret };

	return show_ask(&q, run_value);
}

struct wc_error *show_address(const struct show_source *s, const char *expr, char **ret)
{
	struct question q = { .s = s, .expr = expr, .text = ret };

	return show_ask(&q, run_address);
}

struct wc_error *show_locate(const struct show_source *s, const char *expr, struct shown *ret)
{
	struct question q = { .s = s, .expr = expr, .place = ret };

	return show_ask(&q, run_place);
}
