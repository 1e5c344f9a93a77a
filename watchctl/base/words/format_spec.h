/*
 * format_spec - the conversions that probe_log() has (probe/probe.h): what may be compiled is what can be shown, so that both
 * read them here.
 */
#ifndef WATCHCTL_BASE_WORDS_FORMAT_SPEC_H
#define WATCHCTL_BASE_WORDS_FORMAT_SPEC_H

#include <stdbool.h>

#define FORMAT_FIELD_MAX 1024 /* a greater width or precision counts as this */

/* A conversion as the format has it. */
struct format_spec {
	bool left, plus, blank, alternate, zeros;
	unsigned int width;
	int precision;	   /* -1: none */
	unsigned int bits; /* of the argument that count */
	char conversion;   /* whatever stands there; 0: the format ends before */
};

/* The conversion behind the '%' at @p; returns where it ends: at the NUL, if the format ends first. */
const char *format_spec_read(const char *p, struct format_spec *ret);

/* Its argument is the bits of a double: e E f F g G a A. */
bool format_spec_is_float(const struct format_spec *s);

/* It takes an argument and shows it: one of these, or d i u x X o c p s. */
bool format_spec_is_known(const struct format_spec *s);

#endif
