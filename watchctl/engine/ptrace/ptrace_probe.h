/* ptrace_probe - whether a debug register that is set by ptrace fires at all: on some virtual machines, none
 * does. */
#ifndef WATCHCTL_ENGINE_PTRACE_PTRACE_PROBE_H
#define WATCHCTL_ENGINE_PTRACE_PTRACE_PROBE_H

enum probe_result {
	PROBE_FIRES,
	PROBE_SILENT,  /* a write to a watched word of our own went unnoticed */
	PROBE_UNKNOWN, /* it could not be tried: no process, or no ptrace */
};

/* In a child of ours, which is made for it and ended. */
enum probe_result ptrace_probe(void);

#endif
