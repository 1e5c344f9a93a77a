/* show_text - numbers and strings of show as text; private to watchctl/code/. */
#ifndef WATCHCTL_CODE_LOCATE_SHOW_TEXT_H
#define WATCHCTL_CODE_LOCATE_SHOW_TEXT_H

#include "watchctl/code/locate/show.h"

#define SHOW_TEXT 320 /* enough for any number, and the name of an address */

static inline int64_t show_sign_extend(uint64_t raw, unsigned int bits)
{
	return bits && bits < 64 ? (int64_t)(raw << (64 - bits)) >> (64 - bits) : (int64_t)raw;
}

/* As value_format(), of a type that has only its kind; @s (may be NULL) names addresses. */
void show_as(const struct show_source *s, enum value_kind kind, unsigned int size, uint64_t raw, char *buf,
	     size_t len);

/* @raw has @size bytes. Signed numbers are so also where they are shown as characters, addresses and
 * fractions. */
void show_put_number(const struct show_source *s, char format, unsigned int size, bool is_signed,
		     uint64_t raw, bool padded, char *buf, size_t len);

/* @len characters between quotes, and "..." with @more; malloc'd, NULL: no memory. */
char *show_quote(const unsigned char *s, size_t len, bool more);

#endif
