#include "watchctl/target/proc/loader_hook.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/task.h"
#include "watchctl/code/locate/locate.h"
#include "watchctl/code/symbols/symbol_address.h"
#include "watchctl/target/proc/proc.h"

/* Where the kernel mapped the program's interpreter; 0: it has none. */
static uint64_t interpreter_base(pid_t pid)
{
	uint64_t entry[2];
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/auxv", task_with_memory(pid));
	scoped(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && read(fd, entry, sizeof(entry)) == sizeof(entry) && entry[0] != AT_NULL)
		if (entry[0] == AT_BASE)
			return entry[1];
	return 0;
}

uint64_t loader_hook_address(pid_t pid, const struct module_list *modules)
{
	uint64_t base = interpreter_base(pid);
	const struct module *loader = base ? module_find(modules, base) : NULL;

	return loader ? symbol_address(loader, "_dl_debug_state") : 0;
}

static uint64_t r_debug_address(pid_t pid, const struct module_list *modules)
{
	const struct module *loader = module_find(modules, interpreter_base(pid));

	return loader ? symbol_address(loader, "_r_debug") : 0;
}

uint64_t loader_hook_state_address(pid_t pid, const struct module_list *modules)
{
	uint64_t addr = r_debug_address(pid, modules);

	return addr ? addr + offsetof(struct r_debug, r_state) : 0;
}

static bool find_r_debug(pid_t pid, const struct module_list *modules, struct r_debug *ret)
{
	struct memory_view mem = proc_memory(&pid);
	uint64_t addr = r_debug_address(pid, modules);

	return addr && memory_read(&mem, addr, ret, sizeof(*ret));
}

bool loader_hook_startup_done(pid_t pid)
{
	struct module_list modules = { 0 };
	struct wc_error *err = module_list_read(pid, &modules);
	struct r_debug debug;
	bool done;

	if (err) {
		wc_error_free(err);
		return true;
	}
	done = !interpreter_base(pid) ||
	       (find_r_debug(pid, &modules, &debug) && debug.r_map && debug.r_state == RT_CONSISTENT);
	module_list_deinit(&modules);
	return done;
}
