/*
 * Commands of ours run in a process of their own: what they do to their process, a crash of theirs, Ctrl-C,
 * leaves the session alone.
 */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/cli/command.h"
#include "watchctl/cli/output/ending.h"
#include "watchctl/cli/repl/repl.h"

/* Whether one of the operands is a log. */
static bool names_log(int argc, char **argv)
{
	struct stat st;
	int i;

	for (i = 1; i < argc; i++)
		if (!stat(argv[i], &st) && S_ISDIR(st.st_mode))
			return true;
	return false;
}

/* At a terminal, the child has it to itself: Ctrl-C and Ctrl-Z are for it alone. */
static struct wc_error *spawn(struct repl *r, char *const *argv, pid_t *ret)
{
	posix_spawnattr_t attr;
	sigset_t defaults, none;
	int error;

	posix_spawnattr_init(&attr);
	sigemptyset(&none);
	sigemptyset(&defaults);
	sigaddset(&defaults, SIGINT);
	sigaddset(&defaults, SIGTTOU);
	sigaddset(&defaults, SIGPIPE);
	sigaddset(&defaults, SIGXFSZ);
	posix_spawnattr_setsigdefault(&attr, &defaults);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK |
						(r->interactive ? POSIX_SPAWN_SETPGROUP : 0));
	error = posix_spawn(ret, "/proc/self/exe", NULL, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	return error ? wc_error_errno(WC_EFAIL, error, "cannot start watchctl %s", argv[1]) : NULL;
}

/* The terminal's foreground; who is in the background may only take it with SIGTTOU ignored. */
static void give_terminal(pid_t group)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN }, old;

	sigaction(SIGTTOU, &ignore, &old);
	tcsetpgrp(STDIN_FILENO, group);
	sigaction(SIGTTOU, &old, NULL);
}

static struct wc_error *wait_for(struct repl *r, pid_t child, const char *name)
{
	int status = 0;
	pid_t got;

	if (r->interactive) {
		give_terminal(child);
		kill(-child, SIGCONT); /* it may have met the terminal before it had it */
	}
	while ((got = waitpid(child, &status, r->interactive ? WUNTRACED : 0)) < 0 && errno == EINTR)
		;
	if (got == child && WIFSTOPPED(status)) {
		kill(-child, SIGKILL);
		waitpid(child, &status, 0);
	}
	if (r->interactive)
		give_terminal(getpgrp());
	if (got < 0)
		return wc_error_errno(WC_EFAIL, errno, "cannot wait for watchctl %s", name);
	if (WIFSIGNALED(status) && WTERMSIG(status) != SIGINT && WTERMSIG(status) != SIGKILL)
		return wc_error_new(WC_EFAIL, "watchctl %s was ended by signal %d", name, WTERMSIG(status));
	if (!WIFEXITED(status) || r->interactive || !WEXITSTATUS(status))
		return NULL;
	/* It has said why; its kind is what a script goes by. */
	return wc_error_new(WEXITSTATUS(status) <= WC_ELOG ? (enum wc_kind)WEXITSTATUS(status) : WC_EFAIL,
			    "watchctl %s ended with status %d", name, WEXITSTATUS(status));
}

static struct wc_error *run_child(struct repl *r, char *const *argv)
{
	struct wc_error *err;
	pid_t child;

	if (!command_find(argv[1]))
		return wc_error_new(WC_ENOTSUP, "this watchctl has no command %s", argv[1]);
	fflush(stdout);
	err = spawn(r, argv, &child);
	return err ? err : wait_for(r, child, argv[1]);
}

struct wc_error *repl_child(struct repl *r, int argc, char **argv)
{
	bool adds_log =
		strcmp(argv[0], "step") != 0 && strcmp(argv[0], "diff") != 0 && !names_log(argc, argv);
	scoped(freep) char **words = calloc((size_t)argc + 3, sizeof(*words));
	char self[] = "watchctl";

	if (!words)
		return &wc_enomem;
	words[0] = self;
	memcpy(words + 1, argv, (size_t)argc * sizeof(*words));
	for (int i = 1; i < argc; i++)
		adds_log &= strcmp(argv[i], "--help") != 0;
	if (adds_log && !r->log)
		return wc_error_new(WC_ETARGET, "%s of which log? There is none in this session: name one",
				    argv[0]);
	if (adds_log)
		words[argc + 1] = r->log;
	return run_child(r, words);
}

struct wc_error *repl_save(struct repl *r, int argc, char **argv)
{
	char self[] = "watchctl", snapshot[] = "snapshot", output[] = "-o", dashes[] = "--";
	char *words[] = { self, snapshot, output, argc > 1 ? argv[1] : NULL, dashes, r->log, NULL };

	if (argc != 2)
		return wc_error_new(WC_EUSAGE, "save takes the name of a new log: save LOG");
	if (!r->log)
		return wc_error_new(WC_ETARGET, "there is nothing to save: attach PID, or run PROGRAM");
	return run_child(r, words);
}
