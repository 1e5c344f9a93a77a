#include "calltrace/opt/opt_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"

static void print_help(void)
{
	size_t i;

	printf("usage: calltrace-opt [OPTION...] [FILE]\n\n"
	       "Puts the code that records calls into a module of LLVM's, bitcode or IR; without FILE, or if it\n"
	       "is -, that from standard input.\n\n"
	       "  clang-" LLVM_MAJOR " -O2 -c -emit-llvm app.c -o - | calltrace-opt | clang-" LLVM_MAJOR
	       " -x ir - -lcalltrace -o app\n\n");
	for (i = 0; i < SETTING_COUNT; i++) {
		char name[SETTING_NAME_MAX], option[SETTING_NAME_MAX + 16];

		if (setting_rows[i].place == SETTING_OF_CC)
			continue;
		settings_option_name((enum setting)i, name);
		snprintf(option, sizeof(option), "--%s%s", name,
			 setting_rows[i].type == SETTING_BOOL ? "[=false]" : "=...");
		printf("  %-32s %s\n", option, setting_rows[i].text);
	}
	printf("  %-32s --output-file=FILE\n  %-32s --output-language=ir\n  --help, --version\n\n", "-o FILE",
	       "-S");
	printf("Underscores may be in the place of dashes. What is not on the command line is taken from the\n"
	       "environment (CALLTRACE_FILTERS_FILE=...), then from calltrace.toml (filters_file = \"...\") in the\n"
	       "working directory or the next one above that has it. See calltrace-opt(1).\n");
}

static struct wc_error *set_option(struct settings *s, int argc, char **argv, int *i)
{
	const char *arg = argv[*i];
	scoped(freep) char *name = strndup(arg + 2, strcspn(arg + 2, "="));
	const char *value = strchr(arg, '=');
	enum setting which;

	if (!name)
		return &wc_enomem;
	if (!value && settings_find_negation(name, &which))
		return settings_set(s, which, "false", arg);
	if (!settings_find(name, &which))
		return settings_unknown(name, "--");
	if (setting_rows[which].place == SETTING_OF_CC)
		return wc_error_new(WC_EUSAGE,
				    "%s is for calltrace-cc: what comes here has been through the inliner",
				    arg);
	if (value)
		value++;
	else if (setting_rows[which].type == SETTING_BOOL)
		value = "true";
	else if (*i + 1 < argc)
		value = argv[++*i];
	else
		return wc_error_new(WC_EUSAGE, "%s needs a value", arg);
	return settings_set(s, which, value, arg);
}

/* One of those that are answered at once. */
static bool answer(const char *arg)
{
	if (!strcmp(arg, "--help") || !strcmp(arg, "-h"))
		print_help();
	else if (!strcmp(arg, "--version"))
		printf("calltrace-opt " WATCHCTL_VERSION ", LLVM " LLVM_MAJOR "\n");
	else
		return false;
	return true;
}

static struct wc_error *take_option(struct settings *s, int argc, char **argv, int *i)
{
	const char *arg = argv[*i];

	if (!strcmp(arg, "-S"))
		return settings_set(s, SET_output_language, "ir", arg);
	if (!strcmp(arg, "-o") && *i + 1 < argc)
		return settings_set(s, SET_output_file, argv[++*i], arg);
	if (arg[1] == '-')
		return set_option(s, argc, argv, i);
	return wc_error_new(
		WC_EUSAGE,
		!strcmp(arg, "-o") ? "%s needs a value" : "there is no option %s: --help lists them", arg);
}

struct wc_error *opt_options_read(int argc, char **argv, struct settings *s, const char **input,
				  bool *is_done)
{
	struct wc_error *err = NULL;
	bool has_input = false, is_over = false;
	int i;

	for (i = 1; i < argc && !err; i++) {
		const char *arg = argv[i];

		if (is_over || arg[0] != '-' || !arg[1]) {
			if (has_input)
				err = wc_error_new(WC_EUSAGE, "it reads one module: %s and %s are two",
						   *input, arg);
			*input = arg;
			has_input = true;
		} else if (!strcmp(arg, "--")) {
			is_over = true;
		} else if (answer(arg)) {
			*is_done = true;
			return NULL;
		} else {
			err = take_option(s, argc, argv, &i);
		}
	}
	return err;
}
