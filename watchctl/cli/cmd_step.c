/*
 * cmd_step - `watchctl step`: the command's words. The work is done by watchctl-step, which alone is linked
 * with LLDB: loading that takes longer than most commands do altogether.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/cli/command.h"
#include "watchctl/cli/request/step_options.h"

#define WORKER "watchctl-step"

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
		if (snprintf(ret, len, "%s%s" WORKER, self, places[i]) < (int)len && !access(ret, X_OK))
			return true;
	return false;
}

/* The loader's own message, were it to fail there, says neither why nor what to do. */
static struct wc_error *look_for_lldb(void)
{
	void *lldb = LLDB_SONAME[0] ? dlopen(LLDB_SONAME, RTLD_LAZY) : NULL;
	const char *why = lldb ? NULL : dlerror();

	if (lldb)
		dlclose(lldb);
	if (lldb || !LLDB_SONAME[0])
		return NULL;
	return wc_error_new(WC_ENOTSUP,
			    "step needs LLDB, and its library cannot be loaded (%s): install liblldb-%s",
			    why ? why : "the loader does not say why", LLDB_VERSION);
}

static struct wc_error *cmd_step_run(int argc, char **argv)
{
	struct step_command c;
	char worker[PATH_MAX];
	struct wc_error *err = step_options_parse(argc, argv, &c);

	if (!err)
		err = look_for_lldb();
	if (err)
		return err;
	if (!find_worker(worker, sizeof(worker)))
		return wc_error_new(WC_ENOTSUP,
				    "step needs the program " WORKER
				    ", which is neither beside watchctl nor in "
				    "../libexec/watchctl: install watchctl anew, with `make install`");
	argv[0] = WORKER;
	execv(worker, argv);
	return wc_error_errno(WC_EFAIL, errno, "cannot run %s", worker);
}

const struct command cmd_step = {
	.name = "step",
	.args = "[--from CODE] [--to CODE] [options] -o LOG -- PROGRAM [ARGS]\n"
		"[--from CODE] [--to CODE] [options] -o LOG -p PID",
	.summary = "record every call in a range, with parameters, results and stacks",
	.help = "Record a run that works and one that does not, then ask `watchctl diff GOOD BAD`.\n"
		"Libraries of the system (libc, libm, ld.so, libstdc++ ...) are stepped over: a call of\n"
		"them is one event. Ctrl-C ends the recording and leaves the program running.\n",
	.options = step_options,
	.operand = COMPLETE_NOTHING,
	.run = cmd_step_run,
};
