#include "calltrace/cc/cc_options.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "calltrace/config/settings.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"

#define PREFIX "--calltrace-"
#define PREFIX_LEN (sizeof(PREFIX) - 1)

static struct wc_error *set(const char *arg)
{
	const char *text = arg + PREFIX_LEN, *value = strchr(text, '='), *otherwise = "true";
	scoped(freep) char *name = strndup(text, strcspn(text, "="));
	char variable[SETTING_NAME_MAX];
	enum setting which;

	if (!name)
		return &wc_enomem;
	if (!value && settings_find_negation(name, &which))
		otherwise = "false";
	else if (!settings_find(name, &which))
		return settings_unknown(name, PREFIX);
	if (setting_rows[which].place == SETTING_OF_OPT)
		return wc_error_new(WC_EUSAGE,
				    "%s is an option of calltrace-opt: the compiler has its own for that",
				    arg);
	if (!value && setting_rows[which].type != SETTING_BOOL)
		return wc_error_new(WC_EUSAGE, "%s needs a value: %s=...", arg, arg);
	settings_variable_name(which, variable);
	return setenv(variable, value ? value + 1 : otherwise, true)
		       ? wc_error_errno(WC_EFAIL, errno, "cannot set %s", variable)
		       : NULL;
}

struct wc_error *cc_options_take(int *argc, char **argv)
{
	struct wc_error *err = NULL;
	int i, n = 0;

	for (i = 0; i < *argc; i++) {
		if (!i || err || strncmp(argv[i], PREFIX, PREFIX_LEN) != 0)
			argv[n++] = argv[i];
		else
			err = set(argv[i]);
	}
	argv[n] = NULL;
	*argc = n;
	return err;
}
