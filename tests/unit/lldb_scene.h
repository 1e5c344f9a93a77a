/*
 * lldb_scene - for tests of what LLDB moves: a program that writes down its own calls
 * (tests/victims/lldb_calls.c), and the LLDB stepper on it. Addresses and sizes of functions are nm(1)'s.
 */
#ifndef TESTS_UNIT_LLDB_SCENE_H
#define TESTS_UNIT_LLDB_SCENE_H

#include <ctype.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/lldb_leaks.h"
#include "tests/unit/wait.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/step/lldb/stepper_lldb.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/launch.h"
#include "watchctl/target/stop/run_to_entry.h"

#define LINES_MAX 4000
#define LINE_LEN 64
#define FUNCTIONS_MAX 32

static char folder[] = "/tmp/test_mover_lldb.XXXXXX";
static char victim[128], account[128];

struct lines {
	char v[LINES_MAX][LINE_LEN];
	size_t n;
};

struct function {
	char name[64];
	uint64_t address, size;
};

static struct function function[FUNCTIONS_MAX];
static size_t nfunctions;

struct scene {
	struct stepper *m;
	struct tracee held;
	pid_t pid;
	uint64_t bias;
	struct lines *reported, *accounted;
	char over[LINE_LEN]; /* how the recording ended */
	size_t insns, blocked, threads_reported, signals, forks, ranges;
	int blocked_syscall;
	int signal_code;
	enum range_what last_range;
	unsigned int flags_seen; /* CALL_ */
	uint64_t from_seen, to_seen;
	int status;
	bool creators; /* of each thread told but the first, the creator was known */
};

static inline void add_line(struct lines *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline void add_line(struct lines *l, const char *fmt, ...)
{
	va_list ap;

	assert_true(l->n < LINES_MAX);
	va_start(ap, fmt);
	vsnprintf(l->v[l->n++], LINE_LEN, fmt, ap);
	va_end(ap);
}

/* The victim */

static inline void read_symbols(void)
{
	char line[256], type;
	unsigned long address, size;
	char command[256], name[64];
	FILE *f;

	snprintf(command, sizeof(command), "nm -S %s", victim);
	f = popen(command, "r");
	assert_non_null(f);
	nfunctions = 0;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx %lx %c %63s", &address, &size, &type, name) == 4 &&
		    toupper(type) == 'T' && nfunctions < FUNCTIONS_MAX) {
			struct function *fn = &function[nfunctions++];

			snprintf(fn->name, sizeof(fn->name), "%s", name);
			fn->address = address;
			fn->size = size;
		}
	pclose(f);
	assert_true(nfunctions > 10);
}

static inline int build_victim(void **state)
{
	char command[512];

	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(victim, sizeof(victim), "%s/victim", folder);
	snprintf(account, sizeof(account), "%s/account", folder);
	snprintf(command, sizeof(command),
		 "gcc -O1 -g -pthread -fno-optimize-sibling-calls tests/victims/lldb_calls.c -o %s", victim);
	if (system(command))
		return -1;
	read_symbols();
	return 0;
}

static inline int remove_victim(void **state)
{
	char command[256];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

/* Recorded are those that write themselves down. */
static inline bool is_recorded(const char *name)
{
	static const char *const names[] = { "leaf",  "middle",	 "recurse", "begin",  "finish",
					     "jumps", "inner",	 "lands",   "handle", "compare",
					     "sorts", "threads", "sleeps",  "forks" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}

static struct function *by_name(const char *name)
{
	for (size_t i = 0; i < nfunctions; i++)
		if (!strcmp(function[i].name, name))
			return &function[i];
	fail_msg("the victim has no function %s", name);
	return NULL;
}

static inline void ok(struct wc_error *err)
{
	if (!err)
		return;
	fail_msg("%s", err->text);
}

static inline void say(void *ctx, const char *fmt, ...)
{
	(void)ctx;
	(void)fmt;
}

static inline uint64_t bias_of(pid_t pid)
{
	struct module_list modules = { 0 };
	uint64_t bias = 0;

	ok(module_list_read(pid, &modules));
	for (size_t i = 0; i < modules.n; i++)
		if (!strcmp(modules.v[i].path, victim))
			bias = modules.v[i].bias;
	module_list_deinit(&modules);
	return bias;
}

/* The points of the recorded functions come first, in the order of function[]: see name_of_point(). */
static inline void give_points(struct scene *s, const char *from, const char *to)
{
	struct stepper_code code = { UINT64_MAX, 0 };

	for (size_t i = 0; i < nfunctions; i++) {
		struct step_point p = { .address = s->bias + function[i].address, .size = function[i].size };

		if (p.address < code.start)
			code.start = p.address;
		if (p.address + p.size > code.end)
			code.end = p.address + p.size;
		if (is_recorded(function[i].name))
			ok(stepper_lldb.add_points(s->m, &p, 1));
	}
	if (from) {
		struct step_point p = { .address = s->bias + by_name(from)->address,
					.use = POINT_FROM,
					.is_function = true };

		ok(stepper_lldb.add_points(s->m, &p, 1));
	}
	if (to) {
		struct step_point p = { .address = s->bias + by_name(to)->address, .use = POINT_TO };

		ok(stepper_lldb.add_points(s->m, &p, 1));
	}
	ok(stepper_lldb.set_code(s->m, &code, 1));
}

static const char *name_of_point(uint32_t point)
{
	uint32_t n = 0;

	for (size_t i = 0; i < nfunctions; i++)
		if (is_recorded(function[i].name) && n++ == point)
			return function[i].name;
	return "?";
}

static inline void start_victim(struct scene *s, char *const argv[], struct stepper_options *o)
{
	ok(launch_start(argv, LAUNCH_RANDOM, &s->held));
	s->pid = s->held.pid;
	ok(run_to_entry(&s->held));
	s->bias = bias_of(s->pid);
	o->pid = s->pid;
	o->held = &s->held;
}

static inline struct stepper_options defaults(void)
{
	return (struct stepper_options){ .range = { .occurrence = 1 }, .stack_bytes = 16384, .say = say };
}

static inline long value(const struct fetched *f)
{
	long v = 0;

	assert_non_null(f);
	assert_int_equal(f->n, 1);
	assert_int_equal(f->len[0], sizeof(v));
	memcpy(&v, f->bytes + f->at[0], sizeof(v));
	return v;
}

static inline void take(struct scene *s, const struct step_record *r)
{
	static const struct step_plan plan = {
		.entry = { .n = 1, .v = { { .op = FETCH_GPR, .reg = WREG_RDI, .len = 8 } } },
		.leave = { .n = 1, .v = { { .op = FETCH_GPR, .reg = WREG_RAX, .len = 8 } } },
	};
	const char *name = name_of_point(r->point);

	switch (r->kind) {
	case STEP_NEED_PLAN:
		ok(stepper_lldb.set_plan(s->m, r->point, &plan));
		break;
	case STEP_MODULES:
		ok(stepper_lldb.modules_done(s->m));
		break;
	case STEP_ENTRY:
		s->flags_seen |= r->call->flags;
		add_line(s->reported, "call %s %ld", name, strcmp(name, "compare") ? value(r->fetched) : 0);
		break;
	case STEP_RETURN:
		if (r->how == RETURN_RETURNED)
			add_line(s->reported, "return %s %ld", name, value(r->fetched));
		else
			add_line(s->reported, "left %s %d", name, (int)r->how);
		break;
	case STEP_INSN:
		s->insns++;
		break;
	case STEP_SIGNAL:
		s->signals++;
		s->signal_code = r->code;
		break;
	case STEP_THREAD:
		s->creators &= !s->threads_reported || (r->creator == s->pid && r->creating_call);
		s->threads_reported++;
		assert_true(r->stack_start < r->stack_end);
		break;
	case STEP_RANGE:
		s->ranges++;
		s->last_range = r->range_what;
		break;
	case STEP_BLOCKED:
		s->blocked++;
		s->blocked_syscall = r->syscall;
		assert_true(r->stack_len > 0);
		break;
	case STEP_FORK:
		s->forks++;
		break;
	case STEP_EXEC:
	case STEP_EXIT:
	case STEP_DONE:
		s->status = r->status;
		snprintf(s->over, sizeof(s->over), "%s",
			 r->kind == STEP_EXEC	? "exec"
			 : r->kind == STEP_EXIT ? "exit"
						: "done");
		break;
	default:
		break;
	}
}

static inline void read_account(struct lines *l)
{
	char line[LINE_LEN];
	FILE *f = fopen(account, "r");

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		add_line(l, "%s", line);
	}
	fclose(f);
}

static inline void scene_open(struct scene *s)
{
	memset(s, 0, sizeof(*s));
	s->reported = calloc(1, sizeof(*s->reported));
	s->accounted = calloc(1, sizeof(*s->accounted));
	assert_non_null(s->reported);
	assert_non_null(s->accounted);
	s->creators = true;
}

static inline void scene_close(struct scene *s)
{
	struct stepper_counts c;

	if (s->m) {
		stepper_lldb.counts(s->m, &c);
		s->from_seen = c.from_seen;
		s->to_seen = c.to_seen;
		ok(stepper_lldb.close(s->m));
	}
	free(s->reported);
	free(s->accounted);
}

/* Pumps until the recording is over, or @until_ms have passed. */
static inline void pump(struct scene *s, int until_ms)
{
	uint64_t end = monotonic_ns() + (uint64_t)until_ms * 1000000u;

	while (!s->over[0] && monotonic_ns() < end) {
		const struct step_record *r = NULL;

		ok(stepper_lldb.next(s->m, 50, &r));
		if (r)
			take(s, r);
	}
}

/* Records the whole of a run of @what with @o, and reads the victim's account of it. */
static inline void record(struct scene *s, const char *what, struct stepper_options o, const char *from,
			  const char *to)
{
	char *argv[] = { victim, (char *)what, account, NULL };

	scene_open(s);
	start_victim(s, argv, &o);
	o.range.has_from = from;
	o.range.has_to = to;
	o.range.from_is_function = from;
	ok(stepper_lldb.open(&o, &s->m));
	give_points(s, from, to);
	ok(stepper_lldb.start(s->m));
	pump(s, wait_ms());
	assert_string_not_equal(s->over, "");
}

static inline int wait_for(pid_t pid)
{
	int status = -1;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static inline void assert_same_lines(const struct lines *a, const struct lines *b)
{
	for (size_t i = 0; i < a->n || i < b->n; i++)
		assert_string_equal(i < a->n ? a->v[i] : "(nothing)", i < b->n ? b->v[i] : "(nothing)");
}

static inline int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

static inline void sort_lines(struct lines *l)
{
	qsort(l->v, l->n, LINE_LEN, by_text);
}

#endif
