/* Somebody speaks for us while we are busy, and nobody does afterwards. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/wait.h"
#include "watchctl/engine/intake/heartbeat.h"

static atomic_int beats;
static atomic_int in_other_thread;
static pthread_t ours;

static void beat(void *ctx)
{
	(void)ctx;
	atomic_fetch_add(&in_other_thread, !pthread_equal(pthread_self(), ours));
	atomic_fetch_add(&beats, 1);
}

static void busy_until(int n)
{
	const uint64_t end = wait_end_ns();

	while (atomic_load(&beats) < n)
		assert_true(monotonic_ns() < end);
}

static void it_beats_while_we_are_busy(void **state)
{
	struct heartbeat h = { 0 };

	(void)state;
	atomic_store(&beats, 0);
	heartbeat_start(&h, beat, NULL);
	heartbeat_start(&h, beat, NULL); /* there is one already */
	busy_until(4);
	heartbeat_stop(&h);
	assert_int_equal(atomic_load(&beats), atomic_load(&in_other_thread));
	heartbeat_stop(&h); /* there is none any more */
}

static void nothing_is_called_after_its_end(void **state)
{
	struct heartbeat h = { 0 };
	int last;

	(void)state;
	heartbeat_start(&h, beat, NULL);
	busy_until(atomic_load(&beats) + 2);
	heartbeat_stop(&h);
	last = atomic_load(&beats);
	nanosleep(&(struct timespec){ .tv_nsec = 200000000 }, NULL);
	assert_int_equal(atomic_load(&beats), last);
}

static atomic_int signalled_thread_was_ours;

static void on_signal(int sig)
{
	(void)sig;
	atomic_store(&signalled_thread_was_ours, pthread_equal(pthread_self(), ours) ? 1 : -1);
}

/* What ends a session interrupts the thread that waits for it. */
static void signals_come_to_us(void **state)
{
	struct heartbeat h = { 0 };

	(void)state;
	signal(SIGUSR1, on_signal);
	heartbeat_start(&h, beat, NULL);
	busy_until(atomic_load(&beats) + 1);
	for (int i = 0; i < 200; i++) {
		atomic_store(&signalled_thread_was_ours, 0);
		kill(getpid(), SIGUSR1);
		while (!atomic_load(&signalled_thread_was_ours))
			;
		assert_int_equal(atomic_load(&signalled_thread_was_ours), 1);
	}
	heartbeat_stop(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_beats_while_we_are_busy),
		cmocka_unit_test(nothing_is_called_after_its_end),
		cmocka_unit_test(signals_come_to_us),
	};

	ours = pthread_self();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
