#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/view/diff/diff_masks.h"

static const struct function_param params[] = { { "fd", 0 }, { "buf", 0 }, { NULL, 0 } };
static const struct function_event read_function = { .name = "read", .nparams = 3, .param = params };

static struct diff_masked masked_by(const char *text, const struct function_event *f)
{
	struct diff_masks m = { 0 };
	struct diff_masked ret;

	assert_null(diff_masks_add(&m, text, NULL, false));
	ret = diff_masks_of(&m, f);
	diff_masks_deinit(&m);
	return ret;
}

static void parts_of_a_function_are_left_out_by_name_and_place(void **state)
{
	assert_int_equal(masked_by("read:buf", &read_function).params, 2);
	assert_int_equal(masked_by("read:buf", &read_function).pointees, 2);
	assert_int_equal(masked_by("read:*buf", &read_function).params, 0);
	assert_int_equal(masked_by("read:*buf", &read_function).pointees, 2);
	assert_int_equal(masked_by("read:#3", &read_function).params, 4);
	assert_true(masked_by("read:return", &read_function).result);
	assert_true(masked_by("read:calls", &read_function).optional);
	assert_true(masked_by("rea*", &read_function).calls);
	assert_false(masked_by("rea", &read_function).calls);
	assert_int_equal(masked_by("write:buf", &read_function).params, 0);
}

static void colons_of_cpp_names_are_a_part_of_them(void **state)
{
	const struct function_event f = { .name = "ns::reader::get(int, std::string const&)",
					  .nparams = 1,
					  .param = params };

	assert_true(masked_by("ns::reader::get", &f).calls);
	assert_true(masked_by("ns::reader::get(int, std::string const&)", &f).calls);
	assert_int_equal(masked_by("ns::reader::get:fd", &f).params, 1);
	assert_true(masked_by("ns::*:return", &f).result);
}

static void what_names_nothing_is_refused(void **state)
{
	static const char *const wrong[] = { "", ":x", "f:", "f:*" };
	struct diff_masks m = { 0 };
	size_t i;

	for (i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct wc_error *err = diff_masks_add(&m, wrong[i], NULL, false);

		assert_non_null(err);
		assert_int_equal(err->kind, WC_EUSAGE);
		wc_error_free(err);
	}
	assert_int_equal(m.n, 0);
	diff_masks_deinit(&m);
}

static void a_file_keeps_masks_with_their_reasons(void **state)
{
	char path[] = "/tmp/test_masks.XXXXXX";
	struct diff_masks m = { 0 }, again = { 0 };

	assert_true(close(mkstemp(path)) == 0);
	assert_null(diff_masks_add(&m, "time:return", "learned: it differs", true));
	assert_null(diff_masks_add(&m, "a#b", NULL, true));
	assert_null(diff_masks_add(&m, "time:return", "twice is once", true));
	assert_null(diff_masks_write(&m, path));
	assert_null(diff_masks_read(&again, path));
	assert_int_equal(again.n, 2);
	assert_string_equal(again.v[0].text, "time:return");
	assert_string_equal(again.v[0].why, "learned: it differs");
	assert_string_equal(again.v[1].text, "a#b");
	assert_null(again.v[1].why);
	diff_masks_deinit(&m);
	diff_masks_deinit(&again);
	unlink(path);
}

/* Else a name at whose end a sign stands would be another one when it is read again. */
static void a_sign_between_blanks_begins_a_comment_wherever_it_stands(void **state)
{
	const char *const lines[] = { "f\t #\t  # \n", "f # # why\n", "f #\n", "f #", "f\t#\twhy # not\n" };

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		char path[] = "/tmp/test_masks.XXXXXX";
		struct diff_masks m = { 0 }, again = { 0 };
		FILE *f = fdopen(mkstemp(path), "w");

		fputs(lines[i], f);
		fclose(f);
		assert_null(diff_masks_read(&m, path));
		assert_null(diff_masks_write(&m, path));
		assert_null(diff_masks_read(&again, path));
		assert_int_equal(m.n, 1);
		assert_int_equal(again.n, 1);
		assert_string_equal(m.v[0].text, "f");
		assert_string_equal(again.v[0].text, "f");
		assert_string_equal(again.v[0].why, m.v[0].why);
		diff_masks_deinit(&m);
		diff_masks_deinit(&again);
		unlink(path);
	}
}

/* Whatever its comment says. */
static void a_mask_is_written_unless_it_is_for_what_a_log_withholds(void **state)
{
	char path[] = "/tmp/test_masks.XXXXXX";
	struct diff_masks m = { 0 }, again = { 0 };

	(void)state;
	close(mkstemp(path));
	assert_null(diff_masks_add(&m, "kept", "withheld", false));
	assert_null(diff_masks_withhold(&m, "f:key"));
	assert_null(diff_masks_withhold(&m, "kept"));
	assert_null(diff_masks_write(&m, path));
	assert_null(diff_masks_read(&again, path));
	assert_int_equal(again.n, 1);
	assert_string_equal(again.v[0].text, "kept");
	diff_masks_deinit(&m);
	diff_masks_deinit(&again);
	unlink(path);
}

static void a_wrong_line_of_a_file_is_reported_with_its_number(void **state)
{
	char path[] = "/tmp/test_masks.XXXXXX";
	struct diff_masks m = { 0 };
	FILE *f = fdopen(mkstemp(path), "w");
	struct wc_error *err;

	fputs("# comment\n\nread:buf # why\n  f:  \n", f);
	fclose(f);
	err = diff_masks_read(&m, path);
	assert_non_null(err);
	assert_non_null(strstr(err->text, ":4: "));
	wc_error_free(err);
	assert_int_equal(m.n, 1);
	diff_masks_deinit(&m);
	unlink(path);
	err = diff_masks_read(&m, path);
	assert_non_null(err);
	wc_error_free(err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_of_a_function_are_left_out_by_name_and_place),
		cmocka_unit_test(colons_of_cpp_names_are_a_part_of_them),
		cmocka_unit_test(what_names_nothing_is_refused),
		cmocka_unit_test(a_file_keeps_masks_with_their_reasons),
		cmocka_unit_test(a_sign_between_blanks_begins_a_comment_wherever_it_stands),
		cmocka_unit_test(a_mask_is_written_unless_it_is_for_what_a_log_withholds),
		cmocka_unit_test(a_wrong_line_of_a_file_is_reported_with_its_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
