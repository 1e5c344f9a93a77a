#include "watchctl/engine/perf/family_watch.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "watchctl/base/vec.h"
#include "watchctl/target/proc/proc.h"

#define PASSES 20u
#define RING_PAGES 2 /* poll() reports a removed event only where it has a ring: one for all of them */

static size_t ring_size(void)
{
	return RING_PAGES * (size_t)getpagesize();
}

static bool share_ring(struct family_watch *w, int fd)
{
	void *ring;

	if (w->n)
		return !ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, w->fd[0]);
	ring = mmap(NULL, ring_size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring == MAP_FAILED)
		return false;
	if (w->ring)
		munmap(w->ring, ring_size());
	w->ring = ring;
	return true;
}

/* False: not permitted. A thread that has ended needs none. */
static bool open_one(struct family_watch *w, pid_t tid)
{
	struct perf_event_attr a = {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.size = sizeof(a),
		.inherit = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.remove_on_exec = 1,
	};
	/* On one CPU: an inherited event for all of them can have no ring. */
	int fd = (int)syscall(SYS_perf_event_open, &a, tid, 0, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0 && errno == ESRCH)
		return true;
	if (fd >= 0 && share_ring(w, fd) && vec_push(w->fd, w->n, w->cap, fd))
		return true;
	if (fd >= 0)
		close(fd);
	return false;
}

/* Threads that are not among @done. *more: there were some. */
static bool open_others(struct family_watch *w, pid_t pid, struct thread_ids *done, bool *more)
{
	struct thread_ids now;
	bool ok = true;
	size_t i;

	*more = false;
	if (!proc_threads(pid, &now))
		return false;
	for (i = 0; i < now.n && ok; i++) {
		if (thread_ids_have(done, now.v[i]))
			continue;
		*more = true;
		ok = open_one(w, now.v[i]);
	}
	thread_ids_deinit(done);
	*done = now;
	return ok;
}

/* Those that are born meanwhile, of a thread that had none yet, are found by looking again. */
bool family_watch_open(struct family_watch *w, pid_t pid)
{
	struct thread_ids done = { 0 };
	bool ok = true, more = true;
	unsigned int i;

	*w = (struct family_watch){ 0 };
	for (i = 0; i < PASSES && ok && more; i++)
		ok = open_others(w, pid, &done, &more);
	thread_ids_deinit(&done);
	if (ok && w->n)
		return true;
	family_watch_close(w);
	return false;
}

void family_watch_close(struct family_watch *w)
{
	size_t i;

	for (i = 0; i < w->n; i++)
		close(w->fd[i]);
	if (w->ring)
		munmap(w->ring, ring_size());
	free(w->fd);
	*w = (struct family_watch){ 0 };
}

bool family_watch_ended(const struct family_watch *w)
{
	size_t i;

	for (i = 0; i < w->n; i++) {
		struct pollfd p = { .fd = w->fd[i], .events = POLLIN };

		if (poll(&p, 1, 0) <= 0 || !(p.revents & POLLHUP))
			return false;
	}
	return true;
}
