/*
 * Three ways, one after the other on what the last one has left between its matches:
 *
 *  - what is equal at both ends, and items that occur once on each side (patience: the longest increasing
 * sequence of them);
 *  - the shortest edit (Myers, "An O(ND) Difference Algorithm", 1986), up to EDITS_MAX of them. It runs from
 * the end to the beginning, so that of several answers the one is found whose matches stand last: what is
 * left over comes first, where a difference begins;
 *  - the first item of the same kind within WINDOW.
 *
 * First for equal items, then for items of one kind. Many items: only a sample of them is looked at for those
 * that occur once, chosen by their contents, so that both sides choose the same.
 */
#include "watchctl/view/diff/base/diff_align.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"

#define SAMPLE_MAX (1u << 19)
#define EDITS_MAX 400
#define STEPS_MAX (32u << 20)
#define WINDOW 64u
#define SMALL 64u	 /* items of which the shortest edit is always looked for */
#define HASHED_TIMES 40u /* as often as there are items */

enum level { LEVEL_EXACT, LEVEL_SHAPE, LEVEL_KEY };

struct range {
	uint32_t a0, a1, b0, b1;
	enum level level;
};

struct align {
	const struct diff_sequence *a, *b;
	uint32_t *mate;
	struct range *todo;
	size_t ntodo, todo_cap;
	uint64_t steps;	 /* of the shortest edit, all together */
	uint64_t hashed; /* items looked at for those that occur once, likewise */
	uint64_t hashed_max;
};

static uint64_t value_of(struct diff_item i, enum level level)
{
	return level == LEVEL_EXACT ? i.exact : level == LEVEL_SHAPE ? i.shape : i.key;
}

/* Items that may be taken for each other at @level: mates must be of one kind at any. */
static bool same(const struct align *w, uint32_t i, uint32_t j, enum level level)
{
	const struct diff_item a = diff_item_at(w->a, i), b = diff_item_at(w->b, j);

	return a.key == b.key && value_of(a, level) == value_of(b, level);
}

static bool later(struct align *w, uint32_t a0, uint32_t a1, uint32_t b0, uint32_t b1, enum level level)
{
	if (a0 == a1 || b0 == b1)
		return true;
	return vec_push(w->todo, w->ntodo, w->todo_cap, (struct range){ a0, a1, b0, b1, level });
}

static void trim(struct align *w, struct range *r)
{
	while (r->a0 < r->a1 && r->b0 < r->b1 && same(w, r->a0, r->b0, r->level))
		w->mate[r->a0++] = r->b0++;
	while (r->a0 < r->a1 && r->b0 < r->b1 && same(w, r->a1 - 1, r->b1 - 1, r->level))
		w->mate[--r->a1] = --r->b1;
}

/* Items that occur once on each side */

struct once {
	uint64_t value;
	uint32_t i, j;
	uint8_t in_a, in_b; /* how often; 2: more than once */
};

struct pair {
	uint32_t i, j;
	uint32_t before; /* index of the pair before it in the longest sequence that ends here */
};

struct table {
	struct once *v;
	size_t mask;
};

static struct once *diff_align_find(const struct table *t, uint64_t value)
{
	size_t at = (value * 0x9e3779b97f4a7c15u >> 20) & t->mask;

	while ((t->v[at].in_a || t->v[at].in_b) && t->v[at].value != value)
		at = (at + 1) & t->mask;
	return &t->v[at];
}

static bool is_chosen(uint64_t value, unsigned int bits)
{
	return bits == 0 || (value * 0xff51afd7ed558ccdu) >> (64 - bits) == 0;
}

/* False: more were chosen than fit, or there is no memory. */
static bool diff_align_fill(const struct align *w, const struct range *r, unsigned int bits, struct table *t)
{
	size_t n = 0, max = t->mask / 4 * 3;
	struct once *o;
	uint32_t i;

	for (i = r->a0; i < r->a1 && n < max; i++) {
		uint64_t v = value_of(diff_item_at(w->a, i), r->level);

		if (!is_chosen(v, bits))
			continue;
		o = diff_align_find(t, v);
		n += !o->in_a;
		o->value = v;
		o->i = i;
		o->in_a = o->in_a ? 2 : 1;
	}
	for (i = r->b0; i < r->b1; i++) {
		uint64_t v = value_of(diff_item_at(w->b, i), r->level);

		if (!is_chosen(v, bits))
			continue;
		o = diff_align_find(t, v);
		if (!o->in_a)
			continue;
		o->j = i;
		o->in_b = o->in_b ? 2 : 1;
	}
	return n < max;
}

/* The pairs in the order of a; their number. */
static uint32_t list_pairs(const struct align *w, const struct range *r, unsigned int bits,
			   const struct table *t, struct pair *ret)
{
	uint32_t n = 0, i;

	for (i = r->a0; i < r->a1; i++) {
		uint64_t v = value_of(diff_item_at(w->a, i), r->level);
		const struct once *o;

		if (!is_chosen(v, bits))
			continue;
		o = diff_align_find(t, v);
		if (o->in_a == 1 && o->in_b == 1 && same(w, o->i, o->j, r->level))
			ret[n++] = (struct pair){ o->i, o->j, 0 };
	}
	return n;
}

/* Keeps those of the longest sequence in which j grows, too; their number. */
static bool longest(struct pair *p, uint32_t *n)
{
	uint32_t *top = malloc(((size_t)*n + 1) * sizeof(*top)), ntop = 0, i, at, kept;

	if (!top)
		return false;
	for (i = 0; i < *n; i++) {
		uint32_t low = 0, high = ntop;

		while (low < high) {
			uint32_t mid = low + (high - low) / 2;

			if (p[top[mid]].j < p[i].j)
				low = mid + 1;
			else
				high = mid;
		}
		p[i].before = low ? top[low - 1] : UINT32_MAX;
		top[low] = i;
		ntop += low == ntop;
	}
	kept = ntop;
	at = ntop ? top[ntop - 1] : UINT32_MAX;
	/* The sequence is known from its end: mark it, then move it to the front. */
	for (i = ntop; i-- > 0;) {
		top[i] = at;
		at = p[at].before;
	}
	for (i = 0; i < kept; i++)
		p[i] = p[top[i]];
	free(top);
	*n = kept;
	return true;
}

/* Matches what occurs once, and puts the ranges between on the list. *@found: there was such. */
static bool match_once(struct align *w, const struct range *r, bool *found)
{
	uint64_t total = (uint64_t)(r->a1 - r->a0) + (r->b1 - r->b0);
	uint32_t a0 = r->a0, b0 = r->b0, n, i;
	scoped(freep) struct pair *pairs = NULL;
	scoped(freep) struct once *slots = NULL;
	unsigned int bits = 0;
	struct table t;
	size_t cap = 64;

	*found = false;
	w->hashed += total;
	if (w->hashed > w->hashed_max)
		return true;
	while (total >> bits > SAMPLE_MAX)
		bits++;
	while (cap < 2 * (total >> bits) + 64)
		cap *= 2;
	slots = calloc(cap, sizeof(*slots));
	if (!slots)
		return false;
	t = (struct table){ slots, cap - 1 };
	if (!diff_align_fill(w, r, bits, &t))
		return true; /* a sample that is all of one kind says nothing */
	pairs = malloc((cap / 4 * 3 + 1) * sizeof(*pairs));
	if (!pairs)
		return false;
	n = list_pairs(w, r, bits, &t, pairs);
	if (!n)
		return true;
	if (!longest(pairs, &n))
		return false;
	*found = true;
	for (i = 0; i < n; i++) {
		w->mate[pairs[i].i] = pairs[i].j;
		if (!later(w, a0, pairs[i].i, b0, pairs[i].j, r->level))
			return false;
		a0 = pairs[i].i + 1;
		b0 = pairs[i].j + 1;
	}
	return later(w, a0, r->a1, b0, r->b1, r->level);
}

/* The shortest edit */

#define OUTSIDE (-1)

/*
 * Both sequences are read backwards: x items of a, and y of b, from their ends. On diagonal k = x - y, reach
 * has the furthest x with d edits, or OUTSIDE: its row is at d * d, 2d + 1 wide.
 */
struct edit {
	const struct range *r;
	int64_t na, nb;
	int64_t *reach;
	int d, d_max;
};

static int64_t *reach_of(const struct edit *e, int d, int k)
{
	return &e->reach[(size_t)d * d + (size_t)(k + d)];
}

/* Where diagonal k begins with d edits: behind one more item of b (*@down), or one more of a. */
static int64_t begin_of(const struct edit *e, int d, int k, bool *down)
{
	int64_t by_a = OUTSIDE, by_b = OUTSIDE;

	*down = false;
	if (!d)
		return 0;
	if (k > -d && *reach_of(e, d - 1, k - 1) != OUTSIDE)
		by_a = *reach_of(e, d - 1, k - 1) + 1;
	if (k < d)
		by_b = *reach_of(e, d - 1, k + 1);
	if (by_a > e->na)
		by_a = OUTSIDE;
	if (by_b - k > e->nb)
		by_b = OUTSIDE;
	*down = by_b > by_a;
	return *down ? by_b : by_a;
}

static bool equal_from_end(const struct align *w, const struct range *r, int64_t x, int64_t y)
{
	return same(w, (uint32_t)(r->a1 - 1 - x), (uint32_t)(r->b1 - 1 - y), r->level);
}

/* As far as the diagonal k goes on with equal items. */
static int64_t slide(struct align *w, const struct edit *e, int64_t x, int k)
{
	int64_t from = x;

	while (x < e->na && x - k < e->nb && equal_from_end(w, e->r, x, x - k))
		x++;
	w->steps += (uint64_t)(x - from) + 1;
	return x;
}

/* True: the ends are reached with e->d edits. */
static bool run_edit(struct align *w, struct edit *e)
{
	bool down;
	int d, k;

	for (d = 0; d <= e->d_max && (w->steps < STEPS_MAX || e->na + e->nb <= SMALL); d++) {
		memset(reach_of(e, d, -d), 0xff, (2 * (size_t)d + 1) * sizeof(*e->reach));
		for (k = -d; k <= d; k += 2) {
			int64_t x = begin_of(e, d, k, &down);

			if (x == OUTSIDE)
				continue;
			x = slide(w, e, x, k);
			*reach_of(e, d, k) = x;
			if (x == e->na && x - k == e->nb) {
				e->d = d;
				return true;
			}
		}
	}
	return false;
}

static void trace_back(struct align *w, const struct edit *e)
{
	const struct range *r = e->r;
	int64_t x = e->na, y = e->nb, begin;
	int d, k = (int)(x - y);
	bool down;

	for (d = e->d; d >= 0; d--) {
		begin = begin_of(e, d, k, &down);
		for (; x > begin; x--, y--)
			w->mate[r->a1 - x] = (uint32_t)(r->b1 - y);
		k += down ? 1 : -1;
		if (down)
			y--;
		else
			x--;
	}
}

/* *@found: the edit is short enough, and its matches are made. */
static bool match_edit(struct align *w, const struct range *r, bool *found)
{
	struct edit e = { .r = r, .na = r->a1 - r->a0, .nb = r->b1 - r->b0, .d_max = EDITS_MAX };
	scoped(freep) int64_t *reach = NULL;

	*found = false;
	if (e.na + e.nb < e.d_max)
		e.d_max = (int)(e.na + e.nb);
	if (e.na - e.nb > e.d_max || e.nb - e.na > e.d_max)
		return true;
	reach = malloc(((size_t)e.d_max + 1) * ((size_t)e.d_max + 1) * sizeof(*reach));
	if (!reach)
		return false;
	e.reach = reach;
	if (!run_edit(w, &e))
		return true;
	trace_back(w, &e);
	*found = true;
	return true;
}

/* The first of its kind */

static uint32_t ahead(const struct diff_sequence *v, uint32_t from, uint32_t end, uint32_t key)
{
	uint32_t i;

	for (i = from; i < end && i - from < WINDOW; i++)
		if (diff_item_at(v, i).key == key)
			return i - from;
	return WINDOW;
}

static void match_first(struct align *w, const struct range *r)
{
	uint32_t i = r->a0, j = r->b0;

	while (i < r->a1 && j < r->b1) {
		uint32_t key_a = diff_item_at(w->a, i).key, key_b = diff_item_at(w->b, j).key, in_a, in_b;

		if (key_a == key_b) {
			w->mate[i++] = j++;
			continue;
		}
		in_a = ahead(w->a, i, r->a1, key_b);
		in_b = ahead(w->b, j, r->b1, key_a);
		if (in_a == WINDOW && in_b == WINDOW) {
			i++;
			j++;
		} else if (in_a <= in_b) {
			i += in_a;
		} else {
			j += in_b;
		}
	}
}

/* What the matches that were made in @r have left, for the next way. */
static bool rest_later(struct align *w, const struct range *r, enum level level)
{
	uint32_t a0 = r->a0, b0 = r->b0, i;

	for (i = r->a0; i < r->a1; i++) {
		if (w->mate[i] == NO_MATE)
			continue;
		if (!later(w, a0, i, b0, w->mate[i], level))
			return false;
		a0 = i + 1;
		b0 = w->mate[i] + 1;
	}
	return later(w, a0, r->a1, b0, r->b1, level);
}

static bool work_on(struct align *w, struct range r)
{
	bool found;

	trim(w, &r);
	if (r.a0 == r.a1 || r.b0 == r.b1)
		return true;
	if (!match_once(w, &r, &found))
		return false;
	if (found)
		return true; /* what lies between comes back */
	if (r.level != LEVEL_SHAPE && !match_edit(w, &r, &found))
		return false;
	if (r.level == LEVEL_KEY) {
		if (!found)
			match_first(w, &r);
		return true;
	}
	return rest_later(w, &r, r.level + 1);
}

bool diff_align(const struct diff_sequence *a, const struct diff_sequence *b, uint32_t *mate)
{
	struct align w = { .a = a, .b = b, .mate = mate };
	bool ok;

	w.hashed_max = HASHED_TIMES * ((uint64_t)a->n + b->n);
	memset(mate, 0xff, (size_t)a->n * sizeof(*mate));
	ok = later(&w, 0, a->n, 0, b->n, LEVEL_EXACT);
	while (ok && w.ntodo)
		ok = work_on(&w, w.todo[--w.ntodo]);
	free(w.todo);
	return ok;
}
