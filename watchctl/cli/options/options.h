/*
 * options - walks over argv by a table of options. Forms: "-n 5", "-n5", "--count 5", "--count=5",
 * "--" (the rest are words). An option is looked up by its whole text first, so that a table
 * may hold "-r", "-w" and "-rw". A row says what the option sets in the command's request, a struct of its own;
 * where the last one does not win, or the order matters, its setter sees to that.
 */
#ifndef WATCHCTL_CLI_OPTIONS_OPTIONS_H
#define WATCHCTL_CLI_OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "watchctl/base/error.h"

/* How the shell completes an argument. */
enum complete_as {
	COMPLETE_NOTHING,
	COMPLETE_FILE,
	COMPLETE_DIRECTORY,
	COMPLETE_PID,
	COMPLETE_PROGRAM,
	COMPLETE_WORDS, /* option.words, separated by spaces */
	COMPLETE_COMMAND,
	COMPLETE_VARIABLE, /* of the process or program that the command line names */
	COMPLETE_FUNCTION, /* likewise */
};

struct option_match;

/* Sets what is at @to by @m's value; WC_EUSAGE when that is none. */
typedef struct wc_error *option_setter(const struct option_match *m, void *to);

/* Where the options of a table set something, if not at *@to itself; WC_EUSAGE when they cannot stand here. */
typedef struct wc_error *option_finder(const struct option_match *m, void **to);

/* A row is an option, or stands for all those of another table. */
struct option {
	const char *name;  /* "-p", "--json", "-rw"; NULL: no option */
	const char *alias; /* "--pid"; NULL: none */
	const char *arg;   /* "PID"; NULL: takes none */
	const char *help;  /* lower case, no full stop */
	enum complete_as complete;
	const char *words;
	option_setter *set;
	size_t at;	   /* what it sets: an offset in the command's request */
	uint64_t min, max; /* of option_set_u64() and the like */

	const struct option *more; /* those of this table, whose offsets are from @at */
	option_finder *find;	   /* NULL: there it is */
};

/*
 * The last columns of a row: what it sets is @member of the request, a struct @type. Does not compile for a member of
 * another type.
 */
#define OPTION_FLAG(type, member) .set = option_set_flag, .at = OPTION_AT(type, member, bool)
#define OPTION_TEXT(type, member) .set = option_set_text, .at = OPTION_AT(type, member, const char *)
#define OPTION_CHOICE(type, member) .set = option_set_choice, .at = OPTION_AT(type, member, unsigned int)
#define OPTION_TIME(type, member) .set = option_set_time, .at = OPTION_AT(type, member, uint64_t)
#define OPTION_BYTES(type, member) .set = option_set_bytes, .at = OPTION_AT(type, member, uint64_t)
/* clang-format off */
#define OPTION_NUMBER(type, member, least, most) \
	.set = _Generic(((type *)0)->member, \
		uint64_t: option_set_u64, uint32_t: option_set_u32, int: option_set_int), \
	.at = offsetof(type, member), .min = (least), .max = (most)
#define OPTION_AT(type, member, wanted) \
	(offsetof(type, member) + 0 * sizeof(_Generic(((type *)0)->member, wanted: 1))) /* NOLINT(bugprone-macro-parentheses): a type */

/* The whole row: the options of @table set what is in @member. */
#define OPTIONS_IN(type, member, table) { .at = offsetof(type, member), .more = (table) }
/* clang-format on */

option_setter option_set_flag, option_set_text, option_set_choice, option_set_time, option_set_bytes;
option_setter option_set_u64, option_set_u32, option_set_int;

#define OPTION_DEPTH 6 /* of tables within tables */

/*
 * Where one is in a table: { .row = { table } } is at its beginning. The last row is looked at next; those before
 * stand for the tables that it is in.
 */
struct option_walk {
	const struct option *row[OPTION_DEPTH];
	unsigned int depth;
};

/* The next option, also of tables within the table; NULL: that was the last one. */
const struct option *option_walk_next(struct option_walk *w);

enum option_kind {
	OPTION_FOUND,  /* ret->option, ret->value (NULL when it takes none) */
	OPTION_WORD,   /* ret->value: an operand */
	OPTION_DASHES, /* "--": what follows, at scan.next, belongs to the caller */
	OPTION_END,
};

struct option_match {
	enum option_kind kind;
	const struct option *option;
	const char *value;
	struct option_walk at; /* of OPTION_FOUND */
};

struct option_scan {
	int argc;
	char **argv;
	int next; /* index of what is looked at next; start with 1 */
	const struct option *options;
};

/* WC_EUSAGE: unknown (with near ones), its argument is missing, or it takes none. */
struct wc_error *option_next(struct option_scan *s, struct option_match *ret);

/* Sets what the option @m is about in @request. WC_EUSAGE: its value is none, or it cannot stand here. */
struct wc_error *option_set(const struct option_match *m, void *request);

/* A word that is no option: an operand. */
typedef struct wc_error *option_taker(void *request, const char *word);

/* All of argv, from its second word on: sets options and takes words, also those behind "--". */
struct wc_error *option_parse(int argc, char **argv, const struct option *options, void *request,
			      option_taker *take);

/* Likewise, of a command that takes no words; with one, WC_EUSAGE says @only. */
struct wc_error *option_parse_alone(int argc, char **argv, const struct option *options, void *request,
				    const char *only);

/* Likewise, of a command that runs the program behind "--": into *@program, which stays as it is if there is none. */
struct wc_error *option_parse_launch(int argc, char **argv, const struct option *options, void *request,
				     option_taker *take, char *const **program);

/* The whole of @text as a decimal number in [min, max]; else WC_EUSAGE that names the option. */
struct wc_error *option_number(const struct option_match *m, uint64_t min, uint64_t max, uint64_t *ret);

/* A time like 30s, 10m, 1.5h, 2d, 500ms, or seconds without a unit: nanoseconds in [1, UINT64_MAX]. */
struct wc_error *option_time(const struct option_match *m, uint64_t *ret);

/* A size like 2G, 512M, 64K, or bytes without a unit; units are powers of 1024. */
struct wc_error *option_bytes(const struct option_match *m, uint64_t *ret);

/*
 * Where one word is allowed, a log: @word into *@log; WC_EUSAGE if there was one already, which begins with
 * @takes, like "report reads".
 */
struct wc_error *option_one_log(const char **log, const char *word, const char *takes);

/* The index of @m's value in @words (separated by spaces); else WC_EUSAGE that lists them. */
struct wc_error *option_choice(const struct option_match *m, unsigned int *ret);

#endif
