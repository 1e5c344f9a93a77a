/*
 * The runtime of the call tracer: each test runs this program again as a traced one, which does one thing, and reads the
 * log that it leaves.
 */
#include "tests/unit/tracelog_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "calltrace/calltrace.h"
#include "tests/unit/calltrace/traced.h"
#include "calltrace/runtime/call_output.h"
#include "tests/unit/calltrace/traced_run.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/trace/calls/call_reader.h"

TRACED_FUNCTION(a, 0);
TRACED_FUNCTION(b, 0);
TRACED_FUNCTION(c, 0);
TRACED_FUNCTION(d, 0);
TRACED_FUNCTION(e, 0);
TRACED_FUNCTION(inl, 0);

#define S1 0x70001000u
#define S2 0x70000f00u
#define S3 0x70000e00u
#define S4 0x70000d00u
#define OTHER_STACK 0x10001000u
#define ROUNDS 100000

/* Acts of the traced program */

static int nested(void)
{
	ENTER(a, S1);
	ENTER(b, S2);
	ENTER(c, S3);
	LEAVE(c, S3);
	LEAVE(b, S2);
	ENTER(b, S2);
	LEAVE(b, S2);
	LEAVE(a, S1);
	LEAVE(e, S1); /* entered before recording began */
	return 0;
}

static int tail_chain(void)
{
	ENTER(a, S1);
	ENTER(b, S2);
	TAIL(b, S2);
	ENTER(c, S2);
	TAIL(c, S2);
	ENTER(d, S2);
	LEAVE(d, S2);
	LEAVE(a, S1);
	return 0;
}

/* To functions that are not traced, one of which calls one that is. */
static int tail_away(void)
{
	ENTER(a, S1);
	ENTER(b, S2);
	TAIL(b, S2);
	ENTER(c, S3);
	LEAVE(c, S3);
	ENTER(b, S2);
	TAIL(b, S2);
	LEAVE(a, S1);
	ENTER(d, S1);
	TAIL(d, S1); /* and no event after it */
	return 0;
}

static jmp_buf jump;

__attribute__((noinline)) static void real_d(void)
{
	ENTER(d, OWN_FRAME);
	longjmp(jump, 1);
}

__attribute__((noinline)) static void real_c(void)
{
	ENTER(c, OWN_FRAME);
	real_d();
	LEAVE(c, OWN_FRAME);
}

__attribute__((noinline)) static void real_b(void)
{
	ENTER(b, OWN_FRAME);
	real_c();
	LEAVE(b, OWN_FRAME);
}

__attribute__((noinline)) static void real_e(void)
{
	ENTER(e, OWN_FRAME);
	LEAVE(e, OWN_FRAME);
}

__attribute__((noinline)) static int long_jump(void)
{
	ENTER(a, OWN_FRAME);
	if (!setjmp(jump))
		real_b();
	real_e();
	if (!setjmp(jump))
		real_b();
	LEAVE(a, OWN_FRAME);
	return 0;
}

static void on_signal(int number)
{
	ENTER(d, OWN_FRAME);
	ENTER(e, OWN_FRAME - 64);
	LEAVE(e, OWN_FRAME - 64);
	LEAVE(d, OWN_FRAME);
}

__attribute__((noinline)) static int signals(void)
{
	signal(SIGUSR1, on_signal);
	for (int i = 0; i < 5000; i++) {
		ENTER(a, OWN_FRAME);
		raise(SIGUSR1);
		LEAVE(a, OWN_FRAME);
	}
	return 0;
}

static void call_twice(uint64_t rounds)
{
	for (uint64_t i = 0; i < rounds; i++) {
		ENTER(a, S1);
		ENTER(b, S2);
		LEAVE(b, S2);
		LEAVE(a, S1);
	}
}

/* As a handler does while a function at S1 is interrupted. */
static void call_below(int rounds)
{
	for (int i = 0; i < rounds; i++) {
		ENTER(c, S3);
		ENTER(d, S4);
		LEAVE(d, S4);
		LEAVE(c, S3);
	}
}

/* As a signal between the instruction that takes the last slot and the turn. */
static int late_turns(void)
{
	for (int i = 0; i < 3; i++) {
		const uint32_t what = traced_what(CALLTRACE_ENTRY, &record_a);
		struct calltrace_slot *slot;

		for (slot = traced_take(); !traced_is_last(slot); slot = traced_take()) {
			traced_write(slot, what, S1);
			ENTER(b, S2); /* the last slot is one of those above */
			LEAVE(b, S2);
			LEAVE(a, S1);
		}
		call_below(i * 10);
		traced_write(slot, what, S1);
		traced_turn(what, S1);
		LEAVE(a, S1);
		/* Three slots of the chunk are given before the loop: the thread's first event is one of them. */
		if (i)
			ENTER(a, S1);
		LEAVE(a, S1);
	}
	return 0;
}

/* As a signal between the two, whose handler goes through a turn: the slot is not written yet. */
static int late_slot(void)
{
	struct calltrace_slot *slot;

	call_twice(10);
	slot = traced_take();
	call_twice(1500);
	traced_write(slot, traced_what(CALLTRACE_ENTRY, &record_c), S3);
	call_twice(5000);
	return 0;
}

static void *many(void *arg)
{
	call_twice(ROUNDS / 2);
	return NULL;
}

static int threads(void)
{
	pthread_t t[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, many, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	return 0;
}

static void *few(void *arg)
{
	pthread_setname_np(pthread_self(), "few");
	ENTER(a, S1);
	LEAVE(a, S1);
	return NULL;
}

/* One after the other: what one had is used again. */
static int thread_ends(void)
{
	pthread_t t;

	for (int i = 0; i < 3; i++) {
		pthread_create(&t, NULL, few, NULL);
		pthread_join(t, NULL);
	}
	return 0;
}

static int switched(void)
{
	bool was = calltrace_enabled();

	ENTER(a, S1);
	calltrace_disable();
	ENTER(b, S1);
	LEAVE(b, S1);
	was = was && !calltrace_enabled();
	if (calltrace_enable() || !calltrace_enabled())
		return 1;
	LEAVE(a, S1);
	return was ? 0 : 2;
}

static int not_enabled(void)
{
	ENTER(a, S1);
	LEAVE(a, S1);
	return calltrace_enabled() || calltrace_enable() || (ENTER(b, S1), LEAVE(b, S1), 0);
}

/* A chunk less than what fits into the smallest ring is there at least. */
static int ring_runs_over(void)
{
	call_twice(ROUNDS);
	ENTER(e, S1);
	LEAVE(e, S1);
	return 0;
}

static int ring_is_flushed(void)
{
	nested();
	if (calltrace_flush() || calltrace_flush())
		return 1;
	nested();
	return 0;
}

static int ring_runs_over_again(void)
{
	ENTER(a, S1);
	if (calltrace_flush())
		return 1;
	call_twice(ROUNDS);
	return 0;
}

static int full_disk(void)
{
	struct rlimit limit;

	getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = 130000; /* two packets of a thread */
	setrlimit(RLIMIT_FSIZE, &limit);
	call_twice(ROUNDS);
	errno = 99;
	call_twice(ROUNDS);
	return errno == 99 ? 0 : 1;
}

static int untraced(void)
{
	nested();
	return calltrace_enabled() == 0 && calltrace_enable() == -ENOENT && calltrace_flush() == -ENOENT ? 7
													 : 0;
}

/* Through the first turn and another one: nothing but r11 may change. */
static int registers(void)
{
	static const uint8_t pattern[64] = {
		1,  2,	3,  250, 5,  6,	 7,  8,	 9,  10, 11, 12, 13, 14, 15, 16,
		17, 18, 19, 20,	 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32
	};
	const uint32_t what = traced_what(CALLTRACE_EXIT, &record_a);
	uint8_t out[16][32] = { 0 };
	const bool wide = __builtin_cpu_supports("avx");

	for (int round = 0; round < 2; round++) {
		uint64_t gp[6];

		traced_write(traced_take(), what, S1);
		if (wide)
			__asm__ volatile(
				"vmovups %[in], %%ymm0\n\tvmovups %[in], %%ymm7\n\tvmovups %[in], %%ymm15\n\t"
				"movq $0x1111, %%rax\n\tmovq $0x2222, %%rcx\n\tmovq $0x3333, %%rdx\n\t"
				"movq $0x4444, %%r8\n\tmovq $0x5555, %%r9\n\tmovq $0x6666, %%r10\n\t"
				"subq $128, %%rsp\n\tpushq %%rax\n\tcall __calltrace_turn\n\taddq $136, %%rsp\n\t"
				"movq %%rax, (%[gp])\n\tmovq %%rcx, 8(%[gp])\n\tmovq %%rdx, 16(%[gp])\n\t"
				"movq %%r8, 24(%[gp])\n\tmovq %%r9, 32(%[gp])\n\tmovq %%r10, 40(%[gp])\n\t"
				"vmovups %%ymm0, (%[out])\n\tvmovups %%ymm7, 32(%[out])\n\tvmovups %%ymm15, 64(%[out])\n\t"
				:
				: [in] "m"(pattern), [out] "b"(out), [gp] "r"(gp), "D"(what), "S"(S1)
				: "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "xmm0", "xmm7", "xmm15",
				  "memory", "cc");
		else
			continue;
		for (int i = 0; i < 3; i++)
			if (memcmp(out[i], pattern, 32) != 0)
				return 1;
		for (unsigned int i = 0; i < 6; i++)
			if (gp[i] != 0x1111u * (i + 1))
				return 2;
	}
	return 0;
}

static int forks(void)
{
	pid_t child;
	int status;

	ENTER(a, S1);
	child = fork();
	if (!child) {
		call_twice(ROUNDS);
		exit(calltrace_enabled());
	}
	waitpid(child, &status, 0);
	LEAVE(a, S1);
	return status;
}

/* Without the C library, whose handlers do not run: what they do is not needed for that the log stays whole. */
static int forks_raw(void)
{
	pid_t child;
	int status;

	ENTER(a, S1);
	child = (pid_t)syscall(SYS_fork);
	if (!child) {
		call_twice(ROUNDS);
		_exit(calltrace_enabled());
	}
	waitpid(child, &status, 0);
	LEAVE(a, S1);
	return status;
}

/* The child has its parent's memory, and its parent waits: the calls are one thread's. */
static int forks_sharing(void)
{
	pid_t child;
	int status;

	ENTER(a, S1);
	child = vfork();
	if (!child) {
		call_below(ROUNDS);
		_exit(0);
	}
	waitpid(child, &status, 0);
	LEAVE(a, S1);
	return status;
}

/* Twice the same table, as two libraries 4 GB apart. */
static int overlaps(void)
{
	static uint8_t on;

	__calltrace_register(__start_calltrace_functions + 1, __stop_calltrace_functions, &on, 0);
	return on || nested();
}

/* As daemons do, and then uses the numbers. */
static int closes_all(void)
{
	char name[] = "/tmp/test_calltrace.XXXXXX";
	struct stat st;
	int fd;

	ENTER(a, S1);
	for (fd = 3; fd < 64; fd++)
		close(fd);
	fd = mkstemp(name);
	unlink(name);
	for (int other = fd + 1; other < 64; other++)
		dup2(fd, other);
	call_twice(5000);
	LEAVE(a, S1);
	if (calltrace_flush())
		return 1;
	return fstat(fd, &st) == 0 && st.st_size == 0 ? 0 : 2;
}

/* Somebody else's log has the name of ours, and then our file has become longer. */
static int log_moved(void)
{
	const char *log = getenv("CALLTRACE_OUTPUT");
	char moved[128];
	int failed;

	snprintf(moved, sizeof(moved), "%s.moved", log);
	nested();
	failed = calltrace_flush() || rename(log, moved) || mkdir(log, 0700);
	nested();
	failed = failed || calltrace_flush() != -ESTALE || rmdir(log) || rename(moved, log);
	nested();
	return failed;
}

static int file_changed(void)
{
	char name[128];
	int fd;

	nested();
	if (calltrace_flush())
		return 1;
	snprintf(name, sizeof(name), "%s/calls.0000000000", getenv("CALLTRACE_OUTPUT"));
	fd = open(name, O_WRONLY | O_APPEND | O_CLOEXEC);
	if (write(fd, "x", 1) != 1)
		return 2;
	close(fd);
	nested();
	return calltrace_flush() == -ESTALE ? 0 : 3;
}

static int deep(void)
{
	const uint32_t n = (1u << 20) + 1000, top = 0x7fff0000;

	for (uint32_t i = 0; i < n; i++)
		ENTER(a, top - 16 * i);
	for (uint32_t i = n; i--;)
		LEAVE(a, top - 16 * i);
	return 0;
}

static int inlined(void)
{
	ENTER(a, S1);
	ENTER_INLINED(inl, S1);
	ENTER_INLINED(b, S1);
	ENTER(c, S2);
	LEAVE(c, S2);
	LEAVE(b, S1);
	LEAVE(inl, S1);
	LEAVE(a, S1);
	ENTER(b, S1);
	ENTER_INLINED(inl, S1);
	ENTER(a, S1); /* of another caller: b was left by a longjmp() */
	LEAVE(a, S1);
	return 0;
}

static int another_stack(void)
{
	ENTER(a, S1);
	ENTER(b, OTHER_STACK); /* below */
	LEAVE(b, OTHER_STACK);
	ENTER(c, S1 + (2u << 20)); /* above */
	LEAVE(c, S1 + (2u << 20));
	LEAVE(a, S1);
	return 0;
}

static int flushes(void)
{
	ENTER(a, S1);
	ENTER(b, S2);
	if (calltrace_flush())
		return 1;
	LEAVE(b, S2);
	if (calltrace_flush() || calltrace_flush())
		return 2;
	_exit(0);
}

static int unloads(void)
{
	ENTER(a, S1);
	LEAVE(a, S1);
	__calltrace_unregister(__start_calltrace_functions);
	ENTER(b, S1);
	LEAVE(b, S1);
	traced_begin();
	ENTER(c, S1);
	LEAVE(c, S1);
	return 0;
}

static const struct act acts[] = {
	{ "nested", nested },
	{ "tail_chain", tail_chain },
	{ "tail_away", tail_away },
	{ "long_jump", long_jump },
	{ "signals", signals },
	{ "late_turns", late_turns },
	{ "late_slot", late_slot },
	{ "threads", threads },
	{ "thread_ends", thread_ends },
	{ "switched", switched },
	{ "ring_runs_over", ring_runs_over },
	{ "ring_is_flushed", ring_is_flushed },
	{ "ring_runs_over_again", ring_runs_over_again },
	{ "not_enabled", not_enabled },
	{ "full_disk", full_disk },
	{ "untraced", untraced },
	{ "registers", registers },
	{ "forks", forks },
	{ "forks_raw", forks_raw },
	{ "forks_sharing", forks_sharing },
	{ "overlaps", overlaps },
	{ "closes_all", closes_all },
	{ "log_moved", log_moved },
	{ "file_changed", file_changed },
	{ "deep", deep },
	{ "inlined", inlined },
	{ "another_stack", another_stack },
	{ "flushes", flushes },
	{ "unloads", unloads },
};

static void nested_calls_nest(void **state)
{
	check_act(state, "nested", "+a+b+c-c-b+b-b-a-e");
}

static void a_chain_of_tail_calls_ends_with_its_last(void **state)
{
	check_act(state, "tail_chain", "+a+b+c+d-d-c-b-a");
}

static void a_tail_call_out_of_what_is_traced_ends_it(void **state)
{
	check_act(state, "tail_away", "+a+b-b+c-c+b-b-a+d-d");
}

static void what_a_longjmp_leaves_ends_unseen(void **state)
{
	check_act(state, "long_jump", "+a+b+c+d~d~c~b+e-e+b+c+d~d~c~b-a");
}

static void a_signal_handler_is_in_the_middle(void **state)
{
	const struct fixture *f = *state;

	ran(f, "signals");
	check_times(f->log, "+a+d+e-e-d-a", 5000, 0);
}

static void a_turn_may_come_late(void **state)
{
	const struct fixture *f = *state;
	scoped(call_reader_closep) struct call_reader *r = NULL;
	scoped(freep) char *text = NULL;

	ran(f, "late_turns");
	r = read_calls(f->log, 0);
	assert_int_equal(call_reader_threads(r), 1);
	text = events_of(r, 0);
	assert_memory_equal(text, "+a-a-a+a+b-b-a", 14);
	assert_int_equal(strlen(text) / 2, 4096 + 4 * 10 + 4096 + 4 * 20 + 3);
	assert_null(strchr(text, '~'));
}

static void a_slot_that_is_not_written_in_time_is_discarded(void **state)
{
	const struct fixture *f = *state;

	ran(f, "late_slot");
	check_times(f->log, "+a+b-b-a", 6510, 1);
}

static void look_at_thread(const struct trace_event *e)
{
	assert_true(!strcmp(e->thread.comm, "few") || e->thread.pid == e->thread.tid);
}

static void threads_have_files_of_their_own(void **state)
{
	const struct fixture *f = *state;
	scoped(call_reader_closep) struct call_reader *r = NULL;

	ran(f, "threads");
	r = read_calls(f->log, 0);
	assert_int_equal(call_reader_threads(r), 4);
	for (size_t i = 0; i < 4; i++) {
		scoped(freep) char *text = events_of(r, i);

		assert_int_equal(strlen(text), 4 * ROUNDS);
		for (size_t k = 0; k < ROUNDS / 2; k++)
			assert_memory_equal(text + 8 * k, "+a+b-b-a", 8);
	}
	assert_int_equal(count_events(f->log, EVENT_THREAD, NULL), 5);
}

static void a_thread_that_ends_leaves_nothing_behind(void **state)
{
	const struct fixture *f = *state;
	scoped(call_reader_closep) struct call_reader *r = NULL;

	ran(f, "thread_ends");
	r = read_calls(f->log, 0);
	assert_int_equal(call_reader_threads(r), 3);
	for (size_t i = 0; i < 3; i++) {
		scoped(freep) char *text = events_of(r, i);

		assert_string_equal(text, "+a-a");
	}
	assert_int_equal(count_events(f->log, EVENT_THREAD, look_at_thread), 4);
}

static void recording_can_be_switched(void **state)
{
	check_act(state, "switched", "+a-a");
}

static void recording_may_begin_switched_off(void **state)
{
	setenv("CALLTRACE_ENABLE", "0", 1);
	check_act(state, "not_enabled", "+b-b");
	unsetenv("CALLTRACE_ENABLE");
}

static uint64_t lost;

/* Runs @name with the smallest ring; its only thread has left @ret, the caller's. */
static char *ran_with_ring(const struct fixture *f, const char *name, uint64_t *discarded)
{
	scoped(call_reader_closep) struct call_reader *r = NULL;
	struct call_damage d;
	char *text;

	setenv("CALLTRACE_RING", "128K", 1);
	ran(f, name);
	unsetenv("CALLTRACE_RING");
	OK(call_reader_open(f->log, &r));
	assert_int_equal(call_reader_threads(r), 1);
	text = events_of(r, 0);
	call_reader_damage(r, &d);
	assert_int_equal(d.packets + d.ignored, 0);
	*discarded = d.discarded;
	return text;
}

/* @text is the end of many rounds of call_twice(), and then @end. */
static void check_rounds(const char *text, const char *end)
{
	const size_t len = strlen(text), rest = strlen(end);

	assert_true(len >= rest);
	assert_string_equal(text + len - rest, end);
	for (size_t i = 0; i < len - rest; i++)
		assert_int_equal(text[len - rest - 1 - i], "+a+b-b-a"[7 - i % 8]);
}

static void a_flight_recorder_has_the_last_calls(void **state)
{
	uint64_t discarded;
	scoped(freep) char *text = ran_with_ring(*state, "ring_runs_over", &discarded);

	check_rounds(text, "+e-e");
	assert_true(strlen(text) > 2 * 4096 && strlen(text) <= 2 * 8192);
	assert_int_equal(discarded, 0);
}

static void a_flight_recorder_is_read_once(void **state)
{
	uint64_t discarded;
	scoped(freep) char *text = ran_with_ring(*state, "ring_is_flushed", &discarded);

	assert_string_equal(text, "+a+b+c-c-b+b-b-a-e+a+b+c-c-b+b-b-a-e");
	assert_int_equal(discarded, 0);
}

static void a_flight_recorder_says_what_is_missing_between_two_readings(void **state)
{
	uint64_t discarded;
	scoped(freep) char *text = ran_with_ring(*state, "ring_runs_over_again", &discarded);

	assert_memory_equal(text, "+a", 2);
	check_rounds(text + 2, "");
	assert_int_equal(discarded, 4 * ROUNDS - strlen(text + 2) / 2);
}

static void a_ring_of_no_size_is_said(void **state)
{
	static const char *const wrong[] = { "x", "16", "16Q", "-1M", "1M1", "99999999G" };
	const struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		setenv("CALLTRACE_RING", wrong[i], 1);
		assert_int_equal(run(f, "untraced", f->log), 7);
		said(f, "is no size");
		assert_int_not_equal(access(f->log, F_OK), 0);
	}
	unsetenv("CALLTRACE_RING");
}

static void look_at_lost(const struct trace_event *e)
{
	assert_int_equal(e->lost.watch, WATCH_CALLS);
	lost = e->lost.count;
}

static void a_full_disk_does_not_stop_the_program(void **state)
{
	const struct fixture *f = *state;
	scoped(call_reader_closep) struct call_reader *r = NULL;
	scoped(freep) char *text = NULL;
	struct call_damage d;

	assert_int_equal(run(f, "full_disk", f->log), 0);
	OK(call_reader_open(f->log, &r));
	assert_int_equal(call_reader_threads(r), 1);
	text = events_of(r, 0);
	assert_int_equal(strlen(text) / 2, 2 * OUTPUT_FULL);
	call_reader_damage(r, &d);
	assert_int_equal(d.packets + d.ignored, 0);
	assert_int_equal(count_events(f->log, EVENT_LOST, look_at_lost), 1);
	assert_int_equal(lost, 8 * ROUNDS - 2 * OUTPUT_FULL);
}

static void a_log_that_cannot_be_made_is_said(void **state)
{
	const struct fixture *f = *state;

	assert_int_equal(run(f, "untraced", "/nonexistent/log"), 7);
	said(f,
	     "calltrace: cannot create the log /nonexistent/log: the directory it should be in does not exist; "
	     "the program goes on untraced\n");
	assert_int_equal(run(f, "untraced", ""), 7);
	said(f, "");
	assert_int_equal(run(f, "untraced", "/tmp/%x"), 7);
	said(f, "CALLTRACE_OUTPUT");
}

static void a_log_that_exists_is_kept(void **state)
{
	const struct fixture *f = *state;

	check_act(state, "nested", "+a+b+c-c-b+b-b-a-e");
	assert_int_equal(run(f, "untraced", f->log), 7);
	said(f, "exists already");
	check_times(f->log, "+a+b+c-c-b+b-b-a-e", 1, 0);
}

static void the_path_may_name_process_and_program(void **state)
{
	const struct fixture *f = *state;
	char output[128], command[200];

	snprintf(output, sizeof(output), "%s/%%e.%%%%.%%p", f->dir);
	assert_int_equal(run(f, "nested", output), 0);
	snprintf(command, sizeof(command), "cd %s && mv traced.%%.[0-9]* log", f->dir);
	assert_int_equal(system(command), 0);
	check_times(f->log, "+a+b+c-c-b+b-b-a-e", 1, 0);
}

static void registers_survive(void **state)
{
	ran(*state, "registers");
}

static void a_child_does_not_write_its_parents_log(void **state)
{
	check_act(state, "forks", "+a-a");
}

static void a_child_of_a_bare_system_call_does_not_either(void **state)
{
	check_act(state, "forks_raw", "+a-a");
}

static void a_child_that_shares_memory_is_recorded(void **state)
{
	const struct fixture *f = *state;
	scoped(call_reader_closep) struct call_reader *r = NULL;
	scoped(freep) char *text = NULL;

	ran(f, "forks_sharing");
	r = read_calls(f->log, 0);
	assert_int_equal(call_reader_threads(r), 1);
	text = events_of(r, 0);
	assert_int_equal(strlen(text) / 2, 4 * ROUNDS + 2);
	assert_memory_equal(text, "+a+c+d-d-c", 10);
	assert_string_equal(text + strlen(text) - 6, "-d-c-a");
}

static void look_at_note(const struct trace_event *e)
{
	assert_non_null(strstr(e->note.text, "are not recorded: another module lies 4 GB"));
}

static void modules_that_look_the_same_are_said(void **state)
{
	const struct fixture *f = *state;

	assert_int_equal(run(f, "overlaps", f->log), 0);
	said(f, "test_calltrace_runtime are not recorded: another module lies 4 GB");
	check_times(f->log, "+a+b+c-c-b+b-b-a-e", 1, 0);
	assert_int_equal(count_events(f->log, EVENT_NOTE, look_at_note), 1);
}

static void the_program_may_close_all_descriptors(void **state)
{
	const struct fixture *f = *state;
	scoped(call_reader_closep) struct call_reader *r = NULL;
	scoped(freep) char *text = NULL;

	ran(f, "closes_all");
	r = read_calls(f->log, 0);
	text = events_of(r, 0);
	/* Another a in the place of the first one, which is gone. */
	assert_memory_equal(text, "+a~a+a+b-b-a", 12);
	assert_int_equal(strlen(text) / 2, 20003);
	assert_int_equal(count_events(f->log, EVENT_THREAD, NULL), 1);
}

static void files_that_are_not_ours_any_more_are_left_alone(void **state)
{
	static const char *const ways[] = { "log_moved", "file_changed" };
	const struct fixture *f = *state;

	for (int i = 0; i < 2; i++) {
		scoped(call_reader_closep) struct call_reader *r = NULL;
		scoped(freep) char *text = NULL;
		char command[160];

		assert_int_equal(run(f, ways[i], f->log), 0);
		OK(call_reader_open(f->log, &r));
		assert_int_equal(call_reader_threads(r), 1);
		text = events_of(r, 0);
		assert_string_equal(text, "+a+b+c-c-b+b-b-a-e");
		assert_int_equal(count_events(f->log, EVENT_LOST, look_at_lost), 1);
		assert_int_equal(lost, i == 0 ? 18 : 9);
		snprintf(command, sizeof(command), "rm -r %s", f->log);
		assert_int_equal(system(command), 0);
	}
}

static void calls_beyond_the_depth_are_counted(void **state)
{
	const struct fixture *f = *state;
	scoped(call_reader_closep) struct call_reader *r = NULL;
	scoped(freep) char *text = NULL;

	ran(f, "deep");
	r = read_calls(f->log, 2000);
	text = events_of(r, 0);
	assert_int_equal(strlen(text) / 2, 2u << 20);
	assert_memory_equal(text + strlen(text) - 4, "-a-a", 4);
	assert_int_equal(count_events(f->log, EVENT_LOST, look_at_lost), 1);
	assert_int_equal(lost, 2000);
}

static void an_inlined_function_is_in_its_callers_frame(void **state)
{
	check_act(state, "inlined", "+a+i+b+c-c-b-i-a+b+i~i~b+a-a");
}

static void another_stack_closes_nothing(void **state)
{
	check_act(state, "another_stack", "+a+b-b+c-c-a");
}

static void what_was_flushed_is_there_after_a_crash(void **state)
{
	const struct fixture *f = *state;

	ran(f, "flushes");
	check_times(f->log, "+a+b-b", 1, 0);
}

static void a_module_may_go_and_come(void **state)
{
	const struct fixture *f = *state;
	scoped(call_reader_closep) struct call_reader *r = NULL;
	struct call_batch b;

	ran(f, "unloads");
	r = read_calls(f->log, 0);
	assert_true(call_reader_next(r, 0, &b));
	assert_int_equal(b.n, 4);
	assert_int_equal(b.function[0], 0);
	assert_int_equal(b.function[2], sizeof(NAMES) - 1 + 2);
}

static void look_at_function(const struct trace_event *e)
{
	assert_true(e->function.id < sizeof(NAMES) - 1);
	assert_int_equal(*e->function.name, NAMES[e->function.id]);
	assert_string_equal(e->function.file, "victim.c");
	assert_int_equal(e->function.line, 7);
	assert_int_equal(e->function.return_type, NO_TYPE);
	assert_true(e->function.address > 0 && e->function.address < 1 << 30);
	assert_non_null(strstr(e->function.module, "test_calltrace_runtime"));
}

static void functions_are_in_the_log(void **state)
{
	const struct fixture *f = *state;

	ran(f, "nested");
	assert_int_equal(count_events(f->log, EVENT_FUNCTION, look_at_function), sizeof(NAMES) - 1);
	assert_int_equal(count_events(f->log, EVENT_PROCESS, NULL), 1);
	assert_int_equal(count_events(f->log, EVENT_LOST, NULL), 0);
	assert_false(tracelog_is_recording(f->log));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(nested_calls_nest),
		TEST(a_chain_of_tail_calls_ends_with_its_last),
		TEST(a_tail_call_out_of_what_is_traced_ends_it),
		TEST(what_a_longjmp_leaves_ends_unseen),
		TEST(a_signal_handler_is_in_the_middle),
		TEST(a_turn_may_come_late),
		TEST(a_slot_that_is_not_written_in_time_is_discarded),
		TEST(threads_have_files_of_their_own),
		TEST(a_thread_that_ends_leaves_nothing_behind),
		TEST(recording_can_be_switched),
		TEST(recording_may_begin_switched_off),
		TEST(a_flight_recorder_has_the_last_calls),
		TEST(a_flight_recorder_is_read_once),
		TEST(a_flight_recorder_says_what_is_missing_between_two_readings),
		TEST(a_ring_of_no_size_is_said),
		TEST(a_full_disk_does_not_stop_the_program),
		TEST(a_log_that_cannot_be_made_is_said),
		TEST(a_log_that_exists_is_kept),
		TEST(the_path_may_name_process_and_program),
		TEST(registers_survive),
		TEST(a_child_does_not_write_its_parents_log),
		TEST(a_child_of_a_bare_system_call_does_not_either),
		TEST(a_child_that_shares_memory_is_recorded),
		TEST(modules_that_look_the_same_are_said),
		TEST(the_program_may_close_all_descriptors),
		TEST(files_that_are_not_ours_any_more_are_left_alone),
		TEST(calls_beyond_the_depth_are_counted),
		TEST(an_inlined_function_is_in_its_callers_frame),
		TEST(another_stack_closes_nothing),
		TEST(what_was_flushed_is_there_after_a_crash),
		TEST(a_module_may_go_and_come),
		TEST(functions_are_in_the_log),
	};

	if (argc > 1 && !strcmp(argv[0], "traced"))
		return act(acts, sizeof(acts) / sizeof(*acts), argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
