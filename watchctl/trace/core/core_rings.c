#include "watchctl/trace/core/core_rings.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/trace/calls/call_format.h"

#define BLOCK (1u << 20)
#define MAGIC_LEN 16u
#define THREADS_MAX (1u << 22) /* as many as a system has */
#define RATE_MIN 0.01
#define RATE_MAX 1000.0

/* The descriptor */

enum found { FOUND_NOTHING, FOUND_OFF, FOUND_OTHER, FOUND_IT };

struct search {
	const struct core_file *core;
	enum found found; /* the best so far */
	struct calltrace_memory memory;
	uint8_t *buf; /* BLOCK */
};

static enum found judge(const struct calltrace_memory *m, uint64_t address)
{
	if (!m->self)
		return m->version == CALLTRACE_MEMORY_VERSION ? FOUND_OFF : FOUND_OTHER;
	if (m->self != address)
		return FOUND_NOTHING; /* a copy of it, or of the magic alone */
	if (m->version != CALLTRACE_MEMORY_VERSION || m->thread_bytes != sizeof(struct thread) ||
	    m->module_bytes != sizeof(struct traced_module) || m->place_bytes != sizeof(struct output_place))
		return FOUND_OTHER;
	return FOUND_IT;
}

static void look_at(struct search *s, uint64_t address)
{
	struct calltrace_memory m;
	enum found found;

	if (!core_file_read(s->core, address, &m, sizeof(m)))
		return;
	found = judge(&m, address);
	if (found > s->found) {
		s->found = found;
		s->memory = m;
	}
}

static void search_in(struct search *s, uint64_t address, uint64_t len)
{
	while (len >= MAGIC_LEN && s->found != FOUND_IT) {
		const size_t n = len < BLOCK ? len : BLOCK;
		const uint8_t *at = s->buf, *end = s->buf + n;

		if (!core_file_read(s->core, address, s->buf, n))
			return;
		while ((at = memmem(at, (size_t)(end - at), CALLTRACE_MEMORY_MAGIC, MAGIC_LEN))) {
			look_at(s, address + (uint64_t)(at - s->buf));
			at++;
		}
		/* Goes back as far as a magic may lie across the end. */
		address += n - MAGIC_LEN + 1;
		len -= n - MAGIC_LEN + 1;
	}
}

/* Searches the data of modules first, where the descriptor is, and only then the rest, which may be much. */
static bool search(struct search *s)
{
	uint64_t address, len;

	s->buf = malloc(BLOCK);
	if (!s->buf)
		return false;
	for (int of_files = 1; of_files >= 0; of_files--)
		for (size_t i = 0; i < core_file_segments(s->core) && s->found != FOUND_IT; i++)
			if (core_file_writable(s->core, i, &address, &len) &&
			    core_file_is_of_file(s->core, address) == of_files)
				search_in(s, address, len);
	free(s->buf);
	return true;
}

static struct wc_error *lacks(const struct core_file *core, const char *path, const char *what)
{
	if (core_file_is_cut(core))
		return wc_error_new(
			WC_ELOG,
			"the core %s is cut short, and %s in what is missing (a limit, as of ulimit "
			"-c, or a full disk, may have ended it; let the program leave a whole one)",
			path, what);
	return NULL;
}

static struct wc_error *damaged(const struct core_file *core, const char *path, const char *what)
{
	struct wc_error *err = lacks(core, path, "what libcalltrace had in memory lies");

	return err ? err
		   : wc_error_new(
			     WC_ELOG,
			     "the calls in the core %s cannot be read: %s is damaged, or was left out of the core "
			     "(/proc/PID/coredump_filter must have its bits 0 and 4)",
			     path, what);
}

static struct wc_error *explain(const struct search *s, const char *path)
{
	struct wc_error *err;

	switch (s->found) {
	case FOUND_OTHER:
		return wc_error_new(
			WC_ELOG,
			"the calls in the core %s cannot be read: another version of libcalltrace has recorded them "
			"(layout %u; this watchctl reads layout %u, take the one that came with it)",
			path, s->memory.version, CALLTRACE_MEMORY_VERSION);
	case FOUND_OFF:
		return wc_error_new(
			WC_ELOG,
			"there are no calls in the core %s: the program can be traced, but was not "
			"recording (run it with CALLTRACE_OUTPUT, and CALLTRACE_RING for its last calls)",
			path);
	default:
		err = lacks(s->core, path, "what libcalltrace had in memory may be");
		return err ? err
			   : wc_error_new(
				     WC_ELOG,
				     "there are no calls in the core %s: the program was not built with calltrace-cc "
				     "(build it with that, and run it with CALLTRACE_OUTPUT and CALLTRACE_RING)",
				     path);
	}
}

static struct wc_error *find_memory(struct core_rings *r, const char *path)
{
	struct search s = { .core = r->core };
	bool is_recording = false;

	if (!search(&s))
		return &wc_enomem;
	if (s.found != FOUND_IT)
		return explain(&s, path);
	r->memory = s.memory;
	if (!core_file_read(r->core, r->memory.is_recording, &is_recording, 1))
		return damaged(r->core, path, "its state");
	if (!core_flag(&is_recording))
		return wc_error_new(
			WC_ELOG,
			"there are no calls in the core %s: when the program died it had written them all, or "
			"could not record, or was a child that fork() made (the log has what was recorded)",
			path);
	if (!core_file_read(r->core, r->memory.place, &r->place, sizeof(r->place)))
		return damaged(r->core, path, "the name of the log");
	r->place.path[sizeof(r->place.path) - 1] = '\0';
	return NULL;
}

/* Tables */

static bool take_table(struct core_rings *r, const struct traced_module *m)
{
	const size_t n = m->size / sizeof(struct calltrace_function);
	struct core_table t = {
		.low = m->low, .size = m->size, .base = m->base, .address = (uintptr_t)m->begin
	};

	/* Leaves out a table with impossible numbers: its functions are unknown then. */
	if (!m->size || m->size % sizeof(struct calltrace_function) || (uint32_t)t.address != m->low ||
	    n > CALL_FUNCTION_MAX || m->base > CALL_FUNCTION_MAX - n)
		return true;
	t.is_used = calloc(n, 1);
	t.record = malloc(m->size);
	if (t.record && !core_file_read_constant(r->core, t.address, t.record, m->size)) {
		free(t.record);
		t.record = NULL;
	}
	if (t.is_used && vec_push(r->table, r->ntables, r->table_cap, t))
		return true;
	free(t.is_used);
	free(t.record);
	return false;
}

static struct wc_error *read_tables(struct core_rings *r, const char *path)
{
	scoped(freep) struct traced_module *all = calloc(MODULES_MAX, sizeof(*all));
	unsigned int n = 0;

	if (!all)
		return &wc_enomem;
	if (!core_file_read(r->core, r->memory.nmodules, &n, sizeof(n)) || n > MODULES_MAX ||
	    !core_file_read(r->core, r->memory.modules, all, n * sizeof(*all)))
		return damaged(r->core, path, "the table of modules");
	for (unsigned int i = 0; i < n; i++)
		if (!take_table(r, &all[i]))
			return &wc_enomem;
	return NULL;
}

struct core_table *core_rings_table(struct core_rings *r, uint32_t id, uint32_t *index)
{
	for (size_t i = 0; i < r->ntables; i++) {
		struct core_table *t = &r->table[i];

		if (id - t->base < t->size / sizeof(struct calltrace_function)) {
			*index = id - t->base;
			return t;
		}
	}
	return NULL;
}

/* Threads */

static struct wc_error *read_threads(struct core_rings *r, const char *path)
{
	struct map64 seen = { 0 };
	struct wc_error *err = NULL;
	struct thread t;
	uint64_t at;

	if (!core_file_read(r->core, r->memory.first_thread, &at, sizeof(at)))
		return damaged(r->core, path, "the list of threads");
	while (at && !err && r->nthreads < THREADS_MAX) {
		if (map64_get(&seen, at) || !core_file_read(r->core, at, &t, sizeof(t))) {
			r->is_list_cut = true;
			break;
		}
		t.comm[sizeof(t.comm) - 1] = '\0';
		if (!map64_put(&seen, at, r) || !vec_push(r->thread, r->nthreads, r->thread_cap, t))
			err = &wc_enomem;
		at = (uintptr_t)t.next;
	}
	map64_deinit(&seen);
	if (!err && !r->nthreads && r->is_list_cut)
		return damaged(r->core, path, "the list of threads");
	return err;
}

/* Clocks */

static void take_point(const struct clock_point *p, struct clock_point *first, struct clock_point *last)
{
	if (!p->tsc)
		return;
	if (!first->tsc || p->tsc < first->tsc)
		*first = *p;
	if (p->tsc > last->tsc)
		*last = *p;
}

/* From the two points farthest apart; they are as old as recording, and as its last turn. */
static void find_rate(struct core_rings *r)
{
	struct clock_point first = { 0 }, last = { 0 };
	double rate;

	take_point(&r->memory.begin, &first, &last);
	for (size_t i = 0; i < r->nthreads; i++) {
		take_point(&r->thread[i].point, &first, &last);
		take_point(&r->thread[i].late, &first, &last);
	}
	rate = last.tsc > first.tsc && last.ns > first.ns
		       ? (double)(last.ns - first.ns) / (double)(last.tsc - first.tsc)
		       : 0;
	r->base = last;
	r->begin_ns = r->memory.begin.ns < last.ns ? r->memory.begin.ns : last.ns;
	r->cycles = rate >= RATE_MIN && rate <= RATE_MAX ? last.tsc - first.tsc : 0;
	r->ns_per_cycle = r->cycles ? rate : 1;
}

/* In ns, of so many cycles. Nothing lasts for longer than centuries. */
static uint64_t duration(const struct core_rings *r, uint64_t cycles)
{
	const double ns = (double)cycles * r->ns_per_cycle;

	return ns < 9e18 ? (uint64_t)ns : (uint64_t)9e18;
}

uint64_t core_rings_time(const struct core_rings *r, uint64_t tsc)
{
	uint64_t d;

	if (tsc >= r->base.tsc) {
		d = duration(r, tsc - r->base.tsc);
		return r->base.ns + d < r->base.ns ? r->base.ns : r->base.ns + d;
	}
	d = duration(r, r->base.tsc - tsc);
	return d < r->base.ns && r->base.ns - d > r->begin_ns ? r->base.ns - d : r->begin_ns;
}

uint64_t core_rings_error(const struct core_rings *r, uint64_t tsc)
{
	const uint64_t far = tsc > r->base.tsc ? tsc - r->base.tsc : 0;

	if (!r->cycles)
		return duration(r, far);
	return duration(r, (uint64_t)((double)far * WIDE_SAMPLE / (double)r->cycles) + WIDE_SAMPLE);
}

struct wc_error *core_rings_read(struct core_file *core, const char *path, struct core_rings *ret)
{
	struct wc_error *err;

	ret->core = core;
	err = find_memory(ret, path);
	if (!err)
		err = read_tables(ret, path);
	if (!err)
		err = read_threads(ret, path);
	if (!err)
		find_rate(ret);
	return err;
}

void core_rings_deinit(struct core_rings *r)
{
	for (size_t i = 0; i < r->ntables; i++) {
		free(r->table[i].record);
		free(r->table[i].is_used);
	}
	free(r->table);
	free(r->thread);
	*r = (struct core_rings){ 0 };
}
