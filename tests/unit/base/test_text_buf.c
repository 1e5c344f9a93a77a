/* A text that grows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "watchctl/base/text_buf.h"

#ifdef __SANITIZE_ADDRESS__
/* Its malloc() then fails where ours would, and does not end the test. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}
#endif

static void it_holds_what_was_appended_in_order(void **state)
{
	struct text_buf t = { 0 };

	(void)state;
	assert_string_equal(text_buf_text(&t), "");
	text_buf_add(&t, "");
	assert_string_equal(text_buf_text(&t), "");
	text_buf_add(&t, "flag");
	text_buf_char(&t, '+');
	text_buf_put(&t, "26 and more", 2);
	text_buf_printf(&t, " %s:%d", "app.c", 17);
	text_buf_hex(&t, 0x2a, 4);
	assert_string_equal(text_buf_text(&t), "flag+26 app.c:17  2a");
	assert_int_equal(t.len, 20);
	assert_false(t.failed);
	text_buf_deinit(&t);
	assert_null(t.bytes);
}

static void it_grows_by_bytes_and_by_long_pieces(void **state)
{
	struct text_buf t = { 0 };
	char longer[5000];
	size_t i;

	(void)state;
	for (i = 0; i < 1000; i++)
		text_buf_char(&t, (char)('a' + i % 26));
	memset(longer, '.', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	text_buf_printf(&t, "%s", longer);
	assert_int_equal(t.len, 5999);
	assert_int_equal(strlen(text_buf_text(&t)), 5999);
	assert_int_equal(t.bytes[999], 'a' + 999 % 26);
	assert_memory_equal(t.bytes + 1000, longer, 4999);
	text_buf_deinit(&t);
}

static void what_was_cut_off_is_replaced(void **state)
{
	struct text_buf t = { 0 };

	(void)state;
	text_buf_add(&t, "one two");
	text_buf_cut(&t, 4);
	text_buf_add(&t, "2");
	assert_string_equal(text_buf_text(&t), "one 2");
	text_buf_empty(&t);
	assert_string_equal(text_buf_text(&t), "");
	text_buf_deinit(&t);
}

/* A piece in the middle that finds no memory must not make one text of what stands around it. */
static void from_a_piece_on_that_finds_no_memory_nothing_is_appended(void **state)
{
	struct rlimit before, none = { .rlim_cur = 1u << 20 };
	const size_t size = 64u << 20;
	struct text_buf t = { 0 };
	char *big = malloc(size);

	(void)state;
	assert_non_null(big);
	memset(big, '.', size);
	text_buf_add(&t, "begin");
	getrlimit(RLIMIT_AS, &before);
	none.rlim_max = before.rlim_max;
	setrlimit(RLIMIT_AS, &none);
	text_buf_put(&t, big, size);
	setrlimit(RLIMIT_AS, &before);
	free(big);

	assert_true(t.failed);
	text_buf_add(&t, "end");
	text_buf_char(&t, '!');
	text_buf_printf(&t, "%d", 1);
	assert_string_equal(text_buf_text(&t), "begin");
	text_buf_empty(&t);
	text_buf_add(&t, "again");
	assert_false(t.failed);
	assert_string_equal(text_buf_text(&t), "again");
	text_buf_deinit(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_holds_what_was_appended_in_order),
		cmocka_unit_test(it_grows_by_bytes_and_by_long_pieces),
		cmocka_unit_test(what_was_cut_off_is_replaced),
		cmocka_unit_test(from_a_piece_on_that_finds_no_memory_nothing_is_appended),
	};

	return cmocka_run_group_tests_name("text_buf", tests, NULL, NULL);
}
