#include "watchctl/target/proc/process_fd.h"

#include <errno.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

struct wc_error *process_fd_open(pid_t pid, int *fd)
{
	if (*fd < 0)
		*fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (*fd >= 0)
		return NULL;
	return wc_error_errno(errno == ESRCH ? WC_ETARGET : WC_EFAIL, errno, "cannot open process %d", pid);
}

bool process_fd_ended(int fd, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, timeout_ms) > 0;
}
