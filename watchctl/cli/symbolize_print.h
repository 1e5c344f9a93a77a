/* symbolize_print - what `watchctl symbolize` found, for people and for programs. */
#ifndef WATCHCTL_CLI_SYMBOLIZE_PRINT_H
#define WATCHCTL_CLI_SYMBOLIZE_PRINT_H

#include <stdio.h>

#include "watchctl/view/rewrite/symbolize.h"

void symbolize_print_text(const struct symbolize *s, const char *log, FILE *out);

/* Fails only for lack of memory. */
struct wc_error *symbolize_print_json(const struct symbolize *s, FILE *out);

#endif
