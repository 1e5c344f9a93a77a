/* The ptrace stepper does no harm: instructions under breakpoints, signals of the program, death of the
 * recorder. */
#include <pthread.h>
#include <sys/prctl.h>

#include "tests/unit/stepper_scene.h"
#include "watchctl/step/ptrace/step_tracer.h"

/* Instructions under breakpoints */

/*
 * Functions whose first instruction is each of another kind: what can be emulated, what must be copied
 * because it stores somewhere, what repeats, what is relative to rip, what goes elsewhere, what enters the
 * kernel.
 */
#define ODD 9
long odd_cell __attribute__((visibility("hidden"), used));
static long odd_from[16], odd_to[16];
long odd0(long, long), odd1(long, long), odd2(long, long), odd3(long, long), odd4(long, long),
	odd5(long, long), odd6(long, long), odd7(long, long), odd8(long, long);

#define ODD_FN(name, body) \
	".globl " name "\n.type " name ", @function\n" name ":\n" body ".size " name ", .-" name "\n"
__asm__(ODD_FN("odd0", "push %rbp\n\tpop %rbp\n\tlea 1(%rdi), %rax\n\tret\n")
		ODD_FN("odd1", "mov %rsi, (%rdi)\n\tmov (%rdi), %rax\n\tret\n") ODD_FN(
			"odd2", "mov %rdi, odd_cell(%rip)\n\tmov odd_cell(%rip), %rax\n\tret\n")
			ODD_FN("odd3", "rep movsq\n\tmov %rcx, %rax\n\tret\n") ODD_FN(
				"odd4",
				"jmp 1f\n\tud2\n1:\tlea 4(%rdi), %rax\n\tret\n") ODD_FN("odd5",
											"syscall\n\tret\n")
				ODD_FN("odd6", "pushfq\n\tpop %rax\n\tand $0x100, %rax\n\tret\n")
					ODD_FN("odd7", "lock xaddq %rsi, (%rdi)\n\tmov %rsi, %rax\n\tret\n")
						ODD_FN("odd8", "call 1f\n1:\tpop %rax\n\tlea 1b(%rip), "
							       "%rcx\n\tsub %rcx, %rax\n\tret\n"));

/* odd3: rsi and rdi are its arguments the other way round, rcx what it has to copy. */
VICTIM static long call_odd3(void)
{
	long r;
	void *to = odd_to;
	const void *from = odd_from;
	long n = 16;

	__asm__ volatile("call odd3" : "=a"(r), "+D"(to), "+S"(from), "+c"(n) : : "memory");
	return r;
}

VICTIM static long call_odd5(void)
{
	long r = SYS_getpid;

	__asm__ volatile("call odd5" : "+a"(r) : : "rcx", "r11", "memory");
	return r;
}

VICTIM static void all_odd(void)
{
	int i, wrong = 0;

	for (i = 0; i < 20; i++) {
		long cell = 0, added = 5;

		odd_from[3] = i;
		wrong += odd0(i, 0) != i + 1;
		wrong += odd1((long)&cell, i) != i || cell != i;
		wrong += odd2(i, 0) != i || odd_cell != i;
		wrong += call_odd3() != 0 || odd_to[3] != i;
		wrong += odd4(i, 0) != i + 4;
		wrong += call_odd5() != getpid();
		wrong += odd6(0, 0) != 0;
		wrong += odd7((long)&added, i) != 5 || added != 5 + i;
		wrong += odd8(0, 0) != 0;
	}
	reported->count[1] = wrong;
	reported->count[0] = 1;
	__asm__ volatile("" ::: "memory");
}

static void *bystander(void *arg)
{
	while (!reported->count[0])
		leaf(1);
	return arg;
}

static void live_odd(void)
{
	pthread_t t;

	pthread_create(&t, NULL, bystander, NULL);
	all_odd();
	pthread_join(t, NULL);
}

static void check_odd(void)
{
	struct scene s;
	struct stepper_options o;
	struct step_point p[] = { function_at(odd0), function_at(odd1), function_at(odd2), function_at(odd3),
				  function_at(odd4), function_at(odd5), function_at(odd6), function_at(odd7),
				  function_at(odd8), from_at(all_odd) };
	uint32_t i;

	set_up(&s, live_odd);
	o = from_options(&s);
	open_stepper(&s, &o, p, sizeof(p) / sizeof(p[0]));
	go(&s);
	pump_to(&s, STEP_DONE);
	for (i = 0; i < ODD; i++)
		assert_int_equal(count_of(&s, STEP_ENTRY, i), 20);
	assert_int_equal(count_how(&s, RETURN_RETURNED), ODD * 20);
	check_pairs(&s);
	wait_for_life(&s);
	assert_int_equal(s.reported->count[1], 0);
	tear_down(&s);
}

static void every_kind_of_instruction_works_under_a_breakpoint(void **state)
{
	(void)state;
	check_odd();
}

/* What is given up comes to its end later, like all others. */
static void so_it_does_where_no_step_ends_in_time(void **state)
{
	const uint64_t usual = step_move_lift_ns;

	(void)state;
	step_move_lift_ns = 1;
	check_odd();
	step_move_lift_ns = usual;
}
/* Instructions */

/* Seven instructions and a call of one with two. */
void counted(void);
void counted_leaf(void);
__asm__(".globl counted\n.type counted, @function\ncounted:\n"
	"\tpush %rbx\n\tmov $3, %ebx\n\tadd %ebx, %ebx\n\tcall counted_leaf\n\tnop\n\tpop %rbx\n\tret\n"
	".size counted, .-counted\n"
	".globl counted_leaf\n.type counted_leaf, @function\ncounted_leaf:\n\tnop\n\tret\n"
	".size counted_leaf, .-counted_leaf\n");

static void live_counted(void)
{
	counted();
}

static void every_instruction_is_reported_once_and_in_order(void **state)
{
	struct scene s;
	struct stepper_options o;
	struct step_point p[] = { function_at(counted), from_at(counted) };
	uint64_t start = (uintptr_t)counted, leaf_start = (uintptr_t)counted_leaf;
	const uint64_t want[] = { 0, 1, 6, 8, leaf_start - start, leaf_start - start + 1, 13, 14, 15 };
	size_t i;

	(void)state;
	set_up(&s, live_counted);
	o = from_options(&s);
	o.instructions = true;
	open_stepper(&s, &o, p, 2);
	go(&s);
	pump_to(&s, STEP_DONE);
	assert_int_equal(count_of(&s, STEP_INSN, UINT32_MAX), sizeof(want) / sizeof(want[0]));
	for (i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		assert_int_equal(seen_of(&s, STEP_INSN, UINT32_MAX, i)->rip - start, want[i]);
	check_pairs(&s);
	wait_for_life(&s);
	tear_down(&s);
}
/* SIGTRAP of the program's own */

static volatile sig_atomic_t traps;

static void on_trap(int sig)
{
	(void)sig;
	traps++;
}

/* int3 is its first instruction. */
void trapping(void);
__asm__(".globl trapping\n.type trapping, @function\ntrapping:\n\tint3\n\tret\n.size trapping, .-trapping\n");

VICTIM static void trapper(void)
{
	int i;

	for (i = 0; i < 10; i++) {
		leaf(i);
		trapping();
	}
	reported->count[1] = traps;
}

static void live_traps(void)
{
	signal(SIGTRAP, on_trap);
	trapper();
}

static void the_programs_own_int3_stays_its_own(void **state)
{
	struct scene s;
	struct stepper_options o;
	struct step_point p[] = { function_at(leaf), function_at(trapping), function_at(trapper),
				  from_at(trapper) };

	(void)state;
	set_up(&s, live_traps);
	o = from_options(&s);
	open_stepper(&s, &o, p, 4);
	go(&s);
	pump_to(&s, STEP_DONE);
	assert_int_equal(s.reported->count[1], 10);
	assert_int_equal(count_of(&s, STEP_ENTRY, 0), 10);
	assert_int_equal(count_of(&s, STEP_ENTRY, 1), 0);
	assert_int_equal(count_of(&s, STEP_NOTE, UINT32_MAX), 1);
	assert_non_null(strstr(seen_of(&s, STEP_NOTE, UINT32_MAX, 0)->why, "has one there"));
	tear_down(&s);
}

VICTIM static void masked(void)
{
	sigset_t now;
	int i;

	for (i = 0; i < 10; i++)
		leaf(i);
	sigprocmask(SIG_SETMASK, NULL, &now);
	reported->count[1] = sigismember(&now, SIGTRAP);
}

static void live_masked(void)
{
	masked();
}

static void a_thread_that_blocks_SIGTRAP_still_does(void **state)
{
	struct scene s;
	struct stepper_options o;
	struct step_point p[] = { function_at(leaf), function_at(masked), from_at(masked) };
	sigset_t trap, old;

	(void)state;
	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	sigprocmask(SIG_BLOCK, &trap, &old);
	set_up(&s, live_masked);
	sigprocmask(SIG_SETMASK, &old, NULL);
	o = from_options(&s);
	open_stepper(&s, &o, p, 3);
	go(&s);
	pump_to(&s, STEP_DONE);
	assert_int_equal(count_of(&s, STEP_ENTRY, 0), 10);
	wait_for_life(&s);
	assert_int_equal(s.reported->count[1], 1);
	tear_down(&s);
}
/* Death */

static void *toiler(void *arg)
{
	while (!reported->count[7]) {
		if (sum_to(20) != 210)
			__atomic_fetch_add(&reported->count[2], 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&reported->count[0], 1, __ATOMIC_RELAXED);
	}
	return arg;
}

static void live_toil(void)
{
	pthread_t t[3];
	int i;

	for (i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, toiler, NULL);
	for (i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
}

static bool is_traced(pid_t pid)
{
	struct proc_status p;

	return proc_status_read(pid, pid, &p) && p.tracer;
}

struct orphans {
	pid_t but; /* is none */
	unsigned int n;
};

static bool is_orphan(void *ctx, pid_t pid)
{
	struct orphans *o = ctx;
	struct proc_status p;

	o->n += pid != o->but && proc_status_read(pid, pid, &p) && p.parent == getpid() && p.state != 'Z';
	return true;
}

/* Nothing is left of an owner that has ended: what it had begun is ours then, with a name or without one yet. */
static bool has_no_tracers(pid_t pid)
{
	struct orphans o = { .but = pid };

	proc_each(is_orphan, &o);
	return !o.n && !is_traced(pid);
}

static void own(struct scene *s)
{
	struct stepper_options o = options(s);
	struct step_point p[] = { function_at(sum_to) };
	const struct stepper_code code = { (uintptr_t)&__executable_start, (uintptr_t)&etext };
	const struct step_record *r = NULL;
	struct wc_error *err;

	plan_registers(&s->plan[0]);
	/* The tracer of an owner that was killed before it had begun may still be on its way out. */
	while ((err = stepper_ptrace.open(&o, &s->m))) {
		wc_error_free(err);
		wait_a_little();
	}
	err = stepper_ptrace.set_code(s->m, &code, 1);
	err = err ? err : stepper_ptrace.add_points(s->m, p, 1);
	err = err ? err : stepper_ptrace.start(s->m);
	s->reported->count[3] = !err;
	while (!err) {
		err = stepper_ptrace.next(s->m, 20, &r);
		if (!err && r && r->kind == STEP_NEED_PLAN)
			err = stepper_ptrace.set_plan(s->m, r->point, &s->plan[r->point]);
	}
	_exit(1);
}

/* A process that records the child until it is killed. */
static pid_t start_owner(struct scene *s)
{
	pid_t owner = fork();

	if (!owner)
		own(s);
	return owner;
}

static void check_toil_goes_on(const struct scene *s)
{
	int before = s->reported->count[0];

	WAIT_UNTIL(waitpid(s->pid, NULL, WNOHANG) || s->reported->count[0] >= before + 1000);
	assert_true(s->reported->count[0] >= before + 1000);
	assert_int_equal(s->reported->count[2], 0);
}

static void a_killed_tracer_leaves_no_breakpoint(void **state)
{
	struct scene s;
	struct stepper_options o;
	struct step_point p[] = { function_at(sum_to) };
	struct proc_status st;
	const struct step_record *r;
	int before;

	(void)state;
	set_up(&s, live_slowly);
	o = options(&s);
	plan_registers(&s.plan[0]);
	open_stepper(&s, &o, p, 1);
	go(&s);
	pump_to(&s, STEP_RETURN);
	/* When it has slept twice, it is in no call: then nobody waits for the tracer. */
	s.reported->count[6] = 1;
	before = s.reported->count[5];
	WAIT_UNTIL((check(stepper_ptrace.next(s.m, 0, &r)), s.reported->count[5] >= before + 2));
	assert_true(proc_status_read(s.pid, s.pid, &st));
	assert_int_not_equal(st.tracer, 0);
	kill(st.tracer, SIGKILL);
	pump_to(&s, STEP_DONE);
	assert_non_null(strstr(seen_of(&s, STEP_DONE, UINT32_MAX, 0)->why, "was killed"));
	before = s.reported->count[0];
	s.reported->count[6] = 0;
	WAIT_UNTIL(waitpid(s.pid, NULL, WNOHANG) || s.reported->count[0] > before + 2);
	assert_true(s.reported->count[0] > before + 2);
	s.reported->count[7] = 1;
	wait_for_life(&s);
	tear_down(&s);
}

static void a_program_survives_its_killed_recorder(void **state)
{
	struct scene s;
	int i;

	(void)state;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	set_up(&s, live_toil);
	go(&s);
	for (i = 0; i < 25; i++) {
		pid_t owner;

		s.reported->count[3] = 0;
		owner = start_owner(&s);
		if (i % 5)
			WAIT_UNTIL(s.reported->count[3] || waitpid(owner, NULL, WNOHANG));
		usleep((useconds_t)(rand() % 15000));
		kill(owner, SIGKILL);
		waitpid(owner, NULL, 0);
		WAIT_UNTIL(has_no_tracers(s.pid));
		check_code(&s);
		check_toil_goes_on(&s);
	}
	s.reported->count[7] = 1;
	wait_for_life(&s);
	tear_down(&s);
}
int main(int argc, char *argv[])
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_of_instruction_works_under_a_breakpoint),
		cmocka_unit_test(so_it_does_where_no_step_ends_in_time),
		cmocka_unit_test(every_instruction_is_reported_once_and_in_order),
		cmocka_unit_test(the_programs_own_int3_stays_its_own),
		cmocka_unit_test(a_thread_that_blocks_SIGTRAP_still_does),
		cmocka_unit_test(a_killed_tracer_leaves_no_breakpoint),
		cmocka_unit_test(a_program_survives_its_killed_recorder),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
