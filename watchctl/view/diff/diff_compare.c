/*
 * Trees are walked from their roots, pair by pair, on a stack of our own: calls may be as deep as the
 * program's stack is. Subtrees with equal hashes are not entered. The calls that two calls have made are
 * aligned as sequences; what is at their beginnings and equal needs no array for that.
 */
#include "watchctl/view/diff/diff_compare.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/bisect.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/progress.h"
#include "watchctl/base/vec.h"
#include "watchctl/view/diff/diff_pairs.h"

struct visit {
	uint32_t a, b;
};

struct walk {
	struct progress *progress; /* NULL: nobody looks */
	uint64_t visited, total;   /* calls */
	struct diff_compare *c;
	struct diff_threads *p;
	uint32_t pair;
	struct visit *todo;
	size_t ntodo, todo_cap;
	uint32_t *index_a, *index_b, *mate;
	size_t index_a_cap, index_b_cap, mate_cap;
};

#define LOG_ENDS ((1ull << 48) - 1)

/* Findings */

static bool found(struct walk *w, struct diff_finding f)
{
	f.pair = w->pair;
	if (w->c->n >= FINDINGS_MAX) {
		w->c->dropped++;
		return true;
	}
	return vec_push(w->c->v, w->c->n, w->c->cap, f);
}

static bool add_run(struct walk *w, uint32_t a, uint32_t b, uint32_t n)
{
	struct diff_threads *p = w->p;
	struct diff_run *last = p->nrun ? &p->run[p->nrun - 1] : NULL;

	if (last && last->a + last->n == a && last->b + last->n == b) {
		last->n += n;
		return true;
	}
	if (!vec_reserve((void **)&p->run, &p->run_cap, p->nrun + 1, sizeof(*p->run)) || !p->run)
		return false;
	p->run[p->nrun++] = (struct diff_run){ a, b, n };
	return true;
}

static bool add_equal(struct walk *w, uint32_t a, uint32_t b)
{
	const uint32_t size = diff_size(w->p->b, b);

	w->c->agreed += size;
	w->c->weak += w->p->a->call[a].weak != w->p->b->call[b].weak;
	return add_run(w, a, b, size);
}

static uint64_t end_of(const struct diff_thread *t, uint32_t i)
{
	return i == NO_CALL || t->call[i].back == DIFF_NEVER_BACK ? LOG_ENDS : diff_back(t, i);
}

/* A call that never returned was stuck from its beginning, unless it is one inside of it that was. */
static uint64_t time_of_end(const struct diff_thread *t, uint32_t i)
{
	uint32_t child;

	if (t->call[i].how != RETURN_NEVER)
		return end_of(t, i);
	for (child = i + 1; child < diff_next(t, i); child = diff_next(t, child))
		if (t->call[child].how == RETURN_NEVER)
			return end_of(t, i);
	return t->call[i].at;
}

/* Calls without a mate */

static bool is_unfinished(const struct diff_thread *t, uint32_t i)
{
	return i != NO_CALL && (t->call[i].flags & DIFF_UNFINISHED);
}

/* The rest of a list of siblings that ends before @end; all of them optional is none. */
static uint32_t count_siblings(const struct diff_thread *t, const uint32_t *list, uint32_t from, uint32_t to,
			       uint64_t *calls)
{
	uint32_t n = 0, i;

	for (i = from; i < to; i++) {
		if (t->call[list[i]].flags & DIFF_OPTIONAL)
			continue;
		n++;
		*calls += diff_size(t, list[i]);
	}
	return n;
}

/* Two lists of siblings, and the calls that made them. */
struct lists {
	const uint32_t *a, *b;
	uint32_t na, nb, in_a, in_b;
	bool cut_a, cut_b; /* they end where the log does */
};

static uint32_t first_that_counts(const struct diff_thread *t, const uint32_t *list, uint32_t from,
				  uint32_t to)
{
	while (from < to && (t->call[list[from]].flags & DIFF_OPTIONAL))
		from++;
	return from < to ? list[from] : NO_CALL;
}

/* [a0, a1) and [b0, b1) of the lists have no mates. */
static bool add_gap(struct walk *w, const struct lists *l, uint32_t a0, uint32_t a1, uint32_t b0, uint32_t b1)
{
	const struct diff_thread *ta = w->p->a, *tb = w->p->b;
	struct diff_finding f = { .kind = FINDING_CALLS, .in_a = l->in_a, .in_b = l->in_b };
	uint64_t only_a = 0, only_b = 0;

	if (l->cut_b && b1 == l->nb && b0 == b1) /* what would come is not recorded */
		return true;
	if (l->cut_a && a1 == l->na && a0 == a1)
		return true;
	f.na = count_siblings(ta, l->a, a0, a1, &only_a);
	f.nb = count_siblings(tb, l->b, b0, b1, &only_b);
	if (!f.na && !f.nb)
		return true;
	f.a = first_that_counts(ta, l->a, a0, a1);
	f.b = first_that_counts(tb, l->b, b0, b1);
	f.when = f.b != NO_CALL ? tb->call[f.b].at : b1 < l->nb ? tb->call[l->b[b1]].at : end_of(tb, l->in_b);
	w->c->only_a += only_a;
	w->c->only_b += only_b;
	return found(w, f);
}

/* Siblings */

static bool list_siblings(const struct diff_thread *t, uint32_t from, uint32_t end, uint32_t **list,
			  size_t *cap, uint32_t *ret)
{
	uint32_t n = 0, i;

	for (i = from; i < end; i = diff_next(t, i))
		n++;
	if (!vec_reserve((void **)list, cap, (size_t)n + 1, sizeof(**list)))
		return false;
	n = 0;
	for (i = from; i < end; i = diff_next(t, i))
		(*list)[n++] = i;
	*ret = n;
	return true;
}

static bool compare_calls(struct walk *w, uint32_t a, uint32_t b);

/* At once, where that needs no other list. */
static bool visit(struct walk *w, uint32_t a, uint32_t b)
{
	const struct diff_thread *ta = w->p->a, *tb = w->p->b;

	if (diff_exact(ta, a) == diff_exact(tb, b) || (diff_size(ta, a) == 1 && diff_size(tb, b) == 1))
		return compare_calls(w, a, b);
	return vec_push(w->todo, w->ntodo, w->todo_cap, (struct visit){ a, b });
}

static struct diff_item call_item(const void *thread, uint32_t index)
{
	return diff_item_of(thread, index);
}

static bool compare_lists(struct walk *w, const struct lists *l)
{
	const struct diff_sequence a = { .base = w->p->a, .index = l->a, .n = l->na, .item = call_item },
				   b = { .base = w->p->b, .index = l->b, .n = l->nb, .item = call_item };
	uint32_t i, a0 = 0, b0 = 0;

	if (!vec_reserve((void **)&w->mate, &w->mate_cap, (size_t)l->na + 1, sizeof(*w->mate)) ||
	    !diff_align(&a, &b, w->mate))
		return false;
	for (i = 0; i < l->na; i++) {
		if (w->mate[i] == NO_MATE)
			continue;
		if ((a0 < i || b0 < w->mate[i]) && !add_gap(w, l, a0, i, b0, w->mate[i]))
			return false;
		if (!visit(w, l->a[i], l->b[w->mate[i]]))
			return false;
		a0 = i + 1;
		b0 = w->mate[i] + 1;
	}
	return (a0 == l->na && b0 == l->nb) || add_gap(w, l, a0, l->na, b0, l->nb);
}

/* All siblings from @a on are as those from @b on. */
static bool are_equal(const struct walk *w, uint32_t a, uint32_t end_a, uint32_t b, uint32_t end_b)
{
	const struct diff_thread *ta = w->p->a, *tb = w->p->b;

	for (; a < end_a && b < end_b && diff_exact(ta, a) == diff_exact(tb, b); a = diff_next(ta, a))
		b = diff_next(tb, b);
	return a == end_a && b == end_b;
}

/* Passes the calls that are equal at the beginning: *@a and *@b are behind them. */
static bool pass_equal(struct walk *w, uint32_t *a, uint32_t end_a, uint32_t *b, uint32_t end_b)
{
	const struct diff_thread *ta = w->p->a, *tb = w->p->b;

	while (*a < end_a && *b < end_b && diff_exact(ta, *a) == diff_exact(tb, *b)) {
		if (!add_equal(w, *a, *b))
			return false;
		*a = diff_next(ta, *a);
		*b = diff_next(tb, *b);
	}
	return true;
}

/*
 * The siblings from @a on to before @end_a, and likewise of b, that calls @in_a and @in_b have made: equal
 * ones at the beginning are passed, the others aligned. Where only one differs, that needs no list of them.
 */
static bool compare_siblings(struct walk *w, uint32_t a, uint32_t end_a, uint32_t in_a, uint32_t b,
			     uint32_t end_b, uint32_t in_b)
{
	const struct diff_thread *ta = w->p->a, *tb = w->p->b;
	struct lists l = { .in_a = in_a, .in_b = in_b };

	if (!pass_equal(w, &a, end_a, &b, end_b))
		return false;
	if (a == end_a && b == end_b)
		return true;
	if (a < end_a && b < end_b && diff_kind_of(ta, a)->key == diff_kind_of(tb, b)->key &&
	    are_equal(w, diff_next(ta, a), end_a, diff_next(tb, b), end_b)) {
		if (!visit(w, a, b))
			return false;
		a = diff_next(ta, a);
		b = diff_next(tb, b);
		return pass_equal(w, &a, end_a, &b, end_b);
	}
	l.cut_a = in_a == NO_CALL ? w->c->a->cut : is_unfinished(ta, in_a);
	l.cut_b = in_b == NO_CALL ? w->c->b->cut : is_unfinished(tb, in_b);
	if (!list_siblings(ta, a, end_a, &w->index_a, &w->index_a_cap, &l.na) ||
	    !list_siblings(tb, b, end_b, &w->index_b, &w->index_b_cap, &l.nb))
		return false;
	l.a = w->index_a;
	l.b = w->index_b;
	return compare_lists(w, &l);
}

/* Calls */

static bool compare_ends(struct walk *w, uint32_t a, uint32_t b)
{
	const struct diff_call *ca = &w->p->a->call[a], *cb = &w->p->b->call[b];
	struct diff_finding f = { .a = a, .b = b };

	if (ca->result == cb->result || is_unfinished(w->p->a, a) || is_unfinished(w->p->b, b))
		return true;
	f.kind = ca->how == cb->how ? FINDING_RESULT : FINDING_ENDED;
	f.when = time_of_end(w->p->b, b);
	return found(w, f);
}

static bool compare_calls(struct walk *w, uint32_t a, uint32_t b)
{
	const struct diff_thread *ta = w->p->a, *tb = w->p->b;
	const struct diff_call *ca = &ta->call[a], *cb = &tb->call[b];
	struct diff_finding f = { .kind = FINDING_PARAMS, .a = a, .b = b, .when = cb->at };

	if (diff_exact(ta, a) == diff_exact(tb, b))
		return add_equal(w, a, b);
	if (!add_run(w, a, b, 1))
		return false;
	w->c->agreed += ca->params == cb->params && ca->result == cb->result;
	if (ca->params != cb->params && !found(w, f))
		return false;
	return compare_ends(w, a, b) &&
	       compare_siblings(w, a + 1, diff_next(ta, a), a, b + 1, diff_next(tb, b), b);
}

static bool walk_threads(struct walk *w)
{
	bool ok = compare_siblings(w, 0, (uint32_t)w->p->a->n, NO_CALL, 0, (uint32_t)w->p->b->n, NO_CALL);

	while (ok && w->ntodo) {
		struct visit v = w->todo[--w->ntodo];

		ok = compare_calls(w, v.a, v.b);
		w->visited++;
		if (w->progress)
			progress_at(w->progress, (double)w->visited / (double)w->total);
	}
	return ok;
}

/* Threads */

static int by_position(const void *x, const void *y)
{
	const struct diff_run *a = x, *b = y;

	return a->b < b->b ? -1 : a->b > b->b;
}

static void sort_runs(struct diff_threads *p)
{
	size_t i, n = 0;

	if (!p->nrun)
		return;
	qsort(p->run, p->nrun, sizeof(*p->run), by_position);
	for (i = 1; i < p->nrun; i++) {
		struct diff_run *last = &p->run[n];

		if (last->a + last->n == p->run[i].a && last->b + last->n == p->run[i].b)
			last->n += p->run[i].n;
		else
			p->run[++n] = p->run[i];
	}
	p->nrun = n + 1;
}

uint32_t diff_mate_of(const struct diff_threads *p, uint32_t b)
{
	size_t low = BISECT(p->nrun, i, p->run[i].b + p->run[i].n <= b);
	return low < p->nrun && b >= p->run[low].b ? p->run[low].a + (b - p->run[low].b) : NO_CALL;
}

uint32_t diff_mate_of_a(const struct diff_threads *p, uint32_t a)
{
	size_t low = BISECT(p->nrun, i, p->run[i].a + p->run[i].n <= a);
	return low < p->nrun && a >= p->run[low].a ? p->run[low].b + (a - p->run[low].a) : NO_CALL;
}

static uint32_t count_roots(const struct diff_thread *t, uint32_t *first)
{
	uint32_t n = 0, i;

	*first = NO_CALL;
	for (i = 0; i < t->n; i = diff_next(t, i)) {
		if (t->call[i].flags & DIFF_OPTIONAL)
			continue;
		if (!n++)
			*first = i;
	}
	return n;
}

static bool add_lonely(struct walk *w)
{
	const struct diff_thread *t = w->p->a ? w->p->a : w->p->b;
	const struct diff_side *other = w->p->a ? w->c->b : w->c->a;
	struct diff_finding f = {
		.kind = FINDING_THREAD, .a = NO_CALL, .b = NO_CALL, .in_a = NO_CALL, .in_b = NO_CALL
	};
	uint32_t first, n;

	if (!t)
		return true;
	n = count_roots(t, &first);
	/* It may have come after the log was cut. */
	if (!n || other->cut)
		return true;
	f.when = w->p->b ? t->call[first].at : LOG_ENDS;
	*(w->p->a ? &f.a : &f.b) = first;
	*(w->p->a ? &f.na : &f.nb) = n;
	*(w->p->a ? &w->c->only_a : &w->c->only_b) += t->n;
	return found(w, f);
}

static bool is_wanted(const struct diff_compare *c, size_t pair, const char *name)
{
	const struct diff_threads *p = &c->pair[pair];
	char *end;
	unsigned long number = strtoul(name, &end, 10);

	if (*name && !*end)
		return number == diff_pair_number((uint32_t)pair) ||
		       (p->a && (unsigned long)p->a->tid == number) ||
		       (p->b && (unsigned long)p->b->tid == number);
	return (p->a && p->a->comm && !strcmp(p->a->comm, name)) ||
	       (p->b && p->b->comm && !strcmp(p->b->comm, name));
}

static int by_time(const void *x, const void *y)
{
	const struct diff_finding *a = x, *b = y;

	if (a->when != b->when)
		return a->when < b->when ? -1 : 1;
	/* At the end of a log calls end from the inside out. */
	if (a->pair == b->pair && a->b != b->b)
		return a->when == LOG_ENDS ? (a->b > b->b ? -1 : 1) : (a->b < b->b ? -1 : 1);
	return a->kind != b->kind ? (a->kind < b->kind ? -1 : 1) : a->pair < b->pair ? -1 : a->pair > b->pair;
}

static struct wc_error *no_such_thread(const char *name)
{
	return wc_error_new(
		WC_ENAME,
		"neither log has a thread \"%s\": name it by its number in the report, its tid, or "
		"its name",
		name);
}

struct wc_error *diff_compare_run(struct diff_compare *c, struct diff_side *a, struct diff_side *b,
				  const char *thread, struct progress *progress)
{
	struct walk w = { .c = c, .progress = progress };
	bool any = false, ok;
	size_t i;

	*c = (struct diff_compare){ .a = a, .b = b };
	ok = diff_pair_threads(c);
	for (i = 0; ok && i < c->npairs; i++)
		w.total += c->pair[i].a && c->pair[i].b ? c->pair[i].a->n : 0;
	for (i = 0; ok && i < c->npairs; i++) {
		w.p = &c->pair[i];
		w.pair = (uint32_t)i;
		w.p->left_out = thread && !is_wanted(c, i, thread);
		if (w.p->left_out)
			continue;
		any = true;
		ok = w.p->a && w.p->b ? walk_threads(&w) : add_lonely(&w);
		sort_runs(w.p);
	}
	free(w.todo);
	free(w.index_a);
	free(w.index_b);
	free(w.mate);
	if (!ok)
		return &wc_enomem;
	if (thread && !any)
		return no_such_thread(thread);
	if (c->n)
		qsort(c->v, c->n, sizeof(*c->v), by_time);
	return NULL;
}

void diff_compare_deinit(struct diff_compare *c)
{
	size_t i;

	for (i = 0; i < c->npairs; i++)
		free(c->pair[i].run);
	free(c->pair);
	free(c->v);
	*c = (struct diff_compare){ 0 };
}
