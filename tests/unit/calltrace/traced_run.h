/*
 * traced_run - tests of which each runs its program again as a traced one, which does one thing, and reads the log that it
 * leaves. Its functions have names of one letter.
 */
#ifndef TESTS_UNIT_CALLTRACE_TRACED_RUN_H
#define TESTS_UNIT_CALLTRACE_TRACED_RUN_H

#include "tests/unit/tracelog_fixture.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/trace/calls/call_reader.h"

#define NAMES "abcdei" /* by number; again, when they are registered again */

struct act {
	const char *name;
	int (*run)(void);
};

static inline int act(const struct act *acts, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(acts[i].name, name))
			return acts[i].run();
	return 100;
}

/* Returns its exit status; what it said is in DIR/stderr. */
static inline int run(const struct fixture *f, const char *name, const char *output)
{
	char path[128];
	pid_t child;
	int status;

	snprintf(path, sizeof(path), "%s/stderr", f->dir);
	child = fork();
	if (!child) {
		int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		const struct rlimit limit = { 1u << 28, 1u << 28 };

		dup2(fd, STDERR_FILENO);
		close(fd);
		setrlimit(RLIMIT_FSIZE, &limit); /* one that goes wrong does not fill the disk */
		alarm(120);
		setenv("CALLTRACE_OUTPUT", output, 1);
		execl("/proc/self/exe", "traced", name, NULL);
		_exit(101);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static inline void said(const struct fixture *f, const char *part)
{
	char path[128], text[1024];
	FILE *file;

	snprintf(path, sizeof(path), "%s/stderr", f->dir);
	file = fopen(path, "re");
	assert_non_null(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	if (*part ? !strstr(text, part) : *text)
		fail_msg("\"%s\" does not say \"%s\"", text, part);
}

/*
 * A thread's events: "+f" entry, "-f" exit, "~f" exit not seen, the first letter of its name; "!t" one of the program's
 * own, the last digit of its type.
 */
static inline char *events_of(struct call_reader *r, size_t thread)
{
	struct call_batch b;
	size_t len = 0;
	char *text = NULL;
	FILE *out = open_memstream(&text, &len);

	while (call_reader_next(r, thread, &b))
		for (size_t i = 0; i < b.n; i++)
			fprintf(out, "%c%c", "+-~!"[b.what[i]],
				b.what[i] == CALL_MORE ? (int)('0' + b.function[i] % 10)
						       : NAMES[b.function[i] % (sizeof(NAMES) - 1)]);
	fclose(out);
	return text;
}

static inline struct call_reader *read_calls(const char *log, uint64_t discarded)
{
	struct call_reader *r;
	struct call_damage d;

	OK(call_reader_open(log, &r));
	for (size_t i = 0; i < call_reader_threads(r); i++)
		free(events_of(r, i));
	call_reader_damage(r, &d);
	assert_int_equal(d.packets + d.ignored, 0);
	assert_int_equal(d.discarded, discarded);
	for (size_t i = 0; i < call_reader_threads(r); i++)
		call_reader_seek(r, i, 0);
	return r;
}

/* The only thread of the program has left @expect, @times times. */
static inline void check_times(const char *log, const char *expect, size_t times, uint64_t discarded)
{
	scoped(call_reader_closep) struct call_reader *r = read_calls(log, discarded);
	scoped(freep) char *text = NULL;

	assert_int_equal(call_reader_threads(r), 1);
	text = events_of(r, 0);
	assert_int_equal(strlen(text), strlen(expect) * times);
	if (times == 1)
		assert_string_equal(text, expect);
	for (size_t i = 0; i < times; i++)
		assert_memory_equal(text + i * strlen(expect), expect, strlen(expect));
}

static inline void ran(const struct fixture *f, const char *name)
{
	assert_int_equal(run(f, name, f->log), 0);
	said(f, "");
}

static inline void check_act(void **state, const char *name, const char *expect)
{
	const struct fixture *f = *state;

	ran(f, name);
	check_times(f->log, expect, 1, 0);
}

/* How many events of @type the log has; the last of them is handed to @look. */
static inline size_t count_events(const char *log, enum event_type type,
				  void (*look)(const struct trace_event *e))
{
	scoped(tracelog_reader_closep) struct tracelog_reader *r = NULL;
	enum log_outcome outcome;
	struct trace_event e;
	size_t n = 0;

	OK(tracelog_reader_open(log, &r));
	for (;;) {
		OK(tracelog_next(r, &e, &outcome));
		if (outcome != LOG_EVENT)
			break;
		n += e.type == type;
		if (e.type == type && look)
			look(&e);
	}
	assert_int_equal(outcome, LOG_END);
	return n;
}

#endif
