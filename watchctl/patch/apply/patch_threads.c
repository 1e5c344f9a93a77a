#include "watchctl/patch/apply/patch_threads.h"

#include <stdlib.h>

#include "watchctl/base/bisect.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/target/proc/proc.h"

#define CHUNK 65536u
#define RED_ZONE 128u
#define BEHIND_RIP 2u /* words of a signal's frame that are looked at */
#define USER_CS 0x33u /* arch/x86/include/asm/segment.h */
#define USER_DS 0x2bu
#define FLAGS_ALWAYS 2u

struct spans {
	struct span {
		uint64_t start, end;
	} * v;
	size_t n, cap;
	bool failed;
};

static void spans_deinit(struct spans *s)
{
	free(s->v);
}

static bool add_span(void *ctx, const struct proc_map *m)
{
	struct spans *s = ctx;

	if (m->write && m->read)
		s->failed |= !vec_push(s->v, s->n, s->cap, (struct span){ m->start, m->end });
	return !s->failed;
}

static const struct span *span_of(const struct spans *s, uint64_t addr)
{
	size_t low = BISECT(s->n, i, s->v[i].end <= addr);
	return low < s->n && s->v[low].start <= addr ? &s->v[low] : NULL;
}

struct code_range *code_range_find(struct code_range *range, size_t n, uint64_t addr)
{
	size_t low = BISECT(n, i, range[i].end <= addr);
	return low < n && range[low].start <= addr ? &range[low] : NULL;
}

/*
 * Behind the rip of an interrupted thread stand its flags, and the selectors of its segments (arch/x86/include/uapi/asm/
 * sigcontext.h): of user code of 64 bits.
 */
static bool is_signal_frame(const uint64_t *rip)
{
	const uint64_t flags = rip[1], cs = rip[2] & 0xffff, gs_and_fs = rip[2] >> 16 & 0xffffffff,
		       ss = rip[2] >> 48;

	return flags >> 22 == 0 && (flags & FLAGS_ALWAYS) && cs == USER_CS && !gs_and_fs &&
	       (!ss || ss == USER_DS);
}

static void look_at_words(const uint64_t *word, size_t nwords, struct code_range *range, size_t n)
{
	const uint64_t low = range[0].start, high = range[n - 1].end;
	struct code_range *r;

	for (size_t i = 0; i + BEHIND_RIP < nwords; i++)
		if (word[i] - low < high - low && is_signal_frame(&word[i]) &&
		    (r = code_range_find(range, n, word[i])))
			r->found = true;
}

static bool look_at_stack(const struct tracee *t, const struct span *s, uint8_t *buf,
			  struct code_range *range, size_t n)
{
	uint64_t at = (t->home.rsp - RED_ZONE) & ~7ull;

	if (at < s->start)
		at = s->start;
	while (at < s->end) {
		uint64_t want = s->end - at < CHUNK ? s->end - at : CHUNK;
		size_t got = proc_read_some(t->pid, at, buf, want);

		if (got < want && got < 8)
			return at > t->home.rsp; /* the rest of a mapping that was one with others */
		look_at_words((const uint64_t *)(void *)buf, got / 8, range, n);
		if (got < want || at + got >= s->end || got / 8 <= BEHIND_RIP)
			break;
		at += (got / 8 - BEHIND_RIP) * 8;
	}
	return true;
}

bool patch_threads_look(const struct stop_all *s, struct code_range *range, size_t n)
{
	scoped(spans_deinit) struct spans spans = { 0 };
	scoped(freep) uint8_t *buf = malloc(CHUNK);

	if (!n || !s->n)
		return true;
	if (!buf || !proc_maps(s->v[0].pid, add_span, &spans) || spans.failed)
		return false;
	for (size_t i = 0; i < s->n; i++) {
		const struct span *span = span_of(&spans, s->v[i].home.rsp);

		/* A stack pointer in no memory has no stack: nothing can return there. */
		if (span && !look_at_stack(&s->v[i], span, buf, range, n))
			return false;
	}
	return true;
}
