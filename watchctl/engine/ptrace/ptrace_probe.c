#include "watchctl/engine/ptrace/ptrace_probe.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "watchctl/engine/plan/dregs.h"
#include "watchctl/target/stop/debugreg.h"

static volatile uint64_t word;

static void run_child(void)
{
	if (ptrace(PTRACE_TRACEME, 0, 0, 0))
		_exit(1);
	kill(getpid(), SIGSTOP);
	word = 1;
	_exit(0);
}

static bool stopped_by(pid_t pid, int sig)
{
	int status;

	return waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == sig;
}

static enum probe_result watch_child(pid_t pid)
{
	if (!stopped_by(pid, SIGSTOP) || ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_EXITKILL))
		return PROBE_UNKNOWN;
	if (!debugreg_write(pid, 0, (uint64_t)(uintptr_t)&word) ||
	    !debugreg_write(pid, DEBUGREG_CONTROL, dregs_dr7(0, sizeof(word), ACCESS_WRITE)))
		return PROBE_SILENT;
	if (ptrace(PTRACE_CONT, pid, 0, 0))
		return PROBE_UNKNOWN;
	return stopped_by(pid, SIGTRAP) ? PROBE_FIRES : PROBE_SILENT;
}

enum probe_result ptrace_probe(void)
{
	enum probe_result result;
	pid_t pid = fork();

	if (!pid)
		run_child();
	if (pid < 0)
		return PROBE_UNKNOWN;
	result = watch_child(pid);
	if (!kill(pid, SIGKILL)) /* else it ends when we do */
		waitpid(pid, NULL, __WALL);
	return result;
}
