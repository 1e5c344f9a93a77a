/* patch_areas_impl - a module's sites on their way into a program: what the files of that share. */
#ifndef WATCHCTL_MONITOR_PATCH_PATCH_AREAS_IMPL_H
#define WATCHCTL_MONITOR_PATCH_PATCH_AREAS_IMPL_H

#include "watchctl/code/elf/module.h"
#include "watchctl/monitor/patch/patch_session_impl.h"
#include "watchctl/patch/plan/patch_group.h"
#include "watchctl/patch/plan/patch_plan.h"
#include "watchctl/patch/plan/trampoline.h"

#define TRAMPOLINE_ALIGN 16u

/* A struct trampoline, without the room that it does not need. */
struct made_trampoline {
	uint8_t *code; /* owned */
	size_t len;    /* 0: there is none */
	uint16_t copy[TRAMPOLINE_INSNS], enter[TRAMPOLINE_INSNS];
};

/* What the plan says of one module, and what becomes of it. */
struct area_work {
	struct patch_session *session;
	struct module_plan plan;
	size_t *id;	/* of each site in the session */
	uint32_t *mark; /* of each site; with a taker only */
	size_t mark_cap;
	struct patch_groups groups;
	struct made_trampoline *code; /* of each group; len 0: it cannot be */
	uint64_t *at;		      /* of each group: where its trampoline lies */
	struct probe_range range;
	uint64_t near, switch_at, site_at, patch_at;
	struct probe_site *probe_site;
	struct patch_job *job;
	size_t njobs;
	bool failed; /* memory ran out */
};

/* One of the module's sites, as patch_plan_next() gives it: kept if it is wanted. False: no memory. */
bool area_take_site(struct area_work *w, const struct patch_site *site);

/* To the session's, all of them. @refusal: why none of the module's is patched, static; NULL. False: no memory. */
bool area_add_sites(struct area_work *w, const char *refusal);

/* Trampolines and the near area made and mapped, and the patches applied; each that is not is refused. */
struct wc_error *area_build(struct area_work *w);

void area_work_deinit(struct area_work *w); /* accepts zeros */

/* As of session_site. */
void area_refuse_group(const struct area_work *w, const struct patch_group *g, const char *why);

/* The trampoline of group @g as it is to lie at @at. False: it cannot be, and the group is refused; or memory ran out, @w->failed. */
bool area_make_trampoline(struct area_work *w, size_t g, uint64_t at);

/* Finds room for the trampolines of punned jumps, maps and writes it. The near area is mapped. */
struct wc_error *area_place_puns(struct area_work *w);

#endif
