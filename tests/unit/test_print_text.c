/* The form for people: golden lines, and nothing of a target's bytes that could drive a terminal. */
#include "tests/unit/view_stream.h"

#include "watchctl/view/report.h"
#include "watchctl/view/utf8.h"

#define PRINTER print_text_new

struct output {
	char *text;
	size_t len;
	FILE *f;
};

static void open_output(struct output *o)
{
	o->f = open_memstream(&o->text, &o->len);
	assert_non_null(o->f);
}

/* What the printer makes of the session. */
static void print_session(struct output *o, const struct print_options *options,
			  const struct report_options *what)
{
	struct annotate *a = annotate_new(NULL, ANNOTATE_STACK | ANNOTATE_TEXT);
	struct printer *p;
	struct report *r;

	open_output(o);
	p = PRINTER(o->f, options);
	r = report_new(a, p, what);
	feed_session(a);
	report_finish(r);
	report_free(r);
	printer_free(p);
	annotate_free(a);
	fclose(o->f);
}

static const char head[] = "process 77 (app): app -x, on box, 2023-11-14 22:13:20 UTC\n"
			   "watching flag (int, 4 bytes at 0x404010) for reads and writes: armed on 5 of 5 "
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

static void without_accesses_losses_and_notes_are_still_told(void **state)
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
	struct report_options what = { .no_sites = true };
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
	struct annotate *a = annotate_new(NULL, 0);
	struct print_options options = { .utc = true };
	struct report_options what = { .watch = "flag" };
	struct printer *p;
	struct report *r;
	struct output o;
	const char *names;

	open_output(&o);
	p = print_text_new(o.f, &options);
	r = report_new(a, p, &what);
	feed_watch(a, 0, "", ACCESS_READWRITE);
	feed_watch(a, 1, "", ACCESS_READWRITE);
	feed_watch(a, 2, "other", ACCESS_READWRITE);
	assert_false(report_watch_is_known(r, &names));
	assert_string_equal(names, ", other");
	report_free(r);
	printer_free(p);
	annotate_free(a);
	fclose(o.f);
	free(o.text);
}

/* The table's last columns are for wider terminals; nothing else is left out. */
static void what_does_not_fit_the_terminal_is_folded_or_left_to_wider_ones(void **state)
{
	struct print_options options = { .utc = true, .width = 60 };
	struct report_options what = { .skip = 1 };
	struct output o;

	print_session(&o, &options, &what);
	assert_non_null(strstr(o.text, "watching flag (int, 4 bytes at 0x404010) for reads and writes:\n"
				       "    armed on 5 of 5 threads, "));
	assert_non_null(strstr(o.text, "  app/77        read   flag  42\n"
				       "    at  app+0x1010                          "
				       "mov eax, dword ptr [rdi]\n"));
	assert_non_null(strstr(o.text, "\nCOUNT  WATCH  KIND   SITE           SOURCE  THREADS\n"
				       "    2  flag   write  app+0x1000                   1\n"));
	assert_non_null(strstr(o.text, "flag:\n    9 accesses counted by the CPU: "));
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

	print_session(&a, &plain, &what);
	print_session(&b, &colour, &what);
	assert_null(strchr(a.text, '\033'));
	assert_non_null(strchr(b.text, '\033'));
	strip_colours(b.text);
	assert_string_equal(a.text, b.text);
	free(a.text);
	free(b.text);
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
		cmocka_unit_test(without_accesses_losses_and_notes_are_still_told),
		cmocka_unit_test(the_last_ones_only_when_asked_but_the_table_counts_all),
		cmocka_unit_test(registers_are_printed_four_a_line),
		cmocka_unit_test(watches_without_a_name_are_listed_too),
		cmocka_unit_test(what_does_not_fit_the_terminal_is_folded_or_left_to_wider_ones),
		cmocka_unit_test(colours_change_nothing_but_colours),
		cmocka_unit_test(cleaning_keeps_text_and_drops_what_drives_terminals),
	};

	return cmocka_run_group_tests_name("print_text", tests, NULL, NULL);
}
