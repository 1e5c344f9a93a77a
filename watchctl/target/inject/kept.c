#include "watchctl/target/inject/kept.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/vec.h"
#include "watchctl/target/inject/placed.h"
#include "watchctl/target/inject/scratch.h"
#include "watchctl/target/proc/layout.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/tracee.h"

#define PAGE 4096u
#define PAGES 4096u	   /* looked up at once */
#define PIECE (64u * PAGE) /* read at once */
#define VAST (1ull << 40)  /* a sanitizer's shadow, which holds no words of the program's */
#define MOST_NS 3000000000ull
#define STOP_MS 200
#define RED_ZONE 128u
#define DEAD_MOST (128u << 10) /* below a stack pointer, where not all of it need be that stack */

struct stretch {
	uint64_t start, end;
};

struct search {
	pid_t pid;
	const uint64_t *handler;
	unsigned int n;
	uint64_t until_ns;
	struct stretch *out; /* not looked at */
	size_t nout, out_cap;
	uint64_t *entry; /* PAGES */
	uint64_t *word;	 /* PIECE bytes */
	enum kept kept;
	uint64_t at;
	bool any_read;
	bool no_pagemap; /* which pages there are may not be known: to read them all could touch new ones */
};

static bool leave_out(struct search *s, uint64_t start, uint64_t end)
{
	return start >= end || vec_push(s->out, s->nout, s->out_cap, (struct stretch){ start, end });
}

static bool is_left_out(const struct search *s, uint64_t at)
{
	size_t i;

	for (i = 0; i < s->nout; i++)
		if (at >= s->out[i].start && at < s->out[i].end)
			return true;
	return false;
}

/* What is left out */

static bool leave_out_handlers(struct search *s)
{
	struct placed_list found = { 0 };
	struct wc_error *err = placed_find(s->pid, &found);
	bool ok = true;
	size_t i;

	for (i = 0; i < found.n && ok; i++) {
		const struct wire_control *c = found.v[i].control;

		ok = !c || leave_out(s, c->code_start, c->code_start + c->mapping_size);
	}
	placed_list_deinit(&found);
	wc_error_free(err);
	return ok;
}

/* False: it has ended, or does not stop. */
static bool look_at_thread(pid_t pid, pid_t tid, uint64_t *sp, uint64_t *tls)
{
	struct tracee t;
	uint64_t pc;

	*tls = 0;
	if (proc_resting(pid, tid, sp, &pc))
		return true;
	if (tracee_stop(pid, tid, STOP_MS, &t) != TRACEE_STOPPED)
		return false;
	*sp = t.home.rsp;
	*tls = t.home.fs_base;
	tracee_release(&t);
	return true;
}

/* Of a thread that rests only the stack pointer is known: on whose stack it is shows the guard below that. */
static bool leave_out_below(struct search *s, const struct layout *l, uint64_t sp, uint64_t tls)
{
	uint64_t start, end, low = sp > DEAD_MOST ? sp - DEAD_MOST : 0;

	layout_main_stack(l, &start, &end);
	if (sp >= start && sp < end)
		return leave_out(s, start, sp - RED_ZONE);
	if (tls ? layout_thread_stack(l, sp, tls, &start) : layout_guarded(l, sp, &start))
		return leave_out(s, low > start ? low : start, sp - RED_ZONE);
	return true;
}

static bool leave_out_stacks(struct search *s)
{
	struct layout *l = layout_read(s->pid);
	struct thread_ids ids = { 0 };
	bool ok = l && proc_threads(s->pid, &ids);
	uint64_t start, end, sp, tls;
	size_t i;

	if (ok) {
		layout_main_stack(l, &start, &end);
		ok = leave_out(s, start, scratch_end(s->pid, start));
	}
	for (i = 0; ok && i < ids.n; i++)
		if (look_at_thread(s->pid, ids.v[i], &sp, &tls))
			ok = leave_out_below(s, l, sp, tls);
	thread_ids_deinit(&ids);
	layout_free(l);
	return ok;
}

/* Looking */

static bool is_one(const struct search *s, uint64_t word)
{
	unsigned int i;

	for (i = 0; i < s->n; i++)
		if (word == s->handler[i])
			return true;
	return false;
}

/* Without a way out of the loop, so that the compiler has it look at several words at once. */
static bool has(const uint64_t *word, size_t n, uint64_t wanted)
{
	bool found = false;
	size_t i;

	for (i = 0; i < n; i++)
		found |= word[i] == wanted;
	return found;
}

static bool has_any(const struct search *s, size_t n)
{
	bool any = false;
	unsigned int i;

	for (i = 0; i < s->n; i++)
		any |= has(s->word, n, s->handler[i]);
	return any;
}

/* False: found. */
static bool look_at_words(struct search *s, uint64_t from, size_t n)
{
	size_t i;

	if (!has_any(s, n))
		return true;
	for (i = 0; i < n; i++) {
		if (!is_one(s, s->word[i]) || is_left_out(s, from + 8 * i))
			continue;
		s->kept = KEPT_SOMEWHERE;
		s->at = from + 8 * i;
		return false;
	}
	return true;
}

/* A page that cannot be read has been given back meanwhile. */
static bool look_at_run(struct search *s, uint64_t from, uint64_t to)
{
	while (from < to) {
		size_t got = proc_read_some(s->pid, from, s->word, to - from < PIECE ? to - from : PIECE);

		if (!look_at_words(s, from, got / 8))
			return false;
		s->any_read |= got;
		from += got < PAGE ? PAGE : got / PAGE * PAGE;
	}
	return true;
}

static bool is_written(uint64_t entry)
{
	return (entry & PROC_PAGE_PRESENT_OR_SWAPPED) && !(entry & PROC_PAGE_OF_FILE);
}

static bool look_at_pages(struct search *s, uint64_t start, size_t n)
{
	size_t i, k;

	if (!proc_pagemap(s->pid, start, s->entry, n)) {
		s->no_pagemap = errno == EPERM || errno == EACCES;
		if (!s->no_pagemap)
			s->kept = KEPT_UNKNOWN;
		return false;
	}
	for (i = 0; i < n; i = k) {
		for (k = i; k < n && is_written(s->entry[k]); k++)
			;
		if (k > i && !look_at_run(s, start + i * PAGE, start + k * PAGE))
			return false;
		k += k == i;
	}
	return true;
}

static bool is_late(struct search *s)
{
	if (monotonic_ns() < s->until_ns)
		return false;
	s->kept = KEPT_UNKNOWN;
	return true;
}

static bool look_at_map(void *ctx, const struct proc_map *m)
{
	struct search *s = ctx;
	uint64_t at = m->start;

	if (m->shared || !m->read || !strncmp(m->name, "[v", 2) || m->end - m->start > VAST)
		return true;
	while (at < m->end) {
		size_t left = (m->end - at) / PAGE, n = left < PAGES ? left : PAGES;

		if (!look_at_pages(s, at, n) || is_late(s))
			return false;
		at += n * PAGE;
	}
	return true;
}

enum kept kept_look(pid_t pid, const uint64_t *handler, unsigned int n, uint64_t *ret_at)
{
	struct search s = { .pid = pid,
			    .handler = handler,
			    .n = n,
			    .until_ns = monotonic_ns() + MOST_NS,
			    .entry = malloc(PAGES * sizeof(uint64_t)),
			    .word = malloc(PIECE) };
	bool looked = s.entry && s.word && leave_out_handlers(&s) && leave_out_stacks(&s) &&
		      proc_maps(pid, look_at_map, &s) && s.any_read;

	free(s.entry);
	free(s.word);
	free(s.out);
	*ret_at = s.at;
	if (s.no_pagemap)
		return KEPT_NOT_LOOKED;
	if (s.kept == KEPT_NOWHERE && !looked)
		s.kept = KEPT_UNKNOWN;
	return s.kept == KEPT_UNKNOWN && proc_is_ending(pid, pid) ? KEPT_NOWHERE : s.kept;
}
