/* Room for the trampolines of punned jumps: each in the range of addresses that its own jump reaches. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/vec.h"
#include "watchctl/monitor/patch/patch_areas_impl.h"
#include "watchctl/patch/plan/free_space.h"
#include "watchctl/patch/probe/probe_place.h"
#include "watchctl/patch/plan/pun_room.h"
#include "watchctl/target/proc/proc.h"

/* Pages in a program, all modules together: 12 MiB, and as much again for the tables that map them, should each lie alone. */
#define PAGES_MAX 3072u

#define MAPPINGS_DEFAULT 65530u

struct puns {
	struct area_work *work;
	struct pun_want *want;
	size_t n, cap;
	struct pun_areas areas;
	struct probe_range *range; /* of each area */
};

static void puns_deinit(struct puns *p)
{
	free(p->want);
	free(p->range);
	pun_areas_deinit(&p->areas);
}

static size_t mappings_max(void)
{
	scoped(fclosep) FILE *f = fopen("/proc/sys/vm/max_map_count", "re");
	unsigned int n;

	return f && fscanf(f, "%u", &n) == 1 ? n : MAPPINGS_DEFAULT;
}

static size_t pages_had(const struct probe_place *p)
{
	size_t n = 0;

	for (uint32_t i = 0; i < p->nnear; i++)
		if (probe_range_is_puns(&p->near[i]))
			n += p->near[i].code_size / PROBE_PAGE;
	return n;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* A page may take a mapping and a range: at most half of the mappings that there may be are ever used, the program's own included. */
static size_t pages_left(const struct area_work *w, const struct free_space *f)
{
	const struct probe_place *p = &w->session->place;
	const size_t had = pages_had(p), half = mappings_max() / 2;

	return least(had < PAGES_MAX ? PAGES_MAX - had : 0,
		     least(f->mappings < half ? half - f->mappings : 0, probe_place_left(p) / 2));
}

/* How long each trampoline is does not depend on where it lies. */
static bool collect(struct puns *p)
{
	struct area_work *w = p->work;

	for (size_t g = 0; g < w->groups.n; g++) {
		struct pun_want now = { .group = g };

		if (!w->groups.v[g].tail || !w->code[g].len)
			continue;
		patch_group_reach(&w->groups.v[g], w->plan.module->module.bias, &now.low, &now.high);
		now.len = (uint32_t)w->code[g].len;
		if (!vec_push(p->want, p->n, p->cap, now))
			return false;
	}
	return true;
}

static struct wc_error *find_room(struct puns *p)
{
	const pid_t pid = p->work->session->pid;
	scoped(free_space_deinit) struct free_space f = { 0 };

	if (!free_space_read(pid, &f))
		return wc_error_errno(WC_ETARGET, errno, "cannot read the mappings of process %d", pid);
	if (!pun_room_make(p->want, p->n, &f, pages_left(p->work, &f), &p->areas))
		return &wc_enomem;
	p->range = calloc(p->areas.n + 1, sizeof(*p->range));
	if (!p->range)
		return &wc_enomem;
	for (size_t i = 0; i < p->areas.n; i++)
		p->range[i] = (struct probe_range){ p->areas.v[i].start, (uint32_t)p->areas.v[i].size, 0 };
	return NULL;
}

static void refuse_want(const struct puns *p, const struct pun_want *want)
{
	struct area_work *w = p->work;

	w->code[want->group].len = 0;
	area_refuse_group(w, &w->groups.v[want->group],
			  want->limited
				  ? "a punned jump would do, but too much memory has been taken for others"
				  : "a punned jump would do, but where it could lead nothing is free");
}

/* The trampolines of one area, from *@next on. */
static void fill(struct puns *p, size_t area, size_t *next, uint8_t *bytes)
{
	const struct pun_area *a = &p->areas.v[area];
	const struct probe_pun_head head = { PROBE_PUN_MAGIC, p->work->session->place.cookie };

	_Static_assert(sizeof(head) <= PUN_HEAD, "the head has its place");
	memset(bytes, 0, a->size);
	memcpy(bytes, &head, sizeof(head));
	for (; *next < p->n && p->want[*next].at < a->start + a->size; (*next)++) {
		struct pun_want *want = &p->want[*next];
		const struct made_trampoline *t = &p->work->code[want->group];

		if (!p->range[area].code_size) {
			refuse_want(p, want);
			continue;
		}
		p->work->at[want->group] = want->at;
		if (area_make_trampoline(p->work, want->group, want->at))
			memcpy(bytes + (want->at - a->start), t->code, t->len);
	}
}

static struct wc_error *write_area(struct puns *p, size_t area, size_t *next)
{
	scoped(freep) uint8_t *bytes = malloc(p->areas.v[area].size);
	const pid_t pid = p->work->session->pid;

	if (!bytes)
		return &wc_enomem;
	fill(p, area, next, bytes);
	if (p->range[area].code_size &&
	    !proc_write_force(pid, p->range[area].start, bytes, p->range[area].code_size))
		return wc_error_errno(errno == EPERM || errno == EACCES ? WC_EPERM : WC_ETARGET, errno,
				      "cannot write into process %d", pid);
	return NULL;
}

struct wc_error *area_place_puns(struct area_work *w)
{
	scoped(puns_deinit) struct puns p = { .work = w };
	struct wc_error *err;
	size_t next = 0;

	if (!collect(&p))
		return &wc_enomem;
	if (!p.n)
		return NULL;
	err = find_room(&p);
	if (!err)
		err = probe_place_puns(&w->session->place, p.range, p.areas.n);
	for (; next < p.n && !p.want[next].at; next++)
		refuse_want(&p, &p.want[next]);
	for (size_t i = 0; i < p.areas.n && !err; i++)
		err = write_area(&p, i, &next);
	return err;
}
