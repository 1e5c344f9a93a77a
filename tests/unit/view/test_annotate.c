/* annotate: from raw events to instructions, kinds and named frames; a compiled program is the oracle. */
#include "tests/unit/view_stream.h"

#include <unistd.h>

#define BIAS 0x555555554000u
#define FRAMES 16

/* What was reported to the view, copied. */
struct seen {
	size_t accesses;
	struct view_access last;
	char insn[100], old_text[100], new_text[100], comm[20];
	struct view_frame frame[FRAMES];
	struct view_summary summary;
	size_t summaries, armed, notes;
	size_t captures;
	struct view_capture capture;
	struct lost_event lost;
};

static void keep_text(char *buf, size_t cap, const char *text)
{
	snprintf(buf, cap, "%s", text ? text : "(null)");
}

static void on_access(void *ctx, const struct view_access *a)
{
	struct seen *s = ctx;

	s->accesses++;
	s->last = *a;
	keep_text(s->insn, sizeof(s->insn), a->insn);
	keep_text(s->old_text, sizeof(s->old_text), a->old_text);
	keep_text(s->new_text, sizeof(s->new_text), a->new_text);
	keep_text(s->comm, sizeof(s->comm), a->comm);
	assert_true(a->nframes <= FRAMES);
	if (a->nframes)
		memcpy(s->frame, a->frame, a->nframes * sizeof(*a->frame));
}

static void on_capture(void *ctx, const struct view_capture *c)
{
	struct seen *s = ctx;

	s->captures++;
	s->capture = *c;
	keep_text(s->comm, sizeof(s->comm), c->comm);
	assert_true(c->nframes <= FRAMES);
	if (c->nframes)
		memcpy(s->frame, c->frame, c->nframes * sizeof(*c->frame));
}

static void on_lost(void *ctx, const struct view_watch *w, const struct lost_event *l, struct view_time time)
{
	if (!w)
		((struct seen *)ctx)->lost = *l;
}

static void on_summary(void *ctx, const struct view_summary *s)
{
	((struct seen *)ctx)->summary = *s;
	((struct seen *)ctx)->summaries++;
}

static void on_armed(void *ctx, const struct view_watch *w, struct view_time time)
{
	((struct seen *)ctx)->armed++;
}

static void on_note(void *ctx, const struct view_event *e)
{
	((struct seen *)ctx)->notes++;
}

struct fixture {
	struct annotate *a;
	struct seen seen;
};

static int setup(void **state)
{
	static const struct view_subscription events[] = {
		{ EVENT_NOTE, on_note },
		{ 0 },
	};
	static const struct view_ops ops = { .access = on_access,
					     .capture = on_capture,
					     .lost = on_lost,
					     .summary = on_summary,
					     .armed = on_armed,
					     .events = events };
	struct fixture *f = calloc(1, sizeof(*f));

	f->a = annotate_new(NULL, ANNOTATE_STACK | ANNOTATE_TEXT);
	annotate_add_view(f->a, (struct view){ .ops = &ops, .ctx = &f->seen });
	*state = f;
	return f->a ? 0 : -1;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	annotate_free(f->a);
	free(f);
	return 0;
}

static const uint64_t stack[] = { CODE + 2, CODE + 0x100 };

static void a_store_is_a_write_by_the_instruction_before_rip(void **state)
{
	struct fixture *f = *state;

	feed_process(f->a);
	feed_watch(f->a, 0, "flag", ACCESS_READWRITE);
	feed_store(f->a, stack[0]);
	feed(f->a, access_at(7, 78, 41, 42, stack, 2));
	assert_int_equal(f->seen.accesses, 1);
	assert_int_equal(f->seen.last.kind, ACCESS_WRITE);
	assert_int_equal(f->seen.last.origin, ORIGIN_USER);
	assert_int_equal(f->seen.last.ip, CODE);
	assert_string_equal(f->seen.insn, "mov dword ptr [rdi], eax");
	assert_string_equal(f->seen.old_text, "41");
	assert_string_equal(f->seen.new_text, "42");
	assert_string_equal(f->seen.comm, "worker");
	assert_int_equal(f->seen.last.time.mono_ns, T0 + 7000);
	assert_int_equal(f->seen.last.time.real_ns, EPOCH + 7000);
	assert_int_equal(f->seen.last.nframes, 2);
	assert_int_equal(f->seen.frame[0].ip, CODE);
	assert_false(f->seen.frame[0].after);
	assert_int_equal(f->seen.frame[1].ip, CODE + 0x100);
}

static void without_code_facts_nothing_is_guessed(void **state)
{
	struct fixture *f = *state;

	feed_watch(f->a, 0, "flag", ACCESS_READWRITE);
	feed(f->a, access_at(7, 78, 41, 42, stack, 2));
	assert_int_equal(f->seen.last.kind, ACCESS_UNKNOWN);
	assert_int_equal(f->seen.last.ip, 0);
	assert_true(f->seen.frame[0].after);
	assert_int_equal(f->seen.frame[0].ip, stack[0]);
	assert_string_equal(f->seen.insn, "(null)");
	assert_string_equal(f->seen.comm, "(null)");
	assert_int_equal(f->seen.last.time.real_ns, 0);
}

static void displaced_registers_are_not_interpreted(void **state)
{
	struct fixture *f = *state;
	struct trace_event e;

	feed_watch(f->a, 0, "flag", ACCESS_READWRITE);
	feed_store(f->a, stack[0]);
	e = access_at(7, 78, 41, 42, stack, 2);
	e.access.displaced = true;
	feed(f->a, e);
	assert_int_equal(f->seen.last.kind, ACCESS_UNKNOWN);
	assert_int_equal(f->seen.last.ip, 0);
}

static void a_watch_for_reads_drops_writes_and_says_how_many(void **state)
{
	struct fixture *f = *state;
	const uint64_t load[] = { CODE + 0x12 };
	int i;

	feed_watch(f->a, 0, "flag", ACCESS_READ);
	feed_store(f->a, stack[0]);
	feed_load(f->a, load[0]);
	for (i = 0; i < 5; i++)
		feed(f->a, access_at(i, 78, i, i + 1, stack, 2));
	feed(f->a, access_at(9, 78, 5, 5, load, 1));
	feed(f->a, (struct trace_event){ .type = EVENT_SUMMARY,
					 .summary = { .has_counted = true, .counted = 6, .recorded = 6 } });
	assert_int_equal(f->seen.accesses, 1);
	assert_int_equal(f->seen.last.kind, ACCESS_READ);
	assert_int_equal(f->seen.summary.e.recorded, 1);
	assert_int_equal(f->seen.summary.e.filtered, 5);
	assert_true(f->seen.summary.complete);
	annotate_finish(f->a);
	assert_int_equal(f->seen.summaries, 1);
}

static void a_stream_without_summary_gets_one_from_what_was_seen(void **state)
{
	struct fixture *f = *state;

	feed_watch(f->a, 0, "flag", ACCESS_READWRITE);
	feed_store(f->a, stack[0]);
	feed(f->a, access_at(1, 78, 1, 2, stack, 2));
	feed(f->a, access_at(4, 78, 2, 3, stack, 2));
	feed(f->a, (struct trace_event){ .type = EVENT_LOST, .lost = { 0, 3, "ring full" } });
	annotate_finish(f->a);
	assert_int_equal(f->seen.summaries, 1);
	assert_false(f->seen.summary.complete);
	assert_false(f->seen.summary.e.has_counted);
	assert_int_equal(f->seen.summary.e.recorded, 2);
	assert_int_equal(f->seen.summary.e.lost, 3);
	assert_int_equal(f->seen.summary.e.duration_ns, 3000);
}

static void an_access_to_a_watch_never_reported_is_still_shown(void **state)
{
	struct fixture *f = *state;

	feed(f->a, access_at(1, 78, 1, 2, stack, 2));
	assert_int_equal(f->seen.accesses, 1);
	assert_string_equal(f->seen.last.watch->e.name, "watch 0");
}

static void an_execution_watch_names_rip_itself(void **state)
{
	struct fixture *f = *state;
	struct trace_event code = { .type = EVENT_CODE,
				    .code = { .pc = CODE + 2, .at = { 0x55 }, .at_len = 1 } };

	feed_watch(f->a, 0, "f", ACCESS_EXECUTE);
	feed(f->a, code);
	feed(f->a, access_at(1, 78, 1, 2, stack, 2));
	assert_int_equal(f->seen.last.kind, ACCESS_EXECUTE);
	assert_int_equal(f->seen.last.ip, CODE + 2);
	assert_string_equal(f->seen.insn, "push rbp");
}

static void replaced_code_is_shown_as_it_is_now(void **state)
{
	struct fixture *f = *state;

	feed_watch(f->a, 0, "flag", ACCESS_READWRITE);
	feed_store(f->a, stack[0]);
	feed(f->a, access_at(1, 78, 1, 2, stack, 2));
	feed_load(f->a, stack[0]);
	feed(f->a, access_at(2, 78, 2, 2, stack, 2));
	assert_string_equal(f->seen.insn, "mov eax, dword ptr [rdi]");
	assert_int_equal(f->seen.last.kind, ACCESS_READ);
}

static void a_thread_that_renames_itself_is_shown_by_its_new_name(void **state)
{
	struct fixture *f = *state;

	feed_process(f->a);
	feed_watch(f->a, 0, "flag", ACCESS_READWRITE);
	feed(f->a, access_at(1, 78, 1, 2, stack, 2));
	assert_string_equal(f->seen.comm, "worker");
	feed(f->a, (struct trace_event){ .type = EVENT_THREAD,
					 .thread = { .pid = 77, .tid = 78, .comm = "idle" } });
	feed(f->a, access_at(2, 78, 1, 2, stack, 2));
	assert_string_equal(f->seen.comm, "idle");
	feed(f->a, access_at(3, 77, 1, 2, stack, 2));
	assert_string_equal(f->seen.comm, "app");
}

/* A program with known names and lines; addresses come from objdump. */

#define PROGRAM                                                                     \
	"int flag;\n"                                                               \
	"static inline __attribute__((always_inline)) void store(int v)\n"          \
	"{\n"                                                                       \
	"	flag = v;\n" /* line 4 */                                           \
	"}\n"                                                                       \
	"__attribute__((noinline, noclone, noipa)) void set_flag(int v)\n"          \
	"{\n"                                                                       \
	"	store(v);\n" /* line 8 */                                           \
	"}\n"                                                                       \
	"__attribute__((noreturn, noinline, noclone, noipa)) void stop(void)\n"     \
	"{\n"                                                                       \
	"	set_flag(2);\n" /* line 12 */                                       \
	"	__builtin_trap();\n"                                                      \
	"}\n"                                                                       \
	"int main(void)\n"                                                          \
	"{\n"                                                                       \
	"	set_flag(1);\n" /* line 17 */                                       \
	"	stop();\n"	/* line 18: a call at the very end of a function */ \
	"}\n"                                                                       \
	"__asm__(\".text\\nbefore_trampoline: nop; mov $15, %rax; syscall\");\n"

struct program {
	char dir[40], path[64];
	uint64_t set_flag, stop, main;	/* file addresses */
	uint64_t store_insn, store_end; /* the mov in set_flag */
	uint64_t flag;
	uint8_t bytes[16];
	uint64_t after_set_flag, after_stop; /* return addresses in main */
};

static void output_of(const char *command, char *buf, size_t cap)
{
	FILE *p = popen(command, "r");
	size_t n;

	assert_non_null(p);
	n = fread(buf, 1, cap - 1, p);
	buf[n] = '\0';
	assert_int_equal(pclose(p), 0);
}

static uint64_t symbol(const struct program *p, const char *name)
{
	char command[256], text[64];

	snprintf(command, sizeof(command), "nm '%s' | sed -n 's/ [A-Za-z] %s$//p'", p->path, name);
	output_of(command, text, sizeof(text));
	return strtoull(text, NULL, 16);
}

/* The address of the instruction after the call of @callee in main. */
static uint64_t return_address(const struct program *p, const char *callee)
{
	char command[300], text[64];

	snprintf(command, sizeof(command),
		 "objdump -d --no-show-raw-insn --disassemble=main '%s' | grep 'call.*<%s>'", p->path,
		 callee);
	output_of(command, text, sizeof(text));
	return strtoull(text, NULL, 16) + 5; /* call rel32 */
}

static void build(struct program *p)
{
	char command[400], text[300], *at;
	FILE *source;
	size_t n = 0;

	strcpy(p->dir, "/tmp/test_annotate.XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	snprintf(p->path, sizeof(p->path), "%s/app", p->dir);
	snprintf(text, sizeof(text), "%s/app.c", p->dir);
	source = fopen(text, "w");
	fputs(PROGRAM, source);
	fclose(source);
	snprintf(command, sizeof(command),
		 "cd '%s' && gcc -O1 -g -pie -fPIE -fno-omit-frame-pointer -Wl,--build-id=none -o app app.c",
		 p->dir);
	output_of(command, text, sizeof(text));
	p->set_flag = symbol(p, "set_flag");
	p->stop = symbol(p, "stop");
	p->main = symbol(p, "main");
	p->flag = symbol(p, "flag");
	p->after_set_flag = return_address(p, "set_flag");
	p->after_stop = return_address(p, "stop");

	snprintf(command, sizeof(command),
		 "objdump -d --insn-width=16 --disassemble=set_flag '%s' | grep 'mov.*<flag>' | cut -f1,2 | "
		 "tr -d ':'",
		 p->path);
	output_of(command, text, sizeof(text));
	p->store_insn = strtoull(text, &at, 16);
	for (at += strspn(at, " \t"); *at && *at != '\n'; at += strspn(at, " \t"))
		p->bytes[n++] = strtoul(at, &at, 16);
	p->store_end = p->store_insn + n;
}

static void remove_program(const struct program *p)
{
	char command[100];

	snprintf(command, sizeof(command), "rm -rf '%s'", p->dir);
	assert_int_equal(system(command), 0);
}

static void feed_program(struct annotate *a, const struct program *p)
{
	feed(a, (struct trace_event){ .type = EVENT_MODULE,
				      .module = { .start = BIAS,
						  .end = BIAS + 0x5000,
						  .bias = BIAS,
						  .path = (char *)p->path } });
	feed_watch(a, 0, "flag", ACCESS_READWRITE);
	feed_code(a, BIAS + p->store_end, (const char *)p->bytes, p->store_end - p->store_insn);
}

static struct trace_event program_access(const struct program *p, const uint64_t *frame, uint32_t n)
{
	struct trace_event e = access_at(1, 77, 0, 1, frame, n);

	e.access.addr = BIAS + p->flag;
	e.access.regs.r[WREG_RDI] = 1;
	return e;
}

static void check_frame(const struct view_frame *f, const char *function, unsigned int line, bool inlined)
{
	assert_string_equal(f->function, function);
	assert_non_null(strstr(f->file, "app.c"));
	assert_int_equal(f->line, line);
	assert_int_equal(f->inlined, inlined);
}

static void a_real_program_is_named_down_to_its_inlined_functions(void **state)
{
	struct fixture *f = *state;
	uint64_t frame[2];
	struct program p;

	build(&p);
	frame[0] = BIAS + p.store_end;
	frame[1] = BIAS + p.after_set_flag;
	feed_program(f->a, &p);
	feed(f->a, program_access(&p, frame, 2));
	assert_int_equal(f->seen.last.kind, ACCESS_WRITE);
	assert_int_equal(f->seen.last.ip, BIAS + p.store_insn);
	assert_int_equal(f->seen.last.location->offset, p.store_insn - p.set_flag);
	assert_int_equal(f->seen.last.location->module_offset, p.store_insn);
	assert_int_equal(f->seen.last.nframes, 3);
	check_frame(&f->seen.frame[0], "store", 4, true);
	check_frame(&f->seen.frame[1], "set_flag", 8, false);
	assert_int_equal(f->seen.frame[1].offset, p.store_insn - p.set_flag);
	check_frame(&f->seen.frame[2], "main", 17, false);
	assert_int_equal(f->seen.frame[2].ip, frame[1]);
	assert_int_equal(f->seen.frame[2].offset, p.after_set_flag - p.main);
	remove_program(&p);
}

/* The return address of a call that never returns lies in the next function. */
static void a_call_at_the_end_of_a_function_is_named_by_its_caller(void **state)
{
	struct fixture *f = *state;
	uint64_t frame[2];
	struct program p;

	build(&p);
	frame[0] = BIAS + p.store_end;
	frame[1] = BIAS + p.after_stop;
	feed_program(f->a, &p);
	feed(f->a, program_access(&p, frame, 2));
	check_frame(&f->seen.frame[2], "main", 18, false);
	remove_program(&p);
}

/* ... but an interrupted address is not a return address: here the first byte of a function. */
static void above_a_signal_trampoline_the_address_is_exact(void **state)
{
	static const uint8_t sigreturn[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	struct trace_event code = { .type = EVENT_CODE };
	struct fixture *f = *state;
	uint64_t frame[3];
	struct program p;

	build(&p);
	frame[0] = BIAS + p.store_end;
	frame[1] = 0x7ffff0000000; /* the trampoline, in no module */
	frame[2] = BIAS + p.stop;
	feed_program(f->a, &p);
	code.code.pc = frame[1];
	code.code.at_len = sizeof(sigreturn);
	memcpy(code.code.at, sigreturn, sizeof(sigreturn));
	feed(f->a, code);
	feed(f->a, program_access(&p, frame, 3));
	assert_int_equal(f->seen.last.nframes, 4);
	assert_true(f->seen.frame[2].signal);
	assert_string_equal(f->seen.frame[3].function, "stop");
	assert_int_equal(f->seen.frame[3].offset, 0);
	remove_program(&p);
}

/* call *flag: the function called is where the trap stops, the caller made the access. */
static void an_access_by_a_call_is_shown_in_the_caller(void **state)
{
	struct trace_event code = { .type = EVENT_CODE }, e;
	struct fixture *f = *state;
	const uint64_t frame[] = { 0x500000, CODE + 0x20, CODE + 0x200 };

	feed_watch(f->a, 0, "hook", ACCESS_READWRITE);
	code.code = (struct code_fact){ .pc = frame[0], .at = { 0x55 }, .at_len = 1 };
	feed(f->a, code);
	feed_code(f->a, frame[1], "\xff\x17", 2); /* call qword ptr [rdi] */
	e = access_at(1, 78, frame[0], frame[0], frame, 3);
	e.access.size = 8;
	feed(f->a, e);
	assert_int_equal(f->seen.last.kind, ACCESS_READ);
	assert_int_equal(f->seen.last.ip, CODE + 0x1e);
	assert_int_equal(f->seen.last.nframes, 2);
	assert_int_equal(f->seen.frame[0].ip, CODE + 0x1e);
	assert_int_equal(f->seen.frame[1].ip, CODE + 0x200);
}

static void names_go_when_the_module_goes(void **state)
{
	struct fixture *f = *state;
	struct trace_event gone = { .type = EVENT_MODULE_GONE };
	uint64_t frame[2];
	struct program p;

	build(&p);
	frame[0] = BIAS + p.store_end;
	frame[1] = BIAS + p.after_set_flag;
	feed_program(f->a, &p);
	feed(f->a, program_access(&p, frame, 2));
	assert_non_null(f->seen.frame[0].function);
	gone.module = (struct module){ .start = BIAS, .end = BIAS + 0x5000, .path = p.path };
	feed(f->a, gone);
	feed(f->a, program_access(&p, frame, 2));
	assert_int_equal(f->seen.last.nframes, 2);
	assert_null(f->seen.frame[0].function);
	remove_program(&p);
}

/* Captures: every frame is that of a return address, the first one too. */

static void a_capture_is_named_at_its_call_and_by_its_inlined_callers(void **state)
{
	struct fixture *f = *state;
	uint64_t frame[2];
	struct program p;

	build(&p);
	/* As if the call were the store: what lies before the return address counts. */
	frame[0] = BIAS + p.store_end;
	frame[1] = BIAS + p.after_stop;
	feed_process(f->a);
	feed_program(f->a, &p);
	feed_tag(f->a, 3, "cache-miss", 0);
	feed(f->a, with_value(capture_at(7, 78, 3, frame, 2), 17));
	assert_int_equal(f->seen.captures, 1);
	assert_string_equal(f->seen.capture.tag->text, "cache-miss");
	assert_int_equal(f->seen.capture.time.real_ns, EPOCH + 7000);
	assert_string_equal(f->seen.comm, "worker");
	assert_int_equal(f->seen.capture.nframes, 3);
	check_frame(&f->seen.frame[0], "store", 4, true);
	check_frame(&f->seen.frame[1], "set_flag", 8, false);
	assert_int_equal(f->seen.frame[1].ip, frame[0]);
	assert_int_equal(f->seen.frame[1].offset, p.store_end - p.set_flag);
	check_frame(&f->seen.frame[2], "main", 18, false);
	remove_program(&p);
}

static void a_capture_in_a_signal_handler_shows_where_the_thread_was_interrupted(void **state)
{
	static const uint8_t sigreturn[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	struct trace_event code = { .type = EVENT_CODE };
	struct fixture *f = *state;
	uint64_t frame[3];
	struct program p;

	build(&p);
	frame[0] = BIAS + p.after_set_flag;
	frame[1] = 0x7ffff0000000;
	frame[2] = BIAS + p.stop;
	feed_program(f->a, &p);
	code.code.pc = frame[1];
	code.code.at_len = sizeof(sigreturn);
	memcpy(code.code.at, sigreturn, sizeof(sigreturn));
	feed(f->a, code);
	feed_tag(f->a, 0, "x", 0);
	feed(f->a, capture_at(7, 78, 0, frame, 3));
	assert_int_equal(f->seen.capture.nframes, 3);
	check_frame(&f->seen.frame[0], "main", 17, false);
	assert_true(f->seen.frame[1].signal);
	assert_string_equal(f->seen.frame[2].function, "stop");
	assert_int_equal(f->seen.frame[2].offset, 0);
	remove_program(&p);
}

/* A libc without symbols: only its code shows it. */
static void a_trampoline_without_a_name_is_known_by_its_bytes(void **state)
{
	struct fixture *f = *state;
	uint64_t frame[3];
	struct program p;

	build(&p);
	frame[0] = BIAS + p.after_set_flag;
	frame[1] = BIAS + symbol(&p, "before_trampoline") + 1;
	frame[2] = BIAS + p.stop;
	feed_program(f->a, &p);
	feed_tag(f->a, 0, "x", 0);
	feed(f->a, capture_at(7, 78, 0, frame, 3));
	assert_int_equal(f->seen.capture.nframes, 3);
	assert_false(f->seen.frame[0].signal);
	assert_true(f->seen.frame[1].signal);
	assert_string_equal(f->seen.frame[2].function, "stop");
	assert_int_equal(f->seen.frame[2].offset, 0);
	remove_program(&p);
}

static void tags_that_are_numbers_are_called_by_them(void **state)
{
	struct fixture *f = *state;

	feed_tag(f->a, 0, NULL, UINT64_MAX);
	feed(f->a, capture_at(1, 78, 0, stack, 2));
	assert_null(f->seen.capture.tag->name);
	assert_string_equal(f->seen.capture.tag->text, "18446744073709551615");
	assert_int_equal(f->seen.capture.tag->captures, 1);
}

static void captures_of_a_hostile_log_are_shown_all_the_same(void **state)
{
	struct fixture *f = *state;

	feed(f->a, capture_at(1, 78, 9, stack, 2));
	assert_string_equal(f->seen.capture.tag->text, "tag 9");
	feed_tag(f->a, 9, "late", 0);
	feed_tag(f->a, 9, "again", 0);
	feed(f->a, capture_at(1, 78, 9, NULL, 0));
	assert_int_equal(f->seen.captures, 2);
	assert_int_equal(f->seen.capture.nframes, 0);
	assert_string_equal(f->seen.capture.tag->text, "tag 9");
}

static void captures_have_losses_and_a_summary_of_their_own(void **state)
{
	struct fixture *f = *state;

	feed_tag(f->a, 0, "x", 0);
	feed(f->a, capture_at(1, 78, 0, stack, 2));
	feed(f->a, (struct trace_event){ .type = EVENT_LOST, .lost = { WATCH_CAPTURES, 3, "ring full" } });
	assert_int_equal(f->seen.lost.watch, WATCH_CAPTURES);
	annotate_finish(f->a);
	annotate_finish(f->a);
	assert_int_equal(f->seen.summaries, 1);
	assert_null(f->seen.summary.watch);
	assert_false(f->seen.summary.complete);
	assert_int_equal(f->seen.summary.e.recorded, 1);
	assert_int_equal(f->seen.summary.e.lost, 3);
}

static void the_summary_of_captures_in_the_log_is_passed_on(void **state)
{
	struct fixture *f = *state;

	feed_captures(f->a);
	assert_int_equal(f->seen.summaries, 1);
	assert_null(f->seen.summary.watch);
	assert_true(f->seen.summary.complete);
	assert_int_equal(f->seen.summary.e.counted, 6);
	annotate_finish(f->a);
	assert_int_equal(f->seen.summaries, 2);
	assert_string_equal(f->seen.summary.watch->e.name, "flag");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(a_store_is_a_write_by_the_instruction_before_rip),
		TEST(without_code_facts_nothing_is_guessed),
		TEST(displaced_registers_are_not_interpreted),
		TEST(a_watch_for_reads_drops_writes_and_says_how_many),
		TEST(a_stream_without_summary_gets_one_from_what_was_seen),
		TEST(an_access_to_a_watch_never_reported_is_still_shown),
		TEST(an_execution_watch_names_rip_itself),
		TEST(replaced_code_is_shown_as_it_is_now),
		TEST(a_thread_that_renames_itself_is_shown_by_its_new_name),
		TEST(a_real_program_is_named_down_to_its_inlined_functions),
		TEST(a_call_at_the_end_of_a_function_is_named_by_its_caller),
		TEST(above_a_signal_trampoline_the_address_is_exact),
		TEST(an_access_by_a_call_is_shown_in_the_caller),
		TEST(names_go_when_the_module_goes),
		TEST(a_capture_is_named_at_its_call_and_by_its_inlined_callers),
		TEST(a_capture_in_a_signal_handler_shows_where_the_thread_was_interrupted),
		TEST(a_trampoline_without_a_name_is_known_by_its_bytes),
		TEST(tags_that_are_numbers_are_called_by_them),
		TEST(captures_of_a_hostile_log_are_shown_all_the_same),
		TEST(captures_have_losses_and_a_summary_of_their_own),
		TEST(the_summary_of_captures_in_the_log_is_passed_on),
	};

	return cmocka_run_group_tests_name("annotate", tests, NULL, NULL);
}
