#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/base/hash.h"
#include "watchctl/view/diff/inputs/diff_inputs.h"

static struct diff_inputs a, b;
static struct diff_input_result r;

static int begin(void **state)
{
	(void)state;
	a = b = (struct diff_inputs){ .recorded = INPUTS_WHOLE };
	r = (struct diff_input_result){ 0 };
	return 0;
}

static int end(void **state)
{
	(void)state;
	diff_input_result_deinit(&r);
	diff_inputs_deinit(&a);
	diff_inputs_deinit(&b);
	return 0;
}

static void add(struct diff_inputs *in, enum input_kind kind, const char *name, uint64_t offset,
		const char *text, uint32_t len)
{
	const struct input_event e = { .kind = kind,
				       .name = name,
				       .offset = offset,
				       .result = (int64_t)strlen(text),
				       .size = strlen(text),
				       .hashed = (uint32_t)strlen(text),
				       .hash = hash_text(HASH_START, text),
				       .bytes = (const uint8_t *)text,
				       .len = len };

	assert_null(diff_inputs_add(in, &e, 0));
}

static void reads(struct diff_inputs *in, const char *name, uint64_t offset, const char *text)
{
	add(in, INPUT_FILE, name, offset, text, (uint32_t)strlen(text));
}

static void compare(void)
{
	assert_null(diff_inputs_compare(&a, &b, NULL, &r));
}

static void pieces_do_not_matter(void **state)
{
	(void)state;
	reads(&a, "/in", 0, "one two");
	reads(&b, "/in", 0, "one");
	reads(&b, "/in", 3, " two");
	compare();
	assert_true(r.compared);
	assert_false(r.differs);
}

static void the_first_byte_that_differs_is_found_in_other_pieces(void **state)
{
	(void)state;
	reads(&a, "/in", 0, "one two");
	reads(&b, "/in", 0, "one");
	reads(&b, "/in", 3, " tWo");
	compare();
	assert_true(r.differs);
	assert_int_equal(r.first.what, DIFF_INPUT_BYTES);
	assert_int_equal(r.first.offset, 5);
	assert_int_equal(r.first.a.bytes[r.first.a.at], 'w');
	assert_int_equal(r.first.b.bytes[r.first.b.at], 'W');
}

static void an_end_differs_from_more_bytes(void **state)
{
	(void)state;
	reads(&a, "/in", 0, "one");
	reads(&a, "/in", 3, "");
	reads(&b, "/in", 0, "one");
	reads(&b, "/in", 3, "two");
	compare();
	assert_int_equal(r.first.what, DIFF_INPUT_END);
	assert_int_equal(r.first.offset, 3);
}

static void who_stops_reading_or_goes_elsewhere_has_decided_that(void **state)
{
	(void)state;
	reads(&a, "/in", 0, "one");
	reads(&a, "/in", 3, "two");
	reads(&b, "/in", 0, "one");
	reads(&b, "/in", 9, "xyz");
	reads(&a, "/other", 0, "more");
	reads(&a, "/other", 4, "more");
	reads(&b, "/other", 0, "more");
	compare();
	assert_false(r.differs);
}

static void what_is_not_recorded_is_compared_by_its_hash(void **state)
{
	(void)state;
	add(&a, INPUT_FILE, "/in", 8, "one two", 3);
	add(&b, INPUT_FILE, "/in", 8, "one tWo", 3);
	compare();
	assert_int_equal(r.first.what, DIFF_INPUT_UNSEEN);
	assert_int_equal(r.first.offset, 11);
}

static void files_of_changed_directories_belong_together(void **state)
{
	(void)state;
	add(&a, INPUT_DIRECTORY, "/x", 0, "", 0);
	add(&b, INPUT_DIRECTORY, "/y", 0, "", 0);
	reads(&a, "/x/in", 0, "same");
	reads(&b, "/y/in", 0, "Same");
	compare();
	assert_int_equal(r.nchanges, 1);
	assert_string_equal(r.change[0].what, "directory");
	assert_int_equal(r.first.offset, 0);
	assert_true(r.differs);
}

static void clocks_and_random_numbers_are_counted_only(void **state)
{
	(void)state;
	add(&a, INPUT_RANDOM, NULL, 0, "abc", 3);
	add(&b, INPUT_RANDOM, NULL, 0, "xyz", 3);
	reads(&a, "/proc/self/stat", 0, "1");
	reads(&b, "/proc/self/stat", 0, "2");
	compare();
	assert_false(r.differs);
	assert_int_equal(a.randoms, 1);
	assert_int_equal(b.system, 1);
}

static void without_inputs_nothing_is_compared(void **state)
{
	(void)state;
	a.recorded = INPUTS_START;
	reads(&a, "/in", 0, "one");
	reads(&b, "/in", 0, "two");
	compare();
	assert_false(r.compared);
	assert_false(r.differs);
}

static void what_good_runs_read_differently_is_noise(void **state)
{
	struct map64 noise = { 0 };
	uint64_t learned = 0;

	(void)state;
	reads(&a, "/in", 0, "one");
	reads(&b, "/in", 0, "two");
	assert_true(diff_inputs_learn(&a, &b, &noise, &learned));
	assert_int_equal(learned, 1);
	assert_null(diff_inputs_compare(&a, &b, &noise, &r));
	assert_false(r.differs);
	map64_deinit(&noise);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(pieces_do_not_matter),
		TEST(the_first_byte_that_differs_is_found_in_other_pieces),
		TEST(an_end_differs_from_more_bytes),
		TEST(who_stops_reading_or_goes_elsewhere_has_decided_that),
		TEST(what_is_not_recorded_is_compared_by_its_hash),
		TEST(files_of_changed_directories_belong_together),
		TEST(clocks_and_random_numbers_are_counted_only),
		TEST(without_inputs_nothing_is_compared),
		TEST(what_good_runs_read_differently_is_noise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
