/* Of the stack of a wait, the function that is the program's own, and what a program reads of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "watchctl/base/text_buf.h"
/* The library that unit tests are linked with has no commands. */
#include "watchctl/cli/flow/graph/flow_stack_words.c"
#include "watchctl/code/unwind/unwind_rule.h"
#include "watchctl/view/event/view.h"
#include "watchctl/view/words/json.h"

#define STACK(...)                                                                             \
	&(const struct flow_wait_stack)                                                        \
	{                                                                                      \
		.frame = (struct view_frame[]){ __VA_ARGS__ },                                 \
		.n = sizeof((struct view_frame[]){ __VA_ARGS__ }) / sizeof(struct view_frame), \
		.end = WALK_END_COMPLETE,                                                      \
	}
#define LIBC(name)                                                 \
	{                                                          \
		.function = (name), .module = "/usr/lib/libc.so.6" \
	}
#define APP(name)                                                  \
	{                                                          \
		.function = (name), .module = "/opt/libc.so.d/app" \
	}

static void the_own_function_is_not_the_c_librarys(void **state)
{
	const struct flow_wait_stack *s = STACK(LIBC("__lll_lock_wait"), LIBC("pthread_mutex_lock"),
						APP("shop::take(int)"), APP("main"));
	char name[100];

	assert_true(flow_stack_function(s, name, sizeof(name)));
	assert_string_equal(name, "shop::take");
	assert_ptr_equal(flow_stack_own(s), &s->frame[2]);
}

static void a_frame_without_a_name_is_passed_over(void **state)
{
	const struct flow_wait_stack *s = STACK(LIBC("read"), APP(NULL), { .ip = 0x1000 }, APP("loop\a"));
	char name[100];

	assert_true(flow_stack_function(s, name, sizeof(name)));
	assert_string_equal(name, "loop?");
}

static void without_one_none_is_told(void **state)
{
	char name[100] = "as before";

	assert_false(flow_stack_function(STACK(LIBC("read"), APP(NULL)), name, sizeof(name)));
	assert_false(flow_stack_function(NULL, name, sizeof(name)));
	assert_string_equal(name, "as before");
}

/* Addresses in modules are the log's own. */
static void only_code_of_no_module_has_an_address(void **state)
{
	struct json j = { 0 };

	json_open(&j, NULL, '{');
	flow_stack_json(&j, NULL);
	flow_stack_json(&j, STACK({ .function = "f", .module = "/app", .ip = 0x10 }, { .ip = 0x20 }));
	json_close(&j, '}');
	assert_string_equal(
		text_buf_text(&j.line),
		"{\"stack\":[{\"module\":\"/app\",\"module_offset\":\"0x0\",\"function\":\"f\",\"offset\":0,"
		"\"inlined\":false},{\"ip\":\"0x20\",\"inlined\":false}],\"stack_end\":\"complete\"}");
	json_deinit(&j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_own_function_is_not_the_c_librarys),
		cmocka_unit_test(a_frame_without_a_name_is_passed_over),
		cmocka_unit_test(without_one_none_is_told),
		cmocka_unit_test(only_code_of_no_module_has_an_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
