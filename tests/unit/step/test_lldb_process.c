/* A process that LLDB moves, by the C shim alone: run, stop, registers, memory, breakpoints. */
#include "tests/unit/lldb_scene.h"

#include "watchctl/step/lldb/lldb_shim_process.h"

struct stage {
	struct lldb_process *p;
	pid_t pid;
	uint64_t bias;
};

static void launch(struct stage *s, const char *what)
{
	char *argv[] = { victim, (char *)what, account, NULL };

	ok(lldb_process_launch(argv, &s->p));
	s->pid = lldb_process_pid(s->p);
	s->bias = bias_of(s->pid);
}

static enum lldb_state wait_state(struct stage *s)
{
	enum lldb_state state = LLDB_RUNNING;

	ok(lldb_process_wait(s->p, 10000, &state));
	return state;
}

static enum lldb_state go(struct stage *s)
{
	ok(lldb_process_go(s->p, NULL, 0));
	return wait_state(s);
}

static const struct lldb_thread *only_thread(struct stage *s)
{
	size_t n;
	const struct lldb_thread *t = lldb_process_threads(s->p, &n);

	assert_int_equal(n, 1);
	return t;
}

static void a_launched_program_stands_at_its_entry_and_is_our_child(void **state)
{
	uint8_t first[2];
	const struct lldb_thread *t;
	struct memory_view mem;
	struct stage s;

	(void)state;
	launch(&s, "begin");
	t = only_thread(&s);
	assert_int_equal(t->tid, s.pid);
	mem = lldb_process_memory(s.p);
	assert_true(memory_read(&mem, t->pc, first, sizeof(first)));
	assert_memory_equal(first, "\x31\xed", 2); /* _start: xor %ebp, %ebp */
	assert_int_equal(go(&s), LLDB_ENDED);
	assert_int_equal(lldb_process_status(s.p), W_EXITCODE(7, 0));
	ok(lldb_process_close(s.p));
	assert_int_equal(wait_for(s.pid), W_EXITCODE(7, 0));
}

/* begin(1) is called by main, which calls middle(0): registers are those of the calling convention. */
static void breakpoints_registers_and_steps_are_those_of_the_program(void **state)
{
	struct regs at, next;
	uint8_t byte = 0, original = 0;
	const struct lldb_thread *t;
	struct memory_view mem, raw;
	struct stage s;
	uint64_t begin;

	(void)state;
	launch(&s, "begin");
	begin = s.bias + by_name("begin")->address;
	mem = lldb_process_memory(s.p);
	raw = proc_memory(&s.pid);
	assert_true(memory_read(&mem, begin, &original, 1));
	ok(lldb_process_break(s.p, begin));
	ok(lldb_process_break(s.p, begin));
	assert_true(memory_read(&raw, begin, &byte, 1));
	assert_int_equal(byte, 0xcc);
	assert_true(memory_read(&mem, begin, &byte, 1));
	assert_int_equal(byte, original); /* as the program knows it */
	assert_int_equal(go(&s), LLDB_STOPPED);
	t = only_thread(&s);
	assert_int_equal(t->why, LLDB_WHY_BREAKPOINT);
	assert_int_equal(t->pc, begin);
	assert_true(lldb_process_regs(s.p, t->tid, &at));
	assert_int_equal(at.r[WREG_RIP], begin);
	assert_int_equal(at.r[WREG_RSP], t->sp);
	assert_int_equal(at.r[WREG_RDI], 1);
	assert_int_not_equal(at.r[WREG_FS_BASE], 0);
	ok(lldb_process_step(s.p, t->tid));
	assert_int_equal(wait_state(&s), LLDB_STOPPED);
	t = only_thread(&s);
	assert_int_equal(t->why, LLDB_WHY_STEP);
	assert_true(lldb_process_regs(s.p, t->tid, &next));
	assert_true(next.r[WREG_RIP] > begin && next.r[WREG_RIP] <= begin + 15);
	lldb_process_unbreak(s.p, begin);
	assert_true(memory_read(&raw, begin, &byte, 1));
	assert_int_equal(byte, original);
	assert_int_equal(go(&s), LLDB_ENDED); /* the second and third call stop no more */
	ok(lldb_process_close(s.p));
	wait_for(s.pid);
}

static void vector_and_x87_registers_can_be_read(void **state)
{
	uint8_t v[64], st[10];
	struct stage s;

	(void)state;
	launch(&s, "begin");
	assert_true(lldb_process_vector(s.p, s.pid, 0, v));
	assert_true(lldb_process_vector(s.p, s.pid, 15, v));
	assert_false(lldb_process_vector(s.p, s.pid, 99, v));
	assert_true(lldb_process_x87(s.p, s.pid, 7, st));
	assert_false(lldb_process_x87(s.p, s.pid, 8, st));
	assert_int_equal(go(&s), LLDB_ENDED);
	ok(lldb_process_close(s.p));
	wait_for(s.pid);
}

static void waiting_gives_up_and_an_interrupt_stops(void **state)
{
	enum lldb_state now = LLDB_ENDED;
	struct stage s;

	(void)state;
	launch(&s, "sleep");
	ok(lldb_process_go(s.p, NULL, 0));
	ok(lldb_process_wait(s.p, 500, &now));
	assert_int_equal(now, LLDB_RUNNING);
	lldb_process_interrupt(s.p);
	assert_int_equal(wait_state(&s), LLDB_STOPPED);
	assert_int_equal(only_thread(&s)->why, LLDB_WHY_INTERRUPT);
	ok(lldb_process_close(s.p));
	assert_int_equal(waitpid(s.pid, NULL, WNOHANG), 0); /* it sleeps on */
	kill(s.pid, SIGKILL);
	wait_for(s.pid);
}

static void signals_stop_and_reach_the_program(void **state)
{
	const struct lldb_thread *t;
	struct stage s;

	(void)state;
	launch(&s, "killed");
	assert_int_equal(kill(s.pid, SIGWINCH), 0);
	assert_int_equal(go(&s), LLDB_STOPPED);
	t = only_thread(&s);
	assert_int_equal(t->why, LLDB_WHY_SIGNAL);
	assert_int_equal(t->signal, SIGWINCH);
	assert_int_equal(t->code, SI_USER);
	assert_false(t->user);
	assert_int_equal(go(&s), LLDB_ENDED);
	assert_int_equal(lldb_process_status(s.p), SIGKILL);
	ok(lldb_process_close(s.p));
	assert_int_equal(wait_for(s.pid), SIGKILL);
}

static void what_cannot_be_started_is_reported(void **state)
{
	char *argv[] = { (char *)"/nonexistent/program", NULL };
	struct lldb_process *p = NULL;
	struct wc_error *err = lldb_process_launch(argv, &p);

	(void)state;
	assert_non_null(err);
	assert_int_equal(err->kind, WC_EUSAGE);
	assert_non_null(strstr(err->text, "/nonexistent/program"));
	wc_error_free(err);
}

static void the_debug_server_is_looked_for_and_not_left_in_the_environment(void **state)
{
	struct stage s;

	(void)state;
	assert_null(getenv("LLDB_DEBUGSERVER_PATH"));
	launch(&s, "recurse");
	assert_null(getenv("LLDB_DEBUGSERVER_PATH"));
	assert_int_equal(go(&s), LLDB_ENDED);
	ok(lldb_process_close(s.p));
	wait_for(s.pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_launched_program_stands_at_its_entry_and_is_our_child),
		cmocka_unit_test(breakpoints_registers_and_steps_are_those_of_the_program),
		cmocka_unit_test(vector_and_x87_registers_can_be_read),
		cmocka_unit_test(waiting_gives_up_and_an_interrupt_stops),
		cmocka_unit_test(signals_stop_and_reach_the_program),
		cmocka_unit_test(what_cannot_be_started_is_reported),
		cmocka_unit_test(the_debug_server_is_looked_for_and_not_left_in_the_environment),
	};

	unsetenv("LLDB_DEBUGSERVER_PATH");
	return cmocka_run_group_tests_name("lldb_process", tests, build_victim, remove_victim);
}
