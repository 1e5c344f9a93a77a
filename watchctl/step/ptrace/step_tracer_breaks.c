/*
 * The breakpoints: bytes of the program's code that hold int3 for a while. Which ones follows from what the
 * recording waits for at the moment; step_breaks_sync() makes it so, in few big reads and writes.
 *
 * The other bytes that such a write touches are written as they were read. That is safe where the program
 * cannot write itself; where it can (code that is made at run time), single bytes are written. One byte
 * changes at once for every CPU that fetches it, so nobody has to be stopped.
 *
 * The shared table is the guard's map: an entry says `planted` from before the byte is written until after it
 * is taken out.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/bisect.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/step/ptrace/step_tracer.h"
#include "watchctl/target/proc/proc.h"

#define INT3 0xccu
#define SPAN_MAX (256u << 10) /* bytes written at once */
#define SPAN_GAP 4096u	      /* further away from each other, they are written apart */

bool step_breaks_find(const struct step_tracer *k, uint64_t address, uint32_t *ret)
{
	uintptr_t n = (uintptr_t)map64_get(&k->by_address, address);

	if (!n)
		return false;
	*ret = (uint32_t)(n - 1);
	return true;
}

struct wc_error *step_breaks_add(struct step_tracer *k, uint64_t address, uint32_t use, uint32_t *ret)
{
	uint32_t n = k->box->nbreaks;

	if (step_breaks_find(k, address, ret)) {
		k->brk[*ret].use |= use;
		return NULL;
	}
	if (n == STEP_BREAKS_MAX)
		return wc_error_new(WC_ENOTSUP, "more than %u places to stop at: choose fewer functions",
				    STEP_BREAKS_MAX);
	if (!vec_reserve((void **)&k->brk, &k->brk_cap, n + 1u, sizeof(*k->brk)) ||
	    !map64_put(&k->by_address, address, (void *)(uintptr_t)(n + 1)))
		return &wc_enomem;
	k->brk[n] =
		(struct step_break){ .address = address, .use = use, .function = NO_POINT, .from = NO_POINT };
	k->breaks[n] = (struct box_break){ .address = address };
	__atomic_store_n(&k->box->nbreaks, n + 1, __ATOMIC_RELEASE);
	*ret = n;
	return NULL;
}

/* Which of them shall be there now */

static bool is_wanted(const struct step_tracer *k, const struct step_break *b)
{
	uint32_t wanted = BREAK_LOADER;

	if (!k->started || k->done || k->leaving || b->refused || (b->parked && b->use == BREAK_FUNCTION))
		return false;
	switch (k->range.state) {
	case RANGE_INSIDE:
		wanted |= BREAK_FUNCTION | BREAK_FROM | BREAK_TO | BREAK_RETURN | BREAK_HOME;
		break;
	case RANGE_SKIPPING:
		wanted |= BREAK_FROM | BREAK_TO | BREAK_RETURN;
		break;
	case RANGE_OUTSIDE:
		wanted |= BREAK_FROM;
		break;
	case RANGE_DONE:
		return false;
	}
	return b->use & wanted;
}

static void step_tracer_breaks_refuse(struct step_tracer *k, struct step_break *b, const char *why)
{
	b->refused = true;
	k->refused++;
	step_report_note(k, "no breakpoint at 0x%llx: %s", (unsigned long long)b->address, why);
}

/* In @bytes, which are the program's at @start. True: the byte has changed. */
static bool change(struct step_tracer *k, uint32_t n, bool plant, uint8_t *byte)
{
	struct step_break *b = &k->brk[n];
	struct box_break *shared = &k->breaks[n];

	if (plant) {
		if (*byte == INT3) {
			step_tracer_breaks_refuse(k, b, "the program itself or another tool has one there");
			return false;
		}
		if (b->prepared && b->move.bytes[0] != *byte)
			b->prepared = false;
		shared->original = *byte;
		shared->known = true;
		__atomic_store_n(&shared->planted, 1, __ATOMIC_RELEASE);
		*byte = INT3;
		return true;
	}
	if (*byte == INT3) {
		*byte = shared->original;
		return true;
	}
	step_report_note(
		k, "the code at 0x%llx was changed while a breakpoint was set there: it is left unchanged",
		(unsigned long long)b->address);
	return false;
}

static bool write_code(const struct step_tracer *k, uint64_t at, const void *bytes, size_t len)
{
	return pwrite(k->mem_fd, bytes, len, (off_t)at) == (ssize_t)len;
}

static bool read_code(const struct step_tracer *k, uint64_t at, void *bytes, size_t len)
{
	return pread(k->mem_fd, bytes, len, (off_t)at) == (ssize_t)len;
}

static void set_one(struct step_tracer *k, uint32_t n, bool plant)
{
	struct step_break *b = &k->brk[n];
	struct box_break *shared = &k->breaks[n];
	uint8_t byte;

	if (shared->planted == plant)
		return;
	if (!read_code(k, b->address, &byte, 1)) {
		shared->planted = 0; /* the mapping is gone, and the breakpoint with it */
		b->refused = true;
		return;
	}
	if (change(k, n, plant, &byte) && !write_code(k, b->address, &byte, 1)) {
		if (plant)
			step_tracer_breaks_refuse(k, b, strerror(errno));
		plant = false;
	}
	if (!plant)
		__atomic_store_n(&shared->planted, 0, __ATOMIC_RELEASE);
}

void step_breaks_set(struct step_tracer *k, uint32_t number)
{
	if (is_wanted(k, &k->brk[number]))
		set_one(k, number, true);
}

void step_breaks_clear(struct step_tracer *k, uint32_t number)
{
	set_one(k, number, false);
}

/* All at once */

static int by_address(const void *a, const void *b, void *ctx)
{
	const struct step_break *brk = ctx;
	uint64_t x = brk[*(const uint32_t *)a].address, y = brk[*(const uint32_t *)b].address;

	return x < y ? -1 : x > y;
}

static bool sort(struct step_tracer *k)
{
	uint32_t n = k->box->nbreaks, i;

	if (k->ordered == n)
		return true;
	if (!vec_reserve((void **)&k->order, &k->order_cap, n, sizeof(*k->order)))
		return false;
	for (i = 0; i < n; i++)
		k->order[i] = i;
	qsort_r(k->order, n, sizeof(*k->order), by_address, k->brk);
	k->ordered = n;
	return true;
}

static bool differs(const struct step_tracer *k, uint32_t n)
{
	return is_wanted(k, &k->brk[n]) != k->breaks[n].planted;
}

/* The bytes of order[first..last) have been written, or could not be. */
static void settle_span(struct step_tracer *k, uint32_t first, uint32_t last, bool written)
{
	uint32_t i;

	for (i = first; i < last; i++) {
		uint32_t n = k->order[i];
		bool changed = k->brk[n].changing;

		k->brk[n].changing = false;
		if (changed && is_wanted(k, &k->brk[n]) != written)
			__atomic_store_n(&k->breaks[n].planted, 0, __ATOMIC_RELEASE);
	}
}

/* order[first..last), some of which differ from what they shall be, lie close together. */
static bool sync_span(struct step_tracer *k, uint32_t first, uint32_t last, uint8_t *buf)
{
	uint64_t start = k->brk[k->order[first]].address, end = k->brk[k->order[last - 1]].address + 1;
	bool changed = false, written;
	uint32_t i;

	if (!read_code(k, start, buf, end - start))
		return false;
	for (i = first; i < last; i++) {
		uint32_t n = k->order[i];

		if (!differs(k, n))
			continue;
		k->brk[n].changing = true;
		changed |= change(k, n, !k->breaks[n].planted, buf + (k->brk[n].address - start));
	}
	written = !changed || write_code(k, start, buf, end - start);
	settle_span(k, first, last, written);
	return written;
}

static void sync_one_by_one(struct step_tracer *k, uint32_t first, uint32_t last)
{
	uint32_t i;

	for (i = first; i < last; i++)
		set_one(k, k->order[i], is_wanted(k, &k->brk[k->order[i]]));
}

void step_breaks_sync(struct step_tracer *k)
{
	scoped(freep) uint8_t *buf = malloc(SPAN_MAX);
	bool sorted = sort(k);
	uint32_t i, n = k->box->nbreaks;

	for (i = 0; i < n && !(buf && sorted); i++)
		set_one(k, i, is_wanted(k, &k->brk[i]));
	for (i = 0; i < n && buf && sorted;) {
		uint32_t first = i, last;
		uint64_t start = k->brk[k->order[i]].address, at = start;

		if (!differs(k, k->order[i])) {
			i++;
			continue;
		}
		for (last = ++i; i < n; i++) {
			const struct step_break *b = &k->brk[k->order[i]];

			if (b->address - at > SPAN_GAP || b->address - start >= SPAN_MAX)
				break;
			if (!differs(k, k->order[i]))
				continue;
			if (b->writable != k->brk[k->order[first]].writable)
				break;
			at = b->address;
			last = i + 1;
		}
		i = last;
		if (last - first == 1 || k->brk[k->order[first]].writable || !sync_span(k, first, last, buf))
			sync_one_by_one(k, first, last);
	}
}

/* Mappings */

static bool note_map(void *ctx, const struct proc_map *m)
{
	struct step_tracer *k = ctx;
	size_t low;

	if (!m->exec || !m->write)
		return true;
	low = BISECT(k->ordered, i, k->brk[k->order[i]].address < m->start);
	for (; low < k->ordered && k->brk[k->order[low]].address < m->end; low++)
		k->brk[k->order[low]].writable = true;
	return true;
}

void step_breaks_look_at_maps(struct step_tracer *k)
{
	if (sort(k))
		proc_maps(k->vm_tid, note_map, k);
}

void step_breaks_forget(struct step_tracer *k, uint64_t start, uint64_t end)
{
	uint32_t i;

	for (i = 0; i < k->box->nbreaks; i++) {
		struct step_break *b = &k->brk[i];

		if (b->address < start || b->address >= end)
			continue;
		b->use = 0;
		b->function = b->from = NO_POINT;
		b->refused = b->prepared = b->writable = false; /* another library may come to lie there */
		__atomic_store_n(&k->breaks[i].planted, 0, __ATOMIC_RELEASE);
	}
}

void step_breaks_forget_all(struct step_tracer *k)
{
	step_breaks_forget(k, 0, UINT64_MAX);
}

/* A child has a copy of the code as it was at some moment of the fork. */
static void clean_span(struct step_tracer *k, int fd, uint32_t first, uint32_t last, uint8_t *buf)
{
	uint64_t start = k->brk[k->order[first]].address, end = k->brk[k->order[last - 1]].address + 1;
	bool changed = false;
	uint32_t i;

	if (pread(fd, buf, end - start, (off_t)start) != (ssize_t)(end - start))
		return; /* unmapped since, in the parent as well */
	for (i = first; i < last; i++) {
		uint8_t *byte = buf + (k->brk[k->order[i]].address - start);

		if (*byte != INT3 || !k->breaks[k->order[i]].known)
			continue;
		*byte = k->breaks[k->order[i]].original;
		changed = true;
	}
	if (changed && pwrite(fd, buf, end - start, (off_t)start) < 0)
		return; /* it is being killed */
}

void step_breaks_clean_child(struct step_tracer *k, pid_t child)
{
	scoped(freep) uint8_t *buf = malloc(SPAN_MAX);
	uint32_t first = 0, last;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", child);
	scoped(closep) int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || !buf || !sort(k))
		return;
	while (first < k->ordered) {
		for (last = first; last < k->ordered; last++) {
			uint64_t address = k->brk[k->order[last]].address;

			/* Only as far as one mapping surely goes. */
			if (address / SPAN_GAP != k->brk[k->order[first]].address / SPAN_GAP)
				break;
		}
		clean_span(k, fd, first, last, buf);
		first = last;
	}
}
