/*
 * value_type - as much of a C, C++, Rust or Go type as is needed to show a watched value.
 * Survives in the log as the pair (name, encoding) plus enumerators, so that a report made
 * elsewhere shows what the live run showed.
 */
#ifndef WATCHCTL_CODE_DWARF_VALUE_TYPE_H
#define WATCHCTL_CODE_DWARF_VALUE_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Stored in logs: never renumber. */
enum value_kind {
	VALUE_UNKNOWN = 0, /* shown as hex */
	VALUE_SIGNED = 1,
	VALUE_UNSIGNED = 2,
	VALUE_BOOL = 3,
	VALUE_CHAR = 4,	   /* char, char8_t: number and character */
	VALUE_FLOAT = 5,   /* 4 or 8 bytes, IEEE 754 */
	VALUE_POINTER = 6, /* shown as symbol+offset where one is known */
	VALUE_ENUM = 7,
	VALUE_AGGREGATE = 8, /* struct, union or array of at most 8 bytes: shown as hex */
};

struct enumerator {
	char *name;
	int64_t value;
};

struct value_type {
	enum value_kind kind;
	char *name; /* as in the source: "unsigned int", "enum color", "struct node *"; NULL: unknown */
	bool enum_signed;
	/* A bit field: value = (bytes >> bit_offset) & mask(bit_size). bit_size 0: not one. */
	uint8_t bit_offset, bit_size;
	struct enumerator *enumerators;
	size_t nenumerators;
};

void value_type_deinit(struct value_type *t);

/* A value as the number that it is. */
struct value_number {
	enum { NUMBER_SIGNED, NUMBER_UNSIGNED, NUMBER_FLOAT } kind;
	int64_t i;  /* NUMBER_SIGNED */
	uint64_t u; /* NUMBER_UNSIGNED: pointers, bytes of no known type */
	double f;   /* NUMBER_FLOAT */
};

/* Of the @size (1, 2, 4, 8) bytes @raw, zero-extended; a bit field is only its bits. */
struct value_number value_to_number(const struct value_type *t, unsigned int size, uint64_t raw);

/* Whether two values are the same; the neighbours of a bit field may differ. */
bool value_is_same(const struct value_type *t, unsigned int size, uint64_t a, uint64_t b);

/*
 * Writes the value of @size (1, 2, 4, 8) bytes, zero-extended in @raw, as a person reads it:
 * "42", "-1", "RED", "RED|0x40", "true", "'a' (97)", "3.14", "0x7f..". For VALUE_POINTER @symbol
 * (may be NULL: none) gives "0x55..  name+16". Always NUL-terminated, truncated to @len.
 */
void value_format(const struct value_type *t, unsigned int size, uint64_t raw, const char *symbol, char *buf,
		  size_t len);

#endif
