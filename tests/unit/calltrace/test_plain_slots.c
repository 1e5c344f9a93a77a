/* The short way of a slot into a packet, against the long one: whatever comes, both make the same of it. */
#include "tests/unit/tracelog_fixture.h"

#include "calltrace/runtime/plain_slots.h"

#define FUNCTIONS 50u
#define SLOTS 4096u
#define BASE 7u

struct way {
	struct open_calls calls;
	struct call_output out;
	union {
		struct call_packet packet;
		uint8_t room[CALL_PACKET_BYTES];
	};
};

static struct output_place place;
static struct way brief, full;
static const struct module_range module = { .low = 0xfffffa00, .size = 32 * FUNCTIONS, .base = BASE };
static const struct clock_point from = { .tsc = 1000000, .ns = 5000 };
static struct clock_rate clock;

static void begin(struct way *w, uint32_t room)
{
	open_calls_deinit(&w->calls);
	output_begin(&w->out, &place, &w->packet, 1);
	w->out.is_stopped = true; /* of a packet that is full only the count is left */
	assert_true(open_calls_reserve(&w->calls, room));
	w->calls.cap = room; /* as if there were no more */
}

/* The one that @what means by itself. */
static void take_slowly(struct way *w, const struct calltrace_slot *s)
{
	struct call_fact f = call_fact_of(s->what, s->frame);

	f.function = BASE + ((s->what & ~CALLTRACE_KIND_MASK) - module.low) / 32;
	f.time_ns = clock_rate_time(&clock, s->tsc);
	w->calls.cap = w->calls.cap < 8192 ? 8192 : w->calls.cap;
	open_calls_take(&w->calls, &f, &w->out);
}

static void expect_the_same(void)
{
	assert_int_equal(brief.out.n, full.out.n);
	assert_int_equal(brief.out.last_ns, full.out.last_ns);
	assert_int_equal(brief.out.discarded, full.out.discarded);
	assert_int_equal(brief.calls.depth, full.calls.depth);
	assert_int_equal(brief.calls.is_leaving, full.calls.is_leaving);
	assert_memory_equal(brief.packet.event, full.packet.event, 8ul * full.out.n);
	if (full.calls.depth)
		assert_memory_equal(brief.calls.call, full.calls.call, 8ul * full.calls.depth);
}

static uint32_t record(uint32_t function)
{
	return module.low + 32 * function;
}

static unsigned int seed;

static uint32_t any(uint32_t below)
{
	seed = seed * 1103515245u + 12345u;
	return (seed >> 8) % below;
}

struct made {
	uint32_t function, frame;
};

/* Mostly calls that nest; now and then anything else. The stack may cross 4 GB. */
static void make_slots(struct calltrace_slot *slot, uint32_t top, uint32_t oddities)
{
	struct made open[200];
	uint64_t tsc = from.tsc;
	uint32_t depth = 0;

	for (uint32_t i = 0; i < SLOTS; i++) {
		const bool is_odd = any(1000) < oddities;
		const bool is_entry = !depth || (depth < 199 && any(2));
		uint32_t kind = is_entry ? CALLTRACE_ENTRY : CALLTRACE_EXIT;
		struct made m;

		tsc += any(300);
		if (is_entry) {
			m = (struct made){ any(FUNCTIONS),
					   (depth ? open[depth - 1].frame : top) - 16 * (1 + any(8)) };
			open[depth++] = m;
		} else {
			m = open[--depth];
		}
		if (is_odd && any(2))
			kind = 1 + any(4);
		else if (is_odd && any(2))
			m.frame += 16 * any(40);
		else if (is_odd)
			depth -= any(depth + 1); /* longjmp */
		if (is_odd && !any(4))
			kind |= CALLTRACE_INLINED;
		slot[i] = (struct calltrace_slot){
			.tsc = is_odd && !any(3) ? any(2) * from.tsc : tsc,
			.what = record(m.function) | kind,
			.frame = m.frame,
		};
	}
}

static void take_all(struct calltrace_slot *slot, const struct calltrace_slot *end)
{
	static struct calltrace_slot copy[SLOTS];

	memcpy(copy, slot, sizeof(copy));
	for (const struct calltrace_slot *s = copy; s < copy + (end - slot); s++)
		take_slowly(&full, s);
	while (slot < end) {
		slot = plain_slots_take(slot, end, &module, &clock, &brief.calls, &brief.out);
		if (slot < end)
			take_slowly(&brief, slot++);
	}
}

static void both_ways_make_the_same_of_whatever_comes(void **state)
{
	static const uint32_t tops[] = { 0x70001000, 0x00000400, 0x80000400 };
	static struct calltrace_slot slot[SLOTS];
	const struct clock_point until = { .tsc = from.tsc + 400000, .ns = from.ns + 130000 };

	(void)state;
	clock = clock_rate_of(&from, &until);
	for (uint32_t round = 0; round < 300; round++) {
		seed = round;
		make_slots(slot, tops[round % 3], round % 5 * 10);
		begin(&brief, 8192);
		begin(&full, 8192);
		take_all(slot, slot + SLOTS);
		expect_the_same();
	}
	open_calls_deinit(&brief.calls);
	open_calls_deinit(&full.calls);
}

/* Of a chunk without anything odd, behind the first entry, which needs the place in the packet. */
static void all_that_nests_goes_the_short_way(void **state)
{
	static struct calltrace_slot slot[SLOTS];
	const struct clock_point until = { .tsc = from.tsc + 4000000, .ns = from.ns + 1300000 };
	struct calltrace_slot *at = slot;

	(void)state;
	clock = clock_rate_of(&from, &until);
	seed = 3;
	make_slots(slot, 0x70001000, 0);
	begin(&brief, 8192);
	take_slowly(&brief, at++);
	at = plain_slots_take(at, slot + SLOTS, &module, &clock, &brief.calls, &brief.out);
	assert_ptr_equal(at, slot + SLOTS);
	for (uint32_t i = 1; i < SLOTS; i++)
		assert_int_equal(slot[i].what, 0);
	open_calls_deinit(&brief.calls);
}

/* Left to others, with nothing done. */
static void it_stops_before_what_is_not_its_own(void **state)
{
	static const uint32_t whats[] = {
		0, 31, 0xfffffa00 - 32 + 1, CALLTRACE_VALUE, CALLTRACE_UNWIND, CALLTRACE_TAIL
	};
	const struct clock_point until = { .tsc = from.tsc + 4000000, .ns = from.ns + 1300000 };

	(void)state;
	clock = clock_rate_of(&from, &until);
	for (size_t i = 0; i < sizeof(whats) / sizeof(*whats); i++) {
		const uint32_t what = whats[i] > 2 && whats[i] < 31 ? record(1) | whats[i] : whats[i];
		struct calltrace_slot slot[3] = { { from.tsc, record(1) | CALLTRACE_ENTRY, 0x1000 },
						  { from.tsc, record(2) | CALLTRACE_ENTRY, 0xff0 },
						  { from.tsc, what, 0xfe0 } };

		begin(&brief, 8192);
		take_slowly(&brief, &slot[0]);
		assert_ptr_equal(
			plain_slots_take(slot + 1, slot + 3, &module, &clock, &brief.calls, &brief.out),
			slot + 2);
		assert_int_equal(brief.calls.depth, 2);
		assert_int_equal(brief.out.n, 2);
		assert_int_equal(slot[2].what, what);
	}
	open_calls_deinit(&brief.calls);
}

/* The array of open calls, and the packet, have so much room and no more. */
static void it_stops_where_there_is_no_room(void **state)
{
	static struct calltrace_slot slot[SLOTS];
	const struct clock_point until = { .tsc = from.tsc + 4000000, .ns = from.ns + 1300000 };

	(void)state;
	clock = clock_rate_of(&from, &until);
	for (uint32_t i = 0; i < SLOTS; i++)
		slot[i] = (struct calltrace_slot){ from.tsc + i, record(1) | CALLTRACE_ENTRY,
						   0x70001000 - 16 * i };
	begin(&brief, 100);
	brief.out.n = 1;
	assert_ptr_equal(plain_slots_take(slot, slot + SLOTS, &module, &clock, &brief.calls, &brief.out),
			 slot + 100);
	assert_int_equal(brief.calls.depth, 100);

	begin(&brief, 8192);
	brief.out.n = OUTPUT_FULL - 10;
	assert_ptr_equal(
		plain_slots_take(slot + 100, slot + SLOTS, &module, &clock, &brief.calls, &brief.out),
		slot + 110);
	assert_int_equal(brief.out.n, OUTPUT_FULL);
	open_calls_deinit(&brief.calls);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_ways_make_the_same_of_whatever_comes),
		cmocka_unit_test(all_that_nests_goes_the_short_way),
		cmocka_unit_test(it_stops_before_what_is_not_its_own),
		cmocka_unit_test(it_stops_where_there_is_no_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
