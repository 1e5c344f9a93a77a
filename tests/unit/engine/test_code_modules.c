/*
 * code_modules: what a process maps, reported by the kernel as it happens, against what the process itself says
 * that it did, and when.
 */
#include "tests/unit/loc_victim.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "tests/unit/wait.h"
#include "watchctl/code/elf/module_jit.h"
#include "watchctl/engine/intake/code_modules.h"

/* A forked child of ours that does what it is asked to, and the time when it was done. */
struct puppet {
	pid_t pid;
	int ask[2], answer[2];
};

struct doing {
	char what; /* see act() */
	char path[200];
};

struct done {
	uint64_t begin_ns, end_ns, addr;
	pid_t pid;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *handle;

static uint64_t load(const char *path)
{
	handle = dlopen(path, RTLD_NOW);
	return handle ? (uint64_t)(uintptr_t)dlsym(handle, "brief_store") : 0;
}

struct in_thread {
	const char *path;
	uint64_t addr;
};

static void *load_in_thread(void *ctx)
{
	struct in_thread *t = ctx;

	t->addr = load(t->path);
	return NULL;
}

static uint64_t in_thread(const char *path)
{
	struct in_thread t = { path, 0 };
	pthread_t thread;

	if (!pthread_create(&thread, NULL, load_in_thread, &t))
		pthread_join(thread, NULL);
	return t.addr;
}

static uint64_t make_code(void)
{
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mprotect(p, 4096, PROT_READ | PROT_EXEC);
	return (uint64_t)(uintptr_t)p;
}

static void act(const struct doing *d, int answer)
{
	struct done done = { .begin_ns = now_ns(), .pid = getpid() };
	pid_t child;

	switch (d->what) {
	case 'l': /* loads a library */
		done.addr = load(d->path);
		break;
	case 't': /* ... in a thread */
		done.addr = in_thread(d->path);
		break;
	case 'c': /* ... in a child */
		child = fork();
		if (!child) {
			done.pid = getpid();
			done.addr = load(d->path);
			done.end_ns = now_ns();
			_exit(write(answer, &done, sizeof(done)) != sizeof(done));
		}
		waitpid(child, NULL, 0);
		return;
	case 'u':
		dlclose(handle);
		break;
	case 'j': /* makes code */
		done.addr = make_code();
		break;
	case 'm': /* maps code more often than can be known */
		for (int i = 0; i < 3000; i++) {
			int fd = open(d->path, O_RDONLY | O_CLOEXEC);

			done.addr = (uint64_t)(uintptr_t)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE,
							      fd, 0);
			close(fd);
		}
		break;
	case 'e':
		execl("/bin/sleep", "sleep", "100", (char *)NULL);
		break;
	default:
		_exit(0);
	}
	done.end_ns = now_ns();
	if (write(answer, &done, sizeof(done)) != sizeof(done))
		_exit(1);
}

static void puppet_start(struct puppet *p)
{
	struct doing d;

	assert_int_equal(pipe2(p->ask, O_CLOEXEC) | pipe2(p->answer, O_CLOEXEC), 0);
	p->pid = fork();
	assert_true(p->pid >= 0);
	if (p->pid) {
		close(p->ask[0]);
		close(p->answer[1]);
		return;
	}
	close(p->ask[1]);
	close(p->answer[0]);
	while (read(p->ask[0], &d, sizeof(d)) == sizeof(d))
		act(&d, p->answer[1]);
	_exit(0);
}

static struct done puppet_do(struct puppet *p, char what, const char *file)
{
	struct doing d = { .what = what };
	struct done done = { 0 };

	if (file)
		snprintf(d.path, sizeof(d.path), "%s/%s", victim_dir, file);
	assert_int_equal(write(p->ask[1], &d, sizeof(d)), sizeof(d));
	if (what != 'e')
		assert_int_equal(read(p->answer[0], &done, sizeof(done)), sizeof(done));
	assert_true(strchr("ltc", what) == NULL || done.addr);
	return done;
}

static void puppet_end(struct puppet *p)
{
	close(p->ask[1]);
	close(p->answer[0]);
	waitpid(p->pid, NULL, 0);
}

/* What was told to have been exchanged. */
struct displaced {
	size_t n;
	uint64_t start, end;
};

static void on_displaced(void *ctx, uint64_t start, uint64_t end)
{
	struct displaced *d = ctx;

	*d = (struct displaced){ d->n + 1, start, end };
}

static void catch_up(struct code_modules *c, uint64_t until_ns)
{
	struct module_change change;
	bool ok;

	while (code_modules_next(c, until_ns, &change, &ok))
		assert_non_null(change.module->path);
	assert_true(ok);
}

static bool look(struct code_modules *c)
{
	bool looked;

	assert_null(code_modules_look(c, now_ns(), &looked));
	catch_up(c, 0);
	return looked;
}

static struct code_modules *follow(struct puppet *p, bool family, struct displaced *displaced)
{
	struct code_modules *c;

	puppet_start(p);
	c = code_modules_new(p->pid, &(struct code_modules_hooks){ on_displaced, NULL, displaced });
	assert_non_null(c);
	if (!code_modules_listen(c, family)) {
		code_modules_free(c);
		puppet_end(p);
		print_message("skipped: perf events are not permitted\n");
		skip();
	}
	assert_true(look(c));
	return c;
}

static void take(struct code_modules *c)
{
	assert_true(code_modules_take(c));
}

/* The name of the file that the list has at @addr; "": none. */
static const char *file_at(const struct code_modules *c, uint64_t addr)
{
	const struct module *m = module_find(code_modules_list(c), addr);
	const char *slash = m ? strrchr(m->path, '/') : NULL;

	return slash ? slash + 1 : m ? m->path : "";
}

static int build_libraries(void **state)
{
	(void)state;
	if (victim_setup(state))
		return -1;
	return !victim_sh("gcc -shared -fPIC -DNAME=one -DMARK=1 -o @/one.so tests/victims/brief_lib.c && "
			  "gcc -shared -fPIC -DNAME=two -DMARK=2 -o @/two.so tests/victims/brief_lib.c && "
			  "gcc -shared -fPIC -DNAME=two -DMARK=3 -o @/three.so tests/victims/brief_lib.c && "
			  "cp @/one.so @/gone.so && cp @/two.so @/lost.so");
}

static void what_was_loaded_is_known_after_the_end(void **state)
{
	struct displaced displaced = { 0 };
	struct puppet p;
	struct code_modules *c = follow(&p, false, &displaced);
	struct done one = puppet_do(&p, 'l', "one.so");

	(void)state;
	puppet_end(&p);
	assert_string_equal(file_at(c, one.addr), "");
	take(c);
	catch_up(c, 0); /* nothing was there: it comes at once */
	assert_string_equal(file_at(c, one.addr), "one.so");
	assert_false(look(c));
	assert_true(code_modules_over(c));
	assert_string_equal(file_at(c, one.addr), "one.so");
	assert_int_equal(displaced.n, 0);
	code_modules_free(c);
}

static void a_new_thread_reports_too(void **state)
{
	struct displaced displaced = { 0 };
	struct puppet p;
	struct code_modules *c = follow(&p, true, &displaced);
	struct done one = puppet_do(&p, 't', "one.so");

	(void)state;
	puppet_end(&p);
	take(c);
	catch_up(c, 0);
	assert_string_equal(file_at(c, one.addr), "one.so");
	code_modules_free(c);
}

static void of_two_libraries_at_one_place_each_has_its_time(void **state)
{
	struct displaced displaced = { 0 };
	struct puppet p;
	struct code_modules *c = follow(&p, false, &displaced);
	struct done one = puppet_do(&p, 'l', "one.so"), two;

	(void)state;
	take(c);
	catch_up(c, one.end_ns);
	puppet_do(&p, 'u', NULL);
	two = puppet_do(&p, 'l', "two.so");
	puppet_end(&p);
	assert_int_equal(one.addr, two.addr);
	take(c);
	assert_int_equal(displaced.n, 1);
	assert_true(displaced.start <= one.addr && one.addr < displaced.end);
	assert_true(code_modules_changing(c, two.addr));
	catch_up(c, two.begin_ns);
	assert_string_equal(file_at(c, one.addr), "one.so");
	assert_int_equal(code_modules_doubt(c, one.addr, one.end_ns), CODE_SURE);
	catch_up(c, two.end_ns);
	assert_string_equal(file_at(c, two.addr), "two.so");
	assert_false(code_modules_changing(c, two.addr));
	assert_int_equal(code_modules_doubt(c, two.addr, two.end_ns), CODE_RULES_IN_DOUBT);
	assert_int_equal(code_modules_doubt(c, two.addr, now_ns()), CODE_SURE);
	assert_int_equal(code_modules_doubt(c, two.addr + (1ull << 30), two.end_ns), CODE_SURE);
	code_modules_free(c);
}

/* Between the two there is code that nobody can read any more, and it is neither of them. */
static void a_library_whose_file_is_gone_ends_the_one_before_it(void **state)
{
	struct displaced displaced = { 0 };
	struct puppet p;
	struct code_modules *c = follow(&p, false, &displaced);
	struct done one = puppet_do(&p, 'l', "one.so"), lost, three;

	(void)state;
	take(c);
	catch_up(c, one.end_ns);
	puppet_do(&p, 'u', NULL);
	lost = puppet_do(&p, 'l', "lost.so");
	assert_true(victim_sh("mv @/lost.so @/elsewhere.so"));
	puppet_do(&p, 'u', NULL);
	three = puppet_do(&p, 'l', "three.so");
	puppet_end(&p);
	assert_int_equal(one.addr, lost.addr);
	assert_int_equal(one.addr, three.addr);
	take(c);
	catch_up(c, lost.begin_ns);
	assert_string_equal(file_at(c, one.addr), "one.so");
	catch_up(c, lost.end_ns);
	assert_string_equal(file_at(c, one.addr), "");
	catch_up(c, three.begin_ns);
	assert_string_equal(file_at(c, one.addr), "");
	catch_up(c, three.end_ns);
	assert_string_equal(file_at(c, one.addr), "three.so");
	code_modules_free(c);
}

static void what_was_unloaded_goes_at_the_time_of_the_look_that_misses_it(void **state)
{
	struct displaced displaced = { 0 };
	struct puppet p;
	struct code_modules *c = follow(&p, false, &displaced);
	struct done one = puppet_do(&p, 'l', "one.so"), gone;

	(void)state;
	assert_true(look(c));
	assert_string_equal(file_at(c, one.addr), "one.so");
	gone = puppet_do(&p, 'u', NULL);
	assert_true(code_modules_moved(c));
	assert_true(look(c));
	assert_false(code_modules_moved(c));
	catch_up(c, gone.begin_ns);
	assert_string_equal(file_at(c, one.addr), "one.so");
	catch_up(c, now_ns());
	assert_string_equal(file_at(c, one.addr), "");
	puppet_end(&p);
	code_modules_free(c);
}

static void without_the_kernels_word_changes_come_with_the_look(void **state)
{
	struct displaced displaced = { 0 };
	struct code_modules *c;
	struct done one, two;
	struct puppet p;
	uint64_t before;

	(void)state;
	puppet_start(&p);
	c = code_modules_new(p.pid, &(struct code_modules_hooks){ on_displaced, NULL, &displaced });
	assert_true(look(c));
	one = puppet_do(&p, 'l', "one.so");
	assert_true(look(c));
	before = now_ns();
	puppet_do(&p, 'u', NULL);
	two = puppet_do(&p, 'l', "two.so");
	assert_int_equal(one.addr, two.addr);
	assert_null(code_modules_look(c, before, &(bool){ 0 }));
	catch_up(c, 0);
	assert_string_equal(file_at(c, two.addr), "two.so");
	assert_int_equal(code_modules_doubt(c, two.addr, two.end_ns), CODE_IN_DOUBT);
	assert_int_equal(code_modules_doubt(c, two.addr, before), CODE_SURE);
	assert_true(displaced.n > 0);
	puppet_end(&p);
	code_modules_free(c);
}

static void a_look_makes_up_for_what_was_lost(void **state)
{
	struct displaced displaced = { 0 };
	struct puppet p;
	struct code_modules *c = follow(&p, false, &displaced);
	struct done many = puppet_do(&p, 'm', "../../bin/true"), one;

	(void)state;
	one = puppet_do(&p, 'l', "one.so");
	take(c);
	puppet_do(&p, 'j', NULL); /* the next word shows that some were lost */
	take(c);
	assert_true(code_modules_wants_look(c));
	assert_true(look(c));
	assert_false(code_modules_wants_look(c));
	assert_string_equal(file_at(c, one.addr), "one.so");
	assert_true(many.addr);
	puppet_end(&p);
	code_modules_free(c);
}

static void a_file_that_is_gone_is_looked_for_in_the_maps(void **state)
{
	struct displaced displaced = { 0 };
	struct puppet p;
	struct code_modules *c = follow(&p, false, &displaced);
	struct done gone = puppet_do(&p, 'l', "gone.so");

	(void)state;
	assert_true(victim_sh("rm @/gone.so"));
	take(c);
	assert_true(code_modules_wants_look(c));
	assert_true(look(c));
	assert_string_equal(file_at(c, gone.addr), "gone.so");
	puppet_end(&p);
	code_modules_free(c);
}

static void code_that_a_program_made_is_known_after_its_end(void **state)
{
	struct displaced displaced = { 0 };
	struct puppet p;
	struct code_modules *c = follow(&p, false, &displaced);
	struct done jit = puppet_do(&p, 'j', NULL);

	(void)state;
	puppet_end(&p);
	assert_false(look(c));
	assert_string_equal(file_at(c, jit.addr), MODULE_JIT);
	assert_string_equal(file_at(c, jit.addr + 4096), "");
	code_modules_free(c);
}

/* Until then its memory is being exchanged: there may be nothing in it yet. */
static bool sleeps(pid_t pid)
{
	char path[32], text[32];
	bool yes;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/syscall", pid);
	f = fopen(path, "re");
	yes = f && fgets(text, sizeof(text), f) && strtoul(text, NULL, 10) == SYS_clock_nanosleep;
	if (f)
		fclose(f);
	return yes;
}

static void another_program_has_nothing_to_do_with_it(void **state)
{
	struct displaced displaced = { 0 };
	struct puppet p;
	struct code_modules *c = follow(&p, false, &displaced);
	struct done one = puppet_do(&p, 'l', "one.so");

	(void)state;
	take(c);
	catch_up(c, 0);
	puppet_do(&p, 'e', NULL);
	WAIT_UNTIL(!look(c) || code_modules_over(c));
	assert_true(code_modules_over(c));
	WAIT_UNTIL(sleeps(p.pid));
	catch_up(c, now_ns());
	assert_string_equal(file_at(c, one.addr), "one.so");
	assert_true(code_modules_restart(c));
	catch_up(c, 0);
	assert_string_equal(file_at(c, one.addr), "");
	assert_true(look(c));
	for (size_t i = 0; i < code_modules_list(c)->n; i++)
		assert_null(strstr(code_modules_list(c)->v[i].path, "one.so"));
	assert_true(code_modules_list(c)->n > 2);
	kill(p.pid, SIGKILL);
	puppet_end(&p);
	code_modules_free(c);
}

static void what_a_child_loads_is_its_own(void **state)
{
	struct displaced displaced = { 0 };
	struct puppet p;
	struct code_modules *c = follow(&p, true, &displaced);
	struct done child = puppet_do(&p, 'c', "one.so"), other, own;
	uint64_t shared = (uint64_t)(uintptr_t)&puppet_start;
	uint64_t frame[2] = { shared, child.addr };

	(void)state;
	take(c);
	catch_up(c, 0);
	assert_true(code_modules_hears_children(c));
	assert_string_equal(file_at(c, child.addr), "one.so");
	assert_int_equal(code_modules_shared(c, child.pid, frame, 2), 2);
	assert_int_equal(code_modules_shared(c, p.pid, frame, 2), 1);
	other = puppet_do(&p, 'c', "two.so"); /* at the same place, in another child */
	assert_int_equal(other.addr, child.addr);
	take(c);
	catch_up(c, other.end_ns);
	assert_string_equal(file_at(c, child.addr), "two.so");
	assert_int_equal(code_modules_shared(c, other.pid, frame, 2), 2);
	assert_int_equal(code_modules_shared(c, child.pid, frame, 2), 1);
	own = puppet_do(&p, 'l', "one.so");
	assert_int_equal(own.addr, child.addr);
	take(c);
	catch_up(c, own.end_ns);
	assert_string_equal(file_at(c, own.addr), "one.so");
	assert_int_equal(code_modules_shared(c, p.pid, frame, 2), 2);
	assert_int_equal(code_modules_shared(c, other.pid, frame, 2), 1);
	other = puppet_do(&p, 'c', "two.so"); /* now the target has something: elsewhere */
	assert_int_not_equal(other.addr, own.addr);
	take(c);
	catch_up(c, other.end_ns);
	assert_string_equal(file_at(c, other.addr), "two.so");
	puppet_end(&p);
	code_modules_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_loaded_is_known_after_the_end),
		cmocka_unit_test(a_new_thread_reports_too),
		cmocka_unit_test(of_two_libraries_at_one_place_each_has_its_time),
		cmocka_unit_test(a_library_whose_file_is_gone_ends_the_one_before_it),
		cmocka_unit_test(what_was_unloaded_goes_at_the_time_of_the_look_that_misses_it),
		cmocka_unit_test(without_the_kernels_word_changes_come_with_the_look),
		cmocka_unit_test(a_look_makes_up_for_what_was_lost),
		cmocka_unit_test(a_file_that_is_gone_is_looked_for_in_the_maps),
		cmocka_unit_test(code_that_a_program_made_is_known_after_its_end),
		cmocka_unit_test(another_program_has_nothing_to_do_with_it),
		cmocka_unit_test(what_a_child_loads_is_its_own),
	};

	return cmocka_run_group_tests(tests, build_libraries, victim_cleanup);
}
