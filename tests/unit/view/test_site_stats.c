/*
 * The model of `watchctl top`: what it counts, against loops that count the same in the plainest way; and
 * what it does at its bounds.
 */
#include "tests/unit/view_stream.h"

#include "watchctl/view/table/site_stats.h"

#define SECOND 1000000u /* in the units of access_at() */

struct fixture {
	struct annotate *a;
	struct site_stats stats;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->a = annotate_new(NULL, ANNOTATE_STACK | ANNOTATE_TEXT | ANNOTATE_NO_VALUES);
	site_stats_init(&f->stats, f->a);
	annotate_add_view(f->a, site_stats_view(&f->stats));
	*state = f;
	return f->a ? 0 : -1;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	site_stats_deinit(&f->stats);
	annotate_free(f->a);
	free(f);
	return 0;
}

static const uint64_t store[] = { CODE + 2, CODE + 0x100 }, load[] = { CODE + 0x12 };

static void prepare(struct annotate *a)
{
	feed_process(a);
	feed_watch(a, 0, "flag", ACCESS_READWRITE);
	feed_watch(a, 1, "other", ACCESS_READWRITE);
	feed_store(a, store[0]);
	feed_load(a, load[0]);
}

/* A generator that needs no library: the same numbers everywhere. */
static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

static const struct site_stat *site_at(const struct site_stats *s, uint64_t ip, uint32_t watch)
{
	size_t i;

	for (i = 0; i < s->n; i++)
		if (s->v[i]->key.ip == ip && s->v[i]->key.watch->e.id == watch)
			return s->v[i];
	fail_msg("no site at %#lx", (unsigned long)ip);
	return NULL;
}

#define PLACES 7
#define THREADS 5
#define VALUES 6

static void counts_are_those_of_a_plain_loop(void **state)
{
	struct fixture *f = *state;
	uint64_t count[PLACES][2] = { 0 }, by_value[PLACES][2][VALUES] = { 0 };
	bool thread[PLACES][2][THREADS] = { 0 };
	uint32_t seed = 1, i, p, w, v, t, total = 20000;

	prepare(f->a);
	for (p = 0; p < PLACES; p++)
		feed_store(f->a, CODE + 0x200 + 16 * p + 2);
	for (i = 0; i < total; i++) {
		uint64_t frame[2] = { 0, CODE + 0x100 };
		struct trace_event e;

		p = next_random(&seed) % PLACES;
		w = next_random(&seed) % 2;
		t = next_random(&seed) % THREADS;
		v = next_random(&seed) % VALUES;
		frame[0] = CODE + 0x200 + 16 * p + 2;
		e = access_at(i * 10, (int32_t)(100 + t), 7, v, frame, 2);
		e.access.watch = w;
		feed(f->a, e);
		count[p][w]++;
		by_value[p][w][v]++;
		thread[p][w][t] = true;
	}
	assert_int_equal(f->stats.total, total);
	assert_int_equal(f->stats.n, PLACES * 2);
	for (p = 0; p < PLACES; p++) {
		for (w = 0; w < 2; w++) {
			const struct site_stat *s = site_at(&f->stats, CODE + 0x200 + 16 * p, w);
			uint32_t threads = 0;
			size_t k;

			for (t = 0; t < THREADS; t++)
				threads += thread[p][w][t];
			assert_int_equal(s->count, count[p][w]);
			assert_int_equal(s->nthreads, threads);
			assert_int_equal(s->values.total, count[p][w]);
			for (k = 0; k < s->values.n; k++)
				assert_int_equal(s->values.v[k].count, by_value[p][w][s->values.v[k].value]);
			assert_int_equal(s->stacks.n, 1);
			assert_int_equal(s->stacks.v[0].count, count[p][w]);
		}
	}
}

static void kinds_at_one_place_are_different_sites(void **state)
{
	struct fixture *f = *state;
	char text[80];

	prepare(f->a);
	feed(f->a, access_at(1, 77, 1, 2, store, 2));
	feed(f->a, access_at(2, 77, 2, 2, load, 1));
	assert_int_equal(f->stats.n, 2);
	assert_int_equal(f->stats.v[0]->key.kind, ACCESS_WRITE);
	assert_int_equal(f->stats.v[1]->key.kind, ACCESS_READ);
	site_stat_change(&f->stats, f->stats.v[0], text, sizeof(text));
	assert_string_equal(text, "1 -> 2");
	site_stat_change(&f->stats, f->stats.v[1], text, sizeof(text));
	assert_string_equal(text, "2");
}

static void the_last_access_is_the_last_by_time(void **state)
{
	struct fixture *f = *state;

	prepare(f->a);
	feed(f->a, access_at(5, 77, 1, 2, store, 2));
	feed(f->a, access_at(9, 78, 2, 3, store, 2));
	feed(f->a, access_at(7, 77, 8, 9, store, 2));
	assert_int_equal(f->stats.v[0]->last.new_value, 3);
	assert_int_equal(f->stats.v[0]->last.tid, 78);
	assert_string_equal(f->stats.v[0]->last.comm, "worker");
	assert_int_equal(f->stats.v[0]->last.regs.r[WREG_RAX], 3);
	assert_int_equal(f->stats.v[0]->first.mono_ns, T0 + 5000);
	assert_int_equal(f->stats.v[0]->count, 3);
}

/* The rate is that of the last two seconds, and goes to 0 when nothing comes any more. */
static void the_rate_follows_the_events_times(void **state)
{
	struct fixture *f = *state;
	const struct site_stat *s;
	uint64_t us;

	prepare(f->a);
	for (us = 0; us < 10 * SECOND; us += 1000)
		feed(f->a, access_at(us, 77, 1, 2, store, 2));
	s = f->stats.v[0];
	assert_true(site_stat_rate(&f->stats, s) > 990 && site_stat_rate(&f->stats, s) < 1010);
	site_stats_at(&f->stats, T0 + 11 * 1000000000ull);
	assert_true(site_stat_rate(&f->stats, s) > 490 && site_stat_rate(&f->stats, s) < 510);
	site_stats_at(&f->stats, T0 + 13 * 1000000000ull);
	assert_true(site_stat_rate(&f->stats, s) == 0);
	assert_int_equal(site_rate_minute(&s->rate, f->stats.now_ns), 10000);
	site_stats_at(&f->stats, T0 + 100 * 1000000000ull);
	assert_int_equal(site_rate_minute(&s->rate, f->stats.now_ns), 0);
}

/* Shortly after the beginning there are no two seconds to look back to. */
static void a_young_recording_has_its_rate(void **state)
{
	struct fixture *f = *state;
	uint64_t us;

	prepare(f->a);
	for (us = 0; us < SECOND / 10; us += 1000)
		feed(f->a, access_at(us, 77, 1, 2, store, 2));
	assert_true(site_stat_rate(&f->stats, f->stats.v[0]) > 950);
	assert_true(site_stat_rate(&f->stats, f->stats.v[0]) < 1100);
}

static void the_graph_shows_a_burst_where_it_was(void **state)
{
	struct fixture *f = *state;
	double column[60];
	uint64_t us;
	size_t n, i;

	prepare(f->a);
	/* T0 is one second: the clock's seconds and the columns of one second are the same. */
	for (us = 20 * SECOND; us < 21 * SECOND; us += 2000)
		feed(f->a, access_at(us, 77, 1, 2, store, 2));
	site_stats_at(&f->stats, T0 + 30 * 1000000000ull);
	n = site_rate_graph(&f->stats.v[0]->rate, f->stats.now_ns, column, 60);
	assert_int_equal(n, 31);
	for (i = 0; i < n; i++)
		assert_true(column[i] == (i == 21 ? 500 : 0));
}

static void old_buckets_are_forgotten_and_late_events_do_no_harm(void **state)
{
	struct site_rate r = { 0 };
	uint64_t now = 1000 * (uint64_t)1000000000u, i;

	(void)state;
	for (i = 0; i < 2 * SITE_RATE_BUCKETS; i++)
		site_rate_add(&r, now + i * SITE_RATE_BUCKET_NS);
	now += (2 * SITE_RATE_BUCKETS - 1) * (uint64_t)SITE_RATE_BUCKET_NS;
	assert_int_equal(site_rate_minute(&r, now), SITE_RATE_GRAPH_BUCKETS + 1);
	site_rate_add(&r, now - 100 * (uint64_t)1000000000u);
	site_rate_add(&r, now - 1000000000u);
	assert_int_equal(site_rate_minute(&r, now), SITE_RATE_GRAPH_BUCKETS + 2);
	site_rate_add(&r, UINT64_MAX);
	assert_int_equal(site_rate_minute(&r, UINT64_MAX), 1);
}

/* Values */

static const struct value_type int_type = { .kind = VALUE_SIGNED, .name = (char *)"int" };

static uint64_t total_of(const struct site_value_range *r, size_t n)
{
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < n; i++)
		sum += r[i].count;
	return sum;
}

static void many_numbers_become_ranges_that_hold_them_all(void **state)
{
	struct site_values s = { 0 };
	struct site_value_range r[12];
	int64_t v;
	size_t n, i;

	(void)state;
	for (v = -1000; v < 3000; v++)
		site_values_add(&s, &int_type, 4, (uint32_t)v);
	assert_true(site_values_are_spread(&s));
	n = site_values_ranges(&s, r, 12);
	assert_in_range(n, 2, 12);
	assert_int_equal(total_of(r, n), 4000);
	assert_int_equal(r[0].low, -1000);
	assert_int_equal(r[n - 1].high, 2999);
	for (i = 0; i < n; i++) {
		assert_int_equal(r[i].count, (uint64_t)(r[i].high - r[i].low + 1));
		assert_int_equal(r[i].is_negative, r[i].high < 0);
		if (i)
			assert_int_equal(r[i].low, r[i - 1].high + 1);
	}
	site_values_deinit(&s);
}

static void few_values_are_counted_one_by_one(void **state)
{
	struct site_values s = { 0 };
	uint32_t i;

	(void)state;
	for (i = 0; i < 3 * SITE_VALUES_MAX; i++)
		site_values_add(&s, &int_type, 4, i % SITE_VALUES_MAX);
	assert_false(site_values_are_spread(&s));
	assert_int_equal(s.n, SITE_VALUES_MAX);
	for (i = 0; i < s.n; i++)
		assert_int_equal(s.v[i].count, 3);
	site_values_deinit(&s);
}

/* What is no number has no ranges: what does not fit is counted. */
static void more_pointers_than_fit_are_counted_as_others(void **state)
{
	const struct value_type pointer = { .kind = VALUE_POINTER };
	struct site_values s = { 0 };
	uint64_t i;

	(void)state;
	for (i = 0; i < 2 * (SITE_VALUES_MAX + 10); i++)
		site_values_add(&s, &pointer, 8, 0x1000 + 16 * (i % (SITE_VALUES_MAX + 10)));
	assert_false(site_values_are_spread(&s));
	assert_int_equal(s.n, SITE_VALUES_MAX);
	assert_int_equal(s.other, 20);
	assert_int_equal(s.total, 2 * (SITE_VALUES_MAX + 10));
	site_values_deinit(&s);
}

/* The neighbours of a bit field change; its value does not. */
static void a_bit_field_has_only_its_own_bits(void **state)
{
	const struct value_type field = { .kind = VALUE_UNSIGNED, .bit_offset = 4, .bit_size = 2 };
	struct site_values s = { 0 };
	uint32_t i;

	(void)state;
	for (i = 0; i < 256; i++)
		site_values_add(&s, &field, 4, i);
	assert_int_equal(s.n, 4);
	for (i = 0; i < 4; i++)
		assert_int_equal(s.v[i].count, 64);
	site_values_deinit(&s);
}

static void the_extremes_of_64_bits_are_values(void **state)
{
	const struct value_type wide = { .kind = VALUE_SIGNED };
	struct site_values s = { 0 };
	struct site_value_range r[4];
	uint64_t i;
	size_t n;

	(void)state;
	for (i = 0; i < 100; i++) {
		site_values_add(&s, &wide, 8, (uint64_t)INT64_MIN + i);
		site_values_add(&s, &wide, 8, (uint64_t)INT64_MAX - i);
	}
	n = site_values_ranges(&s, r, 4);
	assert_int_equal(total_of(r, n), 200);
	assert_int_equal(r[0].low, INT64_MIN);
	assert_int_equal(r[n - 1].high, INT64_MAX);
	site_values_deinit(&s);
}

/* Stacks */

static void stacks_make_a_tree_with_all_their_counts(void **state)
{
	struct fixture *f = *state;
	static const uint64_t by_a[] = { CODE + 2, CODE + 0x110, CODE + 0x200 },
			      by_b[] = { CODE + 2, CODE + 0x120, CODE + 0x200 },
			      deep[] = { CODE + 2, CODE + 0x120, CODE + 0x130, CODE + 0x200 };
	struct site_tree tree = { 0 };
	struct trace_event e;
	const struct site_node *v;
	size_t outer, child;
	int i;

	prepare(f->a);
	for (i = 0; i < 5; i++)
		feed(f->a, access_at(i, 77, 1, 2, by_a, 3));
	for (i = 0; i < 7; i++)
		feed(f->a, access_at(10 + i, 77, 1, 2, by_b, 3));
	feed(f->a, access_at(30, 77, 1, 2, deep, 4));
	e = access_at(31, 77, 1, 2, by_a, 3);
	e.access.walk_end = WALK_END_DEPTH;
	feed(f->a, e);
	assert_int_equal(f->stats.v[0]->stacks.n, 4);

	assert_true(site_tree_build(&f->stats.v[0]->stacks, false, &tree));
	v = tree.v;
	assert_int_equal(v[0].count, 14);
	outer = v[0].child;
	assert_int_equal(v[outer].count, 13);
	assert_int_equal(v[outer].frame->ip, CODE + 0x200);
	child = v[outer].child;
	assert_int_equal(v[child].count, 7);
	assert_int_equal(v[child].frame->ip, CODE + 0x120);
	child = v[child].sibling;
	assert_int_equal(v[child].count, 5);
	assert_int_equal(v[child].frame->ip, CODE + 0x110);
	assert_int_equal(v[v[child].child].self, 5);
	/* What was cut short is not merged with the whole one. */
	outer = v[outer].sibling;
	assert_int_equal(v[outer].count, 1);
	assert_null(v[outer].frame);
	assert_int_equal(v[outer].end, WALK_END_DEPTH);
	site_tree_deinit(&tree);

	assert_true(site_tree_build(&f->stats.v[0]->stacks, true, &tree));
	v = tree.v;
	assert_int_equal(v[v[0].child].count, 14);
	assert_int_equal(v[v[0].child].frame->ip, CODE);
	assert_int_equal(v[v[v[0].child].child].count, 8);
	site_tree_deinit(&tree);
}

static void more_stacks_than_fit_are_counted(void **state)
{
	struct fixture *f = *state;
	uint64_t frame[2] = { CODE + 2, 0 }, i;

	prepare(f->a);
	for (i = 0; i < SITE_STACKS_MAX + 50; i++) {
		frame[1] = CODE + 0x1000 + 16 * i;
		feed(f->a, access_at(i, 77, 1, 2, frame, 2));
	}
	assert_int_equal(f->stats.v[0]->stacks.n, SITE_STACKS_MAX);
	assert_int_equal(f->stats.v[0]->stacks.other, 50);
	assert_int_equal(f->stats.v[0]->count, SITE_STACKS_MAX + 50);
}

/* Bounds */

static void more_sites_than_fit_are_counted_together(void **state)
{
	struct fixture *f = *state;
	uint64_t frame[1], i;

	prepare(f->a);
	for (i = 0; i < SITE_STATS_SITES + 100; i++) {
		frame[0] = 0x700000 + 16 * i;
		feed(f->a, access_at(i, 77, 1, 2, frame, 1));
	}
	assert_int_equal(f->stats.n, SITE_STATS_SITES);
	assert_int_equal(f->stats.unlisted, 100);
	assert_int_equal(f->stats.total, SITE_STATS_SITES + 100);
	assert_int_equal(f->stats.watch[0].count, SITE_STATS_SITES + 100);
}

static void a_hundred_thousand_threads_are_counted(void **state)
{
	struct fixture *f = *state;
	int i;

	prepare(f->a);
	for (i = 0; i < 100000; i++)
		feed(f->a, access_at(i, 1000 + i, 1, 2, store, 2));
	assert_int_equal(f->stats.v[0]->nthreads, 100000);
	assert_false(f->stats.v[0]->more_threads);
}

/* What is frozen stays as it was, while the model goes on. */
static void a_copy_does_not_change(void **state)
{
	struct fixture *f = *state;
	struct site_stats frozen;
	uint64_t i;

	prepare(f->a);
	for (i = 0; i < 10; i++)
		feed(f->a, access_at(i, 77, i, i + 1, store, 2));
	assert_true(site_stats_copy(&f->stats, &frozen));
	for (i = 0; i < 1000; i++)
		feed(f->a, access_at(20 + i, 78, i, i + 1, i % 2 ? store : load, i % 2 ? 2 : 1));
	assert_int_equal(frozen.n, 1);
	assert_int_equal(frozen.total, 10);
	assert_int_equal(frozen.v[0]->count, 10);
	assert_int_equal(frozen.v[0]->nthreads, 1);
	assert_int_equal(frozen.v[0]->values.n, 10);
	assert_int_equal(frozen.v[0]->stacks.v[0].count, 10);
	assert_int_equal(frozen.v[0]->last.new_value, 10);
	assert_int_equal(f->stats.total, 1010);
	site_stats_deinit(&frozen);
	assert_int_equal(f->stats.v[0]->stacks.v[0].count, 510);
}

static void losses_notes_and_summaries_are_kept(void **state)
{
	struct fixture *f = *state;

	prepare(f->a);
	feed(f->a, (struct trace_event){
			   .type = EVENT_LOST, .time_ns = T0 + 5000, .lost = { 1, 12, "ring full" } });
	feed(f->a, (struct trace_event){
			   .type = EVENT_LOST, .time_ns = T0 + 6000, .lost = { UINT32_MAX, 3, "merged" } });
	feed(f->a, (struct trace_event){ .type = EVENT_LOST,
					 .time_ns = T0 + 6000,
					 .lost = { WATCH_CAPTURES, 9, "ring full" } });
	feed(f->a, (struct trace_event){
			   .type = EVENT_NOTE, .time_ns = T0 + 7000, .note = { "flag moved\033[2J" } });
	assert_int_equal(f->stats.lost, 15);
	assert_int_equal(f->stats.watch[1].lost, 12);
	assert_string_equal(f->stats.note, "flag moved?[2J");
	assert_int_equal(f->stats.now_ns, T0 + 7000);
	annotate_finish(f->a);
	assert_true(f->stats.watch[0].has_summary && f->stats.watch[1].has_summary);
	assert_false(f->stats.watch[1].summary.complete);
	assert_int_equal(f->stats.watch[1].summary.e.lost, 12);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(counts_are_those_of_a_plain_loop),
		TEST(kinds_at_one_place_are_different_sites),
		TEST(the_last_access_is_the_last_by_time),
		TEST(the_rate_follows_the_events_times),
		TEST(a_young_recording_has_its_rate),
		TEST(the_graph_shows_a_burst_where_it_was),
		cmocka_unit_test(old_buckets_are_forgotten_and_late_events_do_no_harm),
		cmocka_unit_test(many_numbers_become_ranges_that_hold_them_all),
		cmocka_unit_test(few_values_are_counted_one_by_one),
		cmocka_unit_test(more_pointers_than_fit_are_counted_as_others),
		cmocka_unit_test(a_bit_field_has_only_its_own_bits),
		cmocka_unit_test(the_extremes_of_64_bits_are_values),
		TEST(stacks_make_a_tree_with_all_their_counts),
		TEST(more_stacks_than_fit_are_counted),
		TEST(more_sites_than_fit_are_counted_together),
		TEST(a_hundred_thousand_threads_are_counted),
		TEST(a_copy_does_not_change),
		TEST(losses_notes_and_summaries_are_kept),
	};

	return cmocka_run_group_tests_name("site_stats", tests, NULL, NULL);
}
