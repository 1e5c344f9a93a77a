/* Return addresses are written 0xA.., 0xB..: what lies there does not matter to the tracker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "watchctl/base/error.h"
#include "watchctl/step/model/track.h"

#define TOP 0x7ffffff00000u
#define TID 100

struct scene {
	struct track *t;
	const struct track_end *ended;
	size_t n;
	struct track_call call;
};

static int begin(void **state)
{
	static struct scene s;

	memset(&s, 0, sizeof(s));
	s.t = track_new();
	assert_non_null(s.t);
	assert_true(track_set_stack(s.t, TID, TOP - 0x800000, TOP));
	*state = &s;
	return 0;
}

static int end(void **state)
{
	struct scene *s = *state;

	track_free(s->t);
	return 0;
}

static uint64_t enter_as(struct scene *s, struct track_entry e)
{
	assert_null(track_enter(s->t, &e, &s->call, &s->ended, &s->n));
	return s->call.call;
}

/* A recorded function; its point distinguishes it. */
static uint64_t enter(struct scene *s, uint32_t point, uint64_t sp, uint64_t ra)
{
	return enter_as(s,
			(struct track_entry){ .tid = TID, .point = point, .sp = sp, .return_address = ra });
}

static uint64_t enter_over(struct scene *s, uint8_t leaves, uint64_t sp, uint64_t ra)
{
	return enter_as(s, (struct track_entry){ .tid = TID,
						 .point = 1000u + leaves,
						 .sp = sp,
						 .return_address = ra,
						 .over = true,
						 .leaves = leaves });
}

static void reach(struct scene *s, uint64_t address, uint64_t sp)
{
	assert_null(track_reached(s->t, TID, address, sp, &s->ended, &s->n));
}

static void check_ended(const struct scene *s, size_t i, uint64_t call, enum return_how how)
{
	assert_true(i < s->n);
	assert_int_equal(s->ended[i].call.call, call);
	assert_int_equal(s->ended[i].how, how);
}

static void calls_nest_and_return(void **state)
{
	struct scene *s = *state;
	uint64_t f = enter(s, 1, TOP - 0x100, 0xA1), g;

	assert_int_equal(s->call.parent, 0);
	assert_int_equal(s->call.depth, 0);
	g = enter(s, 2, TOP - 0x200, 0xA2);
	assert_int_equal(s->call.parent, f);
	assert_int_equal(s->call.depth, 1);
	assert_int_equal(s->n, 0);
	assert_int_equal(track_innermost(s->t, TID)->call, g);
	assert_true(track_awaits(s->t, 0xA2));
	reach(s, 0xA2, TOP - 0x200 + 8);
	assert_int_equal(s->n, 1);
	check_ended(s, 0, g, RETURN_RETURNED);
	assert_false(track_awaits(s->t, 0xA2));
	assert_true(track_awaits(s->t, 0xA1));
	reach(s, 0xA1, TOP - 0x100 + 8);
	check_ended(s, 0, f, RETURN_RETURNED);
	assert_null(track_innermost(s->t, TID));
}

static void returns(struct scene *s, uint64_t address, uint64_t sp)
{
	assert_null(track_returns(s->t, TID, address, sp, &s->ended, &s->n));
}

/* What jumps to a function that is not seen has returned once the thread goes on farther out; at the end nothing is known. */
static void a_jump_to_what_is_not_seen_is_a_return_only_if_the_caller_goes_on(void **state)
{
	struct scene *s = *state;
	uint64_t f = enter(s, 1, TOP - 0x100, 0xA1), g = enter(s, 2, TOP - 0x200, 0xA2), h;

	track_jumps(s->t, TID, 0xA2, TOP - 0x200);
	enter(s, 3, TOP - 0x1f0, 0xA3);
	check_ended(s, 0, g, RETURN_RETURNED);
	returns(s, 0xA3, TOP - 0x1f0);
	h = enter(s, 2, TOP - 0x200, 0xA2);
	track_jumps(s->t, TID, 0xA2, TOP - 0x200);
	assert_null(track_thread_end(s->t, TID, RETURN_PROCESS_EXIT, &s->ended, &s->n));
	check_ended(s, 0, h, RETURN_UNKNOWN);
	check_ended(s, 1, f, RETURN_PROCESS_EXIT);
}

/* ... nor if it was longjmp that made the thread go on. */
static void a_jump_to_what_is_not_seen_may_be_left_by_longjmp(void **state)
{
	struct scene *s = *state;
	uint64_t g;

	enter(s, 1, TOP - 0x100, 0xA1);
	g = enter(s, 2, TOP - 0x200, 0xA2);
	track_jumps(s->t, TID, 0xA2, TOP - 0x200);
	enter_over(s, TRACK_JUMPS, TOP - 0x300, 0xA3);
	enter(s, 3, TOP - 0x180, 0xA4);
	check_ended(s, 1, g, RETURN_UNKNOWN);
}

/* Only the innermost call can be said to jump, with its own place on the stack. */
static void a_jump_of_another_call_says_nothing(void **state)
{
	struct scene *s = *state;
	uint64_t f = enter(s, 1, TOP - 0x100, 0xA1);

	enter(s, 2, TOP - 0x200, 0xA2);
	track_jumps(s->t, TID, 0xA1, TOP - 0x100);
	track_jumps(s->t, TID + 1, 0xA2, TOP - 0x200);
	assert_null(track_thread_end(s->t, TID, RETURN_PROCESS_EXIT, &s->ended, &s->n));
	check_ended(s, 0, 2, RETURN_PROCESS_EXIT);
	check_ended(s, 1, f, RETURN_PROCESS_EXIT);
}

static void a_return_that_was_seen_is_one_although_longjmp_was_called_inside(void **state)
{
	struct scene *s = *state;
	uint64_t f = enter(s, 1, TOP - 0x100, 0xA1), g = enter(s, 2, TOP - 0x200, 0xA2), j;

	j = enter_over(s, TRACK_JUMPS, TOP - 0x300, 0xA3);
	returns(s, 0xA1, TOP - 0x100);
	check_ended(s, 0, j, RETURN_LONGJMP);
	check_ended(s, 1, g, RETURN_LONGJMP);
	check_ended(s, 2, f, RETURN_RETURNED);
}

/* The handler of a signal is entered at the same place each time, and returns to the same address. */
static void a_signal_handler_is_no_tail_call_of_the_one_before(void **state)
{
	const struct track_entry handler = {
		.tid = TID, .point = 9, .sp = 0x10000000, .return_address = 0xB1, .flags = CALL_SIGNAL
	};
	struct scene *s = *state;
	uint64_t first;

	enter(s, 1, TOP - 0x100, 0xA1);
	first = enter_as(s, handler);
	track_jumps(s->t, TID, 0xB1, 0x10000000);
	enter_as(s, handler);
	assert_false(s->call.flags & CALL_TAIL);
	check_ended(s, 0, first, RETURN_RETURNED);
}

static void a_thread_that_unwinds_itself_is_known(void **state)
{
	struct scene *s = *state;

	enter(s, 1, TOP - 0x100, 0xA1);
	assert_false(track_is_ending(s->t, TID));
	enter_over(s, TRACK_FORCES, TOP - 0x200, 0xA2);
	assert_true(track_is_ending(s->t, TID));
	assert_false(track_is_ending(s->t, TID + 1));
}

static void recursion_shares_a_return_address(void **state)
{
	struct scene *s = *state;
	uint64_t call[5];

	for (unsigned int i = 0; i < 5; i++)
		call[i] = enter(s, 1, TOP - 0x100 - 0x40 * i, 0xA1);
	for (unsigned int i = 5; i--;) {
		assert_true(track_awaits(s->t, 0xA1));
		reach(s, 0xA1, TOP - 0x100 - 0x40 * i + 8);
		assert_int_equal(s->n, 1);
		check_ended(s, 0, call[i], RETURN_RETURNED);
	}
	assert_false(track_awaits(s->t, 0xA1));
}

/* The address is in a loop: it is reached without a return, with the stack at another height. */
static void a_return_address_reached_by_others_ends_nothing(void **state)
{
	struct scene *s = *state;

	enter(s, 1, TOP - 0x200, 0xA1);
	reach(s, 0xA1, TOP - 0x300);
	assert_int_equal(s->n, 0);
	assert_null(track_reached(s->t, TID + 1, 0xA1, TOP - 0x200 + 8, &s->ended, &s->n));
	assert_int_equal(s->n, 0);
	assert_int_equal(track_innermost(s->t, TID)->point, 1);
}

static void a_tail_call_ends_with_its_caller(void **state)
{
	struct scene *s = *state;
	uint64_t f = enter(s, 1, TOP - 0x100, 0xA1), g, h;

	g = enter(s, 2, TOP - 0x100, 0xA1);
	assert_int_equal(s->n, 0);
	assert_int_equal(s->call.flags, CALL_TAIL);
	assert_int_equal(s->call.parent, f);
	h = enter(s, 3, TOP - 0x100, 0xA1);
	assert_int_equal(s->call.parent, g);
	reach(s, 0xA1, TOP - 0x100 + 8);
	assert_int_equal(s->n, 3);
	check_ended(s, 0, h, RETURN_RETURNED);
	check_ended(s, 1, g, RETURN_RETURNED);
	check_ended(s, 2, f, RETURN_RETURNED);
}

/* Nobody saw it return: another call from the same frame has its stack pointer, and another return address.
 */
static void a_call_from_the_same_frame_ends_a_lost_one(void **state)
{
	struct scene *s = *state;
	uint64_t f = enter(s, 1, TOP - 0x100, 0xA1), g = enter(s, 2, TOP - 0x200, 0xA2);

	enter(s, 3, TOP - 0x200, 0xA3);
	assert_int_equal(s->n, 1);
	check_ended(s, 0, g, RETURN_UNKNOWN);
	assert_int_equal(s->call.parent, f);
	assert_int_equal(s->call.flags, 0);
}

/* f: setjmp; g: h: longjmp; f goes on behind the call of g, which is where g returns to. */
static void longjmp_is_seen_where_it_lands(void **state)
{
	struct scene *s = *state;
	uint64_t f = enter(s, 1, TOP - 0x100, 0xA1), g, h, jump;

	enter_over(s, TRACK_SETS_JUMP, TOP - 0x200, 0xB1);
	reach(s, 0xB1, TOP - 0x200 + 8);
	assert_int_equal(s->n, 1);
	assert_true(track_awaits(s->t, 0xB1));
	g = enter(s, 2, TOP - 0x200, 0xA2);
	h = enter(s, 3, TOP - 0x300, 0xA3);
	jump = enter_over(s, TRACK_JUMPS, TOP - 0x400, 0xA4);
	reach(s, 0xB1, TOP - 0x200 + 8);
	assert_int_equal(s->n, 3);
	check_ended(s, 0, jump, RETURN_LONGJMP);
	check_ended(s, 1, h, RETURN_LONGJMP);
	check_ended(s, 2, g, RETURN_LONGJMP);
	reach(s, 0xA2, TOP - 0x200 + 8);
	assert_int_equal(s->n, 0);
	assert_int_equal(track_innermost(s->t, TID)->call, f);
	reach(s, 0xA1, TOP - 0x100 + 8);
	check_ended(s, 0, f, RETURN_RETURNED);
	assert_false(track_awaits(s->t, 0xB1));
}

/* g itself called setjmp, so it goes on, and returns. */
static void a_function_that_longjmp_comes_back_to_returns(void **state)
{
	struct scene *s = *state;
	uint64_t g, h, jump;

	enter(s, 1, TOP - 0x100, 0xA1);
	g = enter(s, 2, TOP - 0x200, 0xA2);
	enter_over(s, TRACK_SETS_JUMP, TOP - 0x300, 0xB1);
	reach(s, 0xB1, TOP - 0x300 + 8);
	h = enter(s, 3, TOP - 0x300, 0xA3);
	jump = enter_over(s, TRACK_JUMPS, TOP - 0x400, 0xA4);
	reach(s, 0xB1, TOP - 0x300 + 8);
	check_ended(s, 0, jump, RETURN_LONGJMP);
	check_ended(s, 1, h, RETURN_LONGJMP);
	assert_int_equal(s->n, 2);
	reach(s, 0xA2, TOP - 0x200 + 8);
	assert_int_equal(s->n, 1);
	check_ended(s, 0, g, RETURN_RETURNED);
}

/* setjmp was not seen: g was left or came back, which cannot be known from its return address. */
static void where_longjmp_landed_unseen_nothing_is_guessed(void **state)
{
	struct scene *s = *state;
	uint64_t g, jump;

	enter(s, 1, TOP - 0x100, 0xA1);
	g = enter(s, 2, TOP - 0x200, 0xA2);
	jump = enter_over(s, TRACK_JUMPS, TOP - 0x300, 0xA4);
	reach(s, 0xA2, TOP - 0x200 + 8);
	assert_int_equal(s->n, 2);
	check_ended(s, 0, jump, RETURN_LONGJMP);
	check_ended(s, 1, g, RETURN_UNKNOWN);
}

/* An interpreter's loop: the same call again after longjmp is no tail call. */
static void the_same_call_again_after_longjmp_is_a_new_one(void **state)
{
	struct scene *s = *state;
	uint64_t f = enter(s, 1, TOP - 0x100, 0xA1);

	for (int i = 0; i < 3; i++) {
		uint64_t g = enter(s, 2, TOP - 0x200, 0xA2);

		assert_int_equal(s->call.parent, f);
		assert_int_equal(s->call.flags, 0);
		enter_over(s, TRACK_JUMPS, TOP - 0x300, 0xA4);
		if (i) {
			enter(s, 4, TOP - 0x200, 0xA5);
			check_ended(s, 1, g, RETURN_LONGJMP);
			reach(s, 0xA5, TOP - 0x200 + 8);
		}
	}
}

static void a_longjmp_is_over_with_the_next_call(void **state)
{
	struct scene *s = *state;
	uint64_t f = enter(s, 1, TOP - 0x100, 0xA1), g = enter(s, 2, TOP - 0x200, 0xA2);
	uint64_t jump = enter_over(s, TRACK_JUMPS, TOP - 0x300, 0xA3);

	enter(s, 4, TOP - 0x180, 0xA4);
	assert_int_equal(s->n, 2);
	check_ended(s, 0, jump, RETURN_LONGJMP);
	check_ended(s, 1, g, RETURN_LONGJMP);
	assert_int_equal(s->call.parent, f);
}

static void an_exception_ends_the_frames_that_it_unwinds(void **state)
{
	struct scene *s = *state;
	uint64_t f = enter(s, 1, TOP - 0x100, 0xA1), g = enter(s, 2, TOP - 0x200, 0xA2), h, throw, resume;

	h = enter(s, 3, TOP - 0x300, 0xA3);
	throw = enter_over(s, TRACK_THROWS, TOP - 0x400, 0xA4);
	/* g cleans up */
	enter(s, 9, TOP - 0x280, 0xC1);
	check_ended(s, 0, throw, RETURN_EXCEPTION);
	check_ended(s, 1, h, RETURN_EXCEPTION);
	assert_int_equal(s->call.parent, g);
	reach(s, 0xC1, TOP - 0x280 + 8);
	resume = enter_over(s, TRACK_RESUMES, TOP - 0x280, 0xC2);
	/* f catches */
	enter_over(s, TRACK_CATCHES, TOP - 0x180, 0xC3);
	assert_int_equal(s->n, 2);
	check_ended(s, 0, resume, RETURN_EXCEPTION);
	check_ended(s, 1, g, RETURN_EXCEPTION);
	assert_int_equal(s->call.parent, f);
}

/* A library that is stepped over has thrown: the catch is what shows it. */
static void a_catch_reports_that_it_was_an_exception(void **state)
{
	struct scene *s = *state;
	uint64_t g;

	enter(s, 1, TOP - 0x100, 0xA1);
	g = enter_over(s, TRACK_NORMAL, TOP - 0x200, 0xA2);
	enter_over(s, TRACK_CATCHES, TOP - 0x180, 0xC3);
	assert_int_equal(s->n, 1);
	check_ended(s, 0, g, RETURN_EXCEPTION);
}

static void pthread_exit_unwinds_as_the_end_of_the_thread(void **state)
{
	struct scene *s = *state;
	uint64_t f = enter(s, 1, TOP - 0x100, 0xA1), g = enter(s, 2, TOP - 0x200, 0xA2), quit, resume;

	quit = enter_over(s, TRACK_ENDS_THREAD, TOP - 0x300, 0xA3);
	enter(s, 9, TOP - 0x280, 0xC1); /* a destructor of g */
	check_ended(s, 0, quit, RETURN_THREAD_EXIT);
	reach(s, 0xC1, TOP - 0x280 + 8);
	resume = enter_over(s, TRACK_RESUMES, TOP - 0x280, 0xC2);
	enter(s, 9, TOP - 0x180, 0xC3); /* one of f */
	check_ended(s, 0, resume, RETURN_THREAD_EXIT);
	check_ended(s, 1, g, RETURN_THREAD_EXIT);
	assert_null(track_thread_end(s->t, TID, RETURN_CANCELLED, &s->ended, &s->n));
	check_ended(s, 1, f, RETURN_THREAD_EXIT);
	assert_null(track_innermost(s->t, TID));
	assert_false(track_awaits(s->t, 0xA1));
}

static void a_thread_that_is_cancelled_is_reported_so(void **state)
{
	struct scene *s = *state;
	uint64_t f = enter(s, 1, TOP - 0x100, 0xA1), g = enter_over(s, TRACK_NORMAL, TOP - 0x200, 0xA2);

	assert_null(track_thread_end(s->t, TID, RETURN_CANCELLED, &s->ended, &s->n));
	assert_int_equal(s->n, 2);
	check_ended(s, 0, g, RETURN_CANCELLED);
	check_ended(s, 1, f, RETURN_CANCELLED);
}

static void callbacks_know_who_called_them(void **state)
{
	struct scene *s = *state;
	uint64_t sort = enter_over(s, TRACK_NORMAL, TOP - 0x100, 0xA1), compare;

	for (int i = 0; i < 3; i++) {
		compare = enter(s, 2, TOP - 0x200, 0xF1);
		assert_int_equal(s->call.parent, sort);
		assert_int_equal(s->call.flags, CALL_CALLBACK);
		reach(s, 0xF1, TOP - 0x200 + 8);
		check_ended(s, 0, compare, RETURN_RETURNED);
	}
}

static uint64_t signal_at(struct scene *s, uint64_t sp)
{
	return enter_as(
		s, (struct track_entry){
			   .tid = TID, .point = 50, .sp = sp, .return_address = 0xE0, .flags = CALL_SIGNAL });
}

/* Above, below, and as an array in a frame of the interrupted stack. */
static void a_handler_on_its_own_stack_ends_nothing_below_it(void **state)
{
	static const uint64_t stack[] = { TOP + 0x100000, 0x600000, TOP - 0x80 };
	struct scene *s = *state;
	uint64_t f = enter(s, 1, TOP - 0x4000, 0xA1), g = enter(s, 2, TOP - 0x4100, 0xA2), handler, inner;

	for (int i = 0; i < 3; i++) {
		handler = signal_at(s, stack[i]);
		assert_int_equal(s->n, 0);
		assert_int_equal(s->call.parent, g);
		assert_int_equal(s->call.flags, CALL_SIGNAL);
		inner = enter(s, 51, stack[i] - 0x50, 0xE1);
		assert_int_equal(s->n, 0);
		assert_int_equal(s->call.parent, handler);
		reach(s, 0xE1, stack[i] - 0x50 + 8);
		check_ended(s, 0, inner, RETURN_RETURNED);
		reach(s, 0xE0, stack[i] + 8);
		assert_int_equal(s->n, 1);
		check_ended(s, 0, handler, RETURN_RETURNED);
		assert_int_equal(track_innermost(s->t, TID)->call, g);
	}
	reach(s, 0xA2, TOP - 0x4100 + 8);
	assert_int_equal(s->n, 1);
	reach(s, 0xA1, TOP - 0x4000 + 8);
	check_ended(s, 0, f, RETURN_RETURNED);
}

static void a_handler_on_the_same_stack_nests(void **state)
{
	struct scene *s = *state;
	uint64_t g = enter_over(s, TRACK_NORMAL, TOP - 0x4100, 0xA2), handler = signal_at(s, TOP - 0x5000);

	assert_int_equal(s->call.parent, g);
	assert_int_equal(s->call.flags, CALL_SIGNAL);
	reach(s, 0xE0, TOP - 0x5000 + 8);
	check_ended(s, 0, handler, RETURN_RETURNED);
	assert_int_equal(track_innermost(s->t, TID)->call, g);
}

static void siglongjmp_out_of_a_handler_ends_it(void **state)
{
	struct scene *s = *state;
	uint64_t f = enter(s, 1, TOP - 0x100, 0xA1), g, handler, jump;

	enter_over(s, TRACK_SETS_JUMP, TOP - 0x200, 0xB1);
	reach(s, 0xB1, TOP - 0x200 + 8);
	g = enter(s, 2, TOP - 0x200, 0xA2);
	handler = signal_at(s, 0x600000);
	jump = enter_over(s, TRACK_JUMPS, 0x600000 - 0x40, 0xE2);
	reach(s, 0xB1, TOP - 0x200 + 8);
	assert_int_equal(s->n, 3);
	check_ended(s, 0, g, RETURN_LONGJMP);
	check_ended(s, 1, jump, RETURN_LONGJMP);
	check_ended(s, 2, handler, RETURN_LONGJMP);
	assert_int_equal(track_innermost(s->t, TID)->call, f);
}

#define COROUTINES 8

/* Stacks lie side by side, as malloc() gives them; swapcontext() is what switches. */
static void coroutines_keep_their_calls(void **state)
{
	struct scene *s = *state;
	uint64_t body[COROUTINES], yield[COROUTINES], back, base[COROUTINES];

	enter(s, 1, TOP - 0x100, 0xA1);
	for (unsigned int i = 0; i < COROUTINES; i++) {
		base[i] = 0x900000 + 0x10000 * (i * 5 % COROUTINES);
		back = enter_over(s, TRACK_SWITCHES, TOP - 0x200, 0xA2);
		body[i] = enter(s, 2, base[i], 0xD0);
		assert_int_equal(s->n, 0);
		assert_int_equal(s->call.parent, back);
		enter(s, 3, base[i] - 0x100, 0xD1);
		assert_int_equal(s->n, 0);
		assert_int_equal(s->call.parent, body[i]);
		yield[i] = enter_over(s, TRACK_SWITCHES, base[i] - 0x200, 0xD2);
		assert_int_equal(s->n, 0);
		reach(s, 0xA2, TOP - 0x200 + 8);
		assert_int_equal(s->n, 1);
		check_ended(s, 0, back, RETURN_RETURNED);
	}
	for (unsigned int i = 0; i < COROUTINES; i++) {
		back = enter_over(s, TRACK_SWITCHES, TOP - 0x200, 0xA2);
		assert_int_equal(s->n, 0);
		reach(s, 0xD2, base[i] - 0x200 + 8);
		assert_int_equal(s->n, 1);
		check_ended(s, 0, yield[i], RETURN_RETURNED);
		reach(s, 0xD1, base[i] - 0x100 + 8);
		assert_int_equal(s->n, 1);
		reach(s, 0xD0, base[i] + 8);
		assert_int_equal(s->n, 1);
		check_ended(s, 0, body[i], RETURN_RETURNED);
		reach(s, 0xA2, TOP - 0x200 + 8);
		assert_int_equal(s->n, 1);
		check_ended(s, 0, back, RETURN_RETURNED);
	}
	assert_int_equal(track_innermost(s->t, TID)->point, 1);
}

/* A stack in an array of main(): it lies in the middle of the thread's own. */
static void a_coroutine_in_a_frame_ends_nothing(void **state)
{
	struct scene *s = *state;
	uint64_t f = enter(s, 1, TOP - 0x8000, 0xA1),
		 back = enter_over(s, TRACK_SWITCHES, TOP - 0x8100, 0xA2), body;

	body = enter(s, 2, TOP - 0x1000, 0xD0);
	assert_int_equal(s->n, 0);
	assert_int_equal(s->call.parent, back);
	enter(s, 3, TOP - 0x1100, 0xD1);
	assert_int_equal(s->n, 0);
	assert_int_equal(s->call.parent, body);
	reach(s, 0xD1, TOP - 0x1100 + 8);
	reach(s, 0xD0, TOP - 0x1000 + 8);
	reach(s, 0xA2, TOP - 0x8100 + 8);
	check_ended(s, 0, back, RETURN_RETURNED);
	assert_int_equal(track_innermost(s->t, TID)->call, f);
}

static void threads_do_not_mix(void **state)
{
	struct scene *s = *state;
	struct track_entry e = { .point = 1, .return_address = 0xA1 };
	const pid_t *tids;

	for (int i = 0; i < 100; i++) {
		e.tid = 1000 + i;
		e.sp = 0x10000000u + 0x100000u * (uint64_t)i;
		e.flags = CALL_FIRST;
		enter_as(s, e);
		assert_int_equal(s->call.flags, CALL_FIRST);
		assert_int_equal(s->call.parent, 0);
	}
	for (int i = 0; i < 50; i++) {
		assert_null(track_thread_end(s->t, 1000 + 2 * i, RETURN_THREAD_EXIT, &s->ended, &s->n));
		assert_int_equal(s->n, 1);
		check_ended(s, 0, 1 + 2 * (uint64_t)i, RETURN_THREAD_EXIT);
	}
	assert_true(track_awaits(s->t, 0xA1));
	assert_null(track_end_all(s->t, RETURN_PROCESS_EXIT, &s->ended, &tids, &s->n));
	assert_int_equal(s->n, 50);
	for (size_t i = 0; i < s->n; i++) {
		assert_int_equal(s->ended[i].how, RETURN_PROCESS_EXIT);
		assert_int_equal(s->ended[i].call.call, (uint64_t)tids[i] - 999);
	}
	assert_false(track_awaits(s->t, 0xA1));
}

/* The first thread's stack grows below the mapping that was reported. */
static void a_stack_may_grow(void **state)
{
	struct scene *s = *state;
	uint64_t sp = TOP - 0x800000 + 0x100, n = 1000;

	for (uint64_t i = 0; i < n; i++, sp -= 0x400) {
		enter(s, 1, sp, 0xA1);
		assert_int_equal(s->call.depth, i);
	}
	enter_over(s, TRACK_JUMPS, sp, 0xA2);
	enter(s, 2, TOP - 0x100, 0xA3);
	assert_int_equal(s->n, n + 1);
	check_ended(s, 0, n + 1, RETURN_LONGJMP);
	check_ended(s, n, 1, RETURN_LONGJMP);
}

/*
 * A random program on a model of its stack, which knows what is open: calls, tail calls, returns, setjmp and
 * longjmp, exceptions, handlers on another stack. Each event's answer must be what the model says.
 */
struct model_call {
	uint64_t call, sp, ra, landing; /* landing: the stack pointer of its setjmp; 0 */
	bool tail;
};

struct model {
	struct scene *s;
	struct model_call v[256];
	size_t n;
	uint64_t sites;
	bool signalled;
	size_t handler; /* index of the handler's call */
};

static void model_enter(struct model *m, uint64_t sp, uint64_t ra, uint8_t flags)
{
	uint64_t call = enter_as(m->s, (struct track_entry){ .tid = TID,
							     .point = (uint32_t)(rand() % 20),
							     .sp = sp,
							     .return_address = ra,
							     .flags = flags });

	assert_int_equal(m->s->n, 0);
	assert_int_equal(m->s->call.parent, m->n ? m->v[m->n - 1].call : 0);
	m->v[m->n++] = (struct model_call){ call, sp, ra, 0, false };
}

static void model_expect(struct model *m, size_t left, size_t from, enum return_how how)
{
	while (m->n > left)
		check_ended(m->s, from++, m->v[--m->n].call, how);
	assert_int_equal(m->s->n, from);
}

static void model_step(struct model *m)
{
	struct model_call *top = m->n ? &m->v[m->n - 1] : NULL;
	uint64_t sp = top ? top->sp : TOP - 0x40000, ra = 0xA000 + (uint64_t)(rand() % 50);
	size_t bottom = m->signalled ? m->handler + 1 : 0, k;

	switch (rand() % 8) {
	case 0: /* tail call; not of what setjmp was called in */
		if (top && !top->landing && m->n > bottom && m->n < 200) {
			model_enter(m, top->sp, top->ra, 0);
			assert_true(m->s->call.flags & CALL_TAIL);
			m->v[m->n - 1].tail = true;
		}
		break;
	case 1: /* setjmp */
		if (top && !top->tail) {
			enter_over(m->s, TRACK_SETS_JUMP, sp - 0x30, 0xB000 + m->n);
			reach(m->s, 0xB000 + m->n, sp - 0x30 + 8);
			assert_int_equal(m->s->n, 1);
			top->landing = sp - 0x30;
		}
		break;
	case 2: /* longjmp, or an exception, to some call that takes it */
		for (k = m->n; k-- > bottom;)
			if (m->v[k].landing && rand() % 2) {
				uint64_t jump = enter_over(m->s, TRACK_JUMPS, sp - 0x20, 0xB999);

				reach(m->s, 0xB000 + k + 1, m->v[k].landing + 8);
				check_ended(m->s, 0, jump, RETURN_LONGJMP);
				model_expect(m, k + 1, 1, RETURN_LONGJMP);
				return;
			}
		break;
	case 3:
		k = bottom + (m->n > bottom ? (size_t)rand() % (m->n - bottom) : 0);
		if (k < m->n && !m->v[k].tail && (k + 1 == m->n || !m->v[k + 1].tail)) {
			uint64_t throw = enter_over(m->s, TRACK_THROWS, sp - 0x20, 0xB998), catch;

			catch = enter_over(m->s, TRACK_CATCHES, m->v[k].sp - 0x18, 0xB997);
			check_ended(m->s, 0, throw, RETURN_EXCEPTION);
			model_expect(m, k + 1, 1, RETURN_EXCEPTION);
			reach(m->s, 0xB997, m->v[k].sp - 0x18 + 8);
			check_ended(m->s, 0, catch, RETURN_RETURNED);
		}
		break;
	case 4: /* a signal, on another stack */
		if (top && !m->signalled && m->n < 200) {
			m->signalled = true;
			m->handler = m->n;
			model_enter(m, rand() % 2 ? 0x600000 : TOP - 0x20, 0xE0, CALL_SIGNAL);
		}
		break;
	case 5:
	case 6: /* return */
		if (!top)
			break;
		k = m->n - 1;
		while (m->v[k].tail)
			k--;
		if (m->signalled && k == m->handler)
			m->signalled = false;
		reach(m->s, top->ra, top->sp + 8);
		model_expect(m, k, 0, RETURN_RETURNED);
		break;
	default:
		if (m->n < 200)
			model_enter(m, sp - 0x40 - 8 * (uint64_t)(rand() % 16), ra, 0);
	}
}

static void random_programs_are_reported_as_they_are(void **state)
{
	for (unsigned int seed = 1; seed <= 300; seed++) {
		struct model m = { .s = *state };

		srand(seed);
		for (int i = 0; i < 500; i++)
			model_step(&m);
		end(state);
		begin(state);
	}
}

static void functions_are_known_by_name(void **state)
{
	(void)state;
	assert_int_equal(track_leaves_of("longjmp"), TRACK_JUMPS);
	assert_int_equal(track_leaves_of("__longjmp_chk"), TRACK_JUMPS);
	assert_int_equal(track_leaves_of("_setjmp"), TRACK_SETS_JUMP);
	assert_int_equal(track_leaves_of("__cxa_throw"), TRACK_THROWS);
	assert_int_equal(track_leaves_of("_ZSt20__throw_length_errorPKc"), TRACK_THROWS);
	assert_int_equal(track_leaves_of("std::__throw_length_error(char const*)"), TRACK_THROWS);
	assert_int_equal(track_leaves_of("_ZSt4sortIPiEvT_S1_"), TRACK_NORMAL);
	assert_int_equal(track_leaves_of("exit_loop"), TRACK_NORMAL);
	assert_int_equal(track_leaves_of(""), TRACK_NORMAL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(calls_nest_and_return),
		TEST(a_jump_to_what_is_not_seen_is_a_return_only_if_the_caller_goes_on),
		TEST(a_jump_to_what_is_not_seen_may_be_left_by_longjmp),
		TEST(a_jump_of_another_call_says_nothing),
		TEST(a_return_that_was_seen_is_one_although_longjmp_was_called_inside),
		TEST(a_signal_handler_is_no_tail_call_of_the_one_before),
		TEST(a_thread_that_unwinds_itself_is_known),
		TEST(recursion_shares_a_return_address),
		TEST(a_return_address_reached_by_others_ends_nothing),
		TEST(a_tail_call_ends_with_its_caller),
		TEST(a_call_from_the_same_frame_ends_a_lost_one),
		TEST(longjmp_is_seen_where_it_lands),
		TEST(a_function_that_longjmp_comes_back_to_returns),
		TEST(where_longjmp_landed_unseen_nothing_is_guessed),
		TEST(the_same_call_again_after_longjmp_is_a_new_one),
		TEST(a_longjmp_is_over_with_the_next_call),
		TEST(an_exception_ends_the_frames_that_it_unwinds),
		TEST(a_catch_reports_that_it_was_an_exception),
		TEST(pthread_exit_unwinds_as_the_end_of_the_thread),
		TEST(a_thread_that_is_cancelled_is_reported_so),
		TEST(callbacks_know_who_called_them),
		TEST(a_handler_on_its_own_stack_ends_nothing_below_it),
		TEST(a_handler_on_the_same_stack_nests),
		TEST(siglongjmp_out_of_a_handler_ends_it),
		TEST(coroutines_keep_their_calls),
		TEST(a_coroutine_in_a_frame_ends_nothing),
		TEST(threads_do_not_mix),
		TEST(a_stack_may_grow),
		TEST(random_programs_are_reported_as_they_are),
		TEST(functions_are_known_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
