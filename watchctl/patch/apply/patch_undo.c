/* The parts of patch_apply.h that take patches out. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/patch/apply/code_pages.h"
#include "watchctl/patch/apply/patch_apply_impl.h"
#include "watchctl/patch/apply/patch_threads.h"
#include "watchctl/patch/probe/probe_place.h"
#include "watchctl/target/proc/proc.h"

#define PATIENCE_NS 5000000000ull
#define PAUSE_NS 5000000
#define NONE 0xffffu
#define BATCH_PAGES 64u

static struct wc_error *set_switches(const struct probe_place *p, const struct patch_area_list *a,
				     uint64_t on)
{
	for (size_t i = 0; i < a->n; i++)
		if (!proc_write(p->pid, a->v[i].head.switch_at, &on, sizeof(on)))
			return wc_error_errno(WC_ETARGET, errno, "cannot write into process %d", p->pid);
	return NULL;
}

struct wc_error *patch_switch(const struct probe_place *p, uint64_t on)
{
	scoped(patch_areas_deinit) struct patch_area_list a = { 0 };

	return patch_areas_read(p, &a) ? set_switches(p, &a, on) : &wc_enomem;
}

/* Only our own bytes are replaced: what somebody has put in their place since is his. */
static void restore(const struct probe_place *p, struct code_pages *pages, struct probe_patch *q,
		    struct patch_undone *ret)
{
	uint8_t *now = code_pages_at(pages, q->addr);

	if (now && !memcmp(now, q->written, q->len)) {
		memcpy(now, q->original, q->len);
		code_pages_change(pages);
		ret->restored++;
		q->state = PROBE_PATCH_REMOVED;
	} else if (!now || !memcmp(now, q->original, q->len) || patch_has_gone(p, q)) {
		q->state = PROBE_PATCH_REMOVED; /* the module has gone, or it was never written */
	} else {
		ret->foreign++;
	}
}

/* Where the next piece of work begins, which is done while the threads stand once. */
struct progress {
	unsigned int pass; /* 0: what leads to way stations or trampolines; 1: way stations; 2: all is done */
	size_t area, patch;
};

static bool next_patch(const struct patch_area_list *a, struct progress *at)
{
	while (at->pass < 2) {
		if (at->area < a->n && at->patch < a->v[at->area].head.npatches)
			return true;
		at->patch = 0;
		if (at->area + 1 < a->n) {
			at->area++;
		} else {
			at->area = 0;
			at->pass++;
		}
	}
	return false;
}

/* Some pages' worth. Patches lie by address; those that cross a page were never written. */
static bool restore_some(const struct probe_place *p, struct patch_area_list *a, struct progress *at,
			 struct patch_undone *ret)
{
	struct code_pages pages = { .pid = p->pid };
	uint64_t page = 0;
	size_t count = 0;

	for (; next_patch(a, at); at->patch++) {
		struct probe_patch *q = &a->v[at->area].patch[at->patch];

		if ((q->moved == 0) != (at->pass == 1) || !patch_is_sound(q))
			continue;
		if (q->addr / PROBE_PAGE != page && ++count > BATCH_PAGES)
			break;
		page = q->addr / PROBE_PAGE;
		restore(p, &pages, q, ret);
	}
	return code_pages_flush(&pages);
}

static void note_states(const struct probe_place *p, const struct patch_area_list *a)
{
	for (size_t i = 0; i < a->n; i++)
		proc_write(p->pid, a->v[i].head.patch_at, a->v[i].patch,
			   a->v[i].head.npatches * sizeof(struct probe_patch));
}

static const struct probe_patch *patch_around(const struct patch_area_list *a, uint64_t pc)
{
	for (size_t i = 0; i < a->n; i++)
		for (size_t k = 0; k < a->v[i].head.npatches; k++) {
			const struct probe_patch *q = &a->v[i].patch[k];

			if (q->moved && pc >= q->trampoline && pc < q->trampoline_end)
				return q;
		}
	return NULL;
}

static bool starts_copy(const struct probe_patch *q, uint64_t pc, uint64_t *ret)
{
	for (unsigned int i = 0; i < PROBE_PATCH_MAX; i++)
		if (q->copy[i] != NONE && q->trampoline + q->copy[i] == pc) {
			*ret = q->addr + i;
			return true;
		}
	return false;
}

/* A thread that stands at a moved instruction goes on at the place that this came from, where the program's own bytes are again. */
static void move_out(struct tracee *t, const struct patch_area_list *a)
{
	const uint64_t rip = t->home.rip;
	const struct probe_patch *q = patch_around(a, rip - 1);
	uint64_t to;

	if (q && tracee_in_syscall(t) && starts_copy(q, rip - 2, &to)) {
		to += 2;
		tracee_move(t, to, &to); /* the kernel leaves in rcx where it goes on */
		return;
	}
	q = patch_around(a, rip);
	if (q && !tracee_in_syscall(t) && starts_copy(q, rip, &to))
		tracee_move(t, to, NULL);
}

static int by_start(const void *a, const void *b)
{
	const struct code_range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* The code of ours that a thread might be in. */
static size_t code_ranges(const struct probe_place *p, struct code_range *ret)
{
	size_t n = 0;

	ret[n++] = (struct code_range){ p->code, p->ring_at, false };
	for (uint32_t i = 0; i < p->nnear; i++)
		if (p->near[i].code_size && probe_place_owns(p, &p->near[i]))
			ret[n++] = (struct code_range){ p->near[i].start,
							p->near[i].start + p->near[i].code_size, false };
	qsort(ret, n, sizeof(*ret), by_start);
	return n;
}

static bool is_occupied(const struct stop_all *s, struct code_range *range, size_t n)
{
	for (size_t i = 0; i < s->n; i++)
		if (code_range_find(range, n, s->v[i].home.rip))
			return true;
	if (!patch_threads_look(s, range, n))
		return true;
	for (size_t i = 0; i < n; i++)
		if (range[i].found)
			return true;
	return false;
}

static struct wc_error *write_failed(const struct probe_place *p)
{
	return wc_error_errno(errno == EPERM || errno == EACCES ? WC_EPERM : WC_ETARGET, errno,
			      "cannot write into process %d", p->pid);
}

/* All bytes, in as many stops as it takes for none of them to be long. */
static struct wc_error *restore_all(struct probe_place *p, struct patch_area_list *a,
				    struct patch_undone *ret, struct patch_hold_times *times)
{
	struct progress at = { 0 };
	struct wc_error *err = NULL;
	struct stop_all s;

	ret->foreign = 0;
	while (!err && next_patch(a, &at)) {
		err = stop_all(p->pid, p->held, &s);
		if (err)
			return err;
		if (!restore_some(p, a, &at, ret))
			err = write_failed(p);
		patch_note_hold(times, stop_all_release(&s));
	}
	if (!err)
		note_states(p, a);
	return err;
}

/* Whether nobody is in our code any more; who stands at a moved instruction is led out. */
static struct wc_error *look_for_occupants(struct probe_place *p, struct patch_area_list *a,
					   struct patch_undone *ret, struct patch_hold_times *times)
{
	scoped(freep) struct code_range *range = calloc(p->nnear + 1, sizeof(*range));
	struct stop_all s;
	struct wc_error *err;
	size_t n;

	if (!range)
		return &wc_enomem;
	n = code_ranges(p, range);
	err = stop_all(p->pid, p->held, &s);
	if (err)
		return err;
	for (size_t i = 0; i < s.n; i++)
		if (code_range_find(range, n, s.v[i].home.rip))
			move_out(&s.v[i], a);
	ret->occupied = is_occupied(&s, range, n);
	patch_note_hold(times, stop_all_release(&s));
	return NULL;
}

struct wc_error *patch_undo(struct probe_place *p, struct patch_undone *ret, struct patch_hold_times *times)
{
	scoped(patch_areas_deinit) struct patch_area_list a = { 0 };
	uint64_t until = monotonic_ns() + PATIENCE_NS;
	struct wc_error *err;

	*ret = (struct patch_undone){ 0 };
	if (!patch_areas_read(p, &a))
		return &wc_enomem;
	err = set_switches(p, &a, 0);
	if (!err)
		err = restore_all(p, &a, ret, times);
	if (err || ret->foreign)
		return err;
	for (;;) {
		err = look_for_occupants(p, &a, ret, times);
		if (err || !ret->occupied || monotonic_ns() > until)
			return err;
		nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
	}
}
