#include "watchctl/target/stop/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/held.h"

struct pipes {
	int go[2];     /* parent -> child: you are seized, go */
	int failed[2]; /* child -> parent: errno of exec */
};

static void pipes_deinit(struct pipes *p)
{
	closep(&p->go[0]);
	closep(&p->go[1]);
	closep(&p->failed[0]);
	closep(&p->failed[1]);
}

static void run_child(struct pipes *p, char *const argv[], enum launch_addresses addresses)
{
	int error;
	char c;

	close(p->go[1]);
	if (read(p->go[0], &c, 1) != 1)
		_exit(127); /* the parent died before it said go: there is nothing to leave behind */
	/* Where only parents may trace (Yama), the engines' helper processes, our parent's children, may too.
	 */
	prctl(PR_SET_PTRACER, getppid());
	if (addresses == LAUNCH_SAME)
		personality((unsigned long)personality(0xffffffff) | ADDR_NO_RANDOMIZE);
	execvp(argv[0], argv);
	error = errno;
	if (write(p->failed[1], &error, sizeof(error)) < 0)
		_exit(126);
	_exit(127);
}

static void kill_child(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	while (waitpid(pid, &status, __WALL) < 0 ? errno == EINTR : WIFSTOPPED(status))
		;
}

/* The child has ended, or it is ended now: it says why by itself only if it came as far as that. */
static struct wc_error *exec_failed(const struct pipes *p, pid_t pid, int sys_errno, const char *program)
{
	int error = 0;

	if (sys_errno) {
		kill_child(pid);
		return wc_error_errno(WC_EFAIL, sys_errno, "cannot start %s", program);
	}
	if (read(p->failed[0], &error, sizeof(error)) == sizeof(error))
		return wc_error_errno(WC_EUSAGE, error, "cannot run %s", program);
	return wc_error_new(WC_ETARGET, "%s ended before its first instruction", program);
}

/*
 * To the stop after exec, then on to one in the kernel's signal path, from where registers can be changed.
 * False: with *ret_errno 0 it has ended.
 */
static bool wait_for_exec(pid_t pid, int *ret_errno)
{
	int status, event, sig;
	pid_t got;

	*ret_errno = 0;
	while ((got = waitpid(pid, &status, __WALL)) == pid || errno == EINTR) {
		if (got != pid)
			continue;
		event = status >> 16;
		if (!WIFSTOPPED(status))
			return false;
		if (event == PTRACE_EVENT_STOP)
			return true;
		if (event == PTRACE_EVENT_EXEC && ptrace(PTRACE_INTERRUPT, pid, 0, 0))
			break;
		sig = event ? 0 : WSTOPSIG(status);
		if (held_ptrace(PTRACE_CONT, pid, 0, sig))
			break;
	}
	*ret_errno = errno;
	return false;
}

static bool gives_privileges(const char *exe, const struct stat *file, const struct proc_status *s,
			     const struct stat *process)
{
	struct statvfs fs;
	char caps[64];

	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 || statvfs(exe, &fs) || (fs.f_flag & ST_NOSUID))
		return false; /* not obeyed, tracer or not */
	return ((file->st_mode & S_ISUID) && s->uid != file->st_uid) ||
	       ((file->st_mode & S_ISGID) && (file->st_mode & S_IXGRP) && process->st_gid == getegid() &&
		file->st_gid != getegid()) ||
	       (geteuid() && getxattr(exe, "security.capability", caps, sizeof(caps)) > 0);
}

/* The kernel starts a traced program without the privileges that its file would give it. */
static struct wc_error *check_privileges(pid_t pid, const char *program)
{
	struct stat file, process;
	struct proc_status s;
	char exe[32], self[32];

	snprintf(exe, sizeof(exe), "/proc/%d/exe", pid);
	snprintf(self, sizeof(self), "/proc/%d", pid);
	if (!proc_status_read(pid, pid, &s) || stat(exe, &file) || stat(self, &process) ||
	    !gives_privileges(exe, &file, &s, &process))
		return NULL;
	return wc_error_new(
		WC_EPERM,
		"%s has set-user-ID, set-group-ID or file capabilities, which the kernel would drop, because watchctl "
		"traces the program when it starts: run watchctl as root, or start the program first and let root "
		"watch it with -p",
		program);
}

struct wc_error *launch_start(char *const argv[], enum launch_addresses addresses, struct tracee *ret)
{
	scoped(pipes_deinit) struct pipes p = { { -1, -1 }, { -1, -1 } };
	struct wc_error *err;
	struct tracee t = { 0 };
	int error;
	pid_t pid;

	if (pipe2(p.go, O_CLOEXEC) || pipe2(p.failed, O_CLOEXEC))
		return wc_error_errno(WC_EFAIL, errno, "cannot make a pipe");
	pid = fork();
	if (pid < 0)
		return wc_error_errno(WC_EFAIL, errno, "cannot start a process");
	if (!pid)
		run_child(&p, argv, addresses);
	close(take_fd(p.failed[1]));
	if (ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC)) {
		error = errno;
		kill_child(pid);
		return wc_error_errno(WC_EPERM, error, "cannot trace our own child");
	}
	if (write(p.go[1], "g", 1) != 1)
		return exec_failed(&p, pid, errno, argv[0]);
	if (!wait_for_exec(pid, &error))
		return exec_failed(&p, pid, error, argv[0]);
	err = check_privileges(pid, argv[0]);
	if (err) {
		kill_child(pid);
		return err;
	}
	t.pid = t.tid = pid;
	/* Tell the two kinds of stop apart later: exec of another program must not stop it again. */
	held_ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD);
	if (held_ptrace(PTRACE_GETREGS, pid, 0, &t.home) ||
	    held_ptrace(PTRACE_GETSIGMASK, pid, sizeof(t.sigmask), &t.sigmask)) {
		error = errno;
		kill_child(pid);
		return wc_error_errno(WC_ETARGET, error, "%s ended before its first instruction", argv[0]);
	}
	*ret = t;
	return NULL;
}
