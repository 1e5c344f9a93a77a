/* patch_print - the plan of `watchctl patch --plan`, for people and for programs. */
#ifndef WATCHCTL_CLI_PATCH_PRINT_H
#define WATCHCTL_CLI_PATCH_PRINT_H

#include <stdbool.h>
#include <stdio.h>

#include "watchctl/base/text_buf.h"
#include "watchctl/patch/plan/patch_plan.h"

/* Sites beyond these are counted, and not printed as rows. */
#define PATCH_ROWS 40

struct patch_printer {
	FILE *out;
	bool json, all; /* all: as many rows as there are sites */
	size_t nrows;
	struct text_buf rows; /* held back until it is known how many there are */
};

/* @site: as patch_plan_next() gives it: the map of its module is read. */
void patch_print_site(struct patch_printer *p, const struct patch_site *site);
void patch_print_totals(struct patch_printer *p, const struct patch_totals *t);
void patch_printer_deinit(struct patch_printer *p);

#endif
