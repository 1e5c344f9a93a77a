#include "stackwalk/code_name.h"

struct wc_error *locate_code(struct locator *l, const char *expr, const struct module_list *modules,
			     const struct memory_view *mem, struct variable *ret, bool *missing_module)
{
	return wc_error_new(WC_ENOTSUP, "in the making");
}

struct wc_error *code_ranges(struct locator *l, const char *function, const struct module_list *modules,
			     struct code_range **ret, size_t *n, bool *missing_module)
{
	return wc_error_new(WC_ENOTSUP, "in the making");
}
