/*
 * Thread-local variables: every thread of the victims prints the addresses of its own copies, which is the
 * oracle; its thread pointer is read with ptrace, as a debugger would.
 */
#include "tests/unit/loc_victim.h"

#include <dirent.h>
#include <sys/ptrace.h>
#include <sys/user.h>

#include "watchctl/code/locate/locate.h"
#include "watchctl/code/lookup/locator.h"
#include "watchctl/code/tls/tls.h"
#include "watchctl/engine/ptrace/ptrace_probe.h"

struct bench {
	struct victim v;
	struct module_list modules;
	struct memory_view mem;
	struct locator *l;
};

static void bench_start(struct bench *b)
{
	struct wc_error *err;

	memset(b, 0, sizeof(*b));
	victim_start(&b->v, "tls");
	err = module_list_read(b->v.pid, &b->modules);
	assert_null(err);
	b->mem = (struct memory_view){ victim_read, &b->v };
	b->l = locator_new();
	assert_non_null(b->l);
}

static void bench_stop(struct bench *b)
{
	locator_free(b->l);
	module_list_deinit(&b->modules);
	victim_stop(&b->v);
}

static struct variable find(struct bench *b, const char *expr)
{
	struct variable v = { 0 };
	struct wc_error *err = locate(b->l, expr, &b->modules, &b->mem, &v, NULL);

	if (err)
		fail_msg("%s: %s", expr, err->text);
	if (!v.thread_local_storage || v.addr)
		fail_msg("%s is not taken for thread-local", expr);
	return v;
}

/* The base of fs, while the thread is stopped. */
static uint64_t thread_pointer(pid_t tid)
{
	struct user_regs_struct regs;
	int status;

	assert_int_equal(ptrace(PTRACE_SEIZE, tid, 0, 0), 0);
	assert_int_equal(ptrace(PTRACE_INTERRUPT, tid, 0, 0), 0);
	assert_int_equal(waitpid(tid, &status, __WALL), tid);
	assert_int_equal(ptrace(PTRACE_GETREGS, tid, 0, &regs), 0);
	ptrace(PTRACE_DETACH, tid, 0, 0);
	return regs.fs_base;
}

static size_t count_thread(pid_t *seen, size_t n, pid_t tid)
{
	for (size_t i = 0; i < n; i++)
		if (seen[i] == tid)
			return n;
	assert_true(n < 8);
	seen[n] = tid;
	return n + 1;
}

/* Returns how many threads showed something. */
static size_t check_all_shown(struct bench *b)
{
	pid_t last = 0, seen[8];
	size_t threads = 0;
	uint64_t tp = 0;

	for (size_t i = 0; i < b->v.n; i++) {
		const struct shown *s = &b->v.shown[i];
		const char *expr = strchr(s->expr, ' ') + 1;
		pid_t tid = (pid_t)atol(s->expr);
		enum tls_result r;
		struct variable v;
		uint64_t addr = 0;

		if (strstr(expr, "gone"))
			continue;
		if (tid != last) {
			tp = thread_pointer(tid);
			threads = count_thread(seen, threads, tid);
			last = tid;
		}
		v = find(b, expr);
		r = tls_address(&v.tls, &b->mem, tp, &addr);
		if (r != TLS_OK || addr != s->addr || v.size != s->size)
			fail_msg("thread %d, %s: found %#lx size %lu (%s), is %#lx size %lu", tid, expr, addr,
				 v.size, tls_result_text(r), s->addr, s->size);
		variable_deinit(&v);
	}
	return threads;
}

static void check_program(const char *command)
{
	struct bench b;

	victim_build(command);
	bench_start(&b);
	assert_true(check_all_shown(&b) > 1);
	bench_stop(&b);
}

#define SOURCE " tests/victims/tls.c -lpthread "
#define LIBRARY "gcc -g -O1 -DFIRST -shared -fPIC -o @/libtls_first.so tests/victims/tls_lib.c && "

static void every_thread_of_a_program_has_its_own(void **state)
{
	check_program("gcc -g -o @/tls" SOURCE);
	check_program("gcc -O2 -g -no-pie -o @/tls" SOURCE);
	check_program("gcc -g -gdwarf-4 -o @/tls" SOURCE);
}

static void clang_is_no_different(void **state)
{
	check_program("clang -g -o @/tls" SOURCE);
	check_program("clang -O2 -g -o @/tls" SOURCE);
}

static void split_debug_information_is_no_different(void **state)
{
	check_program(
		"src=$PWD && cd @ && gcc -g -gsplit-dwarf -c -o tls.o $src/tests/victims/tls.c && gcc -o tls "
		"tls.o -lpthread");
}

static void statically_linked_programs_are_no_different(void **state)
{
	check_program("gcc -g -static -o @/tls" SOURCE);
	check_program("gcc -g -static-pie -o @/tls" SOURCE);
}

static void libraries_of_the_program_are_no_different(void **state)
{
	check_program(LIBRARY "gcc -g -DLIBRARY -o @/tls" SOURCE "@/libtls_first.so -Wl,-rpath,@");
	check_program(LIBRARY "gcc -g -DLIBRARY -no-pie -o @/tls" SOURCE "@/libtls_first.so -Wl,-rpath,@");
}

static void cxx_variables_are_no_different(void **state)
{
	check_program("g++ -std=c++17 -g -o @/tls tests/victims/tls.cc -lpthread");
	check_program("g++ -std=c++17 -O2 -g -o @/tls tests/victims/tls.cc -lpthread");
	check_program("clang++ -std=c++17 -g -o @/tls tests/victims/tls.cc -lpthread");
}

static void musl_programs_are_no_different(void **state)
{
	check_program("musl-gcc -g -static -DNO_ERRNO -o @/tls" SOURCE);
	check_program("musl-gcc -g -DNO_ERRNO -o @/tls" SOURCE);
}

static void musl_libraries_are_no_different(void **state)
{
	check_program("musl-gcc -g -DFIRST -shared -fPIC -o @/libtls_first.so tests/victims/tls_lib.c && "
		      "musl-gcc -g -DLIBRARY -DNO_ERRNO -o @/tls" SOURCE "@/libtls_first.so -Wl,-rpath,@");
}

#define PLUGIN(name, flags)                                                                                 \
	"gcc -g -shared -fPIC " flags " -DNAME=" #name " -o @/libtls_" #name ".so tests/victims/tls_lib.c " \
	"&& "
#define PLUGINS PLUGIN(gone, "") PLUGIN(plugin, "") PLUGIN(static, "-ftls-model=initial-exec")

static pid_t thread_that_showed(const struct bench *b, const char *name)
{
	for (size_t i = 0; i < b->v.n; i++)
		if (strcmp(strchr(b->v.shown[i].expr, ' ') + 1, name) == 0)
			return (pid_t)atol(b->v.shown[i].expr);
	fail_msg("nobody shows %s", name);
	return 0;
}

/* A library that came later: only who used it has a copy, and a copy of a library that went is none of its.
 */
static void plugins_have_no_copy_before_they_are_used(void **state)
{
	uint64_t addr = 0, tp;
	struct variable v, in_static;
	struct bench b;

	victim_build(LIBRARY PLUGINS "gcc -g -DLIBRARY -DPLUGIN -o @/tls" SOURCE
				     "@/libtls_first.so -Wl,-rpath,@ -ldl");
	bench_start(&b);
	assert_true(check_all_shown(&b) == 3);
	v = find(&b, "in_plugin");
	in_static = find(&b, "in_static");
	assert_int_equal(tls_address(&v.tls, &b.mem, 0, &addr), TLS_NOT_ALLOCATED);
	/* This one used "gone", whose number the plugin got. */
	tp = thread_pointer(thread_that_showed(&b, "in_gone"));
	assert_int_equal(tls_address(&v.tls, &b.mem, tp, &addr), TLS_NOT_ALLOCATED);
	assert_int_equal(tls_address(&in_static.tls, &b.mem, tp, &addr), TLS_OK);
	assert_true(tls_comes_on_demand(&v.tls, &b.mem));
	assert_false(tls_comes_on_demand(&in_static.tls, &b.mem));
	tp = thread_pointer(b.v.pid);
	assert_int_equal(tls_address(&v.tls, &b.mem, tp, &addr), TLS_NOT_ALLOCATED);
	tp = thread_pointer(thread_that_showed(&b, "in_plugin"));
	assert_int_equal(tls_address(&v.tls, &b.mem, tp, &addr), TLS_OK);
	variable_deinit(&v);
	variable_deinit(&in_static);
	bench_stop(&b);
}

#define DR7_EXECUTE 0x1
#define DR7_WRITE_1 0x10001

/* Sets DR0 of a stopped thread. */
static void arm(pid_t tid, uint64_t addr, uint64_t dr7)
{
	ptrace(PTRACE_POKEUSER, tid, offsetof(struct user, u_debugreg[7]), 0);
	assert_int_equal(ptrace(PTRACE_POKEUSER, tid, offsetof(struct user, u_debugreg[0]), addr), 0);
	assert_int_equal(ptrace(PTRACE_POKEUSER, tid, offsetof(struct user, u_debugreg[7]), dr7), 0);
}

static void wait_for_stop(pid_t tid)
{
	int status;

	assert_int_equal(waitpid(tid, &status, __WALL), tid);
	assert_true(WIFSTOPPED(status));
}

static uint64_t stopped_thread_pointer(pid_t tid)
{
	struct user_regs_struct regs;

	assert_int_equal(ptrace(PTRACE_GETREGS, tid, 0, &regs), 0);
	return regs.fs_base;
}

static void write_int(struct bench *b, const char *name, int value)
{
	struct variable v = { 0 };
	struct wc_error *err = locate(b->l, name, &b->modules, &b->mem, &v, NULL);
	struct iovec from = { &value, sizeof(value) }, to = { (void *)v.addr, sizeof(value) };

	assert_null(err);
	to.iov_base = (void *)v.addr;
	assert_int_equal(process_vm_writev(b->v.pid, &from, 1, &to, 1, 0), sizeof(value));
	variable_deinit(&v);
}

/* Behind the loader's code that makes it, and before it is used. */
static void a_copy_can_be_met_where_it_is_made(void **state)
{
	uint64_t at[2] = { 0 }, addr = 0;
	struct variable v;
	struct bench b;
	char used = 1;
	pid_t tid;

	if (ptrace_probe() != PROBE_FIRES)
		skip(); /* this machine offers no debug registers */
	victim_build(LIBRARY PLUGINS "gcc -g -DLIBRARY -DPLUGIN -o @/tls" SOURCE
				     "@/libtls_first.so -Wl,-rpath,@ -ldl");
	bench_start(&b);
	v = find(&b, "buffer_of_plugin");
	assert_int_equal(tls_copy_addresses(&b.modules, &b.mem, at, 2), 1);
	tid = thread_that_showed(&b, "in_gone");
	assert_int_equal(ptrace(PTRACE_SEIZE, tid, 0, 0), 0);
	ptrace(PTRACE_INTERRUPT, tid, 0, 0);
	wait_for_stop(tid);
	assert_int_equal(tls_address(&v.tls, &b.mem, stopped_thread_pointer(tid), &addr), TLS_NOT_ALLOCATED);
	arm(tid, at[0], DR7_EXECUTE);
	ptrace(PTRACE_CONT, tid, 0, 0);
	write_int(&b, "go", 1);
	wait_for_stop(tid);
	assert_int_equal(tls_address(&v.tls, &b.mem, stopped_thread_pointer(tid), &addr), TLS_OK);
	assert_true(memory_read(&b.mem, addr, &used, 1));
	assert_int_equal(used, 0);
	arm(tid, addr, DR7_WRITE_1);
	ptrace(PTRACE_CONT, tid, 0, 0);
	wait_for_stop(tid);
	assert_true(memory_read(&b.mem, addr, &used, 1));
	assert_int_equal(used, 1);
	ptrace(PTRACE_POKEUSER, tid, offsetof(struct user, u_debugreg[7]), 0);
	ptrace(PTRACE_DETACH, tid, 0, 0);
	variable_deinit(&v);
	bench_stop(&b);
}

static void exported_names_do_without_debug_information(void **state)
{
	struct variable v;
	struct bench b;

	victim_build("gcc -rdynamic -o @/tls" SOURCE " && strip @/tls");
	bench_start(&b);
	v = find(&b, "plain");
	assert_int_equal(v.size, 4);
	variable_deinit(&v);
	v = find(&b, "errno");
	assert_int_equal(v.size, 4);
	assert_non_null(strstr(v.module, "libc.so.6"));
	variable_deinit(&v);
	bench_stop(&b);
}

static void expect_refusal(struct bench *b, const char *expr, const char *part)
{
	struct variable v = { 0 };
	struct wc_error *err = locate(b->l, expr, &b->modules, &b->mem, &v, NULL);

	if (!err)
		fail_msg("%s was found", expr);
	assert_int_equal(err->kind, WC_ENAME);
	if (!strstr(err->text, part))
		fail_msg("%s: no \"%s\" in: %s", expr, part, err->text);
	wc_error_free(err);
}

static void paths_stay_inside_one_copy(void **state)
{
	struct variable v;
	struct bench b;

	victim_build("gcc -g -o @/tls" SOURCE);
	bench_start(&b);
	v = find(&b, "record.high");
	assert_int_equal(v.type.bit_size, 9);
	assert_int_equal(v.size, 2);
	variable_deinit(&v);
	v = find(&b, "record.point[1]");
	assert_string_equal(v.name, "record.point[1]");
	variable_deinit(&v);
	expect_refusal(&b, "*pointer", "'pointer' is thread-local: every thread has its own pointer");
	expect_refusal(&b, "record.next->head", "'record.next' is thread-local");
	expect_refusal(&b, "record.point[4].x", "4 elements");
	expect_refusal(&b, "plainn", "Did you mean 'plain'");
	bench_stop(&b);
}

/* Where the kernel lets the first thread of the program begin, while it is traced. */
static uint64_t first_thread_start(pid_t pid, struct module_list *modules)
{
	struct user_regs_struct regs = { 0 };
	struct wc_error *err = NULL;
	unsigned long child = 0;
	int status;

	while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
		if (status >> 8 == (SIGTRAP | PTRACE_EVENT_CLONE << 8)) {
			ptrace(PTRACE_GETEVENTMSG, pid, 0, &child);
			break;
		}
		ptrace(PTRACE_CONT, pid, 0, WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status));
	}
	assert_true(child);
	assert_int_equal(waitpid((pid_t)child, &status, __WALL), (pid_t)child);
	assert_int_equal(ptrace(PTRACE_GETREGS, (pid_t)child, 0, &regs), 0);
	err = module_list_read(pid, modules);
	assert_null(err);
	return regs.rip;
}

static pid_t start_traced(void)
{
	char path[256];
	int status;
	pid_t pid;

	snprintf(path, sizeof(path), "%s/tls", victim_dir);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		freopen("/dev/null", "w", stdout);
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		execl(path, path, (char *)NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL);
	ptrace(PTRACE_CONT, pid, 0, 0);
	return pid;
}

static void check_thread_start(const char *command, size_t first_places)
{
	struct module_list modules = { 0 };
	struct victim reader = { 0 };
	struct memory_view mem = { victim_read, &reader };
	uint64_t addr[8], rip;
	bool found = false;
	size_t n;
	pid_t pid;

	victim_build(command);
	pid = reader.pid = start_traced();
	rip = first_thread_start(pid, &modules);
	n = thread_start_addresses(&modules, &mem, addr, 8);
	if (n < 1 || n > 3)
		fail_msg("%s: %zu places", command, n);
	for (size_t i = 0; i < n; i++)
		found |= addr[i] == rip;
	if (!found)
		fail_msg("%s: a thread began at %#lx, not at %#lx", command, rip, addr[0]);
	n = thread_pointer_addresses(&modules, &mem, addr, 8);
	if (n != first_places)
		fail_msg("%s: the first thread may be set up at %zu places", command, n);
	module_list_deinit(&modules);
	kill(pid, SIGKILL);
	/* Its threads have to be waited for as well. */
	while (waitpid(-1, NULL, __WALL) > 0)
		;
}

static void new_threads_begin_where_it_says(void **state)
{
	check_thread_start("gcc -g -o @/tls" SOURCE, 0);
	check_thread_start("gcc -static -o @/tls" SOURCE, 1);
	check_thread_start("gcc -static-pie -s -o @/tls" SOURCE, 1);
}

static void new_threads_of_musl_begin_where_it_says(void **state)
{
	check_thread_start("musl-gcc -static -DNO_ERRNO -o @/tls" SOURCE, 1);
	check_thread_start("musl-gcc -static -s -DNO_ERRNO -o @/tls" SOURCE, 1);
	check_thread_start("musl-gcc -DNO_ERRNO -o @/tls" SOURCE, 0);
}

static void new_threads_of_go_begin_where_it_says(void **state)
{
	check_thread_start(
		"GOCACHE=@/cache GOFLAGS=-mod=mod HOME=@ go build -o @/tls tests/victims/loc_go.go", 1);
	check_thread_start("GOCACHE=@/cache GOFLAGS=-mod=mod HOME=@ go build -ldflags='-s -w' -o @/tls "
			   "tests/victims/loc_go.go",
			   1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_thread_of_a_program_has_its_own),
		cmocka_unit_test(clang_is_no_different),
		cmocka_unit_test(split_debug_information_is_no_different),
		cmocka_unit_test(statically_linked_programs_are_no_different),
		cmocka_unit_test(libraries_of_the_program_are_no_different),
		cmocka_unit_test(cxx_variables_are_no_different),
		cmocka_unit_test(musl_programs_are_no_different),
		cmocka_unit_test(musl_libraries_are_no_different),
		cmocka_unit_test(plugins_have_no_copy_before_they_are_used),
		cmocka_unit_test(a_copy_can_be_met_where_it_is_made),
		cmocka_unit_test(exported_names_do_without_debug_information),
		cmocka_unit_test(paths_stay_inside_one_copy),
		cmocka_unit_test(new_threads_begin_where_it_says),
		cmocka_unit_test(new_threads_of_musl_begin_where_it_says),
		cmocka_unit_test(new_threads_of_go_begin_where_it_says),
	};

	return cmocka_run_group_tests(tests, victim_setup, victim_cleanup);
}
