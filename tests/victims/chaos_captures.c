/*
 * chaos_captures - captures wherever it hurts, all at once, in a program that watches itself.
 *
 *	chaos_captures SEED SECONDS PLUGIN_A PLUGIN_B [wait]
 *
 * Threads that live for a moment; plugins that take each other's place; forks, vforks, spawns; signals on
 * stacks that change, and in whatever thread there is; coroutines that go from thread to thread, on stacks
 * that go; jumps out of handlers. Says "pid N"; with "wait" it begins when somebody collects. At its end it
 * says "made NAME N" for each tag, NAME being also the function that captures (check_registers: under three
 * numbers), "jumps N" (each may have cut one short), how much of everything there was, and "ok"; then it
 * reads a line, and ends. Every capture is surrounded by checks: errno, registers that calls preserve, return
 * addresses that the compiler knows. Exit status 1, with a sentence, when something is not as it was.
 *
 * With -DPLUGIN=name -DPLUGIN_FRAME=bytes it is one of the plugins.
 */
#define _GNU_SOURCE
#include <stackwalk.h>

#define NOINLINE __attribute__((noinline, noclone))

#ifdef PLUGIN

int PLUGIN_ENTRY(void **at);

static NOINLINE int PLUGIN(void *outer_return, uint64_t *made)
{
	volatile char frame[PLUGIN_FRAME];
	enum stackwalk_end why;
	uint64_t f[3];

	frame[0] = frame[PLUGIN_FRAME - 1] = 1;
	__atomic_fetch_add(made, 1, __ATOMIC_RELAXED);
	STACKWALK_TAG(PLUGIN_TEXT);
	return stackwalk_frames(f, 3, &why) == 3 && f[1] == (uintptr_t)__builtin_return_address(0) &&
	       f[2] == (uintptr_t)outer_return && frame[0];
}

/* @at: [0] the counter, [1] returned: where we are. False: a walk went wrong. */
__attribute__((visibility("default"))) int PLUGIN_ENTRY(void **at)
{
	volatile char frame[PLUGIN_FRAME / 2 + 8];
	int ok;

	frame[0] = 1;
	at[1] = (void *)PLUGIN;
	ok = PLUGIN(__builtin_return_address(0), at[0]);
	return ok + frame[0] - 1;
}

#else

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define NOT_A_TAIL_CALL __asm__ volatile("" ::: "memory")
#define COROUTINE_STACK (32 << 10)
#define ALTSTACK (64 << 10)

enum {
	IN_THREAD,
	IN_DESTRUCTOR,
	IN_SIGNAL,
	ANYWHERE,
	IN_COROUTINE,
	IN_JUMPER,
	BEFORE_JUMP,
	BESIDE_FORK,
	BY_NUMBER,
	PLUGIN_A,
	PLUGIN_B,
	TAGS
};
static const char *const tag_name[TAGS] = { "in_thread",       "in_destructor", "in_signal",   "anywhere",
					    "in_coroutine",    "in_jumper",	"before_jump", "beside_fork",
					    "check_registers", "plugin_a",	"plugin_b" };

static uint64_t made[TAGS], jumps, threads, children, coroutines, loads, replaced, incomplete;
static volatile bool over;
static const char *plugin_path[2];
static unsigned int seed;
static pthread_key_t key;
extern char **environ;

static void complain(const char *what)
{
	static const char head[] = "chaos_captures: ";

	if (write(2, head, sizeof(head) - 1) < 0 || write(2, what, strlen(what)) < 0 || write(2, "\n", 1) < 0)
		_exit(2);
	_exit(1);
}

static void count(uint64_t *at)
{
	__atomic_fetch_add(at, 1, __ATOMIC_RELAXED);
}

static uint32_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

/*
 * What calls preserve must be: rbx, r12 to r15, the direction flag, the rounding mode. With a frame pointer,
 * so that the pushes do not make its unwind information wrong for who interrupts it.
 */
static NOINLINE __attribute__((optimize("no-omit-frame-pointer"))) void check_registers(uint64_t number)
{
	uint64_t bad, salt = number * 0x9e3779b97f4a7c15u, tag = UINT64_MAX - number % 3;
	uint32_t control = 0, after = 0;

	count(&made[BY_NUMBER]);
	__asm__ volatile("stmxcsr %0" : "=m"(control));
	__asm__ volatile(
		"mov %[salt], %%rbx; lea 1(%%rbx), %%r12; lea 2(%%rbx), %%r13; lea 3(%%rbx), %%r14\n\t"
		"lea 4(%%rbx), %%r15\n\t"
		"push %[salt]; push %[salt]; sub $128, %%rsp; call *%[capture]; add $128, %%rsp\n\t"
		"pop %%rcx; pop %%rax\n\t"
		"sub %%rbx, %%rcx; sub %%rbx, %%rax; or %%rcx, %%rax\n\t"
		"sub %%rbx, %%r12; sub %%rbx, %%r13; sub %%rbx, %%r14; sub %%rbx, %%r15\n\t"
		"xor $1, %%r12; xor $2, %%r13; xor $3, %%r14; xor $4, %%r15\n\t"
		"or %%r12, %%rax; or %%r13, %%rax; or %%r14, %%rax; or %%r15, %%rax\n\t"
		"pushf; pop %%rcx; and $0x400, %%ecx; or %%rcx, %%rax"
		: "=&a"(bad), "+D"(tag)
		: [salt] "S"(salt), [capture] "d"((void (*)(uint64_t))(stackwalk_capture))
		: "rbx", "rcx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc", "xmm0",
		  "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
		  "xmm12", "xmm13", "xmm14", "xmm15");
	__asm__ volatile("stmxcsr %0" : "=m"(after));
	if (bad || control != after)
		complain("a register was changed by a capture");
}

static NOINLINE void check_walk(uint64_t expected, bool whole)
{
	enum stackwalk_end why;
	uint64_t f[STACKWALK_FRAMES_MAX];
	unsigned int n = stackwalk_frames(f, STACKWALK_FRAMES_MAX, &why);

	/* check_walk(), the capturing function, its caller */
	if (n < 3 || f[2] != expected)
		complain("a walk did not find the caller");
	if (whole && why != STACKWALK_COMPLETE)
		count(&incomplete);
}

#define CAPTURES(name, tag, whole)                                         \
	static NOINLINE void name(void)                                    \
	{                                                                  \
		int before = errno;                                        \
                                                                           \
		errno = 4000 + (tag);                                      \
		count(&made[tag]);                                         \
		STACKWALK_TAG(#name);                                      \
		if (errno != 4000 + (tag))                                 \
			complain("errno was changed by a capture");        \
		check_walk((uintptr_t)__builtin_return_address(0), whole); \
		errno = before;                                            \
		NOT_A_TAIL_CALL;                                           \
	}

CAPTURES(in_thread, IN_THREAD, true)
CAPTURES(in_destructor, IN_DESTRUCTOR, true)
CAPTURES(in_signal, IN_SIGNAL, true)
CAPTURES(anywhere, ANYWHERE, true)
CAPTURES(in_coroutine, IN_COROUTINE, false)
CAPTURES(in_jumper, IN_JUMPER, true)
CAPTURES(before_jump, BEFORE_JUMP, true)
CAPTURES(beside_fork, BESIDE_FORK, true)

/* Threads that live for a moment. */

static void destroyed(void *arg)
{
	uintptr_t rounds = (uintptr_t)arg;

	in_destructor();
	if (rounds > 1)
		pthread_setspecific(key, (void *)(rounds - 1));
}

static void *moment(void *arg)
{
	uintptr_t n = (uintptr_t)arg;

	in_thread();
	if (n & 1)
		pthread_setspecific(key, (void *)(n % 4 + 1));
	while (n-- % 8)
		in_thread();
	return NULL;
}

static void *make_threads(void *arg)
{
	uint64_t random = seed + (uintptr_t)arg;
	pthread_t t[8];
	unsigned int i, n;

	while (!over) {
		for (n = 0; n < 8; n++)
			if (pthread_create(&t[n], NULL, moment,
					   (void *)(uintptr_t)(next_random(&random) % 64)))
				break;
		for (i = 0; i < n; i++)
			pthread_join(t[i], NULL);
		__atomic_fetch_add(&threads, n, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* However often a signal comes in between. */
static void stay_us(long us)
{
	struct timespec begin, now;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		usleep(1000);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (!over && (now.tv_sec - begin.tv_sec) * 1000000 + (now.tv_nsec - begin.tv_nsec) / 1000 < us);
}

/* Plugins that take each other's place, and stay for up to some 30 ms; with CHAOS_PACE_US, in turns, so long
 * each.
 */

static void *load_plugins(void *arg)
{
	const char *pace = getenv("CHAOS_PACE_US");
	uint64_t random = seed + 77;
	unsigned int which = 0;
	void *last = NULL;

	while (!over) {
		unsigned int calls = next_random(&random) % 20 + 1, i;
		void *at[2] = { NULL, NULL }, *lib;
		int (*entry)(void **);

		which = pace ? !which : next_random(&random) & 1;
		at[0] = &made[PLUGIN_A + which];
		lib = dlopen(plugin_path[which], RTLD_NOW | RTLD_LOCAL);
		if (!lib)
			complain(dlerror());
		*(void **)&entry = dlsym(lib, which ? "enter_b" : "enter_a");
		if (pace)
			stay_us(atol(pace) / 2); /* so that it is known when it calls */
		for (i = 0; i < calls; i++)
			if (entry(at) != 1)
				complain("a walk out of a plugin went wrong");
		replaced += last && last != lib && at[1] == last;
		last = at[1];
		loads++;
		if (pace)
			stay_us(atol(pace) / 2);
		else if (next_random(&random) % 16 == 0)
			usleep(next_random(&random) % 30000);
		dlclose(lib);
	}
	return NULL;
}

/* Children. */

static void in_child(uint32_t way)
{
	char *const argv[] = { "true", NULL };

	beside_fork();
	if (stackwalk_collecting)
		complain("a child is collected from");
	check_registers(way);
	beside_fork();
	if (way % 2)
		execv("/bin/true", argv);
	_exit(0); /* exit() would wait for who was in dlclose() when it was forked */
}

static void *make_children(void *arg)
{
	uint64_t random = seed + 99;
	char *const argv[] = { "true", NULL };

	while (!over) {
		uint32_t way = next_random(&random);
		pid_t pid[4];
		int i, n = 0, status;

		beside_fork();
		for (i = 0; i < 4; i++) {
			pid_t child;

			if (way % 4 == 0) {
				if (posix_spawn(&child, "/bin/true", NULL, NULL, argv, environ))
					continue;
			} else if (way % 4 == 1) {
				child = vfork();
				if (!child) {
					execv("/bin/true", argv);
					_exit(1);
				}
			} else {
				child = fork();
				if (!child)
					in_child(way / 4);
			}
			if (child > 0)
				pid[n++] = child;
			beside_fork();
		}
		for (i = 0; i < n; i++) {
			while (waitpid(pid[i], &status, 0) < 0)
				if (errno != EINTR)
					complain("a child is gone");
			if (status)
				complain("a child failed");
			children++;
		}
	}
	return NULL;
}

/* Signals: to a thread on a stack that changes, and to whatever thread there is. */

static void on_signal(int sig, siginfo_t *info, void *context)
{
	const ucontext_t *u = context;
	enum stackwalk_end why;
	uint64_t f[4];

	in_signal();
	if (stackwalk_frames_from(u, f, 4, &why) < 1 || f[0] != (uint64_t)u->uc_mcontext.gregs[REG_RIP])
		complain("an interrupted walk does not begin where it was interrupted");
	NOT_A_TAIL_CALL;
}

static void on_any(int sig, siginfo_t *info, void *context)
{
	anywhere();
	NOT_A_TAIL_CALL;
}

static timer_t thread_timer(int sig, long ns)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = sig };
	const struct itimerspec each = { { 0, ns }, { 0, ns } };
	timer_t t;

	event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
	if (timer_create(CLOCK_MONOTONIC, &event, &t) || timer_settime(t, 0, &each, NULL))
		complain("no timer");
	return t;
}

/* A sum of vectors, the same each time whoever interrupts it. */
static NOINLINE uint64_t checksum(void)
{
	typedef uint64_t vector __attribute__((vector_size(16)));
	vector a = { 1, 2 }, b = { 3, 5 }, c = { 7, 11 }, d = { 13, 17 };
	int i;

	__asm__ volatile("" ::: "memory"); /* not done once for all */
	for (i = 0; i < 3000; i++) {
		a += b ^ c;
		b = (b << 7) + d;
		c ^= a >> 3;
		d += c + (vector){ i, i };
	}
	return a[0] ^ b[1] ^ c[0] ^ d[1];
}

static void *take_signals(void *arg)
{
	uint64_t want = checksum(), random = seed + (uintptr_t)arg;
	sigset_t before = { 0 }, after = { 0 };
	void *old = NULL, *stack;
	timer_t t = 0;

	pthread_sigmask(SIG_SETMASK, NULL, &before);
	while (!over) {
		stack_t alt = { .ss_size = ALTSTACK };

		alt.ss_sp = stack =
			mmap(NULL, ALTSTACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (stack == MAP_FAILED || sigaltstack(&alt, NULL))
			complain("no alternate stack");
		if (old)
			munmap(old, ALTSTACK);
		else
			t = thread_timer(SIGUSR1, 150000);
		old = stack;
		for (unsigned int i = next_random(&random) % 2000; i && !over; i--) {
			if (checksum() != want)
				complain("a vector register was changed");
			if (i % 4 == 0)
				check_registers(i);
		}
	}
	timer_delete(t);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	if (memcmp(&before, &after, sizeof(after)))
		complain("the signal mask was changed");
	return NULL;
}

static void *send_signals(void *arg)
{
	while (!over) {
		kill(getpid(), SIGUSR2);
		usleep(100);
	}
	return NULL;
}

/* Coroutines: any thread goes on with one, or begins one in its place. */

struct coroutine {
	ucontext_t own, back;
	char *stack;
	size_t size;
	uint32_t left;
	pthread_mutex_t busy;
};

static struct coroutine pool[6];

static NOINLINE void yield_deep(struct coroutine *c, unsigned int depth)
{
	if (depth)
		yield_deep(c, depth - 1);
	else
		in_coroutine();
	NOT_A_TAIL_CALL;
}

static void coroutine_main(unsigned int high, unsigned int low)
{
	struct coroutine *c = (void *)((uintptr_t)high << 32 | low);

	while (--c->left) {
		yield_deep(c, c->left % 5);
		swapcontext(&c->own, &c->back);
	}
	in_coroutine();
	swapcontext(&c->own, &c->back);
}

static void begin_coroutine(struct coroutine *c, uint64_t *random)
{
	c->size = COROUTINE_STACK + next_random(random) % 8 * 4096;
	c->stack = mmap(NULL, c->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (c->stack == MAP_FAILED)
		complain("no stack for a coroutine");
	c->left = next_random(random) % 30 + 1;
	getcontext(&c->own);
	c->own.uc_stack.ss_sp = c->stack;
	c->own.uc_stack.ss_size = c->size;
	c->own.uc_link = NULL;
	makecontext(&c->own, (void (*)(void))coroutine_main, 2, (unsigned int)((uintptr_t)c >> 32),
		    (unsigned int)(uintptr_t)c);
	count(&coroutines);
}

static void *run_coroutines(void *arg)
{
	uint64_t random = seed + (uintptr_t)arg;

	while (!over) {
		struct coroutine *c = &pool[next_random(&random) % 6];

		if (pthread_mutex_trylock(&c->busy))
			continue;
		if (!c->stack)
			begin_coroutine(c, &random);
		swapcontext(&c->back, &c->own);
		if (!c->left) {
			munmap(c->stack, c->size);
			c->stack = NULL;
		}
		pthread_mutex_unlock(&c->busy);
		if (next_random(&random) % 16 == 0)
			usleep(200);
	}
	return NULL;
}

/* Jumps out of handlers. */

static __thread sigjmp_buf landing;
static __thread volatile uint32_t in_handler;

static void on_jump(int sig)
{
	before_jump();
	if (++in_handler % 7 == 0) {
		count(&jumps);
		siglongjmp(landing, 1);
	}
}

static void *jump(void *arg)
{
	static volatile int i;
	static timer_t t; /* a local one's value would not survive the jump */

	if (!sigsetjmp(landing, 1))
		t = thread_timer(SIGALRM, 200000);
	while (!over) {
		in_jumper();
		for (i = 0; i < 50000; i++)
			;
	}
	timer_delete(t);
	return NULL;
}

/* All of it. */

static unsigned int open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static void handle(int sig, void *handler, int flags)
{
	struct sigaction a = { .sa_flags = SA_RESTART | flags };

	*(void **)&a.sa_handler = handler;
	sigaction(sig, &a, NULL);
}

static void block(int how, int sig)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, sig);
	pthread_sigmask(how, &set, NULL);
}

static void account(void)
{
	int i;

	for (i = 0; i < TAGS; i++)
		printf("made %s %lu\n", tag_name[i], made[i]);
	printf("jumps %lu\nthreads %lu\nchildren %lu\ncoroutines %lu\nloads %lu\nreplaced %lu\nincomplete "
	       "%lu\nok\n",
	       jumps, threads, children, coroutines, loads, replaced, incomplete);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	void *(*const run[])(void *) = { make_threads, make_threads, load_plugins,   make_children,
					 take_signals, take_signals, run_coroutines, run_coroutines,
					 jump,	       send_signals };
	enum { N = sizeof(run) / sizeof(*run) };
	struct timespec end, now;
	unsigned int files, i;
	pthread_t t[N];
	char line[16];

	if (argc < 5)
		return 2;
	seed = (unsigned int)strtoul(argv[1], NULL, 10) * 1000;
	plugin_path[0] = argv[3];
	plugin_path[1] = argv[4];
	pthread_key_create(&key, destroyed);
	handle(SIGUSR1, on_signal, SA_SIGINFO | SA_ONSTACK);
	handle(SIGUSR2, on_any, SA_SIGINFO);
	handle(SIGALRM, on_jump, 0);
	for (i = 0; i < 6; i++)
		pthread_mutex_init(&pool[i].busy, NULL);
	printf("pid %d\n", getpid());
	fflush(stdout);
	files = open_files();
	for (i = 0; argc > 5 && !stackwalk_collecting; i++) {
		if (i == 20000)
			complain("nobody collects");
		usleep(1000);
	}
	for (i = 0; i < N; i++)
		pthread_create(&t[i], NULL, run[i], (void *)(uintptr_t)i);
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += strtol(argv[2], NULL, 10);
	do {
		usleep(10000);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
	over = true;
	for (i = 0; i < N; i++)
		pthread_join(t[i], NULL);
	block(SIG_BLOCK, SIGUSR2);
	if (open_files() != files)
		complain("there are other files open than before");
	account();
	return !fgets(line, sizeof(line), stdin);
}
#endif
