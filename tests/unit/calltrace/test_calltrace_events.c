/*
 * Events of the program's own: each test runs this program again as a traced one, which records them by
 * calltrace_event() or slot by slot, and reads the log that it leaves.
 */
#include "tests/unit/tracelog_fixture.h"

#include <errno.h>
#include <pthread.h>

#include "calltrace/calltrace.h"
#include "tests/unit/calltrace/traced.h"
#include "calltrace/runtime/event_pairs.h"
#include "tests/unit/calltrace/traced_run.h"

TRACED_FUNCTION(a, 0);
TRACED_FUNCTION(b, 0);

#define S1 0x70001000u
#define S2 0x70000f00u
#define MANY 100000

/* Acts of the traced program */

/* The payloads of event @i, of which each half is another. */
static uint64_t first_of(uint64_t i)
{
	return i << 20 | 7;
}

static uint64_t second_of(uint64_t first)
{
	return ~first * 0x9e3779b97f4a7c15;
}

static void record(int type, uint64_t i)
{
	calltrace_event(type, first_of(i), second_of(first_of(i)));
}

/* One of the two slots of event @i of type 0, at the place @place of the stack. */
static void slot_of(enum calltrace_kind kind, uint32_t place, uint64_t i)
{
	const uint64_t first = first_of(i);
	const uint32_t what = kind | place << CALLTRACE_EVENT_PLACE_SHIFT;
	const uint32_t half = (uint32_t)(kind == CALLTRACE_EVENT ? first : first >> 32);
	struct calltrace_slot *slot = traced_take();

	slot->tsc = kind == CALLTRACE_EVENT ? __builtin_ia32_rdtsc() : second_of(first);
	slot->frame = half;
	__atomic_store_n(&slot->what, what, __ATOMIC_RELEASE);
	if (traced_is_last(slot))
		traced_turn(what, half);
}

#define FIRST(place, i) slot_of(CALLTRACE_EVENT, place, i)
#define REST(place, i) slot_of(CALLTRACE_EVENT_REST, place, i)

static int among_calls(void)
{
	const int one = calltrace_event_type("one", NULL), two = calltrace_event_type("two", "%lu");

	record(two, 0);
	ENTER(a, S1);
	record(one, 1);
	ENTER(b, S2);
	LEAVE(b, S2);
	record(two, 2);
	LEAVE(a, S1);
	record(one, 3);
	return one != 0 || two != 1;
}

/* A call that has jumped to code that is not traced has ended when that records. */
static int behind_a_jump(void)
{
	const int type = calltrace_event_type("one", NULL);

	ENTER(a, S1);
	ENTER(b, S2);
	TAIL(b, S2);
	record(type, 0);
	LEAVE(a, S1);
	return 0;
}

static int interrupted(void)
{
	calltrace_event_type("one", NULL);
	FIRST(1, 0);
	FIRST(2, 1);
	ENTER(a, S1);
	LEAVE(a, S1);
	FIRST(3, 2);
	REST(3, 2);
	REST(2, 1);
	REST(1, 0);
	return 0;
}

/* Threads of the program's own, which take turns in a signal handler. */
static int changed_stacks(void)
{
	calltrace_event_type("one", NULL);
	FIRST(1, 0);
	FIRST(2, 1);
	REST(1, 0);
	FIRST(1, 2);
	REST(2, 1);
	REST(1, 2);
	return 0;
}

/* By a handler that jumps away; the second time at the same place, the third time for good. */
static int left_behind(void)
{
	calltrace_event_type("one", NULL);
	FIRST(1, 0);
	FIRST(1, 1);
	REST(1, 1);
	FIRST(2, 2);
	FIRST(3, 3);
	REST(3, 3);
	return 0;
}

static int rest_alone(void)
{
	calltrace_event_type("one", NULL);
	record(0, 0);
	REST(1, 1);
	FIRST(2, 2);
	REST(1, 2);
	REST(2, 2);
	return 0;
}

static int too_many(void)
{
	calltrace_event_type("one", NULL);
	for (uint32_t i = 0; i < EVENT_PAIRS_MAX + 2; i++)
		FIRST(i, i);
	for (uint32_t i = EVENT_PAIRS_MAX + 2; i--;)
		REST(i, i);
	return 0;
}

/* A signal comes before the first slot is written, and its handler goes through a turn. */
static int late_slot(void)
{
	struct calltrace_slot *slot;

	calltrace_event_type("one", NULL);
	FIRST(1, 0); /* of a place at which another handler has jumped away */
	slot = traced_take();
	for (uint64_t i = 0; i < 3000; i++)
		record(0, i);
	traced_write(slot, CALLTRACE_EVENT | 1u << CALLTRACE_EVENT_PLACE_SHIFT, 1);
	REST(1, 5000);
	return 0;
}

/* The two slots of some are in two chunks: the first slot of all is no event's. */
static int many(void)
{
	const int type = calltrace_event_type("one", NULL);

	ENTER(a, S1);
	for (uint64_t i = 0; i < MANY; i++)
		record(type, i);
	return 0;
}

static void *records(void *arg)
{
	record(0, 0);
	record(0, 1);
	return arg;
}

static int of_a_thread(void)
{
	pthread_t t;

	calltrace_event_type("one", NULL);
	pthread_create(&t, NULL, records, NULL);
	pthread_join(t, NULL);
	return 0;
}

static int switched(void)
{
	const int type = calltrace_event_type("one", NULL);

	record(type, 0);
	calltrace_disable();
	record(type, 1);
	calltrace_enable();
	record(type + 1, 2);
	record(-1, 2);
	record(type, 3);
	return 0;
}

static int cleared(void)
{
	const int type = calltrace_event_type("one", NULL);

	record(type, 0);
	FIRST(1, 1);
	calltrace_clear();
	REST(1, 1);
	record(type, 2);
	return 0;
}

/* Flushed by itself: what comes after is in another packet. */
static int flushed(void)
{
	const int type = calltrace_event_type("one", NULL);

	record(type, 0);
	FIRST(1, 1);
	if (calltrace_flush())
		return 1;
	REST(1, 1);
	record(type, 2);
	return 0;
}

static int in_two_logs(void)
{
	const int type = calltrace_event_type("one", NULL);
	char next[4096];

	record(type, 0);
	FIRST(1, 1);
	snprintf(next, sizeof(next), "%s.next", getenv("CALLTRACE_OUTPUT"));
	setenv("CALLTRACE_OUTPUT", next, 1);
	if (calltrace_deinitialize() || calltrace_initialize())
		return 1;
	REST(1, 1);
	record(type, 2);
	return 0;
}

static int types(void)
{
	char text[300];
	int i;

	memset(text, 'x', sizeof(text));
	text[256] = '\0';
	if (calltrace_event_type(NULL, "%lu") != -EINVAL || calltrace_event_type("", NULL) != -EINVAL ||
	    calltrace_event_type(text, NULL) != -EINVAL || calltrace_event_type("long", text) != -EINVAL)
		return 1;
	text[255] = '\0';
	if (calltrace_event_type(text, text) != 0 || calltrace_event_type(text, text) != 0)
		return 2;
	text[0] = 'y';
	if (calltrace_event_type(text, "%lx") != 1 || calltrace_event_type(text, NULL) != 2 ||
	    calltrace_event_type(text, "%lu %lu") != 2)
		return 3;
	for (i = 3; i < 1024; i++) {
		snprintf(text, sizeof(text), "type %d", i);
		if (calltrace_event_type(text, NULL) != i)
			return 4;
	}
	record(1023, 0);
	return calltrace_event_type("one more", NULL) != -ENOSPC || calltrace_event_type("type 5", NULL) != 5;
}

static const struct act acts[] = {
	{ "among_calls", among_calls },
	{ "behind_a_jump", behind_a_jump },
	{ "interrupted", interrupted },
	{ "changed_stacks", changed_stacks },
	{ "left_behind", left_behind },
	{ "rest_alone", rest_alone },
	{ "too_many", too_many },
	{ "late_slot", late_slot },
	{ "many", many },
	{ "of_a_thread", of_a_thread },
	{ "switched", switched },
	{ "cleared", cleared },
	{ "flushed", flushed },
	{ "in_two_logs", in_two_logs },
	{ "types", types },
};

/* Tests */

/* The numbers of the events in the log, of all threads, as text: "0 1 2"; their payloads fit. */
static char *numbers(const char *log, uint64_t discarded)
{
	scoped(call_reader_closep) struct call_reader *r = read_calls(log, discarded);
	struct call_batch b;
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	uint64_t last_ns = 0;

	for (size_t thread = 0; thread < call_reader_threads(r); thread++) {
		while (call_reader_next(r, thread, &b)) {
			for (size_t i = 0; i < b.nmore; i++) {
				const struct call_more *m = &b.more[i];

				assert_int_equal(call_word_kind(m->word[0]), CALL_WORD_EVENT);
				assert_int_equal(m->n, CALL_EVENT_WORDS);
				assert_true(m->at < b.n);
				assert_int_equal(b.what[m->at], CALL_MORE);
				assert_int_equal(b.function[m->at], call_word_function(m->word[0]));
				assert_true(b.time_ns[m->at] >= last_ns);
				last_ns = b.time_ns[m->at];
				assert_int_equal(m->word[2], second_of(m->word[1]));
				fprintf(out, "%s%llu", ftell(out) ? " " : "",
					(unsigned long long)m->word[1] >> 20);
			}
		}
	}
	fclose(out);
	return text;
}

static void check_numbers(void **state, const char *name, const char *expect, uint64_t discarded)
{
	const struct fixture *f = *state;
	scoped(freep) char *text = NULL;

	ran(f, name);
	text = numbers(f->log, discarded);
	assert_string_equal(text, expect);
}

/* The numbers are those from @from to @to, but for none. */
static void check_range(const char *text, uint64_t from, uint64_t to)
{
	char *end;

	for (uint64_t i = from; i < to; i++, text = end)
		assert_int_equal(strtoull(text, &end, 10), i);
	assert_string_equal(text, "");
}

static char site_text[2][300];
static enum probe_tactic site_tactic;
static uint64_t site_ip;

static void look_at_site(const struct trace_event *e)
{
	snprintf(site_text[0], sizeof(site_text[0]), "%s", e->probe_site.probe);
	snprintf(site_text[1], sizeof(site_text[1]), "%s", e->probe_site.pattern);
	site_tactic = e->probe_site.tactic;
	site_ip = e->probe_site.ip;
}

static void they_are_among_the_calls_of_their_thread(void **state)
{
	const struct fixture *f = *state;
	scoped(freep) char *text = NULL;

	check_act(state, "among_calls", "!1+a!0+b-b!1-a!0");
	text = numbers(f->log, 0);
	assert_string_equal(text, "0 1 2 3");
	assert_int_equal(count_events(f->log, EVENT_PROBE_SITE, look_at_site), 2);
	assert_string_equal(site_text[0], "two");
	assert_string_equal(site_text[1], "%lu");
	assert_int_equal(site_tactic, PROBE_TACTIC_SOURCE);
	assert_int_equal(site_ip, 0);
}

static void a_call_that_has_jumped_away_has_ended_before(void **state)
{
	check_act(state, "behind_a_jump", "+a+b-b!0-a");
}

static void a_handler_may_record_between_the_two_slots(void **state)
{
	check_numbers(state, "interrupted", "2 1 0", 0);
}

static void a_handler_may_change_stacks_between_the_two_slots(void **state)
{
	check_numbers(state, "changed_stacks", "0 1 2", 0);
}

static void one_that_a_handler_has_left_behind_is_discarded(void **state)
{
	check_numbers(state, "left_behind", "1 3", 2);
}

static void a_second_slot_alone_is_nothing(void **state)
{
	check_numbers(state, "rest_alone", "0 2", 0);
}

static void of_too_many_that_are_begun_the_oldest_are_discarded(void **state)
{
	check_numbers(state, "too_many", "9 8 7 6 5 4 3 2", 2);
}

/* The first slot, and one that was begun and cannot be told from it. */
static void a_second_slot_finds_no_other_first_one(void **state)
{
	const struct fixture *f = *state;
	scoped(freep) char *text = NULL;

	ran(f, "late_slot");
	text = numbers(f->log, 2);
	check_range(text, 0, 3000);
}

static void none_is_lost_where_a_chunk_or_a_packet_ends(void **state)
{
	const struct fixture *f = *state;
	scoped(freep) char *text = NULL;

	ran(f, "many");
	text = numbers(f->log, 0);
	check_range(text, 0, MANY);
}

static void one_may_be_the_first_event_of_its_thread(void **state)
{
	check_numbers(state, "of_a_thread", "0 1", 0);
}

static void they_are_switched_as_calls_are(void **state)
{
	check_numbers(state, "switched", "0 3", 0);
}

static void clearing_forgets_them(void **state)
{
	check_numbers(state, "cleared", "2", 0);
}

static void one_may_be_half_recorded_when_the_log_is_flushed(void **state)
{
	check_numbers(state, "flushed", "0 1 2", 0);
}

static void types_hold_for_the_next_log(void **state)
{
	const struct fixture *f = *state;
	scoped(freep) char *text = NULL;
	char next[300];

	check_numbers(state, "in_two_logs", "0", 1);
	snprintf(next, sizeof(next), "%s.next", f->log);
	text = numbers(next, 0);
	assert_string_equal(text, "2");
	assert_int_equal(count_events(next, EVENT_PROBE_SITE, look_at_site), 1);
	assert_string_equal(site_text[0], "one");
}

static void a_type_is_a_name_and_a_format(void **state)
{
	const struct fixture *f = *state;

	check_numbers(state, "types", "0", 0);
	assert_int_equal(count_events(f->log, EVENT_PROBE_SITE, look_at_site), 1024);
	assert_string_equal(site_text[0], "type 1023");
	assert_string_equal(site_text[1], "%lu %lu");
}

static void without_a_log_there_are_types_and_no_events(void **state)
{
	const struct fixture *f = *state;

	assert_int_equal(run(f, "types", ""), 0);
	said(f, "");
	assert_int_equal(run(f, "interrupted", ""), 0);
	assert_int_equal(access(f->log, F_OK), -1);
}

/* Only whole ones, and the last ones; the oldest slot may be the second one of its event. */
static void a_flight_recorder_has_the_last_ones(void **state)
{
	const struct fixture *f = *state;
	scoped(freep) char *text = NULL;
	uint64_t from;

	setenv("CALLTRACE_RING", "128K", 1);
	ran(f, "many");
	unsetenv("CALLTRACE_RING");
	text = numbers(f->log, 0);
	from = strtoull(text, NULL, 10);
	assert_in_range(from, MANY - 2 * 2048, MANY - 2048);
	check_range(text, from, MANY);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(they_are_among_the_calls_of_their_thread),
		TEST(a_call_that_has_jumped_away_has_ended_before),
		TEST(a_handler_may_record_between_the_two_slots),
		TEST(a_handler_may_change_stacks_between_the_two_slots),
		TEST(one_that_a_handler_has_left_behind_is_discarded),
		TEST(a_second_slot_alone_is_nothing),
		TEST(of_too_many_that_are_begun_the_oldest_are_discarded),
		TEST(a_second_slot_finds_no_other_first_one),
		TEST(none_is_lost_where_a_chunk_or_a_packet_ends),
		TEST(one_may_be_the_first_event_of_its_thread),
		TEST(they_are_switched_as_calls_are),
		TEST(clearing_forgets_them),
		TEST(one_may_be_half_recorded_when_the_log_is_flushed),
		TEST(types_hold_for_the_next_log),
		TEST(a_type_is_a_name_and_a_format),
		TEST(without_a_log_there_are_types_and_no_events),
		TEST(a_flight_recorder_has_the_last_ones),
	};

	if (argc > 1 && !strcmp(argv[0], "traced"))
		return act(acts, sizeof(acts) / sizeof(*acts), argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
