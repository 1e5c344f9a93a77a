#include "watchctl/step/ptrace/step_errno.h"

#include "watchctl/base/error.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/locate/locate.h"
#include "watchctl/code/lookup/locator.h"
#include "watchctl/code/tls/tls.h"
#include "watchctl/target/proc/proc.h"

static struct wc_error *step_errno_find(pid_t pid, struct locator *l, struct module_list *modules,
					struct variable *ret)
{
	const struct memory_view mem = proc_memory(&pid);
	struct wc_error *err = module_list_read(pid, modules);

	if (err)
		return err;
	return locate(l, module_by_name(modules, "libc") ? "libc:errno" : "errno", modules, &mem, ret, NULL);
}

bool step_errno_offset(pid_t pid, uint64_t thread_pointer, int64_t *ret)
{
	const struct memory_view mem = proc_memory(&pid);
	struct module_list modules = { 0 };
	struct locator *l = locator_new();
	struct wc_error *err = l ? NULL : &wc_enomem;
	struct variable v = { 0 };
	uint64_t at = 0;
	bool found;

	if (!err)
		err = step_errno_find(pid, l, &modules, &v);
	found = !err && v.thread_local_storage && tls_address(&v.tls, &mem, thread_pointer, &at) == TLS_OK;
	if (found)
		*ret = (int64_t)(at - thread_pointer);
	variable_deinit(&v);
	wc_error_free(err);
	module_list_deinit(&modules);
	locator_free(l);
	return found;
}
