/* Memory that comes in slots: whole ones become words of a packet, and pieces that do not fit together become nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "calltrace/runtime/open_memory.h"

#define F 3u
#define G 4u

struct scene {
	struct open_memory m;
	struct open_calls calls;
	struct call_output out;
	struct output_place place;
	union {
		struct call_packet packet;
		uint8_t bytes[CALL_PACKET_BYTES];
	};
};

static struct scene scene;

/* A call of F is open. */
static int setup(void **state)
{
	const struct call_fact entry = { .kind = CALLTRACE_ENTRY, .function = F, .frame = 0x1000 };

	memset(&scene, 0, sizeof(scene));
	output_begin(&scene.out, &scene.place, &scene.packet, 1);
	scene.out.is_stopped = true; /* nothing is written */
	open_calls_take(&scene.calls, &entry, &scene.out);
	return 0;
}

static int teardown(void **state)
{
	open_calls_deinit(&scene.calls);
	return 0;
}

static void slot(enum calltrace_kind kind, uint32_t function, uint64_t tsc, uint32_t frame)
{
	const struct call_fact f = { .kind = kind, .function = function, .frame = frame };

	if (call_fact_is_memory(&f))
		open_memory_take(&scene.m, &scene.calls, &f, tsc, &scene.out);
	else
		open_calls_take(&scene.calls, &f, &scene.out);
}

static void head(uint32_t function, uint32_t bytes, enum calltrace_memory_state state, uint32_t number)
{
	slot(CALLTRACE_MEMORY, function, bytes | (uint64_t)state << 16, number);
}

static void bytes(uint32_t function, const char twelve[12])
{
	uint64_t first;
	uint32_t last;

	memcpy(&first, twelve, 8);
	memcpy(&last, twelve + 8, 4);
	slot(CALLTRACE_BYTES, function, first, last);
}

/* The last words are those of a `more` of @n bytes of F's. */
static void check_words(uint32_t number, enum calltrace_memory_state state, const char *text, uint32_t n)
{
	const uint32_t words = 1 + (n + 7) / 8;
	const uint64_t *at = scene.packet.event + scene.out.n - words;
	char padded[CALL_BYTES_MAX] = { 0 };

	assert_true(scene.out.n > words);
	assert_int_equal(at[-1] & 3, CALL_MORE);
	assert_int_equal(at[-1] >> CALL_FUNCTION_SHIFT, words);
	assert_int_equal(*at, call_bytes_word(number, state, n, F));
	memcpy(padded, text, n);
	assert_memory_equal(at + 1, padded, (n + 7) / 8 * 8ul);
}

static void pieces_become_words(void **state)
{
	head(F, 20, CALLTRACE_MEMORY_WHOLE, 2);
	bytes(F, "0123456789ab");
	assert_int_equal(scene.out.n, 1);
	bytes(F, "cdefghijklmn");
	check_words(2, CALLTRACE_MEMORY_WHOLE, "0123456789abcdefghij", 20);
	head(F, 8, CALLTRACE_MEMORY_CUT, CALLTRACE_NUMBER_RESULT);
	bytes(F, "ABCDEFGHIJKL");
	check_words(CALL_BYTES_RESULT, CALLTRACE_MEMORY_CUT, "ABCDEFGH", 8);
	assert_int_equal(scene.out.n, 1 + 5 + 3);
	assert_int_equal(scene.out.values, 5 + 3);
}

static void the_largest_has_room(void **state)
{
	char text[CALLTRACE_MEMORY_MAX + CALLTRACE_PIECE];

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)(i * 7);
	head(F, CALLTRACE_MEMORY_MAX, CALLTRACE_MEMORY_WHOLE, 63);
	for (size_t i = 0; i < CALLTRACE_MEMORY_MAX; i += CALLTRACE_PIECE)
		bytes(F, text + i);
	check_words(63, CALLTRACE_MEMORY_WHOLE, text, CALLTRACE_MEMORY_MAX);
	bytes(F, "one too many");
	check_words(63, CALLTRACE_MEMORY_WHOLE, text, CALLTRACE_MEMORY_MAX);
}

static void nothing_needs_no_pieces(void **state)
{
	head(F, 0, CALLTRACE_MEMORY_UNREADABLE, 1);
	check_words(1, CALLTRACE_MEMORY_UNREADABLE, "", 0);
	head(F, 0, CALLTRACE_MEMORY_WHOLE, 0); /* an empty string */
	check_words(0, CALLTRACE_MEMORY_WHOLE, "", 0);
}

static void heads_that_make_no_sense_are_dropped(void **state)
{
	slot(CALLTRACE_MEMORY, F, 0x123456789abcd, 0); /* a time, as a thread's first slot has it */
	bytes(F, "0123456789ab");
	head(F, CALLTRACE_MEMORY_MAX + 1, CALLTRACE_MEMORY_WHOLE, 0);
	bytes(F, "0123456789ab");
	head(F, 4, CALLTRACE_MEMORY_UNREADABLE, 0);
	bytes(F, "0123456789ab");
	head(F, 4, (enum calltrace_memory_state)5, 0);
	bytes(F, "0123456789ab");
	head(F, 4, CALLTRACE_MEMORY_WHOLE, 256);
	bytes(F, "0123456789ab");
	assert_int_equal(scene.out.n, 1);
}

static void memory_of_other_calls_is_dropped(void **state)
{
	bytes(F, "no head first");
	head(G, 4, CALLTRACE_MEMORY_WHOLE, 0);
	bytes(G, "0123456789ab");
	head(F, 4, CALLTRACE_MEMORY_WHOLE, 0);
	bytes(G, "0123456789ab");
	assert_int_equal(scene.out.n, 1);
	bytes(F, "0123456789ab");
	check_words(0, CALLTRACE_MEMORY_WHOLE, "0123", 4);
}

/* A handler's calls are between the pieces: the words would come behind another event. */
static void an_event_in_the_middle_drops_it(void **state)
{
	head(F, 20, CALLTRACE_MEMORY_WHOLE, 0);
	bytes(F, "0123456789ab");
	slot(CALLTRACE_ENTRY, G, 5, 0x900);
	slot(CALLTRACE_EXIT, G, 6, 0x900);
	bytes(F, "cdefghijklmn");
	assert_int_equal(scene.out.n, 3);
	assert_int_equal(scene.out.values, 0);
	bytes(F, "cdefghijklmn");
	assert_int_equal(scene.out.n, 3);
}

/* A call of the same function, in a handler, has its own. */
static void a_handlers_memory_is_not_mixed_with_it(void **state)
{
	head(F, 20, CALLTRACE_MEMORY_WHOLE, 0);
	bytes(F, "outer outer ");
	slot(CALLTRACE_ENTRY, F, 5, 0x900);
	head(F, 20, CALLTRACE_MEMORY_WHOLE, 0);
	bytes(F, "0123456789ab");
	bytes(F, "cdefghijklmn");
	check_words(0, CALLTRACE_MEMORY_WHOLE, "0123456789abcdefghij", 20);
	slot(CALLTRACE_EXIT, F, 6, 0x900);
	bytes(F, "outer outer ");
	assert_int_equal(scene.out.n, 1 + 1 + 5 + 1);
}

static void a_flush_in_the_middle_drops_it(void **state)
{
	head(F, 20, CALLTRACE_MEMORY_WHOLE, 0);
	bytes(F, "0123456789ab");
	output_flush(&scene.out);
	bytes(F, "cdefghijklmn");
	assert_int_equal(scene.out.n, 0);
}

static void a_packet_has_room_for_all_that_a_call_has(void **state)
{
	const struct call_fact entry = { .kind = CALLTRACE_ENTRY, .function = F, .frame = 0x900 };
	const uint32_t each = CALLTRACE_MEMORY_SUM / 64;

	scene.out.n = OUTPUT_FULL - 1;
	open_calls_take(&scene.calls, &entry, &scene.out);
	for (uint32_t i = 0; i < 64; i++)
		open_calls_value(&scene.calls, CALLTRACE_VALUE, F, i, i, &scene.out);
	for (uint32_t i = 0; i < 64; i++) {
		/* One byte more or less: no two of them fill their words. */
		const uint32_t n = i % 2 ? each - 1 : each + 1;

		head(F, n, CALLTRACE_MEMORY_WHOLE, i);
		for (uint32_t k = 0; k < n; k += CALLTRACE_PIECE)
			bytes(F, "0123456789ab");
	}
	assert_int_equal(scene.packet.event[OUTPUT_FULL - 1], call_pack(CALL_ENTRY, 0, F));
	assert_true(scene.out.n > OUTPUT_FULL + 64 * OUTPUT_VALUE_WORDS + 64 * (2 + each / 8));
	assert_true(scene.out.n <= CALL_PACKET_EVENTS);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(pieces_become_words),
		TEST(the_largest_has_room),
		TEST(nothing_needs_no_pieces),
		TEST(heads_that_make_no_sense_are_dropped),
		TEST(memory_of_other_calls_is_dropped),
		TEST(an_event_in_the_middle_drops_it),
		TEST(a_handlers_memory_is_not_mixed_with_it),
		TEST(a_flush_in_the_middle_drops_it),
		TEST(a_packet_has_room_for_all_that_a_call_has),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
