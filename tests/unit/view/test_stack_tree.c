/* Stacks by count: what is merged, how it is drawn, and what is reported where stacks are cut. */
#include "tests/unit/view_stream.h"

#include "watchctl/view/event/reorder.h"
#include "watchctl/view/words/text_shorten.h"
#include "watchctl/view/print/report.h"

#define DEPTH 8

static const struct view_tag tag = { .id = 1, .name = "miss", .text = "miss" };

/* The stack "inner outer ..." of functions of one module, all at different places. */
static void add(struct stack_trees *t, const char *const *function, size_t n, enum walk_end end)
{
	static uint64_t place;
	struct capture_event raw = { .tag = 1, .pid = 77, .tid = 78, .nframes = 1 };
	struct view_frame frame[DEPTH] = { 0 };
	struct view_capture c = { .raw = &raw, .tag = &tag, .frame = frame, .nframes = n, .walk_end = end };
	size_t i;

	assert_true(n <= DEPTH);
	for (i = 0; i < n; i++)
		frame[i] = (struct view_frame){ .module = "/bin/app",
						.module_offset = ++place,
						.function = function[i],
						.offset = place };
	stack_trees_add_capture(t, &c);
}

#define ADD(t, end, ...)                                     \
	do {                                                 \
		const char *const f_[] = { __VA_ARGS__ };    \
		add(t, f_, sizeof(f_) / sizeof(f_[0]), end); \
	} while (0)

static char *print(struct printer *(*make)(FILE *, const struct print_options *), struct stack_trees *t,
		   const struct print_options *options)
{
	struct printer *p;
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	p = make(f, options);
	stack_trees_sort(t);
	printer_stacks(p, t);
	printer_free(p);
	fclose(f);
	return text;
}

static void feed_calls(struct stack_trees *t)
{
	int i;

	for (i = 0; i < 6; i++)
		ADD(t, WALK_END_COMPLETE, "lookup", "work", "main", "_start");
	ADD(t, WALK_END_COMPLETE, "work", "main", "_start");
	for (i = 0; i < 2; i++)
		ADD(t, WALK_END_COMPLETE, "lookup", "check", "reload", "main", "_start");
	ADD(t, WALK_END_NO_RULE, "lookup", "callback");
}

static void a_tree_is_indented_where_stacks_part(void **state)
{
	struct stack_trees t = { .merge = MERGE_FUNCTIONS };
	struct print_options options = { 0 };
	char *text;

	feed_calls(&t);
	text = print(print_text_new, &t, &options);
	assert_string_equal(text, "\nmiss: 10 captures, 4 different stacks; 1 stack was cut short\n"
				  "COUNT   SHARE  STACK, OUTERMOST FIRST\n"
				  "    9   90.0%  _start  app\n"
				  "               main\n"
				  "    7   70.0%  +-work\n"
				  "    6   60.0%  | +-lookup\n"
				  "    1   10.0%  | +-(captured here)\n"
				  "    2   20.0%  +-reload\n"
				  "                 check\n"
				  "                 lookup\n"
				  "    1   10.0%  ... no unwind information for the code of the last frame\n"
				  "               callback  app\n"
				  "               lookup\n\n");
	free(text);
	stack_trees_deinit(&t);
}

static void inverted_it_shows_who_calls(void **state)
{
	struct stack_trees t = { .merge = MERGE_FUNCTIONS, .inverted = true };
	struct print_options options = { 0 };
	char *text;

	feed_calls(&t);
	text = print(print_text_new, &t, &options);
	assert_string_equal(text,
			    "\nmiss: 10 captures, 4 different stacks; 1 stack was cut short\n"
			    "COUNT   SHARE  STACK, INNERMOST FIRST\n"
			    "    9   90.0%  lookup  app\n"
			    "    6   60.0%  +-work\n"
			    "               | main\n"
			    "               | _start\n"
			    "    2   20.0%  +-check\n"
			    "               | reload\n"
			    "               | main\n"
			    "               | _start\n"
			    "    1   10.0%  +-callback\n"
			    "                 ... no unwind information for the code of the last frame\n"
			    "    1   10.0%  work  app\n"
			    "               main\n"
			    "               _start\n\n");
	free(text);
	stack_trees_deinit(&t);
}

static void small_branches_are_left_out_and_counted(void **state)
{
	struct stack_trees t = { .merge = MERGE_FUNCTIONS };
	struct print_options options = { .min_percent = 25 };
	char *text;

	feed_calls(&t);
	text = print(print_text_new, &t, &options);
	assert_string_equal(text, "\nmiss: 10 captures, 4 different stacks; 1 stack was cut short\n"
				  "COUNT   SHARE  STACK, OUTERMOST FIRST\n"
				  "    9   90.0%  _start  app\n"
				  "               main\n"
				  "    7   70.0%  +-work\n"
				  "    6   60.0%  | +-lookup\n"
				  "    1   10.0%  | +-(captured here)\n"
				  "    2   20.0%  +-(1 more, each below 25 %)\n"
				  "    1   10.0%  (1 more, each below 25 %)\n\n");
	free(text);
	stack_trees_deinit(&t);
}

static void check_short(const char *name, size_t columns, const char *expected)
{
	char text[300];

	snprintf(text, sizeof(text), "%s", name);
	text_shorten(text, columns);
	assert_string_equal(text, expected);
}

static void long_names_lose_arguments_then_parameters_then_the_middle(void **state)
{
	check_short("main", 8, "main");
	check_short("Cache<Key<int>, V>::lookup(Key const&)", 40, "Cache<Key<int>, V>::lookup(Key const&)");
	check_short("Cache<Key<int>, V>::lookup(Key const&)", 30, "Cache<...>::lookup(Key const&)");
	check_short("Cache<Key<int>, V>::lookup(Key const&)", 29, "Cache<...>::lookup(...)");
	check_short("(anonymous namespace)::f<std::less<int> >(int, char)", 40,
		    "(anonymous namespace)::f<...>(int, char)");
	check_short("std::ostream& operator<< <char>(std::ostream&, char const*)", 40,
		    "std::ostream& operator<< <...>(...)");
	check_short("bool X<int, long>::operator<(X<int, long> const&) const", 36,
		    "bool X<...>::operator<(...) const");
	check_short("X<aaaaaaaaaaaaaaaaaaaaa>::operator()(int)", 30, "X<...>::operator()(int)");
	check_short("X::operator->() const and more of it than fits", 30, "X::operator->() co...than fits");
	check_short("unclosed<aaaaaaaaaaaaaaaaaaaaaaaaaa", 20, "unclosed<aa...aaaaaa");
	check_short("caf\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", 8,
		    "caf...\xc3\xa9\xc3\xa9");
	check_short("abcdefghi", 1, "abc...hi");
}

static void a_tree_fits_the_terminal(void **state)
{
	struct stack_trees t = { .merge = MERGE_FUNCTIONS };
	struct print_options options = { .width = 80 };
	char *text, *line;

	ADD(&t, WALK_END_COMPLETE,
	    "std::map<std::basic_string<char>, std::vector<int>, "
	    "std::less<std::basic_string<char>>>::at(caf\xc3\xa9)",
	    "a_name_of_a_function_in_c_that_is_longer_than_what_is_left_of_the_line_behind_the_count",
	    "main");
	text = print(print_text_new, &t, &options);
	assert_non_null(strstr(text, "               std::map<...>::at(caf\xc3\xa9)\n"));
	assert_non_null(strstr(
		text, "               a_name_of_a_function_in_c_that_is_longer_...line_behind_the_count\n"));
	for (line = text; *line; line += strcspn(line, "\n") + 1)
		assert_true(strcspn(line, "\n") <= 80);
	free(text);
	stack_trees_deinit(&t);
}

/* Of every node, the naive count: how many stacks begin with the same functions. */
static void counts_are_those_of_counting_one_by_one(void **state)
{
	static const char *const name[] = { "a", "b", "c", "d" };
	static uint8_t stack[2000][DEPTH], depth[2000];
	struct stack_trees t = { .merge = MERGE_FUNCTIONS };
	const char *function[DEPTH];
	struct stack_node *n;
	size_t i, k, nodes = 0, leaves = 0;

	srand(7);
	for (i = 0; i < 2000; i++) {
		depth[i] = 1 + rand() % DEPTH;
		for (k = 0; k < depth[i]; k++)
			stack[i][k] = rand() % 4; /* outermost first */
		for (k = 0; k < depth[i]; k++)
			function[k] = name[stack[i][depth[i] - 1 - k]];
		add(&t, function, depth[i], WALK_END_COMPLETE);
	}
	stack_trees_sort(&t);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.v[0]->root.count, 2000);
	for (n = stack_node_next(&t.v[0]->root, &t.v[0]->root); n; n = stack_node_next(&t.v[0]->root, n)) {
		uint8_t path[DEPTH];
		size_t len = 0, count = 0, self = 0;
		const struct stack_node *up;

		for (up = n; up->parent; up = up->parent)
			len++;
		for (up = n, k = len; up->parent; up = up->parent)
			path[--k] = up->frame.function[0] - 'a';
		for (i = 0; i < 2000; i++) {
			bool begins = depth[i] >= len && !memcmp(stack[i], path, len);

			count += begins;
			self += begins && depth[i] == len;
		}
		assert_int_equal(n->count, count);
		assert_int_equal(n->self, self);
		assert_true(!n->sibling || n->sibling->count <= n->count);
		leaves += n->self != 0;
		nodes++;
	}
	assert_true(nodes > 1000);
	assert_int_equal(t.v[0]->distinct, leaves);
	stack_trees_deinit(&t);
}

static void unknown_functions_are_merged_by_place_or_by_module(void **state)
{
	struct stack_trees places = { .merge = MERGE_FUNCTIONS }, modules = { .merge = MERGE_MODULES };
	int i;

	for (i = 0; i < 3; i++) {
		ADD(&places, WALK_END_COMPLETE, NULL);
		ADD(&modules, WALK_END_COMPLETE, NULL);
	}
	assert_int_equal(places.v[0]->distinct, 3);
	assert_int_equal(modules.v[0]->distinct, 1);
	stack_trees_deinit(&places);
	stack_trees_deinit(&modules);
}

static void equal_names_of_different_modules_are_not_merged(void **state)
{
	struct stack_trees t = { .merge = MERGE_FUNCTIONS };
	struct capture_event raw = { .tag = 1 };
	char a[] = "/bin/a", same[] = "/bin/a", b[] = "/bin/b";
	char *const module[] = { a, same, b };
	struct view_frame f = { .function = "init" };
	struct view_capture c = { .raw = &raw, .tag = &tag, .frame = &f, .nframes = 1 };
	int i;

	for (i = 0; i < 3; i++) {
		f.module = module[i];
		stack_trees_add_capture(&t, &c);
	}
	assert_int_equal(t.v[0]->distinct, 2);
	stack_trees_deinit(&t);
}

static void folded_lines_have_no_blank_nor_semicolon_in_names(void **state)
{
	struct stack_trees t = { .merge = MERGE_MODULES };
	struct print_options options = { 0 };
	struct capture_event raw = { .tag = 1 };
	struct view_frame f[] = {
		{ .module = "/lib/x;y.so", .module_offset = 1 },
		{ .ip = 5 },
		{ .module = "[jit]" },
		{ .function = "__restore_rt", .signal = true },
		{ .function = "f(int, char const*)" },
		{ .function = "operator;\n" },
	};
	struct view_capture c = {
		.raw = &raw, .tag = &tag, .frame = f, .nframes = 6, .walk_end = WALK_END_UNREADABLE
	};
	char *text;

	stack_trees_add_capture(&t, &c);
	stack_trees_add_capture(&t, &c);
	c.nframes = 0;
	c.walk_end = WALK_END_COMPLETE;
	stack_trees_add_capture(&t, &c);
	text = print(print_folded_new, &t, &options);
	assert_string_equal(
		text, "[unknown] 1\n"
		      "[unreadable];operator:?;f(int,char_const*);[signal];[jit];[unknown];[x:y.so] 2\n");
	free(text);
	options.folded_names = true;
	text = print(print_folded_new, &t, &options);
	assert_string_equal(text, "miss 1\n"
				  "miss;[unreadable];operator:?;f(int,char_const*);[signal];[jit];[unknown];"
				  "[x:y.so] 2\n");
	free(text);
	stack_trees_deinit(&t);
}

static void stacks_of_accesses_make_trees_too(void **state)
{
	struct annotate *a = annotate_new(NULL, ANNOTATE_STACK | ANNOTATE_TEXT);
	struct print_options options = { 0 };
	struct report_options what = {
		.no_events = true, .no_tables = true, .stacks = true, .merge = MERGE_MODULES
	};
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	struct printer *p = print_folded_new(f, &options);
	struct report *r = report_new(a, p, &what);

	annotate_add_view(a, report_view(r));
	feed_captures(a);
	report_finish(r);
	fflush(f);
	assert_string_equal(text, "[unknown];[app];[app] 2\n[app];[app] 1\n" /* cache-miss */
				  "[depth];[app];[app] 1\n"		     /* 42 */
				  "[app];[app] 1\n" /* flag */);
	assert_int_equal(report_lost(r), 2);
	report_free(r);
	printer_free(p);
	annotate_free(a);
	fclose(f);
	free(text);
}

static void a_median_lies_between_its_bounds(void **state)
{
	uint64_t low, high, v, step = 1;
	struct value_spread *s = calloc(1, sizeof(*s));
	size_t i, n = 0;

	value_spread_add(s, 7);
	value_spread_median(s, &low, &high);
	assert_true(low == 7 && high == 7);
	memset(s, 0, sizeof(*s));
	/* 1, 2, 4 ... 2^63: the lower one in the middle is 2^31. */
	for (i = 0; i < 64; i++)
		value_spread_add(s, (uint64_t)1 << i);
	value_spread_median(s, &low, &high);
	assert_true(low <= (uint64_t)1 << 31 && high >= (uint64_t)1 << 31);
	assert_true(high - low < ((uint64_t)1 << 31) / 16);
	/* Every value falls into one bucket, whose bounds hold it and meet those of the next. */
	for (i = 0; i < SPREAD_BUCKETS; i++) {
		value_spread_bounds(i, &low, &high);
		assert_true(low <= high && (i == 0 ? low == 0 : low == v + 1));
		v = high;
	}
	assert_true(v == UINT64_MAX);
	for (v = 0; v < UINT64_MAX - step; v += step, step += step / 3 + 1) {
		memset(s, 0, sizeof(*s));
		value_spread_add(s, v);
		for (i = 0; !s->bucket[i]; i++)
			;
		value_spread_bounds(i, &low, &high);
		assert_true(low <= v && v <= high);
		n++;
	}
	assert_true(n > 50);
	free(s);
}

/* The order of events */

struct seen {
	uint64_t time[8];
	size_t n;
};

static struct wc_error *note_time(void *ctx, const struct trace_event *e)
{
	struct seen *s = ctx;

	if (e->type == EVENT_CAPTURE)
		assert_int_equal(e->capture.frame[0], e->time_ns);
	s->time[s->n++] = e->time_ns;
	return NULL;
}

static void put_capture(struct reorder *r, uint64_t time_ns)
{
	uint64_t frame[] = { time_ns };
	struct trace_event e = { .type = EVENT_CAPTURE,
				 .time_ns = time_ns,
				 .capture = { .nframes = 1, .frame = frame } };
	struct event_sink sink = reorder_sink(r);

	assert_null(sink.put(sink.ctx, &e));
	frame[0] = 0; /* what it points to is gone after the call */
}

static void put_module(struct reorder *r, uint64_t time_ns)
{
	struct trace_event e = { .type = EVENT_MODULE, .time_ns = time_ns };
	struct event_sink sink = reorder_sink(r);

	assert_null(sink.put(sink.ctx, &e));
}

static void captures_collected_late_stand_where_they_belong(void **state)
{
	struct seen s = { 0 };
	struct reorder *r = reorder_new((struct event_sink){ note_time, &s });

	put_capture(r, 30);
	put_capture(r, 10);
	put_capture(r, 20);
	assert_int_equal(s.n, 0);
	put_capture(r, 30 + REORDER_WINDOW_NS);
	assert_int_equal(s.n, 2); /* what is older than the window */
	assert_null(reorder_flush(r));
	assert_int_equal(s.n, 4);
	assert_int_equal(s.time[0], 10);
	assert_int_equal(s.time[1], 20);
	assert_int_equal(s.time[2], 30);
	put_capture(r, 50);
	reorder_free(r);
}

/* An address means something else behind it. */
static void no_event_is_moved_across_a_change_of_modules(void **state)
{
	struct seen s = { 0 };
	struct reorder *r = reorder_new((struct event_sink){ note_time, &s });

	put_capture(r, 30);
	put_module(r, 31);
	put_capture(r, 10);
	assert_null(reorder_flush(r));
	assert_int_equal(s.n, 3);
	assert_int_equal(s.time[0], 30);
	assert_int_equal(s.time[1], 31);
	assert_int_equal(s.time[2], 10);
	reorder_free(r);
}

static void put_comm(struct reorder *r, uint64_t time_ns, const char *comm)
{
	struct trace_event e = { .type = EVENT_THREAD,
				 .time_ns = time_ns,
				 .thread = { .pid = 77, .tid = 78, .comm = comm } };
	struct event_sink sink = reorder_sink(r);

	assert_null(sink.put(sink.ctx, &e));
}

static void what_was_captured_under_an_old_name_is_passed_on_before_the_new_one(void **state)
{
	struct seen s = { 0 };
	struct reorder *r = reorder_new((struct event_sink){ note_time, &s });

	put_capture(r, 30);
	put_comm(r, 31, "app"); /* a new fact goes ahead of what waits, which may refer to it */
	assert_int_equal(s.n, 1);
	put_comm(r, 32, "worker");
	assert_int_equal(s.n, 3);
	assert_int_equal(s.time[0], 31);
	assert_int_equal(s.time[1], 30);
	assert_int_equal(s.time[2], 32);
	reorder_free(r);
}

/* 128 addresses with 64 functions each, and stacks that end at every one of them. */
static void the_deepest_stacks_of_a_hostile_log_are_printed(void **state)
{
	static struct view_frame frame[STACK_MAX * SYMBOL_FUNCTIONS_MAX];
	const size_t n = sizeof(frame) / sizeof(frame[0]);
	struct stack_trees t = { .merge = MERGE_FUNCTIONS };
	struct capture_event raw = { .tag = 1 };
	struct view_capture c = { .raw = &raw, .tag = &tag };
	struct print_options options = { .width = 80 };
	FILE *nowhere = fopen("/dev/null", "w");
	struct printer *p = print_text_new(nowhere, &options);
	size_t i;

	for (i = 0; i < n; i++)
		frame[i].function = "f";
	for (i = 1; i <= n; i++) {
		c.frame = frame + n - i;
		c.nframes = i;
		stack_trees_add_capture(&t, &c);
	}
	stack_trees_sort(&t);
	assert_int_equal(t.v[0]->distinct, n);
	printer_stacks(p, &t);
	printer_free(p);
	fclose(nowhere);
	stack_trees_deinit(&t);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tree_is_indented_where_stacks_part),
		cmocka_unit_test(inverted_it_shows_who_calls),
		cmocka_unit_test(small_branches_are_left_out_and_counted),
		cmocka_unit_test(long_names_lose_arguments_then_parameters_then_the_middle),
		cmocka_unit_test(a_tree_fits_the_terminal),
		cmocka_unit_test(counts_are_those_of_counting_one_by_one),
		cmocka_unit_test(unknown_functions_are_merged_by_place_or_by_module),
		cmocka_unit_test(equal_names_of_different_modules_are_not_merged),
		cmocka_unit_test(folded_lines_have_no_blank_nor_semicolon_in_names),
		cmocka_unit_test(stacks_of_accesses_make_trees_too),
		cmocka_unit_test(a_median_lies_between_its_bounds),
		cmocka_unit_test(captures_collected_late_stand_where_they_belong),
		cmocka_unit_test(no_event_is_moved_across_a_change_of_modules),
		cmocka_unit_test(what_was_captured_under_an_old_name_is_passed_on_before_the_new_one),
		cmocka_unit_test(the_deepest_stacks_of_a_hostile_log_are_printed),
	};

	return cmocka_run_group_tests_name("stack_tree", tests, NULL, NULL);
}
