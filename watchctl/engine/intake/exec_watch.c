#include "watchctl/engine/intake/exec_watch.h"

#include <linux/perf_event.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "watchctl/target/proc/proc.h"
#include "watchctl/target/proc/process_fd.h"

#define RING_PAGES 2 /* poll() reports a removed event only where it has a ring */

bool exec_watch_open(struct exec_watch *w, pid_t pid)
{
	struct perf_event_attr a = {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.size = sizeof(a),
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.remove_on_exec = 1,
	};

	*w = (struct exec_watch){ .pid = pid, .leader_ended = proc_is_ending(pid, pid) };
	w->fd = (int)syscall(SYS_perf_event_open, &a, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (w->fd < 0)
		return false;
	w->ring =
		mmap(NULL, RING_PAGES * (size_t)getpagesize(), PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, 0);
	if (w->ring != MAP_FAILED)
		return true;
	w->ring = NULL;
	exec_watch_close(w);
	return false;
}

void exec_watch_close(struct exec_watch *w)
{
	if (w->ring)
		munmap(w->ring, RING_PAGES * (size_t)getpagesize());
	if (w->fd >= 0)
		close(w->fd);
	*w = (struct exec_watch){ .fd = -1 };
}

bool exec_watch_execed(struct exec_watch *w)
{
	struct pollfd p = { .fd = w->fd, .events = POLLIN };

	if (!w->leader_ended && (w->fd < 0 || poll(&p, 1, 0) <= 0 || !(p.revents & POLLHUP)))
		return false;
	/*
	 * Our event goes also when the main thread begins to end, before that can be seen in its state. If
	 * others live on, one of them may execute a program and takes its place then.
	 */
	w->leader_ended = proc_is_ending(w->pid, w->pid);
	return !w->leader_ended;
}

bool exec_watch_is_over(struct exec_watch *w, int pidfd, enum session_end *ret)
{
	bool exited = process_fd_ended(pidfd, 0);

	if (!exited && !exec_watch_execed(w))
		return false;
	*ret = exited ? SESSION_EXITED : SESSION_EXECED;
	return true;
}
