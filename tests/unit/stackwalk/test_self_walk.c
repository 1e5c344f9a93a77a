/*
 * The oracle is libgcc's unwinder, on stacks of every kind that a program has. Where a library must be
 * loaded, it is compiled here.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include <cmocka.h>

#include "stackwalk/self_rules.h"
#include "tests/unit/self_walk_scene.h"
#include "tests/unit/wait.h"

#if __has_attribute(optimize)
#define WITH_RBP __attribute__((noinline, optimize("no-omit-frame-pointer")))
#define WITHOUT_RBP __attribute__((noinline, optimize("omit-frame-pointer")))
#else /* clang: all functions are as the command line says */
#define WITH_RBP __attribute__((noinline))
#define WITHOUT_RBP __attribute__((noinline))
#endif

static _Thread_local volatile unsigned int sink;
static char dir[] = "/tmp/test_self_walk.XXXXXX";

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *c, void *ctx)
{
	struct walk *w = ctx;
	uint64_t ip = _Unwind_GetIP(c);

	if (ip && w->n < DEPTH)
		w->frame[w->n++] = ip;
	return _URC_NO_REASON;
}

static unsigned long checked, wrong;

/* Where a coroutine of glibc's begins: its first instruction, before which there is no function. */
static _Thread_local bool in_coroutine;

/* From here on: our walk, ends complete, and is libgcc's. Reports what is not, and counts; never jumps away. */
static __attribute__((noinline)) void check_here(void)
{
	struct walk ours = { .n = 0 }, theirs = { .n = 0 };
	struct self_regs regs;

	TAKE_HERE(&regs);
	ours.n = self_walk(&regs, false, ours.frame, DEPTH, &ours.why);
	_Unwind_Backtrace(add_frame, &theirs);
	__atomic_fetch_add(&checked, 1, __ATOMIC_RELAXED);
	/* Frame 0 is in this function, at two places of it. */
	if (ours.why == (in_coroutine ? WALK_END_NO_RULE : WALK_END_COMPLETE) && ours.n == theirs.n &&
	    ours.n > 1 && memcmp(ours.frame + 1, theirs.frame + 1, (ours.n - 1) * 8) == 0)
		return;
	if (__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED) < 3) {
		print_walk("ours", &ours);
		print_walk("libgcc's", &theirs);
	}
}

static struct walk taken;

static void take_walk(void)
{
	struct self_regs regs;

	TAKE_HERE(&regs);
	taken.n = self_walk(&regs, false, taken.frame, DEPTH, &taken.why);
}

#define BEGIN_CHECKS() (checked = wrong = 0)
#define END_CHECKS(least)                        \
	do {                                     \
		assert_int_equal(wrong, 0);      \
		assert_true(checked >= (least)); \
	} while (0)

static WITH_RBP int with_rbp(int n)
{
	volatile char room[24];

	room[n] = (char)n;
	if (n)
		return with_rbp(n - 1) + room[n];
	check_here();
	return room[n] + sink;
}

static WITHOUT_RBP int without_rbp(int n)
{
	volatile char room[72];

	room[n] = (char)n;
	if (n)
		return without_rbp(n - 1) + room[n] + sink % 2;
	return with_rbp(3) + room[n] + sink;
}

static __attribute__((noinline)) int realigned(int n)
{
	char *p = __builtin_alloca((size_t)n + 16);
	volatile char aligned[64] __attribute__((aligned(64)));

	memset(p, n, (size_t)n);
	memset((void *)aligned, p[n / 2], sizeof(aligned));
	sink += without_rbp(2);
	return aligned[n % 64];
}

static WITHOUT_RBP void huge_frame(void)
{
	volatile char room[60000];

	room[0] = 1;
	check_here();
	room[59999] = room[0];
}

static WITHOUT_RBP int tail_callee(int n)
{
	check_here();
	return n + sink;
}

static WITHOUT_RBP int tail_caller(int n)
{
	volatile char room[40];

	room[0] = (char)n;
	return tail_callee(n + room[0]);
}

static WITH_RBP int tail(int n)
{
	return tail_caller(n) + 1;
}

static int by_value(const void *a, const void *b)
{
	without_rbp(1);
	return *(const int *)a - *(const int *)b;
}

/*
 * Not where a signal may come at any instruction: between the last two of such a function gcc's table gives a
 * CFA that the code has already left (test_cfi.c, call_realigned), to every unwinder.
 */
static bool without_realigned;

static __attribute__((noinline)) void all_shapes(void)
{
	int v[] = { 3, 1, 2 }, key = 2;

	sink += with_rbp(10);
	sink += without_rbp(10);
	if (!without_realigned)
		sink += realigned(20);
	sink += tail(3);
	huge_frame();
	qsort(v, 3, sizeof(*v), by_value);
	sink += bsearch(&key, v, 3, sizeof(*v), by_value) != NULL;
}

static void calls_of_every_shape(void **state)
{
	BEGIN_CHECKS();
	for (int i = 0; i < 3; i++)
		all_shapes();
	END_CHECKS(3 * 6);
}

static WITHOUT_RBP int down(int n)
{
	volatile char room[4000];

	room[0] = (char)n;
	if (n)
		return down(n - 1) + room[0];
	for (int i = 0; i < 3; i++)
		take_walk();
	return sink;
}

/* Much further down than any walk before, and back. */
static void the_stack_grows(void **state)
{
	for (int i = 0; i < 1600; i += 100 + i / 4) {
		sink += down(i);
		assert_int_equal(taken.n, i + 2 < DEPTH ? taken.n : DEPTH);
		assert_int_equal(taken.why, taken.n < DEPTH ? WALK_END_COMPLETE : WALK_END_DEPTH);
		BEGIN_CHECKS();
		all_shapes();
		END_CHECKS(6);
	}
}

/* clang-format off */
/* The call is the last instruction of its function: where it returns to belongs to another, with another rule. */
__asm__(".text\n"
	".globl calls_at_its_end\n.type calls_at_its_end, @function\ncalls_at_its_end:\n.cfi_startproc\n"
	"sub $40, %rsp\n.cfi_adjust_cfa_offset 40\ncall *%rdi\n.cfi_endproc\n"
	".cfi_startproc\nadd $40, %rsp\nret\n.cfi_endproc\n");
/* clang-format on */
void calls_at_its_end(void (*f)(void));

static void a_return_address_belongs_to_the_call_before_it(void **state)
{
	BEGIN_CHECKS();
	for (int i = 0; i < 3; i++)
		calls_at_its_end(all_shapes);
	END_CHECKS(3 * 6);
}

static void errno_is_left_alone(void **state)
{
	struct self_regs regs;
	uint64_t frame[DEPTH];
	enum walk_end why;

	TAKE_HERE(&regs);
	regs.rbp = 0x10;
	regs.rsp = 0x20;
	errno = 4711;
	self_walk(&regs, false, frame, DEPTH, &why);
	assert_int_equal(errno, 4711);
}

static void a_depth_limit_is_distinguished_from_the_end(void **state)
{
	struct walk all = { .n = 0 }, some;
	struct self_regs regs;

	TAKE_HERE(&regs);
	all.n = self_walk(&regs, false, all.frame, DEPTH, &all.why);
	assert_int_equal(all.why, WALK_END_COMPLETE);
	for (uint32_t max = 1; max <= all.n + 1; max++) {
		memset(&some, 0xee, sizeof(some));
		some.n = self_walk(&regs, false, some.frame, max, &some.why);
		assert_int_equal(some.n, max < all.n ? max : all.n);
		assert_int_equal(some.why, max <= all.n ? WALK_END_DEPTH : WALK_END_COMPLETE);
		assert_memory_equal(some.frame, all.frame, some.n * 8);
		assert_int_equal(some.frame[max], 0xeeeeeeeeeeeeeeee);
	}
}

static void on_signal(int sig)
{
	without_rbp(2);
	if (sig == SIGUSR1)
		raise(SIGUSR2);
}

static void signal_handlers_on_their_stack_and_on_others(void **state)
{
	struct sigaction action = { .sa_handler = on_signal };
	stack_t ss = { .ss_size = 1 << 17 }, old;

	ss.ss_sp = mmap(NULL, ss.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(ss.ss_sp, MAP_FAILED);
	BEGIN_CHECKS();
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGUSR2, &action, NULL);
	raise(SIGUSR1); /* both on this stack */
	assert_int_equal(sigaltstack(&ss, &old), 0);
	action.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1); /* SIGUSR1 there, SIGUSR2 there as well, above it */
	sigaction(SIGUSR2, &action, NULL);
	raise(SIGUSR2);
	assert_int_equal(sigaltstack(&old, NULL), 0);
	munmap(ss.ss_sp, ss.ss_size);
	END_CHECKS(5);
}

static pthread_key_t key;

static void at_thread_end(void *arg)
{
	all_shapes();
}

static void *thread_main(void *arg)
{
	pthread_setspecific(key, &key);
	for (int i = 0; i < 200; i++)
		all_shapes();
	return NULL;
}

static void many_threads_from_their_first_function_to_their_last(void **state)
{
	pthread_t thread[8];
	pthread_attr_t attr;

	BEGIN_CHECKS();
	assert_int_equal(pthread_key_create(&key, at_thread_end), 0);
	pthread_attr_init(&attr);
	for (int i = 0; i < 8; i++) {
		pthread_attr_setguardsize(&attr, i % 2 ? 4096 : 0);
		pthread_attr_setstacksize(&attr, (size_t)(256 << 10) * (size_t)(i + 1));
		assert_int_equal(pthread_create(&thread[i], &attr, thread_main, NULL), 0);
	}
	for (int i = 0; i < 8; i++)
		pthread_join(thread[i], NULL);
	pthread_attr_destroy(&attr);
	pthread_key_delete(key);
	END_CHECKS(8 * 201 * 6);
}

static int status_of(pid_t pid)
{
	int status = -1;

	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void at_process_end(void)
{
	all_shapes();
	_exit(wrong || checked < 6 ? 1 : 0);
}

static void *fork_in_thread(void *arg)
{
	pid_t pid;

	if (arg)
		all_shapes();
	pid = fork();
	if (pid == 0) {
		all_shapes();
		_exit(wrong ? 1 : 0);
	}
	return (void *)(intptr_t)status_of(pid);
}

static void children_and_exit_handlers(void **state)
{
	pthread_t thread;
	void *status;
	int arg;
	pid_t pid;

	BEGIN_CHECKS();
	pid = fork();
	if (pid == 0) {
		atexit(at_process_end);
		exit(3);
	}
	assert_int_equal(status_of(pid), 0);
	/* A thread that becomes the main one, having walked before, and not. */
	assert_int_equal(pthread_create(&thread, NULL, fork_in_thread, &arg), 0);
	pthread_join(thread, &status);
	assert_null(status);
	assert_int_equal(pthread_create(&thread, NULL, fork_in_thread, NULL), 0);
	pthread_join(thread, &status);
	assert_null(status);
	END_CHECKS(6);
}

static ucontext_t outside, inside;

static void coroutine(void)
{
	in_coroutine = true;
	all_shapes();
	in_coroutine = false;
	swapcontext(&inside, &outside);
	in_coroutine = true;
	all_shapes();
	in_coroutine = false;
}

static void run_coroutine(void)
{
	const size_t size = 128 << 10;
	char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(stack, MAP_FAILED);
	getcontext(&inside);
	inside.uc_stack.ss_sp = stack;
	inside.uc_stack.ss_size = size;
	inside.uc_link = &outside;
	makecontext(&inside, coroutine, 0);
	swapcontext(&outside, &inside);
	all_shapes();
	swapcontext(&outside, &inside);
	munmap(stack, size);
	all_shapes();
}

static void coroutines_on_stacks_of_their_own(void **state)
{
	BEGIN_CHECKS();
	for (int i = 0; i < 20; i++)
		run_coroutine();
	END_CHECKS(20 * 4 * 6);
}

/* push rbp; mov rbp, rsp; call rdi or rsi; pop rbp; ret, and no module around it. */
static void made_code_is_walked_by_frame_pointers(void **state)
{
	static const uint8_t inner[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };
	static const uint8_t outer[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd6, 0x5d, 0xc3 };
	uint8_t *page =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const uint64_t self = (uintptr_t)made_code_is_walked_by_frame_pointers;
	void (*call)(void (*)(void), void *);

	assert_ptr_not_equal(page, MAP_FAILED);
	memcpy(page + 64, inner, sizeof(inner));
	memcpy(page + 128, outer, sizeof(outer));
	*(void **)&call = page + 128;

	/* take_walk, inner, outer, and then its callers, whatever they keep in rbp. */
	call(take_walk, page + 64);
	assert_int_equal(taken.why, WALK_END_COMPLETE);
	assert_int_equal(taken.frame[1], (uintptr_t)page + 64 + 6);
	assert_int_equal(taken.frame[2], (uintptr_t)page + 128 + 6);
	assert_true(taken.frame[3] > self && taken.frame[3] < self + 2000);

	/* It keeps something else in rbp: push rbp; mov rbp, rsi; call rdi; pop rbp; ret */
	memcpy(page + 192, "\x55\x48\x89\xf5\xff\xd7\x5d\xc3", 8);
	*(void **)&call = page + 192;
	for (int i = 0; i < 3; i++) {
		uint64_t lies[3][2] = { { 0, (uintptr_t)&taken }, { 0, 0 }, { 0, self } };

		call(take_walk, lies[i]);
		assert_int_equal(taken.why, WALK_END_NO_RULE);
		assert_int_equal(taken.n, 2);
		assert_int_equal(taken.frame[1], (uintptr_t)page + 192 + 6);
	}
	call(take_walk, page);
	assert_int_equal(taken.why, WALK_END_NO_RULE);
	assert_int_equal(taken.n, 2);
	munmap(page, 4096);
}

/* Compiled at run time: libraries that come and go. */

static bool compile(const char *compiler, const char *source, const char *options, const char *name)
{
	char command[1024];
	FILE *f;

	snprintf(command, sizeof(command), "%s -shared -fPIC -O1 %s -o %s/%s - 2>&1", compiler, options, dir,
		 name);
	f = popen(command, "w");
	if (!f)
		return false;
	fputs(source, f);
	return pclose(f) == 0;
}

static const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void exceptions_in_flight(void **state)
{
	static const char source[] =
		"struct guard { void (*f)(); ~guard() { f(); } };\n"
		"static void __attribute__((noinline)) inner(void (*f)()) { guard g = { f }; throw 1; }\n"
		"extern \"C\" int fly(void (*f)()) { try { guard g = { f }; inner(f); }\n"
		"catch (int n) { f(); return n; } return 0; }\n";
	int (*fly)(void (*)(void));
	void *lib;

	if (!compile("c++ -x c++", source, "", "fly.so")) {
		print_message("skipped: no C++ compiler (c++) makes a library here\n");
		skip();
	}
	lib = dlopen(path_of("fly.so"), RTLD_NOW);
	assert_non_null(lib);
	*(void **)&fly = dlsym(lib, "fly");
	BEGIN_CHECKS();
	assert_int_equal(fly(all_shapes), 1);
	END_CHECKS(3 * 6);
	dlclose(lib);
}

/* Two libraries that look the same from outside, loaded to the same place; their frames have other sizes. */
static void replaced_library(const char *options, const char *first, const char *second)
{
	static const char source[] = "extern void *alloca(unsigned long);\n"
				     "__attribute__((noinline)) int inner(void (*f)(void)) { volatile char "
				     "a[ROOM]; a[0] = 1; f(); return a[0]; }\n"
				     "int answer(void (*f)(void)) { volatile char a[ROOM + 16]; a[1] = "
				     "inner(f); f(); return a[1]; }\n";
	char with_room[256];
	void *at[2] = { NULL, NULL };

	for (int i = 0; i < 2; i++) {
		snprintf(with_room, sizeof(with_room), "-DROOM=%d -fomit-frame-pointer %s -x c", i ? 64 : 24,
			 options);
		if (!compile("cc", source, with_room, i ? second : first)) {
			print_message("skipped: no C compiler (cc) makes a library here\n");
			skip();
		}
	}
	BEGIN_CHECKS();
	for (int i = 0; i < 6; i++) {
		void *lib = dlopen(path_of(i % 2 ? second : first), RTLD_NOW);
		int (*answer)(void (*)(void));

		assert_non_null(lib);
		*(void **)&answer = dlsym(lib, "answer");
		at[i % 2] = (void *)answer;
		for (int k = 0; k < 3; k++)
			assert_int_equal(answer(all_shapes), 1);
		dlclose(lib);
	}
	/* Or nothing was shown. */
	assert_ptr_equal(at[0], at[1]);
	END_CHECKS(6 * 3 * 2 * 6);
}

static void a_library_in_the_place_of_another(void **state)
{
	replaced_library("-Wl,--build-id", "one.so", "two.so");
	replaced_library("-Wl,--build-id=none", "three.so", "four.so");
}

/* A signal every 100 us, at any instruction of a walk, a first sight or a library function. */

static struct {
	struct walk base; /* the frames of the function that arms the timer, and out */
	volatile unsigned long taken, bad;
} timer;

static void on_timer(int sig, siginfo_t *info, void *context)
{
	const ucontext_t *uc = context;
	struct walk w;
	struct regs regs = { .r = { 0 } };
	int saved = errno;

	for (unsigned int i = 0; i < 17; i++)
		regs.r[ucontext_order[i]] = (uint64_t)uc->uc_mcontext.gregs[i];
	w.n = self_walk_interrupted(&regs, w.frame, DEPTH, &w.why);
	timer.taken++;
	/* The return address in the arming function itself varies; what is outside does not. */
	if (w.why != WALK_END_COMPLETE || w.n < timer.base.n ||
	    memcmp(w.frame + w.n - timer.base.n + 1, timer.base.frame + 1, (timer.base.n - 1) * 8) != 0) {
		if (timer.bad++ == 0)
			print_walk("interrupted", &w);
	}
	errno = saved;
}

static void forget_words(void)
{
	memset(self_words, 0, sizeof(self_words));
}

static __attribute__((noinline)) void walk_under_fire(unsigned long signals)
{
	const struct itimerval often = { { 0, 100 }, { 0, 100 } }, off = { { 0, 0 }, { 0, 0 } };
	const uint64_t end = wait_end_ns();
	struct self_regs regs;

	TAKE_HERE(&regs);
	timer.base.n = self_walk(&regs, false, timer.base.frame, DEPTH, &timer.base.why);
	setitimer(ITIMER_REAL, &often, NULL);
	while (timer.taken < signals && monotonic_ns() < end) {
		forget_words();
		all_shapes();
	}
	setitimer(ITIMER_REAL, &off, NULL);
}

static void interrupted_anywhere(void **state)
{
	struct sigaction action = { .sa_sigaction = on_timer, .sa_flags = SA_SIGINFO | SA_RESTART };

	BEGIN_CHECKS();
	sigaction(SIGALRM, &action, NULL);
	without_realigned = true;
	walk_under_fire(5000);
	without_realigned = false;
	print_message("%lu walks in handlers, %lu walks interrupted by them\n", timer.taken, checked);
	assert_int_equal(timer.bad, 0);
	assert_true(timer.taken > 100);
	END_CHECKS(100);
}

/* Before main, and before setup. */
static struct walk early;

__attribute__((constructor)) static void walk_early(void)
{
	struct self_regs regs;

	TAKE_HERE(&regs);
	early.n = self_walk(&regs, false, early.frame, DEPTH, &early.why);
}

static void before_main_and_setup(void **state)
{
	assert_int_equal(early.why, WALK_END_COMPLETE);
	assert_true(early.n >= 3);
}

static int set_up(void **state)
{
	self_walk_setup();
	return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
	static const char *const made[] = { "fly.so", "one.so", "two.so", "three.so", "four.so" };

	for (size_t i = 0; i < sizeof(made) / sizeof(*made); i++)
		unlink(path_of(made[i]));
	rmdir(dir);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(before_main_and_setup),
		cmocka_unit_test(calls_of_every_shape),
		cmocka_unit_test(a_return_address_belongs_to_the_call_before_it),
		cmocka_unit_test(the_stack_grows),
		cmocka_unit_test(errno_is_left_alone),
		cmocka_unit_test(a_depth_limit_is_distinguished_from_the_end),
		cmocka_unit_test(signal_handlers_on_their_stack_and_on_others),
		cmocka_unit_test(many_threads_from_their_first_function_to_their_last),
		cmocka_unit_test(children_and_exit_handlers),
		cmocka_unit_test(coroutines_on_stacks_of_their_own),
		cmocka_unit_test(made_code_is_walked_by_frame_pointers),
		cmocka_unit_test(exceptions_in_flight),
		cmocka_unit_test(a_library_in_the_place_of_another),
		cmocka_unit_test(interrupted_anywhere),
	};

	return cmocka_run_group_tests_name("self_walk", tests, set_up, tear_down);
}
