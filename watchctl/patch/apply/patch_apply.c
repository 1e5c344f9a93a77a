#include "watchctl/patch/apply/patch_apply.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "watchctl/base/bisect.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/patch/apply/code_pages.h"
#include "watchctl/patch/apply/patch_apply_impl.h"
#include "watchctl/patch/apply/patch_threads.h"
#include "watchctl/target/proc/proc.h"

#define TRIES 20u
#define PAUSE_NS 5000000
#define BATCH_PAGES 64u
#define NONE 0xffffu

void patch_note_hold(struct patch_hold_times *t, uint64_t ns)
{
	if (ns > t->longest_ns)
		t->longest_ns = ns;
	t->stops++;
}

static struct wc_error *gone(const struct probe_place *p)
{
	return wc_error_errno(errno == EPERM || errno == EACCES ? WC_EPERM : WC_ETARGET, errno,
			      "cannot write into process %d", p->pid);
}

/* What can be seen without stopping anybody. */
static void look_at_bytes(const struct probe_place *p, struct patch_job *j)
{
	const struct memory_view mem = proc_memory(&p->pid);
	const size_t len = (size_t)j->patch.len + j->patch.tail;
	uint8_t now[PROBE_PATCH_MAX];

	j->result = PATCH_IN_USE;
	if (j->was_refused || j->patch.addr / PROBE_PAGE != (j->patch.addr + j->patch.len - 1) / PROBE_PAGE)
		j->result = PATCH_REFUSED;
	else if (!memory_read(&mem, j->patch.addr, now, len))
		j->result = PATCH_UNREADABLE;
	else if (j->was_applied && !memcmp(now, j->patch.written, j->patch.len))
		j->result = PATCH_APPLIED;
	else if (memcmp(now, j->patch.original, len) != 0)
		j->result = PATCH_CHANGED;
}

static bool is_wanted(const struct patch_job *j)
{
	return j->result == PATCH_IN_USE && !j->waits;
}

/* What lies within the overwritten bytes: not where they begin. */
static size_t inner_ranges(const struct patch_job *job, size_t n, struct code_range *ret)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		if (is_wanted(&job[i]) && job[i].patch.len > 1)
			ret[count++] = (struct code_range){ job[i].patch.addr + 1,
							    job[i].patch.addr + job[i].patch.len, false };
	return count;
}

static struct patch_job *job_at(struct patch_job *job, size_t n, uint64_t addr)
{
	size_t low = BISECT(n, i, job[i].patch.addr + job[i].patch.len <= addr);
	return low < n && job[low].patch.addr <= addr && is_wanted(&job[low]) ? &job[low] : NULL;
}

/* The copy of the instruction at @addr; 0: none. */
static uint64_t copy_of(const struct patch_job *j, const uint16_t *place, uint64_t addr)
{
	uint64_t offset = addr - j->patch.addr;

	return j->patch.moved && offset < PROBE_PATCH_MAX && place[offset] != NONE
		       ? j->patch.trampoline + place[offset]
		       : 0;
}

/*
 * The job in whose bytes the thread would go on, past the first: of one in a system call that may be the instruction of that, which
 * may start again, or what is behind. NULL: none.
 */
static struct patch_job *job_of(const struct tracee *t, struct patch_job *job, size_t n)
{
	const uint64_t rip = t->home.rip;
	struct patch_job *j;

	if (tracee_in_syscall(t)) {
		j = job_at(job, n, rip - 2);
		if (j && rip - 2 > j->patch.addr)
			return j;
	}
	j = job_at(job, n, rip);
	return j && rip > j->patch.addr ? j : NULL;
}

/* It goes on in the copy. Behind a system call: in the copy of that. False: there is none. */
static bool move_in(struct tracee *t, const struct patch_job *j)
{
	const uint64_t rip = t->home.rip;
	uint64_t to;

	if (tracee_in_syscall(t)) {
		to = copy_of(j, j->patch.copy, rip - 2);
		return to && tracee_move(t, to + 2, NULL);
	}
	to = copy_of(j, j->enter, rip);
	return to && tracee_move(t, to, NULL);
}

/* Where an address within the bytes lies on a stack, a thread will come back there. */
static void give_way(struct patch_job *job, size_t n, struct code_range *range, size_t nranges, bool *blocked)
{
	for (size_t i = 0; i < n; i++) {
		struct code_range *r =
			job[i].patch.len > 1 ? code_range_find(range, nranges, job[i].patch.addr + 1) : NULL;

		blocked[i] = r && r->found;
	}
}

static void move_threads(struct stop_all *s, struct patch_job *job, size_t n, bool *blocked)
{
	for (size_t i = 0; i < s->n; i++) {
		struct patch_job *j = job_of(&s->v[i], job, n);

		if (j && !blocked[j - job] && !move_in(&s->v[i], j))
			blocked[j - job] = true;
	}
}

/* The number of each thread must be where it was found for one: else the kernel is asked each time. */
static void check_tids(const struct probe_place *p, const struct stop_all *s)
{
	int32_t at = p->shared ? p->shared->tid_at : 0;
	struct proc_status status;
	uint32_t word;

	for (size_t i = 0; at && i < s->n; i++) {
		const struct memory_view mem = proc_memory(&s->v[i].pid);

		if (s->v[i].pid == p->pid && proc_status_read(p->pid, s->v[i].tid, &status) &&
		    (!memory_read(&mem, s->v[i].home.fs_base + (uint64_t)at, &word, sizeof(word)) ||
		     word != (uint32_t)status.ns_id))
			p->shared->tid_at = at = 0;
	}
}

/* What leads to a way station must never be there without it. */
static bool may_write(const struct patch_job *j, bool blocked)
{
	return is_wanted(j) && !blocked && (!j->via || j->via->result == PATCH_APPLIED);
}

/* What is to be written over, and what has to stay behind it, is what it was. @at: the former, as it is to be written. */
static bool is_unchanged(const struct probe_place *p, const struct probe_patch *q, const uint8_t *at)
{
	const struct memory_view mem = proc_memory(&p->pid);
	uint8_t tail[PROBE_PATCH_MAX];

	if (memcmp(at, q->original, q->len) != 0)
		return false;
	return !q->tail || (memory_read(&mem, q->addr + q->len, tail, q->tail) &&
			    !memcmp(tail, q->original + q->len, q->tail));
}

/* Results are noted once a page is written: of one that could not be, nothing is. */
static struct wc_error *write_jobs(const struct probe_place *p, struct patch_job *job, size_t n,
				   const bool *blocked)
{
	struct code_pages pages = { .pid = p->pid };

	for (size_t i = 0; i < n; i++) {
		uint8_t *at =
			may_write(&job[i], blocked[i]) ? code_pages_at(&pages, job[i].patch.addr) : NULL;

		if (!may_write(&job[i], blocked[i]))
			continue;
		if (pages.failed)
			return gone(p);
		if (!at) {
			job[i].result = PATCH_UNREADABLE;
			continue;
		}
		if (!is_unchanged(p, &job[i].patch, at)) {
			job[i].result = PATCH_CHANGED;
			continue;
		}
		memcpy(at, job[i].patch.written, job[i].patch.len);
		code_pages_change(&pages);
		job[i].result = PATCH_APPLIED;
	}
	return code_pages_flush(&pages) ? NULL : gone(p);
}

/* One stop: what nobody stands in the way of is written. */
static struct wc_error *try_once(struct probe_place *p, struct patch_job *job, size_t n,
				 struct patch_hold_times *times)
{
	scoped(freep) struct code_range *range = calloc(n, sizeof(*range));
	scoped(freep) bool *blocked = calloc(n, sizeof(*blocked));
	struct stop_all s;
	struct wc_error *err;
	size_t nranges;

	if (!range || !blocked)
		return &wc_enomem;
	nranges = inner_ranges(job, n, range);
	err = stop_all(p->pid, p->held, &s);
	if (err)
		return err;
	check_tids(p, &s);
	if (!patch_threads_look(&s, range, nranges)) {
		err = wc_error_new(WC_ENOTSUP, "a stack of process %d cannot be read", p->pid);
	} else {
		give_way(job, n, range, nranges, blocked);
		move_threads(&s, job, n, blocked);
		err = write_jobs(p, job, n, blocked);
	}
	patch_note_hold(times, stop_all_release(&s));
	return err;
}

static bool any_wanted(const struct patch_job *job, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (is_wanted(&job[i]))
			return true;
	return false;
}

/* The records lie one behind the other, as the jobs do. */
static struct wc_error *write_records(const struct probe_place *p, const struct patch_job *job, size_t n)
{
	scoped(freep) struct probe_patch *record = calloc(n + 1, sizeof(*record));

	if (!record)
		return &wc_enomem;
	for (size_t i = 0; i < n; i++)
		record[i] = job[i].patch;
	return proc_write(p->pid, job[0].record, record, n * sizeof(*record)) ? NULL : gone(p);
}

/* What leads to a way station goes with it. */
static void join_stations(struct patch_job *job, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (is_wanted(&job[i]) && job[i].via && !is_wanted(job[i].via))
			job[i].result = job[i].via->result;
}

/* Of one that nothing is done about now. What somebody has changed who may put it back is kept in mind. */
static uint8_t state_of(const struct probe_place *p, const struct patch_job *j)
{
	if (j->result == PATCH_APPLIED)
		return PROBE_PATCH_DONE;
	if (!j->was_applied)
		return PROBE_PATCH_PLANNED;
	return j->result == PATCH_CHANGED && !patch_has_gone(p, &j->patch) ? j->patch.state
									   : PROBE_PATCH_REMOVED;
}

static struct wc_error *announce(const struct probe_place *p, struct patch_job *job, size_t n)
{
	struct wc_error *err;

	for (size_t i = 0; i < n; i++)
		look_at_bytes(p, &job[i]);
	join_stations(job, n);
	for (size_t i = 0; i < n; i++)
		job[i].patch.state = is_wanted(&job[i]) ? PROBE_PATCH_WRITING : state_of(p, &job[i]);
	err = write_records(p, job, n);
	if (!err)
		err = patch_heed_others(p, job, n);
	join_stations(job, n);
	return err;
}

static struct wc_error *settle(const struct probe_place *p, struct patch_job *job, size_t n)
{
	for (size_t i = 0; i < n; i++)
		job[i].patch.state = state_of(p, &job[i]);
	return write_records(p, job, n);
}

static struct wc_error *apply_batch(struct probe_place *p, struct patch_job *job, size_t n,
				    struct patch_hold_times *times)
{
	struct wc_error *err = NULL;

	for (unsigned int i = 0; i < TRIES && !err && any_wanted(job, n); i++) {
		if (i)
			nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
		err = try_once(p, job, n, times);
	}
	return err;
}

/* So many that the threads do not stand for long. */
static size_t batch_from(const struct patch_job *job, size_t n, size_t from)
{
	uint64_t page = 0;
	size_t pages = 0, i;

	for (i = from; i < n; i++) {
		if (job[i].patch.addr / PROBE_PAGE != page)
			pages++;
		if (pages > BATCH_PAGES)
			break;
		page = job[i].patch.addr / PROBE_PAGE;
	}
	return i - from;
}

/*
 * First all way stations, which nothing leads to yet; then what leads to them, or to a trampoline. Those that are to wait are passed
 * over by their result.
 */
static struct wc_error *apply_pass(struct probe_place *p, struct patch_job *job, size_t n,
				   struct patch_hold_times *times)
{
	struct wc_error *err = NULL;

	for (size_t from = 0, count; from < n && !err; from += count) {
		count = batch_from(job, n, from);
		err = apply_batch(p, job + from, count, times);
	}
	return err;
}

struct wc_error *patch_apply(struct probe_place *p, struct patch_job *job, size_t n,
			     struct patch_hold_times *times)
{
	struct wc_error *err;

	if (!n)
		return NULL;
	err = announce(p, job, n);
	for (unsigned int pass = 0; pass < 2 && !err; pass++) {
		for (size_t i = 0; i < n; i++)
			job[i].waits = (job[i].patch.moved == 0) != (pass == 0);
		err = apply_pass(p, job, n, times);
	}
	return err ? err : settle(p, job, n);
}
