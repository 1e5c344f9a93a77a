/* The parts of `watchctl export`: moments, names, files, open calls, lists in a file, the graph. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/view_stream.h"
#include "watchctl/view/export/export_calls.h"
#include "watchctl/view/export/export_graph.h"
#include "watchctl/view/export/export_out.h"
#include "watchctl/view/export/export_spill.h"
#include "watchctl/base/text_buf.h"
#include "watchctl/view/export/export_text.h"
#include "watchctl/view/event/time_bound.h"

/* Moments */

static const struct view_time begin = { .mono_ns = T0, .real_ns = EPOCH };

static uint64_t moment(const char *text, bool utc)
{
	struct time_bound t;
	uint64_t ns = 0;

	assert_null(time_bound_parse("--from", text, utc, &t));
	assert_null(time_bound_resolve(&t, begin, &ns));
	return ns;
}

/* The log begins on 2023-11-14 at 22:13:20 UTC, which is 00:13:20 of the next day in Helsinki. */
static void a_moment_is_the_same_however_it_is_written(void **state)
{
	const uint64_t day = 86400000000000u;

	(void)state;
	setenv("TZ", "EET-2", 1);
	tzset();
	assert_int_equal(moment("+1.5s", false), T0 + 1500000000u);
	assert_int_equal(moment("+1500ms", false), T0 + 1500000000u);
	assert_int_equal(moment("+2.5us", false), T0 + 2500);
	assert_int_equal(moment("+7ns", false), T0 + 7);
	assert_int_equal(moment("+0.000000001", false), T0 + 1);
	assert_int_equal(moment("+1.5h", false), T0 + 5400000000000u);
	assert_int_equal(moment("123", false), 123);
	assert_int_equal(moment("22:13:21.25", true), T0 + 1250000000u);
	assert_int_equal(moment("22:13:21.25Z", false), T0 + 1250000000u);
	assert_int_equal(moment("00:13:21.25", false), T0 + 1250000000u);
	/* The next one after the beginning: on the day after. */
	assert_int_equal(moment("22:13:19", true), T0 + day - 1000000000u);
	assert_int_equal(moment("00:13", false), T0 + day - 20000000000u);
	assert_int_equal(moment("2023-11-14T22:13:21Z", false), T0 + 1000000000u);
	assert_int_equal(moment("2023-11-15 00:13:21", false), T0 + 1000000000u);
	/* Before the clock began: everything is later. And what no clock will show. */
	assert_int_equal(moment("1999-01-01T00:00:00Z", false), 0);
	assert_int_equal(moment("+99999999999999999ns", false), T0 + 99999999999999999u);
	assert_int_equal(moment("9999-12-31T00:00:00Z", false), UINT64_MAX);
}

static void what_is_no_moment_is_refused(void **state)
{
	static const char *const bad[] = { "",
					   "yesterday",
					   "-5s",
					   "+",
					   "+5x",
					   "+1e3",
					   "1.5",
					   "25:00",
					   "12:60",
					   "12:0",
					   "12:00:61",
					   "12:00:00x",
					   "5s",
					   "+-3s",
					   "2023-13-01T00:00:00",
					   "2023-11-14",
					   "2023-1-1T00:00:00",
					   "99999999999999999999",
					   "+99999999999999999999s" };
	struct time_bound t;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct wc_error *err = time_bound_parse("--until", bad[i], false, &t);
		if (!err)
			fail_msg("\"%s\" was taken for a time", bad[i]);
		assert_int_equal(err->kind, WC_EUSAGE);
		assert_non_null(strstr(err->text, "--until"));
		wc_error_free(err);
	}
}

static void a_log_that_does_not_know_the_time_of_day_says_so(void **state)
{
	const struct view_time unknown = { .mono_ns = T0 };
	struct time_bound t;
	struct wc_error *err;
	uint64_t ns;

	(void)state;
	assert_null(time_bound_parse("--from", "12:00:00", false, &t));
	err = time_bound_resolve(&t, unknown, &ns);
	assert_non_null(err);
	assert_int_equal(err->kind, WC_ENAME);
	wc_error_free(err);
	assert_null(time_bound_parse("--from", "+1s", false, &t));
	assert_null(time_bound_resolve(&t, unknown, &ns));
	assert_int_equal(ns, T0 + 1000000000u);
}

/* Names */

static void a_name_is_clean_text_whatever_it_was(void **state)
{
	static const struct {
		const char *from, *to;
	} names[] = {
		{ "plain", "plain" },
		{ "", "" },
		{ "a\nb\tc\x7f", "a\xef\xbf\xbd"
				 "b\xef\xbf\xbd"
				 "c\xef\xbf\xbd" },
		{ "caf\xc3\xa9 \xe2\x82\xac", "caf\xc3\xa9 \xe2\x82\xac" },
		{ "\xc2\x85", "\xef\xbf\xbd" },		    /* a C1 control */
		{ "\xe2\x80\xa8x", "\xef\xbf\xbdx" },	    /* U+2028 */
		{ "\xe2\x80\xa6", "\xe2\x80\xa6" },	    /* U+2026 */
		{ "\xff\xc3", "\xef\xbf\xbd\xef\xbf\xbd" }, /* not UTF-8; cut */
		{ "\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd" }, /* NUL, too long */
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct text_buf t = { 0 };

		export_text_clean(&t, names[i].from);
		assert_string_equal(text_buf_text(&t), names[i].to);
		text_buf_deinit(&t);
	}
}

static void hexadecimal_is_as_printf_has_it(void **state)
{
	static const uint64_t numbers[] = { 0, 1, 0xf, 0x10, 0x401126, UINT64_MAX };
	struct text_buf t = { 0 };
	char want[40];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		text_buf_empty(&t);
		text_buf_hex(&t, numbers[i], 12);
		snprintf(want, sizeof(want), "%12llx", (unsigned long long)numbers[i]);
		assert_string_equal(text_buf_text(&t), want);
	}
	text_buf_deinit(&t);
}

/* Files */

struct folder {
	char path[64];
};

static void folder_make(struct folder *f)
{
	strcpy(f->path, "/tmp/test-export-XXXXXX");
	assert_non_null(mkdtemp(f->path));
}

static size_t count_files(const struct folder *f)
{
	DIR *d = opendir(f->path);
	size_t n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static void folder_remove(struct folder *f)
{
	char command[100];

	snprintf(command, sizeof(command), "rm -rf %s", f->path);
	assert_int_equal(system(command), 0);
}

static const char *in(const struct folder *f, const char *name)
{
	static char path[4][100];
	static int next;

	next = (next + 1) % 4;
	snprintf(path[next], sizeof(path[next]), "%s/%s", f->path, name);
	return path[next];
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void assert_file(const char *path, const char *text)
{
	char buf[100] = "";
	FILE *f = fopen(path, "r");

	assert_non_null(f);
	assert_true(fread(buf, 1, sizeof(buf) - 1, f) <= sizeof(buf));
	fclose(f);
	assert_string_equal(buf, text);
}

static void parts_get_their_names_when_all_is_there(void **state)
{
	struct export_out *out;
	struct folder f;
	struct stat st;

	(void)state;
	folder_make(&f);
	assert_null(export_out_open(in(&f, "trace.json"), false, &out));
	assert_true(export_out_splits(out));
	fputs("one", export_out_file(out));
	assert_null(export_out_next(out));
	fputs("two", export_out_file(out));
	assert_int_equal(count_files(&f), 0);
	assert_null(export_out_commit(out));
	assert_int_equal(export_out_parts(out), 2);
	export_out_free(out);
	assert_int_equal(count_files(&f), 2);
	assert_file(in(&f, "trace.json"), "one");
	assert_file(in(&f, "trace.2.json"), "two");
	assert_int_equal(stat(in(&f, "trace.json"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	folder_remove(&f);
}

static void what_is_given_up_leaves_nothing(void **state)
{
	struct export_out *out;
	struct folder f;

	(void)state;
	folder_make(&f);
	assert_null(export_out_open(in(&f, "a"), false, &out));
	fputs("half", export_out_file(out));
	assert_null(export_out_next(out));
	export_out_free(out);
	assert_int_equal(count_files(&f), 0);
	folder_remove(&f);
}

/* Also one that somebody else made in the meantime. */
static void a_file_is_replaced_only_by_force(void **state)
{
	struct export_out *out;
	struct wc_error *err;
	struct folder f;

	(void)state;
	folder_make(&f);
	assert_null(export_out_open(in(&f, "a.csv"), false, &out));
	fputs("mine", export_out_file(out));
	assert_null(export_out_next(out));
	write_file(in(&f, "a.2.csv"), "theirs");
	err = export_out_commit(out);
	assert_non_null(err);
	assert_int_equal(err->kind, WC_EUSAGE);
	wc_error_free(err);
	export_out_free(out);
	assert_int_equal(count_files(&f), 1);
	assert_file(in(&f, "a.2.csv"), "theirs");

	err = export_out_open(in(&f, "a.2.csv"), false, &out);
	assert_non_null(err);
	assert_non_null(strstr(err->text, "--force"));
	wc_error_free(err);
	assert_null(export_out_open(in(&f, "a.2.csv"), true, &out));
	fputs("new", export_out_file(out));
	assert_file(in(&f, "a.2.csv"), "theirs");
	assert_null(export_out_commit(out));
	export_out_free(out);
	assert_file(in(&f, "a.2.csv"), "new");
	assert_int_equal(count_files(&f), 1);
	folder_remove(&f);
}

static void where_nothing_can_be_written_it_is_said_at_once(void **state)
{
	struct export_out *out;
	struct wc_error *err = export_out_open("/no/such/folder/a", false, &out);

	(void)state;
	assert_non_null(err);
	assert_int_equal(err->kind, WC_EFAIL);
	assert_non_null(strstr(err->text, "/no/such/folder/a"));
	wc_error_free(err);
	err = export_out_open("/tmp", true, &out);
	assert_non_null(err);
	assert_int_equal(err->kind, WC_EUSAGE);
	wc_error_free(err);
}

/* Calls */

static struct view_call call_at(uint64_t number, uint32_t depth, const struct view_function *function)
{
	static struct call_event raw[100];

	raw[number].call = number;
	return (struct view_call){ .raw = &raw[number], .depth = depth, .function = function };
}

static void calls_nest_also_where_some_are_missing(void **state)
{
	static const struct view_function f = { .text = "f" };
	struct export_threads threads = { 0 };
	struct export_thread *th = export_thread_get(&threads, 1, 2);
	struct view_frame *buf = NULL;
	struct view_call c;
	size_t cap = 0;

	(void)state;
	assert_ptr_equal(export_thread_get(&threads, 1, 2), th);
	assert_ptr_not_equal(export_thread_get(&threads, 2, 2), th);
	c = call_at(1, 0, &f);
	assert_int_equal(export_calls_ended_by(th, &c), 0);
	assert_true(export_calls_push(&threads, th, &c));
	c = call_at(2, 1, &f);
	assert_int_equal(export_calls_ended_by(th, &c), 0);
	assert_true(export_calls_push(&threads, th, &c));
	c = call_at(3, 2, &f);
	assert_true(export_calls_push(&threads, th, &c));
	assert_int_equal(threads.nopen, 3);
	/* The ends of 2 and 3 are not in the log. */
	c = call_at(4, 1, &f);
	assert_int_equal(export_calls_ended_by(th, &c), 2);
	/* Calls around this one are not in the log: it is deeper than what is open. */
	c = call_at(5, 9, &f);
	assert_int_equal(export_calls_ended_by(th, &c), 0);
	/* An end that takes others with it, and one of a call that is not open. */
	assert_int_equal(export_calls_ended_with(th, 1), 3);
	assert_int_equal(export_calls_ended_with(th, 3), 1);
	assert_int_equal(export_calls_ended_with(th, 7), 0);
	assert_non_null(export_calls_frames(th, 2, &buf, &cap));
	assert_string_equal(buf[1].function, "f");
	assert_int_equal(export_thread_time(th, 50), 50);
	assert_int_equal(export_thread_time(th, 40), 50);
	free(buf);
	export_threads_deinit(&threads);
}

/* Lists in a file */

struct expected {
	uint64_t next, step;
};

static void check_record(void *ctx, const struct spill_record *r)
{
	struct expected *e = ctx;

	assert_int_equal(r->time_ns, e->next);
	assert_int_equal(r->what, (uint32_t)e->next ^ 0x5555);
	e->next += e->step;
}

static void many_lists_come_back_each_in_its_order(void **state)
{
	enum { LISTS = 7, RECORDS = 200000 };
	struct spill_list list[LISTS] = { 0 };
	struct spill *s = spill_new();
	uint64_t i;

	(void)state;
	assert_non_null(s);
	/* The last list gets one record, the one before it none. */
	for (i = 0; i < RECORDS; i++) {
		struct spill_record r = { .time_ns = i, .what = (uint32_t)i ^ 0x5555 };

		assert_null(spill_put(s, &list[i % (LISTS - 2)], &r));
	}
	assert_null(
		spill_put(s, &list[LISTS - 1], &(struct spill_record){ .time_ns = 9, .what = 9 ^ 0x5555 }));
	for (i = 0; i < LISTS - 2; i++) {
		struct expected e = { .next = i, .step = LISTS - 2 };

		assert_null(spill_each(s, &list[i], check_record, &e));
		assert_int_equal(e.next, RECORDS + i);
	}
	assert_null(spill_each(s, &list[LISTS - 2], check_record, NULL));
	assert_null(spill_each(s, &list[LISTS - 1], check_record, &(struct expected){ .next = 9 }));
	for (i = 0; i < LISTS; i++)
		spill_list_deinit(&list[i]);
	spill_free(s);
}

static void without_room_for_the_file_it_is_an_error(void **state)
{
	struct spill *s = spill_new();
	struct spill_list l = { 0 };
	struct wc_error *err = NULL;
	int i;

	(void)state;
	setenv("TMPDIR", "/no/such/folder", 1);
	for (i = 0; i < 100000 && !err; i++)
		err = spill_put(s, &l, &(struct spill_record){ .time_ns = (uint64_t)i });
	unsetenv("TMPDIR");
	assert_non_null(err);
	assert_int_equal(err->kind, WC_EFAIL);
	assert_non_null(strstr(err->text, "TMPDIR"));
	wc_error_free(err);
	spill_list_deinit(&l);
	spill_free(s);
}

/* The graph */

static const struct graph_edge *edge_of(const struct graph *g, const char *from, const char *to)
{
	size_t i;

	for (i = 0; i < g->nedges; i++)
		if (!strcmp(g->edge[i]->from->text, from) && !strcmp(g->edge[i]->to->text, to))
			return g->edge[i];
	return NULL;
}

/* Equal names at several addresses are one function; recursion counts once a stack. */
static void a_stack_counts_once_for_each_edge_on_it(void **state)
{
	char f1[] = "f", f2[] = "f", module[] = "/bin/app";
	const struct view_frame frames[] = { { .function = f1, .module = module },
					     { .function = f2, .module = module },
					     { .function = f1, .module = module },
					     { .function = "main", .module = module } };
	const struct frame_name name = { .function = "f", .file = "a.c", .line = 3 };
	const struct location place = { .nframes = 1, .frame = &name, .offset = 8 };
	const struct view_watch watch = { .e = { .name = "flag" } };
	const struct access_event raw = { .nframes = 1 };
	const struct view_access a = { .raw = &raw,
				       .watch = &watch,
				       .kind = ACCESS_WRITE,
				       .ip = 5,
				       .location = &place,
				       .frame = frames,
				       .nframes = 4 };
	struct graph g = { 0 };
	struct graph_rest rest;
	size_t nedges;

	(void)state;
	assert_true(graph_add_access(&g, &a));
	assert_true(graph_add_access(&g, &a));
	assert_int_equal(g.nnodes, 3);
	assert_int_equal(g.nedges, 3);
	assert_int_equal(edge_of(&g, "f", "f")->count, 2);
	assert_int_equal(edge_of(&g, "main", "f")->count, 2);
	assert_int_equal(edge_of(&g, "f", "write flag\nf+8\na.c:3\n")->count, 2);
	graph_cut(&g, 2, &nedges, &rest);
	assert_int_equal(rest.functions, 1);
	assert_int_equal(rest.sites, 0);
	assert_int_equal(nedges + rest.edges, 3);
	graph_deinit(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_moment_is_the_same_however_it_is_written),
		cmocka_unit_test(what_is_no_moment_is_refused),
		cmocka_unit_test(a_log_that_does_not_know_the_time_of_day_says_so),
		cmocka_unit_test(a_name_is_clean_text_whatever_it_was),
		cmocka_unit_test(hexadecimal_is_as_printf_has_it),
		cmocka_unit_test(parts_get_their_names_when_all_is_there),
		cmocka_unit_test(what_is_given_up_leaves_nothing),
		cmocka_unit_test(a_file_is_replaced_only_by_force),
		cmocka_unit_test(where_nothing_can_be_written_it_is_said_at_once),
		cmocka_unit_test(calls_nest_also_where_some_are_missing),
		cmocka_unit_test(many_lists_come_back_each_in_its_order),
		cmocka_unit_test(without_room_for_the_file_it_is_an_error),
		cmocka_unit_test(a_stack_counts_once_for_each_edge_on_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
