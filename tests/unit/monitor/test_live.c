/* A session in a process of its own: how it starts, what it is asked, how it ends, and what is left then. */
#include "tests/unit/effort.h"
#include "tests/unit/live_scene.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "watchctl/base/cleanup.h"

#define KILLS 40

static void what_is_written_is_in_the_log(void **state)
{
	struct actor a;
	struct live_options o;
	struct tally t;
	struct live *l;

	(void)state;
	actor_start(&a, "puppet", NULL);
	o = live_on(a.pid, MONITOR_AUTO);
	o.monitor.watch[o.monitor.nwatches++] = write_of("flag");
	l = live_begin(&o);
	assert_int_equal(live_program(l), a.pid);
	assert_string_equal(live_log(l), o.log);
	actor_does(&a, "write 7");
	assert_int_equal(live_tally(l, &t), SESSION_STOPPED);
	assert_account(&t, 0);
	assert_int_equal(t.accesses[0], 7);
	assert_unharmed(a.pid, MONITOR_AUTO);
	actor_end(&a);
}

/* The error of monitor_open(), as it is. */
static void what_cannot_be_watched_is_said_at_once(void **state)
{
	char *const none[] = { "/no/such/program", NULL };
	struct live_options o = live_on(1 << 30, MONITOR_AUTO);
	struct live *l = NULL;
	struct actor a;

	(void)state;
	live_fails(live_start(&o, &l), WC_ETARGET, "no process");
	o = live_on(0, MONITOR_AUTO);
	o.monitor.argv = none;
	live_fails(live_start(&o, &l), WC_EUSAGE, "/no/such/program");
	actor_start(&a, "puppet", NULL);
	o = live_on(a.pid, MONITOR_AUTO);
	o.monitor.watch[o.monitor.nwatches++] = write_of("no_such_variable");
	live_fails(live_start(&o, &l), WC_ENAME, "no_such_variable");
	assert_int_not_equal(access(o.log, F_OK), 0);
	o = live_on(a.pid, MONITOR_AUTO);
	o.log = "/no/such/folder/log";
	live_fails(live_start(&o, &l), WC_ELOG, "/no/such/folder/log");
	assert_null(l);
	assert_unharmed(a.pid, MONITOR_AUTO);
	actor_end(&a);
}

/* Waits for the end of @l as a display does. */
static enum live_state wait_for_end(struct live *l)
{
	const uint64_t end = wait_end_ns();
	struct pollfd p = { .fd = live_fd(l), .events = POLLIN };

	while (live_state(l) == LIVE_RUNS && monotonic_ns() < end)
		poll(&p, 1, 100);
	return live_state(l);
}

static void the_end_of_the_program_ends_the_session(void **state)
{
	(void)state;
	for (int watched = 0; watched < 2; watched++) {
		struct watch_request flag = write_of("flag");
		enum session_end end = SESSION_GAVE_UP;
		struct live_options o;
		uint32_t unused;
		struct actor a;
		struct live *l;

		actor_start(&a, "puppet", NULL);
		o = live_on(a.pid, MONITOR_AUTO);
		o.monitor.nwatches = (unsigned int)watched;
		o.monitor.watch[0] = flag;
		l = live_begin(&o);
		actor_end(&a);
		assert_int_equal(wait_for_end(l), LIVE_ENDED);
		live_fails(live_add(l, &flag, &unused), WC_ETARGET, "ended: the program has ended");
		live_fails(live_remove(l, 0), WC_ETARGET, "ended");
		live_ok(live_stop(l));
		live_ok(live_end(l, &end));
		assert_int_equal(end, SESSION_EXITED);
		live_close(l);
	}
}

static void another_program_ends_it_too_unless_it_is_followed(void **state)
{
	(void)state;
	for (int follow = 0; follow < 2; follow++) {
		enum session_end end = SESSION_GAVE_UP;
		struct live_options o;
		struct actor a;
		struct live *l;
		struct tally t;

		actor_start(&a, "puppet", NULL);
		o = live_on(a.pid, MONITOR_AUTO);
		o.monitor.follow_exec = follow;
		l = live_begin(&o);
		actor_report(&a, "exec 600"); /* sleep */
		if (follow) {
			WAIT_UNTIL(logged_programs(l) >= 2);
			live_tally(l, &t);
			assert_int_equal(t.processes, 2);
		} else {
			assert_int_equal(wait_for_end(l), LIVE_ENDED);
			live_ok(live_end(l, &end));
			assert_int_equal(end, SESSION_EXECED);
			live_close(l);
		}
		kill(a.pid, SIGKILL);
		waitpid(a.pid, NULL, 0);
		fclose(a.in);
		fclose(a.out);
	}
}

/* "SigIgn:\t..." of a process that prints its own status. */
static unsigned long long status_field(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	if (!at)
		fail_msg("no %s in: %s", name, text);
	return strtoull(at + strlen(name), NULL, 16);
}

static void read_all(int fd, char *buf, size_t size)
{
	size_t n = 0;
	ssize_t got;

	while (n + 1 < size && (got = read(fd, buf + n, size - 1 - n)) > 0)
		n += (size_t)got;
	buf[n] = '\0';
}

/* As the kernel has it: the C library keeps those two for itself, and touches them in no other program. */
static void set_library_signals(long action)
{
	const long set[4] = { action };

	for (long sig = 32; sig < 34; sig++)
		assert_int_equal(syscall(SYS_rt_sigaction, sig, set, NULL, sizeof(uint64_t)), 0);
}

/* Whatever the display has done with signals, files and its terminal is no business of the program. */
static void a_launched_program_begins_as_if_from_nowhere(void **state)
{
	static char script[] = "cat; cat /proc/self/status; echo $(ls /proc/self/fd); exec sleep 0.2";
	char sh[] = "/bin/sh", c[] = "-c", text[16384];
	char *const argv[] = { sh, c, script, NULL };
	struct sigaction ignore = { .sa_handler = SIG_IGN }, old_int, old_tstp;
	struct live_options o = live_on(0, MONITOR_AUTO);
	int out[2], leaked = open("/dev/null", O_RDONLY);
	enum session_end end = SESSION_GAVE_UP;
	struct live *l;
	sigset_t set, old;

	(void)state;
	assert_int_equal(pipe(out), 0);
	sigaction(SIGINT, &ignore, &old_int);
	sigaction(SIGTSTP, &ignore, &old_tstp);
	set_library_signals((long)SIG_IGN);
	sigfillset(&set);
	sigprocmask(SIG_BLOCK, &set, &old);
	o.monitor.argv = argv;
	o.monitor.follow_exec = true;
	o.program_fd[1] = out[1];
	l = live_begin(&o);
	sigprocmask(SIG_SETMASK, &old, NULL);
	sigaction(SIGINT, &old_int, NULL);
	sigaction(SIGTSTP, &old_tstp, NULL);
	set_library_signals((long)SIG_DFL);
	close(out[1]);
	read_all(out[0], text, sizeof(text)); /* ends with the program: nobody else holds it */
	close(out[0]);
	close(leaked);
	assert_int_equal(status_field(text, "SigIgn:\t"), 0);
	assert_int_equal(status_field(text, "SigBlk:\t"), 0);
	assert_non_null(strstr(text, "\n0 1 2 3\n")); /* 3: of ls itself */
	assert_int_equal(wait_for_end(l), LIVE_ENDED);
	live_ok(live_end(l, &end));
	assert_int_equal(end, SESSION_EXITED);
	live_close(l);
}

static void a_launched_program_lives_on_and_is_watched_from_its_first_instruction(void **state)
{
	char path[256];
	char *const argv[] = { path, NULL };
	struct live_options o = live_on(0, MONITOR_AUTO);
	struct watch_request ratio = write_of("v_double");
	int in[2], out[2];
	struct tally t;
	struct actor a;
	struct live *l;
	char line[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/puppet", victim_dir);
	assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
	o.monitor.argv = argv;
	o.monitor.watch[o.monitor.nwatches++] = write_of("flag");
	o.program_fd[0] = in[0];
	o.program_fd[1] = out[1];
	l = live_begin(&o);
	close(in[0]);
	close(out[1]);
	a = (struct actor){ live_program(l), fdopen(in[1], "w"), fdopen(out[0], "r") };
	assert_non_null(fgets(line, sizeof(line), a.out));
	assert_int_equal(atoi(line + 4), a.pid);
	actor_does(&a, "write 4");
	live_adds(l, &ratio);
	actor_does(&a, "types");
	live_tally(l, &t);
	assert_account(&t, 0);
	assert_account(&t, 1);
	assert_int_equal(t.accesses[0], 4);
	assert_int_equal(t.accesses[1], 1);
	assert_unharmed(a.pid, MONITOR_AUTO);
	actor_does(&a, "write 1");
	fclose(a.in);
	WAIT_UNTIL(!process_lives(a.pid));
	fclose(a.out);
}

/* The process of the session on @pid; 0: none. */
static pid_t session_of(pid_t pid)
{
	char path[64], text[256], want[64];
	scoped(closedirp) DIR *dir = opendir("/proc");
	struct dirent *d;
	int len = snprintf(want, sizeof(want), "watchctl%clive-session%c-p%c%d%c", 0, 0, 0, pid, 0);

	while ((d = readdir(dir))) {
		ssize_t n;
		int fd;

		snprintf(path, sizeof(path), "/proc/%.20s/cmdline", d->d_name);
		fd = atoi(d->d_name) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
		n = fd < 0 ? -1 : read(fd, text, sizeof(text));
		closep(&fd);
		if (n >= len && !memcmp(text, want, (size_t)len))
			return atoi(d->d_name);
	}
	return 0;
}

static void a_session_that_is_killed_leaves_the_program_alone_and_says_so(void **state)
{
	static const enum monitor_engine engines[] = { MONITOR_HANDLER, MONITOR_RING, MONITOR_PTRACE };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct watch_request flag = write_of("flag");
		enum session_end end;
		struct wc_error *err;
		struct live_options o;
		uint32_t unused;
		pid_t session;
		struct actor a;
		struct live *l;

		actor_start(&a, "puppet", NULL);
		o = live_on(a.pid, engines[i]);
		o.monitor.watch[o.monitor.nwatches++] = flag;
		l = live_begin(&o);
		actor_does(&a, "write 9");
		session = session_of(a.pid);
		assert_true(session > 0);
		kill(session, SIGKILL);
		assert_int_equal(wait_for_end(l), LIVE_ENDED);
		live_fails(live_add(l, &flag, &unused), WC_ETARGET, "ended: the session's process");
		live_fails(live_end(l, &end), WC_EFAIL, "killed by signal 9");
		/* The reason has been handed out: none is made up. */
		err = live_add(l, &flag, &unused);
		assert_string_equal(err->text, "the session has ended");
		wc_error_free(err);
		live_close(l);
		actor_does(&a, "write 9");
		assert_unharmed(a.pid, engines[i]);
		actor_end(&a);
	}
}

/* A display that does what it can do, until it is killed. */
static void be_a_display(pid_t pid, enum monitor_engine engine)
{
	struct watch_request counter = write_of("counter"), scratch = write_of("scratch");
	struct live_options o = live_on(pid, engine);
	struct wc_error *err;
	struct live *l;
	uint32_t id;

	o.log = NULL;
	o.monitor.watch[o.monitor.nwatches++] = scratch;
	for (;;) {
		err = live_start(&o, &l);
		for (int n = 0; n < 3 && !err; n++) {
			err = live_add(l, &counter, &id);
			if (!err)
				err = live_enable(l, id, false);
			if (!err)
				err = live_enable(l, id, true);
			if (!err)
				err = live_remove(l, id);
		}
		if (err)
			fprintf(stderr, "display: %s\n", err->text);
		if (err)
			_exit(1);
		live_close(l);
	}
}

static size_t entries(const char *path)
{
	scoped(closedirp) DIR *dir = opendir(path);
	size_t n = 0;

	while (readdir(dir))
		n++;
	return n - 2;
}

enum outlived { OUTLIVED = 0, STAYS, ENDED_BEFORE };

/* In a process to which all come that a display leaves behind, at whatever moment of their lives: until none
 * is left. */
static __attribute__((noreturn)) void outlive_display(pid_t pid, enum monitor_engine engine, long ms)
{
	const uint64_t end = wait_end_ns();
	pid_t display, got = 0;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	display = fork();
	if (!display)
		be_a_display(pid, engine);
	pause_ms(ms);
	if (waitpid(display, NULL, WNOHANG))
		_exit(ENDED_BEFORE);
	kill(display, SIGKILL);
	while (got >= 0 && monotonic_ns() < end) {
		got = waitpid(-1, NULL, WNOHANG);
		if (!got)
			wait_a_little();
	}
	_exit(got < 0 ? OUTLIVED : STAYS);
}

static void a_display_that_is_killed_takes_its_session_along_and_no_more(void **state)
{
	static const enum monitor_engine engines[] = { MONITOR_HANDLER, MONITOR_RING, MONITOR_PTRACE };
	unsigned int seed = 6;
	char run[300];

	(void)state;
	snprintf(run, sizeof(run), "%s/run", victim_dir);
	assert_int_equal(mkdir(run, 0700), 0);
	setenv("XDG_RUNTIME_DIR", run, 1);
	for (unsigned int n = 0; n < effort(KILLS); n++) {
		enum monitor_engine engine = engines[n % 3];
		struct actor a;
		pid_t between;
		int status;

		actor_start(&a, "hammer", "2");
		between = fork();
		if (!between)
			outlive_display(a.pid, engine, rand_r(&seed) % 400);
		waitpid(between, &status, 0);
		assert_true(WIFEXITED(status));
		if (WEXITSTATUS(status) != OUTLIVED)
			fail_msg("%s", WEXITSTATUS(status) == STAYS
					       ? "something of the session stays"
					       : "the display has ended before it was killed");
		assert_int_equal(session_of(a.pid), 0);
		assert_int_equal(entries(run), 0);
		assert_unharmed(a.pid, engine);
		assert_true(hammer_end(&a) > 0);
	}
	unsetenv("XDG_RUNTIME_DIR");
}

static uint64_t logged_accesses(const char *log)
{
	struct tally t;

	tally_log(log, &t);
	return t.accesses[0];
}

static void a_launched_program_lives_on_when_its_display_is_killed(void **state)
{
	char path[256], two[] = "2", line[64];
	char *const argv[] = { path, two, NULL };
	struct live_options o = live_on(0, MONITOR_AUTO);
	struct actor a = { 0 };
	pid_t display;
	int out[2];

	(void)state;
	snprintf(path, sizeof(path), "%s/hammer", victim_dir);
	assert_int_equal(pipe(out), 0);
	display = fork();
	if (!display) {
		struct live *l;

		o.monitor.argv = argv;
		o.program_fd[1] = out[1];
		o.monitor.watch[o.monitor.nwatches++] = write_of("counter");
		if (live_start(&o, &l))
			_exit(1);
		pause();
	}
	close(out[1]);
	a.out = fdopen(out[0], "r");
	assert_non_null(fgets(line, sizeof(line), a.out));
	a.pid = atoi(line + 4);
	WAIT_UNTIL(logged_accesses(o.log) > 0);
	kill(display, SIGKILL);
	waitpid(display, NULL, 0);
	assert_unharmed(a.pid, MONITOR_AUTO); /* which waits until nothing is armed any more */
	kill(a.pid, SIGTERM);
	assert_non_null(fgets(line, sizeof(line), a.out));
	assert_int_equal(strncmp(line, "total ", 6), 0);
	fclose(a.out);
}

/* Reads what has come; returns the accesses. */
static unsigned int follow(struct tracelog_reader *r)
{
	enum log_outcome outcome = LOG_EVENT;
	struct trace_event e;
	unsigned int n = 0;

	while (outcome == LOG_EVENT) {
		live_ok(tracelog_next(r, &e, &outcome));
		n += outcome == LOG_EVENT && e.type == EVENT_ACCESS;
	}
	return n;
}

static void what_happens_can_be_followed_at_once_in_a_log_of_its_own(void **state)
{
	struct watch_request flag = write_of("flag");
	struct tracelog_reader *r = NULL;
	char log[300], folder[300];
	struct live_options o;
	uint64_t slowest = 0;
	struct stat st;
	struct actor a;
	struct live *l;

	(void)state;
	setenv("XDG_RUNTIME_DIR", victim_dir, 1);
	actor_start(&a, "puppet", NULL);
	o = live_on(a.pid, MONITOR_AUTO);
	o.log = NULL;
	l = live_begin(&o);
	snprintf(log, sizeof(log), "%s", live_log(l));
	snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(log, '/') - log), log);
	assert_int_equal(strncmp(folder, victim_dir, strlen(victim_dir)), 0);
	assert_int_equal(stat(folder, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	live_ok(tracelog_reader_open(log, &r));
	tracelog_follow(r);
	live_adds(l, &flag);
	for (int i = 0; i < 10; i++) {
		uint64_t start;
		unsigned int n = 0;

		actor_does(&a, "write 1");
		start = monotonic_ns();
		WAIT_UNTIL((n += follow(r)) > 0);
		assert_int_equal(n, 1);
		start = monotonic_ns() - start;
		slowest = start > slowest ? start : slowest;
	}
	print_message("an access could be read after %llu ms at the latest\n",
		      (unsigned long long)slowest / 1000000);
	tracelog_reader_close(r);
	live_close(l);
	assert_int_not_equal(stat(folder, &st), 0);
	assert_unharmed(a.pid, MONITOR_AUTO);
	actor_end(&a);
	unsetenv("XDG_RUNTIME_DIR");
}

/* Long texts come whole, or are refused. */
static void what_is_too_long_is_refused(void **state)
{
	static char name[70000];
	struct watch_request w = write_of(name);
	struct live_options o;
	uint32_t id = 77;
	struct actor a;
	struct live *l;

	(void)state;
	actor_start(&a, "puppet", NULL);
	o = live_on(a.pid, MONITOR_AUTO);
	l = live_begin(&o);
	memset(name, 'x', sizeof(name) - 1);
	live_fails(live_add(l, &w, &id), WC_EUSAGE, "too long");
	name[30000] = '\0';
	live_fails(live_add(l, &w, &id), WC_ENAME, "xxxx");
	assert_int_equal(id, 77);
	assert_int_equal(live_state(l), LIVE_RUNS);
	live_close(l);
	assert_unharmed(a.pid, MONITOR_AUTO);
	actor_end(&a);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_in_the_log),
		cmocka_unit_test(what_cannot_be_watched_is_said_at_once),
		cmocka_unit_test(the_end_of_the_program_ends_the_session),
		cmocka_unit_test(another_program_ends_it_too_unless_it_is_followed),
		cmocka_unit_test(a_launched_program_begins_as_if_from_nowhere),
		cmocka_unit_test(a_launched_program_lives_on_and_is_watched_from_its_first_instruction),
		cmocka_unit_test(a_session_that_is_killed_leaves_the_program_alone_and_says_so),
		cmocka_unit_test(what_is_too_long_is_refused),
		cmocka_unit_test(what_happens_can_be_followed_at_once_in_a_log_of_its_own),
		cmocka_unit_test(a_launched_program_lives_on_when_its_display_is_killed),
		cmocka_unit_test(a_display_that_is_killed_takes_its_session_along_and_no_more),
	};

	if (live_session_asked(argc, argv))
		return live_session_main();
	if (!scene_has_hardware())
		return 77;
	return cmocka_run_group_tests(tests, scene_setup, victim_cleanup);
}
