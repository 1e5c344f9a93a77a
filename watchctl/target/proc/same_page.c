/*
 * Where else a page of shared memory is mapped: by its file and the place in it, which anonymous shared memory and that of
 * shmget(2) have as well (/proc/PID/maps names them).
 */
#include <string.h>

#include "watchctl/base/clock.h"
#include "watchctl/target/proc/proc.h"

#define PAGE 4096ull
#define LOOK_NS 200000000ull /* a machine may have very many processes */

struct page_search {
	pid_t pid;
	uint64_t addr, device, file, offset; /* of its page */
	uint64_t end_ns;
	bool found; /* in the process that is being looked at */
	struct same_page *ret;
};

static bool holds_page(const struct page_search *s, const struct proc_map *m)
{
	return m->shared && m->device == s->device && m->file == s->file && s->offset >= m->offset &&
	       s->offset - m->offset < m->end - m->start;
}

static bool look_here(void *ctx, const struct proc_map *m)
{
	struct page_search *s = ctx;
	uint64_t addr = m->start + (s->offset - m->offset) + s->addr % PAGE;

	if (holds_page(s, m) && addr != s->addr && s->ret->nhere < SAME_PAGE_PLACES)
		s->ret->here[s->ret->nhere++] = addr;
	return true;
}

static bool look_there(void *ctx, const struct proc_map *m)
{
	struct page_search *s = ctx;

	s->found = holds_page(s, m);
	return !s->found;
}

static bool same_page_look_at(void *ctx, pid_t pid)
{
	struct page_search *s = ctx;

	if (monotonic_ns() > s->end_ns) {
		s->ret->complete = false;
		return false;
	}
	if (pid == s->pid)
		return true;
	s->found = false;
	if (!proc_maps(pid, look_there, s))
		s->ret->complete = false;
	if (!s->found)
		return true;
	if (s->ret->nprocesses < SAME_PAGE_PLACES)
		s->ret->process[s->ret->nprocesses] = pid;
	s->ret->nprocesses++;
	return true;
}

bool proc_is_shared(pid_t pid, uint64_t addr)
{
	struct proc_map m;

	return proc_map_at(pid, addr, &m) && m.shared;
}

bool proc_same_page(pid_t pid, uint64_t addr, struct same_page *ret)
{
	struct page_search s = { .pid = pid, .addr = addr, .end_ns = monotonic_ns() + LOOK_NS, .ret = ret };
	struct proc_map m;

	*ret = (struct same_page){ .complete = true };
	if (!proc_map_at(pid, addr, &m) || !m.shared)
		return false;
	s.device = m.device;
	s.file = m.file;
	s.offset = m.offset + (addr - m.start) / PAGE * PAGE;
	if (!proc_maps(pid, look_here, &s))
		ret->complete = false;
	proc_each(same_page_look_at, &s);
	return true;
}
