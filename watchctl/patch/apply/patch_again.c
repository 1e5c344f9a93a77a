/* The parts of patch_apply.h for modules that are unloaded, and loaded again. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/bisect.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/patch/apply/patch_apply_impl.h"
#include "watchctl/target/proc/proc.h"

#define JUMP_SHORT 0xeb /* Intel SDM, volume 2, JMP rel8 */
#define JUMP_SHORT_LEN 2

const char *patch_result_text(enum patch_result r)
{
	switch (r) {
	case PATCH_CHANGED:
		return "the bytes in memory are not those of the file: another tool's, the program's own, or what has come in its place";
	case PATCH_UNREADABLE:
		return "the bytes in memory cannot be read: the module is being unloaded, or its file was cut";
	case PATCH_IN_USE:
		return "a thread stays in the middle of it";
	case PATCH_REFUSED:
		return "the bytes cross a page";
	case PATCH_NEEDED:
		return "a patch of another watchctl's needs these bytes as they were, or has bytes that this one needs";
	case PATCH_APPLIED:
		break;
	}
	return "";
}

static bool was_applied(const struct probe_patch *q)
{
	return q->len && q->len + q->tail <= PROBE_PATCH_MAX && q->state != PROBE_PATCH_PLANNED;
}

struct patch_job *patch_job_at(struct patch_job *job, size_t n, uint64_t addr)
{
	const size_t at = BISECT(n, i, job[i].patch.addr < addr);

	return at < n && job[at].patch.addr == addr ? &job[at] : NULL;
}

/* As they lie in the area: by address. Those that never were applied are not now. */
static void fill_jobs(const struct patch_area *a, struct patch_job *job)
{
	for (uint32_t i = 0; i < a->head.npatches; i++) {
		job[i] = (struct patch_job){
			.patch = a->patch[i],
			.record = a->head.patch_at + i * sizeof(struct probe_patch),
			.was_applied = was_applied(&a->patch[i]),
			.was_refused = !was_applied(&a->patch[i]),
		};
		memset(job[i].enter, 0xff, sizeof(job[i].enter));
	}
	for (uint32_t i = 0; i < a->head.npatches; i++) {
		const struct probe_patch *q = &job[i].patch;

		if (q->moved && q->len >= JUMP_SHORT_LEN && q->written[0] == JUMP_SHORT)
			job[i].via = patch_job_at(job, a->head.npatches,
						  q->addr + JUMP_SHORT_LEN + (uint64_t)(int8_t)q->written[1]);
	}
}

static void count(const struct patch_job *job, size_t n, struct patch_again *ret)
{
	*ret = (struct patch_again){ 0 };
	for (size_t i = 0; i < n; i++) {
		if (job[i].was_refused || !job[i].patch.moved)
			continue;
		if (job[i].result == PATCH_APPLIED) {
			ret->mark = ret->applied++ ? ret->mark : job[i].patch;
		} else if (!ret->missed++) {
			ret->why = job[i].result;
		}
	}
}

struct wc_error *patch_again(struct probe_place *p, const struct probe_range *area, struct patch_again *ret,
			     struct patch_hold_times *times)
{
	struct patch_area a;
	scoped(freep) struct probe_patch *patch = NULL;
	scoped(freep) struct patch_job *job = NULL;
	struct wc_error *err;

	*ret = (struct patch_again){ 0 };
	if (!patch_area_read(p, area, &a))
		return errno == ENOMEM ? &wc_enomem : NULL;
	patch = a.patch;
	job = calloc(a.head.npatches + 1, sizeof(*job));
	if (!job)
		return &wc_enomem;
	fill_jobs(&a, job);
	err = patch_apply(p, job, a.head.npatches, times);
	count(job, a.head.npatches, ret);
	return err;
}

static bool stands(const struct probe_place *p, const struct probe_patch *q)
{
	const struct memory_view mem = proc_memory(&p->pid);
	uint8_t now[PROBE_PATCH_MAX];

	return memory_read(&mem, q->addr, now, q->len) && !memcmp(now, q->written, q->len);
}

void patch_forget_gone(const struct probe_place *p, const struct probe_range *area)
{
	struct patch_area a;
	scoped(freep) struct probe_patch *patch = NULL;
	bool changed = false;

	if (!patch_area_read(p, area, &a))
		return;
	patch = a.patch;
	for (uint32_t i = 0; i < a.head.npatches; i++) {
		if (!patch_is_sound(&patch[i]) || stands(p, &patch[i]))
			continue;
		patch[i].state = PROBE_PATCH_REMOVED;
		changed = true;
	}
	if (changed)
		proc_write(p->pid, a.head.patch_at, patch, a.head.npatches * sizeof(*patch));
}
