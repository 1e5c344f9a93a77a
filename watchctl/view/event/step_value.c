/*
 * The log may be hostile: types may contain each other, sizes may lie. So every value is a range of bytes
 * that is there, depth is bounded, and each loop ends when the text is full.
 */
#include "watchctl/view/event/step_value.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/utf8.h"
#include "watchctl/code/dwarf/value_type.h"
#include "watchctl/view/event/view.h"

#define DEPTH_MAX 6
#define ELEMENTS_MAX 32 /* of an array */
#define BYTES_MAX 32	/* of what has no type */
#define NAME_TEXT 256

struct out {
	const struct step_values *values;
	char *buf;
	size_t cap, len;
	bool full;
};

static void put_bytes(struct out *o, const char *s, size_t n)
{
	if (o->full)
		return;
	if (n >= o->cap - o->len) {
		o->full = true;
		return;
	}
	memcpy(o->buf + o->len, s, n);
	o->len += n;
	o->buf[o->len] = '\0';
}

static void put(struct out *o, const char *s)
{
	put_bytes(o, s, strlen(s));
}

static void putf(struct out *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void putf(struct out *o, const char *fmt, ...)
{
	char text[NAME_TEXT + 64];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	put(o, text);
}

static void step_value_begin(struct out *o, const struct step_values *c, char *buf, size_t cap)
{
	*o = (struct out){ .values = c, .buf = buf, .cap = cap, .full = cap == 0 };
	if (cap)
		buf[0] = '\0';
}

/* What was left out is reported: at a character's border. */
static size_t step_value_end(struct out *o)
{
	size_t n = o->len;

	if (!o->full || o->cap < 4)
		return n;
	if (n > o->cap - 4)
		n = o->cap - 4;
	while (n && ((unsigned char)o->buf[n] & 0xc0) == 0x80)
		n--;
	memcpy(o->buf + n, "...", 4);
	return n + 3;
}

static const struct type_event *type_of(const struct out *o, uint32_t id)
{
	return id == NO_TYPE ? NULL : o->values->types.find(o->values->types.ctx, id);
}

static uint64_t step_value_load(const uint8_t *bytes, size_t n)
{
	uint64_t raw = 0;

	memcpy(&raw, bytes, n < sizeof(raw) ? n : sizeof(raw));
	return raw;
}

/* Texts */

/* The character at @s, which @n bytes are left of; returns how many it took. */
static size_t put_escaped(struct out *o, const uint8_t *s, size_t n)
{
	static const char plain[] = "\a\b\t\n\v\f\r\033\"\\", name[] = "abtnvfre\"\\";
	const char *at = *s ? strchr(plain, *s) : NULL;
	char sequence[5] = { 0 };
	size_t len;

	if (at) {
		putf(o, "\\%c", name[at - plain]);
		return 1;
	}
	if (*s >= 0x20 && *s < 0x7f) {
		put_bytes(o, (const char *)s, 1);
		return 1;
	}
	memcpy(sequence, s, n < 4 ? n : 4);
	len = *s < 0x80 ? 0 : utf8_len(sequence);
	/* C1 controls are well-formed, and nothing to send to a terminal. */
	if (len > 1 && !(*s == 0xc2 && s[1] < 0xa0)) {
		put_bytes(o, sequence, len);
		return len;
	}
	/* Octal, as C ends it after three digits whatever follows. */
	putf(o, "\\%03o", *s);
	return 1;
}

static void put_quoted(struct out *o, const uint8_t *s, size_t n, bool cut)
{
	size_t i = 0;

	put(o, "\"");
	while (i < n && !o->full)
		i += put_escaped(o, s + i, n - i);
	put(o, cut ? "\"..." : "\"");
}

/* Numbers */

static enum value_kind scalar_kind(enum type_kind kind)
{
	static const enum value_kind kinds[] = {
		[TYPE_SIGNED] = VALUE_SIGNED, [TYPE_UNSIGNED] = VALUE_UNSIGNED, [TYPE_BOOL] = VALUE_BOOL,
		[TYPE_CHAR] = VALUE_CHAR,     [TYPE_FLOAT] = VALUE_FLOAT,	[TYPE_ENUM] = VALUE_ENUM,
	};

	return (size_t)kind < sizeof(kinds) / sizeof(*kinds) ? kinds[kind] : VALUE_UNKNOWN;
}

/* At most 8 bytes; @m: the bit field it is, NULL: none. */
static void put_scalar(struct out *o, const struct type_event *t, const uint8_t *bytes, size_t size,
		       const struct type_member *m)
{
	const struct value_type type = {
		.kind = scalar_kind(t->kind),
		.name = (char *)t->name,
		.enum_signed = t->is_signed,
		.bit_offset = m ? m->bit_offset : 0,
		.bit_size = m ? m->bit_size : 0,
		.enumerators = (struct enumerator *)t->enumerator,
		.nenumerators = t->nenumerators,
	};
	char text[NAME_TEXT];

	value_format(&type, (unsigned int)size, step_value_load(bytes, size), NULL, text, sizeof(text));
	put(o, text);
}

static void put_int128(struct out *o, const uint8_t *bytes, bool is_signed)
{
	unsigned __int128 v;
	char digits[48];
	size_t i = sizeof(digits);
	bool negative;

	memcpy(&v, bytes, sizeof(v));
	negative = is_signed && v >> 127;
	if (negative)
		v = -v;
	do {
		digits[--i] = (char)('0' + (int)(v % 10));
		v /= 10;
	} while (v);
	if (negative)
		digits[--i] = '-';
	put_bytes(o, digits + i, sizeof(digits) - i);
}

/* The fewest digits that read back as the same number. */
static void put_long_double(struct out *o, const uint8_t *bytes)
{
	long double v = 0;
	char text[64];
	int digits;

	memcpy(&v, bytes, 10);
	for (digits = 1; digits <= 21; digits++) {
		snprintf(text, sizeof(text), "%.*Lg", digits, v);
		if (strtold(text, NULL) == v)
			break;
	}
	put(o, text);
}

/* @cut: there are more, which were not recorded. */
static void put_hex(struct out *o, const uint8_t *bytes, size_t n, bool cut)
{
	size_t i;

	put(o, "<");
	for (i = 0; i < n && i < BYTES_MAX && !o->full; i++)
		putf(o, "%s%02x", i ? " " : "", bytes[i]);
	put(o, cut || i < n ? " ...>" : ">");
}

static void put_raw(struct out *o, const uint8_t *bytes, size_t n)
{
	if (n && n <= 8) {
		putf(o, "0x%llx", (unsigned long long)step_value_load(bytes, n));
		return;
	}
	put_hex(o, bytes, n, false);
}

static void put_pointer(struct out *o, uint64_t p)
{
	char name[NAME_TEXT];

	if (!p) {
		put(o, "NULL");
		return;
	}
	putf(o, "0x%llx", (unsigned long long)p);
	if (o->values->symbolizer && symbolizer_data_name(o->values->symbolizer, p, name, sizeof(name)))
		putf(o, " <%s>", name);
}

/* Anything: @n bytes of it are there, which may be fewer than its size. */

static void put_any(struct out *o, const struct type_event *t, const uint8_t *bytes, size_t n, int depth);

static void put_member(struct out *o, const struct type_member *m, const uint8_t *bytes, size_t n, int depth)
{
	const struct type_event *t = type_of(o, m->type);
	size_t bits = (size_t)m->bit_offset + m->bit_size;

	if (*m->name)
		putf(o, "%.*s = ", NAME_TEXT, m->name);
	if (m->offset >= n && (m->bit_size || !t || t->size)) {
		put(o, "...");
	} else if (m->bit_size && t) {
		if ((bits + 7) / 8 > n - m->offset)
			put(o, "...");
		else
			put_scalar(o, t, bytes + m->offset, n - m->offset < 8 ? n - m->offset : 8, m);
	} else {
		put_any(o, t, bytes + (m->offset < n ? m->offset : n), m->offset < n ? n - m->offset : 0,
			depth);
	}
}

static void put_members(struct out *o, const struct type_event *t, const uint8_t *bytes, size_t n, int depth)
{
	uint32_t i;

	put(o, "{");
	for (i = 0; i < t->nmembers && !o->full; i++) {
		if (i)
			put(o, ", ");
		/* What was recorded of it ends here. */
		if (t->member[i].offset >= n && n < t->size) {
			put(o, "...");
			break;
		}
		put_member(o, &t->member[i], bytes, n, depth + 1);
	}
	put(o, "}");
}

static void put_array(struct out *o, const struct type_event *t, const uint8_t *bytes, size_t n, int depth)
{
	const struct type_event *element = type_of(o, t->target);
	size_t size = element ? element->size : 0, count, i;

	if (!size) {
		put_raw(o, bytes, n);
		return;
	}
	count = n / size;
	if (element->kind == TYPE_CHAR && size == 1) {
		for (i = n; i && !bytes[i - 1];)
			i--;
		put_quoted(o, bytes, i, n < t->size);
		return;
	}
	put(o, "{");
	for (i = 0; i < count && i < ELEMENTS_MAX && !o->full; i++) {
		if (i)
			put(o, ", ");
		put_any(o, element, bytes + i * size, size, depth + 1);
	}
	put(o, i < count || n < t->size ? (i ? ", ...}" : "...}") : "}");
}

static void put_whole(struct out *o, const struct type_event *t, const uint8_t *bytes, size_t n)
{
	switch (t->kind) {
	case TYPE_POINTER:
	case TYPE_STRING:
		put_pointer(o, step_value_load(bytes, n));
		return;
	case TYPE_SIGNED:
	case TYPE_UNSIGNED:
		if (n == 16) {
			put_int128(o, bytes, t->kind == TYPE_SIGNED);
			return;
		}
		break;
	case TYPE_FLOAT:
		if (n == 16) {
			put_long_double(o, bytes);
			return;
		}
		break;
	case TYPE_BOOL:
	case TYPE_CHAR:
	case TYPE_ENUM:
		break;
	default:
		put_raw(o, bytes, n);
		return;
	}
	if (n == 1 || n == 2 || n == 4 || n == 8)
		put_scalar(o, t, bytes, n, NULL);
	else
		put_raw(o, bytes, n);
}

/* Of these, the parts that are there are shown. */
static bool is_composed(enum type_kind kind)
{
	return kind == TYPE_STRUCT || kind == TYPE_UNION || kind == TYPE_ARRAY;
}

static void put_any(struct out *o, const struct type_event *t, const uint8_t *bytes, size_t n, int depth)
{
	if (t && t->size && n > t->size)
		n = t->size;
	if (t && t->kind == TYPE_UNKNOWN && n && n < t->size && depth <= DEPTH_MAX) {
		put_hex(o, bytes, n, true);
	} else if (depth > DEPTH_MAX || (t && n < t->size && !is_composed(t->kind))) {
		put(o, "...");
	} else if (!t || !t->size) {
		if (n)
			put_raw(o, bytes, n);
		else
			put(o, "{}");
	} else if (t->kind == TYPE_STRUCT || t->kind == TYPE_UNION) {
		/* Of an empty one, the byte that it has in C++ means nothing. */
		if (t->nmembers || t->size == 1)
			put_members(o, t, bytes, n, depth);
		else
			put_raw(o, bytes, n);
	} else if (t->kind == TYPE_ARRAY) {
		put_array(o, t, bytes, n, depth);
	} else {
		put_whole(o, t, bytes, n);
	}
}

/* Values of calls */

static const char *state_text(enum value_state state)
{
	switch (state) {
	case VALUE_OPTIMIZED_OUT:
		return "<optimised out>";
	case VALUE_UNREADABLE:
		return "<unreadable>";
	case VALUE_NULL:
		return "NULL";
	case VALUE_WITHHELD:
		return view_withheld;
	case VALUE_OK:
	case VALUE_CUT:
	case VALUE_NONE:
		break;
	}
	return "<not recorded>";
}

static bool is_shown(const struct call_value *v)
{
	return v->to_state == VALUE_OK || v->to_state == VALUE_CUT;
}

static void put_pointee(struct out *o, const struct type_event *t, const struct call_value *v)
{
	if (v->to_state == VALUE_UNREADABLE)
		put(o, state_text(v->to_state));
	else if (!is_shown(v))
		return;
	else if (t->kind == TYPE_STRING)
		put_quoted(o, v->to, v->to_len, v->to_state == VALUE_CUT);
	else
		put_any(o, type_of(o, t->target), v->to, v->to_len, 0);
}

size_t step_value_text(const struct step_values *c, const struct type_event *type, const struct call_value *v,
		       char *buf, size_t cap)
{
	struct out o;

	step_value_begin(&o, c, buf, cap);
	if (v->state != VALUE_OK) {
		put(&o, state_text(v->state));
	} else if (!type || (type->kind != TYPE_POINTER && type->kind != TYPE_STRING)) {
		put_any(&o, type, v->bytes, v->size, 0);
	} else if (type->kind == TYPE_STRING && is_shown(v)) {
		put_pointee(&o, type, v);
	} else {
		put_any(&o, type, v->bytes, v->size, 0);
		if (is_shown(v) || v->to_state == VALUE_UNREADABLE) {
			put(&o, type->kind == TYPE_STRING ? " " : " -> ");
			put_pointee(&o, type, v);
		}
	}
	return step_value_end(&o);
}

size_t step_value_pointee_text(const struct step_values *c, const struct type_event *type,
			       const struct call_value *v, char *buf, size_t cap)
{
	struct out o;

	step_value_begin(&o, c, buf, cap);
	if (type && v->state == VALUE_OK && (type->kind == TYPE_POINTER || type->kind == TYPE_STRING))
		put_pointee(&o, type, v);
	return step_value_end(&o);
}
