/* opt_options - the command line of calltrace-opt. */
#ifndef CALLTRACE_OPT_OPT_OPTIONS_H
#define CALLTRACE_OPT_OPT_OPTIONS_H

#include <stdbool.h>

#include "calltrace/config/settings.h"

/* *@input: the module to be read, "-" as standard input. *@is_done: --help or --version was answered. WC_EUSAGE. */
struct wc_error *opt_options_read(int argc, char **argv, struct settings *s, const char **input,
				  bool *is_done);

#endif
