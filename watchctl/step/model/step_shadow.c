#include "watchctl/step/model/step_shadow.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"

#define WORD 8u
#define GAP_MAX 1024u /* reading so much more costs less than another call */

struct shadow_span {
	uint64_t start, end;
	size_t at;	 /* in the copies */
	size_t first, n; /* objects */
	bool known;
};

static int by_start(const void *a, const void *b)
{
	const struct stepper_code *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static bool add_object(struct step_shadow *s, size_t i, size_t *size)
{
	const struct stepper_code *o = &s->object[i];
	struct shadow_span *last = s->nspans ? &s->span[s->nspans - 1] : NULL;
	struct shadow_span add = { .start = o->start, .end = o->end, .at = *size, .first = i, .n = 1 };

	if (last && o->start - last->end <= GAP_MAX) {
		*size += o->end - last->end;
		last->end = o->end;
		last->n++;
		return true;
	}
	*size += o->end - o->start;
	if (!vec_reserve((void **)&s->span, &s->spans_cap, s->nspans + 1, sizeof(*s->span)) || !s->span)
		return false;
	s->span[s->nspans++] = add;
	return true;
}

bool step_shadow_set(struct step_shadow *s, const struct stepper_code *object, size_t n)
{
	size_t size = 0;
	bool ok = true;

	step_shadow_deinit(s);
	s->object = calloc(n + 1, sizeof(*object));
	if (!s->object)
		return false;
	if (n) {
		memcpy(s->object, object, n * sizeof(*object));
		qsort(s->object, n, sizeof(*object), by_start);
	}
	s->n = n;
	for (size_t i = 0; ok && i < n; i++)
		ok = add_object(s, i, &size);
	s->bytes = malloc(size + 1);
	s->now = malloc(size + 1);
	if (ok && s->bytes && s->now)
		return true;
	step_shadow_deinit(s);
	return false;
}

void step_shadow_forget(struct step_shadow *s)
{
	for (size_t i = 0; i < s->nspans; i++)
		s->span[i].known = false;
}

static uint32_t word_at(const struct stepper_code *o, uint64_t at)
{
	return o->end - at < WORD ? (uint32_t)(o->end - at) : WORD;
}

struct looking {
	void (*changed)(void *ctx, const struct shadow_change *c);
	void *ctx;
};

/* Tells [from, end) of @o, whose bytes are @before and @now, with what lies around it. */
static void tell_run(const struct stepper_code *o, const uint8_t *before, const uint8_t *now, uint64_t from,
		     uint64_t end, const struct looking *l)
{
	from = from - o->start > SHADOW_AROUND ? from - SHADOW_AROUND : o->start;
	end = o->end - end > SHADOW_AROUND ? end + SHADOW_AROUND : o->end;
	l->changed(l->ctx, &(struct shadow_change){ .address = from,
						    .len = (uint32_t)(end - from),
						    .bytes = now + (from - o->start),
						    .before = before + (from - o->start) });
}

static void compare_object(const struct stepper_code *o, const uint8_t *before, const uint8_t *now,
			   const struct looking *l)
{
	uint64_t at = o->start, from = 0, end = 0, next;

	for (; at < o->end; at = next) {
		next = at + word_at(o, at);
		if (memcmp(before + (at - o->start), now + (at - o->start), next - at) == 0)
			continue;
		if (from && (at - end > 2 * SHADOW_AROUND || next - from > SHADOW_RUN_MAX)) {
			tell_run(o, before, now, from, end, l);
			from = 0;
		}
		from = from ? from : at;
		end = next;
	}
	if (from)
		tell_run(o, before, now, from, end, l);
}

static void look_at_span(struct step_shadow *s, struct shadow_span *span, const struct memory_view *memory,
			 const struct looking *l)
{
	uint8_t *old = s->bytes + span->at, *now = s->now + span->at;
	const size_t len = span->end - span->start;

	if (!memory_read(memory, span->start, now, len)) {
		span->known = false;
		return;
	}
	if (span->known && memcmp(old, now, len) == 0)
		return;
	for (size_t i = span->first; span->known && i < span->first + span->n; i++) {
		const struct stepper_code *o = &s->object[i];
		const size_t at = o->start - span->start;

		if (memcmp(old + at, now + at, o->end - o->start) != 0)
			compare_object(o, old + at, now + at, l);
	}
	memcpy(old, now, len);
	span->known = true;
}

void step_shadow_look(struct step_shadow *s, const struct memory_view *memory,
		      void (*changed)(void *ctx, const struct shadow_change *c), void *ctx)
{
	const struct looking l = { changed, ctx };

	for (size_t i = 0; i < s->nspans; i++)
		look_at_span(s, &s->span[i], memory, &l);
}

void step_shadow_deinit(struct step_shadow *s)
{
	free(s->object);
	free(s->span);
	free(s->bytes);
	free(s->now);
	*s = (struct step_shadow){ 0 };
}
