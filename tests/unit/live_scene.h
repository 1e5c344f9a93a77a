/*
 * Live sessions on real victims: started, told what to do, and afterwards the log against what the victim
 * says. main() of such a test begins as live_session.h says.
 */
#ifndef TESTS_UNIT_LIVE_SCENE_H
#define TESTS_UNIT_LIVE_SCENE_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/loc_victim.h"
#include "tests/unit/wait.h"
#include "watchctl/base/clock.h"
#include "watchctl/engine/arm/perf_bp.h"
#include "watchctl/monitor/live/live.h"
#include "watchctl/monitor/live/live_session.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/debugreg.h"
#include "watchctl/target/stop/tracee.h"

#define IDS 64u /* watches of one session */

/* A program that obeys its standard input, like puppet. */
struct actor {
	pid_t pid;
	FILE *in, *out;
};

static inline void actor_start(struct actor *a, const char *name, const char *arg)
{
	char path[256], line[128];
	int in[2], out[2];

	snprintf(path, sizeof(path), "%s/%s", victim_dir, name);
	assert_int_equal(pipe(in) | pipe(out), 0);
	fflush(NULL);
	a->pid = fork();
	assert_true(a->pid >= 0);
	if (!a->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* of a test that fails, too */
		dup2(in[0], 0);
		dup2(out[1], 1);
		for (int fd = 3; fd < 64; fd++)
			close(fd);
		execl(path, path, arg, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	a->in = fdopen(in[1], "w");
	a->out = fdopen(out[0], "r");
	assert_non_null(fgets(line, sizeof(line), a->out));
	assert_int_equal(atoi(line + strcspn(line, "0123456789")), a->pid);
}

static inline void actor_report(const struct actor *a, const char *line)
{
	fprintf(a->in, "%s\n", line);
	fflush(a->in);
}

static inline void actor_does(const struct actor *a, const char *line)
{
	char answer[256] = "";

	actor_report(a, line);
	assert_non_null(fgets(answer, sizeof(answer), a->out));
	if (strncmp(answer, "ok", 2) != 0)
		fail_msg("%s: %s", line, answer);
}

static inline bool process_lives(pid_t pid)
{
	struct proc_status s;

	return proc_status_read(pid, pid, &s) && s.state != 'Z' && s.state != 'X';
}

/* As ptrace sees it: of the ptrace engine; perf keeps its slots reserved, but empty, as long as the thread
 * lives. */
static inline uint64_t ptraced_dr7(pid_t pid)
{
	uint64_t dr7 = 0;
	struct tracee t;

	if (tracee_stop(pid, pid, 1000, &t) != TRACEE_STOPPED)
		return UINT64_MAX;
	debugreg_read(pid, DEBUGREG_CONTROL, &dr7);
	tracee_release(&t);
	return dr7 & 0xff;
}

/* Alive, untraced, without a register that is armed. */
static inline void assert_unharmed(pid_t pid, enum monitor_engine engine)
{
	const uint64_t end = wait_end_ns();
	struct proc_status s;
	int used;

	for (;;) { /* the kernel takes a moment to take apart what a process held */
		used = engine == MONITOR_PTRACE ? ptraced_dr7(pid) != 0 : perf_bp_used(pid);
		if (!used || !process_lives(pid) || monotonic_ns() > end)
			break;
		wait_a_little();
	}
	if (!process_lives(pid)) {
		int status = 0;

		waitpid(pid, &status, 0);
		fail_msg("process %d has ended, with status 0x%x", pid, status);
	}
	assert_true(proc_status_read(pid, pid, &s));
	assert_int_equal(s.tracer, 0);
	if (used > 0)
		fail_msg("%d debug registers of process %d are still armed", used, pid);
}

static inline void actor_end(struct actor *a)
{
	int status = 0;

	fclose(a->in);
	waitpid(a->pid, &status, 0);
	fclose(a->out);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* hammer ends at SIGTERM, and says how often it has written its counter. */
static inline uint64_t hammer_end(struct actor *a)
{
	char line[128] = "";
	unsigned long long total = 0;

	kill(a->pid, SIGTERM);
	if (!fgets(line, sizeof(line), a->out) || sscanf(line, "total %llu", &total) != 1)
		fail_msg("the hammer says: %s", line);
	actor_end(a);
	return total;
}

/* What a log says of each watch. */
struct tally {
	uint64_t accesses[IDS], reported[IDS];
	struct summary_event summary[IDS];
	uint64_t summaries[IDS], late[IDS]; /* late: accesses after the summary */
	uint64_t processes, execs;
	char notes[8192];
};

static inline void tally_one(struct tally *t, const struct trace_event *e)
{
	switch (e->type) {
	case EVENT_ACCESS:
		assert_true(e->access.watch < IDS);
		assert_true(t->reported[e->access.watch] > 0);
		t->accesses[e->access.watch]++;
		t->late[e->access.watch] += t->summaries[e->access.watch];
		break;
	case EVENT_WATCH:
		assert_true(e->watch.id < IDS);
		assert_int_equal(t->summaries[e->watch.id], 0); /* ids are not used again */
		t->reported[e->watch.id]++;
		break;
	case EVENT_SUMMARY:
		if (e->summary.watch >= IDS)
			break;
		t->summaries[e->summary.watch]++;
		t->summary[e->summary.watch] = e->summary;
		break;
	case EVENT_PROCESS:
		t->processes++;
		break;
	case EVENT_LOST:
		if (strlen(t->notes) + strlen(e->lost.why) + 2 < sizeof(t->notes))
			strcat(strcat(t->notes, e->lost.why), "\n");
		break;
	case EVENT_NOTE:
		if (strlen(t->notes) + strlen(e->note.text) + 2 < sizeof(t->notes))
			strcat(strcat(t->notes, e->note.text), "\n");
		break;
	default:
		break;
	}
}

static inline void tally_log(const char *path, struct tally *t)
{
	struct tracelog_reader *r = NULL;
	struct wc_error *err = tracelog_reader_open(path, &r);
	enum log_outcome outcome = LOG_EVENT;
	struct trace_event e;

	memset(t, 0, sizeof(*t));
	if (err)
		fail_msg("%s", err->text);
	while (outcome == LOG_EVENT) {
		assert_null(tracelog_next(r, &e, &outcome));
		if (outcome == LOG_EVENT)
			tally_one(t, &e);
	}
	tracelog_reader_close(r);
}

/* What holds for every watch that was ever armed, whatever happened. */
static inline void assert_account(const struct tally *t, uint32_t id)
{
	const struct summary_event *s = &t->summary[id];

	assert_true(id < IDS);
	if (t->summaries[id] != 1)
		fail_msg("watch %u has %llu summaries", id, (unsigned long long)t->summaries[id]);
	assert_int_equal(t->late[id], 0);
	assert_int_equal(t->accesses[id], s->recorded);
	if (s->has_counted && s->recorded + s->filtered + s->lost != s->counted)
		fail_msg("watch %u: %llu recorded + %llu filtered + %llu lost are not %llu counted", id,
			 (unsigned long long)s->recorded, (unsigned long long)s->filtered,
			 (unsigned long long)s->lost, (unsigned long long)s->counted);
}

static inline struct watch_request write_of(const char *expr)
{
	return (struct watch_request){ .expr = expr, .access = ACCESS_WRITE, .slot = -1 };
}

/* A log of its own for each session of the tests. */
static inline struct live_options live_on(pid_t pid, enum monitor_engine engine)
{
	static char path[256];
	static unsigned int n;

	snprintf(path, sizeof(path), "%s/log%u", victim_dir, n++);
	return (struct live_options){
		.log = path,
		.monitor = { .pid = pid,
			     .engine = engine,
			     .frames = 16,
			     .buffer_size = 8u << 20,
			     .tag_frames = 16,
			     .tag_ring_size = 1u << 20 },
		.program_fd = { -1, -1, -1 },
	};
}

static inline struct live *live_begin(const struct live_options *o)
{
	struct live *l = NULL;
	struct wc_error *err = live_start(o, &l);

	if (err)
		fail_msg("live_start: %s", err->text);
	assert_int_equal(live_state(l), LIVE_RUNS);
	return l;
}

static inline uint32_t live_adds(struct live *l, const struct watch_request *w)
{
	uint32_t id = UINT32_MAX;
	struct wc_error *err = live_add(l, w, &id);

	if (err)
		fail_msg("live_add %s: %s", w->expr, err->text);
	return id;
}

static inline void live_ok(struct wc_error *err)
{
	if (err)
		fail_msg("%s", err->text);
}

static inline void live_fails(struct wc_error *err, enum wc_kind kind, const char *part)
{
	assert_non_null(err);
	if (err->kind != kind || !strstr(err->text, part))
		fail_msg("not the error that was expected, but %d: %s", err->kind, err->text);
	wc_error_free(err);
}

/* Ends it, tallies its log into @t, and closes. */
static inline enum session_end live_tally(struct live *l, struct tally *t)
{
	enum session_end end = SESSION_GAVE_UP;

	live_ok(live_stop(l));
	assert_int_equal(live_state(l), LIVE_ENDED);
	live_ok(live_end(l, &end));
	tally_log(live_log(l), t);
	live_close(l);
	return end;
}

/* How often the log of a session says so by now. */
static inline uint64_t logged_programs(const struct live *l)
{
	struct tally t;

	tally_log(live_log(l), &t);
	return t.processes;
}

static inline uint64_t logged_places(const struct live *l, uint32_t id)
{
	struct tally t;

	tally_log(live_log(l), &t);
	return t.reported[id];
}

/* Where tests go on at a random moment. What has a condition is waited for: wait.h. */
static inline void pause_ms(long ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

static inline int scene_setup(void **state)
{
	int failed = victim_setup(state);

	signal(SIGPIPE, SIG_IGN);
	if (!failed && !victim_sh("gcc -O2 -g -pthread -o @/puppet tests/victims/puppet.c -ldl && "
				  "gcc -O2 -g -pthread -o @/hammer tests/victims/hammer.c && "
				  "gcc -O2 -g -pthread -o @/mover tests/victims/mover.c && "
				  "gcc -O2 -g -pthread -o @/lifecycle tests/victims/lifecycle.c && "
				  "gcc -O2 -g -shared -fPIC -o @/libplugin.so tests/victims/plugin.c"))
		failed = -1;
	return failed;
}

/* No debug registers, or not permitted: the reason is printed. */
static inline bool scene_has_hardware(void)
{
	int used = perf_bp_used(getpid());

	if (used < 0)
		print_message("skipped: perf breakpoints cannot be used here\n");
	return used >= 0;
}

#endif
