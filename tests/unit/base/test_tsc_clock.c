/* Times from the time stamp counter: whether they may be taken, and what becomes of them when it jumps. */
#include "watchctl/base/time/tsc_clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>

#include <cmocka.h>

#include "watchctl/base/clock.h"
#include "watchctl/base/time/tsc_usable.h"
#include "watchctl/base/time/tsc_usable_impl.h"

#define TICKS 3 /* a nanosecond */

static struct tsc_reading reading(uint64_t ns)
{
	return (struct tsc_reading){ 1000000 + ns * TICKS, 5000 + ns, 90 };
}

static void cpus_that_agree_are_usable(void **state)
{
	struct tsc_reading r[4] = { reading(0), reading(70000), { 0 }, reading(150000) },
			   last = reading(2000000);

	(void)state;
	assert_null(tsc_readings_judge(r, 4, &last));
	r[0].width = 0; /* may not be visited */
	assert_null(tsc_readings_judge(r, 4, &last));
	r[1].tsc += 400 * TICKS;
	assert_null(tsc_readings_judge(r + 1, 1, &last));
}

static void a_cpu_of_its_own_time_is_found(void **state)
{
	for (int by = -1; by <= 1; by += 2)
		for (size_t i = 0; i < 3; i++) {
			struct tsc_reading r[3] = { reading(0), reading(70000), reading(150000) },
					   last = reading(2000000);

			(void)state;
			r[i].tsc += (uint64_t)(by * 1000 * TICKS);
			if (!i)
				last.tsc += (uint64_t)(by * 1000 * TICKS);
			assert_string_equal(tsc_readings_judge(r, 3, &last),
					    "it is not the same on all CPUs");
		}
}

static void what_cannot_be_compared_is_not_trusted(void **state)
{
	struct tsc_reading r[2] = { reading(0), reading(70000) }, last = reading(2000000), none[2] = { 0 };

	(void)state;
	assert_non_null(tsc_readings_judge(none, 2, &last));
	assert_non_null(tsc_readings_judge(r, 2, &r[0]));
	r[1].width = 6000 * TICKS;
	assert_non_null(tsc_readings_judge(r, 2, &last));
}

static void a_counter_that_jumps_is_told_and_followed(void **state)
{
	for (int forward = 0; forward < 2; forward++) {
		struct tsc_clock c = { 0 };
		char text[250];

		(void)state;
		if (!tsc_usable())
			skip();
		tsc_clock_sample(&c);
		tsc_clock_sample(&c);
		assert_false(tsc_clock_tell_jump(&c, text, sizeof(text)));
		const uint64_t by = (c.tsc - c.tsc0) * 1000, ns = (c.ns - c.ns0) * 1000;

		/* As if it had been elsewhere until now. */
		c.tsc0 += forward ? -by : by;
		c.tsc += forward ? -by : by;
		tsc_clock_sample(&c);
		assert_in_range(llabs(c.jump_ns), ns - ns / 4, ns + ns / 4);
		assert_int_equal(c.jump_ns > 0, forward);
		assert_true(tsc_clock_tell_jump(&c, text, sizeof(text)));
		assert_non_null(strstr(text, " has jumped by "));
		assert_false(tsc_clock_tell_jump(&c, text, sizeof(text)));
		const uint64_t before = monotonic_ns(), now = tsc_clock_ns(&c, __rdtsc()),
			       after = monotonic_ns();

		assert_in_range(now, before - ns / 10, after + ns / 10);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cpus_that_agree_are_usable),
		cmocka_unit_test(a_cpu_of_its_own_time_is_found),
		cmocka_unit_test(what_cannot_be_compared_is_not_trusted),
		cmocka_unit_test(a_counter_that_jumps_is_told_and_followed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
