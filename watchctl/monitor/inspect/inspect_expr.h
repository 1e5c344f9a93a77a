/* inspect_expr - what the expressions of inspect mean, and memory as text; private to monitor/inspect. */
#ifndef WATCHCTL_MONITOR_INSPECT_INSPECT_EXPR_H
#define WATCHCTL_MONITOR_INSPECT_INSPECT_EXPR_H

#include "watchctl/code/locate/show.h"
#include "watchctl/monitor/inspect/inspect.h"

struct wc_error *inspect_expr_print(const struct show_source *s, const char *expr, char format, char **ret);

/* Where examining @expr begins. */
struct wc_error *inspect_expr_address(const struct show_source *s, const char *expr, uint64_t *ret);

/* As inspect_examine(), from @addr on. */
struct wc_error *inspect_memory(const struct show_source *s, struct examine *x, uint64_t addr, char **ret);

#endif
