#include "watchctl/patch/probe/probe_cc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/clock.h"

#define LOOK_NS 5000000
#define GRACE_NS 1000000000u

static const int held[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
#define NHELD (sizeof(held) / sizeof(held[0]))

struct probe_cc_signals {
	sigset_t before;
};

struct probe_cc_signals *probe_cc_hold(void)
{
	struct probe_cc_signals *s = malloc(sizeof(*s));
	sigset_t set;

	if (!s)
		return NULL;
	sigemptyset(&set);
	for (size_t i = 0; i < NHELD; i++)
		sigaddset(&set, held[i]);
	sigprocmask(SIG_BLOCK, &set, &s->before);
	return s;
}

void probe_cc_release(struct probe_cc_signals *s)
{
	if (s)
		sigprocmask(SIG_SETMASK, &s->before, NULL);
	free(s);
}

static bool is_signalled(void)
{
	sigset_t set;

	sigpending(&set);
	for (size_t i = 0; i < NHELD; i++)
		if (sigismember(&set, held[i]) == 1)
			return true;
	return false;
}

/* In a group of its own, so that all that a compiler's driver starts can be ended. */
static int prepare(const struct probe_cc_run *q, posix_spawn_file_actions_t *files, posix_spawnattr_t *attr)
{
	sigset_t mask, defaults;

	sigemptyset(&defaults);
	for (size_t i = 0; i < NHELD; i++)
		sigaddset(&defaults, held[i]);
	sigaddset(&defaults, SIGPIPE);
	sigaddset(&defaults, SIGCHLD);
	/* From the background it may write to a terminal that would stop it (stty tostop). */
	sigemptyset(&mask);
	sigaddset(&mask, SIGTTOU);
	posix_spawnattr_setpgroup(attr, 0);
	posix_spawnattr_setsigmask(attr, &mask);
	posix_spawnattr_setsigdefault(attr, &defaults);
	posix_spawnattr_setflags(attr,
				 POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	int err = posix_spawn_file_actions_addopen(files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);

	if (!err && q->stderr_fd >= 0)
		err = posix_spawn_file_actions_adddup2(files, q->stderr_fd, STDERR_FILENO);
	return err ? err : posix_spawn_file_actions_adddup2(files, STDERR_FILENO, STDOUT_FILENO);
}

static int spawn(const struct probe_cc_run *q, pid_t *ret)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	int err = posix_spawn_file_actions_init(&files);

	if (err)
		return err;
	err = posix_spawnattr_init(&attr);
	if (!err) {
		err = prepare(q, &files, &attr);
		if (!err)
			err = posix_spawnp(ret, q->argv[0], &files, &attr, q->argv, environ);
		posix_spawnattr_destroy(&attr);
	}
	posix_spawn_file_actions_destroy(&files);
	return err;
}

/* Until it ends, @until comes, or, if @heed, a signal does. 0: it has not ended; -1: errno. */
static pid_t wait_until(pid_t child, uint64_t until, bool heed, int *status)
{
	pid_t got;

	while ((got = waitpid(child, status, WNOHANG)) == 0) {
		if (monotonic_ns() >= until || (heed && is_signalled()))
			return 0;
		nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
	}
	return got;
}

/* First asked, for it removes its temporary files then. */
static void end(pid_t child)
{
	int status;

	kill(-child, SIGTERM);
	if (wait_until(child, monotonic_ns() + GRACE_NS, false, &status)) {
		kill(-child, SIGKILL);
		return;
	}
	kill(-child, SIGKILL);
	waitpid(child, &status, 0);
}

struct wc_error *probe_cc_run(const struct probe_cc_run *q, bool *ok)
{
	const char *cc = q->argv[0];
	int status, err;
	pid_t child, got;

	err = spawn(q, &child);
	if (err == ENOENT || err == EACCES)
		return wc_error_new(
			WC_EUSAGE,
			"there is no C compiler \"%s\", which probes are compiled with: install gcc or "
			"clang (apt install gcc), or name one by --cc",
			cc);
	if (err)
		return wc_error_errno(WC_EFAIL, err, "cannot start %s", cc);
	got = wait_until(child, monotonic_ns() + q->patience_ns, true, &status);
	if (got < 0)
		return wc_error_errno(WC_EFAIL, errno, "cannot wait for %s", cc);
	if (!got) {
		end(child);
		if (is_signalled())
			return wc_error_new(WC_EFAIL, "interrupted while the probes were compiled");
		return wc_error_new(WC_EFAIL,
				    "%s had not compiled the probes after %u seconds, and was ended", cc,
				    (unsigned int)(q->patience_ns / 1000000000u));
	}
	*ok = WIFEXITED(status) && !WEXITSTATUS(status);
	return NULL;
}
