/* The shim of a build without LLDB: it says what to install. */
#include "watchctl/step/lldb/lldb_shim.h"

const char *lldb_shim_version(void)
{
	return "none";
}

struct wc_error *lldb_session_open(const char *exe, struct lldb_session **ret)
{
	return wc_error_new(
		WC_ENOTSUP,
		"this watchctl was built without LLDB, which is needed for functions and types: install "
		"liblldb-19-dev (or 14 to 18) and build it again");
}

void lldb_session_close(struct lldb_session *s)
{
}

struct wc_error *lldb_session_module(struct lldb_session *s, const struct module *m, struct lldb_module **ret)
{
	*ret = NULL;
	return NULL;
}

struct wc_error *lldb_module_symbols(struct lldb_module *m,
				     bool (*each)(void *ctx, const struct lldb_symbol *symbol), void *ctx)
{
	return NULL;
}

struct wc_error *lldb_module_function(struct lldb_module *m, uint64_t address,
				      const struct lldb_function **ret)
{
	*ret = NULL;
	return NULL;
}

struct wc_error *lldb_module_variable(struct lldb_module *m, const char *name, uint64_t address,
				      const struct lldb_type **ret)
{
	*ret = NULL;
	return NULL;
}

struct wc_error *lldb_module_static(struct lldb_module *m, uint64_t function, uint64_t address,
				    const struct lldb_type **ret)
{
	*ret = NULL;
	return NULL;
}

const struct lldb_type_info *lldb_type_info(const struct lldb_type *t)
{
	static const struct lldb_type_info unknown = { .kind = TYPE_UNKNOWN };

	return &unknown;
}
