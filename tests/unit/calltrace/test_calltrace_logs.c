/* Logs that a traced program begins, ends, clears, finds and deletes: see traced_run.h. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static unsigned int traced_flags(void)
{
	const char *text = getenv("TRACED_FLAGS");

	return text ? (unsigned int)atoi(text) : 0;
}

#define TRACED_FLAGS traced_flags()
#include "calltrace/calltrace.h"
#include "tests/unit/calltrace/traced.h"
#include "tests/unit/calltrace/traced_run.h"

TRACED_FUNCTION(a, 0);
TRACED_FUNCTION(b, 0);
TRACED_FUNCTION(c, 0);
TRACED_FUNCTION(d, 0);
TRACED_FUNCTION(e, 0);
TRACED_FUNCTION(inl, 1);

#define S1 0x70001000u
#define S2 0x70000f00u
#define S3 0x70000e00u
#define SLOTS (CALLTRACE_CHUNK / sizeof(struct calltrace_slot))

/* In an act: a number for what went wrong. */
#define TRY(number, claim)               \
	do {                             \
		if (!(claim))            \
			return (number); \
	} while (0)

static void call_twice(uint64_t rounds)
{
	for (uint64_t i = 0; i < rounds; i++) {
		ENTER(a, S1);
		ENTER(b, S2);
		LEAVE(b, S2);
		LEAVE(a, S1);
	}
}

/* Acts of the traced program */

static int two_logs(void)
{
	call_twice(1);
	TRY(1, calltrace_deinitialize() == 0 && !calltrace_enabled());
	call_twice(1);
	TRY(2, calltrace_deinitialize() == -ENOENT && calltrace_flush() == -ENOENT);
	TRY(3, calltrace_enable() == -ENOENT && calltrace_clear() == -ENOENT);
	TRY(4, calltrace_initialize() == 0 && calltrace_initialize() == 0 && calltrace_enabled());
	ENTER(c, S1);
	LEAVE(c, S1);
	return 0;
}

static int open_calls(void)
{
	ENTER(a, S1);
	ENTER(b, S2);
	TRY(1, calltrace_deinitialize() == 0);
	ENTER(c, S3);
	TRY(2, calltrace_initialize() == 0);
	LEAVE(c, S3);
	LEAVE(b, S2);
	ENTER(d, S2);
	LEAVE(d, S2);
	LEAVE(a, S1);
	return 0;
}

static int refused(void)
{
	call_twice(1);
	TRY(1, calltrace_deinitialize() == 0 && calltrace_initialize() == -EEXIST);
	setenv("CALLTRACE_OUTPUT", "/tmp/%x", 1);
	TRY(2, calltrace_initialize() == -EINVAL);
	setenv("CALLTRACE_OUTPUT", "", 1);
	TRY(3, calltrace_initialize() == -ENOENT);
	unsetenv("CALLTRACE_OUTPUT");
	TRY(4, calltrace_initialize() == -ENOENT);
	call_twice(1);
	return 0;
}

static int waits(void)
{
	call_twice(1);
	TRY(1, access(getenv("CALLTRACE_OUTPUT"), F_OK) < 0);
	TRY(2, calltrace_enable() == -ENOENT && calltrace_flush() == -ENOENT);
	TRY(3, calltrace_initialize() == 0);
	ENTER(c, S1);
	LEAVE(c, S1);
	return 0;
}

/* It never begins. */
static int waits_for_ever(void)
{
	call_twice(1);
	return calltrace_enabled();
}

static int is_on(void)
{
	call_twice(1);
	return calltrace_enabled() ? 0 : 1;
}

static int is_off(void)
{
	call_twice(1);
	TRY(1, !calltrace_enabled() && calltrace_enable() == 0);
	ENTER(c, S1);
	LEAVE(c, S1);
	return 0;
}

static pthread_barrier_t begin, end;

static void *lives_on(void *arg)
{
	if (arg)
		call_twice(1);
	pthread_barrier_wait(&begin);
	pthread_barrier_wait(&end);
	ENTER(c, S1);
	LEAVE(c, S1);
	return NULL;
}

static void *does_not(void *arg)
{
	call_twice(1);
	pthread_barrier_wait(&begin);
	return NULL;
}

static int threads_go_on(void)
{
	pthread_t t[3];

	pthread_barrier_init(&begin, NULL, 4);
	pthread_barrier_init(&end, NULL, 3);
	pthread_create(&t[0], NULL, lives_on, &begin);
	pthread_create(&t[1], NULL, lives_on, NULL);
	pthread_create(&t[2], NULL, does_not, NULL);
	pthread_barrier_wait(&begin);
	pthread_join(t[2], NULL);
	TRY(1, calltrace_deinitialize() == 0 && calltrace_initialize() == 0);
	pthread_barrier_wait(&end);
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	return 0;
}

/* As code that a signal has interrupted between taking a slot and writing it, or that was slow. */
static int late_slot(void)
{
	struct calltrace_slot *slot;

	call_twice(1);
	slot = traced_take();
	call_twice(10); /* known to be written to nobody but this thread's own turn */
	TRY(1, calltrace_deinitialize() == 0 && calltrace_initialize() == 0);
	traced_write(slot, traced_what(CALLTRACE_ENTRY, &record_c), S3);
	ENTER(d, S3 - 64);
	LEAVE(d, S3 - 64);
	LEAVE(c, S3);
	call_twice(3 * SLOTS / 4);
	return 0;
}

/* Code that has seen its module on. */
static void record_anyway(size_t n)
{
	const uint32_t what = traced_what(CALLTRACE_ENTRY, &record_e);

	for (size_t i = 0; i < n; i++) {
		struct calltrace_slot *slot = traced_take();

		traced_write(slot, what, S1);
		if (traced_is_last(slot))
			traced_turn(what, S1);
	}
}

static void *anyway(void *arg)
{
	record_anyway((size_t)arg);
	pthread_barrier_wait(&begin);
	pthread_barrier_wait(&end);
	call_twice(SLOTS);
	return NULL;
}

/* Turns and first turns while there is no log. */
static int between_logs(void)
{
	pthread_t t[2];

	pthread_barrier_init(&begin, NULL, 3);
	pthread_barrier_init(&end, NULL, 3);
	call_twice(1);
	TRY(1, calltrace_deinitialize() == 0);
	record_anyway(3 * SLOTS + 5);
	pthread_create(&t[0], NULL, anyway, (void *)1);
	pthread_create(&t[1], NULL, anyway, (void *)(SLOTS + 7));
	pthread_barrier_wait(&begin);
	TRY(2, calltrace_initialize() == 0);
	pthread_barrier_wait(&end);
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	call_twice(SLOTS);
	return 0;
}

/* A library that is loaded while there is no log, and one that goes meanwhile. */
static int modules(void)
{
	TRY(1, calltrace_deinitialize() == 0);
	__calltrace_unregister(__start_calltrace_functions);
	traced_begin();
	TRY(2, !traced_on && calltrace_initialize() == 0 && traced_on);
	call_twice(1);
	return 0;
}

/* Twice the same table, as two libraries 4 GB apart. */
static int overlaps(void)
{
	static uint8_t on;

	__calltrace_register(__start_calltrace_functions + 1, __stop_calltrace_functions, &on, 0);
	TRY(1, calltrace_deinitialize() == 0 && calltrace_initialize() == 0 && !on);
	call_twice(1);
	return 0;
}

/* The log is gone, and the numbers of its descriptors are closed: the next module cannot be written. */
static int gives_up(void)
{
	char other[128];

	snprintf(other, sizeof(other), "%s.other", getenv("CALLTRACE_OUTPUT"));
	call_twice(1);
	TRY(1, rename(getenv("CALLTRACE_OUTPUT"), other) == 0);
	for (int fd = 3; fd < 64; fd++)
		close(fd);
	__calltrace_unregister(__start_calltrace_functions);
	traced_begin();
	TRY(2, !traced_on && calltrace_flush() == -ENOENT);
	TRY(3, calltrace_initialize() == 0);
	ENTER(c, S1);
	LEAVE(c, S1);
	return 0;
}

static int child_output(void)
{
	char output[128];

	snprintf(output, sizeof(output), "%s.child.%%n", getenv("CALLTRACE_OUTPUT"));
	return setenv("CALLTRACE_OUTPUT", output, 1);
}

static void *calls_and_waits(void *arg)
{
	call_twice(1);
	pthread_barrier_wait(&begin);
	for (;;)
		pause();
	return NULL;
}

static void *calls(void *arg)
{
	ENTER(c, S1);
	LEAVE(c, S1);
	return NULL;
}

static int in_child(void)
{
	pthread_t t;

	call_twice(SLOTS);
	TRY(1, !calltrace_enabled() && child_output() == 0);
	TRY(2, calltrace_initialize() == 0 && calltrace_initialize() == 0);
	ENTER(b, S2);
	LEAVE(b, S2);
	LEAVE(a, S1); /* the parent's */
	pthread_create(&t, NULL, calls, NULL);
	pthread_join(t, NULL);
	TRY(3, calltrace_deinitialize() == 0 && calltrace_initialize() == 0);
	call_twice(1);
	return 0;
}

/* LeakSanitizer waits for the threads of its parent in a child, and says that they do not stop. */
static bool is_child;

int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return is_child;
}

static int forks(void)
{
	pthread_t t;
	pid_t child;
	int status;

	pthread_barrier_init(&begin, NULL, 2);
	pthread_create(&t, NULL, calls_and_waits, NULL);
	pthread_barrier_wait(&begin);
	ENTER(a, S1);
	child = fork();
	if (!child) {
		is_child = true;
		exit(in_child());
	}
	waitpid(child, &status, 0);
	LEAVE(a, S1);
	return status;
}

static int forks_raw(void)
{
	pid_t child;
	int status;

	call_twice(1);
	child = (pid_t)syscall(SYS_fork);
	if (!child) {
		record_anyway(3 * SLOTS);
		_exit(calltrace_initialize() == -ENOTSUP ? 0 : 1);
	}
	waitpid(child, &status, 0);
	return status;
}

static int clears(void)
{
	ENTER(a, S1);
	TRY(1, calltrace_flush() == 0);
	ENTER(b, S2);
	LEAVE(b, S2);
	ENTER(c, S2);
	TRY(2, calltrace_clear() == 0);
	LEAVE(c, S2);
	ENTER(d, S2);
	LEAVE(d, S2);
	LEAVE(a, S1);
	return 0;
}

/* A turn has made events of them, of which the file needs the exit. */
static int clears_packet(void)
{
	ENTER(e, S1 + 256);
	ENTER(c, S1 + 64);
	TRY(1, calltrace_flush() == 0);
	LEAVE(c, S1 + 64);
	call_twice(SLOTS / 4);
	ENTER(c, S1);
	TRY(2, calltrace_clear() == 0);
	LEAVE(c, S1);
	LEAVE(e, S1 + 256);
	call_twice(1);
	return 0;
}

static int clears_hole(void)
{
	struct calltrace_slot *slot;

	call_twice(1);
	slot = traced_take();
	call_twice(5);
	TRY(1, calltrace_clear() == 0);
	traced_write(slot, traced_what(CALLTRACE_ENTRY, &record_c), S3);
	LEAVE(c, S3);
	return 0;
}

static int clears_all(void)
{
	call_twice(SLOTS);
	TRY(1, calltrace_clear() == 0);
	ENTER(c, S1);
	LEAVE(c, S1);
	return 0;
}

/* Closed logs */

#define FOUND_MAX 8

struct found {
	size_t n, stop_at;
	char path[FOUND_MAX][128];
	uint64_t bytes[FOUND_MAX];
	int64_t modified_s[FOUND_MAX];
};

static int on_log(const char *path, uint64_t bytes, int64_t modified_s, void *ctx)
{
	struct found *f = ctx;

	snprintf(f->path[f->n], sizeof(f->path[0]), "%s", path);
	f->bytes[f->n] = bytes;
	f->modified_s[f->n] = modified_s;
	f->n++;
	if (calltrace_enabled() < 0) /* it may be called */
		return 99;
	return f->n == f->stop_at ? 7 : 0;
}

static size_t find_logs(struct found *f)
{
	*f = (struct found){ 0 };
	return calltrace_logs(on_log, f) == 0 ? f->n : 100;
}

static bool is_log(const struct found *f, size_t i, const char *dir, const char *name)
{
	const size_t len = strlen(dir);

	return !strncmp(f->path[i], dir, len) && f->path[i][len] == '/' &&
	       !strcmp(f->path[i] + len + 1, name);
}

static void make_output(const char *dir, const char *pattern)
{
	char output[200];

	snprintf(output, sizeof(output), "%s/%s", dir, pattern);
	setenv("CALLTRACE_OUTPUT", output, 1);
}

static int shell(const char *dir, const char *command)
{
	char text[400];

	snprintf(text, sizeof(text), "cd '%s' && %s", dir, command);
	return system(text);
}

/* The directory of the test. */
static void own_directory(char *ret)
{
	snprintf(ret, 64, "%s", getenv("CALLTRACE_OUTPUT"));
	*strrchr(ret, '/') = '\0';
}

/* Logs run.1.0 to run.1.3, of which the last is being recorded. */
static int make_logs(const char *dir)
{
	TRY(80, calltrace_deinitialize() == 0);
	for (int i = 0; i < 4; i++) {
		char name[32];

		TRY(81, i == 0 || calltrace_deinitialize() == 0);
		snprintf(name, sizeof(name), "run.1.%d", i);
		make_output(dir, name);
		TRY(82, calltrace_initialize() == 0);
		call_twice(1);
	}
	return 0;
}

static int lists(void)
{
	struct found f;
	char dir[64];

	own_directory(dir);
	TRY(1, make_logs(dir) == 0);
	TRY(2,
	    shell(dir,
		  "touch run.5.5 && mkdir run.6.6 run.7.7 && echo x >run.7.7/metadata && ln -s run.1.0 run.8.8 && "
		  "cp -r run.1.0 run.01.1 && cp -r run.1.0 run.1.x && cp -r run.1.0 run.9. && "
		  "touch -d @1000000000 run.1.1/* && touch run.1.2/mine && cp -r run.1.0 run.300.40") == 0);
	make_output(dir, "run.%p.%n");
	TRY(3, find_logs(&f) == 4);
	TRY(4, is_log(&f, 0, dir, "run.1.0") && is_log(&f, 1, dir, "run.1.1") &&
		       is_log(&f, 2, dir, "run.1.2") && is_log(&f, 3, dir, "run.300.40"));
	TRY(5, f.modified_s[1] == 1000000000 && f.modified_s[0] > 1000000000);
	TRY(6, f.bytes[0] > 100 && f.bytes[0] == f.bytes[3]);
	f = (struct found){ .stop_at = 2 };
	TRY(7, calltrace_logs(on_log, &f) == 7 && f.n == 2);
	make_output(dir, "run.1.0");
	TRY(8, find_logs(&f) == 1 && is_log(&f, 0, dir, "run.1.0"));
	make_output(dir, "run.1.3"); /* ours */
	TRY(9, find_logs(&f) == 0);
	TRY(10, shell(dir, "mkdir 17 && cp -r run.1.0 17/traced.log") == 0);
	make_output(dir, "%p//%e.log");
	TRY(11, find_logs(&f) == 1 && is_log(&f, 0, dir, "17/traced.log"));
	make_output(dir, "%%%p");
	TRY(12, find_logs(&f) == 0);
	make_output(dir, "none/%p");
	TRY(13, find_logs(&f) == 0);
	make_output(dir, "%x");
	TRY(14, calltrace_logs(on_log, &f) == -EINVAL);
	TRY(15, chdir(dir) == 0);
	setenv("CALLTRACE_OUTPUT", "run.%n.%p", 1);
	TRY(16, find_logs(&f) == 4 && is_log(&f, 3, dir, "run.300.40"));
	unsetenv("CALLTRACE_OUTPUT");
	TRY(17, calltrace_logs(on_log, &f) == -ENOENT && calltrace_delete_logs_older_than(0) == -ENOENT);
	return 0;
}

static int deletes(void)
{
	struct found f;
	char dir[64];

	own_directory(dir);
	TRY(1, make_logs(dir) == 0);
	TRY(2,
	    shell(dir,
		  "touch keep && cp -r run.1.0 run.2.0 && cp -r run.1.0 run.2.1 && cp -r run.1.0 run.2.2 && "
		  "cp -r run.1.0 elsewhere && ln -s elsewhere run.4.4 && touch run.2.1/mine && mkdir run.2.2/calls.0 && "
		  "ln -s ../keep run.2.0/calls.0000000009 && touch run.1.0/.symbols.77 && "
		  "touch -d @1000000000 run.*/* run.1.0/.symbols.77 elsewhere/*") == 0);
	make_output(dir, "run.%p.%n");
	TRY(3, calltrace_delete_logs_older_than(-1) == -EINVAL);
	TRY(4, calltrace_delete_logs_older_than(2000000000) == 0 && find_logs(&f) == 6);
	TRY(5, calltrace_delete_logs_older_than(1000) == 3);
	TRY(6, find_logs(&f) == 3 && is_log(&f, 0, dir, "run.2.0") && is_log(&f, 1, dir, "run.2.1") &&
		       is_log(&f, 2, dir, "run.2.2"));
	TRY(7,
	    shell(dir,
		  "test -e keep && test -e elsewhere/metadata && test -h run.4.4 && test -e run.2.1/mine && "
		  "test -e run.2.1/events && test -d run.2.2/calls.0 && test -e run.1.3/metadata && "
		  "test ! -e run.1.0") == 0);
	call_twice(1);
	return calltrace_flush();
}

/* Many threads, all the time. */

static atomic_bool is_over;

static void *busy(void *arg)
{
	while (!is_over)
		call_twice(100);
	return NULL;
}

/* Results depend on what the main thread does. */
static void *meddles(void *arg)
{
	while (!is_over) {
		calltrace_flush();
		calltrace_disable();
		calltrace_clear();
		calltrace_enable();
		call_twice(10);
	}
	return NULL;
}

#define BUSY 4
#define ROUNDS 50

static int stress(void)
{
	pthread_t t[BUSY];

	for (int i = 0; i < BUSY; i++)
		pthread_create(&t[i], NULL, i ? busy : meddles, NULL);
	for (int i = 0; i < ROUNDS; i++) {
		TRY(1, calltrace_clear() == 0 && calltrace_flush() == 0);
		TRY(2, calltrace_deinitialize() == 0 && calltrace_initialize() == 0);
	}
	is_over = true;
	for (int i = 0; i < BUSY; i++)
		pthread_join(t[i], NULL);
	return 0;
}

static const struct act acts[] = {
	{ "two_logs", two_logs },
	{ "open_calls", open_calls },
	{ "refused", refused },
	{ "waits", waits },
	{ "waits_for_ever", waits_for_ever },
	{ "is_on", is_on },
	{ "is_off", is_off },
	{ "threads_go_on", threads_go_on },
	{ "late_slot", late_slot },
	{ "between_logs", between_logs },
	{ "modules", modules },
	{ "overlaps", overlaps },
	{ "gives_up", gives_up },
	{ "forks", forks },
	{ "forks_raw", forks_raw },
	{ "clears", clears },
	{ "clears_packet", clears_packet },
	{ "clears_hole", clears_hole },
	{ "clears_all", clears_all },
	{ "lists", lists },
	{ "deletes", deletes },
	{ "stress", stress },
};

/* Tests */

/* The log LOG.suffix. */
static const char *log_of(const struct fixture *f, const char *suffix)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s%s", f->log, suffix);
	return path;
}

static void ran_numbered(const struct fixture *f, const char *name)
{
	char output[128];

	snprintf(output, sizeof(output), "%s.%%n", f->log);
	assert_int_equal(run(f, name, output), 0);
	said(f, "");
}

static void a_log_ends_and_another_begins(void **state)
{
	const struct fixture *f = *state;

	ran_numbered(f, "two_logs");
	check_times(log_of(f, ".0"), "+a+b-b-a", 1, 0);
	check_times(log_of(f, ".1"), "+c-c", 1, 0);
	for (int i = 0; i < 2; i++) {
		const char *log = log_of(f, i ? ".1" : ".0");

		assert_int_equal(count_events(log, EVENT_FUNCTION, NULL), sizeof(NAMES) - 1);
		assert_int_equal(count_events(log, EVENT_PROCESS, NULL), 1);
		assert_int_equal(count_events(log, EVENT_LOST, NULL), 0);
		assert_false(tracelog_is_recording(log));
	}
}

static void calls_that_are_open_are_of_the_log_they_began_in(void **state)
{
	const struct fixture *f = *state;

	ran_numbered(f, "open_calls");
	check_times(log_of(f, ".0"), "+a+b", 1, 0);
	check_times(log_of(f, ".1"), "-c-b+d-d-a", 1, 0);
}

static void a_log_that_cannot_begin_is_refused(void **state)
{
	const struct fixture *f = *state;

	assert_int_equal(run(f, "refused", f->log), 0);
	said(f, "exists already");
	check_times(f->log, "+a+b-b-a", 1, 0);
}

static void run_with_flags(const struct fixture *f, const char *flags, const char *name)
{
	setenv("TRACED_FLAGS", flags, 1);
	ran(f, name);
	unsetenv("TRACED_FLAGS");
}

static void a_module_may_wait_for_the_program(void **state)
{
	const struct fixture *f = *state;

	run_with_flags(f, "2", "waits_for_ever");
	assert_int_not_equal(access(f->log, F_OK), 0);
	run_with_flags(f, "2", "waits");
	check_times(f->log, "+c-c", 1, 0);
	assert_int_equal(count_events(f->log, EVENT_FUNCTION, NULL), sizeof(NAMES) - 1);
}

static void a_module_may_start_off(void **state)
{
	const struct fixture *f = *state;

	run_with_flags(f, "1", "is_off");
	check_times(f->log, "+c-c", 1, 0);
}

static void the_environment_overrides_how_a_module_starts(void **state)
{
	const struct fixture *f = *state;

	setenv("CALLTRACE_ENABLE", "1", 1);
	run_with_flags(f, "1", "is_on");
	unsetenv("CALLTRACE_ENABLE");
	check_times(f->log, "+a+b-b-a", 1, 0);
}

/* How many threads have left @expect in @log; others have left nothing else. */
static size_t threads_with(const char *log, const char *expect)
{
	scoped(call_reader_closep) struct call_reader *r = read_calls(log, 0);
	size_t n = 0;

	for (size_t i = 0; i < call_reader_threads(r); i++) {
		scoped(freep) char *text = events_of(r, i);

		n += !strcmp(text, expect);
	}
	return n;
}

static void threads_go_on_in_the_next_log(void **state)
{
	const struct fixture *f = *state;

	ran_numbered(f, "threads_go_on");
	assert_int_equal(threads_with(log_of(f, ".0"), "+a+b-b-a"), 2);
	assert_int_equal(threads_with(log_of(f, ".1"), "+c-c"), 2);
	assert_int_equal(count_events(log_of(f, ".0"), EVENT_THREAD, NULL), 3);
	assert_int_equal(count_events(log_of(f, ".1"), EVENT_THREAD, NULL), 3);
}

static uint64_t lost;

static void look_at_lost(const struct trace_event *e)
{
	lost = e->lost.count;
}

static void a_slot_that_is_written_late_is_of_the_next_log(void **state)
{
	const struct fixture *f = *state;
	scoped(call_reader_closep) struct call_reader *r = NULL;
	scoped(freep) char *text = NULL;

	ran_numbered(f, "late_slot");
	check_times(log_of(f, ".0"), "+a+b-b-a", 1, 40);
	assert_int_equal(count_events(log_of(f, ".0"), EVENT_LOST, look_at_lost), 1);
	assert_int_equal(lost, 40);
	r = read_calls(log_of(f, ".1"), 0);
	text = events_of(r, 0);
	assert_memory_equal(text, "+c+d-d-c+a+b-b-a", 16);
	assert_int_equal(strlen(text) / 2, 4 + 3 * SLOTS);
	assert_int_equal(count_events(log_of(f, ".1"), EVENT_LOST, NULL), 0);
}

static void what_happens_between_two_logs_is_in_neither(void **state)
{
	const struct fixture *f = *state;
	scoped(call_reader_closep) struct call_reader *r = NULL;

	ran_numbered(f, "between_logs");
	check_times(log_of(f, ".0"), "+a+b-b-a", 1, 0);
	assert_int_equal(count_events(log_of(f, ".1"), EVENT_LOST, NULL), 0);
	r = read_calls(log_of(f, ".1"), 0);
	assert_int_equal(call_reader_threads(r), 3);
	for (size_t i = 0; i < 3; i++) {
		scoped(freep) char *text = events_of(r, i);

		assert_int_equal(strlen(text), 8 * SLOTS);
		assert_memory_equal(text, "+a+b-b-a", 8);
	}
}

static void modules_may_come_while_there_is_no_log(void **state)
{
	const struct fixture *f = *state;

	ran_numbered(f, "modules");
	check_times(log_of(f, ".1"), "+a+b-b-a", 1, 0);
	assert_int_equal(count_events(log_of(f, ".1"), EVENT_FUNCTION, NULL), sizeof(NAMES) - 1);
}

static void look_at_refused(const struct trace_event *e)
{
	assert_non_null(strstr(e->note.text, "whose calls are not recorded: 1"));
}

static void a_module_that_was_refused_is_noted_in_the_next_log(void **state)
{
	const struct fixture *f = *state;
	char output[128];

	snprintf(output, sizeof(output), "%s.%%n", f->log);
	assert_int_equal(run(f, "overlaps", output), 0);
	check_times(log_of(f, ".1"), "+a+b-b-a", 1, 0);
	assert_int_equal(count_events(log_of(f, ".1"), EVENT_NOTE, look_at_refused), 1);
}

static void a_log_that_was_given_up_is_followed_by_another(void **state)
{
	const struct fixture *f = *state;

	assert_int_equal(run(f, "gives_up", f->log), 0);
	said(f, "the program goes on untraced");
	check_times(f->log, "+c-c", 1, 0);
}

static void look_at_process(const struct trace_event *e)
{
	lost = (uint64_t)e->process.pid;
}

static void a_child_may_have_a_log_of_its_own(void **state)
{
	static const char *const rings[] = { "", "128K" };
	const struct fixture *f = *state;

	for (int i = 0; i < 2; i++) {
		uint64_t parent;

		setenv("CALLTRACE_RING", rings[i], 1);
		ran(f, "forks");
		unsetenv("CALLTRACE_RING");
		assert_int_equal(threads_with(f->log, "+a-a"), 1);
		assert_int_equal(threads_with(f->log, "+a+b-b-a"), 1);
		count_events(f->log, EVENT_PROCESS, look_at_process);
		parent = lost;
		assert_int_equal(threads_with(log_of(f, ".child.0"), "+b-b-a"), 1);
		assert_int_equal(threads_with(log_of(f, ".child.0"), "+c-c"), 1);
		count_events(log_of(f, ".child.0"), EVENT_PROCESS, look_at_process);
		assert_int_not_equal(lost, parent);
		check_times(log_of(f, ".child.1"), "+a+b-b-a", 1, 0);
		assert_int_equal(shell(f->dir, "rm -r log*"), 0);
	}
}

static void a_child_of_a_bare_system_call_may_not(void **state)
{
	const struct fixture *f = *state;

	ran(f, "forks_raw");
	check_times(f->log, "+a+b-b-a", 1, 0);
}

static void look_at_note(const struct trace_event *e)
{
	if (strstr(e->note.text, "has cleared"))
		lost++;
}

static void check_cleared(const struct fixture *f, const char *name, const char *expect)
{
	ran(f, name);
	check_times(f->log, expect, 1, 0);
	lost = 0;
	count_events(f->log, EVENT_NOTE, look_at_note);
	assert_int_equal(lost, 1);
	assert_int_equal(count_events(f->log, EVENT_LOST, NULL), 0);
}

static void what_is_cleared_is_forgotten_and_not_lost(void **state)
{
	check_cleared(*state, "clears", "+a~a-c+d-d-a");
}

static void the_exits_that_the_file_needs_are_not_cleared(void **state)
{
	check_cleared(*state, "clears_packet", "+e+c-c~e-c-e+a+b-b-a");
}

static void a_slot_that_is_written_late_is_not_cleared(void **state)
{
	check_cleared(*state, "clears_hole", "+c-c");
}

static void a_flight_recorder_can_be_cleared(void **state)
{
	setenv("CALLTRACE_RING", "256K", 1);
	check_cleared(*state, "clears_all", "+c-c");
	unsetenv("CALLTRACE_RING");
}

static void closed_logs_are_found_by_the_pattern(void **state)
{
	const struct fixture *f = *state;

	assert_int_equal(run(f, "lists", f->log), 0);
}

static void old_logs_are_deleted_and_nothing_else_is(void **state)
{
	const struct fixture *f = *state;

	assert_int_equal(run(f, "deletes", f->log), 0);
}

/* Each exit is that of the innermost call, or of one that was entered before. */
static void check_nested(const char *text)
{
	char open[8];
	size_t n = 0;

	for (; *text; text += 2) {
		if (*text == '+') {
			assert_true(n < sizeof(open));
			open[n++] = text[1];
		} else if (n) {
			assert_int_equal(open[--n], text[1]);
		}
	}
}

static void threads_that_never_stop_leave_logs_that_nest(void **state)
{
	static const char *const rings[] = { "", "128K" };
	const struct fixture *f = *state;

	for (int ring = 0; ring < 2; ring++) {
		setenv("CALLTRACE_RING", rings[ring], 1);
		ran_numbered(f, "stress");
		unsetenv("CALLTRACE_RING");
		for (int i = 0; i <= ROUNDS; i++) {
			scoped(call_reader_closep) struct call_reader *r = NULL;
			struct call_damage d;
			char suffix[16];

			snprintf(suffix, sizeof(suffix), ".%d", i);
			OK(call_reader_open(log_of(f, suffix), &r));
			for (size_t k = 0; k < call_reader_threads(r); k++) {
				scoped(freep) char *text = events_of(r, k);

				call_reader_damage(r, &d);
				if (!d.discarded)
					check_nested(text);
			}
			call_reader_damage(r, &d);
			assert_int_equal(d.packets + d.ignored, 0);
		}
		assert_int_equal(shell(f->dir, "rm -r log*"), 0);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(a_log_ends_and_another_begins),
		TEST(calls_that_are_open_are_of_the_log_they_began_in),
		TEST(a_log_that_cannot_begin_is_refused),
		TEST(a_module_may_wait_for_the_program),
		TEST(a_module_may_start_off),
		TEST(the_environment_overrides_how_a_module_starts),
		TEST(threads_go_on_in_the_next_log),
		TEST(a_slot_that_is_written_late_is_of_the_next_log),
		TEST(what_happens_between_two_logs_is_in_neither),
		TEST(modules_may_come_while_there_is_no_log),
		TEST(a_module_that_was_refused_is_noted_in_the_next_log),
		TEST(a_log_that_was_given_up_is_followed_by_another),
		TEST(a_child_may_have_a_log_of_its_own),
		TEST(a_child_of_a_bare_system_call_may_not),
		TEST(what_is_cleared_is_forgotten_and_not_lost),
		TEST(the_exits_that_the_file_needs_are_not_cleared),
		TEST(a_slot_that_is_written_late_is_not_cleared),
		TEST(a_flight_recorder_can_be_cleared),
		TEST(closed_logs_are_found_by_the_pattern),
		TEST(old_logs_are_deleted_and_nothing_else_is),
		TEST(threads_that_never_stop_leave_logs_that_nest),
	};

	if (argc > 1 && !strcmp(argv[0], "traced"))
		return act(acts, sizeof(acts) / sizeof(*acts), argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
