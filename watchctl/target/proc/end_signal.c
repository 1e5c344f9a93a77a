#include "watchctl/target/proc/end_signal.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "watchctl/base/task.h"

#define STATE_FIELD 3
#define EXIT_CODE_FIELD 52 /* of /proc/PID/stat: proc(5) */

/* As in the kernel's include/uapi/linux/pidfd.h, which Debian 12's headers do not have. */
struct pidfd_info {
	uint64_t mask, cgroupid;
	uint32_t pid, tgid, ppid;
	uint32_t ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
	int32_t exit_code;
};

#define INFO_EXIT (1ull << 3)
#define GET_INFO _IOWR(0xFF, 11, struct pidfd_info)

static int signal_of(int exit_code)
{
	return WIFSIGNALED(exit_code) ? WTERMSIG(exit_code) : 0;
}

/* As long as nobody has waited for it. */
static int of_zombie(pid_t pid)
{
	char text[1024];
	const char *field = task_stat(pid, pid, text, sizeof(text));

	if (!field || *field != 'Z')
		return 0;
	for (int i = STATE_FIELD; field && i < EXIT_CODE_FIELD; i++) {
		field = strchr(field, ' ');
		field = field ? field + 1 : NULL;
	}
	return field ? signal_of(atoi(field)) : 0;
}

int end_signal(pid_t pid, int pidfd)
{
	struct pidfd_info info = { .mask = INFO_EXIT };
	int sig = of_zombie(pid);

	if (sig || ioctl(pidfd, GET_INFO, &info) || !(info.mask & INFO_EXIT))
		return sig;
	return signal_of(info.exit_code);
}
