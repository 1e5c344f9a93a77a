/* report_html - `watchctl report LOG --html FILE`. */
#ifndef WATCHCTL_CLI_REPORT_HTML_H
#define WATCHCTL_CLI_REPORT_HTML_H

#include <stdbool.h>

#include "watchctl/base/error.h"
#include "watchctl/cli/output/redact_options.h"
#include "watchctl/code/insn/insn.h"

/*
 * Reads the log at @log and writes the page to @file, "-" for standard output. On failure @file is left as it
 * was; a log that is cut short gives a page of what there is, and then an error of WC_ELOG.
 */
struct wc_error *report_html(const char *log, const char *file, bool no_source, enum insn_syntax syntax,
			     const struct redact_ask *redact);

#endif
