/*
 * calltrace-cc, calltrace-c++ - clang with the pass, and with the runtime when it links: in the place of a compiler in any
 * build. Adds options to the command line and becomes clang; whatever else is there is clang's.
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calltrace/cc/cc_clang.h"
#include "calltrace/cc/cc_options.h"
#include "watchctl/base/error.h"

#define PLUGIN "libcalltrace-pass.so" /* a link to one of them */
#define LIBRARY "libcalltrace.so"
#define STUB "--calltrace-stub" /* ours: links the library that does nothing */
#define CANNOT_RUN 126		/* as shells say it */

/* Places */

/* The folders of the plugin and of the library, from that of this program: as they are built, or as they are installed. */
struct places {
	char plugin[PATH_MAX], library[PATH_MAX];
	bool is_built; /* the loader does not look there by itself */
};

static bool exists(const char *folder, const char *name)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%s/%s", folder, name) < (int)sizeof(path) &&
	       access(path, R_OK) == 0;
}

/* @ret: PATH_MAX bytes; the folder above that of this program, and @below in it. */
static bool folder_beside(const char *below, char *ret)
{
	char self[PATH_MAX], *slash;
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int i;

	if (len < 0)
		return false;
	self[len] = '\0';
	for (i = 0; i < 2; i++) {
		slash = strrchr(self, '/');
		if (!slash)
			return false;
		*slash = '\0';
	}
	return snprintf(ret, PATH_MAX, "%s%s", self, below) < PATH_MAX;
}

static bool find_places(struct places *ret)
{
	static const char *const libraries[] = { "/lib", "/lib/x86_64-linux-gnu" };
	size_t i;

	if (folder_beside("", ret->plugin) && exists(ret->plugin, PLUGIN)) {
		ret->is_built = true;
		snprintf(ret->library, sizeof(ret->library), "%s", ret->plugin);
		return exists(ret->library, LIBRARY);
	}
	if (!folder_beside("/lib/watchctl", ret->plugin) || !exists(ret->plugin, PLUGIN))
		return false;
	for (i = 0; i < sizeof(libraries) / sizeof(*libraries); i++)
		if (folder_beside(libraries[i], ret->library) && exists(ret->library, LIBRARY))
			return true;
	return false;
}

/* The command line */

/* Options of clang's whose value is the next argument, which is no input then. */
static bool takes_next(const char *option)
{
	static const char *const taking[] = {
		"-o",
		"-x",
		"-I",
		"-D",
		"-U",
		"-L",
		"-T",
		"-z",
		"-u",
		"-e",
		"-MF",
		"-MT",
		"-MQ",
		"-include",
		"-imacros",
		"-isystem",
		"-iquote",
		"-idirafter",
		"-iprefix",
		"-isysroot",
		"-target",
		"-Xclang",
		"-Xlinker",
		"-Xassembler",
		"-Xpreprocessor",
		"-mllvm",
		"-arch",
		"--param",
		"-B",
		"-iwithprefix",
		"-iwithprefixbefore",
		"-F",
		"-framework",
		"-serialize-diagnostics",
		"-dumpdir",
		"-cxx-isystem",
		"-isystem-after",
		"-working-directory",
	};
	size_t i;

	for (i = 0; i < sizeof(taking) / sizeof(*taking); i++)
		if (!strcmp(option, taking[i]))
			return true;
	return false;
}

/* True: there is something to compile or to link. Without, an input that we add would be the only one. */
static bool has_input(int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++) {
		if (argv[i][0] != '-' || !argv[i][1])
			return true;
		if (takes_next(argv[i]))
			i++;
	}
	return false;
}

/* Objects for another link: no library belongs into them. */
static bool is_partial(int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++)
		if (!strcmp(argv[i], "-r") || !strcmp(argv[i], "-Wl,-r") ||
		    !strcmp(argv[i], "--relocatable") || !strcmp(argv[i], "-Wl,--relocatable"))
			return true;
	return false;
}

/* Removes @option, which is ours. True: it was there. */
static bool take_option(int *argc, char **argv, const char *option)
{
	const int n = *argc;
	int i, kept = 0;

	for (i = 0; i < n; i++)
		if (strcmp(argv[i], option) != 0)
			argv[kept++] = argv[i];
	argv[kept] = NULL;
	*argc = kept;
	return kept < n;
}

static int fail(const char *self, const char *what, const char *why, const char *hint)
{
	fprintf(stderr, "%s: %s: %s. %s\n", self, what, why, hint);
	return CANNOT_RUN;
}

int main(int argc, char **argv)
{
	static char plugin[PATH_MAX + 64], folder[PATH_MAX + 4], rpath[PATH_MAX + 16];
	const char *slash = argc ? strrchr(argv[0], '/') : NULL, *self = slash	? slash + 1
									 : argc ? argv[0]
										: "calltrace-cc";
	const bool is_cxx = strstr(self, "++");
	const char *chosen = getenv(is_cxx ? "CALLTRACE_CLANGXX" : "CALLTRACE_CLANG");
	const bool is_stub = take_option(&argc, argv, STUB);
	struct wc_error *err;
	static struct cc_clang clang;
	struct places at;
	char **args;
	int n = 0;

	if (!find_places(&at))
		return fail(self, "cannot find " PLUGIN " and " LIBRARY,
			    "they are not where they are built or installed",
			    "Run it from where it was installed, or from its build folder after make");
	err = cc_options_take(&argc, argv);
	if (err) {
		fprintf(stderr, "%s: %s\n", self, err->text);
		return err->kind == WC_EUSAGE ? 1 : CANNOT_RUN; /* clang's for an option it does not know */
	}
	err = cc_clang_find(chosen, is_cxx, at.plugin, &clang);
	if (err) {
		fprintf(stderr, "%s: %s\n", self, err->text);
		return CANNOT_RUN;
	}
	args = calloc((size_t)argc + 9, sizeof(*args));
	if (!args)
		return fail(self, "cannot start", strerror(ENOMEM), "");
	snprintf(plugin, sizeof(plugin), "-fpass-plugin=%s", clang.plugin);
	snprintf(folder, sizeof(folder), "-L%s", at.library);
	snprintf(rpath, sizeof(rpath), "-Wl,-rpath,%s", at.library);

	args[n++] = clang.program;
	memcpy(args + n, argv + 1, sizeof(*args) * (size_t)(argc > 0 ? argc - 1 : 0));
	n += argc > 0 ? argc - 1 : 0;
	if (has_input(argc, argv)) {
		/* Which of them this command needs, clang knows. */
		args[n++] = (char *)"--start-no-unused-arguments";
		args[n++] = plugin;
		if (!is_partial(argc, argv)) {
			args[n++] = folder;
			if (at.is_built)
				args[n++] = rpath;
			args[n++] = (char *)(is_stub ? "-lcalltrace-stub" : "-lcalltrace");
		}
		args[n++] = (char *)"--end-no-unused-arguments";
	}
	execvp(clang.program, args);
	return fail(self, clang.program, strerror(errno),
		    "Install it, or name another one by CALLTRACE_CLANG and CALLTRACE_CLANGXX");
}
