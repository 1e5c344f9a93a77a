#include "watchctl/base/privilege.h"

#include <linux/capability.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const unsigned int for_tracing[] = {
	CAP_SYS_PTRACE,		/* another user's process, and one that does not let itself be traced */
	CAP_PERFMON,		/* perf beyond perf_event_paranoid: the kernel's accesses */
	CAP_BPF,		/* the recorder in the kernel */
	CAP_CHECKPOINT_RESTORE, /* /proc/PID/map_files: the event buffer is shared */
	CAP_SYSLOG,		/* addresses in /proc/kallsyms */
	CAP_IPC_LOCK,		/* rings of perf, one for each thread */
	CAP_SYS_RESOURCE,	/* descriptors, one for each thread */
	CAP_DAC_OVERRIDE,	/* /proc/PID/mem of another user, libraries in closed folders */
	CAP_DAC_READ_SEARCH,
	CAP_KILL, /* a program that was launched */
};

void privilege_keep_for_tracing(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct have[2] = { 0 };
	uint32_t keep[2] = { 0 };
	size_t i;

	if (syscall(SYS_capget, &head, have))
		return;
	for (i = 0; i < sizeof(for_tracing) / sizeof(for_tracing[0]); i++)
		keep[for_tracing[i] / 32] |= 1u << for_tracing[i] % 32;
	for (i = 0; i < 2; i++) {
		have[i].permitted &= keep[i];
		have[i].effective &= keep[i];
		have[i].inheritable &= keep[i];
	}
	syscall(SYS_capset, &head, have);
}
