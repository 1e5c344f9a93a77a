/*
 * filters - rules in TOML that say which functions are traced: all but those that a [[block]] matches and no [[allow]].
 *
 *	[[block]]
 *	rule_name = "small ones"	for the reason in the symbols file
 *	instructions_lt = 20
 *
 *	[[allow]]
 *	function = ["main", "app::*"]
 *
 * A rule matches a function that meets all of its conditions, one of several values for each; one without conditions
 * matches all. Those named as Spoor has them are regular expressions (POSIX, extended) for the whole name, the others
 * globs (fnmatch(3), in which * matches / as well).
 */
#ifndef CALLTRACE_CONFIG_FILTERS_H
#define CALLTRACE_CONFIG_FILTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "calltrace/config/toml.h"

struct filters;

/*
 * Whose values are recorded: `capture` of an [[allow]].
 *
 *	capture = "scalars"		numbers, truth values, enumerators; of parameters and result
 *	capture = "all"			and pointers
 *	capture = ["len", "return"]	by name; the result is "return"
 *	capture = ["*buf:64", "*name:str", "*node"]	and what they point to: so many bytes, a string, as much as their type says
 */
struct capture {
	enum capture_kind { CAPTURE_NOTHING, CAPTURE_SCALARS, CAPTURE_ALL, CAPTURE_NAMES } kind;
	struct capture_name *name;
	size_t n;
};

#define CAPTURE_BYTES_MAX 1024u /* of what one points to */

struct capture_name {
	char *name;
	enum capture_memory { CAPTURE_NO_MEMORY, CAPTURE_TYPE, CAPTURE_BYTES, CAPTURE_STRING } memory;
	uint32_t bytes; /* CAPTURE_BYTES: how many */
};

/* The function that is to be traced, or not. */
struct filter_subject {
	const char *name; /* demangled */
	const char *linkage_name;
	const char *file; /* "": not known */
	uint32_t insns;	  /* of IR, before the pass */
};

/* WC_EUSAGE: a rule is wrong, with its line and a caret. *@ret: filters_free(). Other tables of @t are left alone. */
struct wc_error *filters_new(const struct toml *t, struct filters **ret);
void filters_free(struct filters *f); /* accepts NULL */

/* One of the rules has a `capture`. */
bool filters_capture(const struct filters *f);

/* True: @s is traced. *@rule: the rule that says so, as "[[allow]] NAME"; NULL: there is none. *@capture: NULL, or of the
 * first [[allow]] that matches and has one; it is @f's. @f may be NULL. */
bool filters_choose(const struct filters *f, const struct filter_subject *s, const char **rule,
		    const struct capture **capture);

/* The parameter @name, or the result ("return"), is one of those. */
bool capture_has(const struct capture *c, const char *name, bool is_pointer);

/* Of that to which it points, so much is recorded. *@bytes: of CAPTURE_BYTES. */
enum capture_memory capture_memory_of(const struct capture *c, const char *name, uint32_t *bytes);

#endif
