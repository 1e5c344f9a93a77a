/* The parts of probe_place.h that only look. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "watchctl/base/clock.h"
#include "watchctl/base/vec.h"
#include "watchctl/patch/probe/probe_place.h"
#include "watchctl/target/proc/proc.h"

#define HIGHEST 0x7ffffffff000ull
#define SILENCE_NS 1000000000ull

struct home_search {
	pid_t pid, ns_id;
	struct probe_homes found;
	bool no_memory;
};

/* Only what makes sense is believed. */
static bool is_sound(const struct probe_home *h, uint64_t at)
{
	const uint64_t most = 1ull << 34;

	return h->magic == PROBE_HOME_MAGIC && h->version == PROBE_VERSION && h->start == at &&
	       h->nnear <= PROBE_NEARS && !(h->code_size % PROBE_PAGE) && !(h->data_size % PROBE_PAGE) &&
	       !(h->ring_size % PROBE_PAGE) && h->code_size && h->code_size < most && h->data_size < most &&
	       h->ring_size < most && h->ring_size >= sizeof(struct probe_shared);
}

static bool near_is_sound(const struct probe_range *r)
{
	return !(r->start % PROBE_PAGE) && !(r->code_size % PROBE_PAGE) && !(r->data_size % PROBE_PAGE) &&
	       r->start < HIGHEST && (probe_range_is_puns(r) || r->data_size >= 2 * PROBE_PAGE);
}

uint64_t probe_own_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) ? 0 : st.st_ino;
}

static pid_t find_owner(const struct home_search *s, const struct probe_home *h)
{
	const struct memory_view mem = proc_memory(&s->pid);
	uint64_t at = h->start + PROBE_HOME_SIZE + h->code_size + h->data_size +
		      offsetof(struct probe_shared, heartbeat);
	uint64_t beat, now = monotonic_ns();

	if (h->owner_pid > 0 && proc_lives(h->owner_pid, h->owner_start))
		return h->owner_pid;
	if (h->owner_ns && h->owner_ns == probe_own_namespace())
		return 0;
	/* It may live where its number means nothing to us. */
	return memory_read(&mem, at, &beat, sizeof(beat)) && beat <= now && now - beat < SILENCE_NS ? -1 : 0;
}

static bool take(struct home_search *s, const struct probe_home *h)
{
	const struct memory_view mem = proc_memory(&s->pid);
	struct found_home f = { .place = {
					.pid = s->pid,
					.cookie = h->cookie,
					.home = h->start,
					.code = h->start + PROBE_HOME_SIZE,
					.size = PROBE_HOME_SIZE + h->code_size + h->data_size + h->ring_size,
					.ring_at = h->start + PROBE_HOME_SIZE + h->code_size + h->data_size,
					.ring_size = h->ring_size,
					.nnear = h->nnear } };

	if (h->nnear && !memory_read(&mem, h->start + offsetof(struct probe_home, near), f.place.near,
				     h->nnear * sizeof(struct probe_range)))
		return true;
	for (uint32_t i = 0; i < h->nnear; i++)
		if (!near_is_sound(&f.place.near[i]))
			f.place.near[i] = (struct probe_range){ 0 };
	f.owner = find_owner(s, h);
	f.inherited = h->target_pid != s->ns_id;
	s->no_memory = !vec_push(s->found.v, s->found.n, s->found.cap, f);
	return !s->no_memory;
}

static bool look(void *ctx, const struct proc_map *m)
{
	struct home_search *s = ctx;
	const struct memory_view mem = proc_memory(&s->pid);
	struct probe_home h;

	if (!m->write || m->exec || m->shared || m->name[0] || m->end - m->start < PROBE_HOME_SIZE)
		return true;
	if (!memory_read(&mem, m->start, &h, sizeof(h)) || !is_sound(&h, m->start))
		return true;
	return take(s, &h);
}

struct wc_error *probe_homes_find(pid_t pid, struct probe_homes *ret)
{
	struct home_search s = { .pid = pid };
	struct proc_status status;

	s.ns_id = proc_status_read(pid, pid, &status) ? status.ns_id : pid;
	if (!proc_maps(pid, look, &s)) {
		probe_homes_deinit(&s.found);
		return wc_error_errno(errno == EACCES || errno == EPERM ? WC_EPERM : WC_ETARGET, errno,
				      "cannot read the mappings of process %d", pid);
	}
	if (s.no_memory) {
		probe_homes_deinit(&s.found);
		return &wc_enomem;
	}
	*ret = s.found;
	return NULL;
}

void probe_homes_deinit(struct probe_homes *h)
{
	free(h->v);
	*h = (struct probe_homes){ 0 };
}
