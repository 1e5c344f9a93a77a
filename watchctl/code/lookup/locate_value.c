/* locate_value - DWARF types -> value_type: the name, and how a value is to be shown. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"
#include "watchctl/code/dwarf/dwarf_unit.h"
#include "watchctl/code/lookup/locate_type.h"

#define DEPTH_MAX 32

static void put_type(FILE *f, const struct dtype *t, const char *inner, unsigned int depth);

static void put_parameters(FILE *f, const struct dtype *function)
{
	struct dtype s = *function;
	const char *sep = "";
	Dwarf_Die die;

	fputc('(', f);
	if (dwarf_child(&s.die, &die) == 0) {
		do {
			struct dtype param = dtype_part(&s, &die);

			if (dwarf_tag(&die) == DW_TAG_formal_parameter) {
				fputs(sep, f);
				put_type(f, &param, "", DEPTH_MAX - 4);
				sep = ", ";
			} else if (dwarf_tag(&die) == DW_TAG_unspecified_parameters) {
				fprintf(f, "%s...", sep);
			}
		} while (dwarf_siblingof(&die, &die) == 0);
	}
	fputs(*sep ? ")" : "void)", f);
}

/* "(5,0:3)": with its bounds, ":" where they are not in the type. */
static void put_fortran_bounds(FILE *f, const struct dtype *array)
{
	struct dtype at = *array;
	int64_t lower, upper;
	uint64_t count;
	Dwarf_Die range;

	fputs(" (", f);
	for (; dtype_dimension(&at, &range); at.dim++) {
		Dwarf_Attribute mem;

		fputs(at.dim ? "," : "", f);
		lower = dwarf_family_lower(FAMILY_FORTRAN);
		if (dwarf_attr_integrate(&range, DW_AT_lower_bound, &mem))
			dwarf_attr_number(&mem, &lower);
		if (!dtype_count(&at, &count)) {
			fputc(':', f);
			continue;
		}
		upper = lower + (int64_t)count - 1;
		if (lower != 1)
			fprintf(f, "%" PRId64 ":", lower);
		fprintf(f, "%" PRId64, upper);
	}
	fputc(')', f);
}

static void put_fortran_array(FILE *f, const struct dtype *array, const char *inner, unsigned int depth)
{
	struct dtype element = dtype_target(array);

	put_type(f, &element, inner, depth + 1);
	put_fortran_bounds(f, array);
}

static void put_array(FILE *f, const struct dtype *array, const char *inner, unsigned int depth)
{
	struct dtype at = *array, element = *array;
	char *dims = NULL;
	size_t len;
	FILE *d = open_memstream(&dims, &len);
	uint64_t count;

	if (!d)
		return;
	if (dtype_family(array) == FAMILY_FORTRAN) {
		fclose(d);
		free(dims);
		return put_fortran_array(f, array, inner, depth);
	}
	fputs(inner, d);
	do {
		at = element;
		if (dtype_count(&at, &count))
			fprintf(d, "[%" PRIu64 "]", count);
		else
			fputs("[]", d);
		element = dtype_element(&at);
	} while (element.known && element.dim > at.dim);
	fclose(d);
	put_type(f, &element, dims, depth + 1);
	free(dims);
}

/* Writes the declaration of @inner (a name with its stars, or "") as a thing of type @t. */
static void put_pointer(FILE *f, struct dtype *t, const char *star, const char *inner, unsigned int depth)
{
	struct dtype to = dtype_target(t);
	bool group = to.known && (dwarf_tag(&to.die) == DW_TAG_subroutine_type ||
				  dwarf_tag(&to.die) == DW_TAG_array_type);
	char *text;

	if (asprintf(&text, group ? "(%s%s)" : "%s%s", star, inner) < 0)
		return;
	put_type(f, &to, text, depth + 1);
	free(text);
}

static void put_qualified(FILE *f, struct dtype *t, const char *word, const char *inner, unsigned int depth)
{
	struct dtype of = dtype_target(t);
	char *text;

	/* "const char *", but "char *const" */
	if (of.known && dwarf_tag(&of.die) == DW_TAG_pointer_type) {
		if (asprintf(&text, "%s%s%s", word, *inner && *inner != '[' ? " " : "", inner) < 0)
			return;
		put_type(f, &of, text, depth + 1);
		free(text);
		return;
	}
	fprintf(f, "%s ", word);
	put_type(f, &of, inner, depth + 1);
}

static void put_named(FILE *f, struct dtype *t, const char *keyword, const char *inner)
{
	const char *name = dwarf_diename(&t->die);
	/* In C "struct node" is the name of the type; other languages say "node". */
	bool c = dtype_family(t) == FAMILY_C;

	if (*keyword && (c || !name))
		fprintf(f, "%s ", keyword);
	fprintf(f, "%s%s%s", name ? name : "{...}", *inner ? " " : "", inner);
}

static void put_type(FILE *f, const struct dtype *type, const char *inner, unsigned int depth)
{
	struct dtype t = *type, result;
	char *text;

	if (!t.known || depth >= DEPTH_MAX) {
		fprintf(f, "%s%s%s", t.known ? "..." : "void", *inner ? " " : "", inner);
		return;
	}
	switch (dwarf_tag(&t.die)) {
	case DW_TAG_pointer_type:
		/* Go and Rust name their pointer types: "*int" */
		if (dwarf_diename(&t.die))
			return put_named(f, &t, "", inner);
		return put_pointer(f, &t, "*", inner, depth);
	case DW_TAG_reference_type:
		return put_pointer(f, &t, "&", inner, depth);
	case DW_TAG_rvalue_reference_type:
		return put_pointer(f, &t, "&&", inner, depth);
	case DW_TAG_const_type:
		return put_qualified(f, &t, "const", inner, depth);
	case DW_TAG_volatile_type:
		return put_qualified(f, &t, "volatile", inner, depth);
	case DW_TAG_restrict_type:
		return put_qualified(f, &t, "restrict", inner, depth);
	case DW_TAG_atomic_type:
		return put_qualified(f, &t, "_Atomic", inner, depth);
	case DW_TAG_array_type:
		return put_array(f, &t, inner, depth);
	case DW_TAG_subroutine_type:
		result = dtype_target(&t);
		if (asprintf(&text, "%s", inner) < 0)
			return;
		put_type(f, &result, text, depth + 1);
		free(text);
		return put_parameters(f, &t);
	case DW_TAG_string_type:
		fputs("character", f);
		if (dtype_size(&t))
			fprintf(f, "(len=%" PRIu64 ")", dtype_size(&t));
		fprintf(f, "%s%s", *inner ? " " : "", inner);
		return;
	case DW_TAG_structure_type:
		return put_named(f, &t, "struct", inner);
	case DW_TAG_class_type:
		return put_named(f, &t, "", inner);
	case DW_TAG_union_type:
		return put_named(f, &t, "union", inner);
	case DW_TAG_enumeration_type:
		return put_named(f, &t, "enum", inner);
	default:
		return put_named(f, &t, "", inner);
	}
}

char *dtype_name(const struct dtype *t)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return NULL;
	put_type(f, t, "", 0);
	return fclose(f) == 0 ? text : (free(text), NULL);
}

/* uint8_t and int8_t are numbers, though they are characters to the compiler. */
static bool is_named_number(const struct dtype *t)
{
	struct dtype s = *t;

	for (unsigned int i = 0; s.known && i < DEPTH_MAX; i++) {
		const char *name = dwarf_tag(&s.die) == DW_TAG_typedef ? dwarf_diename(&s.die) : NULL;

		if (name && strstr(name, "int8"))
			return true;
		s = dtype_target(&s);
	}
	return false;
}

static enum value_kind base_kind(const struct dtype *t, struct dtype *s)
{
	const char *name = dwarf_diename(&s->die);
	Dwarf_Word encoding, size = dtype_size(s);

	if (!dwarf_die_number(&s->die, DW_AT_encoding, &encoding))
		return VALUE_UNKNOWN;
	switch (encoding) {
	case DW_ATE_boolean:
		return VALUE_BOOL;
	case DW_ATE_signed_char:
	case DW_ATE_unsigned_char:
		if (name && strcmp(name, "char") == 0 && !is_named_number(t))
			return VALUE_CHAR;
		return encoding == DW_ATE_signed_char ? VALUE_SIGNED : VALUE_UNSIGNED;
	case DW_ATE_UTF:
		return VALUE_CHAR;
	case DW_ATE_signed:
	case DW_ATE_signed_fixed:
		return size <= 8 ? VALUE_SIGNED : VALUE_AGGREGATE;
	case DW_ATE_unsigned:
	case DW_ATE_unsigned_fixed:
		return size <= 8 ? VALUE_UNSIGNED : VALUE_AGGREGATE;
	case DW_ATE_address:
		return VALUE_POINTER;
	case DW_ATE_float:
		return size == 4 || size == 8 ? VALUE_FLOAT : VALUE_AGGREGATE;
	default:
		return VALUE_AGGREGATE;
	}
}

static bool read_enumerators(struct dtype *s, struct value_type *ret)
{
	Dwarf_Attribute mem;
	size_t cap = 0;
	Dwarf_Die die;

	if (dwarf_child(&s->die, &die) != 0)
		return true;
	do {
		const char *name = dwarf_diename(&die);
		struct enumerator e = { 0 };

		if (dwarf_tag(&die) != DW_TAG_enumerator || !name ||
		    !dwarf_attr_integrate(&die, DW_AT_const_value, &mem))
			continue;
		if (!dwarf_attr_number(&mem, &e.value))
			continue;
		e.name = strdup(name);
		if (!e.name || !vec_push(ret->enumerators, ret->nenumerators, cap, e)) {
			free(e.name);
			return false;
		}
	} while (dwarf_siblingof(&die, &die) == 0);
	return true;
}

static bool enum_is_signed(struct dtype *s, const struct value_type *t)
{
	struct dtype under = dtype_target(s);
	Dwarf_Word encoding;

	under = dtype_strip(&under);
	if (under.known && dwarf_die_number(&under.die, DW_AT_encoding, &encoding))
		return encoding == DW_ATE_signed || encoding == DW_ATE_signed_char;
	for (size_t i = 0; i < t->nenumerators; i++)
		if (t->enumerators[i].value < 0)
			return true;
	return false;
}

/*
 * What is inside a struct that only wraps one value of the same size: std::atomic<int>, Rust's AtomicU32,
 * a strong typedef. False: @s is none.
 */
static bool unwrap(struct dtype *s, struct dtype *ret)
{
	uint64_t size = dtype_size(s);
	unsigned int n = 0;
	Dwarf_Word offset;
	Dwarf_Die die;

	if (!dtype_is_aggregate_tag(dwarf_tag(&s->die)) || dwarf_tag(&s->die) == DW_TAG_union_type ||
	    dwarf_child(&s->die, &die) != 0)
		return false;
	do {
		int tag = dwarf_tag(&die);
		struct dtype inner;

		if ((tag != DW_TAG_member && tag != DW_TAG_inheritance) ||
		    dwarf_hasattr(&die, DW_AT_declaration) || dwarf_hasattr(&die, DW_AT_external))
			continue;
		inner = dtype_part(s, &die);
		/* An empty base class takes no room, or one byte that it shares. */
		if (dtype_size(&inner) != size)
			continue;
		if (dwarf_hasattr(&die, DW_AT_bit_size) ||
		    (dwarf_die_number(&die, DW_AT_data_member_location, &offset) && offset))
			return false;
		*ret = inner;
		n++;
	} while (dwarf_siblingof(&die, &die) == 0);
	return n == 1;
}

static bool set_kind(const struct dtype *t, unsigned int depth, struct value_type *ret)
{
	struct dtype s = dtype_strip(t), inner;

	switch (dtype_tag(&s)) {
	case DW_TAG_base_type:
		ret->kind = base_kind(t, &s);
		return true;
	case DW_TAG_pointer_type:
	case DW_TAG_reference_type:
	case DW_TAG_rvalue_reference_type:
	case DW_TAG_subroutine_type:
		ret->kind = VALUE_POINTER;
		return true;
	case DW_TAG_enumeration_type:
		ret->kind = VALUE_ENUM;
		if (!read_enumerators(&s, ret))
			return false;
		ret->enum_signed = enum_is_signed(&s, ret);
		return true;
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
	case DW_TAG_union_type:
		if (depth < DEPTH_MAX && unwrap(&s, &inner))
			return set_kind(&inner, depth + 1, ret);
		ret->kind = VALUE_AGGREGATE;
		return true;
	case DW_TAG_array_type:
	case DW_TAG_string_type:
	case DW_TAG_ptr_to_member_type:
		ret->kind = VALUE_AGGREGATE;
		return true;
	default:
		ret->kind = VALUE_UNKNOWN;
		return true;
	}
}

bool dtype_value_type(const struct dtype *t, struct value_type *ret)
{
	struct value_type v = { 0 };

	if (t->known && (!(v.name = dtype_name(t)) || !set_kind(t, 0, &v))) {
		value_type_deinit(&v);
		return false;
	}
	*ret = v;
	return true;
}
