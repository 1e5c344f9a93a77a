/*
 * A copy by the kernel at each byte of which the CPU traps is one access, with the value after its last byte:
 * however busy the machine is between two of these steps.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/own_clock.h"
#include "tests/unit/wait.h"
#include "watchctl/base/clock.h"
#include "watchctl/engine/intake/intake.h"

#define FLAG 0x7f0000001000u
#define SIZE 4u
#define KERNEL_PC 0xffffffff81000010u
#define STORE 0x3e8u /* byte by byte: e8, 3e8 */

struct reported {
	uint64_t accesses, first_value;
};

static struct wc_error *count_accesses(void *ctx, const struct trace_event *e)
{
	struct reported *t = ctx;

	if (e->type == EVENT_ACCESS && !t->accesses++)
		t->first_value = e->access.new_value;
	return NULL;
}

/* All of the kernel is "rep movsb". */
static bool read_fake_kernel(void *ctx, uint64_t addr, void *buf, size_t len)
{
	size_t i;

	(void)ctx;
	for (i = 0; i < len; i++)
		((uint8_t *)buf)[i] = (addr + i - KERNEL_PC) % 2 ? 0xa4 : 0xf3;
	return true;
}

struct step_record {
	struct wire_record r;
	uint64_t frame;
	struct wire_kernel kernel;
};

/* The step that has stored byte number @n, from 0 on, of as many as the variable has. */
static struct step_record step(unsigned int n)
{
	struct step_record s = {
		.r = { .size = sizeof(s),
		       .flags = WIRE_KERNEL | WIRE_HAS_NEW | WIRE_TIME_NS,
		       .walk_end = WALK_END_COMPLETE,
		       .time = monotonic_ns(),
		       .tid = (uint32_t)getpid(),
		       .nframes = 1,
		       .new_value = n ? STORE : STORE & 0xff },
		.frame = (uint64_t)(uintptr_t)step,
		.kernel = { .nframes = 1, .frame = { KERNEL_PC } },
	};

	s.r.regs.r[WREG_RIP] = s.frame;
	s.kernel.regs.r[WREG_RIP] = KERNEL_PC;
	s.kernel.regs.r[WREG_RCX] = SIZE - 1 - n;
	s.kernel.regs.r[WREG_RDI] = FLAG + n + 1;
	return s;
}

struct fixture {
	struct intake in;
	struct kernel_access *kernel;
	struct reported reported;
};

static int setup(void **state)
{
	static struct fixture f;
	const struct watchpoint w = { .addr = FLAG, .size = SIZE, .access = ACCESS_WRITE, .slot = -1 };

	memset(&f, 0, sizeof(f));
	f.kernel = kernel_access_new((struct memory_view){ read_fake_kernel, NULL });
	if (!f.kernel || intake_init(&f.in, getpid(), &(struct engine_options){ .frames = 16 },
				     (struct event_sink){ count_accesses, &f.reported }, NULL, NULL))
		return -1;
	f.in.kernel = f.kernel;
	intake_arm(&f.in, 0, &w);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	intake_deinit(&f->in);
	kernel_access_free(f->kernel);
	return 0;
}

static void take(struct fixture *f, unsigned int n)
{
	const struct step_record s = step(n);

	assert_null(intake_take(&f->in, &s.r));
}

static void pass(struct fixture *f)
{
	bool any;

	assert_null(intake_pass(&f->in, &any));
}

static void pass_until_reported(struct fixture *f)
{
	const uint64_t until = wait_end_ns();

	while (!f->reported.accesses) {
		assert_true(monotonic_ns() < until);
		pass(f);
	}
}

static void check_one_access(const struct fixture *f, uint64_t value, uint64_t steps)
{
	assert_int_equal(f->reported.accesses, 1);
	assert_int_equal(f->reported.first_value, value);
	assert_int_equal(f->in.watch[0].recorded, 1);
	assert_int_equal(f->in.watch[0].steps, steps);
}

/* We look, find the first one alone, and somebody else runs for a long time before we look again. */
static void steps_are_one_access_however_long_we_did_not_look(void **state)
{
	struct fixture *f = *state;
	unsigned int n;

	take(f, 0);
	own_clock_skip(400000000);
	pass(f);
	assert_int_equal(f->reported.accesses, 0);
	for (n = 1; n < SIZE; n++)
		take(f, n);
	pass_until_reported(f);
	check_one_access(f, STORE, SIZE - 1);
}

static void a_finished_copy_is_reported_at_once(void **state)
{
	struct fixture *f = *state;
	unsigned int n;

	for (n = 0; n < SIZE; n++)
		take(f, n);
	pass(f);
	check_one_access(f, STORE, SIZE - 1);
}

/* As when a page of the source is not there. */
static void a_step_that_never_comes_is_not_waited_for_for_ever(void **state)
{
	struct fixture *f = *state;

	take(f, 0);
	pass_until_reported(f);
	check_one_access(f, STORE & 0xff, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(steps_are_one_access_however_long_we_did_not_look),
		TEST(a_finished_copy_is_reported_at_once),
		TEST(a_step_that_never_comes_is_not_waited_for_for_ever),
	};

	return cmocka_run_group_tests_name("intake_steps", tests, NULL, NULL);
}
