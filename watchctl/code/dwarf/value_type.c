#include "watchctl/code/dwarf/value_type.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void value_type_deinit(struct value_type *t)
{
	for (size_t i = 0; i < t->nenumerators; i++)
		free(t->enumerators[i].name);
	free(t->enumerators);
	free(t->name);
	*t = (struct value_type){ 0 };
}

/* A bounded string being written; what does not fit is left out. */
struct out {
	char *buf;
	size_t len, pos;
};

static void value_type_put(struct out *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void value_type_put(struct out *o, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (o->pos >= o->len)
		return;
	va_start(ap, fmt);
	n = vsnprintf(o->buf + o->pos, o->len - o->pos, fmt, ap);
	va_end(ap);
	if (n > 0)
		o->pos += (size_t)n;
}

static int64_t sign_extend(uint64_t raw, unsigned int bits)
{
	return bits < 64 ? (int64_t)(raw << (64 - bits)) >> (64 - bits) : (int64_t)raw;
}

static void put_utf8(struct out *o, uint32_t c)
{
	if (c < 0x800)
		value_type_put(o, "%c%c", 0xc0 | c >> 6, 0x80 | (c & 0x3f));
	else if (c < 0x10000)
		value_type_put(o, "%c%c%c", 0xe0 | c >> 12, 0x80 | (c >> 6 & 0x3f), 0x80 | (c & 0x3f));
	else
		value_type_put(o, "%c%c%c%c", 0xf0 | c >> 18, 0x80 | (c >> 12 & 0x3f), 0x80 | (c >> 6 & 0x3f),
			       0x80 | (c & 0x3f));
}

/* The character between quotes, as C source would write it. */
static void put_char(struct out *o, uint64_t c, unsigned int bits)
{
	static const char escapes[] = "\0"
				      "0\aa\bb\tt\nn\vv\ff\rr\033e\\\\''";

	value_type_put(o, "'");
	for (size_t i = 0; i + 1 < sizeof(escapes); i += 2) {
		if (c == (unsigned char)escapes[i]) {
			value_type_put(o, "\\%c'", escapes[i + 1]);
			return;
		}
	}
	if (c >= 0x20 && c < 0x7f)
		value_type_put(o, "%c", (char)c);
	else if (c <= 0xff && bits <= 8)
		value_type_put(o, "\\x%02x", (unsigned int)c);
	else if (c >= 0xa0 && c <= 0x10ffff && (c < 0xd800 || c > 0xdfff))
		put_utf8(o, (uint32_t)c);
	else
		value_type_put(o, "\\u%04" PRIx64, c);
	value_type_put(o, "'");
}

/* Plain char is signed on x86; the Unicode character types are not. */
static bool char_is_unsigned(const struct value_type *t, unsigned int bits)
{
	return bits > 8 || (t->name && (strstr(t->name, "char8_t") || strstr(t->name, "unsigned")));
}

static void put_char_value(struct out *o, const struct value_type *t, uint64_t raw, unsigned int bits)
{
	put_char(o, raw, bits);
	if (char_is_unsigned(t, bits))
		value_type_put(o, " (%" PRIu64 ")", raw);
	else
		value_type_put(o, " (%" PRId64 ")", sign_extend(raw, bits));
}

static const char *enumerator_of(const struct value_type *t, uint64_t value)
{
	for (size_t i = 0; i < t->nenumerators; i++)
		if ((uint64_t)t->enumerators[i].value == value)
			return t->enumerators[i].name;
	return NULL;
}

/* Flags: every enumerator is a single bit, a union of other enumerators' bits, or zero. */
static bool enum_is_flags(const struct value_type *t)
{
	uint64_t single = 0;
	size_t nsingle = 0;

	for (size_t i = 0; i < t->nenumerators; i++) {
		uint64_t v = (uint64_t)t->enumerators[i].value;

		if (t->enumerators[i].value < 0)
			return false;
		if (v && !(v & (v - 1)) && !(single & v)) {
			single |= v;
			nsingle++;
		}
	}
	for (size_t i = 0; i < t->nenumerators; i++)
		if ((uint64_t)t->enumerators[i].value & ~single)
			return false;
	/* 0, 1, 2 in a row are numbers more often than flags; 1, 2, 4 are flags. */
	return nsingle >= 3 || (nsingle == 2 && t->nenumerators == nsingle);
}

/* "A|B|0x40": the named bits in the order of the enumeration, then the rest as a number. */
static void put_flags(struct out *o, const struct value_type *t, uint64_t value)
{
	const char *sep = "";
	uint64_t left = value;

	for (size_t i = 0; i < t->nenumerators; i++) {
		uint64_t v = (uint64_t)t->enumerators[i].value;

		if (v && !(v & (v - 1)) && (left & v)) {
			value_type_put(o, "%s%s", sep, t->enumerators[i].name);
			sep = "|";
			left &= ~v;
		}
	}
	if (left)
		value_type_put(o, "%s0x%" PRIx64, sep, left);
}

static void put_enum(struct out *o, const struct value_type *t, uint64_t raw, unsigned int bits)
{
	uint64_t value = t->enum_signed ? (uint64_t)sign_extend(raw, bits) : raw;
	const char *name = enumerator_of(t, value);

	if (name)
		value_type_put(o, "%s", name);
	else if (value && enum_is_flags(t))
		put_flags(o, t, value);
	else if (t->enum_signed)
		value_type_put(o, "%" PRId64, (int64_t)value);
	else
		value_type_put(o, "%" PRIu64, value);
}

/* The fewest digits that read back as the same number. */
static void put_float(struct out *o, uint64_t raw, unsigned int size)
{
	char text[40];
	uint32_t raw32 = (uint32_t)raw;
	double d = 0;
	float f = 0;

	if (size == 4) {
		memcpy(&f, &raw32, sizeof(f));
		for (int digits = 1; digits <= 9; digits++) {
			snprintf(text, sizeof(text), "%.*g", digits, (double)f);
			if (strtof(text, NULL) == f)
				break;
		}
	} else {
		memcpy(&d, &raw, sizeof(d));
		for (int digits = 1; digits <= 17; digits++) {
			snprintf(text, sizeof(text), "%.*g", digits, d);
			if (strtod(text, NULL) == d)
				break;
		}
	}
	value_type_put(o, "%s", text);
}

static void put_bool(struct out *o, uint64_t raw)
{
	if (raw <= 1)
		value_type_put(o, "%s", raw ? "true" : "false");
	else /* not a value that the language can store: worth seeing */
		value_type_put(o, "true (0x%" PRIx64 ")", raw);
}

/* The bits that are the value; *@bits says how many. */
static uint64_t value_bits(const struct value_type *t, unsigned int size, uint64_t raw, unsigned int *bits)
{
	*bits = size * 8;
	if (t->bit_size && t->bit_size <= 64) {
		*bits = t->bit_size;
		raw >>= t->bit_offset & 63;
	}
	return *bits < 64 ? raw & ((1ull << *bits) - 1) : raw;
}

struct value_number value_to_number(const struct value_type *t, unsigned int size, uint64_t raw)
{
	struct value_number n = { .kind = NUMBER_UNSIGNED };
	unsigned int bits;
	uint32_t narrow;
	float f;

	n.u = value_bits(t, size, raw, &bits);
	if (t->kind == VALUE_FLOAT && !t->bit_size && (size == 4 || size == 8)) {
		n.kind = NUMBER_FLOAT;
		narrow = (uint32_t)raw;
		memcpy(&f, &narrow, sizeof(f));
		n.f = f;
		if (size == 8)
			memcpy(&n.f, &raw, sizeof(n.f));
	} else if (t->kind == VALUE_SIGNED || (t->kind == VALUE_ENUM && t->enum_signed) ||
		   (t->kind == VALUE_CHAR && !char_is_unsigned(t, bits))) {
		n.kind = NUMBER_SIGNED;
		n.i = sign_extend(n.u, bits);
	}
	return n;
}

bool value_is_same(const struct value_type *t, unsigned int size, uint64_t a, uint64_t b)
{
	unsigned int bits;

	return value_bits(t, size, a, &bits) == value_bits(t, size, b, &bits);
}

void value_format(const struct value_type *t, unsigned int size, uint64_t raw, const char *symbol, char *buf,
		  size_t len)
{
	struct out o = { buf, len, 0 };
	unsigned int bits;

	if (len)
		buf[0] = '\0';
	raw = value_bits(t, size, raw, &bits);
	switch (t->kind) {
	case VALUE_SIGNED:
		value_type_put(&o, "%" PRId64, sign_extend(raw, bits));
		return;
	case VALUE_UNSIGNED:
		value_type_put(&o, "%" PRIu64, raw);
		return;
	case VALUE_BOOL:
		put_bool(&o, raw);
		return;
	case VALUE_CHAR:
		put_char_value(&o, t, raw, bits);
		return;
	case VALUE_FLOAT:
		if (bits == 32 || bits == 64) {
			put_float(&o, raw, bits / 8);
			return;
		}
		break;
	case VALUE_ENUM:
		put_enum(&o, t, raw, bits);
		return;
	case VALUE_POINTER:
		value_type_put(&o, symbol && raw ? "0x%" PRIx64 "  %s" : "0x%" PRIx64, raw, symbol);
		return;
	case VALUE_UNKNOWN:
	case VALUE_AGGREGATE:
		break;
	}
	value_type_put(&o, "0x%" PRIx64, raw);
}
