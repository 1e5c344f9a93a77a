#include "watchctl/patch/probe/probe_rings.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/vec.h"

#define STUCK_NS 1000000000ull /* so long a record may take to be completed */
#define TAKEN_MAX 65536u       /* records at a time */
#define KEPT_MAX 524288u       /* ... that wait for a ring that is behind */

struct ring {
	uint64_t tail;
	uint64_t stuck_ns; /* since when the record at @tail is not complete; 0: it is */
	uint64_t last_tsc; /* of what was taken last */
	bool retired;
};

struct probe_rings {
	struct probe_shared *shared;
	char *slots; /* of ring 0 */
	uint32_t nrings, nslots;
	struct ring ring[PROBE_RINGS];
	struct probe_record
		*record; /* taken and not delivered yet; word is an offset in words, kept in @at */
	size_t n, cap;
	size_t *at;
	size_t at_cap;
	uint64_t *word;
	size_t nwords, word_cap;
	uint64_t unfinished;
};

struct probe_rings *probe_rings_new(const struct probe_place *p)
{
	struct probe_rings *r = calloc(1, sizeof(*r));
	uint64_t head = p->shared->slot_at - p->ring_at;

	if (!r)
		return NULL;
	r->shared = p->shared;
	r->nrings = p->shared->nrings;
	r->nslots = p->shared->slots;
	r->slots = (char *)p->shared + head;
	return r;
}

void probe_rings_free(struct probe_rings *r)
{
	if (!r)
		return;
	free(r->record);
	free(r->at);
	free(r->word);
	free(r);
}

uint64_t probe_rings_unfinished(const struct probe_rings *r)
{
	return r->unfinished;
}

static const void *slot_of(const struct probe_rings *r, unsigned int ring, uint64_t i)
{
	return r->slots + ((uint64_t)ring * r->nslots + (i & (r->nslots - 1))) * PROBE_SLOT;
}

static uint32_t seq_of(const void *slot)
{
	return __atomic_load_n((const uint32_t *)slot, __ATOMIC_ACQUIRE);
}

/* How many slots the record at @i has; 0: it is not complete. */
static uint64_t complete(const struct probe_rings *r, unsigned int ring, uint64_t i, uint64_t head)
{
	const struct probe_slot *s = slot_of(r, ring, i);
	uint64_t n, k;

	if (seq_of(s) != (uint32_t)(i + 1))
		return 0;
	n = 1u + s->more;
	if (i + n > head || n > r->nslots)
		return 0;
	for (k = 1; k < n; k++) {
		const struct probe_more *m = slot_of(r, ring, i + k);

		if (seq_of(m) != (uint32_t)(i + k + 1) || m->part != k)
			return 0;
	}
	return n;
}

static bool take(struct probe_rings *r, unsigned int ring, uint64_t i, uint64_t n)
{
	const struct probe_slot *s = slot_of(r, ring, i);
	const size_t words = PROBE_HEAD_WORDS + (n - 1) * PROBE_MORE_WORDS;
	struct probe_record record = { .tsc = s->time,
				       .tid = s->tid,
				       .site = s->site,
				       .kind = s->kind,
				       .string_words = s->nbytes,
				       .nwords = words };
	uint64_t *to;

	if (!vec_reserve((void **)&r->word, &r->word_cap, r->nwords + words, sizeof(*r->word)) ||
	    !vec_reserve((void **)&r->record, &r->cap, r->n + 1, sizeof(*r->record)) ||
	    !vec_reserve((void **)&r->at, &r->at_cap, r->n + 1, sizeof(*r->at)))
		return false;
	to = r->word + r->nwords;
	memcpy(to, s->word, sizeof(s->word));
	for (uint64_t k = 1; k < n; k++) {
		const struct probe_more *m = slot_of(r, ring, i + k);

		memcpy(to + PROBE_HEAD_WORDS + (k - 1) * PROBE_MORE_WORDS, m->word, sizeof(m->word));
	}
	r->at[r->n] = r->nwords;
	r->record[r->n++] = record;
	r->nwords += words;
	return true;
}

static void give_back(struct probe_rings *r, unsigned int ring, uint64_t tail)
{
	r->ring[ring].tail = tail;
	r->ring[ring].stuck_ns = 0;
	if (!r->ring[ring].retired)
		__atomic_store_n(&r->shared->ring[ring].tail, tail, __ATOMIC_RELEASE);
}

/*
 * A record that is not completed for long, for its thread has left by longjmp() or stands still: nobody writes into that ring any
 * more, so that what the thread may still write hits nothing.
 */
static void wait_or_retire(struct probe_rings *r, unsigned int ring)
{
	uint64_t now = monotonic_ns();

	if (!r->ring[ring].stuck_ns)
		r->ring[ring].stuck_ns = now;
	if (now - r->ring[ring].stuck_ns < STUCK_NS || r->ring[ring].retired)
		return;
	r->ring[ring].retired = true;
	__atomic_store_n(&r->shared->ring[ring].retired, 1, __ATOMIC_RELEASE);
}

/* The next that is complete behind what never will be; @head: none. */
static uint64_t skip(struct probe_rings *r, unsigned int ring, uint64_t i, uint64_t head)
{
	while (i < head && !complete(r, ring, i, head))
		i++;
	r->unfinished++;
	return i;
}

static bool take_ring(struct probe_rings *r, unsigned int ring, bool last)
{
	uint64_t head = __atomic_load_n(&r->shared->ring[ring].head, __ATOMIC_ACQUIRE),
		 i = r->ring[ring].tail, n;
	const size_t kept = r->n;

	if (head - i > r->nslots) /* not what we or probes do */
		head = i;
	while (i < head && r->n - kept < TAKEN_MAX && r->n < KEPT_MAX) {
		n = complete(r, ring, i, head);
		if (!n && last) {
			i = skip(r, ring, i, head);
			continue;
		}
		if (!n) {
			wait_or_retire(r, ring);
			break;
		}
		if (!take(r, ring, i, n))
			return false;
		r->ring[ring].last_tsc = r->record[r->n - 1].tsc;
		i += n;
		give_back(r, ring, i);
	}
	if (last)
		give_back(r, ring, i);
	return true;
}

/* By time; of equal ones the one that was taken first. */
struct ranked {
	uint64_t tsc;
	size_t i;
};

static int by_time(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->tsc != y->tsc)
		return x->tsc < y->tsc ? -1 : 1;
	return x->i < y->i ? -1 : x->i > y->i;
}

/* Those that were not delivered stay. */
static bool keep_rest(struct probe_rings *r, const bool *gone)
{
	struct probe_rings rest = { 0 };

	for (size_t k = 0; k < r->n; k++) {
		const struct probe_record *old = &r->record[k];

		if (gone[k])
			continue;
		if (!vec_reserve((void **)&rest.word, &rest.word_cap, rest.nwords + old->nwords,
				 sizeof(uint64_t)) ||
		    !vec_push(rest.record, rest.n, rest.cap, *old) ||
		    !vec_reserve((void **)&rest.at, &rest.at_cap, rest.n, sizeof(*rest.at))) {
			free(rest.word);
			free(rest.record);
			free(rest.at);
			return false;
		}
		rest.at[rest.n - 1] = rest.nwords;
		memcpy(rest.word + rest.nwords, r->word + r->at[k], old->nwords * sizeof(uint64_t));
		rest.nwords += old->nwords;
	}
	free(r->word);
	free(r->record);
	free(r->at);
	r->word = rest.word;
	r->record = rest.record;
	r->at = rest.at;
	r->n = rest.n;
	r->cap = rest.cap;
	r->at_cap = rest.at_cap;
	r->nwords = rest.nwords;
	r->word_cap = rest.word_cap;
	return true;
}

/* A ring whose next record is not complete, for its thread has lost its processor, is behind: what others have later waits for it. */
static uint64_t until_complete(const struct probe_rings *r, uint64_t until_tsc)
{
	for (unsigned int i = 0; i < r->nrings && until_tsc != UINT64_MAX; i++)
		if (r->ring[i].stuck_ns && !r->ring[i].retired && r->ring[i].last_tsc < until_tsc)
			until_tsc = r->ring[i].last_tsc;
	return until_tsc;
}

static struct wc_error *deliver(struct probe_rings *r, uint64_t until_tsc, probe_record_sink *each, void *ctx)
{
	scoped(freep) struct ranked *rank = malloc((r->n + 1) * sizeof(*rank));
	scoped(freep) bool *gone = calloc(r->n + 1, sizeof(*gone));
	struct wc_error *err = NULL;
	size_t n = 0, k;

	if (!rank || !gone)
		return &wc_enomem;
	for (k = 0; k < r->n; k++)
		if (r->record[k].tsc < until_tsc)
			rank[n++] = (struct ranked){ r->record[k].tsc, k };
	if (!n)
		return NULL;
	qsort(rank, n, sizeof(*rank), by_time);
	for (k = 0; k < n && !err; k++) {
		struct probe_record *record = &r->record[rank[k].i];

		record->word = r->word + r->at[rank[k].i];
		gone[rank[k].i] = true;
		err = each(ctx, record);
	}
	return !keep_rest(r, gone) && !err ? &wc_enomem : err;
}

struct wc_error *probe_rings_read(struct probe_rings *r, uint64_t until_tsc, probe_record_sink *each,
				  void *ctx, bool *more)
{
	const size_t before = r->n;

	__atomic_store_n(&r->shared->heartbeat, monotonic_ns(), __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < r->nrings; i++)
		if (!take_ring(r, i, until_tsc == UINT64_MAX))
			return &wc_enomem;
	if (more)
		*more = r->n - before >= TAKEN_MAX / 2;
	return deliver(r, until_complete(r, until_tsc), each, ctx);
}
