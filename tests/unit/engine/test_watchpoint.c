/* What is told to those who record hits, against the layout of handler/wire.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "watchctl/engine/plan/watchpoint.h"

static uint64_t variable = 0x1122334455667788;

static bool nowhere(void *ctx, uint64_t thread_pointer, uint64_t *ret)
{
	(void)ctx;
	(void)thread_pointer;
	(void)ret;
	return false;
}

static void what_a_recorder_needs_is_in_the_flags(void **state)
{
	static const struct wire_filter filter;
	struct watchpoint w = { .addr = 0x1000, .size = 8, .want_addr = 0x1003, .want_size = 2, .slot = -1 };
	struct wire_watch wire;

	(void)state;
	w.access = ACCESS_WRITE;
	wire = watchpoint_wire(&w, 42);
	assert_int_equal(wire.flags, 0);
	assert_int_equal(wire.shadow, 42);
	assert_int_equal(wire.want_offset, 3);
	assert_int_equal(wire.want_size, 2);
	w.access = ACCESS_READWRITE;
	assert_int_equal(watchpoint_wire(&w, 0).flags, WIRE_WATCH_READS);
	w.access = ACCESS_READ;
	assert_int_equal(watchpoint_wire(&w, 0).flags, WIRE_WATCH_READS | WIRE_WATCH_READS_ONLY);
	w.access = ACCESS_EXECUTE;
	w.hook = true;
	assert_int_equal(watchpoint_wire(&w, 0).flags, WIRE_WATCH_EXECUTE | WIRE_WATCH_HOLD);
	w = (struct watchpoint){
		.size = 8, .want_size = 8, .access = ACCESS_WRITE, .filter = &filter, .address = nowhere
	};
	assert_int_equal(watchpoint_wire(&w, 0).flags, WIRE_WATCH_FILTER | WIRE_WATCH_PER_THREAD);
}

static void what_no_register_covers_or_nothing_is_mapped_at_is_refused(void **state)
{
	struct watchpoint w = { .addr = (uintptr_t)&variable, .size = 8, .access = ACCESS_WRITE };
	struct wc_error *err;

	(void)state;
	assert_null(watchpoint_check(&w, getpid()));
	w.addr++;
	err = watchpoint_check(&w, getpid());
	assert_non_null(err);
	assert_int_equal(err->kind, WC_EUSAGE);
	wc_error_free(err);
	w.addr = 0x10;
	err = watchpoint_check(&w, getpid());
	assert_non_null(err);
	assert_int_equal(err->kind, WC_ENAME);
	wc_error_free(err);
}

static void a_process_that_has_ended_is_said_to_have(void **state)
{
	struct watchpoint w = { .addr = (uintptr_t)&variable, .size = 8, .access = ACCESS_WRITE };
	pid_t pid = fork();
	struct wc_error *err;

	(void)state;
	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	err = watchpoint_check(&w, pid);
	assert_non_null(err);
	assert_int_equal(err->kind, WC_ETARGET);
	wc_error_free(err);
}

static void a_threads_copy_is_remembered_where_recorders_look(void **state)
{
	static struct wire_shadow table[WIRE_SHADOWS];
	struct watchpoint w = { .size = 8, .want_size = 8, .address = nowhere, .access = ACCESS_WRITE };
	uint64_t addr = (uintptr_t)&variable, i = wire_hash(addr) & (WIRE_SHADOWS - 1);

	(void)state;
	table[i].addr = 0x1234; /* another one has the place: the next is taken */
	watchpoint_remember(&w, getpid(), addr, table);
	i = (i + 1) & (WIRE_SHADOWS - 1);
	assert_int_equal(table[i].addr, addr);
	assert_int_equal(table[i].value, variable);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_recorder_needs_is_in_the_flags),
		cmocka_unit_test(what_no_register_covers_or_nothing_is_mapped_at_is_refused),
		cmocka_unit_test(a_process_that_has_ended_is_said_to_have),
		cmocka_unit_test(a_threads_copy_is_remembered_where_recorders_look),
	};

	return cmocka_run_group_tests_name("watchpoint", tests, NULL, NULL);
}
