/*
 * mover_scene - the ptrace stepper at work on a child of ours: it runs functions of the test program itself, so
 * that points are plain addresses, and counts by itself what the stepper has to find.
 */
#ifndef TESTS_UNIT_STEPPER_SCENE_H
#define TESTS_UNIT_STEPPER_SCENE_H

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/wait.h"
#include "watchctl/base/clock.h"
#include "watchctl/step/model/stepper.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/trace/call_values.h"

const char *__lsan_default_options(void);

/* LeakSanitizer fails in a child that is traced, and changes how that ends. */
__attribute__((used)) const char *__lsan_default_options(void)
{
	return "detect_leaks=0";
}

#define SEEN_MAX 40000u
#define VICTIM __attribute__((noinline, noclone, unused))
#define SCENE static __attribute__((unused))

extern char __executable_start, etext;

/* What a child shows: shared with it. */
struct reported {
	volatile int count[8];
	volatile int done;
};

struct seen {
	enum step_kind kind;
	pid_t tid;
	uint32_t point;
	enum return_how how;
	enum range_what what;
	struct track_call call;
	uint64_t value; /* the first that was fetched */
	int32_t signal, status, syscall;
	pid_t child, creator;
	uint32_t stack_len;
	uint64_t rip;
	char why[200];
};

struct scene {
	pid_t pid;
	int go;
	struct reported *reported;
	struct stepper *m;
	struct seen *seen;
	size_t n;
	struct step_plan plan[16];
};

SCENE struct reported *reported; /* in the child too */

SCENE struct seen *seen_of(const struct scene *s, enum step_kind kind, uint32_t point, size_t nth)
{
	size_t i;

	for (i = 0; i < s->n; i++)
		if (s->seen[i].kind == kind && (point == UINT32_MAX || s->seen[i].point == point) && !nth--)
			return &s->seen[i];
	return NULL;
}

SCENE size_t count_of(const struct scene *s, enum step_kind kind, uint32_t point)
{
	size_t i, n = 0;

	for (i = 0; i < s->n; i++)
		n += s->seen[i].kind == kind && (point == UINT32_MAX || s->seen[i].point == point);
	return n;
}

SCENE size_t count_how(const struct scene *s, enum return_how how)
{
	size_t i, n = 0;

	for (i = 0; i < s->n; i++)
		n += s->seen[i].kind == STEP_RETURN && s->seen[i].how == how;
	return n;
}

SCENE void check(struct wc_error *err)
{
	if (err)
		fail_msg("%s", err->text);
}

/* The child waits for a byte, does @life and stays until it is killed, or ends if that returns 0. */
SCENE void set_up(struct scene *s, void (*life)(void))
{
	int p[2];

	memset(s, 0, sizeof(*s));
	s->reported = reported = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_int_equal(pipe(p), 0);
	s->seen = calloc(SEEN_MAX, sizeof(*s->seen));
	s->pid = fork();
	if (!s->pid) {
		char c;

		close(p[1]);
		if (read(p[0], &c, 1) != 1)
			_exit(99);
		life();
		reported->done = 1;
		if (read(p[0], &c, 1) != 1)
			_exit(0);
		_exit(0);
	}
	close(p[0]);
	s->go = p[1];
}

SCENE void go(const struct scene *s)
{
	assert_int_equal(write(s->go, "x", 1), 1);
}

/* What the child's code is, byte by byte, is what ours is: nobody ever put a breakpoint into that. */
SCENE void check_code(const struct scene *s)
{
	size_t len = (size_t)(&etext - &__executable_start);
	char *code = malloc(len);
	struct memory_view mem = proc_memory(&s->pid);

	if (memory_read(&mem, (uintptr_t)&__executable_start, code, len))
		assert_memory_equal(code, &__executable_start, len);
	free(code);
}

SCENE void close_stepper(struct scene *s)
{
	if (s->m)
		check(stepper_ptrace.close(s->m));
	s->m = NULL;
	check_code(s);
}

SCENE void tear_down(struct scene *s)
{
	close_stepper(s);
	close(s->go);
	kill(s->pid, SIGKILL);
	waitpid(s->pid, NULL, 0);
	munmap(s->reported, 4096);
	free(s->seen);
}

SCENE struct stepper_options options(const struct scene *s)
{
	return (struct stepper_options){ .pid = s->pid, .range = { .occurrence = 1 }, .stack_bytes = 4096 };
}

SCENE void open_stepper(struct scene *s, const struct stepper_options *o, const struct step_point *p,
			size_t n)
{
	struct stepper_code code = { (uintptr_t)&__executable_start, (uintptr_t)&etext };

	check(stepper_ptrace.open(o, &s->m));
	check(stepper_ptrace.set_code(s->m, &code, 1));
	check(stepper_ptrace.add_points(s->m, p, n));
	check(stepper_ptrace.start(s->m));
}

SCENE void note(struct scene *s, const struct step_record *r)
{
	struct seen *e = &s->seen[s->n++];

	assert_true(s->n < SEEN_MAX);
	*e = (struct seen){ .kind = r->kind, .tid = r->tid, .point = r->point, .how = r->how };
	e->what = r->range_what;
	e->signal = r->signal;
	e->status = r->status;
	e->syscall = r->syscall;
	e->child = r->child;
	e->creator = r->creator;
	e->stack_len = r->stack_len;
	e->rip = r->regs.r[WREG_RIP];
	if (r->call)
		e->call = *r->call;
	if (r->fetched && r->fetched->n && r->fetched->state[0] == VALUE_OK && r->fetched->len[0] <= 8)
		memcpy(&e->value, r->fetched->bytes + r->fetched->at[0], r->fetched->len[0]);
	if (r->why)
		snprintf(e->why, sizeof(e->why), "%s", r->why);
}

/* Until a record of that kind, whatever it takes. */
SCENE void pump_to(struct scene *s, enum step_kind last)
{
	const uint64_t end = wait_end_ns();
	const struct step_record *r;
	enum step_kind kind;

	while (monotonic_ns() < end) {
		check(stepper_ptrace.next(s->m, 20, &r));
		if (!r)
			continue;
		kind = r->kind;
		note(s, r);
		if (kind == STEP_NEED_PLAN)
			check(stepper_ptrace.set_plan(s->m, r->point, &s->plan[r->point]));
		if (kind == STEP_MODULES)
			check(stepper_ptrace.modules_done(s->m));
		if (kind == last)
			return;
	}
	fail_msg("no record of kind %d came", last);
}

SCENE struct step_point function_at(void *fn)
{
	return (struct step_point){ .address = (uintptr_t)fn, .use = POINT_FUNCTION };
}

SCENE struct step_point over_at(void *fn)
{
	return (struct step_point){ .address = (uintptr_t)fn, .use = POINT_OVER };
}

SCENE struct step_point from_at(void *fn)
{
	return (struct step_point){ .address = (uintptr_t)fn, .use = POINT_FROM, .is_function = true };
}

SCENE void plan_registers(struct step_plan *p)
{
	p->entry = (struct fetch_list){ 1, { { .op = FETCH_GPR, .reg = WREG_RDI, .len = 4 } } };
	p->leave = (struct fetch_list){ 1, { { .op = FETCH_GPR, .reg = WREG_RAX, .len = 4 } } };
}

/* Every call has one entry and one return; parents are entered before, and end after. */
SCENE void check_pairs(const struct scene *s)
{
	size_t i, j;

	for (i = 0; i < s->n; i++) {
		size_t returns = 0;

		if (s->seen[i].kind != STEP_ENTRY)
			continue;
		for (j = i + 1; j < s->n; j++)
			returns += s->seen[j].kind == STEP_RETURN &&
				   s->seen[j].call.call == s->seen[i].call.call;
		assert_int_equal(returns, 1);
	}
	assert_int_equal(count_of(s, STEP_ENTRY, UINT32_MAX), count_of(s, STEP_RETURN, UINT32_MAX));
}

/* Until the child has done its life, recorded or not. */
SCENE void wait_for_life(const struct scene *s)
{
	WAIT_UNTIL(s->reported->done);
	assert_int_equal(s->reported->done, 1);
}

/* Lives */

VICTIM static int fib(int n)
{
	int a, b;

	reported->count[0]++;
	if (n < 2)
		return n;
	a = fib(n - 1);
	__asm__ volatile("" ::: "memory"); /* the compiler makes no loop of it */
	b = fib(n - 2);
	__asm__ volatile("" ::: "memory");
	return a + b;
}

VICTIM static int whole(int n)
{
	int r = fib(n);

	__asm__ volatile("" ::: "memory");
	reported->count[1] = r;
	return r;
}

SCENE void live_fib(void)
{
	whole(8);
}

VICTIM static int leaf(int n)
{
	__atomic_fetch_add(&reported->count[0], 1, __ATOMIC_RELAXED);
	return n + 1;
}

VICTIM static int sum_to(int n)
{
	int r = n ? n + sum_to(n - 1) : 0;

	__asm__ volatile("" ::: "memory");
	return r;
}

/* Calls now and then, but not while count[6] is set: count[5] says how often it has slept. */
static __attribute__((unused)) void live_slowly(void)
{
	while (!reported->count[7]) {
		usleep(30000);
		reported->count[5]++;
		if (!reported->count[6])
			reported->count[0] += sum_to(20) == 210;
	}
}

SCENE struct stepper_options from_options(const struct scene *s)
{
	struct stepper_options o = options(s);

	o.range = (struct range_options){
		.has_from = true, .from_is_function = true, .occurrence = 1, .count = 1
	};
	return o;
}

#endif
