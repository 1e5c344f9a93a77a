/* The form for people: golden lines, and nothing of a target's bytes that could drive a terminal. */
#include "tests/unit/view_output.h"

#include "watchctl/base/utf8.h"

static void print_chosen(void (*stream)(struct annotate *a), struct output *o,
			 const struct print_options *options, const struct report_options *what,
			 const struct event_choice *choice)
{
	print_report(stream, print_text_new, 0, o, options, what, choice);
}

static void print_stream(void (*stream)(struct annotate *a), struct output *o,
			 const struct print_options *options, const struct report_options *what)
{
	print_chosen(stream, o, options, what, &(struct event_choice){ 0 });
}

/* What the printer makes of the session. */
static void print_session(struct output *o, const struct print_options *options,
			  const struct report_options *what)
{
	print_stream(feed_session, o, options, what);
}

static const char head[] =
	"process 77 (app): app -x, on box, 2023-11-14 22:13:20 UTC\n"
	"watching flag of app (int, 4 bytes at 0x404010) for reads and writes: armed on 5 of 5 "
	"threads, handler engine, "
	"verified by a known access\n";

static const char tail[] =
	"\n"
	"COUNT  WATCH  KIND   SITE           SOURCE  THREADS  LAST       INSTRUCTION\n"
	"    2  flag   write  app+0x1000                   1  42 (same)  mov dword ptr [rdi], eax\n"
	"    1  flag   read   app+0x1010                   1  42         mov eax, dword ptr [rdi]\n"
	"    1  flag   write  app+0x1020                   1  42 -> 7    syscall  (by the kernel)\n"
	"    1  flag   ?      then 0x999999                1  7 -> 8\n"
	"\n"
	"flag: 9 accesses counted by the CPU: 5 recorded, 3 lost, 0 filtered, 1 not accounted for, in 3.2 "
	"s\n";

static const char *joined(const char *a, const char *b, const char *c)
{
	static char text[8192];

	snprintf(text, sizeof(text), "%s%s%s", a, b, c);
	return text;
}

static void a_session_reads_as_designed(void **state)
{
	struct print_options options = { .utc = true };
	struct report_options what = { 0 };
	struct output o;

	print_session(&o, &options, &what);
	assert_string_equal(
		o.text,
		joined(head,
		       "22:13:20.000010  worker/78     write  flag  41 -> 42    app+0x1000                  "
		       "mov dword ptr [rdi], eax\n"
		       "    #1  app+0x1100\n"
		       "    #2  0x7f0000001234\n"
		       "    ... no unwind information for the code of the last frame\n"
		       "22:13:20.000020  app/77        read   flag  42          app+0x1010                  "
		       "mov eax, dword ptr [rdi]\n"
		       "22:13:21.000030  worker/78     write  flag  42 (same)   app+0x1000                  "
		       "mov dword ptr [rdi], eax\n"
		       "22:13:21.000040  ?/79          write  flag  42 -> 7     app+0x1020                  "
		       "syscall  (by the kernel)\n"
		       "22:13:21.000050  ?/79          ?      flag  7 -> 8      then 0x999999               "
		       "(instruction not known)\n"
		       "22:13:21.500000  lost 3 accesses to flag: ring full\n"
		       "22:13:21.600000  note: thread ?[31m? \"x\" caf\xc3\xa9\n",
		       tail));
	free(o.text);
}

static void without_accesses_losses_and_notes_are_still_reported(void **state)
{
	struct print_options options = { .utc = true };
	struct report_options what = { .no_events = true };
	struct output o;

	print_session(&o, &options, &what);
	assert_string_equal(o.text, joined(head,
					   "22:13:21.500000  lost 3 accesses to flag: ring full\n"
					   "22:13:21.600000  note: thread ?[31m? \"x\" caf\xc3\xa9\n",
					   tail));
	free(o.text);
}

static void the_last_ones_only_when_asked_but_the_table_counts_all(void **state)
{
	struct print_options options = { .utc = true, .no_stack = true };
	struct report_options what = { .skip = 4 };
	struct output o;

	print_session(&o, &options, &what);
	assert_null(strstr(o.text, "22:13:21.000040"));
	assert_non_null(strstr(o.text, "22:13:21.000050"));
	assert_non_null(strstr(o.text, tail));
	free(o.text);
}

static void registers_are_printed_four_a_line(void **state)
{
	struct print_options options = { .utc = true, .regs = true, .no_stack = true };
	struct report_options what = { .no_tables = true };
	struct output o;

	print_session(&o, &options, &what);
	assert_non_null(strstr(o.text, "mov dword ptr [rdi], eax\n"
				       "    rax     000000000000002a  rdx     0000000000000000  "
				       "rcx     0000000000000000  rbx     0000000000000000\n"));
	assert_non_null(strstr(o.text, "    rip     0000000000401002  rflags  0000000000000000  fs_base "
				       "0000000000000000\n"));
	assert_null(strstr(o.text, "COUNT"));
	assert_null(strstr(o.text, "#1"));
	free(o.text);
}

/* Found by the fuzzer: the empty name was looked for behind the end of the list of names. */
static void watches_without_a_name_are_listed_too(void **state)
{
	const struct event_choice choice = { .watch = "flag" };
	struct annotate *a = annotate_new(NULL, 0);
	struct event_chooser *c = event_chooser_new(&choice, (struct view){ .ops = &(struct view_ops){ 0 } });
	struct wc_error *err;

	annotate_add_view(a, event_chooser_view(c));
	feed_watch(a, 0, "", ACCESS_READWRITE);
	feed_watch(a, 1, "", ACCESS_READWRITE);
	feed_watch(a, 2, "other", ACCESS_READWRITE);
	err = event_chooser_check(c, "LOG");
	assert_non_null(err);
	assert_string_equal(err->text, "the log LOG has no watch \"flag\"; its watches are: , other");
	wc_error_free(err);
	event_chooser_free(c);
	annotate_free(a);
}

/* The table's last columns are for wider terminals; nothing else is left out. */
static void what_does_not_fit_the_terminal_is_folded_or_left_to_wider_ones(void **state)
{
	struct print_options options = { .utc = true, .width = 60 };
	struct report_options what = { .skip = 1 };
	struct output o;

	print_session(&o, &options, &what);
	assert_non_null(strstr(o.text,
			       "watching flag of app (int, 4 bytes at 0x404010) for reads and writes:\n"
			       "    armed on 5 of 5 threads, "));
	assert_non_null(strstr(o.text, "  app/77        read   flag  42\n"
				       "    at  app+0x1010                          "
				       "mov eax, dword ptr [rdi]\n"));
	assert_non_null(strstr(o.text, "\nCOUNT  WATCH  KIND   SITE           SOURCE  THREADS\n"
				       "    2  flag   write  app+0x1000                   1\n"));
	assert_non_null(strstr(o.text, "flag:\n    9 accesses counted by the CPU: "));
	free(o.text);
}

static void captures_stand_among_the_accesses_and_have_a_table(void **state)
{
	struct print_options options = { .utc = true };
	struct report_options what = { 0 };
	struct output o;

	print_stream(feed_captures, &o, &options, &what);
	assert_string_equal(
		o.text,
		joined(head,
		       "22:13:20.000010  worker/78     tag    cache-miss  17          app+0x1050\n"
		       "    #1  app+0x1100\n"
		       "    #2  0x7f0000001234\n"
		       "22:13:20.000022  worker/78     write  flag        41 -> 42    app+0x1000             "
		       "     "
		       "mov dword ptr [rdi], eax\n"
		       "    #1  app+0x1100\n"
		       "22:13:20.000030  app/77        tag    42                      app+0x1060\n"
		       "    #1  app+0x1100\n"
		       "    ... more frames were not recorded\n"
		       "22:13:20.500010  app/77        tag    cache-miss  0x7ffe12345678  app+0x1060\n"
		       "    #1  app+0x1100\n"
		       "22:13:21.000010  worker/78     tag    cache-miss  19              app+0x1050\n"
		       "    #1  app+0x1100\n"
		       "    #2  0x7f0000001234\n"
		       "22:13:21.500000  lost 2 captures: ring full\n",
		       "\n"
		       "COUNT  WATCH  KIND   SITE        SOURCE  THREADS  LAST      INSTRUCTION\n"
		       "    1  flag   write  app+0x1000                1  41 -> 42  mov dword ptr [rdi], "
		       "eax\n"
		       "\n"
		       "COUNT  TAG         MOSTLY AT        SOURCE  THREADS   RATE  MIN  MEDIAN             "
		       "MAX\n"
		       "    3  cache-miss  app+0x1050 (+1)                2  2.0/s   17      19  "
		       "0x7ffe12345678\n"
		       "    1  42          app+0x1060                     1\n"
		       "\n"
		       "captures: 6 made by the program: 4 recorded, 2 lost, in 1.7 s\n"
		       "flag: 1 recorded, 0 lost, 0 filtered, in 0.0 s (the recording ends without a "
		       "summary: "
		       "these are the numbers of its events)\n"));
	free(o.text);
}

static void a_narrow_terminal_folds_captures_and_no_line_ends_in_blanks(void **state)
{
	struct print_options options = { .utc = true, .width = 60 };
	struct report_options what = { 0 };
	struct output o;

	print_stream(feed_captures, &o, &options, &what);
	assert_non_null(strstr(o.text, "  worker/78     tag    cache-miss  17\n    at  app+0x1050\n    #1"));
	assert_non_null(strstr(o.text, "  app/77        tag    42\n    at  app+0x1060\n    #1"));
	assert_null(strstr(o.text, " \n"));
	free(o.text);
}

/* "Cache<...>::lookup(...)+17" is better than a line that goes on for three. */
static void long_names_are_shortened_on_a_terminal(void **state)
{
	static const char name[] =
		"store::Cache<store::Key, std::vector<std::__cxx11::basic_string<char, "
		"std::char_traits<char>, std::allocator<char> > > >::lookup(store::Key const&)";
	struct print_options narrow = { .width = 80 }, none = { 0 };
	struct view_frame f[] = { { .function = name, .file = "/src/cache.cc", .line = 17, .inlined = true },
				  { .function = name, .offset = 17, .file = "/src/cache.cc", .line = 23 } };
	struct capture_event raw = { .tid = 7 };
	struct view_tag tag = { .name = "miss", .text = "miss" };
	struct view_capture c = { .raw = &raw, .tag = &tag, .frame = f, .nframes = 2 };
	struct printer *p;
	struct output o;
	char *line;

	open_output(&o);
	p = print_text_new(o.f, &narrow);
	printer_view(p).ops->capture(printer_view(p).ctx, &c);
	printer_free(p);
	fclose(o.f);
	assert_non_null(
		strstr(o.text, "    at  store::Cache<...>::lookup(store::Key const&)+17  cache.cc:17\n"));
	assert_non_null(strstr(
		o.text, "    #0  store::Cache<...>::lookup(store::Key const&)  cache.cc:17  (inlined)\n"));
	for (line = o.text; *line; line += strcspn(line, "\n") + 1)
		assert_true(strcspn(line, "\n") <= 80);
	free(o.text);
	open_output(&o);
	p = print_text_new(o.f, &none);
	printer_view(p).ops->capture(printer_view(p).ctx, &c);
	printer_free(p);
	fclose(o.f);
	assert_non_null(strstr(o.text, name));
	free(o.text);
}

static void captures_that_were_filtered_are_reported(void **state)
{
	struct view_summary s = { .e = { .watch = WATCH_CAPTURES,
					 .has_counted = true,
					 .counted = 9,
					 .recorded = 2,
					 .filtered = 7 },
				  .complete = true };
	struct print_options options = { 0 };
	struct printer *p;
	struct output o;

	open_output(&o);
	p = print_text_new(o.f, &options);
	printer_view(p).ops->summary(printer_view(p).ctx, &s);
	printer_free(p);
	fclose(o.f);
	assert_string_equal(o.text,
			    "\ncaptures: 9 made by the program: 2 recorded, 0 lost, 7 filtered, in 0.0 s\n");
	free(o.text);
}

static void only_what_is_chosen_is_reported(void **state)
{
	static const char *const tag[] = { "0x2a" };
	struct print_options options = { .utc = true, .no_stack = true };
	const struct event_choice one_watch = { .watch = "flag" };
	const struct event_choice one_tag = { .tag = tag, .ntags = 1 };
	const struct event_choice both = { .watch = "flag", .tag = tag, .ntags = 1 };
	struct report_options what = { 0 };
	struct output o;

	print_chosen(feed_captures, &o, &options, &what, &one_watch);
	assert_non_null(strstr(o.text, "  write  flag"));
	assert_null(strstr(o.text, "tag "));
	assert_null(strstr(o.text, "capture"));
	free(o.text);
	print_chosen(feed_captures, &o, &options, &what, &one_tag);
	assert_null(strstr(o.text, "flag"));
	assert_null(strstr(o.text, "cache-miss"));
	assert_non_null(strstr(o.text, "  tag    42 "));
	assert_non_null(strstr(o.text, "\ncaptures: 6 made"));
	free(o.text);
	print_chosen(feed_captures, &o, &options, &what, &both);
	assert_non_null(strstr(o.text, "  write  flag"));
	assert_non_null(strstr(o.text, "  tag    42 "));
	assert_null(strstr(o.text, "cache-miss"));
	free(o.text);
}

static void accesses_report_the_last_capture_before_them_in_their_thread(void **state)
{
	struct print_options options = { .utc = true, .before = "cache-miss" };
	struct event_choice choice = { .before = "cache-miss", .watch = "flag" };
	struct report_options what = { 0 };
	struct output o;

	print_chosen(feed_captures, &o, &options, &what, &choice);
	assert_non_null(strstr(o.text,
			       "mov dword ptr [rdi], eax\n"
			       "    #1  app+0x1100\n"
			       "    last cache-miss recorded in this thread, 12.0 us before, value 17:\n"
			       "        #0  app+0x1050\n"
			       "        #1  app+0x1100\n"
			       "        #2  0x7f0000001234\n\n"));
	free(o.text);
	options.before = choice.before = "42"; /* that of another thread, and later */
	print_chosen(feed_captures, &o, &options, &what, &choice);
	assert_non_null(strstr(o.text, "    #1  app+0x1100\n    no 42 recorded in this thread before\n\n"));
	free(o.text);
}

static void the_capture_before_an_access_may_lie_before_what_is_chosen(void **state)
{
	static const char *const tag[] = { "cache-miss" };
	const struct event_choice choice = { .watch = "flag",
					     .tag = tag,
					     .ntags = 1,
					     .from = { .kind = TIME_MONOTONIC, .ns = 1000015000 },
					     .before = "cache-miss" };
	struct print_options options = { .utc = true, .before = "cache-miss" };
	struct report_options what = { 0 };
	struct output o;

	print_chosen(feed_captures, &o, &options, &what, &choice);
	assert_null(strstr(o.text, "22:13:20.000010  worker/78     tag"));
	assert_non_null(strstr(o.text, "last cache-miss recorded in this thread, 12.0 us before, value 17:"));
	free(o.text);
}

/* Removes "ESC [ ... m". */
static void strip_colours(char *s)
{
	char *to = s;

	while (*s) {
		if (*s == '\033')
			s = strchr(s, 'm') + 1;
		else
			*to++ = *s++;
	}
	*to = '\0';
}

static void colours_change_nothing_but_colours(void **state)
{
	struct print_options plain = { .utc = true }, colour = { .utc = true, .colour = true };
	struct report_options what = { 0 };
	struct output a, b;

	int i;

	for (i = 0; i < 3; i++) {
		what.stacks = i == 2;
		print_stream(i ? feed_captures : feed_session, &a, &plain, &what);
		print_stream(i ? feed_captures : feed_session, &b, &colour, &what);
		assert_null(strchr(a.text, '\033'));
		assert_non_null(strchr(b.text, '\033'));
		strip_colours(b.text);
		assert_string_equal(a.text, b.text);
		free(a.text);
		free(b.text);
	}
}

static void cleaning_keeps_text_and_drops_what_drives_terminals(void **state)
{
	char buf[64];

	assert_string_equal(utf8_clean("plain", buf, sizeof(buf)), "plain");
	assert_string_equal(utf8_clean("\x1b]0;x\x07", buf, sizeof(buf)), "?]0;x?");
	assert_string_equal(utf8_clean("\xc2\x9b"
				       "31m",
				       buf, sizeof(buf)),
			    "?31m");						  /* C1: CSI */
	assert_string_equal(utf8_clean("a\xc0\xaf", buf, sizeof(buf)), "a??");	  /* overlong */
	assert_string_equal(utf8_clean("\xed\xa0\x80", buf, sizeof(buf)), "???"); /* a surrogate */
	assert_string_equal(utf8_clean("\xe2\x82", buf, sizeof(buf)), "??");	  /* cut */
	assert_string_equal(utf8_clean("\xe2\x82\xac\xe2\x82\xac", buf, 5), "\xe2\x82\xac");
	assert_int_equal(utf8_columns("\xe2\x82\xac"
				      "1"),
			 2);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_session_reads_as_designed),
		cmocka_unit_test(without_accesses_losses_and_notes_are_still_reported),
		cmocka_unit_test(the_last_ones_only_when_asked_but_the_table_counts_all),
		cmocka_unit_test(registers_are_printed_four_a_line),
		cmocka_unit_test(watches_without_a_name_are_listed_too),
		cmocka_unit_test(what_does_not_fit_the_terminal_is_folded_or_left_to_wider_ones),
		cmocka_unit_test(captures_stand_among_the_accesses_and_have_a_table),
		cmocka_unit_test(a_narrow_terminal_folds_captures_and_no_line_ends_in_blanks),
		cmocka_unit_test(long_names_are_shortened_on_a_terminal),
		cmocka_unit_test(captures_that_were_filtered_are_reported),
		cmocka_unit_test(only_what_is_chosen_is_reported),
		cmocka_unit_test(the_capture_before_an_access_may_lie_before_what_is_chosen),
		cmocka_unit_test(accesses_report_the_last_capture_before_them_in_their_thread),
		cmocka_unit_test(colours_change_nothing_but_colours),
		cmocka_unit_test(cleaning_keeps_text_and_drops_what_drives_terminals),
	};

	return cmocka_run_group_tests_name("print_text", tests, NULL, NULL);
}
