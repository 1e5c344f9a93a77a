/* A module's sites: made into trampolines in an area near it, applied. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/elf/elf_mark.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/insn/insn_scan.h"
#include "watchctl/monitor/patch/patch_areas_impl.h"
#include "watchctl/patch/plan/code_map.h"
#include "watchctl/patch/plan/free_space.h"
#include "watchctl/patch/apply/patch_apply.h"
#include "watchctl/patch/plan/patch_group.h"
#include "watchctl/patch/plan/patch_module.h"
#include "watchctl/patch/plan/patch_plan.h"
#include "watchctl/patch/plan/patch_tactic.h"
#include "watchctl/patch/probe/probe_image.h"
#include "watchctl/patch/probe/probe_operands.h"
#include "watchctl/patch/probe/probe_place.h"
#include "watchctl/patch/plan/trampoline.h"
#include "watchctl/target/proc/proc.h"

#define REACH 0x7ff00000ull /* of a displacement of 32 bits, less what instructions and trampolines add */
#define AREA_TRIES 8u

void area_work_deinit(struct area_work *w)
{
	for (size_t g = 0; w->code && g < w->groups.n; g++)
		free(w->code[g].code);
	patch_groups_deinit(&w->groups);
	module_plan_deinit(&w->plan);
	free(w->id);
	free(w->mark);
	free(w->code);
	free(w->at);
	free(w->probe_site);
	free(w->job);
}

/* Planning */

bool area_take_site(struct area_work *w, const struct patch_site *site)
{
	const struct patch_taker *taker = w->session->options.taker;
	uint32_t mark = 0;

	if (taker && !taker->wants(taker->ctx, site, &mark))
		return true;
	if (!vec_reserve((void **)&w->mark, &w->mark_cap, w->plan.n + 1, sizeof(*w->mark)))
		return false;
	w->mark[w->plan.n] = mark;
	return module_plan_keep(&w->plan, site);
}

/* It is an endbr64, which stays in front of the patch. */
static bool is_in_front(const struct patch_site *s)
{
	return s->choice.len && s->addr < s->choice.start;
}

/* The site's own instruction, of what was copied from where its patch begins. */
static void know_insn(const struct area_work *w, size_t i, struct session_site *ret)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	const struct patch_site *s = &w->plan.site[i];
	uint64_t from = s->addr - (s->choice.len ? s->choice.start : s->addr);
	struct insn_brief insn;

	if (is_in_front(s)) {
		ret->ninsn = sizeof(endbr64);
		memcpy(ret->insn, endbr64, sizeof(endbr64));
		return;
	}
	if (from >= PATCH_SITE_BYTES ||
	    !insn_scan(w->plan.site[i].bytes + from, PATCH_SITE_BYTES - from, s->addr, &insn) ||
	    insn.len > sizeof(ret->insn))
		return;
	ret->ninsn = insn.len;
	memcpy(ret->insn, w->plan.site[i].bytes + from, insn.len);
}

/* @why: static. */
static void refuse(struct session_site *s, const char *why)
{
	s->tactic = PROBE_TACTIC_REFUSED;
	snprintf(s->why, sizeof(s->why), "%s", why);
	s->why_short = why;
}

/* The short reason stays that of the choice: why no jump would do. */
static void refuse_trap(struct session_site *s, const struct tactic_choice *c)
{
	refuse(s, "only a trap would do, which is not set");
	s->why_short = tactic_why_short(c->why);
}

bool area_add_sites(struct area_work *w, const char *refusal)
{
	struct patch_session *s = w->session;

	w->id = calloc(w->plan.n + 1, sizeof(*w->id));
	if (!w->id)
		return false;
	for (size_t i = 0; i < w->plan.n; i++) {
		const struct patch_site *site = &w->plan.site[i];
		struct session_site now = { .ip = w->plan.module->module.bias + site->addr,
					    .mark = w->mark[i],
					    .rule = (unsigned int)(site->pattern - s->options.query->pattern),
					    .tactic = (enum probe_tactic)site->choice.tactic };

		tactic_why_text(&site->choice, now.why, sizeof(now.why));
		now.why_short = tactic_why_short(site->choice.why);
		know_insn(w, i, &now);
		if (refusal)
			refuse(&now, refusal);
		else if (is_in_front(site) && s->options.rule[now.rule].when == PROBE_IN_PLACE)
			refuse(&now, "endbr64 must stay where it is");
		else if (site->choice.tactic == TACTIC_TRAP)
			refuse_trap(&now, &site->choice);
		else if (s->nsites >= s->place.counters)
			refuse(&now, "there are too many sites");
		w->id[i] = s->nsites;
		if (!vec_push(s->site, s->nsites, s->site_cap, now))
			return false;
	}
	return true;
}

_Static_assert((int)PROBE_TACTIC_JUMP == TACTIC_JUMP && (int)PROBE_TACTIC_PADDING == TACTIC_PADDING &&
		       (int)PROBE_TACTIC_NOP == TACTIC_NOP && (int)PROBE_TACTIC_PUN == TACTIC_PUN &&
		       (int)PROBE_TACTIC_TRAP == TACTIC_TRAP && (int)PROBE_TACTIC_REFUSED == TACTIC_REFUSED,
	       "the plan's tactics are the log's");

/* Making */

static bool group_is_refused(const struct area_work *w, const struct patch_group *g)
{
	for (size_t i = g->first_site; i < g->first_site + g->nsites; i++)
		if (w->session->site[w->id[i]].tactic == PROBE_TACTIC_REFUSED)
			return true;
	return false;
}

void area_refuse_group(const struct area_work *w, const struct patch_group *g, const char *why)
{
	for (size_t i = g->first_site; i < g->first_site + g->nsites; i++)
		refuse(&w->session->site[w->id[i]], why);
}

static enum trampoline_when when_of(enum probe_when when)
{
	return when == PROBE_AFTER_IT	? PROBE_RUNS_AFTER
	       : when == PROBE_IN_PLACE ? PROBE_RUNS_INSTEAD
					: PROBE_RUNS_BEFORE;
}

static enum trampoline_error make_one(const struct area_work *w, size_t g, uint64_t at,
				      struct trampoline *ret)
{
	const struct patch_group *group = &w->groups.v[g];
	const struct probe_place *p = &w->session->place;
	struct trampoline_probe probe[TRAMPOLINE_INSNS];
	struct trampoline_record record;
	struct trampoline_request q = { .addr = w->plan.module->module.bias + group->start,
					.bytes = w->plan.site[group->first_site].bytes,
					.moved = group->moved,
					.len = group->len,
					.probe = probe,
					.nprobes = group->nsites,
					.at = at,
					.switch_at = w->switch_at,
					.entry_at = w->near + offsetof(struct probe_near, entry) };

	if (group->nsites > TRAMPOLINE_INSNS || group->moved > PATCH_SITE_BYTES)
		return TRAMPOLINE_TOO_LONG;
	/* A punned jump has little room for what it leads to. */
	if (p->calls && p->shared->tid_at && !group->tail) {
		record = (struct trampoline_record){ p->shared->tid_at,
						     call_chunk_span(p->calls->chunk_bytes) };
		q.record = &record;
	}
	for (size_t i = 0; i < group->nsites; i++) {
		size_t k = group->first_site + i;

		probe[i] = (struct trampoline_probe){
			.offset = is_in_front(&w->plan.site[k])
					  ? 0
					  : (uint16_t)(w->plan.site[k].addr - group->start),
			.when = is_in_front(&w->plan.site[k])
					? PROBE_RUNS_BEFORE
					: when_of(w->session->options.rule[w->session->site[w->id[k]].rule]
							  .when),
			.site = w->site_at + k * sizeof(struct probe_site),
			.id = (uint32_t)w->id[k],
		};
	}
	return trampoline_make(&q, ret);
}

static bool keep(struct area_work *w, size_t g, const struct trampoline *t)
{
	struct made_trampoline *m = &w->code[g];
	uint8_t *code = realloc(m->code, t->len);

	m->len = code ? t->len : 0;
	w->failed |= !code;
	if (!code)
		return false;
	m->code = code;
	memcpy(code, t->code, t->len);
	memcpy(m->copy, t->copy, sizeof(m->copy));
	memcpy(m->enter, t->enter, sizeof(m->enter));
	return true;
}

bool area_make_trampoline(struct area_work *w, size_t g, uint64_t at)
{
	struct trampoline t;
	enum trampoline_error e = make_one(w, g, at, &t);

	w->at[g] = at;
	if (e == TRAMPOLINE_OK)
		return keep(w, g, &t);
	w->code[g].len = 0;
	area_refuse_group(w, &w->groups.v[g], trampoline_error_text(e));
	return false;
}

/* One of a punned jump, for its length; where it will lie is found out later. */
static bool make_pun(struct area_work *w, size_t g)
{
	uint64_t low, high;

	if (patch_group_reach(&w->groups.v[g], w->plan.module->module.bias, &low, &high))
		return area_make_trampoline(w, g, low);
	area_refuse_group(w, &w->groups.v[g], "a punned jump would lead to where no program is");
	return false;
}

/* All trampolines, of those near the module from @range.start on. *@used: bytes that these take. False: there are none at all. */
static bool make_all(struct area_work *w, uint64_t *used)
{
	uint64_t at = w->range.start;
	bool any = false;

	for (size_t g = 0; g < w->groups.n; g++) {
		w->code[g].len = 0;
		if (group_is_refused(w, &w->groups.v[g]))
			continue;
		if (w->groups.v[g].tail) {
			any |= make_pun(w, g);
		} else if (area_make_trampoline(w, g, at)) {
			at += (w->code[g].len + TRAMPOLINE_ALIGN - 1) / TRAMPOLINE_ALIGN * TRAMPOLINE_ALIGN;
			any = true;
		}
	}
	*used = at - w->range.start;
	return any;
}

static uint64_t pages(uint64_t bytes)
{
	return (bytes + PROBE_PAGE - 1) / PROBE_PAGE * PROBE_PAGE;
}

/* More than they can take: what a probe, a moved instruction and the end of a trampoline need. */
static uint64_t code_estimate(const struct area_work *w)
{
	const uint64_t each = w->session->place.calls ? 256 : 64;
	uint64_t bytes = 1;

	for (size_t g = 0; g < w->groups.n; g++)
		if (!w->groups.v[g].tail)
			bytes += each * w->groups.v[g].nsites + 64 * w->groups.v[g].nmoved + 64;
	return pages(bytes);
}

static void lay_out(struct area_work *w, uint64_t start, uint64_t code_size)
{
	const uint64_t sites = w->plan.n * sizeof(struct probe_site);
	const uint64_t patches = 2 * w->groups.n * sizeof(struct probe_patch);

	w->range = (struct probe_range){ start, (uint32_t)code_size,
					 (uint32_t)(2 * PROBE_PAGE + pages(sites + patches)) };
	w->near = start + code_size;
	w->switch_at = w->near + PROBE_PAGE;
	w->site_at = w->near + 2 * PROBE_PAGE;
	w->patch_at = w->site_at + sites;
}

static bool find_room(struct area_work *w)
{
	const struct module *m = &w->plan.module->module;
	uint64_t low = m->end > REACH ? m->end - REACH : 0, high = m->start + REACH;
	uint64_t code = code_estimate(w), start;
	scoped(free_space_deinit) struct free_space f = { 0 };

	lay_out(w, 0, code);
	if (!free_space_read(w->session->pid, &f) ||
	    !free_space_find(&f, low, high, code + w->range.data_size, &start))
		return false;
	lay_out(w, start, code);
	return true;
}

/* Filling */

const struct probe_function *session_function(const struct patch_session *s, unsigned int rule)
{
	const char *name = s->options.rule[rule].function;

	return name ? probe_image_function(s->options.image, name) : &s->options.image->function[0];
}

static void fill_site(const struct area_work *w, size_t i)
{
	const struct patch_session *s = w->session;
	const struct session_site *site = &s->site[w->id[i]];
	struct probe_site *p = &w->probe_site[i];
	enum probe_when when = s->options.rule[site->rule].when;

	*p = (struct probe_site){
		.addr = site->ip,
		.rip = when == PROBE_AFTER_IT ? site->ip + site->ninsn : site->ip,
		.function = s->place.code + session_function(s, site->rule)->at,
		.counter = s->place.counter_at + w->id[i] * sizeof(struct probe_counter),
		.id = (uint32_t)w->id[i],
		.flags = when == PROBE_AFTER_IT	  ? PROBE_AFTER
			 : when == PROBE_IN_PLACE ? PROBE_INSTEAD
						  : 0,
	};
	probe_operands(site->insn, site->ninsn, site->ip, p->operand);
}

static void fill_job(struct patch_job *j, const struct patch_write *write, const uint8_t *original)
{
	*j = (struct patch_job){ 0 };
	memset(j->enter, 0xff, sizeof(j->enter));
	memset(j->patch.copy, 0xff, sizeof(j->patch.copy));
	j->patch.addr = write->addr;
	j->patch.len = write->len;
	j->patch.tail = write->tail;
	memcpy(j->patch.written, write->bytes, write->len);
	memcpy(j->patch.original, original, (size_t)write->len + write->tail);
}

/* The end of the jump is there already. */
static bool has_tail(const struct patch_write *write, const uint8_t *original)
{
	return !memcmp(write->bytes + write->len, original + write->len, write->tail);
}

/* The jobs of a group: the way station, if it has one, and the patch. False: the jump does not reach. */
static bool add_jobs(struct area_work *w, size_t g)
{
	const uint64_t at = w->at[g];
	const struct memory_view mem = proc_memory(&w->session->pid);
	const struct patch_group *group = &w->groups.v[g];
	const struct made_trampoline *t = &w->code[g];
	const uint8_t *bytes = w->plan.site[group->first_site].bytes;
	struct patch_write write[2];
	uint8_t padding[PROBE_PATCH_MAX];
	unsigned int nwrites;
	struct patch_job *j;

	if (!patch_group_write(group, w->plan.module->module.bias, at, write, &nwrites) ||
	    !has_tail(&write[nwrites - 1], bytes))
		return false;
	for (unsigned int i = 0; i + 1 < nwrites; i++) {
		if (!memory_read(&mem, write[i].addr, padding, write[i].len))
			return false;
		fill_job(&w->job[w->njobs++], &write[i], padding);
	}
	j = &w->job[w->njobs++];
	fill_job(j, &write[nwrites - 1], bytes);
	j->station = nwrites > 1 ? write[0].addr : 0;
	j->group = g;
	j->patch.moved = group->moved;
	j->patch.trampoline = at;
	j->patch.trampoline_end = at + t->len;
	memcpy(j->patch.copy, t->copy, sizeof(j->patch.copy));
	memcpy(j->enter, t->enter, sizeof(j->enter));
	return true;
}

_Static_assert(sizeof(((struct trampoline *)0)->copy) == sizeof(((struct probe_patch *)0)->copy),
	       "a patch keeps where its copies are");

static int by_address(const void *a, const void *b)
{
	const struct patch_job *x = a, *y = b;

	return x->patch.addr < y->patch.addr ? -1 : x->patch.addr > y->patch.addr;
}

/* By address, as patch_apply() wants them; those that are way stations are found again. */
static void sort_jobs(struct area_work *w)
{
	qsort(w->job, w->njobs, sizeof(*w->job), by_address);
	for (size_t i = 0; i < w->njobs; i++) {
		w->job[i].record = w->patch_at + i * sizeof(struct probe_patch);
		if (w->job[i].station)
			w->job[i].via = patch_job_at(w->job, w->njobs, w->job[i].station);
	}
}

static bool make_jobs(struct area_work *w, uint8_t *code)
{
	w->job = calloc(2 * w->groups.n + 1, sizeof(*w->job));
	if (!w->job)
		return false;
	for (size_t g = 0; g < w->groups.n; g++) {
		if (!w->code[g].len)
			continue;
		if (!w->groups.v[g].tail)
			memcpy(code + (w->at[g] - w->range.start), w->code[g].code, w->code[g].len);
		if (!add_jobs(w, g))
			area_refuse_group(w, &w->groups.v[g], "the jump does not reach the trampoline");
	}
	sort_jobs(w);
	return true;
}

static struct wc_error *write_failed(const struct area_work *w)
{
	return wc_error_errno(errno == EPERM || errno == EACCES ? WC_EPERM : WC_ETARGET, errno,
			      "cannot write into process %d", w->session->pid);
}

/* Everything but the patches themselves, which are written as they are applied. The magic number comes last. */
static struct wc_error *fill_area(struct area_work *w, const uint8_t *code, uint64_t used)
{
	struct probe_near n = { .cookie = w->session->place.cookie,
				.entry = w->session->place.entry,
				.nsites = (uint32_t)w->plan.n,
				.npatches = (uint32_t)w->njobs,
				.switch_at = w->switch_at,
				.site_at = w->site_at,
				.patch_at = w->patch_at,
				.code_used = used };
	pid_t pid = w->session->pid;

	if (!proc_write_force(pid, w->range.start, code, used) ||
	    !proc_write(pid, w->site_at, w->probe_site, w->plan.n * sizeof(*w->probe_site)) ||
	    !proc_write(pid, w->near, &n, sizeof(n)))
		return write_failed(w);
	n.magic = PROBE_NEAR_MAGIC;
	return proc_write(pid, w->near, &n.magic, sizeof(n.magic)) ? NULL : write_failed(w);
}

/* Applying */

static void note_results(const struct area_work *w)
{
	for (size_t i = 0; i < w->njobs; i++) {
		const struct patch_job *j = &w->job[i];
		const struct patch_group *g = &w->groups.v[j->group];

		if (!j->patch.moved)
			continue;
		if (j->result != PATCH_APPLIED)
			area_refuse_group(w, g, patch_result_text(j->result));
		else
			for (size_t k = g->first_site; k < g->first_site + g->nsites; k++)
				w->session->site[w->id[k]].applied = true;
	}
}

static struct wc_error *apply(struct area_work *w)
{
	struct wc_error *err = patch_apply(&w->session->place, w->job, w->njobs, &w->session->holds);

	note_results(w);
	return err;
}

static void refuse_all(const struct area_work *w, const char *why)
{
	for (size_t g = 0; g < w->groups.n; g++)
		area_refuse_group(w, &w->groups.v[g], why);
}

/* *@any: there is something to place. */
static struct wc_error *place(struct area_work *w, uint64_t *used, bool *any)
{
	for (unsigned int i = 0; i < AREA_TRIES; i++) {
		struct wc_error *err;
		bool taken;

		*any = false;
		if (!find_room(w)) {
			refuse_all(w, "there is no room for trampolines within reach of a jump");
			return proc_check(w->session->pid); /* of one that has ended nothing is free */
		}
		*any = make_all(w, used);
		if (w->failed)
			return &wc_enomem;
		if (!*any)
			return NULL;
		err = probe_place_near(&w->session->place, &w->range, &taken);
		if (err || !taken)
			return err;
	}
	return wc_error_new(WC_ENOTSUP,
			    "process %d maps memory faster than room for trampolines can be found in it",
			    w->session->pid);
}

struct wc_error *area_build(struct area_work *w)
{
	scoped(freep) uint8_t *code = NULL;
	struct wc_error *err;
	uint64_t used = 0;
	bool any;

	if (!patch_groups_make(w->plan.site, w->plan.n, &w->groups))
		return &wc_enomem;
	w->code = calloc(w->groups.n + 1, sizeof(*w->code));
	w->at = calloc(w->groups.n + 1, sizeof(*w->at));
	w->probe_site = calloc(w->plan.n + 1, sizeof(*w->probe_site));
	if (!w->code || !w->at || !w->probe_site)
		return &wc_enomem;
	err = place(w, &used, &any);
	if (err || !any)
		return err;
	err = area_place_puns(w);
	if (!err && w->failed)
		err = &wc_enomem;
	if (err)
		return err;
	code = calloc(1, used + 1);
	if (!code || !make_jobs(w, code))
		return &wc_enomem;
	for (size_t i = 0; i < w->plan.n; i++)
		fill_site(w, i);
	err = fill_area(w, code, used);
	return err ? err : apply(w);
}
