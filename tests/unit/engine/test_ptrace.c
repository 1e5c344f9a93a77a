/* What the ptrace engine is made of: stops, registers, gulps of memory, helper processes. On children of
 * ours. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "watchctl/engine/plan/dregs.h"
#include "watchctl/engine/ptrace/ptrace_tracer.h"
#include "watchctl/engine/ptrace/ptrace_probe.h"
#include "watchctl/target/inject/trap_action.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/debugreg.h"
#include "watchctl/target/stop/helper_process.h"
#include "watchctl/target/stop/stop.h"

#define PAGE 4096u

/* Raw statuses as wait4(2) gives them: 0x7f, the signal, above it the event (ptrace(2), include/uapi). */
static int stopped(int sig, int event)
{
	return 0x7f | sig << 8 | event << 16;
}

static void every_stop_has_one_name(void **state)
{
	(void)state;
	assert_int_equal(stop_decode(0x300).kind, STOP_ENDED);
	assert_int_equal(stop_decode(SIGKILL).kind, STOP_ENDED);
	assert_int_equal(stop_decode(stopped(SIGUSR1, 0)).kind, STOP_SIGNAL);
	assert_int_equal(stop_decode(stopped(SIGUSR1, 0)).signal, SIGUSR1);
	assert_int_equal(stop_decode(stopped(SIGSTOP, 0)).kind, STOP_SIGNAL);
	assert_int_equal(stop_decode(stopped(SIGTRAP | 0x80, 0)).kind, STOP_OTHER);
	assert_int_equal(stop_decode(stopped(SIGTRAP, PTRACE_EVENT_STOP)).kind, STOP_TRAP);
	assert_int_equal(stop_decode(stopped(SIGTTIN, PTRACE_EVENT_STOP)).kind, STOP_GROUP);
	assert_int_equal(stop_decode(stopped(SIGTTIN, PTRACE_EVENT_STOP)).signal, SIGTTIN);
	assert_int_equal(stop_decode(stopped(SIGTRAP, PTRACE_EVENT_CLONE)).kind, STOP_CLONED);
	assert_int_equal(stop_decode(stopped(SIGTRAP, PTRACE_EVENT_VFORK)).kind, STOP_CLONED);
	assert_int_equal(stop_decode(stopped(SIGTRAP, PTRACE_EVENT_EXEC)).kind, STOP_EXECED);
	assert_int_equal(stop_decode(stopped(SIGTRAP, PTRACE_EVENT_EXIT)).kind, STOP_EXITING);
}

static void dr7_is_read_as_it_is_written(void **state)
{
	static const enum access_kind access[] = { ACCESS_WRITE, ACCESS_READWRITE, ACCESS_EXECUTE };
	unsigned int slot, a;
	enum access_kind kind;
	uint32_t size, got;

	(void)state;
	for (slot = 0; slot < DREGS; slot++)
		for (a = 0; a < 3; a++)
			for (size = 1; size <= 8; size *= 2) {
				uint64_t dr7 = dregs_dr7(slot, size, access[a]);

				assert_true(dregs_decode(dr7 | 0x400, slot, &got, &kind));
				assert_int_equal(kind, access[a]);
				assert_int_equal(got, access[a] == ACCESS_EXECUTE ? 1 : size);
				assert_false(dregs_decode(dr7, (slot + 1) % DREGS, &got, &kind));
			}
	assert_false(dregs_decode(1 | 2u << 16, 0, &got, &kind)); /* I/O ports */
	assert_true(dregs_fired(0xffff0ff4, 2));
	assert_false(dregs_fired(0xffff0ff4, 1));
}

static void wait_for_pipe(int fd)
{
	char c;

	if (read(fd, &c, 1) != 1)
		_exit(1);
}

/* A child that does nothing until the pipe is written to. */
static pid_t sleeping_child(int *ret_fd)
{
	int p[2];
	pid_t pid;

	assert_int_equal(pipe(p), 0);
	pid = fork();
	if (!pid) {
		close(p[1]);
		wait_for_pipe(p[0]);
		_exit(0);
	}
	close(p[0]);
	*ret_fd = p[1];
	return pid;
}

static void end_child(pid_t pid, int fd)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, __WALL);
	close(fd);
}

static void a_register_holds_what_was_written_and_only_while_the_thread_stands(void **state)
{
	int fd, status;
	pid_t pid = sleeping_child(&fd);
	uint64_t value = 0;

	(void)state;
	if (ptrace(PTRACE_SEIZE, pid, 0, 0))
		skip();
	assert_false(debugreg_read(pid, 0, &value));
	assert_int_equal(errno, ESRCH);
	ptrace(PTRACE_INTERRUPT, pid, 0, 0);
	assert_int_equal(waitpid(pid, &status, __WALL), pid);
	assert_true(debugreg_write(pid, 2, (uint64_t)(uintptr_t)&value));
	assert_true(debugreg_write(pid, DEBUGREG_CONTROL, dregs_dr7(2, 8, ACCESS_WRITE)));
	assert_true(debugreg_read(pid, 2, &value));
	assert_int_equal(value, (uintptr_t)&value);
	assert_true(debugreg_read(pid, DEBUGREG_CONTROL, &value));
	assert_true(dregs_enabled(value, 2));
	assert_false(dregs_enabled(value, 0));
	assert_false(debugreg_write(pid, 1, 0xffff800000000000ull)); /* the kernel's own */
	end_child(pid, fd);
}

/* Two pages and a hole behind them. */
static uint8_t *two_pages(void)
{
	uint8_t *p = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned int i;

	assert_ptr_not_equal(p, MAP_FAILED);
	munmap(p + 2 * PAGE, PAGE);
	for (i = 0; i < 2 * PAGE / 8; i++)
		((uint64_t *)p)[i] = 0x1000 + i;
	return p;
}

static void a_gulp_brings_the_value_and_the_stack_as_far_as_it_goes(void **state)
{
	struct gulps *g = calloc(1, sizeof(*g));
	uint8_t *p = two_pages();
	uint64_t at = (uint64_t)(uintptr_t)p, value = 0;

	(void)state;
	gulps_begin(g, getpid());
	assert_true(gulps_first(g, at + 2 * PAGE - 64, at + 16, 4, &value));
	assert_int_equal(value, 0x1002);
	assert_int_equal(g->n, 1);
	assert_int_equal(g->len[0], 64);
	assert_true(gulps_read(g, at + 2 * PAGE - 8, &value));
	assert_int_equal(value, 0x1000 + 2 * PAGE / 8 - 1);
	assert_false(gulps_read(g, at + 2 * PAGE - 4, &value));
	assert_false(gulps_read(g, at + 2 * PAGE, &value));
	assert_false(gulps_first(g, at, at + 2 * PAGE, 8, &value));
	munmap(p, 2 * PAGE);
	free(g);
}

/* A walk that jumps about reads the right words, however often the chunks are replaced. */
static void gulps_are_replaced_and_never_mixed_up(void **state)
{
	size_t len = 64 * PAGE, i;
	uint64_t *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), value;
	struct gulps *g = calloc(1, sizeof(*g));

	(void)state;
	assert_ptr_not_equal(p, MAP_FAILED);
	for (i = 0; i < len / 8; i++)
		p[i] = ~i;
	gulps_begin(g, getpid());
	for (i = 0; i < 5000; i++) {
		size_t word = i * 7919 % (len / 8);

		assert_true(gulps_read(g, (uint64_t)(uintptr_t)&p[word], &value));
		assert_int_equal(value, ~word);
	}
	munmap(p, len);
	free(g);
}

static void a_register_fires_here_or_the_machine_has_none(void **state)
{
	enum probe_result first = ptrace_probe();

	(void)state;
	if (first != PROBE_FIRES) {
		print_message("no debug registers, or no ptrace, on this machine\n");
		skip();
	}
	assert_int_equal(ptrace_probe(), PROBE_FIRES);
}

static unsigned int open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n - 3; /* ".", ".." and the folder itself */
}

/* 0: it has withdrawn from everything that could reach it. */
static int withdrawn(int owner_fd, int memory_fd)
{
	char text[256] = "";
	int fd;

	helper_withdraw(owner_fd, memory_fd);
	if (open_files() != 5 || getsid(0) != getpid() || getpgrp() != getpid())
		return 1;
	helper_ignore_signals();
	kill(getpid(), SIGTERM);
	kill(getpid(), SIGINT);
	kill(getpid(), SIGHUP);
	helper_spare();
	helper_rename("test-name", "a line that stands for the command line");
	fd = open("/proc/self/comm", O_RDONLY);
	if (read(fd, text, sizeof(text) - 1) < 1 || strncmp(text, "test-name\n", 10) != 0)
		return 2;
	close(fd);
	fd = open("/proc/self/cmdline", O_RDONLY);
	memset(text, 0, sizeof(text));
	/* As much of it as there was room for, and nothing of what stood there. */
	if (read(fd, text, sizeof(text) - 1) < 8 ||
	    strncmp(text, "a line that stands for the command line", strlen(text)) != 0 ||
	    strstr(text, "unit"))
		return 3;
	return 0;
}

static void a_helper_has_nothing_of_its_owner(void **state)
{
	int p[2], status, more = open("/dev/null", O_RDONLY);
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(p), 0);
	pid = fork();
	if (!pid)
		_exit(withdrawn(p[0], p[1]));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	close(p[0]);
	close(p[1]);
	close(more);
}

static void that_sigtrap_is_ignored_can_be_put_back(void **state)
{
	struct wc_error *err;
	struct proc_status s;
	int fd;
	pid_t pid = sleeping_child(&fd);

	(void)state;
	err = trap_action_ignore(pid, NULL);
	if (err && err->kind == WC_EPERM) {
		print_message("%s\n", err->text);
		wc_error_free(err);
		end_child(pid, fd);
		skip();
	}
	assert_null(err);
	assert_true(proc_status_read(pid, pid, &s));
	assert_true(s.ignored & PROC_SIGTRAP);
	assert_int_equal(kill(pid, SIGTRAP), 0);
	assert_null(trap_action_ignore(pid, NULL)); /* nothing to do */
	assert_int_equal(write(fd, "x", 1), 1);
	assert_int_equal(waitpid(pid, &(int){ 1 }, 0), pid);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_stop_has_one_name),
		cmocka_unit_test(dr7_is_read_as_it_is_written),
		cmocka_unit_test(a_register_holds_what_was_written_and_only_while_the_thread_stands),
		cmocka_unit_test(a_gulp_brings_the_value_and_the_stack_as_far_as_it_goes),
		cmocka_unit_test(gulps_are_replaced_and_never_mixed_up),
		cmocka_unit_test(a_register_fires_here_or_the_machine_has_none),
		cmocka_unit_test(a_helper_has_nothing_of_its_owner),
		cmocka_unit_test(that_sigtrap_is_ignored_can_be_put_back),
	};

	return cmocka_run_group_tests_name("ptrace", tests, NULL, NULL);
}
