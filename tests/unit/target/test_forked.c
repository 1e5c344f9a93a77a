/* Copies of a handler in forked processes: whole ones, and those of a process that was forked in the midst.
 */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/other_process.h"
#include "watchctl/base/task.h"
#include "watchctl/target/inject/forked.h"

#define BASE 0x234500000000ull /* where nothing is */
#define CONTROL (BASE + WIRE_CODE_SIZE)
#define DOOR 0x2040u
#define HANDLER (BASE + DOOR + sizeof(struct wire_signature))
#define SHARED (WIRE_RING_OFFSET + 0x10000u)
#define SIZE (WIRE_CODE_SIZE + SHARED)
#define COOKIE 0x1234567800ull
#define STACK 65536u

enum state { CODE, EMPTY_CONTROL, NO_IMAGE, WHOLE };

struct plan {
	enum state state;
	uint64_t handler; /* what SIGTRAP does, and what it did before: the default action */
	bool threads, sharer;
	uint64_t cookie;
};

static const struct plan whole = { .state = WHOLE, .handler = HANDLER, .cookie = COOKIE };

static void map(uint64_t at, size_t size, int protection, int flags)
{
	/* cppcheck-suppress invalidFunctionArg ; there is no file behind it */
	if (mmap((void *)(uintptr_t)at, size, protection, flags | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
	    MAP_FAILED)
		_exit(1);
}

static void place(const struct plan *p)
{
	struct wire_signature door = { .to_control = WIRE_CODE_SIZE - DOOR };
	const struct wire_control c = { .magic = WIRE_MAGIC,
					.version = WIRE_VERSION,
					.cookie = p->cookie,
					.code_start = BASE,
					.code_end = CONTROL,
					.mapping_size = SIZE,
					.ours.handler = HANDLER };

	memcpy(door.name, WIRE_SIGNATURE, sizeof(door.name));
	map(BASE, SIZE, PROT_READ | PROT_EXEC, MAP_PRIVATE);
	if (p->state >= EMPTY_CONTROL)
		map(CONTROL, SHARED, PROT_READ | PROT_WRITE, MAP_SHARED);
	if (p->state >= NO_IMAGE)
		memcpy((void *)(uintptr_t)CONTROL, &c, sizeof(c));
	if (p->state == WHOLE) {
		mprotect((void *)(uintptr_t)BASE, WIRE_CODE_SIZE, PROT_READ | PROT_WRITE);
		memcpy((void *)(uintptr_t)(BASE + DOOR), &door, sizeof(door));
		mprotect((void *)(uintptr_t)BASE, WIRE_CODE_SIZE, PROT_READ | PROT_EXEC);
	}
}

static void *wait_in_thread(void *unused)
{
	pause();
	return unused;
}

static __attribute__((noreturn)) int wait_in_sharer(void *unused)
{
	(void)unused;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

/* A program does not know the address, as this one does, unless it has asked: see kept.h. */
__attribute__((no_sanitize("address"))) static void forget_address(void)
{
	const uint64_t vast = 1ull << 30; /* a sanitizer's shadow */
	static volatile uint64_t inverse =
		~HANDLER; /* the address itself may be kept in a register, and saved */
	FILE *maps = fopen("/proc/self/maps", "r");
	uint64_t start, end;
	char line[256];

	while (maps && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " rw-p", &start, &end) != 2 ||
		    !strstr(line, " rw-p ") || end - start > vast)
			continue;
		for (volatile uint64_t *at = (uint64_t *)(uintptr_t)start; (uintptr_t)at < end; at++)
			if ((*at ^ inverse) == UINT64_MAX)
				*at = 0;
	}
	if (maps)
		fclose(maps);
}

static __attribute__((noreturn)) void be_child(const struct plan *p, int ready)
{
	struct wire_sigaction action = { .handler = p->handler, .flags = 0x04000000 /* SA_RESTORER */ };
	static uint8_t stack[STACK];
	pthread_t thread;
	int sharer = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	place(p);
	if (p->handler)
		syscall(SYS_rt_sigaction, SIGTRAP, &action, NULL, 8);
	forget_address();
	if (p->threads)
		pthread_create(&thread, NULL, wait_in_thread, NULL);
	if (p->sharer)
		sharer = clone(wait_in_sharer, stack + STACK, CLONE_VM | SIGCHLD, NULL);
	if (write(ready, &sharer, sizeof(sharer)) != sizeof(sharer))
		_exit(1);
	for (;;)
		pause();
}

/* *ret_sharer may be NULL. */
static pid_t begin(struct plan p, int *ret_sharer)
{
	int fds[2], sharer;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (!pid)
		be_child(&p, fds[1]);
	assert_int_equal(read(fds[0], &sharer, sizeof(sharer)), sizeof(sharer));
	close(fds[0]);
	close(fds[1]);
	if (ret_sharer)
		*ret_sharer = sharer;
	return pid;
}

static void end(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

static bool is_clean(pid_t pid)
{
	struct proc_status s;
	struct proc_map m;

	return !proc_map_at(pid, BASE, &m) && !proc_map_at(pid, CONTROL, &m) &&
	       proc_status_read(pid, pid, &s) && !(s.caught & PROC_SIGTRAP);
}

static struct forked family(void)
{
	return (struct forked){ .inj = { .pid = getpid(),
					 .base = BASE,
					 .size = SIZE,
					 .control = CONTROL,
					 .handler = HANDLER,
					 .shared_size = SHARED },
				.cookie = COOKIE,
				.placed = task_ticks_now() };
}

static void is_taken_out(struct plan p)
{
	struct forked f = family();
	struct forked_report r;
	pid_t pid = begin(p, NULL);

	forked_leave(&f, &r);
	assert_int_equal(r.cleared, 1);
	assert_int_equal(r.nleft, 0);
	assert_true(is_clean(pid));
	forked_report_deinit(&r);
	end(pid);
}

static void a_whole_one_is_taken_out(void **state)
{
	(void)state;
	is_taken_out(whole);
}

static void of_several_threads_too(void **state)
{
	struct plan p = whole;

	(void)state;
	p.threads = true;
	is_taken_out(p);
}

/* Whoever runs in the same memory has an action of its own. */
static void of_two_that_share_memory_both_get_their_action_back(void **state)
{
	struct forked f = family();
	struct forked_report r;
	struct plan p = whole;
	pid_t pid, sharer;

	(void)state;
	p.sharer = true;
	pid = begin(p, &sharer);
	forked_leave(&f, &r);
	assert_int_equal(r.nleft, 0);
	assert_true(is_clean(pid));
	assert_true(is_clean(sharer));
	forked_report_deinit(&r);
	end(pid);
}

/* Between any two steps of placing it, or of taking it out. */
static void a_part_of_one_is_taken_out(void **state)
{
	enum state s;

	(void)state;
	for (s = CODE; s <= WHOLE; s++)
		is_taken_out((struct plan){ .state = s, .cookie = COOKIE });
}

/* Born when it had long been in place: so it had our action once, and may know it. */
static void one_that_has_an_action_of_its_own_keeps_it_and_is_reported(void **state)
{
	struct forked f = family();
	struct forked_report r;
	struct plan p = whole;
	struct wc_error *err;
	struct proc_map m;
	pid_t pid;

	(void)state;
	f.placed = 1;
	p.handler = (uint64_t)(uintptr_t)wait_in_thread;
	pid = begin(p, NULL);
	forked_leave(&f, &r);
	assert_int_equal(r.cleared, 0);
	assert_int_equal(r.nleft, 1);
	assert_int_equal(r.left[0].pid, pid);
	assert_true(proc_map_at(pid, BASE, &m));
	err = forked_report_error(&r, getpid());
	assert_int_equal(err->kind, WC_EFAIL);
	assert_non_null(strstr(err->text, "left in 1 process forked by"));
	wc_error_free(err);
	end(pid);
}

static void that_of_another_session_is_left_alone(void **state)
{
	struct forked f = family();
	struct forked_report r;
	pid_t pid = begin(whole, NULL);
	struct proc_map m;

	(void)state;
	f.inj.base += 4096;
	f.inj.control += 4096;
	forked_leave(&f, &r);
	assert_int_equal(r.cleared + r.nleft, 0);
	assert_true(proc_map_at(pid, BASE, &m));
	forked_report_deinit(&r);
	end(pid);
}

/* It is stopped, and stays stopped. */
static void one_that_is_stopped_is_dealt_with_and_stays_so(void **state)
{
	struct forked f = family();
	struct forked_report r;
	pid_t pid = begin(whole, NULL);

	(void)state;
	kill(pid, SIGSTOP);
	wait_for_state(pid, 'T');
	forked_leave(&f, &r);
	assert_int_equal(r.cleared, 1);
	assert_true(is_clean(pid));
	wait_for_state(pid, 'T');
	forked_report_deinit(&r);
	end(pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_whole_one_is_taken_out),
		cmocka_unit_test(of_several_threads_too),
		cmocka_unit_test(of_two_that_share_memory_both_get_their_action_back),
		cmocka_unit_test(a_part_of_one_is_taken_out),
		cmocka_unit_test(one_that_has_an_action_of_its_own_keeps_it_and_is_reported),
		cmocka_unit_test(that_of_another_session_is_left_alone),
		cmocka_unit_test(one_that_is_stopped_is_dealt_with_and_stays_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
