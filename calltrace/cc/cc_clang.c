#include "calltrace/cc/cc_clang.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/text_buf.h"

#define MAJOR_MAX 99
#define HINT "CALLTRACE_CLANG and CALLTRACE_CLANGXX name the compilers to be used"

/* Plugins */

struct plugins {
	bool has[MAJOR_MAX + 1]; /* by major version */
};

static void find_plugins(const char *folder, struct plugins *ret)
{
	struct dirent *each;
	int major, end;
	scoped(closedirp) DIR *dir = opendir(folder);

	*ret = (struct plugins){ 0 };
	while (dir && (each = readdir(dir))) {
		end = 0;
		if (sscanf(each->d_name, "libcalltrace-pass-%2d.so%n", &major, &end) == 1 && end &&
		    !each->d_name[end] && major > 0)
			ret->has[major] = true;
	}
}

/* The newest one of those before @major, or 0. */
static int next_older(const struct plugins *p, int major)
{
	while (--major > 0)
		if (p->has[major])
			return major;
	return 0;
}

static struct wc_error *no_plugin(const char *clang, int major, const struct plugins *p)
{
	struct text_buf all = { 0 };
	struct wc_error *err;
	int i;

	for (i = next_older(p, MAJOR_MAX + 1); i; i = next_older(p, i))
		text_buf_printf(&all, "%s%d", all.len ? ", " : "", i);
	err = wc_error_new(WC_EFAIL,
			   "%s is of version %d, and there is no pass for it: there are those for clang of "
			   "version %s. " HINT,
			   clang, major, all.failed || !all.len ? "none" : all.bytes);
	text_buf_deinit(&all);
	return err;
}

/* Compilers */

static bool is_in_path(const char *name)
{
	const char *path = getenv("PATH"), *end;
	char whole[PATH_MAX];

	for (; path; path = *end ? end + 1 : NULL) {
		end = strchrnul(path, ':');
		if (snprintf(whole, sizeof(whole), "%.*s/%s", (int)(end - path), path, name) <
			    (int)sizeof(whole) &&
		    access(end == path ? name : whole, X_OK) == 0)
			return true;
	}
	return false;
}

/* clang-14, /usr/bin/clang++-14: 14; 0: it does not end so. */
static int version_in_name(const char *clang)
{
	const char *dash = strrchr(clang, '-');
	int major, end = 0;

	return dash && sscanf(dash, "-%2d%n", &major, &end) == 1 && end && !dash[end] && major > 0 ? major
												   : 0;
}

/* The first number of what `clang -dumpversion` says. */
static struct wc_error *ask_version(const char *clang, int *ret)
{
	const char *argv[] = { clang, "-dumpversion", NULL };
	posix_spawn_file_actions_t actions;
	char said[64] = "";
	size_t len = 0;
	ssize_t n;
	pid_t pid;
	int ends[2], number;

	if (pipe2(ends, O_CLOEXEC) < 0 || posix_spawn_file_actions_init(&actions))
		return wc_error_errno(WC_EFAIL, errno, "cannot ask %s for its version", clang);
	number = posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	if (!number)
		number = posix_spawnp(&pid, clang, &actions, NULL, (char **)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	while (!number && len < sizeof(said) - 1) {
		n = read(ends[0], said + len, sizeof(said) - 1 - len);
		if (n <= 0 && !(n < 0 && errno == EINTR))
			break;
		len += n > 0 ? (size_t)n : 0;
	}
	close(ends[0]);
	if (number)
		return wc_error_new(WC_EFAIL, "%s: %s. " HINT, clang, strerror(number));
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	*ret = atoi(said);
	if (*ret <= 0 || *ret > MAJOR_MAX)
		return wc_error_new(WC_EFAIL, "%s does not say its version as clang does. " HINT, clang);
	return NULL;
}

struct wc_error *cc_clang_find(const char *chosen, bool is_cxx, const char *folder, struct cc_clang *ret)
{
	struct wc_error *err = NULL;
	struct plugins plugins;
	int major = 0, newest;

	find_plugins(folder, &plugins);
	if (chosen && *chosen) {
		snprintf(ret->program, sizeof(ret->program), "%s", chosen);
		major = version_in_name(chosen);
		if (!major)
			err = ask_version(chosen, &major);
		if (!err && !plugins.has[major])
			err = no_plugin(chosen, major, &plugins);
	} else {
		newest = next_older(&plugins, MAJOR_MAX + 1);
		for (major = newest; major; major = next_older(&plugins, major)) {
			snprintf(ret->program, sizeof(ret->program), "clang%s-%d", is_cxx ? "++" : "", major);
			if (is_in_path(ret->program))
				break;
		}
		if (!major) {
			major = newest;
			snprintf(ret->program, sizeof(ret->program), "clang%s-%d", is_cxx ? "++" : "", major);
		}
	}
	if (!err)
		snprintf(ret->plugin, sizeof(ret->plugin), "%s/libcalltrace-pass-%d.so", folder, major);
	return err;
}
