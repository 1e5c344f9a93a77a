#include "watchctl/engine/intake/map_events.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/engine/perf/perf_ring.h"
#include "watchctl/target/proc/proc.h"

#define FIRST_SIZE \
	32768u		/* of the first ring, which the loader's work at a program's start has to fit into */
#define THREADS_MAX 64u /* that have a ring: a user may lock little memory */
#define FAMILY_MAX 512u /* threads times CPUs: two events for each */
#define DEPARTED_MAX (1u << 20) /* processes that are known to be no longer watched */
#define SAME_NS 1000000ull	/* between two records of one birth */
#define BIRTH_NS 10000000ull	/* no more than one event is opened in so long for threads that are born */
#define BIRTHS 16u		/* ... but so many at once */

/* A record ends with what sample_type asks for, in this order. */
struct trailer {
	uint32_t pid, tid;
	uint64_t time_ns;
};

struct mmap2_record {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t start, len, offset;
	struct {
		uint8_t size, unused[3], id[20];
	} build; /* with PERF_RECORD_MISC_MMAP_BUILD_ID; else the file's numbers */
	uint32_t prot, flags;
	char path[];
};

struct task_record {
	struct perf_event_header header;
	uint32_t pid, ppid, tid, ptid;
	uint64_t time;
};

struct comm_record {
	struct perf_event_header header;
	uint32_t pid, tid;
	char name[];
};

/* A ring, and who holds it: the event of a thread; or one on us, for whatever is reported on a CPU. */
struct source {
	pid_t tid; /* 0: of a CPU */
	int cpu, fd;
	int exec_fd; /* of a thread: make_exec_attr()'s, which writes into the same ring; -1: there is none */
	bool ended;  /* the thread: nothing comes any more */
	pid_t born;  /* whom the last record of a birth was of, */
	uint64_t born_ns;
	struct perf_ring ring;
};

struct map_events {
	pid_t pid;
	bool family, inherited, complete;
	struct source *source;
	size_t n, cap;
	int *event; /* that write into the rings of CPUs */
	size_t nevents, event_cap;
	pid_t *covered; /* threads that these are of */
	size_t ncovered, covered_cap;
	struct map64 departed; /* processes that have executed another program, and their children */
	uint64_t births_ns;    /* BIRTH_NS are taken from it for each event that is opened for a birth */
	union {
		uint8_t record[PERF_RING_RECORD_MAX];
		struct perf_event_header header;
		struct mmap2_record mmap2;
		struct task_record task;
		struct comm_record comm;
	};
};

static int open_event(struct perf_event_attr *a, pid_t tid, int cpu)
{
	return (int)syscall(SYS_perf_event_open, a, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static struct perf_event_attr make_attr(const struct map_events *e, bool reports)
{
	return (struct perf_event_attr){
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.size = sizeof(struct perf_event_attr),
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
		.sample_id_all = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.mmap = reports,
		.mmap2 = reports,
		.build_id = reports,
		.comm = reports,
		.task = reports,
		.inherit = reports && e->family,
		.remove_on_exec = reports,
	};
}

/*
 * The other events of a task go when it executes a program, before that is reported. This one lives on, in the
 * new program and its children, and so reports no more than it must: names, births, ends.
 */
static struct perf_event_attr make_exec_attr(const struct map_events *e)
{
	struct perf_event_attr a = make_attr(e, false);

	a.comm = a.comm_exec = 1;
	a.inherit = e->family;
	return a;
}

/* -1: it cannot be had, and nothing reports what @tid executes. */
static int open_exec_event(const struct map_events *e, pid_t tid, int cpu, int ring_fd)
{
	struct perf_event_attr a = make_exec_attr(e);
	int fd = open_event(&a, tid, cpu);

	if (fd >= 0 && ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring_fd))
		closep(&fd);
	return fd;
}

static bool map_some(struct perf_ring *r, int fd, uint64_t size)
{
	for (; size >= PERF_RING_MIN; size /= 2)
		if (perf_ring_map(r, fd, size))
			return true;
	return false;
}

static void close_source(struct source *s)
{
	closep(&s->exec_fd);
	perf_ring_unmap(&s->ring);
	closep(&s->fd);
}

static bool add_source(struct map_events *e, struct source *s, uint64_t size)
{
	if (s->fd >= 0 && map_some(&s->ring, s->fd, size) && vec_push(e->source, e->n, e->cap, *s))
		return true;
	close_source(s);
	return false;
}

/* True also where there is no such thread any more. */
static bool open_thread(struct map_events *e, pid_t tid)
{
	struct perf_event_attr a = make_attr(e, true);
	struct source s = { .tid = tid, .cpu = -1, .fd = -1, .exec_fd = -1 };

	if (e->n >= THREADS_MAX)
		return false;
	s.fd = open_event(&a, tid, -1);
	if (s.fd < 0)
		return errno == ESRCH;
	if (!add_source(e, &s, e->n ? PERF_RING_MIN : FIRST_SIZE))
		return false;
	e->source[e->n - 1].exec_fd = open_exec_event(e, tid, -1, s.fd);
	return true;
}

static bool open_cpus(struct map_events *e)
{
	struct perf_event_attr a = make_attr(e, false);
	int cpu[FAMILY_MAX];
	size_t i, n = perf_ring_cpus(cpu, FAMILY_MAX);

	if (!n || n > FAMILY_MAX)
		return false;
	for (i = 0; i < n; i++) {
		struct source s = { .cpu = cpu[i], .fd = open_event(&a, 0, cpu[i]), .exec_fd = -1 };

		if (!add_source(e, &s, FIRST_SIZE))
			return false;
	}
	return true;
}

static bool open_thread_on_cpus(struct map_events *e, pid_t tid)
{
	struct perf_event_attr a = make_attr(e, true);
	size_t i;

	if (e->nevents + 2 * e->n > 2 * FAMILY_MAX)
		return false;
	for (i = 0; i < e->n; i++) {
		int ring = e->source[i].fd, fd = open_exec_event(e, tid, e->source[i].cpu, ring);

		if (fd >= 0 && !vec_push(e->event, e->nevents, e->event_cap, fd))
			close(fd);
		fd = open_event(&a, tid, e->source[i].cpu);

		if (fd < 0)
			return errno == ESRCH;
		if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring) ||
		    !vec_push(e->event, e->nevents, e->event_cap, fd)) {
			close(fd);
			return false;
		}
	}
	return vec_push(e->covered, e->ncovered, e->covered_cap, tid);
}

static bool is_covered(const struct map_events *e, pid_t tid)
{
	size_t i;

	for (i = 0; i < e->ncovered; i++)
		if (e->covered[i] == tid)
			return true;
	for (i = 0; i < e->n; i++)
		if (e->source[i].tid == tid && !e->source[i].ended)
			return true;
	return false;
}

/* False: a thread there is has no event, and can have none. */
static bool cover(struct map_events *e)
{
	struct thread_ids ids;
	bool all = true;
	size_t i;

	if (!proc_threads(e->pid, &ids))
		return false;
	for (i = 0; i < e->n; i++)
		e->source[i].ended |= e->source[i].tid && !thread_ids_have(&ids, e->source[i].tid);
	for (i = 0; i < ids.n; i++)
		if (!is_covered(e, ids.v[i]))
			all &= e->family ? open_thread_on_cpus(e, ids.v[i]) : open_thread(e, ids.v[i]);
	thread_ids_deinit(&ids);
	return all;
}

bool map_events_complete(struct map_events *e)
{
	e->complete = e->family ? e->inherited : cover(e);
	return e->complete;
}

bool map_events_are_complete(const struct map_events *e)
{
	return e->complete;
}

struct map_events *map_events_open(pid_t pid, bool family)
{
	struct map_events *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->pid = pid;
	e->family = family;
	e->inherited = family && open_cpus(e) && cover(e);
	/* Who is found by a second look was born by one that has an event, or gets one of its own. */
	if (e->inherited || !family)
		e->inherited &= cover(e);
	if (e->n && (!family || e->nevents))
		return e;
	map_events_close(e);
	return NULL;
}

void map_events_close(struct map_events *e)
{
	size_t i;

	if (!e)
		return;
	for (i = 0; i < e->nevents; i++)
		close(e->event[i]);
	for (i = 0; i < e->n; i++)
		close_source(&e->source[i]);
	map64_deinit(&e->departed);
	free(e->event);
	free(e->covered);
	free(e->source);
	free(e);
}

/* Reading */

/* Whose thread has ended, and all of whose records were read. */
static void drop_ended(struct map_events *e)
{
	size_t i, n = 0;

	for (i = 0; i < e->n; i++) {
		if (e->source[i].ended && !perf_ring_has_news(&e->source[i].ring) &&
		    e->source[i].ring.tail == e->source[i].ring.head)
			close_source(&e->source[i]);
		else
			e->source[n++] = e->source[i];
	}
	e->n = n;
}

bool map_events_look(struct map_events *e)
{
	bool any = false;
	size_t i;

	for (i = 0; i < e->n; i++)
		any |= perf_ring_has_news(&e->source[i].ring);
	if (!any)
		return false;
	drop_ended(e);
	for (i = 0; i < e->n; i++)
		perf_ring_look(&e->source[i].ring);
	return true;
}

static struct source *oldest(struct map_events *e)
{
	struct source *best = NULL;
	uint64_t first = UINT64_MAX;
	size_t i;

	for (i = 0; i < e->n; i++) {
		struct perf_event_header h;
		struct trailer t;

		if (!perf_ring_next(&e->source[i].ring, &h))
			continue;
		perf_ring_copy(&e->source[i].ring, h.size - sizeof(t), &t, sizeof(t));
		if (best && t.time_ns >= first)
			continue;
		best = &e->source[i];
		first = t.time_ns;
	}
	return best;
}

static void fill_code(const struct mmap2_record *r, uint64_t time_ns, struct map_event *ret)
{
	struct module_report *code = &ret->code;
	uint64_t now = monotonic_ns();

	ret->kind = MAP_EVENT_CODE;
	*code = (struct module_report){
		.start = r->start,
		.end = r->start + r->len,
		.offset = r->offset,
		.path = r->path,
		.realtime_ns = clock_ns(CLOCK_REALTIME) - (now > time_ns ? now - time_ns : 0),
	};
	if (!(r->header.misc & PERF_RECORD_MISC_MMAP_BUILD_ID) || r->build.size > sizeof(r->build.id))
		return;
	memcpy(code->build_id, r->build.id, r->build.size);
	code->build_id_len = r->build.size;
}

/* A new thread of the process itself gets an event of its own, unless they come too fast. */
static void take_birth(struct map_events *e, const struct task_record *r)
{
	uint64_t now = monotonic_ns();

	if (e->family || (pid_t)r->pid != e->pid)
		return;
	e->complete = false;
	if (now < e->births_ns)
		return;
	if (e->births_ns + BIRTHS * BIRTH_NS < now)
		e->births_ns = now - BIRTHS * BIRTH_NS;
	e->births_ns += BIRTH_NS;
	open_thread(e, (pid_t)r->tid);
}

static void take_end(struct map_events *e, const struct task_record *r)
{
	size_t i;

	for (i = 0; i < e->n; i++)
		if (e->source[i].tid == (pid_t)r->tid)
			e->source[i].ended = true;
}

static bool has_departed(const struct map_events *e, uint32_t pid)
{
	return map64_get(&e->departed, pid);
}

static void note_departed(struct map_events *e, uint32_t pid, bool departed)
{
	if (e->departed.n > DEPARTED_MAX)
		map64_deinit(&e->departed);
	if (departed != has_departed(e, pid))
		map64_put(&e->departed, pid, departed ? e : NULL);
}

/* Both events of a task report a birth, one right after the other. */
static bool is_reported_again(struct source *s, const struct task_record *r, uint64_t time_ns)
{
	bool again = s->born == (pid_t)r->tid && time_ns - s->born_ns < SAME_NS;

	s->born = (pid_t)r->tid;
	s->born_ns = time_ns;
	return again;
}

/* What is reported of a process that is no longer watched: whom it gives birth to is to be known. */
static bool is_strangers(struct map_events *e, struct source *s, const struct map_event *what)
{
	const struct task_record *r = &e->task;

	if (e->header.type != PERF_RECORD_FORK)
		return has_departed(e, (uint32_t)what->pid) && e->header.type != PERF_RECORD_LOST;
	if (is_reported_again(s, r, what->time_ns))
		return true;
	if (r->pid != r->ppid)
		note_departed(e, r->pid, has_departed(e, r->ppid));
	return has_departed(e, r->pid);
}

/* False: the record is nobody's business but ours. */
static bool map_events_fill(struct map_events *e, struct map_event *ret)
{
	switch (e->header.type) {
	case PERF_RECORD_MMAP2:
		fill_code(&e->mmap2, ret->time_ns, ret);
		return true;
	case PERF_RECORD_FORK:
		take_birth(e, &e->task);
		ret->kind = MAP_EVENT_FORK;
		ret->pid = (pid_t)e->task.pid;
		ret->tid = (pid_t)e->task.tid;
		ret->parent = (pid_t)e->task.ppid;
		ret->parent_tid = (pid_t)e->task.ptid;
		return true;
	case PERF_RECORD_COMM:
		ret->kind = (e->header.misc & PERF_RECORD_MISC_COMM_EXEC) ? MAP_EVENT_EXEC : MAP_EVENT_NAME;
		ret->name = e->comm.name;
		if (ret->kind == MAP_EVENT_EXEC)
			note_departed(e, e->comm.pid, true);
		return true;
	case PERF_RECORD_LOST:
		e->complete = false;
		ret->kind = MAP_EVENT_LOST;
		return true;
	case PERF_RECORD_EXIT:
		take_end(e, &e->task);
		ret->kind = MAP_EVENT_END;
		ret->pid = (pid_t)e->task.pid;
		ret->tid = (pid_t)e->task.tid;
		return true;
	default:
		return false;
	}
}

bool map_events_next(struct map_events *e, struct map_event *ret)
{
	struct source *s;

	while ((s = oldest(e))) {
		struct perf_event_header h;
		struct trailer t;

		perf_ring_next(&s->ring, &h);
		perf_ring_copy(&s->ring, 0, e->record, h.size);
		perf_ring_skip(&s->ring, h.size);
		memcpy(&t, e->record + h.size - sizeof(t), sizeof(t));
		*ret = (struct map_event){ .time_ns = t.time_ns, .pid = (pid_t)t.pid, .tid = (pid_t)t.tid };
		if (!is_strangers(e, s, ret) && map_events_fill(e, ret))
			return true;
	}
	return false;
}
