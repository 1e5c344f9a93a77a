/*
 * Where it is looked for, the best first:
 *
 * 1. The lowest pages of the main stack, if nobody ever touched them, or only we did: they bear our mark, and
 *    nothing else is in them.
 * 2. The same pages with whatever in them, where the main thread is known to be on that stack and far
 *    above: what lies below a stack pointer is dead. A thread that waits in a system call reports its stack
 *    pointer without being stopped.
 * 3. Below the stack pointer of the thread itself: of the main thread on the main stack; of another one on
 *    the stack that its C library made for it, where that has never been deeper.
 *
 * What decides is read before it is used: the main thread may run on meanwhile, and get a hundred kilobytes
 * deeper within that time. That risk is there since the first of these rules, and cannot be had smaller
 * without stopping it, too.
 */
#include "watchctl/target/inject/scratch.h"

#include <string.h>
#include <unistd.h>

#include "watchctl/base/hash.h"
#include "watchctl/target/proc/proc.h"

#define PAGE 4096u
#define PAGES (SCRATCH_SIZE / PAGE)
#define RED_ZONE 128u
#define PIECES 4u			/* several watchctls may come at the same time */
#define CHAIN 32u			/* bytes of words below the frame */
#define WRITTEN (SCRATCH_FRAME - CHAIN) /* from here on */
#define SCRATCH_BYTES (SCRATCH_FRAME + TRACEE_FRAME_MAX + 128u + TRACEE_DETOUR_FRAME)
#define MARK_MAGIC 0x9e5f0e1ac5a1f6d4ull

struct mark {
	uint64_t magic;
	uint64_t owner_start; /* with the pid, who uses it */
	uint64_t hash;	      /* of @len bytes from WRITTEN on */
	uint32_t owner, len;  /* owner 0: nobody */
	uint64_t thread_start;
	uint32_t thread, pad; /* who is led through it */
};

_Static_assert(SCRATCH_BYTES <= SCRATCH_SIZE, "frame and detour fit");
_Static_assert(sizeof(struct mark) <= SCRATCH_DATA && SCRATCH_DATA + 32 <= SCRATCH_FRAME - CHAIN,
	       "mark, data, words and frame do not overlap");

struct main_stack {
	uint64_t start, end;
	uint64_t sp; /* the main thread's; 0: not known, or on another stack */
	bool untouched[PIECES];
};

/* None of the pages of a piece was ever touched: nobody's data can be there. */
static bool none_touched(const uint64_t entry[PAGES])
{
	size_t i;

	for (i = 0; i < PAGES; i++)
		if (entry[i] & PROC_PAGE_PRESENT_OR_SWAPPED)
			return false;
	return true;
}

static bool untouched(pid_t pid, uint64_t addr)
{
	uint64_t entry[PAGES];

	return proc_pagemap(pid, addr, entry, PAGES) && none_touched(entry);
}

static void look_at_main_stack(const struct tracee *t, const struct layout *l, struct main_stack *ret)
{
	uint64_t entry[PIECES][PAGES], sp = 0, pc;
	unsigned int i;

	*ret = (struct main_stack){ 0 };
	layout_main_stack(l, &ret->start, &ret->end);
	if (t->tid == t->pid)
		sp = t->home.rsp;
	else if (!proc_resting(t->pid, t->pid, &sp, &pc))
		sp = 0;
	if (sp >= ret->start && sp < ret->end)
		ret->sp = sp;
	if (proc_pagemap(t->pid, ret->start, entry[0], PIECES * PAGES))
		for (i = 0; i < PIECES; i++)
			ret->untouched[i] = none_touched(entry[i]);
}

static bool all_zero(const uint8_t *p, size_t n)
{
	while (n--)
		if (*p++)
			return false;
	return true;
}

static bool read_mark(pid_t pid, uint64_t addr, struct mark *ret)
{
	struct memory_view mem = proc_memory(&pid);

	return memory_read(&mem, addr, ret, sizeof(*ret)) && ret->magic == MARK_MAGIC;
}

static bool owner_lives(const struct mark *m)
{
	return m->owner && proc_lives((pid_t)m->owner, m->owner_start);
}

/* A child that was forked has its parent's marks, and none of the threads. */
static bool may_run_there(pid_t pid, const struct mark *m)
{
	struct thread_ids sharers;
	bool may;

	if (proc_start_time((pid_t)m->thread) != m->thread_start)
		return false;
	if (proc_is_thread_of(pid, (pid_t)m->thread))
		return true;
	proc_sharers(pid, &sharers);
	may = sharers.n;
	thread_ids_deinit(&sharers);
	return may;
}

/*
 * Whose owner was killed while it led a thread through this piece: the thread goes home by itself, as soon as
 * it gets a CPU, and needs what is there until then.
 */
static bool is_left_in_use(const struct tracee *t, uint64_t addr, const struct mark *m)
{
	uint64_t sp, pc;

	if (!m->owner || owner_lives(m) || !may_run_there(t->pid, m))
		return false;
	if ((pid_t)m->thread == t->tid)
		sp = t->home.rsp;
	else if (!proc_resting(t->pid, (pid_t)m->thread, &sp, &pc))
		return true; /* only a stop could say */
	return sp - addr < SCRATCH_SIZE;
}

/* The first thread that is not home, or not seen to be; 0: all are. */
static pid_t who_is_away(const struct tracee *t, const struct main_stack *s)
{
	struct mark m;
	unsigned int i;

	for (i = 0; i < PIECES && s->start + (i + 2) * SCRATCH_SIZE <= s->end; i++) {
		uint64_t at = s->start + i * SCRATCH_SIZE;

		if (!s->untouched[i] && read_mark(t->pid, at, &m) && is_left_in_use(t, at, &m))
			return (pid_t)m.thread;
	}
	return 0;
}

/* Our mark is there, its owner does not live, and nothing is there but what it wrote. */
static bool only_ours(pid_t pid, uint64_t addr)
{
	struct memory_view mem = proc_memory(&pid);
	uint8_t bytes[SCRATCH_SIZE];
	struct mark m;

	if (!read_mark(pid, addr, &m) || m.len > sizeof(bytes) - WRITTEN ||
	    !memory_read(&mem, addr, bytes, sizeof(bytes)) || owner_lives(&m))
		return false;
	return all_zero(bytes + sizeof(m), SCRATCH_DATA - sizeof(m)) &&
	       hash_bytes(HASH_START, bytes + WRITTEN, m.len) == m.hash &&
	       all_zero(bytes + WRITTEN + m.len, sizeof(bytes) - WRITTEN - m.len);
}

/* Another watchctl has something there at this moment. */
static bool in_use(pid_t pid, uint64_t addr)
{
	struct mark m;

	return read_mark(pid, addr, &m) && owner_lives(&m);
}

static bool lowest_pages(const struct tracee *t, const struct main_stack *s, uint64_t *ret)
{
	bool found = false;
	unsigned int i;

	for (i = 0; i < PIECES && s->start + (i + 2) * SCRATCH_SIZE <= s->end; i++) {
		uint64_t at = s->start + i * SCRATCH_SIZE;

		if (s->sp && s->sp < at + 2 * SCRATCH_SIZE)
			break;
		if (s->untouched[i] || only_ours(t->pid, at)) {
			*ret = at;
			return true;
		}
		if (!found && s->sp && !in_use(t->pid, at)) {
			*ret = at;
			found = true;
		}
	}
	return found;
}

static bool below_own_pointer(const struct tracee *t, const struct layout *l, const struct main_stack *s,
			      uint64_t *ret)
{
	uint64_t at = (t->home.rsp - RED_ZONE - SCRATCH_SIZE) & ~63ull, start;

	if (t->tid == t->pid && s->sp && at >= s->start) {
		*ret = at;
		return true;
	}
	/* Pages that nobody touched, directly below: no neighbour's stack begins there. */
	at = (t->home.rsp - RED_ZONE) / PAGE * PAGE - SCRATCH_SIZE;
	if (!layout_thread_stack(l, t->home.rsp, t->home.fs_base, &start) || at < start + SCRATCH_SIZE)
		return false;
	*ret = at;
	return untouched(t->pid, at);
}

bool scratch_find(const struct tracee *t, const struct layout *l, uint64_t *ret, pid_t *ret_away)
{
	struct main_stack s;

	look_at_main_stack(t, l, &s);
	*ret_away = who_is_away(t, &s);
	if (*ret_away)
		return false;
	return lowest_pages(t, &s, ret) || below_own_pointer(t, l, &s, ret);
}

static bool is_mine(const struct mark *m)
{
	return m->owner == (uint32_t)getpid() && m->owner_start == proc_own_start_time();
}

/* All in one write, so that no kill leaves a part of it. */
bool scratch_write(const struct tracee *t, uint64_t at, const uint64_t *word, unsigned int n,
		   const uint8_t *detour)
{
	uint64_t second = scratch_detour(t, at) - at;
	uint8_t bytes[SCRATCH_BYTES] = { 0 };
	struct mark m = { .magic = MARK_MAGIC,
			  .owner = (uint32_t)getpid(),
			  .len = CHAIN + (uint32_t)t->frame_len,
			  .thread = (uint32_t)t->tid,
			  .thread_start = proc_start_time(t->tid) };

	memcpy(bytes + SCRATCH_FRAME - 8 * n, word, 8 * n);
	memcpy(bytes + SCRATCH_FRAME, t->frame, t->frame_len);
	if (detour) {
		memcpy(bytes + second - 8 * n, word, 8 * n);
		memcpy(bytes + second, detour, TRACEE_DETOUR_FRAME);
		m.len = (uint32_t)(second + TRACEE_DETOUR_FRAME - WRITTEN);
	}
	m.owner_start = proc_own_start_time();
	m.hash = hash_bytes(HASH_START, bytes + WRITTEN, m.len);
	memcpy(bytes, &m, sizeof(m));
	return !in_use(t->pid, at) && proc_write(t->pid, at, bytes, WRITTEN + m.len) &&
	       read_mark(t->pid, at, &m) && is_mine(&m);
}

void scratch_give_back(const struct tracee *t, uint64_t at)
{
	static const uint8_t zero[SCRATCH_BYTES];
	const struct mark nobodys = { .magic = MARK_MAGIC, .hash = HASH_START };
	struct mark m;

	if (!read_mark(t->pid, at, &m) || !is_mine(&m) || m.len > sizeof(zero) - WRITTEN)
		return;
	proc_write(t->pid, at + sizeof(m), zero, WRITTEN - sizeof(m) + m.len);
	proc_write(t->pid, at, &nobodys, sizeof(nobodys));
}

uint64_t scratch_end(pid_t pid, uint64_t start)
{
	uint64_t end = start;
	struct mark m;
	unsigned int i;

	for (i = 0; i < PIECES; i++) {
		uint64_t at = start + i * SCRATCH_SIZE;

		if (!untouched(pid, at) && read_mark(pid, at, &m)) /* a look would touch it */
			end = at + SCRATCH_SIZE;
	}
	return end;
}
