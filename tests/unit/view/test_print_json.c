/* The form for programs: the documented names, valid JSON whatever the target's bytes are. */
#include "tests/unit/view_output.h"

#include "watchctl/view/words/json.h"

static void print_stream(void (*stream)(struct annotate *a), struct output *o,
			 const struct print_options *options, const struct report_options *what)
{
	print_report(stream, print_json_new, 0, o, options, what,
		     &(struct event_choice){ .before = options->before });
}

/* What the printer makes of the session. */
static void print_session(struct output *o, const struct print_options *options,
			  const struct report_options *what)
{
	print_stream(feed_session, o, options, what);
}

/* The line of @text that starts with @start. */
static const char *line_of(const char *text, const char *start)
{
	static char line[4096];
	const char *at = text;

	while (at && strncmp(at, start, strlen(start)) != 0) {
		at = strchr(at, '\n');
		at = at ? at + 1 : NULL;
	}
	assert_non_null(at);
	snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, "\n"), at);
	return line;
}

static void a_session_has_the_documented_objects(void **state)
{
	struct print_options options = { 0 };
	struct report_options what = { 0 };
	struct output o;

	print_session(&o, &options, &what);
	assert_string_equal(
		line_of(o.text, "{\"type\":\"process\""),
		"{\"type\":\"process\",\"time_ns\":1000000000,\"time\":\"2023-11-14T22:13:20.000000000Z\","
		"\"pid\":77,\"comm\":\"app\",\"exe\":\"/usr/bin/app\",\"cmdline\":\"app "
		"-x\",\"host\":\"box\"}");
	assert_string_equal(
		line_of(o.text, "{\"type\":\"armed\",\"time_ns\":1000001000,\"time\":\"2023-11-14T22:13:20."
				"000001000"),
		"{\"type\":\"armed\",\"time_ns\":1000001000,\"time\":\"2023-11-14T22:13:20.000001000Z\","
		"\"watch\":\"flag\",\"full_name\":\"flag\",\"value_type\":\"int\",\"module\":\"/usr/bin/"
		"app\",\"addr\":\"0x404010\","
		"\"size\":4,"
		"\"access\":\"rw\",\"engine\":\"handler\",\"threads\":5,\"threads_armed\":5,\"verified\":"
		"true,"
		"\"kernel\":false}");
	assert_string_equal(
		line_of(o.text, "{\"type\":\"access\",\"time_ns\":1000010000,\"time\":\"2023-11-14T22:13:20."
				"000010000"),
		"{\"type\":\"access\",\"time_ns\":1000010000,\"time\":\"2023-11-14T22:13:20.000010000Z\","
		"\"pid\":77,\"tid\":78,\"comm\":\"worker\",\"watch\":\"flag\",\"addr\":\"0x404010\",\"size\":"
		"4,"
		"\"kind\":\"write\",\"origin\":\"user\",\"old\":\"0x29\",\"new\":\"0x2a\",\"old_text\":"
		"\"41\","
		"\"new_text\":\"42\",\"ip\":\"0x401000\",\"insn\":\"mov dword ptr [rdi], eax\","
		"\"module\":\"/no/such/app\",\"build_id\":\"dead\",\"module_offset\":\"0x1000\","
		"\"stack\":[{\"ip\":\"0x401000\",\"module\":\"/no/such/app\",\"module_offset\":\"0x1000\","
		"\"inlined\":false},{\"ip\":\"0x401100\",\"module\":\"/no/such/app\","
		"\"module_offset\":\"0x1100\",\"inlined\":false},{\"ip\":\"0x7f0000001234\","
		"\"inlined\":false}],\"stack_end\":\"no_rule\"}");
	assert_string_equal(
		line_of(o.text, "{\"type\":\"access\",\"time_ns\":1000020000,\"time\":\"2023-11-14T22:13:20."
				"000020000"),
		"{\"type\":\"access\",\"time_ns\":1000020000,\"time\":\"2023-11-14T22:13:20.000020000Z\","
		"\"pid\":77,\"tid\":77,\"comm\":\"app\",\"watch\":\"flag\",\"addr\":\"0x404010\",\"size\":4,"
		"\"kind\":\"read\",\"origin\":\"user\",\"old\":\"0x2a\",\"new\":\"0x2a\",\"old_text\":\"42\","
		"\"new_text\":\"42\",\"ip\":\"0x401010\",\"insn\":\"mov eax, dword ptr [rdi]\","
		"\"module\":\"/no/such/app\",\"build_id\":\"dead\",\"module_offset\":\"0x1010\","
		"\"stack\":[{\"ip\":\"0x401010\",\"module\":\"/no/such/app\",\"module_offset\":\"0x1010\","
		"\"inlined\":false}],\"stack_end\":\"complete\"}");
	assert_string_equal(
		line_of(o.text, "{\"type\":\"access\",\"time_ns\":2000030000,\"time\":\"2023-11-14T22:13:21."
				"000030000"),
		"{\"type\":\"access\",\"time_ns\":2000030000,\"time\":\"2023-11-14T22:13:21.000030000Z\","
		"\"pid\":77,\"tid\":78,\"comm\":\"worker\",\"watch\":\"flag\",\"addr\":\"0x404010\",\"size\":"
		"4,"
		"\"kind\":\"write\",\"origin\":\"user\",\"old\":\"0x2a\",\"new\":\"0x2a\",\"old_text\":"
		"\"42\","
		"\"new_text\":\"42\",\"ip\":\"0x401000\",\"insn\":\"mov dword ptr [rdi], eax\","
		"\"module\":\"/no/such/app\",\"build_id\":\"dead\",\"module_offset\":\"0x1000\","
		"\"stack\":[{\"ip\":\"0x401000\",\"module\":\"/no/such/app\",\"module_offset\":\"0x1000\","
		"\"inlined\":false}],\"stack_end\":\"complete\"}");
	assert_string_equal(
		line_of(o.text, "{\"type\":\"access\",\"time_ns\":2000040000,\"time\":\"2023-11-14T22:13:21."
				"000040000"),
		"{\"type\":\"access\",\"time_ns\":2000040000,\"time\":\"2023-11-14T22:13:21.000040000Z\","
		"\"pid\":77,\"tid\":79,\"watch\":\"flag\",\"addr\":\"0x404010\",\"size\":4,\"kind\":"
		"\"write\","
		"\"origin\":\"kernel\",\"old\":\"0x2a\",\"new\":\"0x7\",\"old_text\":\"42\",\"new_text\":"
		"\"7\","
		"\"ip\":\"0x401020\",\"insn\":\"syscall\",\"module\":\"/no/such/app\",\"build_id\":\"dead\","
		"\"module_offset\":\"0x1020\",\"stack\":[{\"ip\":\"0x401020\",\"module\":\"/no/such/app\","
		"\"module_offset\":\"0x1020\",\"inlined\":false}],\"stack_end\":\"complete\"}");
	assert_string_equal(
		line_of(o.text, "{\"type\":\"access\",\"time_ns\":2000050000,\"time\":\"2023-11-14T22:13:21."
				"000050000"),
		"{\"type\":\"access\",\"time_ns\":2000050000,\"time\":\"2023-11-14T22:13:21.000050000Z\","
		"\"pid\":77,\"tid\":79,\"watch\":\"flag\",\"addr\":\"0x404010\",\"size\":4,\"kind\":"
		"\"unknown\","
		"\"origin\":\"user\",\"old\":\"0x7\",\"new\":\"0x8\",\"old_text\":\"7\",\"new_text\":\"8\","
		"\"next_ip\":\"0x999999\",\"stack\":[{\"ip\":\"0x999999\",\"inlined\":false,\"after\":true}],"
		"\"stack_end\":\"complete\"}");
	assert_string_equal(
		line_of(o.text, "{\"type\":\"lost\""),
		"{\"type\":\"lost\",\"time_ns\":2500000000,\"time\":\"2023-11-14T22:13:21.500000000Z\","
		"\"watch\":\"flag\",\"count\":3,\"why\":\"ring full\"}");
	assert_string_equal(
		line_of(o.text, "{\"type\":\"note\""),
		"{\"type\":\"note\",\"time_ns\":2600000000,\"time\":\"2023-11-14T22:13:21.600000000Z\","
		"\"text\":\"thread \\u001b[31m\xef\xbf\xbd \\\"x\\\" caf\xc3\xa9\"}");
	assert_string_equal(
		line_of(o.text, "{\"type\":\"site\",\"watch\":\"flag\",\"kind\":\"write\",\"origin\":"
				"\"user\",\"ip\":\"0x40100"),
		"{\"type\":\"site\",\"watch\":\"flag\",\"kind\":\"write\",\"origin\":\"user\",\"ip\":"
		"\"0x401000\","
		"\"insn\":\"mov dword ptr [rdi], eax\",\"module\":\"/no/such/app\",\"build_id\":\"dead\","
		"\"module_offset\":\"0x1000\",\"count\":2,\"threads\":1,\"old\":\"0x2a\",\"old_text\":\"42\","
		"\"new\":\"0x2a\",\"new_text\":\"42\",\"first_ns\":1000010000,\"last_ns\":2000030000}");
	assert_string_equal(
		line_of(o.text, "{\"type\":\"site\",\"watch\":\"flag\",\"kind\":\"write\",\"origin\":"
				"\"kernel\",\"ip\":\"0x40102"),
		"{\"type\":\"site\",\"watch\":\"flag\",\"kind\":\"write\",\"origin\":\"kernel\",\"ip\":"
		"\"0x401020\","
		"\"insn\":\"syscall\",\"module\":\"/no/such/app\",\"build_id\":\"dead\","
		"\"module_offset\":\"0x1020\",\"count\":1,\"threads\":1,\"old\":\"0x2a\",\"old_text\":\"42\","
		"\"new\":\"0x7\",\"new_text\":\"7\",\"first_ns\":2000040000,\"last_ns\":2000040000}");
	assert_string_equal(
		line_of(o.text, "{\"type\":\"site\",\"watch\":\"flag\",\"kind\":\"unknown\",\"origin\":"
				"\"user\",\"next_ip\":\"0x99999"),
		"{\"type\":\"site\",\"watch\":\"flag\",\"kind\":\"unknown\",\"origin\":\"user\","
		"\"next_ip\":\"0x999999\",\"after\":true,\"count\":1,\"threads\":1,\"old\":\"0x7\","
		"\"old_text\":\"7\",\"new\":\"0x8\",\"new_text\":\"8\",\"first_ns\":2000050000,"
		"\"last_ns\":2000050000}");
	assert_string_equal(line_of(o.text, "{\"type\":\"summary\""),
			    "{\"type\":\"summary\",\"watch\":\"flag\",\"counted\":9,\"recorded\":5,\"lost\":"
			    "3,\"filtered\":0,"
			    "\"duration_ns\":3200000000,\"complete\":true}");
	free(o.text);
}

static void registers_come_when_asked_and_the_stack_goes(void **state)
{
	struct print_options options = { .regs = true, .no_stack = true };
	struct report_options what = { 0 };
	struct output o;

	print_session(&o, &options, &what);
	assert_non_null(strstr(o.text, "\"regs\":{\"rax\":\"0x2a\",\"rdx\":\"0x0\","));
	assert_non_null(strstr(o.text, "\"rip\":\"0x401002\",\"rflags\":\"0x0\"}}"));
	assert_null(strstr(o.text, "stack"));
	free(o.text);
}

static void captures_have_the_documented_objects(void **state)
{
	struct print_options options = { .before = "cache-miss" };
	struct report_options what = { 0 };
	struct output o;

	print_stream(feed_captures, &o, &options, &what);
	assert_string_equal(
		line_of(o.text, "{\"type\":\"stack\",\"time_ns\":1000010000"),
		"{\"type\":\"stack\",\"time_ns\":1000010000,\"time\":\"2023-11-14T22:13:20.000010000Z\","
		"\"pid\":77,\"tid\":78,\"comm\":\"worker\",\"tag\":\"cache-miss\",\"value\":\"0x11\","
		"\"module\":\"/no/such/app\",\"module_offset\":\"0x1050\","
		"\"stack\":[{\"ip\":\"0x401050\",\"module\":\"/no/such/app\",\"module_offset\":\"0x1050\","
		"\"inlined\":false},{\"ip\":\"0x401100\",\"module\":\"/no/such/app\","
		"\"module_offset\":\"0x1100\",\"inlined\":false},{\"ip\":\"0x7f0000001234\","
		"\"inlined\":false}],\"stack_end\":\"complete\"}");
	assert_string_equal(
		line_of(o.text, "{\"type\":\"stack\",\"time_ns\":1000030000"),
		"{\"type\":\"stack\",\"time_ns\":1000030000,\"time\":\"2023-11-14T22:13:20.000030000Z\","
		"\"pid\":77,\"tid\":77,\"comm\":\"app\",\"tag\":\"42\",\"tag_number\":\"0x2a\","
		"\"module\":\"/no/such/app\",\"module_offset\":\"0x1060\","
		"\"stack\":[{\"ip\":\"0x401060\",\"module\":\"/no/such/app\",\"module_offset\":\"0x1060\","
		"\"inlined\":false},{\"ip\":\"0x401100\",\"module\":\"/no/such/app\","
		"\"module_offset\":\"0x1100\",\"inlined\":false}],\"stack_end\":\"depth\"}");
	assert_non_null(
		strstr(line_of(o.text, "{\"type\":\"access\""),
		       "\"stack_end\":\"complete\",\"before\":{\"time_ns\":1000010000,"
		       "\"distance_ns\":12000,\"tag\":\"cache-miss\",\"value\":\"0x11\",\"stack\":["));
	assert_string_equal(
		line_of(o.text, "{\"type\":\"tag\",\"tag\":\"cache-miss\""),
		"{\"type\":\"tag\",\"tag\":\"cache-miss\",\"count\":3,\"threads\":2,\"first_ns\":1000010000,"
		"\"last_ns\":2000010000,\"places\":2,\"module\":\"/no/such/"
		"app\",\"module_offset\":\"0x1050\","
		"\"place_count\":2,\"values\":3,\"min\":\"0x11\",\"median_low\":\"0x13\",\"median_high\":"
		"\"0x13\",\"max\":\"0x7ffe12345678\",\"histogram\":[{\"low\":\"0x11\",\"high\":\"0x11\","
		"\"count\":1},{\"low\":\"0x13\",\"high\":\"0x13\",\"count\":1},{\"low\":"
		"\"0x7c0000000000\",\"high\":\"0x7fffffffffff\",\"count\":1}]}");
	assert_string_equal(
		line_of(o.text, "{\"type\":\"tag\",\"tag\":\"42\""),
		"{\"type\":\"tag\",\"tag\":\"42\",\"tag_number\":\"0x2a\",\"count\":1,\"threads\":1,"
		"\"first_ns\":1000030000,\"last_ns\":1000030000,\"places\":1,\"module\":\"/no/such/app\","
		"\"module_offset\":\"0x1060\",\"place_count\":1}");
	assert_string_equal(line_of(o.text, "{\"type\":\"lost\""),
			    "{\"type\":\"lost\",\"time_ns\":2500000000,\"time\":\"2023-11-14T22:13:21."
			    "500000000Z\",\"of\":\"captures\",\"count\":2,\"why\":\"ring full\"}");
	assert_string_equal(line_of(o.text, "{\"type\":\"summary\",\"of\""),
			    "{\"type\":\"summary\",\"of\":\"captures\",\"counted\":6,\"recorded\":4,"
			    "\"lost\":2,\"filtered\":0,\"duration_ns\":1700000000,\"complete\":true}");
	free(o.text);
}

static void each_different_stack_is_an_object_innermost_frame_first(void **state)
{
	struct print_options options = { 0 };
	struct report_options what = {
		.no_events = true, .no_tables = true, .stacks = true, .merge = MERGE_PLACES
	};
	struct output o, inverted;

	print_stream(feed_captures, &o, &options, &what);
	assert_string_equal(
		line_of(o.text, "{\"type\":\"stack_count\",\"tag\":\"cache-miss\""),
		"{\"type\":\"stack_count\",\"tag\":\"cache-miss\",\"count\":2,\"stack\":[{\"module\":"
		"\"/no/such/app\",\"module_offset\":\"0x1050\",\"inlined\":false},{\"module\":"
		"\"/no/such/app\",\"module_offset\":\"0x1100\",\"inlined\":false},{\"ip\":"
		"\"0x7f0000001234\",\"inlined\":false}],\"stack_end\":\"complete\"}");
	assert_string_equal(
		line_of(o.text, "{\"type\":\"stack_count\",\"tag\":\"42\""),
		"{\"type\":\"stack_count\",\"tag\":\"42\",\"tag_number\":\"0x2a\",\"count\":1,\"stack\":"
		"[{\"module\":\"/no/such/app\",\"module_offset\":\"0x1060\",\"inlined\":false},{\"module\":"
		"\"/no/such/app\",\"module_offset\":\"0x1100\",\"inlined\":false}],\"stack_end\":"
		"\"depth\"}");
	assert_non_null(line_of(o.text, "{\"type\":\"stack_count\",\"watch\":\"flag\",\"count\":1,"));
	assert_non_null(line_of(o.text, "{\"type\":\"tag\",\"tag\":\"42\""));
	assert_null(strstr(o.text, "\"type\":\"access\""));
	what.inverted = true;
	print_stream(feed_captures, &inverted, &options, &what);
	assert_string_equal(o.text, inverted.text);
	free(o.text);
	free(inverted.text);
}

/* Another implementation reads every line, and counts the objects. */
static void parse_elsewhere(const struct output *o, const char *counts)
{
	char command[500];
	FILE *python;

	snprintf(command, sizeof(command),
		 "/usr/bin/python3 -c 'import sys, json, collections\n"
		 "n = collections.Counter(json.loads(l)[\"type\"] for l in sys.stdin)\n"
		 "assert n == dict(%s), n'",
		 counts);
	python = popen(command, "w");
	assert_non_null(python);
	fputs(o->text, python);
	assert_int_equal(pclose(python), 0);
}

static void another_parser_accepts_every_line(void **state)
{
	struct print_options options = { .regs = true };
	struct report_options what = { 0 };
	struct output o;

	print_session(&o, &options, &what);
	parse_elsewhere(&o, "process=1, armed=1, access=5, lost=1, note=1, site=4, summary=1");
	free(o.text);
	what.stacks = true;
	print_stream(feed_captures, &o, &options, &what);
	parse_elsewhere(&o, "process=1, armed=1, access=1, stack=4, lost=1, site=1, tag=4, stack_count=4, "
			    "summary=2");
	free(o.text);
}

static void any_byte_of_a_text_is_escaped_or_replaced(void **state)
{
	struct json j = { 0 };
	struct output o;

	open_output(&o);
	json_open(&j, NULL, '{');
	json_text(&j, "a", "\"\\\b\f\n\r\t\x01\x1f\x7f");
	json_text(&j, "b", "\xff\xc3\xa9\xc0\xaf\xf4\x90\x80\x80\xe2\x82");
	json_hex(&j, "c", UINT64_MAX);
	json_signed(&j, "d", INT64_MIN);
	json_number(&j, "e", UINT64_MAX);
	json_close(&j, '}');
	assert_true(json_end_line(&j, o.f));
	fclose(o.f);
	assert_string_equal(o.text, "{\"a\":\"\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f\\u007f\","
				    "\"b\":\"\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd"
				    "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
				    "\xef\xbf\xbd\xef\xbf\xbd\","
				    "\"c\":\"0xffffffffffffffff\",\"d\":-9223372036854775808,"
				    "\"e\":18446744073709551615}\n");
	json_deinit(&j);
	free(o.text);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_session_has_the_documented_objects),
		cmocka_unit_test(registers_come_when_asked_and_the_stack_goes),
		cmocka_unit_test(captures_have_the_documented_objects),
		cmocka_unit_test(each_different_stack_is_an_object_innermost_frame_first),
		cmocka_unit_test(another_parser_accepts_every_line),
		cmocka_unit_test(any_byte_of_a_text_is_escaped_or_replaced),
	};

	return cmocka_run_group_tests_name("print_json", tests, NULL, NULL);
}
