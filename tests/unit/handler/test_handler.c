/*
 * The handler's own code, compiled for this process: the control area is ours, and the "trap" is a call. What
 * it must do with holes, full rings and facts is the same here as inside a target.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "handler/handler.c"

/* The clock is ours, and later by a look each time: nothing depends on this machine. */
static uint64_t held_ns(void);
#define monotonic_ns held_ns
#include "handler/hold.c"
#undef monotonic_ns
#include "handler/peek.c"

#define RING (64u << 10)
#define FACTS_AT WIRE_FACTS_OFFSET
#define RULES_AT (FACTS_AT + WIRE_ACCESS_FACTS * sizeof(struct wire_access_fact))
#define RING_AT (RULES_AT + WIRE_RULES * sizeof(struct wire_rule))
#define COOKIE 0x1234567890abcd00ull
#define KEY 0x5555aaaa5555aaaaull

struct fixture {
	struct wire_control *ctl;
	volatile uint64_t variable;
	uint64_t stack[64];
	uint64_t gregs[23];
	struct trap_info info;
	uint64_t frame; /* of the signal; 0: far from the stack */
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct wire_control *c =
		mmap(NULL, RING_AT + RING, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_non_null(f);
	assert_ptr_not_equal(c, MAP_FAILED);
	f->ctl = c;
	c->target_pid = getpid();
	c->cookie = COOKIE;
	c->commit_key = KEY;
	c->flags = WIRE_USE_TSC;
	c->max_frames = 8;
	c->raw_size = 256;
	c->facts_offset = FACTS_AT;
	c->rules_offset = RULES_AT;
	c->ring_offset = RING_AT;
	c->ring_size = RING;
	c->wake = 1;
	c->watch[0].addr = (uint64_t)(uintptr_t)&f->variable;
	c->watch[0].size = 8;
	c->watch[0].want_size = 8;
	c->nwatches = 2;
	f->info.code = TRAP_CODE_PERF;
	f->info.perf_data = COOKIE;
	f->gregs[15] = (uint64_t)(uintptr_t)f->stack; /* rsp */
	f->gregs[16] = 0x401000;		      /* rip */
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	munmap(f->ctl, RING_AT + RING);
	free(f);
	return 0;
}

static void trap(struct fixture *f)
{
	handler_record(f->ctl, 0, &f->info, f->gregs, f->frame);
}

static struct wire_record *record_at(struct fixture *f, uint64_t pos)
{
	return (struct wire_record *)((char *)f->ctl + RING_AT + (pos & (RING - 1)));
}

static void publish_rule(struct fixture *f, uint64_t key, const struct unwind_rule *rule)
{
	struct wire_rule *t = (struct wire_rule *)((char *)f->ctl + RULES_AT);

	t[wire_hash(key) & (WIRE_RULES - 1)] = (struct wire_rule){ key, *rule };
}

static struct wire_access_fact *publish_fact(struct fixture *f, uint64_t pc)
{
	struct wire_access_fact *t = (struct wire_access_fact *)((char *)f->ctl + FACTS_AT);
	struct wire_access_fact *fact = &t[wire_hash(pc) & (WIRE_ACCESS_FACTS - 1)];

	*fact = (struct wire_access_fact){ .key = pc, .base = -1, .index = -1, .size = 8, .kind = 2 };
	return fact;
}

static const struct unwind_rule leaf = {
	.kind = UNWIND_CFA_REG,
	.cfa_reg = WREG_RSP,
	.cfa_off = 8,
	.save = { UNWIND_SAME, UNWIND_SAME, UNWIND_SAME, UNWIND_SAME, UNWIND_SAME, UNWIND_SAME, -1 },
};

static void a_hit_is_recorded_with_registers_values_and_a_keyed_commit(void **state)
{
	struct fixture *f = *state;
	struct wire_record *r = record_at(f, 0);

	f->variable = 42;
	f->gregs[13] = 7; /* rax */
	f->ctl->watch[0].shadow = 41;
	trap(f);
	assert_int_equal(r->commit, 0 ^ KEY);
	assert_int_equal(r->old_value, 41);
	assert_int_equal(r->new_value, 42);
	assert_int_equal(r->regs.r[WREG_RAX], 7);
	assert_int_equal(r->regs.r[WREG_RIP], 0x401000);
	assert_int_equal(r->tid, gettid());
	assert_int_equal(f->ctl->watch[0].shadow, 42);
	assert_int_equal(f->ctl->head, r->size);
}

static void unknown_code_brings_its_stack_along_and_wakes_the_controller(void **state)
{
	struct fixture *f = *state;
	struct wire_record *r = record_at(f, 0);
	const struct regs *outer = (const struct regs *)((uint64_t *)(r + 1) + 1);

	f->ctl->wake = 0;
	f->stack[0] = 0x1111;
	f->stack[31] = 0x2222;
	trap(f);
	assert_int_equal(r->walk_end, WALK_END_UNKNOWN_PC);
	assert_int_equal(r->nframes, 1);
	assert_true(r->flags & WIRE_EXACT_PC);
	assert_int_equal(r->raw_len, 256);
	assert_int_equal(outer->r[WREG_RSP], r->raw_addr);
	assert_memory_equal(outer + 1, f->stack, 256);
	assert_int_equal(f->ctl->wake, 1);
}

static void known_code_is_unwound_on_the_spot(void **state)
{
	static const struct unwind_rule outermost = { .kind = UNWIND_OUTERMOST };
	struct fixture *f = *state;
	struct wire_record *r = record_at(f, 0);
	const uint64_t *frame = (const uint64_t *)(r + 1);

	publish_rule(f, 0x401000, &leaf);
	publish_rule(f, 0x402000 | WIRE_RETURN_ADDRESS, &leaf);
	publish_rule(f, 0x403000 | WIRE_RETURN_ADDRESS, &outermost);
	f->stack[0] = 0x402000;
	f->stack[1] = 0x403000;
	trap(f);
	assert_int_equal(r->walk_end, WALK_END_COMPLETE);
	assert_int_equal(r->nframes, 3);
	assert_int_equal(frame[0], 0x401000);
	assert_int_equal(frame[1], 0x402000);
	assert_int_equal(frame[2], 0x403000);
	assert_int_equal(r->raw_len, 0);
}

static void a_rule_that_leads_off_the_stack_ends_the_walk_and_faults_nothing(void **state)
{
	struct fixture *f = *state;
	struct wire_record *r = record_at(f, 0);
	char *hole = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const uint64_t bad[] = { 0,
				 8,
				 0x10000,
				 (uint64_t)(uintptr_t)hole,
				 (uint64_t)(uintptr_t)hole + 4093,
				 0x7fffffffffff,
				 0x8000000000000000,
				 ~0ull,
				 ~0ull - 4 };
	size_t i;

	publish_rule(f, 0x401000, &leaf);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		f->ctl->head = f->ctl->tail = 0;
		f->gregs[15] = bad[i];
		trap(f);
		assert_int_equal(r->walk_end, WALK_END_UNREADABLE);
		assert_int_equal(r->nframes, 1);
	}
	munmap(hole, 8192);
}

static void a_value_that_cannot_be_read_is_left_out(void **state)
{
	struct fixture *f = *state;

	f->ctl->watch[0].addr = 0x10000;
	trap(f);
	assert_false(record_at(f, 0)->flags & (WIRE_HAS_OLD | WIRE_HAS_NEW));
}

static void a_plain_store_gives_the_value_it_stored_not_what_came_after(void **state)
{
	struct fixture *f = *state;
	struct wire_access_fact *fact = publish_fact(f, 0x401000);

	fact->value_from = WIRE_VALUE_REG;
	fact->value_reg = WREG_RAX;
	fact->base = WREG_RBX;
	f->gregs[11] = (uint64_t)(uintptr_t)&f->variable; /* rbx */
	f->gregs[13] = 1234;				  /* rax */
	f->variable = 9999;				  /* another thread's, since */
	trap(f);
	assert_int_equal(record_at(f, 0)->new_value, 1234);
}

static void a_store_that_covers_the_variable_in_part_is_read_back(void **state)
{
	struct fixture *f = *state;
	struct wire_access_fact *fact = publish_fact(f, 0x401000);

	fact->value_from = WIRE_VALUE_IMM;
	fact->imm = 0x77;
	fact->size = 1;
	fact->disp = (int64_t)(uintptr_t)&f->variable;
	f->variable = 0x1177;
	trap(f);
	assert_int_equal(record_at(f, 0)->new_value, 0x1177);
}

static void a_wide_store_gives_the_bytes_of_the_variable(void **state)
{
	struct fixture *f = *state;
	struct wire_access_fact *fact = publish_fact(f, 0x401000);

	f->ctl->watch[0].addr += 4;
	f->ctl->watch[0].size = f->ctl->watch[0].want_size = 2;
	fact->value_from = WIRE_VALUE_IMM;
	fact->imm = 0x1122334455667788;
	fact->disp = (int64_t)(uintptr_t)&f->variable;
	trap(f);
	assert_int_equal(record_at(f, 0)->new_value, 0x3344);
}

static void a_watch_of_reads_drops_the_known_store_and_counts_it(void **state)
{
	struct fixture *f = *state;
	struct wire_access_fact *fact = publish_fact(f, 0x401000);

	f->ctl->watch[0].flags = WIRE_WATCH_READS | WIRE_WATCH_READS_ONLY;
	fact->disp = (int64_t)(uintptr_t)&f->variable;
	trap(f);
	assert_int_equal(f->ctl->watch[0].filtered, 1);
	assert_int_equal(f->ctl->head, 0);
}

static void a_store_elsewhere_does_not_explain_the_hit_and_is_not_dropped(void **state)
{
	struct fixture *f = *state;
	struct wire_access_fact *fact = publish_fact(f, 0x401000);

	f->ctl->watch[0].flags = WIRE_WATCH_READS | WIRE_WATCH_READS_ONLY;
	fact->disp = (int64_t)(uintptr_t)&f->variable + 64;
	trap(f);
	assert_int_equal(f->ctl->watch[0].filtered, 0);
	assert_true(f->ctl->head > 0);
}

static void a_full_ring_loses_the_event_and_counts_it(void **state)
{
	struct fixture *f = *state;
	uint64_t head;
	unsigned int n = 0;

	do {
		head = f->ctl->head;
		trap(f);
		n++;
	} while (f->ctl->head != head);
	assert_int_equal(f->ctl->watch[0].lost, 1);
	assert_true(n > 10);
	f->ctl->tail = f->ctl->head;
	trap(f);
	assert_int_equal(f->ctl->watch[0].lost, 1);
}

static void records_never_straddle_the_end_of_the_ring(void **state)
{
	struct fixture *f = *state;
	uint64_t pos = 0;
	unsigned int i, padded = 0;

	for (i = 0; i < 1000; i++) {
		struct wire_record *r;

		trap(f);
		while (pos < f->ctl->head) {
			r = record_at(f, pos);
			assert_int_equal(r->commit, pos ^ KEY);
			assert_true((pos & (RING - 1)) + r->size <= RING);
			padded += !!(r->flags & WIRE_PADDING);
			pos += r->size;
		}
		assert_int_equal(pos, f->ctl->head);
		f->ctl->tail = pos;
	}
	assert_true(padded > 0);
}

static void only_traps_with_our_cookie_are_ours(void **state)
{
	struct fixture *f = *state;
	struct trap_info info = f->info;

	assert_int_equal(handler_watch_of(f->ctl, &info), 0);
	info.perf_data = COOKIE | 3;
	assert_int_equal(handler_watch_of(f->ctl, &info), 3);
	info.perf_data = COOKIE | WIRE_WATCHES;
	assert_int_equal(handler_watch_of(f->ctl, &info), -1);
	info.perf_data = COOKIE + 0x100;
	assert_int_equal(handler_watch_of(f->ctl, &info), -1);
	info.perf_data = COOKIE;
	info.code = -6; /* SI_TKILL */
	assert_int_equal(handler_watch_of(f->ctl, &info), -1);
	info.code = TRAP_CODE_HWBKPT;
	assert_int_equal(handler_watch_of(f->ctl, &info), -1);
	f->ctl->hwbkpt_watch = 3;
	assert_int_equal(handler_watch_of(f->ctl, &info), 2);
}

static void a_late_signal_says_that_its_registers_are_not_those_of_the_access(void **state)
{
	struct fixture *f = *state;

	f->info.perf_flags = TRAP_ASYNC;
	trap(f);
	assert_true(record_at(f, 0)->flags & WIRE_ASYNC);
}

#define LOOK_MS (LOOK_NS / 1000000)
#define SILENCE_MS (SILENCE_NS / 1000000)
#define PATIENCE_MS (5 * SILENCE_MS) /* whoever is heard of is waited for for longer than who is not */

static struct {
	uint64_t ns;
	struct wire_control *beats; /* a controller that lives: it beats with each look; NULL: none */
} clock_of_hold;

static uint64_t held_ns(void)
{
	if (clock_of_hold.beats)
		clock_of_hold.beats->heartbeat++;
	return clock_of_hold.ns += LOOK_NS;
}

/* How many milliseconds of that clock a hit of a hook takes. */
static uint64_t hold_ms(struct fixture *f)
{
	uint64_t start = clock_of_hold.ns;

	f->ctl->watch[0].flags = WIRE_WATCH_EXECUTE | WIRE_WATCH_HOLD;
	trap(f);
	return (clock_of_hold.ns - start) / 1000000;
}

static void waiting_for_a_controller_that_is_gone_ends(void **state)
{
	struct fixture *f = *state;

	f->ctl->patience_ns = 3600000000000;
	/* Nobody beats, nobody lets go: it must come back by itself. */
	assert_in_range(hold_ms(f), SILENCE_MS, SILENCE_MS + LOOK_MS);
	assert_true(f->ctl->head > 0);
	assert_int_equal(f->ctl->unheld, 1);
}

static void waiting_for_a_controller_that_lives_and_does_nothing_ends_as_well(void **state)
{
	struct fixture *f = *state;

	f->ctl->patience_ns = PATIENCE_MS * 1000000ull;
	clock_of_hold.beats = f->ctl;
	assert_in_range(hold_ms(f), PATIENCE_MS, PATIENCE_MS + LOOK_MS);
	clock_of_hold.beats = NULL;
	assert_int_equal(f->ctl->unheld, 1);
}

static void nobody_waits_for_a_controller_that_lags_until_it_has_caught_up(void **state)
{
	struct fixture *f = *state;
	uint64_t behind;

	f->ctl->patience_ns = SILENCE_NS / 2;
	assert_in_range(hold_ms(f), SILENCE_MS / 2, SILENCE_MS / 2 + LOOK_MS);
	behind = f->ctl->behind;
	assert_int_equal(behind, f->ctl->head);
	assert_in_range(hold_ms(f) + hold_ms(f), 0, 2 * LOOK_MS);
	assert_int_equal(f->ctl->unheld, 3);
	assert_int_equal(f->ctl->behind, behind); /* so it can be reached, however many hits come meanwhile */
	f->ctl->done = behind - 16;
	assert_in_range(hold_ms(f), 0, LOOK_MS);
	f->ctl->done = behind;
	assert_in_range(hold_ms(f), SILENCE_MS / 2, SILENCE_MS / 2 + LOOK_MS);
	assert_int_equal(f->ctl->unheld, 5);
}

static void who_is_let_go_was_held(void **state)
{
	struct fixture *f = *state;

	f->ctl->patience_ns = 3600000000000;
	f->ctl->done = 1u << 20; /* the controller is quick */
	assert_in_range(hold_ms(f), 0, LOOK_MS);
	assert_int_equal(f->ctl->unheld, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_hit_is_recorded_with_registers_values_and_a_keyed_commit),
		CASE(unknown_code_brings_its_stack_along_and_wakes_the_controller),
		CASE(known_code_is_unwound_on_the_spot),
		CASE(a_rule_that_leads_off_the_stack_ends_the_walk_and_faults_nothing),
		CASE(a_value_that_cannot_be_read_is_left_out),
		CASE(a_plain_store_gives_the_value_it_stored_not_what_came_after),
		CASE(a_store_that_covers_the_variable_in_part_is_read_back),
		CASE(a_wide_store_gives_the_bytes_of_the_variable),
		CASE(a_watch_of_reads_drops_the_known_store_and_counts_it),
		CASE(a_store_elsewhere_does_not_explain_the_hit_and_is_not_dropped),
		CASE(a_full_ring_loses_the_event_and_counts_it),
		CASE(records_never_straddle_the_end_of_the_ring),
		CASE(only_traps_with_our_cookie_are_ours),
		CASE(a_late_signal_says_that_its_registers_are_not_those_of_the_access),
		CASE(waiting_for_a_controller_that_is_gone_ends),
		CASE(waiting_for_a_controller_that_lives_and_does_nothing_ends_as_well),
		CASE(nobody_waits_for_a_controller_that_lags_until_it_has_caught_up),
		CASE(who_is_let_go_was_held),
	};

	return cmocka_run_group_tests_name("handler", tests, NULL, NULL);
}
