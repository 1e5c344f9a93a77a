#include "watchctl/target/stop/stop.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

static bool stops_the_group(int sig)
{
	return sig == SIGSTOP || sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU;
}

/* The event is in the bits above what WSTOPSIG() shows: ptrace(2), "Stopping, tracees". */
struct stop stop_decode(int status)
{
	struct stop s = { .kind = STOP_OTHER };
	int sig;

	if (!WIFSTOPPED(status)) {
		s.kind = STOP_ENDED;
		return s;
	}
	sig = WSTOPSIG(status);
	switch (status >> 16) {
	case 0:
		if (sig != (SIGTRAP | 0x80)) /* a system call's, with PTRACE_O_TRACESYSGOOD */
			s = (struct stop){ STOP_SIGNAL, sig };
		break;
	case PTRACE_EVENT_STOP:
		if (stops_the_group(sig))
			s = (struct stop){ STOP_GROUP, sig };
		else
			s.kind = STOP_TRAP;
		break;
	case PTRACE_EVENT_CLONE:
	case PTRACE_EVENT_FORK:
	case PTRACE_EVENT_VFORK:
		s.kind = STOP_CLONED;
		break;
	case PTRACE_EVENT_EXEC:
		s.kind = STOP_EXECED;
		break;
	case PTRACE_EVENT_EXIT:
		s.kind = STOP_EXITING;
		break;
	}
	return s;
}
