/* What others have left in a program. */
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/monitor/patch/patch_session_impl.h"
#include "watchctl/target/proc/proc.h"

#define END_NS 10000000000ull /* so long one that is asked to end is waited for */
#define LOOK_NS 20000000

static void describe(const struct found_home *h, struct patch_left *ret)
{
	const struct probe_place *p = &h->place;
	const struct memory_view mem = proc_memory(&p->pid);
	struct probe_near n;

	*ret = (struct patch_left){
		.owner = h->owner, .inherited = h->inherited, .addr = p->home, .size = p->size
	};
	for (uint32_t i = 0; i < p->nnear; i++) {
		const struct probe_range *r = &p->near[i];

		if (!r->code_size || !memory_read(&mem, r->start + r->code_size, &n, sizeof(n)) ||
		    n.magic != PROBE_NEAR_MAGIC || n.cookie != p->cookie)
			continue;
		ret->modules++;
		ret->sites += n.nsites;
		ret->patches += n.npatches;
	}
}

struct wc_error *patch_session_list(pid_t pid, void (*each)(void *ctx, const struct patch_left *l), void *ctx)
{
	scoped(probe_homes_deinit) struct probe_homes homes = { 0 };
	struct wc_error *err = probe_homes_find(pid, &homes);

	for (size_t i = 0; i < homes.n && !err; i++) {
		struct patch_left l;

		describe(&homes.v[i], &l);
		each(ctx, &l);
	}
	return err;
}

static struct wc_error *take_out(struct probe_place *p)
{
	struct patch_hold_times times = { 0 };
	struct patch_undone u;
	struct wc_error *err = patch_undo(p, &u, &times);

	if (err)
		return err;
	if (u.foreign)
		return wc_error_new(
			WC_EFAIL,
			"%zu patched place%s of process %d has been changed by somebody else since: they stay",
			u.foreign, u.foreign == 1 ? "" : "s", p->pid);
	if (u.occupied)
		return wc_error_new(
			WC_EFAIL,
			"a thread of process %d is still on its way through a probe: its code is as it was, the memory "
			"of the probes stays; try again later",
			p->pid);
	return probe_place_remove(p);
}

/* As by Ctrl-C: it takes its patches out by itself. */
static bool end_owner(const struct found_home *h)
{
	uint64_t until = monotonic_ns() + END_NS, start = proc_start_time(h->owner);

	if (h->owner <= 0 || kill(h->owner, SIGTERM))
		return false;
	while (proc_lives(h->owner, start) && monotonic_ns() < until)
		nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
	return !proc_lives(h->owner, start);
}

static struct wc_error *end_owners(pid_t pid, patch_cleared_sink *each, void *ctx)
{
	scoped(probe_homes_deinit) struct probe_homes homes = { 0 };
	struct wc_error *err = probe_homes_find(pid, &homes);

	for (size_t i = 0; i < homes.n && !err; i++) {
		struct patch_left l;

		describe(&homes.v[i], &l);
		if (!homes.v[i].inherited && end_owner(&homes.v[i]) && each)
			each(ctx, &l, PATCH_OWNER_ENDED);
	}
	return err;
}

struct wc_error *patch_session_clear(pid_t pid, bool all, patch_cleared_sink *each, void *ctx)
{
	scoped(probe_homes_deinit) struct probe_homes homes = { 0 };
	struct wc_error *err = all ? end_owners(pid, each, ctx) : NULL;

	if (!err)
		err = probe_homes_find(pid, &homes);
	for (size_t i = 0; i < homes.n && !err; i++) {
		struct found_home *h = &homes.v[i];
		bool is_owned = h->owner && !h->inherited;
		struct patch_left l;

		describe(h, &l);
		if (!is_owned)
			err = take_out(&h->place);
		if (!err && each)
			each(ctx, &l, is_owned ? PATCH_STAYS : PATCH_TAKEN_OUT);
	}
	return err;
}
