#include "watchctl/target/inject/placed.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/vec.h"
#include "watchctl/target/inject/shared_area.h"
#include "watchctl/target/proc/proc.h"

#define ORPHAN_NS 1000000000ull
#define LOOK_NS 20000000
#define CODE_MAX 0x10000u /* at the end of its mapping, where the code of any version begins */
#define PAGE 4096u
#define SIZE_CEILING (4ull << 30) /* more than a ring ever has: sums do not overflow */

static bool read_door(pid_t pid, uint64_t at, uint64_t *ret_control)
{
	struct memory_view mem = proc_memory(&pid);
	struct wire_signature door;

	if (!memory_read(&mem, at, &door, sizeof(door)) ||
	    memcmp(door.name, WIRE_SIGNATURE, sizeof(door.name)) != 0)
		return false;
	*ret_control = at + (uint64_t)(int64_t)door.to_control;
	return true;
}

bool placed_control_of(pid_t pid, uint64_t handler, struct wire_control *ret, uint64_t *ret_addr)
{
	struct memory_view mem = proc_memory(&pid);
	uint64_t control;

	if (handler < sizeof(struct wire_signature) ||
	    !read_door(pid, handler - sizeof(struct wire_signature), &control))
		return false;
	if (!memory_read(&mem, control, ret, sizeof(*ret)) || ret->magic != WIRE_MAGIC ||
	    ret->version != WIRE_VERSION)
		return false;
	*ret_addr = control;
	return true;
}

/* Finding */

struct extent {
	uint64_t at, end; /* covered by fitting mappings: [.., at) of [.., end) */
	uint64_t code_end;
	bool fits;
};

/* Code of a handler is private and read-only, what it shares with the controller is data; neither is a file.
 */
static bool covers(void *ctx, const struct proc_map *m)
{
	struct extent *x = ctx;
	bool anonymous =
		!m->name[0] || !strcmp(m->name, "/dev/zero (deleted)") || !strcmp(m->name, SHARED_AREA_NAME);

	if (m->end <= x->at)
		return true;
	if (m->start > x->at || !anonymous || m->exec != (x->at < x->code_end) || m->write == m->exec)
		return false;
	x->at = m->end;
	x->fits = x->at >= x->end;
	return !x->fits;
}

/* What is ours by its own account: nothing else may be unmapped for it. */
static bool is_sound(pid_t pid, const struct placed *p)
{
	const struct wire_control *c = p->control;
	struct extent x = { c->code_start, c->code_start + c->mapping_size, p->control_at, false };

	if (c->code_start % PAGE || c->mapping_size % PAGE ||
	    c->code_start + WIRE_CODE_SIZE != p->control_at || c->code_end != p->control_at ||
	    c->mapping_size < WIRE_CODE_SIZE + WIRE_RING_OFFSET || c->mapping_size > SIZE_CEILING ||
	    c->ours.handler < c->code_start || c->ours.handler >= c->code_end)
		return false;
	return proc_maps(pid, covers, &x) && x.fits;
}

/* False: no memory. @ret->control stays NULL where there is nothing that is sound. */
static bool read_control(pid_t pid, struct placed *ret)
{
	struct wire_control *c = aligned_alloc(_Alignof(struct wire_control), sizeof(*c));
	struct memory_view mem = proc_memory(&pid);

	if (!c)
		return false;
	ret->control = c;
	if (!memory_read(&mem, ret->control_at, c, sizeof(*c)) || c->version != WIRE_VERSION ||
	    !is_sound(pid, ret)) {
		free(c);
		ret->control = NULL;
	}
	return true;
}

/* False: no memory. *ret_found: there is a handler; then *ret is it. */
static bool look_behind_door(pid_t pid, uint64_t at, bool *ret_found, struct placed *ret)
{
	struct memory_view mem = proc_memory(&pid);
	struct placed p = { 0 };
	struct {
		uint64_t magic;
		uint32_t version;
	} head; /* the same in every version */

	*ret_found = false;
	if (!read_door(pid, at, &p.control_at) || !memory_read(&mem, p.control_at, &head, sizeof(head)) ||
	    head.magic != WIRE_MAGIC)
		return true;
	p.version = head.version;
	if (p.version == WIRE_VERSION && !read_control(pid, &p))
		return false;
	*ret_found = p.control || p.version != WIRE_VERSION;
	*ret = p;
	return true;
}

struct search {
	pid_t pid;
	struct placed_list found;
	uint8_t *code; /* CODE_MAX bytes */
	bool no_memory;
};

static bool look_at_map(void *ctx, const struct proc_map *m)
{
	struct search *s = ctx;
	struct memory_view mem = proc_memory(&s->pid);
	uint64_t len = m->end - m->start < CODE_MAX ? m->end - m->start : CODE_MAX, at;

	if (!m->exec || m->write || m->shared || m->name[0] || !memory_read(&mem, m->end - len, s->code, len))
		return true;
	for (at = 0; at + sizeof(struct wire_signature) <= len; at += 8) {
		struct placed p;
		bool found;

		if (memcmp(s->code + at + offsetof(struct wire_signature, name), WIRE_SIGNATURE,
			   sizeof(((struct wire_signature *)0)->name)) != 0)
			continue;
		s->no_memory = !look_behind_door(s->pid, m->end - len + at, &found, &p);
		if (found && !vec_push(s->found.v, s->found.n, s->found.cap, p)) {
			free(p.control);
			s->no_memory = true;
		}
		if (found || s->no_memory)
			break; /* what the control block says stands in the rest of it */
	}
	return !s->no_memory;
}

struct wc_error *placed_find(pid_t pid, struct placed_list *ret)
{
	scoped(freep) uint8_t *code = malloc(CODE_MAX);
	struct search s = { .pid = pid, .code = code };

	if (!code)
		return &wc_enomem;
	if (!proc_maps(pid, look_at_map, &s)) {
		if (errno == ENOENT || errno == ESRCH)
			return wc_error_new(WC_ETARGET, "process %d ended", pid);
		return wc_error_errno(WC_EPERM, errno, "not permitted to read process %d", pid);
	}
	if (s.no_memory) {
		placed_list_deinit(&s.found);
		return &wc_enomem;
	}
	*ret = s.found;
	return NULL;
}

void placed_list_deinit(struct placed_list *l)
{
	size_t i;

	for (i = 0; i < l->n; i++)
		free(l->v[i].control);
	free(l->v);
	*l = (struct placed_list){ 0 };
}

bool placed_is_inherited(pid_t pid, const struct wire_control *c)
{
	struct proc_status s;

	return proc_status_read(pid, pid, &s) && s.ns_id != c->target_pid;
}

/* Owners */

struct owner_search {
	const struct wire_control *control;
	pid_t found; /* 0: none */
};

static bool has_started_then(pid_t pid, const struct wire_control *c, pid_t number)
{
	struct proc_status s;

	return proc_lives(pid, c->owner_start) && proc_status_read(pid, pid, &s) &&
	       (number == c->owner_pid || s.ns_id == c->owner_pid);
}

static bool is_owner(void *ctx, pid_t pid)
{
	struct owner_search *s = ctx;

	if (!has_started_then(pid, s->control, 0))
		return true;
	s->found = pid;
	return false;
}

static bool is_silent(const struct wire_control *c)
{
	return monotonic_ns() - c->heartbeat > ORPHAN_NS;
}

bool placed_looks_orphaned(const struct wire_control *c)
{
	return !has_started_then(c->owner_pid, c, c->owner_pid) && is_silent(c);
}

enum placed_owner placed_owner(const struct wire_control *c, pid_t *ret_pid)
{
	struct owner_search s = { .control = c };

	if (has_started_then(c->owner_pid, c, c->owner_pid))
		s.found = c->owner_pid;
	else
		proc_each(is_owner, &s); /* it may live in another pid namespace */
	if (ret_pid)
		*ret_pid = s.found;
	if (s.found)
		return PLACED_OWNED;
	return is_silent(c) ? PLACED_ORPHAN : PLACED_SILENT;
}

enum placed_owner placed_owner_wait(pid_t pid, const struct placed *p, pid_t *ret_pid)
{
	uint64_t at = p->control_at + offsetof(struct wire_control, heartbeat), beat;
	struct memory_view mem = proc_memory(&pid);
	enum placed_owner owner;

	while ((owner = placed_owner(p->control, ret_pid)) == PLACED_SILENT) {
		nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
		if (memory_read(&mem, at, &beat, sizeof(beat)) && beat != p->control->heartbeat)
			return PLACED_OWNED;
	}
	return owner;
}
