/* Entries and exits of several threads as one stream of calls and returns: order, numbers, nesting, gaps. */
#include "tests/unit/tracelog_fixture.h"

#include <fcntl.h>

#include "watchctl/trace/call_values.h"
#include "watchctl/trace/calls/call_merge.h"
#include "watchctl/trace/calls/call_writer.h"

#define PID 4242
#define FUNCTIONS 100u
/* That one has two parameters, of 4 and of 8 bytes, and a result of 4. */
#define TYPED 90u
/* Its parameters and result are a pointer, a string, and a pointer. */
#define POINTS 89u

struct scene {
	struct call_writer *w;
	struct call_merge *m;
};

static void scene_begin(struct scene *s, const struct fixture *f)
{
	struct tracelog_writer *events;

	OK(tracelog_writer_open(f->log, &events));
	OK(tracelog_writer_close(events));
	OK(call_writer_open(f->log, &s->w));
}

/* From its beginning. */
static void scene_open(struct scene *s, const struct fixture *f)
{
	OK(call_merge_open(f->log, &s->m));
	assert_non_null(s->m);
	call_merge_keep_positions(s->m);
	for (uint32_t i = 0; i < 2; i++)
		assert_true(
			call_merge_tell(s->m, &(struct trace_event){ .type = EVENT_TYPE,
								     .type_info = { .id = i,
										    .kind = TYPE_UNSIGNED,
										    .size = i ? 8 : 4,
										    .target = NO_TYPE } }));
	assert_true(call_merge_tell(
		s->m, &(struct trace_event){ .type = EVENT_FUNCTION,
					     .function = { .id = TYPED,
							   .return_type = 0,
							   .nparams = 2,
							   .param = (struct function_param[]){
								   { "a", 0 }, { "b", 1 } } } }));
	for (uint32_t i = 2; i < 4; i++)
		assert_true(call_merge_tell(
			s->m,
			&(struct trace_event){ .type = EVENT_TYPE,
					       .type_info = { .id = i,
							      .kind = i == 2 ? TYPE_POINTER : TYPE_STRING,
							      .size = 8,
							      .target = NO_TYPE } }));
	assert_true(call_merge_tell(
		s->m, &(struct trace_event){ .type = EVENT_FUNCTION,
					     .function = { .id = POINTS,
							   .return_type = 2,
							   .nparams = 2,
							   .param = (struct function_param[]){
								   { "p", 2 }, { "s", 3 } } } }));
	for (uint32_t i = 1; i <= FUNCTIONS; i++)
		assert_true(call_merge_tell(
			s->m, &(struct trace_event){ .type = EVENT_FUNCTION,
						     .function = { .id = i, .return_type = NO_TYPE } }));
}

/* All is written: from now on it is read. */
static void scene_read(struct scene *s, const struct fixture *f)
{
	call_writer_close(s->w);
	scene_open(s, f);
}

/* Words behind a `more`, of which it says that there are @claimed. */
static void write_words(struct call_stream *c, uint64_t claimed, uint64_t word, uint64_t value)
{
	call_stream_put(c, CALL_MORE, c->last_ns, (uint32_t)claimed);
	*c->at++ = word;
	*c->at++ = value;
}

static void write_own(struct call_stream *c, uint32_t claimed, uint32_t type, uint64_t time_ns)
{
	call_stream_put(c, CALL_MORE, time_ns, claimed);
	*c->at++ = call_word(CALL_WORD_EVENT, 0, type);
	for (uint32_t i = 1; i < CALL_EVENT_WORDS && i < claimed; i++)
		*c->at++ = type + i;
}

static void write_pointee(struct call_stream *c, char what, uint32_t number)
{
	static const char text[16] = "bytes of 12";
	const uint32_t count = what == '*' ? 12 : what == '%' ? 4 : what == '$' ? 17 : 0;
	const uint32_t words = what == '*' ? 2 : what == '#' ? 0 : 1;
	const uint32_t state = what == '#' ? VALUE_UNREADABLE : what == '%' ? VALUE_CUT : VALUE_OK;

	call_stream_put(c, CALL_MORE, c->last_ns, 1 + words);
	*c->at++ = call_bytes_word(number, state, count, POINTS);
	memcpy(c->at, text, words * sizeof(*c->at));
	c->at += words;
}

static void write_pointer(struct call_stream *c, uint32_t number, uint64_t value)
{
	if (number == CALL_BYTES_RESULT)
		write_words(c, 2, call_word(CALL_WORD_RESULT, 0, POINTS), value);
	else
		write_words(c, 2, call_word(CALL_WORD_VALUE, number, POINTS), value);
}

/*
 * "+f" enters f, "-" exits, "~" is an exit that was not seen, "!n" loses n, "|" begins a packet; each a ns later. ":n" is
 * the value 0x100 + n of parameter n of TYPED, "=f" the result 7 of f, "^f" a value of the first parameter of f, "?n" words
 * that mean nothing, "&n" some that claim to be n. Of POINTS: ";n" is the value 5 of parameter n, ";255" the result 5, "0n"
 * that NULL; "*n" is what it points to: "bytes of 12", "%n" the first 4 bytes of it, "#n" that it cannot be read, "$n" one
 * with a count that is not there.
 * "@n" is an event of the program's own, of type n, with n + 1 and n + 2; "_n" one that claims to be n words.
 */
static void write_script(struct scene *s, pid_t tid, uint64_t time_ns, const char *script)
{
	struct call_stream c;
	uint32_t number;
	const char *end;

	OK(call_stream_open(s->w, PID, tid, &c));
	for (; *script; script = end) {
		const char what = *script;

		number = 0;
		for (end = script + 1; *end >= '0' && *end <= '9'; end++)
			number = number * 10 + (uint32_t)(*end - '0');
		if (what == '!')
			call_stream_lost(&c, number);
		else if (what == '|')
			OK(call_stream_flush(&c));
		else if (what == ':')
			write_words(&c, 2, call_word(CALL_WORD_VALUE, number, TYPED), 0x100 + number);
		else if (what == '^')
			write_words(&c, 2, call_word(CALL_WORD_VALUE, 0, number), 0x55);
		else if (what == '=')
			write_words(&c, 2, call_word(CALL_WORD_RESULT, 0, number), 7);
		else if (what == '?')
			write_words(&c, 2, number, UINT64_MAX);
		else if (what == '@')
			write_own(&c, CALL_EVENT_WORDS, number, time_ns++);
		else if (what == '_')
			write_own(&c, number, 1, time_ns++);
		else if (what == ';' || what == '0')
			write_pointer(&c, number, what == ';' ? 5 : 0);
		else if (strchr("*%#$", what))
			write_pointee(&c, what, number);
		else if (what == '&')
			write_words(&c, number, call_word(CALL_WORD_VALUE, 0, TYPED), 1);
		else
			call_stream_put(&c,
					what == '+'   ? CALL_ENTRY
					: what == '~' ? CALL_EXIT_UNSEEN
						      : CALL_EXIT,
					time_ns++, number);
		while (*end == ' ')
			end++;
	}
	OK(call_stream_close(&c));
}

static const struct trace_event *next(struct scene *s)
{
	const struct trace_event *e;

	OK(call_merge_next(s->m, UINT64_MAX, &e));
	return e;
}

/* " 00 01010000" of each value: its state, and bytes if it has them. */
static size_t values_text(char *to, const uint8_t *values, uint32_t len)
{
	size_t n = 0;

	for (uint32_t i = 0; i < len; i++)
		n += (size_t)sprintf(to + n, "%s%02x", i ? "" : " ", values[i]);
	return n;
}

static size_t own_text(char *to, const struct trace_event *e)
{
	const struct probe_event *p = &e->probe;

	assert_int_equal(p->pid, PID);
	assert_int_equal(p->kind, PROBE_KIND_LOG);
	assert_int_equal(p->nargs, 2);
	assert_int_equal(p->strings + p->unread + p->withheld + p->nframes, 0);
	return (size_t)sprintf(to, "%d:%d *%u %d %d %s", p->tid, (int)e->time_ns, p->site, (int)p->arg[0],
			       (int)p->arg[1], p->format);
}

/* An event as it was given, to be held to what is read again. */
struct given {
	uint64_t position;
	struct trace_event e;
	uint8_t values[256];
};

static void keep_given(const struct scene *s, const struct trace_event *e, struct given *g)
{
	const bool is_call = e->type == EVENT_CALL;
	const uint8_t *values = is_call ? e->call.values : e->ret.values;
	const uint32_t len = is_call ? e->call.values_len : e->ret.values_len;

	g->position = call_merge_position(s->m);
	g->e = *e;
	assert_true(len <= sizeof(g->values));
	if (len)
		memcpy(g->values, values, len);
}

static void check_again(const struct scene *s, const struct given *g)
{
	const bool is_call = g->e.type == EVENT_CALL;
	const struct trace_event *e;

	OK(call_merge_read_again(s->m, g->position, is_call ? 0 : g->e.ret.function, &e));
	assert_non_null(e);
	assert_int_equal(e->type, g->e.type);
	assert_int_equal(e->time_ns, g->e.time_ns);
	if (is_call) {
		assert_int_equal(e->call.call, g->e.call.call);
		assert_int_equal(e->call.tid, g->e.call.tid);
		assert_int_equal(e->call.function, g->e.call.function);
		assert_int_equal(e->call.values_len, g->e.call.values_len);
		assert_int_equal(e->call.nframes + e->call.sp, 0);
		if (e->call.values_len)
			assert_memory_equal(e->call.values, g->values, e->call.values_len);
		return;
	}
	assert_int_equal(e->ret.tid, g->e.ret.tid);
	assert_int_equal(e->ret.function, g->e.ret.function);
	assert_int_equal(e->ret.how, g->e.ret.how);
	assert_int_equal(e->ret.values_len, g->e.ret.values_len);
	if (e->ret.values_len)
		assert_memory_equal(e->ret.values, g->values, e->ret.values_len);
}

/* In an order that is not that of the files. */
static void check_all_again(const struct scene *s, const struct given *g, size_t n)
{
	uint64_t last = 0;

	for (size_t i = 0; i < n; i++) {
		assert_true(g[i].position > last);
		last = g[i].position;
	}
	for (size_t i = n; i-- > 0;)
		check_again(s, &g[i]);
	for (size_t step = 1; step < 4; step++)
		for (size_t i = 0; i < n; i += step)
			check_again(s, &g[i]);
}

/*
 * All events as text: "101:5 +7#1<0@0" is a call of function 7 by thread 101 at 5 ns, number 1, with parent 0 and
 * depth 0; "101:6 -1" its return, and "101:6 -1(9)" one that ended otherwise; "lost 3", "missing"; "101:7 *4 5 6
 * FORMAT" an event of the program's own.
 */
static void check_stream(struct scene *s, const char *expected)
{
	struct given given[64];
	char text[4096];
	size_t n = 0, ngiven = 0;

	text[0] = '\0';
	for (const struct trace_event *e; (e = next(s));) {
		const struct call_event *c = &e->call;

		if (e->type == EVENT_CALL || e->type == EVENT_RETURN) {
			assert_true(ngiven < sizeof(given) / sizeof(*given));
			keep_given(s, e, &given[ngiven++]);
		}
		assert_true(n + 100 < sizeof(text));
		if (n)
			text[n++] = '\n';
		if (e->type == EVENT_CALL)
			n += (size_t)sprintf(text + n, "%d:%d +%u#%d<%d@%u", c->tid, (int)e->time_ns,
					     c->function, (int)c->call, (int)c->parent, c->depth);
		else if (e->type == EVENT_RETURN && e->ret.how == RETURN_RETURNED)
			n += (size_t)sprintf(text + n, "%d:%d -%d", e->ret.tid, (int)e->time_ns,
					     (int)e->ret.call);
		else if (e->type == EVENT_RETURN)
			n += (size_t)sprintf(text + n, "%d:%d -%d(%d)", e->ret.tid, (int)e->time_ns,
					     (int)e->ret.call, (int)e->ret.how);
		else if (e->type == EVENT_PROBE)
			n += own_text(text + n, e);
		else if (e->type == EVENT_LOST)
			n += (size_t)sprintf(text + n, "lost %d", (int)e->lost.count);
		else if (e->type == EVENT_MISSING)
			n += (size_t)sprintf(text + n, "missing %d to %d", (int)e->missing.from_ns,
					     (int)e->missing.to_ns);
		else
			n += (size_t)sprintf(text + n, "note");
		if (e->type == EVENT_CALL) {
			assert_int_equal(c->pid, PID);
			assert_int_equal(c->nframes + c->sp, 0);
			assert_int_equal(c->flags, c->parent ? 0 : CALL_FIRST);
			n += values_text(text + n, c->values, c->values_len);
		} else if (e->type == EVENT_RETURN) {
			n += values_text(text + n, e->ret.values, e->ret.values_len);
		}
	}
	assert_string_equal(text, expected);
	check_all_again(s, given, ngiven);
	call_merge_close(s->m);
}

static void sums(struct scene *s, struct call_merge_sums *ret)
{
	while (next(s))
		;
	call_merge_sums(s->m, ret);
}

static void threads_are_merged_by_time(void **state)
{
	struct scene s;

	scene_begin(&s, *state);
	write_script(&s, 101, 10, "+1 +2 - -");
	write_script(&s, 102, 11, "+3 +4 - -");
	write_script(&s, 103, 5, "+5 -");
	scene_read(&s, *state);
	assert_int_equal(call_merge_last_time(s.m), 14);
	check_stream(&s, "103:5 +5#1<0@0\n103:6 -1\n101:10 +1#2<0@0\n101:11 +2#3<2@1\n102:11 +3#4<0@0\n"
			 "101:12 -3\n102:12 +4#5<4@1\n101:13 -2\n102:13 -5\n102:14 -4");
}

static void no_event_comes_before_its_time(void **state)
{
	const struct trace_event *e;
	struct scene s;

	scene_begin(&s, *state);
	write_script(&s, 101, 10, "+1 -");
	scene_read(&s, *state);
	OK(call_merge_next(s.m, 10, &e));
	assert_null(e);
	OK(call_merge_next(s.m, 11, &e));
	assert_int_equal(e->time_ns, 10);
	OK(call_merge_next(s.m, 11, &e));
	assert_null(e);
	OK(call_merge_next(s.m, 12, &e));
	assert_int_equal(e->type, EVENT_RETURN);
	call_merge_close(s.m);
}

static void an_exit_ends_the_innermost_call_whatever_it_says(void **state)
{
	struct scene s;

	scene_begin(&s, *state);
	write_script(&s, 101, 1, "+1 +2 ~7 -9");
	scene_read(&s, *state);
	check_stream(&s, "101:1 +1#1<0@0\n101:2 +2#2<1@1\n101:3 -2(9)\n101:4 -1");
}

static void calls_that_are_open_at_the_end_of_a_file_never_end(void **state)
{
	struct scene s;

	scene_begin(&s, *state);
	write_script(&s, 101, 1, "+1 +2");
	write_script(&s, 101, 2, "+3 -"); /* a later file of the same thread */
	scene_read(&s, *state);
	check_stream(&s,
		     "101:1 +1#1<0@0\n101:2 +2#2<1@1\n101:2 -2(8)\n101:2 -1(8)\n101:2 +3#3<0@0\n101:3 -3");
}

static void exits_without_a_call_are_counted(void **state)
{
	struct call_merge_sums n;
	struct scene s;

	scene_begin(&s, *state);
	write_script(&s, 101, 1, "- ~ +1 - -");
	scene_read(&s, *state);
	sums(&s, &n);
	assert_int_equal(n.calls, 1);
	assert_int_equal(n.exits_before, 3);
	assert_int_equal(n.exits_behind_gap, 0);
	assert_int_equal(n.last_ns, 5);
	call_merge_close(s.m);
}

static void behind_a_gap_nothing_is_open_any_more(void **state)
{
	struct call_merge_sums n;
	struct scene s;

	scene_begin(&s, *state);
	write_script(&s, 101, 1, "+1 +2 | !3 - +4 - -");
	scene_read(&s, *state);
	sums(&s, &n);
	assert_int_equal(n.exits_before, 0);
	assert_int_equal(n.exits_behind_gap, 2);
	call_merge_close(s.m);
	scene_open(&s, *state);
	check_stream(&s, "101:1 +1#1<0@0\n101:2 +2#2<1@1\nlost 3\n101:3 -2(9)\n101:3 -1(9)\n"
			 "101:4 +4#3<0@0\n101:5 -3");
}

/* They may have ended in it: that they never did cannot be said. */
static void a_gap_at_the_end_leaves_open_how_calls_ended(void **state)
{
	struct scene s;

	scene_begin(&s, *state);
	write_script(&s, 101, 1, "+1 | !2");
	scene_read(&s, *state);
	check_stream(&s, "101:1 +1#1<0@0\nlost 2\n101:1 -1(9)");
}

static void a_damaged_packet_is_a_gap(void **state)
{
	struct fixture *f = *state;
	struct call_damage d;
	struct scene s;
	char name[128];
	int fd;

	scene_begin(&s, f);
	write_script(&s, 101, 1, "+1 | +2 | - -");
	snprintf(name, sizeof(name), "%s/calls.0000000000", f->log);
	fd = open(name, O_RDWR);
	assert_int_equal(pwrite(fd, "x", 1, 2 * sizeof(struct call_packet) + 8 + 3), 1);
	close(fd);
	scene_read(&s, f);
	for (int i = 0; i < 4; i++)
		assert_non_null(next(&s));
	call_merge_damage(s.m, &d);
	assert_int_equal(d.packets, 1);
	assert_non_null(d.why);
	call_merge_close(s.m);
	scene_open(&s, f);
	check_stream(&s, "101:1 +1#1<0@0\nnote\nmissing 1 to 3\n101:3 -1(9)");
}

static void calls_of_unknown_functions_are_left_out(void **state)
{
	struct call_merge_sums n;
	struct scene s;

	scene_begin(&s, *state);
	write_script(&s, 101, 1, "+1 +1000 +1001 +2 - - - -");
	write_script(&s, 102, 1, "+1000 -");
	scene_read(&s, *state);
	check_stream(&s, "101:1 +1#1<0@0\n101:4 +2#2<1@1\n101:5 -2\n101:8 -1");
	OK(call_merge_open(((struct fixture *)*state)->log, &s.m));
	sums(&s, &n);
	assert_int_equal(n.calls, 0);
	assert_int_equal(n.unknown, 5);
	assert_int_equal(n.unknown_function, 1);
	call_merge_close(s.m);
}

static void depth_has_a_limit_and_nesting_has_none(void **state)
{
	enum { DEEP = 70000 };
	const struct trace_event *e = NULL;
	struct call_stream c;
	struct scene s;

	scene_begin(&s, *state);
	OK(call_stream_open(s.w, PID, 101, &c));
	for (uint64_t i = 0; i < 2ull * DEEP; i++)
		call_stream_put(&c, i < DEEP ? CALL_ENTRY : CALL_EXIT, i, 1);
	OK(call_stream_close(&c));
	scene_read(&s, *state);
	for (int i = 0; i < DEEP; i++)
		e = next(&s);
	assert_int_equal(e->call.depth, UINT16_MAX);
	assert_int_equal(e->call.parent, DEEP - 1);
	for (int i = DEEP; i > 0; i--) {
		e = next(&s);
		assert_int_equal(e->ret.call, i);
	}
	assert_null(next(&s));
	call_merge_close(s.m);
}

static uint64_t write_many(struct scene *s, unsigned int threads, unsigned int packets)
{
	uint64_t n = (uint64_t)packets * CALL_PACKET_EVENTS;

	for (unsigned int t = 0; t < threads; t++) {
		struct call_stream c;

		OK(call_stream_open(s->w, PID, PID + (pid_t)t, &c));
		for (uint64_t i = 0; i < n; i++)
			call_stream_put(&c, i & 1 ? CALL_EXIT : CALL_ENTRY, 1 + t + i * (3 + t % 5), 1 + t);
		OK(call_stream_close(&c));
	}
	return n * threads;
}

static void many_threads_come_in_order_and_whole(void **state)
{
	uint64_t last_ns = 0, last_call = 0, n = 0, total;
	struct scene s;

	scene_begin(&s, *state);
	total = write_many(&s, 20, 3);
	scene_read(&s, *state);
	for (const struct trace_event *e; (e = next(&s)); n++) {
		assert_true(e->time_ns >= last_ns);
		last_ns = e->time_ns;
		if (e->type == EVENT_CALL)
			assert_int_equal(e->call.call, ++last_call);
		else
			assert_int_equal(e->ret.how, RETURN_RETURNED);
	}
	assert_int_equal(n, total);
	assert_true(call_merge_progress(s.m) == 1);
	call_merge_close(s.m);
}

/* Of files of several packets, whose events take turns. */
static void every_event_is_found_again_by_its_position(void **state)
{
	struct given *given;
	const struct trace_event *e;
	uint64_t n = 0, total;
	size_t kept = 0;
	struct scene s;

	scene_begin(&s, *state);
	total = write_many(&s, 3, 3);
	scene_read(&s, *state);
	given = calloc(total / 97 + 1, sizeof(*given));
	assert_non_null(given);
	for (; (e = next(&s)); n++)
		if (n % 97 == 0)
			keep_given(&s, e, &given[kept++]);
	assert_int_equal(n, total);
	check_all_again(&s, given, kept);
	free(given);
	OK(call_merge_read_again(s.m, 0, 0, &e));
	assert_null(e);
	OK(call_merge_read_again(s.m, total + 1, 0, &e));
	assert_null(e);
	call_merge_close(s.m);
}

static void a_file_that_was_changed_is_not_read_again(void **state)
{
	const struct fixture *f = *state;
	const struct trace_event *e;
	struct scene s;
	char path[128];
	int fd;

	scene_begin(&s, f);
	write_script(&s, 101, 1, "+1 - | +2 -");
	scene_read(&s, f);
	while (next(&s))
		;
	snprintf(path, sizeof(path), "%s/calls.0000000000", f->log);
	fd = open(path, O_WRONLY);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "x", 1, sizeof(struct call_packet) + 1), 1);
	close(fd);
	OK(call_merge_read_again(s.m, 1, 0, &e));
	assert_null(e);
	call_merge_close(s.m);
}

static void a_log_without_calls_has_nothing_to_merge(void **state)
{
	struct fixture *f = *state;
	struct call_merge *m = (struct call_merge *)f;
	struct tracelog_writer *events;

	OK(tracelog_writer_open(f->log, &events));
	OK(tracelog_writer_close(events));
	OK(call_merge_open(f->log, &m));
	assert_null(m);
	FAILS(call_merge_open(f->copy, &m), "cannot open the log");
}

/* States: 00 is a value, 04 none. */
static void values_are_those_of_their_call(void **state)
{
	struct scene s;

	scene_begin(&s, *state);
	write_script(&s, 101, 1, "+90 :0 :1 =90 -90 +90 :1 -90");
	scene_read(&s, *state);
	check_stream(&s, "101:1 +90#1<0@0 0000010000000101000000000000\n"
			 "101:2 -1 0007000000\n"
			 "101:3 +90#2<0@0 04000101000000000000\n"
			 "101:4 -2");
}

static void a_result_may_come_in_the_packet_before_its_exit(void **state)
{
	struct scene s;

	scene_begin(&s, *state);
	write_script(&s, 101, 1, "+90 :0 :1 =90 | -90");
	scene_read(&s, *state);
	check_stream(&s, "101:1 +90#1<0@0 0000010000000101000000000000\n"
			 "101:2 -1 0007000000");
}

static void values_of_another_call_are_left_out(void **state)
{
	struct scene s;

	scene_begin(&s, *state);
	write_script(&s, 101, 1, ":0 =90 +1 :0 =90 -1 +90 :7 ^91 ^3000 =1 ?0 ?9 -90 =90 +90 -90");
	scene_read(&s, *state);
	check_stream(&s, "101:1 +1#1<0@0\n101:2 -1\n101:3 +90#2<0@0\n101:4 -2\n101:5 +90#3<0@0\n101:6 -3");
}

/* Behind the value of a pointer: a state, and of 00 and 03 a length and bytes. */
static void pointees_are_those_of_their_call(void **state)
{
	struct scene s;

	scene_begin(&s, *state);
	write_script(&s, 101, 1,
		     "+89 ;0 ;1 *0 %1 ;255 *255 -89 +89 ;0 ;1 *1 #0 ;255 %255 -89 +89 00 01 0255 *255 -89");
	scene_read(&s, *state);
	check_stream(
		&s,
		"101:1 +89#1<0@0 000500000000000000000c006279746573206f662031320000050000000000000003040062797465\n"
		"101:2 -1 000500000000000000000c006279746573206f6620313200\n"
		"101:3 +89#2<0@0 00050000000000000002000500000000000000000c006279746573206f6620313200\n"
		"101:4 -2 00050000000000000003040062797465\n"
		"101:5 +89#3<0@0 0000000000000000000500000000000000000005\n"
		"101:6 -3 00000000000000000005");
}

/* A result's may be in the packet before its exit; of another call, without a value, or with bytes that are not there. */
static void pointees_that_belong_to_nothing_are_left_out(void **state)
{
	struct scene s;

	scene_begin(&s, *state);
	write_script(
		&s, 101, 1,
		"*255 +1 *0 ;255 *255 - +89 *0 *7 *255 - +89 $0 ;1 $1 ;255 $255 | -89 +89 ;255 *255 | -89");
	scene_read(&s, *state);
	check_stream(
		&s,
		"101:1 +1#1<0@0\n101:2 -1\n101:3 +89#2<0@0\n101:4 -2\n"
		"101:5 +89#3<0@0 0400050000000000000004\n101:6 -3 00050000000000000004\n101:7 +89#4<0@0\n101:8 -4 000500000000000000000c006279746573206f6620313200");
}

static void words_that_are_not_there_are_not_read(void **state)
{
	struct scene s;

	scene_begin(&s, *state);
	write_script(&s, 101, 1, "+90 :0 -90 +90 &0 &1");
	write_script(&s, 102, 1, "+90 &1073741823");
	write_script(&s, 103, 1, "+90 &3");
	scene_read(&s, *state);
	for (const struct trace_event *e; (e = next(&s));)
		assert_true(e->type != EVENT_CALL || e->call.function <= FUNCTIONS);
	call_merge_close(s.m);
}

static void tell_type(struct scene *s, uint32_t type, const char *format, enum probe_tactic tactic)
{
	assert_true(call_merge_tell(
		s->m,
		&(struct trace_event){ .type = EVENT_PROBE_SITE,
				       .probe_site = { .id = type, .pattern = format, .tactic = tactic } }));
}

/* Also of a thread that does nothing else, at the end of a packet, and behind a gap. */
static void the_programs_own_events_come_at_their_time(void **state)
{
	struct scene s;

	scene_begin(&s, *state);
	write_script(&s, 101, 10, "@4 +1 @5 | @4 - | !2 @6");
	write_script(&s, 102, 13, "@4 @5");
	scene_read(&s, *state);
	tell_type(&s, 4, "four %d", PROBE_TACTIC_SOURCE);
	tell_type(&s, 4, "again", PROBE_TACTIC_SOURCE);
	tell_type(&s, 5, "five", PROBE_TACTIC_JUMP); /* a probe's, which is another thing */
	check_stream(&s, "101:10 *4 5 6 four %d\n101:11 +1#1<0@0\n101:12 *5 6 7 %lu %lu\n"
			 "101:13 *4 5 6 four %d\n102:13 *4 5 6 four %d\n101:14 -1\n102:14 *5 6 7 %lu %lu\n"
			 "lost 2\n101:15 *6 7 8 %lu %lu");
}

static void own_events_leave_values_to_their_calls(void **state)
{
	struct scene s;

	scene_begin(&s, *state);
	write_script(&s, 101, 1, "+90 :0 :1 @1 =90 @2 | @3 -90");
	scene_read(&s, *state);
	check_stream(
		&s,
		"101:1 +90#1<0@0 0000010000000101000000000000\n101:2 *1 2 3 %lu %lu\n101:3 *2 3 4 %lu %lu\n"
		"101:4 *3 4 5 %lu %lu\n101:5 -1 0007000000");
}

static void own_events_of_fewer_words_are_none(void **state)
{
	struct scene s;

	scene_begin(&s, *state);
	write_script(&s, 101, 1, "+1 _1 _2 - _4"); /* the packet has but three of these */
	write_script(&s, 102, 9, "_1073741823 +1");
	scene_read(&s, *state);
	check_stream(&s, "101:1 +1#1<0@0\n101:4 -1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(threads_are_merged_by_time),
		TEST(no_event_comes_before_its_time),
		TEST(an_exit_ends_the_innermost_call_whatever_it_says),
		TEST(calls_that_are_open_at_the_end_of_a_file_never_end),
		TEST(exits_without_a_call_are_counted),
		TEST(behind_a_gap_nothing_is_open_any_more),
		TEST(a_gap_at_the_end_leaves_open_how_calls_ended),
		TEST(a_damaged_packet_is_a_gap),
		TEST(calls_of_unknown_functions_are_left_out),
		TEST(depth_has_a_limit_and_nesting_has_none),
		TEST(many_threads_come_in_order_and_whole),
		TEST(every_event_is_found_again_by_its_position),
		TEST(a_file_that_was_changed_is_not_read_again),
		TEST(a_log_without_calls_has_nothing_to_merge),
		TEST(values_are_those_of_their_call),
		TEST(a_result_may_come_in_the_packet_before_its_exit),
		TEST(values_of_another_call_are_left_out),
		TEST(pointees_are_those_of_their_call),
		TEST(pointees_that_belong_to_nothing_are_left_out),
		TEST(words_that_are_not_there_are_not_read),
		TEST(the_programs_own_events_come_at_their_time),
		TEST(own_events_leave_values_to_their_calls),
		TEST(own_events_of_fewer_words_are_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
