/* Where the mappings of another program lie, and what becomes of that knowledge while it runs. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/other_process.h"
#include "watchctl/base/error.h"
#include "watchctl/target/inject/gadget.h"
#include "watchctl/target/inject/remote.h"
#include "watchctl/target/proc/layout.h"
#include "watchctl/target/proc/proc.h"

#define NR_GETPID 39
#define DEEP (1u << 20)

struct program {
	pid_t pid;
	int to, from;
	uint64_t hole, sp, tls; /* a page that is not mapped between two that are; of its second thread */
};

static int in, out;

static __attribute__((noinline)) void touch_deep_stack(void)
{
	volatile char deep[DEEP];
	size_t i;

	for (i = 0; i < sizeof(deep); i += 1024)
		deep[i] = 1;
}

static void *wait_for_ever(void *arg)
{
	const uint64_t said[3] = { (uintptr_t)arg, (uintptr_t)__builtin_frame_address(0),
				   (uintptr_t)pthread_self() };

	munmap(arg, 4096); /* nothing that a thread begins with is to be put there */
	if (write(out, said, sizeof(said)) == sizeof(said))
		for (;;)
			pause();
	return NULL;
}

/* Gets deeper into its stack with each line. */
static __attribute__((noreturn)) void be_program(void)
{
	size_t page = 4096;
	char *pages = mmap(NULL, 3 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), c;
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (pthread_create(&thread, NULL, wait_for_ever, pages + page))
		_exit(1);
	while (read(in, &c, 1) == 1) {
		touch_deep_stack();
		if (write(out, &c, 1) != 1)
			break;
	}
	_exit(0);
}

static struct program begin(void)
{
	struct program p;
	int there[2], back[2];
	uint64_t said[3];

	assert_int_equal(pipe(there) | pipe(back), 0);
	in = there[0];
	out = back[1];
	p.pid = fork();
	if (!p.pid)
		be_program();
	close(there[0]);
	close(back[1]);
	p.to = there[1];
	p.from = back[0];
	assert_int_equal(read(p.from, said, sizeof(said)), sizeof(said));
	p.hole = said[0];
	p.sp = said[1];
	p.tls = said[2];
	return p;
}

static void grow(const struct program *p)
{
	char c = '\n';

	assert_int_equal(write(p->to, &c, 1), 1);
	assert_int_equal(read(p->from, &c, 1), 1);
}

static void end(const struct program *p)
{
	int status;

	kill(p->pid, SIGKILL);
	waitpid(p->pid, &status, 0);
	close(p->to);
	close(p->from);
}

static void a_hole_between_mappings_is_free_and_nothing_beside_it_is(void **state)
{
	struct program p = begin();
	struct layout *l = layout_read(p.pid);

	(void)state;
	assert_non_null(l);
	assert_true(layout_is_free(l, p.hole, p.hole + 4096));
	assert_false(layout_is_free(l, p.hole - 1, p.hole + 4096));
	assert_false(layout_is_free(l, p.hole, p.hole + 4097));
	assert_true(layout_is_free(l, 0x200000000000, 0x200000001000));
	layout_free(l);
	end(&p);
}

static void a_thread_s_own_stack_is_known_by_its_guard_and_its_data(void **state)
{
	struct program p = begin();
	struct layout *l = layout_read(p.pid);
	uint64_t start = 0, main_start, main_end;

	(void)state;
	assert_true(layout_thread_stack(l, p.sp, p.tls, &start));
	assert_true(start < p.sp && p.sp - start < 64u << 20);
	assert_false(layout_thread_stack(l, p.sp, p.sp - 1, &start)); /* its data would lie below */
	assert_false(layout_thread_stack(l, p.hole, p.hole + 8, &start));
	layout_main_stack(l, &main_start, &main_end);
	assert_true(main_start && main_end > main_start);
	assert_false(layout_thread_stack(l, main_end - 64, main_end - 8, &start));
	layout_free(l);
	end(&p);
}

static void a_main_stack_that_has_grown_is_noticed(void **state)
{
	struct program p = begin();
	struct layout *l = layout_read(p.pid);

	(void)state;
	assert_true(layout_is_current(l));
	grow(&p);
	assert_false(layout_is_current(l));
	layout_free(l);
	l = layout_read(p.pid);
	assert_true(layout_is_current(l));
	layout_free(l);
	end(&p);
}

/* The main thread gets deeper between the look and the stop of another: it is looked at again, not while that
 * stands. */
static void what_was_learned_too_early_is_learned_again(void **state)
{
	struct program p = begin();
	struct remote r = { 0 };
	uint64_t start, end_of;
	struct gadgets g;
	long result = 0;

	(void)state;
	assert_null(gadgets_find(p.pid, &g));
	assert_null(remote_open_prepared(p.pid, second_thread(p.pid), NULL, &r));
	grow(&p);
	assert_false(layout_is_current(r.layout));
	assert_null(remote_use_gadgets(&r, &g));
	assert_true(layout_is_current(r.layout));
	layout_main_stack(r.layout, &start, &end_of);
	assert_true(end_of - start > DEEP);
	assert_null(remote_syscall(&r, NR_GETPID, 0, 0, 0, 0, 0, 0, &result));
	assert_int_equal(result, p.pid);
	remote_close(&r);
	grow(&p); /* it lives */
	end(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hole_between_mappings_is_free_and_nothing_beside_it_is),
		cmocka_unit_test(a_thread_s_own_stack_is_known_by_its_guard_and_its_data),
		cmocka_unit_test(a_main_stack_that_has_grown_is_noticed),
		cmocka_unit_test(what_was_learned_too_early_is_learned_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
