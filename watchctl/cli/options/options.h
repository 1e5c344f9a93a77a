/*
 * options - walks over argv by a table of options. Forms: "-n 5", "-n5", "--count 5", "--count=5",
 * "--" (the rest are words). An option is looked up by its whole text first, so that a table
 * may hold "-r", "-w" and "-rw". Repeated options and their order are the caller's business.
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

struct option {
	const char *name;  /* "-p", "--json", "-rw" */
	const char *alias; /* "--pid"; NULL: none */
	const char *arg;   /* "PID"; NULL: takes none */
	const char *help;  /* lower case, no full stop */
	enum complete_as complete;
	const char *words;
};

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
};

struct option_scan {
	int argc;
	char **argv;
	int next; /* index of what is looked at next; start with 1 */
	const struct option *options;
};

/* WC_EUSAGE: unknown (with near ones), its argument is missing, or it takes none. */
struct wc_error *option_next(struct option_scan *s, struct option_match *ret);

/* True if @m is the option with the name or alias @name. */
bool option_is(const struct option_match *m, const char *name);

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
