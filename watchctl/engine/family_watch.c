#include "watchctl/engine/family_watch.h"

#include <linux/perf_event.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "watchctl/base/vec.h"
#include "watchctl/target/proc.h"

#define RING_PAGES 2 /* poll() tells of a removed event only where it has a ring */

struct family_event {
	int fd;
	void *ring;
};

static size_t ring_size(void)
{
	return RING_PAGES * (size_t)sysconf(_SC_PAGESIZE);
}

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
	struct family_event e = { .ring = MAP_FAILED };

	/* On one CPU: an inherited event for all of them can have no ring. */
	e.fd = (int)syscall(SYS_perf_event_open, &a, tid, 0, -1, PERF_FLAG_FD_CLOEXEC);
	if (e.fd >= 0)
		e.ring = mmap(NULL, ring_size(), PROT_READ | PROT_WRITE, MAP_SHARED, e.fd, 0);
	if (e.ring != MAP_FAILED && vec_push(w->event, w->n, w->cap, e))
		return true;
	if (e.ring != MAP_FAILED)
		munmap(e.ring, ring_size());
	if (e.fd >= 0)
		close(e.fd);
	return false;
}

bool family_watch_open(struct family_watch *w, pid_t pid)
{
	struct thread_ids ids;
	size_t i;

	*w = (struct family_watch){ 0 };
	if (!proc_threads(pid, &ids))
		return false;
	for (i = 0; i < ids.n; i++)
		if (!open_one(w, ids.v[i]))
			break;
	thread_ids_deinit(&ids);
	return w->n > 0;
}

void family_watch_close(struct family_watch *w)
{
	size_t i;

	for (i = 0; i < w->n; i++) {
		munmap(w->event[i].ring, ring_size());
		close(w->event[i].fd);
	}
	free(w->event);
	*w = (struct family_watch){ 0 };
}

bool family_watch_ended(const struct family_watch *w)
{
	size_t i;

	for (i = 0; i < w->n; i++) {
		struct pollfd p = { .fd = w->event[i].fd, .events = POLLIN };

		if (poll(&p, 1, 0) <= 0 || !(p.revents & POLLHUP))
			return false;
	}
	return true;
}
