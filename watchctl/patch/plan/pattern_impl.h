/* pattern_impl - what the parts of pattern share. */
#ifndef WATCHCTL_PATCH_PLAN_PATTERN_IMPL_H
#define WATCHCTL_PATCH_PLAN_PATTERN_IMPL_H

#include "watchctl/patch/plan/pattern.h"

/* Finds which instructions the mnemonic of @e may be. WC_ENAME: none; nothing is to be done of other kinds. */
struct wc_error *pattern_find_names(const struct pattern *p, struct pattern_element *e);

#endif
