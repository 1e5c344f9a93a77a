/*
 * settings - how the compile-time tools work, from three sources, the first of which that has it is taken:
 *
 *	an option		--filters-file=PATH		(of calltrace-cc: --calltrace-filters-file=PATH)
 *	the environment		CALLTRACE_FILTERS_FILE=PATH
 *	calltrace.toml		filters_file = "PATH"		in the working directory, or the next one above that has it
 *
 * Paths in calltrace.toml are relative to its folder. It may hold the filters itself, which are taken if none of the
 * three names a file of them.
 */
#ifndef CALLTRACE_CONFIG_SETTINGS_H
#define CALLTRACE_CONFIG_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

/* name (of an option with dashes, a variable in capitals, a key as it is), type, place, default, and what it is */
#define SETTINGS(X)                                                                                       \
	X(before_inlining, SETTING_BOOL, SETTING_OF_CC, "false", "record inlined functions, too")         \
	X(enable_runtime, SETTING_BOOL, SETTING_ANYWHERE, "true",                                         \
	  "record from the beginning; false: from calltrace_enable() on")                                 \
	X(filters_file, SETTING_PATH, SETTING_ANYWHERE, "", "rules that say which functions are traced")  \
	X(force_binary_output, SETTING_BOOL, SETTING_OF_OPT, "false", "write bitcode to a terminal, too") \
	X(initialize_runtime, SETTING_BOOL, SETTING_ANYWHERE, "true",                                     \
	  "begin the log at the start; false: at calltrace_initialize()")                                 \
	X(inject_instrumentation, SETTING_BOOL, SETTING_ANYWHERE, "true",                                 \
	  "false: leave all functions as they are")                                                       \
	X(module_id, SETTING_TEXT, SETTING_ANYWHERE, "",                                                  \
	  "the module's name, in place of that of its source")                                            \
	X(output_file, SETTING_PATH, SETTING_OF_OPT, "-", "where the module goes; -: standard output")    \
	X(output_language, SETTING_LANGUAGE, SETTING_OF_OPT, "bitcode", "bitcode or ir")                  \
	X(output_symbols_file, SETTING_PATH, SETTING_ANYWHERE, "",                                        \
	  "a line of JSON for each function: traced or not, and why")                                     \
	X(time, SETTING_BOOL, SETTING_ANYWHERE, "true",                                                   \
	  "false: record the order of calls, and no times: faster")

enum setting_type { SETTING_BOOL, SETTING_TEXT, SETTING_PATH, SETTING_LANGUAGE };

enum setting_place { SETTING_ANYWHERE, SETTING_OF_OPT, SETTING_OF_CC };

#define SETTING_ID(name, type, place, fallback, text) SET_##name,
enum setting { SETTINGS(SETTING_ID) SETTING_COUNT };

struct setting_row {
	const char *name;
	enum setting_type type;
	enum setting_place place;
	const char *fallback, *text;
};

extern const struct setting_row setting_rows[SETTING_COUNT];

/* Zero-initialised: nothing was set. */
struct settings {
	char *value[SETTING_COUNT]; /* NULL: not set */
	struct filters *filters;    /* NULL: none */
};

#define SETTING_NAME_MAX 40

/* As options have it, without what comes before: with dashes. */
void settings_option_name(enum setting which, char ret[SETTING_NAME_MAX]);

/* "CALLTRACE_MODULE_ID" */
void settings_variable_name(enum setting which, char ret[SETTING_NAME_MAX]);

/* The setting of this name, in which a dash may be in the place of an underscore. False: there is none. */
bool settings_find(const char *name, enum setting *ret);

/* The same of "no-NAME", for one that is true or false. */
bool settings_find_negation(const char *name, enum setting *ret);

/* WC_EUSAGE: there is no setting @name, and which are near. @prefix: what options begin with; "": it is not one. */
struct wc_error *settings_unknown(const char *name, const char *prefix);

/* An option's value, before settings_read(). WC_EUSAGE: it is none of the type. @from is its name, for the sentence. */
struct wc_error *settings_set(struct settings *s, enum setting which, const char *value, const char *from);

/*
 * Takes what is not set yet from the environment and from calltrace.toml, and reads the filters. WC_EUSAGE: one of them is
 * wrong; WC_EFAIL: the file of filters cannot be read. Of untrusted environments (AT_SECURE) it knows nothing.
 */
struct wc_error *settings_read(struct settings *s);
void settings_deinit(struct settings *s);

const char *settings_text(const struct settings *s, enum setting which);
bool settings_is(const struct settings *s, enum setting which);

#endif
