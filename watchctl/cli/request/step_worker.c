#include "watchctl/cli/request/step_worker.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Beside us, as in a build folder, or where it is installed. */
static bool find_worker(char *ret, size_t len)
{
	static const char *const places[] = { "", "../libexec/watchctl/" };
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;
	size_t i;

	if (n <= 0)
		return false;
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (!slash)
		return false;
	slash[1] = '\0';
	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (snprintf(ret, len, "%s%s" STEP_WORKER, self, places[i]) < (int)len && !access(ret, X_OK))
			return true;
	return false;
}

/* The loader's own message, were it to fail there, says neither why nor what to do. */
static struct wc_error *look_for_lldb(const char *command)
{
	void *lldb = LLDB_SONAME[0] ? dlopen(LLDB_SONAME, RTLD_LAZY) : NULL;
	const char *why = lldb ? NULL : dlerror();

	if (lldb)
		dlclose(lldb);
	if (lldb || !LLDB_SONAME[0])
		return NULL;
	return wc_error_new(WC_ENOTSUP,
			    "%s needs LLDB, and its library cannot be loaded (%s): install liblldb-%s",
			    command, why ? why : "the loader does not say why", LLDB_VERSION);
}

struct wc_error *step_worker_run(const char *command, const char *name, char **argv)
{
	char worker[PATH_MAX];
	struct wc_error *err = look_for_lldb(command);

	if (err)
		return err;
	if (!find_worker(worker, sizeof(worker)))
		return wc_error_new(WC_ENOTSUP,
				    "%s needs the program " STEP_WORKER
				    ", which is neither beside watchctl nor in "
				    "../libexec/watchctl: install watchctl anew, with `make install`",
				    command);
	argv[0] = (char *)name;
	execv(worker, argv);
	return wc_error_errno(WC_EFAIL, errno, "cannot run %s", worker);
}
