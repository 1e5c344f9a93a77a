/* The table by site: what is one site, what is counted, in which order. */
#include "tests/unit/view_stream.h"

#include "watchctl/view/table/sites.h"

struct fixture {
	struct annotate *a;
	struct sites sites;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->a = annotate_new(NULL, ANNOTATE_TEXT);
	annotate_add_view(f->a, sites_view(&f->sites));
	*state = f;
	return f->a ? 0 : -1;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	sites_deinit(&f->sites);
	annotate_free(f->a);
	free(f);
	return 0;
}

static const uint64_t store[] = { CODE + 2 }, load[] = { CODE + 0x12 };

static void prepare(struct annotate *a)
{
	feed_process(a);
	feed_watch(a, 0, "flag", ACCESS_READWRITE);
	feed_watch(a, 1, "other", ACCESS_READWRITE);
	feed_store(a, store[0]);
	feed_load(a, load[0]);
}

static void accesses_are_counted_by_instruction_most_first(void **state)
{
	struct fixture *f = *state;
	int i;

	prepare(f->a);
	feed(f->a, access_at(1, 77, 1, 2, store, 1));
	for (i = 0; i < 3; i++)
		feed(f->a, access_at(10 + i, 77, 2, 2, load, 1));
	sites_sort(&f->sites);
	assert_int_equal(f->sites.n, 2);
	assert_int_equal(f->sites.v[0]->count, 3);
	assert_int_equal(f->sites.v[0]->key.kind, ACCESS_READ);
	assert_int_equal(f->sites.v[0]->key.ip, CODE + 0x10);
	assert_string_equal(f->sites.v[0]->key.insn, "mov eax, dword ptr [rdi]");
	assert_int_equal(f->sites.v[1]->count, 1);
	assert_int_equal(f->sites.v[1]->key.kind, ACCESS_WRITE);
	assert_false(f->sites.v[1]->key.after);
}

static void threads_are_counted_once_each(void **state)
{
	struct fixture *f = *state;
	int i;

	prepare(f->a);
	for (i = 0; i < 12; i++)
		feed(f->a, access_at(i, 77 + i % 3, 1, 2, store, 1));
	assert_int_equal(f->sites.n, 1);
	assert_int_equal(f->sites.v[0]->count, 12);
	assert_int_equal(f->sites.v[0]->tids.n, 3);
}

static void first_and_last_times_and_values_are_kept(void **state)
{
	struct fixture *f = *state;

	prepare(f->a);
	feed(f->a, access_at(5, 77, 1, 2, store, 1));
	feed(f->a, access_at(9, 77, 2, 3, store, 1));
	assert_int_equal(f->sites.v[0]->first.mono_ns, T0 + 5000);
	assert_int_equal(f->sites.v[0]->last.mono_ns, T0 + 9000);
	assert_int_equal(f->sites.v[0]->last.real_ns, EPOCH + 9000);
	assert_int_equal(f->sites.v[0]->old_value, 2);
	assert_int_equal(f->sites.v[0]->new_value, 3);
}

static void one_instruction_and_two_watches_are_two_sites(void **state)
{
	struct fixture *f = *state;
	struct trace_event e;

	prepare(f->a);
	feed(f->a, access_at(5, 77, 1, 2, store, 1));
	e = access_at(6, 77, 1, 2, store, 1);
	e.access.watch = 1;
	feed(f->a, e);
	sites_sort(&f->sites);
	assert_int_equal(f->sites.n, 2);
	assert_string_equal(f->sites.v[0]->key.watch->e.name, "flag");
	assert_string_equal(f->sites.v[1]->key.watch->e.name, "other");
}

static void a_module_loaded_elsewhere_keeps_its_sites(void **state)
{
	struct fixture *f = *state;
	const uint64_t high[] = { 0x10000000 + store[0] };
	struct trace_event m = { .type = EVENT_MODULE, .time_ns = T0 };

	prepare(f->a);
	m.module = (struct module){ .start = 0x400000, .end = 0x500000, .path = (char *)"/no/such/lib.so" };
	feed(f->a, m);
	feed(f->a, access_at(1, 77, 1, 2, store, 1));
	m.type = EVENT_MODULE_GONE;
	feed(f->a, m);
	m.type = EVENT_MODULE;
	m.module.start += 0x10000000;
	m.module.end += 0x10000000;
	m.module.bias = 0x10000000;
	feed(f->a, m);
	feed_store(f->a, high[0]);
	feed(f->a, access_at(2, 77, 2, 3, high, 1));
	assert_int_equal(f->sites.n, 1);
	assert_int_equal(f->sites.v[0]->count, 2);
	assert_int_equal(f->sites.v[0]->key.location->module_offset, CODE);
}

static void an_unknown_instruction_is_a_site_of_its_own(void **state)
{
	struct fixture *f = *state;
	const uint64_t elsewhere[] = { 0x700000 };

	prepare(f->a);
	feed(f->a, access_at(1, 77, 1, 2, elsewhere, 1));
	assert_int_equal(f->sites.n, 1);
	assert_true(f->sites.v[0]->key.after);
	assert_int_equal(f->sites.v[0]->key.ip, 0x700000);
	assert_null(f->sites.v[0]->key.insn);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(accesses_are_counted_by_instruction_most_first),
		TEST(threads_are_counted_once_each),
		TEST(first_and_last_times_and_values_are_kept),
		TEST(one_instruction_and_two_watches_are_two_sites),
		TEST(a_module_loaded_elsewhere_keeps_its_sites),
		TEST(an_unknown_instruction_is_a_site_of_its_own),
	};

	return cmocka_run_group_tests_name("sites", tests, NULL, NULL);
}
