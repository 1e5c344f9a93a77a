/* The parts of patch_apply.h that read what stands in a program about patches: our own, and others'. */
#include <errno.h>
#include <stdlib.h>

#include "watchctl/base/bisect.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/vec.h"
#include "watchctl/patch/apply/patch_apply_impl.h"
#include "watchctl/patch/probe/probe_place.h"
#include "watchctl/target/proc/proc.h"

#define PATCHES_MAX 4000000u /* more than any area has */

void patch_areas_deinit(struct patch_area_list *a)
{
	for (size_t i = 0; i < a->n; i++)
		free(a->v[i].patch);
	free(a->v);
	*a = (struct patch_area_list){ 0 };
}

/* A count that cannot be is none. */
static bool is_sound(const struct probe_place *p, const struct probe_range *r, const struct probe_near *n)
{
	const uint64_t data = r->start + r->code_size, end = data + r->data_size;

	return n->magic == PROBE_NEAR_MAGIC && n->cookie == p->cookie && n->npatches <= PATCHES_MAX &&
	       n->switch_at >= data && n->switch_at + sizeof(struct probe_switch) <= end &&
	       n->patch_at >= data && n->patch_at <= end &&
	       n->npatches * sizeof(struct probe_patch) <= end - n->patch_at;
}

bool patch_area_read(const struct probe_place *p, const struct probe_range *range, struct patch_area *ret)
{
	const struct memory_view mem = proc_memory(&p->pid);
	struct patch_area a = { .range = range };

	errno = 0;
	if (!range->data_size ||
	    !memory_read(&mem, range->start + range->code_size, &a.head, sizeof(a.head)) ||
	    !is_sound(p, range, &a.head))
		return false;
	a.patch = calloc(a.head.npatches + 1, sizeof(*a.patch));
	if (!a.patch)
		return false;
	if (!memory_read(&mem, a.head.patch_at, a.patch, a.head.npatches * sizeof(*a.patch)))
		a.head.npatches = 0;
	*ret = a;
	return true;
}

bool patch_areas_read(const struct probe_place *p, struct patch_area_list *ret)
{
	for (uint32_t i = 0; i < p->nnear; i++) {
		struct patch_area a;

		if (!patch_area_read(p, &p->near[i], &a)) {
			if (errno == ENOMEM)
				return false;
			continue;
		}
		if (!vec_push(ret->v, ret->n, ret->cap, a)) {
			free(a.patch);
			return false;
		}
	}
	return true;
}

/* A page with a patch is a copy of its file's page, which only this process has; no new mapping has one. */
bool patch_has_gone(const struct probe_place *p, const struct probe_patch *q)
{
	uint64_t page;

	errno = 0;
	if (!proc_pagemap(p->pid, q->addr, &page, 1))
		return false;
	return !(page & PROC_PAGE_PRESENT_OR_SWAPPED) || (page & PROC_PAGE_OF_FILE);
}

bool patch_is_sound(const struct probe_patch *q)
{
	return q->len && q->len + q->tail <= PROBE_PATCH_MAX &&
	       (q->state == PROBE_PATCH_WRITING || q->state == PROBE_PATCH_DONE);
}

/* Others */

static uint64_t end_of(const struct probe_patch *q)
{
	return q->addr + q->len + q->tail;
}

/* Where one ends in bytes that the other writes. What both would write is known by the bytes. */
static bool disturb(const struct probe_patch *a, const struct probe_patch *b)
{
	return (a->addr + a->len < b->addr + b->len && end_of(a) > b->addr && a->tail) ||
	       (b->addr + b->len < a->addr + a->len && end_of(b) > a->addr && b->tail);
}

static bool meet(const struct probe_patch *a, const struct probe_patch *b)
{
	return a->addr < end_of(b) && b->addr < end_of(a);
}

/* No patch is longer than PROBE_PATCH_MAX: those that could meet @q are close to each other. */
static void heed(const struct probe_patch *q, struct patch_job *job, size_t n)
{
	size_t low = BISECT(n, i, job[i].patch.addr + PROBE_PATCH_MAX <= q->addr);
	for (; low < n && job[low].patch.addr < end_of(q); low++)
		if ((job[low].result == PATCH_IN_USE && disturb(q, &job[low].patch)) ||
		    (job[low].result == PATCH_CHANGED && meet(q, &job[low].patch)))
			job[low].result = PATCH_NEEDED;
}

struct wc_error *patch_heed_others(const struct probe_place *p, struct patch_job *job, size_t n)
{
	scoped(probe_homes_deinit) struct probe_homes homes = { 0 };
	struct wc_error *err = probe_homes_find(p->pid, &homes);

	for (size_t i = 0; i < homes.n && !err; i++) {
		scoped(patch_areas_deinit) struct patch_area_list a = { 0 };

		if (homes.v[i].place.cookie == p->cookie)
			continue;
		if (!patch_areas_read(&homes.v[i].place, &a))
			return &wc_enomem;
		for (size_t k = 0; k < a.n; k++)
			for (size_t m = 0; m < a.v[k].head.npatches; m++)
				if (patch_is_sound(&a.v[k].patch[m]))
					heed(&a.v[k].patch[m], job, n);
	}
	return err;
}
