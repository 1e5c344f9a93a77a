/*
 * Victims of the module, symbolizer and locate tests: compiled when a test needs them, started, and
 * stopped by closing their stdin. A victim prints lines "expression TAB address TAB size", which are the
 * compiler's own answers, then "done".
 */
#ifndef TESTS_UNIT_LOC_VICTIM_H
#define TESTS_UNIT_LOC_VICTIM_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "watchctl/code/memory_view.h"

#define SHOWN_MAX 128

struct shown {
	char *expr;
	uint64_t addr, size;
};

struct victim {
	pid_t pid;
	int in;
	FILE *out;
	struct shown shown[SHOWN_MAX];
	size_t n;
};

/* The folder for what is built; removed by victim_cleanup(). */
static char victim_dir[] = P_tmpdir "/loc-test-XXXXXX";

static int victim_setup(void **state)
{
	(void)state;
	return mkdtemp(victim_dir) ? 0 : -1;
}

static int victim_cleanup(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", victim_dir);
	return system(command);
}

/* Runs a shell command in which "@" stands for the folder. False: it failed (a compiler is missing). */
static bool victim_sh(const char *command)
{
	char text[2048];
	size_t n = 0;

	for (const char *s = command; *s && n + sizeof(victim_dir) < sizeof(text); s++) {
		if (*s == '@')
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s", victim_dir);
		else
			text[n++] = *s;
	}
	text[n] = '\0';
	return system(text) == 0;
}

/* A compiler that @command calls and that is not installed; NULL: all are. */
static const char *victim_missing_tool(const char *command)
{
	static const char *const tools[] = { "gcc",	 "g++", "clang", "clang++",
					     "musl-gcc", "go",	"rustc", "gfortran",
					     "gnatmake", "fpc", "dwz",	 "llvm-dwp" };
	char call[32], ask[64];

	for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++) {
		snprintf(call, sizeof(call), "%s ", tools[i]);
		snprintf(ask, sizeof(ask), "command -v %s >/dev/null", tools[i]);
		if (strstr(command, call) && system(ask) != 0)
			return tools[i];
	}
	return NULL;
}

/* Builds; skips the test where a compiler is not installed, and only there. */
static inline void victim_build(const char *command)
{
	const char *missing;

	if (victim_sh(command))
		return;
	missing = victim_missing_tool(command);
	if (!missing)
		fail_msg("this command fails: %s", command);
	print_message("skipped: %s is not installed\n", missing);
	skip();
}

static void victim_read_shown(struct victim *v)
{
	char line[512], expr[400];
	unsigned long addr, size;

	while (fgets(line, sizeof(line), v->out) && strcmp(line, "done\n") != 0) {
		if (sscanf(line, "%399[^\t]\t%lx\t%lu", expr, &addr, &size) == 3) {
			assert_true(v->n < SHOWN_MAX);
			v->shown[v->n++] = (struct shown){ strdup(expr), addr, size };
		}
	}
}

/* Starts the program @name of the folder, and reads what it shows. */
static inline void victim_start(struct victim *v, const char *name)
{
	char path[256];
	int in[2], out[2];

	memset(v, 0, sizeof(*v));
	snprintf(path, sizeof(path), "%s/%s", victim_dir, name);
	assert_int_equal(pipe(in) | pipe(out), 0);
	v->pid = fork();
	assert_true(v->pid >= 0);
	if (v->pid == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		close(in[1]);
		close(out[0]);
		execl(path, path, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	v->in = in[1];
	v->out = fdopen(out[0], "r");
	assert_non_null(v->out);
	victim_read_shown(v);
	assert_true(v->n > 0);
}

static inline void victim_stop(struct victim *v)
{
	close(v->in);
	fclose(v->out);
	waitpid(v->pid, NULL, 0);
	for (size_t i = 0; i < v->n; i++)
		free(v->shown[i].expr);
}

static inline const struct shown *victim_shown(const struct victim *v, const char *expr)
{
	for (size_t i = 0; i < v->n; i++)
		if (strcmp(v->shown[i].expr, expr) == 0)
			return &v->shown[i];
	fail_msg("the victim shows no '%s'", expr);
	return NULL;
}

static inline bool victim_read(void *ctx, uint64_t addr, void *buf, size_t len)
{
	const struct victim *v = ctx;
	struct iovec to = { buf, len }, from = { (void *)(uintptr_t)addr, len };

	return process_vm_readv(v->pid, &to, 1, &from, 1, 0) == (ssize_t)len;
}

#endif
