#include "watchctl/patch/probe/probe_place.h"
#include "watchctl/patch/probe/probe_cpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/time/tsc_usable.h"
#include "watchctl/target/inject/far_map.h"
#include "watchctl/target/inject/gadget.h"
#include "watchctl/target/inject/remote.h"
#include "watchctl/target/inject/shared_area.h"
#include "watchctl/target/proc/proc.h"

#define NR_MMAP 9
#define NR_MUNMAP 11
#define NR_MADVISE 28
#define NR_PRCTL 157
#define PR_GET_TSC_NR 25
#define PR_TSC_ENABLED 1
#define TALLIES_MOST (16u << 20) /* bytes; those that nobody takes are never touched */
#define POPULATED (4u << 20)	 /* bytes of threads' buffers */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* since Linux 5.14 */
#endif
#define AREAS_AT_ONCE 64u /* for which one thread is kept */

/* The whole home, as it is to be. */
struct layout_of {
	uint64_t code_at, data_at, ring_at, size; /* from its beginning */
	uint64_t counters_at, tallies_at, slots_at, calls_at,
		plans_at; /* from @ring_at; plans_at 0: there are none */
	uint32_t nchunks, chunk_bytes;
	uint32_t nrings, ntallies;
};

static uint64_t pages(uint64_t bytes)
{
	return (bytes + PROBE_PAGE - 1) / PROBE_PAGE * PROBE_PAGE;
}

static uint64_t tally_size(size_t counters)
{
	return pages(counters * sizeof(uint64_t));
}

/* A power of two; 0: none are wanted, or one alone would be too large. */
static uint32_t tallies_for(const struct probe_place_request *q)
{
	uint32_t n = q->tallied ? PROBE_TALLIES : 0;

	while (n && n * tally_size(q->counters) > TALLIES_MOST)
		n /= 2;
	return n;
}

/* So small that each of many threads finds one, and so large that taking one costs nothing. */
#define CHUNKS_WANTED 64u

static void lay_out_calls(const struct probe_place_request *q, struct layout_of *l)
{
	l->chunk_bytes = q->call_plans ? CALL_CHUNK_LEAST_VALUES : CALL_CHUNK_LEAST;
	while (l->chunk_bytes < CALL_CHUNK_MOST && q->call_bytes / l->chunk_bytes > CHUNKS_WANTED)
		l->chunk_bytes *= 2;
	l->nchunks = q->call_bytes / l->chunk_bytes < CALL_CHUNKS ? (uint32_t)(q->call_bytes / l->chunk_bytes)
								  : CALL_CHUNKS;
	l->calls_at = pages(l->size - l->ring_at);
	l->size = l->ring_at + l->calls_at + pages(sizeof(struct call_shared)) +
		  (uint64_t)l->nchunks * l->chunk_bytes;
	if (!q->call_plans)
		return;
	l->plans_at = l->size - l->ring_at;
	l->size += pages(sizeof(struct call_plans));
}

static struct layout_of lay_out(const struct probe_place_request *q)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	struct layout_of l = { .nrings = 2 };

	while (l.nrings < PROBE_RINGS && l.nrings < cpus)
		l.nrings *= 2;
	l.code_at = PROBE_HOME_SIZE;
	l.data_at = l.code_at + q->image->code_size;
	l.ring_at = l.data_at + q->image->data_size;
	l.counters_at = pages(sizeof(struct probe_shared));
	l.tallies_at = l.counters_at + pages(q->counters * sizeof(struct probe_counter));
	l.ntallies = tallies_for(q);
	l.slots_at = l.tallies_at + l.ntallies * tally_size(q->counters);
	l.size = l.ring_at + l.slots_at + (uint64_t)l.nrings * q->slots * PROBE_SLOT;
	if (q->call_bytes)
		lay_out_calls(q, &l);
	return l;
}

static struct wc_error *map_failed(pid_t pid, long result)
{
	struct wc_error *err =
		wc_error_errno(WC_ENOTSUP, (int)-result, "process %d may not map memory for probes", pid);

	if (result == -ENOMEM || result == -EAGAIN)
		return wc_error_hint(err, "its address space or its locked memory is limited");
	if (result == -EACCES || result == -EPERM)
		return wc_error_hint(err, "a security policy forbids new code in it (SELinux: execmem)");
	return err;
}

static struct wc_error *write_failed(pid_t pid)
{
	return wc_error_errno(errno == EPERM || errno == EACCES ? WC_EPERM : WC_ETARGET, errno,
			      "cannot write into process %d", pid);
}

/* Private memory of zeros in place of what is mapped there. */
static struct wc_error *map_data(struct remote *r, uint64_t at, uint64_t size, int flags)
{
	struct wc_error *err;
	long result;

	if (!size)
		return NULL;
	err = remote_syscall(r, NR_MMAP, at, size, PROT_READ | PROT_WRITE,
			     (uint64_t)(flags | MAP_ANONYMOUS | MAP_FIXED), (uint64_t)-1, 0, &result);
	if (err)
		return err;
	return result < 0 && result > -4096 ? map_failed(r->thread.pid, result) : NULL;
}

/* What is ours already, where that was offered and is taken; else memory of the program's that we map afterwards. */
static struct wc_error *map_rings(struct probe_place *p, struct remote *r, void *offered, int id)
{
	struct wc_error *err;
	long result;

	if (!offered)
		return map_data(r, p->ring_at, p->ring_size, MAP_SHARED);
	err = remote_syscall(r, SHARED_AREA_ATTACH, (uint64_t)id, p->ring_at, SHARED_AREA_OVER, 0, 0, 0,
			     &result);
	if (err)
		return err;
	if (result != (long)p->ring_at)
		return map_failed(p->pid, result);
	p->shared = offered;
	return NULL;
}

/* Probes read the time stamp counter; a program may have forbidden itself to (PR_SET_TSC). */
static struct wc_error *check_tsc(struct probe_place *p, struct remote *r)
{
	const struct memory_view mem = proc_memory(&p->pid);
	struct wc_error *err;
	uint32_t mode = 0;
	long result;

	err = remote_syscall(r, NR_PRCTL, PR_GET_TSC_NR, p->home, 0, 0, 0, 0, &result);
	if (err)
		return err;
	if (result || !memory_read(&mem, p->home, &mode, sizeof(mode)) || mode != PR_TSC_ENABLED)
		return wc_error_new(
			WC_ENOTSUP,
			"process %d has forbidden itself to read the time stamp counter (PR_SET_TSC), "
			"which probes do",
			p->pid);
	mode = 0;
	return proc_write(p->pid, p->home, &mode, sizeof(mode)) ? NULL : write_failed(p->pid);
}

/* Where C libraries keep a thread's number, from its fs base on: glibc's struct pthread.tid, musl's. */
static int32_t find_tid(const struct remote *r)
{
	static const int32_t place[] = { 0x2d0, 0x30 };
	const struct memory_view mem = proc_memory(&r->thread.pid);
	struct proc_status s;
	uint32_t word;

	if (!r->thread.home.fs_base || !proc_status_read(r->thread.pid, r->thread.tid, &s))
		return 0;
	for (unsigned int i = 0; i < 2; i++)
		if (memory_read(&mem, r->thread.home.fs_base + (uint64_t)place[i], &word, sizeof(word)) &&
		    word == (uint32_t)s.ns_id)
			return place[i];
	return 0;
}

static void give_tallies(const struct probe_place *p, const struct probe_place_request *q,
			 const struct layout_of *l)
{
	struct probe_shared *s = p->shared;

	if (!s->tid_at || !l->ntallies)
		return;
	for (uint32_t i = 0; i < l->ntallies; i++)
		s->tally[i] = (struct probe_tally){
			.tid = PROBE_TALLY_FREE,
			.count_at = p->ring_at + l->tallies_at + i * tally_size(q->counters),
		};
	s->tally_mask = l->ntallies - 1;
	s->flags |= PROBE_TALLIED;
}

static void fill_shared(const struct probe_place *p, const struct probe_place_request *q,
			const struct layout_of *l, const struct remote *r)
{
	struct probe_shared *s = p->shared;
	struct proc_status status;

	probe_cpu_describe(s);
	s->nrings = l->nrings;
	s->slots = q->slots;
	s->tid_at = find_tid(r);
	if (s->tid_at)
		s->flags |= PROBE_FAST_CALLS;
	give_tallies(p, q, l);
	s->stack_bytes = q->stack_bytes;
	s->pid = proc_status_read(p->pid, p->pid, &status) ? status.ns_id : p->pid;
	s->counter_at = p->ring_at + l->counters_at;
	s->counters = q->counters;
	s->slot_at = p->ring_at + l->slots_at;
	s->calls_at = p->calls_at;
	s->heartbeat = monotonic_ns();
}

/* All but the magic number, which comes last. */
static struct wc_error *write_home(const struct probe_place *p, const struct probe_place_request *q)
{
	struct probe_home h = { .version = PROBE_VERSION,
				.cookie = p->cookie,
				.start = p->home,
				.code_size = q->image->code_size,
				.data_size = q->image->data_size,
				.ring_size = p->ring_size,
				.owner_pid = getpid(),
				.target_pid = p->shared->pid,
				.owner_start = proc_own_start_time(),
				.owner_ns = probe_own_namespace() };

	if (!proc_write(p->pid, p->home, &h, sizeof(h)))
		return write_failed(p->pid);
	h.magic = PROBE_HOME_MAGIC;
	return proc_write(p->pid, p->home, &h.magic, sizeof(h.magic)) ? NULL : write_failed(p->pid);
}

static struct wc_error *write_image(const struct probe_place *p, const struct probe_image *i)
{
	scoped(freep) uint8_t *bytes = malloc(i->code_size + i->data_size);

	if (!bytes)
		return &wc_enomem;
	probe_image_relocate(i, p->code, bytes);
	memcpy(bytes + i->shared_at, &p->ring_at, sizeof(p->ring_at));
	if (!proc_write_force(p->pid, p->code, bytes, i->code_size) ||
	    !proc_write(p->pid, p->code + i->code_size, bytes + i->code_size, i->data_size))
		return write_failed(p->pid);
	return NULL;
}

/* First all of it as code, so that nothing is ever writable and executable; data takes the place of what is none. */
static struct wc_error *map_home(struct probe_place *p, const struct probe_place_request *q,
				 const struct layout_of *l, struct remote *r, void *offered, int id)
{
	struct wc_error *err;
	long result;

	err = far_map(r, l->size, PROT_READ | PROT_EXEC, &result);
	if (err)
		return err;
	if (result < 0 && result > -4096)
		return map_failed(p->pid, result);
	p->home = (uint64_t)result;
	p->code = p->home + l->code_at;
	p->entry = p->code + q->image->entry_at;
	p->size = l->size;
	p->ring_at = p->home + l->ring_at;
	p->ring_size = l->size - l->ring_at;
	err = map_data(r, p->home, PROBE_HOME_SIZE, MAP_PRIVATE);
	if (!err)
		err = map_data(r, p->home + l->data_at, q->image->data_size, MAP_PRIVATE);
	if (!err)
		err = map_rings(p, r, offered, id);
	if (!err)
		err = check_tsc(p, r);
	return err;
}

static struct wc_error *no_sharing(pid_t pid)
{
	return wc_error_new(
		WC_EPERM,
		"the memory of process %d cannot be shared with watchctl: run watchctl as root, or as the "
		"same user in the same IPC namespace",
		pid);
}

static void begin_calls(struct probe_place *p, const struct layout_of *l)
{
	p->calls_at = p->ring_at + l->calls_at;
	p->calls = (struct call_shared *)(void *)((char *)p->shared + l->calls_at);
	p->calls->nchunks = p->calls->nfree = l->nchunks;
	p->calls->chunk_bytes = l->chunk_bytes;
	p->calls->chunk_at = p->calls_at + pages(sizeof(struct call_shared));
	if (!l->plans_at)
		return;
	p->calls->plans_at = p->ring_at + l->plans_at;
	p->plans = (struct call_plans *)(void *)((char *)p->shared + l->plans_at);
}

uint64_t probe_place_on(const struct probe_place *p)
{
	return p->calls ? p->calls_at : 1;
}

/* Has the kernel find memory for what is used first, so that the program's threads need not wait for that; where it cannot, they do. */
static struct wc_error *populate_calls(const struct probe_place *p, const struct layout_of *l,
				       struct remote *r)
{
	const uint64_t most = (uint64_t)l->nchunks * l->chunk_bytes;
	long result;

	return remote_syscall(r, NR_MADVISE, p->calls->chunk_at, most < POPULATED ? most : POPULATED,
			      MADV_POPULATE_WRITE, 0, 0, 0, &result);
}

static struct wc_error *fill_home(struct probe_place *p, const struct probe_place_request *q,
				  const struct layout_of *l, struct remote *r)
{
	struct wc_error *err;

	if (!p->shared)
		p->shared = shared_area_map(p->pid, p->ring_at, p->ring_size);
	if (!p->shared)
		return no_sharing(p->pid);
	if (l->nchunks)
		begin_calls(p, l);
	fill_shared(p, q, l, r);
	p->thread_pointer = r->thread.home.fs_base;
	err = p->calls ? populate_calls(p, l, r) : NULL;
	if (!err)
		err = write_image(p, q->image);
	p->counter = (struct probe_counter *)(void *)((char *)p->shared + l->counters_at);
	p->counter_at = p->shared->counter_at;
	p->tally = (const uint64_t *)(const void *)((const char *)p->shared + l->tallies_at);
	p->ntallies = p->shared->flags & PROBE_TALLIED ? l->ntallies : 0;
	p->counters = q->counters;
	return err ? err : write_home(p, q);
}

uint64_t probe_place_count(const struct probe_place *p, size_t id)
{
	uint64_t n = __atomic_load_n(&p->counter[id].count, __ATOMIC_RELAXED);

	for (uint32_t i = 0; i < p->ntallies; i++) /* what is free has no memory yet */
		if (__atomic_load_n(&p->shared->tally[i].tid, __ATOMIC_RELAXED) != PROBE_TALLY_FREE)
			n += __atomic_load_n(
				&p->tally[i * (tally_size(p->counters) / sizeof(*p->tally)) + id],
				__ATOMIC_RELAXED);
	return n;
}

static struct wc_error *place_offered(struct probe_place *p, const struct probe_place_request *q,
				      const struct layout_of *l, void *offered, int id)
{
	scoped(remote_closep) struct remote r = { 0 };
	struct gadgets g;
	struct wc_error *err = gadgets_find(p->pid, &g);
	long result;

	if (!err)
		err = remote_open_prepared(p->pid, 0, p->held, &r);
	if (!err)
		err = far_map_prepare(&r, &g, l->size);
	if (!err)
		err = map_home(p, q, l, &r, offered, id);
	if (!err)
		err = fill_home(p, q, l, &r);
	if (!err)
		remote_keep(&r);
	else if (p->home)
		wc_error_free(remote_syscall(&r, NR_MUNMAP, p->home, l->size, 0, 0, 0, 0, &result));
	return err;
}

struct wc_error *probe_place(const struct probe_place_request *q, struct probe_place *ret)
{
	struct probe_place p = { .pid = q->pid, .held = q->held };
	const struct layout_of l = lay_out(q);
	struct wc_error *err;
	void *offered;
	int id = -1;

	if (!tsc_usable())
		return wc_error_new(WC_ENOTSUP, "probes need the time stamp counter, and %s",
				    tsc_unusable_why());
	if (getrandom(&p.cookie, sizeof(p.cookie), GRND_NONBLOCK) != sizeof(p.cookie))
		p.cookie = monotonic_ns();
	offered = shared_area_offer(q->pid, l.size - l.ring_at, &id);
	err = place_offered(&p, q, &l, offered, id);
	if (offered)
		shared_area_close(id);
	if (err && (offered || p.shared))
		munmap(p.shared ? (void *)p.shared : offered, l.size - l.ring_at);
	if (!err)
		*ret = p;
	return err;
}

static bool write_range(const struct probe_place *p, uint32_t i, const struct probe_range *r, uint32_t nnear)
{
	return proc_write(p->pid, p->home + offsetof(struct probe_home, near) + i * sizeof(*r), r,
			  sizeof(*r)) &&
	       proc_write(p->pid, p->home + offsetof(struct probe_home, nnear), &nnear, sizeof(nnear));
}

/* The page of the switch is zero in a forked child: its trampolines do nothing. */
static struct wc_error *map_near(struct remote *r, const struct probe_range *range, bool *taken)
{
	const uint64_t data = range->start + range->code_size;
	struct wc_error *err;
	long result;

	err = remote_syscall(r, NR_MMAP, range->start, (uint64_t)range->code_size + range->data_size,
			     PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
			     (uint64_t)-1, 0, &result);
	if (err)
		return err;
	*taken = result == -EEXIST;
	if (*taken)
		return NULL;
	if (result != (long)range->start)
		return map_failed(r->thread.pid, result < 0 ? result : -EEXIST);
	err = map_data(r, data, range->data_size, MAP_PRIVATE);
	if (err)
		return err;
	err = remote_syscall(r, NR_MADVISE, data + PROBE_PAGE, PROBE_PAGE, MADV_WIPEONFORK, 0, 0, 0, &result);
	if (!err && result)
		err = map_failed(r->thread.pid, result);
	return err;
}

struct wc_error *probe_place_near(struct probe_place *p, const struct probe_range *range, bool *taken)
{
	scoped(remote_closep) struct remote r = { 0 };
	struct gadgets g;
	struct wc_error *err;

	*taken = false;
	if (p->nnear == PROBE_NEARS)
		return wc_error_new(WC_ENOTSUP, "process %d has too many modules", p->pid);
	if (!write_range(p, p->nnear, range, p->nnear + 1))
		return write_failed(p->pid);
	err = gadgets_find(p->pid, &g);
	if (!err)
		err = remote_open_prepared(p->pid, 0, p->held, &r);
	if (!err)
		err = remote_use_gadgets(&r, &g);
	if (!err)
		err = map_near(&r, range, taken);
	if (err || *taken)
		write_range(p, p->nnear, &(struct probe_range){ 0 }, p->nnear);
	else
		p->near[p->nnear++] = *range;
	return err;
}

size_t probe_place_left(const struct probe_place *p)
{
	return PROBE_NEARS - p->nnear;
}

static bool write_ranges(const struct probe_place *p, const struct probe_range *range, size_t n)
{
	const uint32_t nnear = p->nnear + (uint32_t)n;

	return proc_write(p->pid, p->home + offsetof(struct probe_home, near) + p->nnear * sizeof(*range),
			  range, n * sizeof(*range)) &&
	       proc_write(p->pid, p->home + offsetof(struct probe_home, nnear), &nnear, sizeof(nnear));
}

static struct wc_error *map_puns(const struct probe_place *p, const struct gadgets *g,
				 struct probe_range *range, size_t n)
{
	scoped(remote_closep) struct remote r = { 0 };
	struct wc_error *err = remote_open_prepared(p->pid, 0, p->held, &r);
	long result;

	if (!err)
		err = remote_use_gadgets(&r, g);
	for (size_t i = 0; i < n && !err; i++) {
		err = remote_syscall(&r, NR_MMAP, range[i].start, range[i].code_size, PROT_READ | PROT_EXEC,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, (uint64_t)-1, 0,
				     &result);
		if (!err && result != (long)range[i].start)
			range[i] = (struct probe_range){ 0 };
	}
	return err;
}

struct wc_error *probe_place_puns(struct probe_place *p, struct probe_range *range, size_t n)
{
	struct gadgets g;
	struct wc_error *err;

	if (!n)
		return NULL;
	if (!write_ranges(p, range, n))
		return write_failed(p->pid);
	err = gadgets_find(p->pid, &g);
	for (size_t i = 0; i < n && !err; i += AREAS_AT_ONCE)
		err = map_puns(p, &g, range + i, n - i < AREAS_AT_ONCE ? n - i : AREAS_AT_ONCE);
	if (!err && !write_ranges(p, range, n))
		err = write_failed(p->pid);
	memcpy(p->near + p->nnear, range, n * sizeof(*range));
	p->nnear += (uint32_t)n;
	return err;
}

struct blank {
	uint64_t start, end;
	bool fits;
};

static bool is_code_of_nobody(void *ctx, const struct proc_map *m)
{
	struct blank *b = ctx;

	if (m->end <= b->start)
		return true;
	b->fits =
		m->start <= b->start && m->end >= b->end && m->exec && !m->write && !m->shared && !m->name[0];
	return false;
}

/* Mapped by somebody who was killed before anything was written into it. */
static bool is_blank(const struct probe_place *p, const struct probe_range *range)
{
	const struct memory_view mem = proc_memory(&p->pid);
	struct blank b = { range->start, range->start + range->code_size, false };
	uint64_t word[PROBE_PAGE / 8], sum = 0;

	if (!range->code_size || !proc_maps(p->pid, is_code_of_nobody, &b) || !b.fits ||
	    !memory_read(&mem, range->start, word, sizeof(word)))
		return false;
	for (unsigned int i = 0; i < PROBE_PAGE / 8; i++)
		sum |= word[i];
	return !sum;
}

bool probe_place_owns(const struct probe_place *p, const struct probe_range *range)
{
	const struct memory_view mem = proc_memory(&p->pid);
	struct probe_pun_head puns;
	struct probe_near n;

	if (probe_range_is_puns(range)) {
		if (!memory_read(&mem, range->start, &puns, sizeof(puns)))
			return false;
		return puns.magic == PROBE_PUN_MAGIC ? puns.cookie == p->cookie : is_blank(p, range);
	}
	if (!memory_read(&mem, range->start + range->code_size, &n, sizeof(n)))
		return false;
	return n.magic == PROBE_NEAR_MAGIC ? n.cookie == p->cookie : is_blank(p, range);
}

/* Somebody may have taken it out meanwhile, and the program put something else there. */
static bool home_is_ours(const struct probe_place *p)
{
	const struct memory_view mem = proc_memory(&p->pid);
	struct probe_home h;

	return memory_read(&mem, p->home, &h, sizeof(h)) && h.magic == PROBE_HOME_MAGIC &&
	       h.cookie == p->cookie;
}

/* Areas from @from on, as many as a thread can be kept for; behind the last one the home. *@next: where to go on. */
static struct wc_error *remove_some(struct probe_place *p, const struct gadgets *g, uint32_t from,
				    uint32_t *next)
{
	scoped(remote_closep) struct remote r = { 0 };
	struct wc_error *err = remote_open_prepared(p->pid, 0, p->held, &r);
	uint32_t end = p->nnear - from < AREAS_AT_ONCE ? p->nnear : from + AREAS_AT_ONCE;
	long result;

	if (!err)
		err = remote_use_gadgets(&r, g);
	for (uint32_t i = from; i < end && !err; i++)
		if (probe_place_owns(p, &p->near[i]))
			err = remote_syscall(&r, NR_MUNMAP, p->near[i].start,
					     (uint64_t)p->near[i].code_size + p->near[i].data_size, 0, 0, 0,
					     0, &result);
	if (!err && end == p->nnear && home_is_ours(p))
		err = remote_syscall(&r, NR_MUNMAP, p->home, p->size, 0, 0, 0, 0, &result);
	*next = end;
	return err;
}

struct wc_error *probe_place_remove(struct probe_place *p)
{
	struct gadgets g;
	struct wc_error *err = gadgets_find(p->pid, &g);
	uint32_t at = 0;

	do {
		if (!err)
			err = remove_some(p, &g, at, &at);
	} while (!err && at < p->nnear);
	if (!err)
		p->home = 0;
	return err;
}

void probe_place_deinit(struct probe_place *p)
{
	if (p->shared)
		munmap(p->shared, p->ring_size);
	*p = (struct probe_place){ 0 };
}
