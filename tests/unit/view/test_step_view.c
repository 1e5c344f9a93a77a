/* Step recordings in the views: whole stacks, calls as a tree, how calls and occurrences ended, and filters.
 */
#include "tests/unit/view_output.h"

#include "watchctl/code/symbols/bare_name.h"
#include "watchctl/view/event/step_track.h"
#include "watchctl/view/event/step_words.h"

enum { T_INT, T_STRING, T_CHAR };
enum { F_MAIN, F_PARSE, F_STRLEN, F_COMPARE, F_NAMELESS };

static void feed_functions(struct annotate *a)
{
	static const struct type_event types[] = {
		{ .id = T_INT, .kind = TYPE_SIGNED, .size = 4, .name = "int", .target = NO_TYPE },
		{ .id = T_STRING, .kind = TYPE_STRING, .size = 8, .name = "char *", .target = T_CHAR },
		{ .id = T_CHAR, .kind = TYPE_CHAR, .size = 1, .name = "char", .target = NO_TYPE },
	};
	static const struct function_param number[] = { { "n", T_INT } };
	static const struct function_param text[] = { { "s", T_STRING }, { "len", T_INT } };
	static const struct function_event functions[] = {
		{ .id = F_MAIN, .name = "main", .return_type = T_INT, .file = "app.c", .line = 3 },
		{ .id = F_PARSE,
		  .name = "ns::parse(int)",
		  .return_type = T_INT,
		  .nparams = 1,
		  .param = number,
		  .module = "/no/such/app",
		  .address = 0x1100 },
		{ .id = F_STRLEN,
		  .name = "strlen",
		  .return_type = T_INT,
		  .nparams = 2,
		  .param = text,
		  .flags = FUNCTION_OVER },
		{ .id = F_COMPARE, .name = "compare", .return_type = NO_TYPE },
		{ .id = F_NAMELESS,
		  .module = "/no/such/app",
		  .address = 0x1234,
		  .return_type = NO_TYPE,
		  .flags = FUNCTION_NO_TYPES },
	};
	size_t i;

	for (i = 0; i < 3; i++)
		feed(a, (struct trace_event){ .type = EVENT_TYPE, .time_ns = T0, .type_info = types[i] });
	for (i = 0; i < 5; i++)
		feed(a,
		     (struct trace_event){ .type = EVENT_FUNCTION, .time_ns = T0, .function = functions[i] });
}

static void call(struct annotate *a, uint64_t us, int32_t tid, uint64_t number, uint64_t parent,
		 uint32_t function, uint8_t flags, const uint64_t *frame, uint32_t n, const char *values,
		 size_t len)
{
	feed(a, (struct trace_event){ .type = EVENT_CALL,
				      .time_ns = T0 + us * 1000,
				      .call = { .call = number,
						.parent = parent,
						.pid = 77,
						.tid = tid,
						.function = function,
						.flags = flags,
						.nframes = n,
						.frame = frame,
						.values = (const uint8_t *)values,
						.values_len = (uint32_t)len } });
}

static void ret(struct annotate *a, uint64_t us, int32_t tid, uint64_t number, uint32_t function,
		enum return_how how, const char *values, size_t len, int error)
{
	feed(a, (struct trace_event){ .type = EVENT_RETURN,
				      .time_ns = T0 + us * 1000,
				      .ret = { .call = number,
					       .pid = 77,
					       .tid = tid,
					       .function = function,
					       .how = how,
					       .has_error = error != 0,
					       .error = error,
					       .values = (const uint8_t *)values,
					       .values_len = (uint32_t)len } });
}

static const uint64_t at_main[] = { CODE + 0x20, 0x7f0000001234 };
static const uint64_t at_parse[] = { CODE + 0x120 };
static const uint64_t called_back[] = { 0x7f0000005678, CODE + 0x140 };
static const uint64_t at_worker[] = { 0x7f0000009999 };

#define V(text) text, sizeof(text) - 1

/*
 * main calls ns::parse, which calls strlen, and tail-calls a nameless function; strlen calls compare back,
 * which an exception leaves; a worker hangs in ns::parse.
 */
static void feed_steps(struct annotate *a)
{
	struct trace_event e = { .type = EVENT_MODULE };

	feed_process(a);
	e.module = (struct module){
		.start = 0x400000, .end = 0x403000, .bias = 0x400000, .path = (char *)"/no/such/app"
	};
	feed(a, e);
	feed(a, (struct trace_event){
			.type = EVENT_RECORDING,
			.time_ns = T0,
			.recording = { "ptrace", "LLDB 19", "from main", "functions of app", false } });
	feed_functions(a);
	feed(a,
	     (struct trace_event){ .type = EVENT_RANGE, .time_ns = T0, .range = { 1, RANGE_BEGIN, 77, 77 } });
	call(a, 10, 77, 1, 0, F_MAIN, CALL_FIRST, at_main, 2, "", 0);
	call(a, 20, 77, 2, 1, F_PARSE, 0, at_parse, 1, V("\0\x07\0\0\0"));
	call(a, 30, 77, 3, 2, F_STRLEN, 0, at_parse, 1, V("\0\x10\0\0\0\0\0\0\0\0\3\0a\nb\1"));
	call(a, 40, 77, 4, 3, F_COMPARE, CALL_CALLBACK, called_back, 2, "", 0);
	call(a, 45, 78, 5, 0, F_PARSE, CALL_FIRST, at_worker, 1, V("\2"));
	ret(a, 50, 77, 4, F_COMPARE, RETURN_EXCEPTION, "", 0, 0);
	ret(a, 60, 77, 3, F_STRLEN, RETURN_RETURNED, V("\0\xff\xff\xff\xff"), 2);
	call(a, 70, 77, 6, 2, F_NAMELESS, CALL_TAIL, NULL, 0, "", 0);
	ret(a, 80, 77, 6, F_NAMELESS, RETURN_RETURNED, "", 0, 0);
	ret(a, 90, 77, 2, F_PARSE, RETURN_RETURNED, V("\0\x01\0\0\0"), 0);
	feed(a, (struct trace_event){
			.type = EVENT_SIGNAL,
			.time_ns = T0 + 95000,
			.signal = { .pid = 77, .tid = 77, .signal = 14, .ip = CODE + 2, .call = 1 } });
	feed(a, (struct trace_event){ .type = EVENT_RANGE,
				      .time_ns = T0 + 5000000000,
				      .range = { 1, RANGE_STUCK, 77, 78 } });
	feed(a, (struct trace_event){ .type = EVENT_BLOCKED,
				      .time_ns = T0 + 5000000000,
				      .blocked = { .pid = 77,
						   .tid = 78,
						   .call = 5,
						   .syscall = 202,
						   .walk_end = WALK_END_COMPLETE,
						   .nframes = 2,
						   .frame = at_main } });
	ret(a, 5000010, 78, 5, F_PARSE, RETURN_NEVER, "", 0, 0);
	ret(a, 5000010, 77, 1, F_MAIN, RETURN_NEVER, "", 0, 0);
}

static void print(struct output *o, bool json, const struct print_options *options,
		  const struct report_options *what)
{
	print_report(feed_steps, json ? print_json_new : print_text_new, ANNOTATE_CALLS, o, options, what,
		     &(struct event_choice){ 0 });
}

static const char head[] = "process 77 (app): app -x, on box, 2023-11-14 22:13:20 UTC\n"
			   "calls recorded from main, stepper ptrace, planner LLDB 19\n"
			   "    filters: functions of app\n";

static const char blocked[] = "22:13:25.000000  worker/78 is blocked in the system call futex:\n"
			      "    in        ns::parse(int), call 5, open for 5.0 s\n"
			      "        #0  app+0x1020\n"
			      "        #1  0x7f0000001234\n";

static const char tables[] = "\n"
			     "occurrence 1: began 22:13:20.000000 in app/77, 6 calls, ended after 5.0 s: "
			     "nothing more happened: stuck\n"
			     "6 calls of 5 functions, 4 ended, 2 still open at the end\n"
			     "2 threads: app/77 5 calls, worker/78 1 call\n"
			     "signals: SIGALRM 1\n"
			     "\n"
			     "CALLS  FUNCTION        ERRORS  NOT RETURNED    TOTAL     SELF     MEAN      P99"
			     "  LONGEST  SOURCE\n"
			     "    2  ns::parse(int)          never 1       70.0 us  30.0 us  70.0 us  70.0 us"
			     "  70.0 us  app\n"
			     "    1  app+0x1234                            10.0 us  10.0 us  10.0 us  10.0 us"
			     "  10.0 us  app\n"
			     "    1  compare                 exception 1"
			     "\n"
			     "    1  main                    never 1                                         "
			     "           app.c:3\n"
			     "    1  strlen               1                30.0 us  20.0 us  30.0 us  30.0 us"
			     "  30.0 us\n"
			     "Times include what the recording took.\n"
			     "\n";

static const char *joined(const char *a, const char *b, const char *c, const char *d)
{
	static char text[8192];

	snprintf(text, sizeof(text), "%s%s%s%s", a, b, c, d);
	return text;
}

static void without_calls_it_sums_up(void **state)
{
	struct print_options options = { .utc = true };
	struct report_options what = { 0 };
	struct output o;

	print(&o, false, &options, &what);
	assert_string_equal(o.text, joined(head, blocked, tables, ""));
	free(o.text);
}

static const char tree[] = "22:13:20.000000  occurrence 1 of the range begins\n"
			   "app/77:\n"
			   "22:13:20.000010  main() {\n"
			   "        #0  app+0x1020\n"
			   "        #1  0x7f0000001234\n"
			   "22:13:20.000020    ns::parse(n = 7) {\n"
			   "22:13:20.000030      strlen(s = \"a\\nb\", len = <optimised out>) {\n"
			   "22:13:20.000040        compare()  (called back) {\n"
			   "worker/78:\n"
			   "22:13:20.000045  ns::parse(n = <unreadable>) {\n"
			   "        #0  0x7f0000009999\n"
			   "app/77:\n"
			   "22:13:20.000050        } compare  (left by an exception) [10.0 us]\n"
			   "22:13:20.000060      } strlen = -1 ENOENT (No such file or directory) [30.0 us]\n"
			   "22:13:20.000070      app+0x1234(...)  (tail call) [10.0 us]\n"
			   "22:13:20.000090    } ns::parse = 1 [70.0 us]\n"
			   "22:13:20.000095    SIGALRM arrives at app+0x1002\n"
			   "22:13:25.000000  occurrence 1 of the range ends: nothing more happened: stuck\n";

static const char ending[] = "worker/78:\n"
			     "22:13:25.000010  } ns::parse  (still open when the recording ended) [5.0 s]\n"
			     "app/77:\n"
			     "22:13:25.000010  } main  (still open when the recording ended) [5.0 s]\n";

static void calls_are_a_tree(void **state)
{
	struct print_options options = { .utc = true };
	struct report_options what = { .calls = true, .no_tables = true };
	struct output o;

	print(&o, false, &options, &what);
	assert_string_equal(o.text, joined(head, tree, blocked, ending));
	free(o.text);
}

static void chosen_functions_come_with_what_is_in_them(void **state)
{
	struct print_options options = { .utc = true, .no_stack = true };
	const struct event_choice choice = { .function = "ns::parse", .depth = 2, .thread = "app" };
	struct report_options what = { .calls = true, .no_tables = true };
	struct output o;

	print_report(feed_steps, print_text_new, ANNOTATE_CALLS, &o, &options, &what, &choice);
	assert_string_equal(
		o.text,
		joined(head,
		       "22:13:20.000000  occurrence 1 of the range begins\n"
		       "app/77:\n"
		       "22:13:20.000020  ns::parse(n = 7) {\n"
		       "22:13:20.000030    strlen(s = \"a\\nb\", len = <optimised out>) = -1 ENOENT (No such "
		       "file or directory) [30.0 us]\n"
		       "22:13:20.000070    app+0x1234(...)  (tail call) [10.0 us]\n"
		       "22:13:20.000090  } ns::parse = 1 [70.0 us]\n",
		       "22:13:25.000000  occurrence 1 of the range ends: nothing more happened: stuck\n",
		       ""));
	free(o.text);
}

static void has_line(const struct output *o, const char *line)
{
	if (!strstr(o->text, line))
		fail_msg("no %s\nin:\n%s", line, o->text);
}

static void feed_short(struct annotate *a, const char *range)
{
	feed_process(a);
	feed(a,
	     (struct trace_event){ .type = EVENT_RECORDING,
				   .time_ns = T0,
				   .recording = { "ptrace", "LLDB 19", range, "functions of app", false } });
	feed(a,
	     (struct trace_event){ .type = EVENT_RANGE, .time_ns = T0, .range = { 1, RANGE_BEGIN, 77, 77 } });
	feed(a, (struct trace_event){
			.type = EVENT_RANGE, .time_ns = T0 + 1000, .range = { 1, RANGE_STOPPED, 77, 77 } });
}

static void feed_all(struct annotate *a)
{
	feed_short(a, "from the start");
}

static void feed_part(struct annotate *a)
{
	feed_short(a, "from the start to main");
}

/* A user who did not ask for a range is not told of its occurrences. */
static void the_whole_program_has_no_occurrence(void **state)
{
	struct print_options options = { .utc = true };
	struct report_options what = { 0 };
	struct output o = { 0 };

	print_report(feed_all, print_text_new, ANNOTATE_CALLS, &o, &options, &what,
		     &(struct event_choice){ 0 });
	has_line(&o, "\nrecorded: began 22:13:20.000000 in app/77, 0 calls, ended after 1.0 us");
	free(o.text);
	print_report(feed_part, print_text_new, ANNOTATE_CALLS, &o, &options, &what,
		     &(struct event_choice){ 0 });
	has_line(&o, "\noccurrence 1: began 22:13:20.000000 in app/77, 0 calls, ended after 1.0 us");
	free(o.text);
}

static void json_has_whole_stacks_and_typed_values(void **state)
{
	struct print_options options = { .utc = true };
	struct report_options what = { .calls = true };
	struct output o;

	print(&o, true, &options, &what);
	has_line(&o,
		 "{\"type\":\"recording\",\"time_ns\":1000000000,\"time\":\"2023-11-14T22:13:20.000000000Z\","
		 "\"mover\":\"ptrace\",\"planner\":\"LLDB 19\",\"range\":\"from main\","
		 "\"filters\":\"functions of app\",\"instructions\":false}\n");
	/* compare: back to libc, out of it to strlen's caller in parse, parse's in main, and main's own. */
	has_line(&o, "\"call\":4,\"parent\":3,\"depth\":0,\"function\":\"compare\",\"callback\":true,\"sp\":"
		     "\"0x0\",\"args\":[],"
		     "\"stack\":[{\"ip\":\"0x7f0000005678\",\"inlined\":false},"
		     "{\"ip\":\"0x401140\",\"module\":\"/no/such/"
		     "app\",\"module_offset\":\"0x1140\",\"inlined\":false},"
		     "{\"ip\":\"0x401120\",\"module\":\"/no/such/"
		     "app\",\"module_offset\":\"0x1120\",\"inlined\":false},"
		     "{\"ip\":\"0x401120\",\"module\":\"/no/such/"
		     "app\",\"module_offset\":\"0x1120\",\"inlined\":false},"
		     "{\"ip\":\"0x401020\",\"module\":\"/no/such/"
		     "app\",\"module_offset\":\"0x1020\",\"inlined\":false},"
		     "{\"ip\":\"0x7f0000001234\",\"inlined\":false}],\"stack_end\":\"complete\"}\n");
	/* A tail call returns to where its parent was called. */
	has_line(
		&o,
		"\"call\":6,\"parent\":2,\"depth\":0,\"module\":\"/no/such/"
		"app\",\"module_offset\":\"0x1234\","
		"\"untyped\":true,\"tail\":true,\"sp\":\"0x0\",\"args\":[],\"stack\":[{\"ip\":\"0x401120\",");
	has_line(&o, "\"args\":[{\"name\":\"s\",\"type\":\"char "
		     "*\",\"value\":\"0x10\",\"text\":\"\\\"a\\\\nb\\\"\","
		     "\"string\":\"a\\nb\"},{\"name\":\"len\",\"type\":\"int\",\"state\":\"optimized_out\","
		     "\"text\":\"<optimised out>\"}]");
	has_line(&o, "\"call\":3,\"function\":\"strlen\",\"how\":\"returned\",\"ret\":{\"type\":\"int\","
		     "\"value\":\"0xffffffff\",\"text\":\"-1\"},\"errno\":\"ENOENT\",\"errno_number\":2,"
		     "\"duration_ns\":30000}\n");
	has_line(&o, "\"call\":4,\"function\":\"compare\",\"how\":\"exception\",\"duration_ns\":10000}\n");
	has_line(&o, "{\"type\":\"stood\",\"time_ns\":6000000000,\"time\":\"2023-11-14T22:13:25.000000000Z\","
		     "\"pid\":77,"
		     "\"tid\":78,\"comm\":\"worker\",\"call\":5,\"syscall\":\"futex\",\"open\":[{\"call\":5,"
		     "\"function\":\"ns::parse(int)\",\"open_ns\":4999955000}],\"open_calls\":1,");
	has_line(&o, "{\"type\":\"occurrence\",\"occurrence\":1,\"pid\":77,\"tid\":77,\"comm\":\"app\","
		     "\"begin_ns\":1000000000,\"end_ns\":6000000000,\"ended\":\"stuck\",\"calls\":6}\n");
	has_line(&o, "{\"type\":\"step_summary\",\"calls\":6,\"ended\":4,\"functions\":5,\"threads\":2,"
		     "\"occurrences\":1,"
		     "\"instructions\":0}\n");
	free(o.text);
}

static void a_live_display_does_not_hold_a_call_back(void **state)
{
	struct print_options options = { .utc = true, .no_stack = true };
	struct annotate *a = annotate_new(NULL, ANNOTATE_TEXT | ANNOTATE_CALLS);
	struct output o;
	FILE *f = open_memstream(&o.text, &o.len);
	struct printer *p = print_text_new(f, &options);

	annotate_add_view(a, printer_view(p));
	feed_functions(a);
	call(a, 10, 77, 1, 0, F_COMPARE, CALL_FIRST, at_main, 2, "", 0);
	fflush(f);
	assert_string_equal(o.text, "?/77:\n");
	/* It may have come a moment ago. */
	printer_idle(p);
	fflush(f);
	assert_string_equal(o.text, "?/77:\n");
	printer_idle(p);
	fflush(f);
	assert_string_equal(o.text, "?/77:\n       1.000010  compare() {\n");
	ret(a, 20, 77, 1, F_COMPARE, RETURN_RETURNED, "", 0, 0);
	fflush(f);
	assert_string_equal(o.text,
			    "?/77:\n       1.000010  compare() {\n       1.000020  } compare [10.0 us]\n");
	printer_free(p);
	annotate_free(a);
	fclose(f);
	free(o.text);
}

static void what_is_wider_than_the_terminal_is_cut_at_the_end_of_values(void **state)
{
	static const char long_string[] = "\0\x10\0\0\0\0\0\0\0\0\x60\0"
					  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
					  "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
					  "\0\x0c\0\0\0";
	struct print_options options = { .utc = true, .no_stack = true, .width = 100 };
	struct annotate *a = annotate_new(NULL, ANNOTATE_TEXT | ANNOTATE_CALLS);
	struct output o;
	FILE *f = open_memstream(&o.text, &o.len);
	struct printer *p = print_text_new(f, &options);

	annotate_add_view(a, printer_view(p));
	feed_functions(a);
	call(a, 10, 77, 1, 0, F_STRLEN, 0, at_main, 2, V(long_string));
	ret(a, 20, 77, 1, F_STRLEN, RETURN_RETURNED, V("\0\x0c\0\0\0"), 0);
	printer_free(p);
	annotate_free(a);
	fclose(f);
	assert_non_null(strstr(o.text, "strlen(s = \"aaaaaaaaaaaaaaa"));
	assert_non_null(strstr(o.text, "aaa..., len = 12) = 12 [10.0 us]\n"));
	assert_true(strlen(strchr(o.text, '\n') + 1) <= 101);
	free(o.text);
}

static void a_name_is_reported_without_its_parameters(void **state)
{
	static const char *const names[][2] = {
		{ "f(int)", "f" },
		{ "ns::f(int (*)(char), std::pair<int(), A>) const", "ns::f" },
		{ "(anonymous namespace)::f(int)", "(anonymous namespace)::f" },
		{ "(anonymous namespace)::f", "(anonymous namespace)::f" },
		{ "A::operator()(int)", "A::operator()" },
		{ "A::operator()", "A::operator()" },
		{ "f(int)::{lambda(int)#1}::operator()(int) const", "f(int)::{lambda(int)#1}::operator()" },
		{ "f(int) [clone .part.0]", "f" },
		{ "main", "main" },
		{ ")", ")" },
		{ "(a)", "(a)" },
		{ "", "" },
	};
	char buf[64];
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++)
		assert_string_equal(bare_name(names[i][0], buf, sizeof(buf)), names[i][1]);
}

/* Numbers that do not count up, parents that are not open, returns of calls that never were. */
static void a_damaged_order_does_not_confuse_the_stack(void **state)
{
	const struct view_function f = { .text = "f" };
	struct step_track t = { 0 };
	struct call_event e = { .call = 9, .pid = 1, .tid = 1, .nframes = 1, .frame = at_parse };
	const uint64_t *stack;
	enum walk_end end;
	uint32_t n;
	size_t open;

	assert_non_null(step_track_enter(&t, &e, &f, 1));
	e.call = 5, e.parent = 9;
	assert_non_null(step_track_enter(&t, &e, &f, 2));
	step_track_open(&t, 1, 1, 0, &open);
	assert_int_equal(open, 1);
	e.call = 7, e.parent = 5, e.frame = called_back, e.nframes = 2, e.walk_end = WALK_END_NO_RULE;
	assert_non_null(step_track_enter(&t, &e, &f, 3));
	assert_true(step_track_stack(&t, &e, &stack, &n, &end));
	/* What lies between it and its parent is not known: its parent's stack does not follow. */
	assert_int_equal(n, 2);
	assert_int_equal(end, WALK_END_NO_RULE);
	step_track_leave(&t, 1, 1, 6, 10);
	step_track_open(&t, 1, 1, 0, &open);
	assert_int_equal(open, 2);
	step_track_leave(&t, 1, 1, 5, 10);
	step_track_open(&t, 1, 1, 0, &open);
	assert_int_equal(open, 0);
	step_track_deinit(&t);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_calls_it_sums_up),
		cmocka_unit_test(calls_are_a_tree),
		cmocka_unit_test(chosen_functions_come_with_what_is_in_them),
		cmocka_unit_test(the_whole_program_has_no_occurrence),
		cmocka_unit_test(json_has_whole_stacks_and_typed_values),
		cmocka_unit_test(a_live_display_does_not_hold_a_call_back),
		cmocka_unit_test(what_is_wider_than_the_terminal_is_cut_at_the_end_of_values),
		cmocka_unit_test(a_name_is_reported_without_its_parameters),
		cmocka_unit_test(a_damaged_order_does_not_confuse_the_stack),
	};

	return cmocka_run_group_tests_name("step_view", tests, NULL, NULL);
}
