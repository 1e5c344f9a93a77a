/* build: gcc -O2 -D_GNU_SOURCE -g -fno-builtin -D__NO_INLINE__ -pthread -ldl */
/* build step_shapes_O0: gcc -O0 -D_GNU_SOURCE -g -fno-builtin -D__NO_INLINE__ -pthread -ldl */
/* build step_shapes_lazy: gcc -O2 -D_GNU_SOURCE -g -fno-builtin -D__NO_INLINE__ */
/* ... -pthread -ldl -Wl,-z,lazy -fcf-protection */
/* build step_shapes_nopie: gcc -O2 -D_GNU_SOURCE -g -fno-builtin -D__NO_INLINE__ -pthread -ldl -no-pie -fno-pie */
/*
 * Calls in every shape that C has. usage: step_shapes SHAPE [FILE]; FILE is a library for "plugin". See
 * step_account.h for what it prints. It is built so that calls of the C library are calls.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "step_account.h"

/* Tail calls: each in place of the one before. */

KEEP int tail_last(int n, const char *s)
{
	ENTERED("tail_last", "n=%d s=\"%s\"", n, s);
	RETURNS("tail_last", n * 10);
	return n * 10;
}

KEEP int tail_middle(int n, const char *s)
{
	ENTERED("tail_middle", "n=%d s=\"%s\"", n, s);
	return tail_last(n + 1, s);
}

KEEP int tail_first(int n, const char *s)
{
	ENTERED("tail_first", "n=%d s=\"%s\"", n, s);
	return tail_middle(n + 1, s);
}

static void tail(void)
{
	for (int i = 0; i < 3; i++) {
		int r = tail_first(i, "abc");

		RETURNS("tail_middle", r);
		RETURNS("tail_first", r);
	}
}

/* Recursion, of one and of two. */

KEEP int factorial(int n)
{
	int r;

	ENTERED("factorial", "n=%d", n);
	r = n <= 1 ? 1 : n * factorial(n - 1);
	RETURNS("factorial", r);
	return r;
}

KEEP int hop(int n, int total);

KEEP int skip(int n, int total)
{
	int r;

	ENTERED("skip", "n=%d total=%d", n, total);
	r = n ? hop(n - 1, total + 2) - 1 : total;
	RETURNS("skip", r);
	return r;
}

KEEP int hop(int n, int total)
{
	int r;

	ENTERED("hop", "n=%d total=%d", n, total);
	r = n ? skip(n - 1, total + 1) + 1 : total;
	RETURNS("hop", r);
	return r;
}

static void recursion(void)
{
	factorial(6);
	hop(7, 0);
}

/* Signals, on the same stack and on another one. */

KEEP int in_handler(int n)
{
	ENTERED("in_handler", "n=%d", n);
	RETURNS("in_handler", n + 1);
	return n + 1;
}

KEEP void on_signal(int number)
{
	ENTERED("on_signal", "number=%d", number);
	in_handler(number);
	RETURNS_NOTHING("on_signal");
}

KEEP int interrupted(int n)
{
	ENTERED("interrupted", "n=%d", n);
	raise(SIGUSR1);
	raise(SIGUSR2);
	RETURNS("interrupted", n);
	return n;
}

static void signals(void)
{
	static char stack[1 << 16];
	stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction a = { .sa_handler = on_signal };

	sigaltstack(&alternate, NULL);
	sigaction(SIGUSR1, &a, NULL);
	a.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR2, &a, NULL);
	for (int i = 0; i < 3; i++)
		interrupted(i);
}

/* A timer, whose signals come anywhere. */

static volatile sig_atomic_t ticks;

KEEP void on_tick(int number)
{
	(void)number;
	ticks++;
}

KEEP unsigned int churn(unsigned int seed)
{
	for (int i = 0; i < 200; i++)
		seed = seed * 1103515245u + 12345u;
	return seed;
}

static void timer(void)
{
	struct sigaction a = { .sa_handler = on_tick, .sa_flags = SA_RESTART };
	struct itimerspec every = { { 0, 300000 }, { 0, 300000 } };
	struct sigevent e = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM };
	unsigned int seed = 1;
	timer_t id;

	sigaction(SIGALRM, &a, NULL);
	timer_create(CLOCK_MONOTONIC, &e, &id);
	timer_settime(id, 0, &every, NULL);
	for (int i = 0; i < 3000; i++)
		seed = churn(seed);
	timer_delete(id);
	dprintf(1, "seed %u ticks %d\n", seed, (int)ticks);
}

/* Functions of the C library: through the PLT, some of them chosen by an IFUNC. */

KEEP int lengths(const char *text)
{
	char copy[64];
	int n;

	ENTERED("lengths", "text=\"%s\"", text);
	n = (int)strlen(text);
	OVER("strlen", n, "s=\"%s\"", text);
	memcpy(copy, text, (size_t)n + 1);
	n = atoi(copy);
	OVER("atoi", n, "nptr=\"%s\"", copy);
	n = open("/no/such/file", O_RDONLY);
	OVER("open", n, "file=\"/no/such/file\" errno=%d", errno);
	RETURNS("lengths", n);
	return n;
}

static void library(void)
{
	lengths("42");
	lengths("1234567");
}

/* Callbacks out of the C library. */

KEEP int compare(const int *a, const int *b)
{
	ENTERED("compare", "*a=%d *b=%d", *a, *b);
	RETURNS("compare", *a - *b);
	return *a - *b;
}

static void callbacks(void)
{
	int v[] = { 5, 3, 9, 1, 7 }, key = 7;

	qsort(v, 5, sizeof(*v), (int (*)(const void *, const void *))(void *)compare);
	bsearch(&key, v, 5, sizeof(*v), (int (*)(const void *, const void *))(void *)compare);
}

/* Threads, ended in four ways. */

KEEP int thread_step(int n)
{
	ENTERED("thread_step", "n=%d", n);
	RETURNS("thread_step", n * n);
	return n * n;
}

KEEP void *returning(void *arg)
{
	ENTERED("returning", "arg=%ld", (long)arg);
	for (int i = 0; i < 4; i++)
		thread_step(i + (int)(long)arg);
	RETURNS("returning", 1);
	return (void *)1;
}

KEEP void leave_thread(long code)
{
	ENTERED("leave_thread", "code=%ld", code);
	ENDS("leave_thread", "thread_exit");
	pthread_exit((void *)code);
}

KEEP void *exiting(void *arg)
{
	ENTERED("exiting", "arg=%ld", (long)arg);
	dprintf(1, "X %d exiting thread_exit\n", (int)gettid());
	leave_thread((long)arg + 1);
	return NULL;
}

KEEP void wait_for_ever(int n)
{
	ENTERED("wait_for_ever", "n=%d", n);
	ENDS("wait_for_ever", "cancelled");
	for (;;)
		pause();
}

KEEP void *cancelled(void *arg)
{
	ENTERED("cancelled", "arg=%ld", (long)arg);
	ENDS("cancelled", "cancelled");
	wait_for_ever((int)(long)arg);
	return NULL;
}

static void threads(void)
{
	void *(*const start[])(void *) = { returning, returning, exiting, cancelled };
	pthread_t t;

	for (long i = 0; i < 4; i++) {
		pthread_create(&t, NULL, start[i], (void *)i);
		if (start[i] == cancelled) {
			usleep(200000);
			pthread_cancel(t);
		}
		pthread_join(t, NULL);
	}
}

/* fork and vfork: the child is not followed. */

KEEP int in_parent(int n)
{
	ENTERED("in_parent", "n=%d", n);
	RETURNS("in_parent", n);
	return n;
}

KEEP int in_child(int n)
{
	return n + 1;
}

static void forks(void)
{
	int status;
	pid_t pid;

	in_parent(1);
	pid = fork();
	if (!pid)
		_exit(in_child(6));
	waitpid(pid, &status, 0);
	in_parent(WEXITSTATUS(status));
	pid = vfork();
	if (!pid)
		_exit(8);
	waitpid(pid, &status, 0);
	in_parent(WEXITSTATUS(status));
}

/* A library that comes, goes and comes again. */

static void plugin(const char *path)
{
	for (int i = 0; i < 2; i++) {
		void *lib = dlopen(path, RTLD_NOW);
		int (*add)(int, int) = lib ? (int (*)(int, int))dlsym(lib, "plugin_add") : NULL;

		if (!add)
			exit(1);
		add(i, 5);
		dlclose(lib);
	}
}

/* longjmp to a caller, and to the function that was called. */

static jmp_buf back;

#pragma GCC diagnostic ignored "-Winfinite-recursion" /* longjmp ends it */
KEEP int dive(int n)
{
	volatile int r; /* so that it stays a recursion */

	ENTERED("dive", "n=%d", n);
	ENDS("dive", "longjmp");
	if (!n)
		longjmp(back, 4);
	r = dive(n - 1);
	return r + 1;
}

KEEP int protected_call(int n)
{
	int r = 0;

	ENTERED("protected_call", "n=%d", n);
	if (setjmp(back) == 0)
		r = dive(n);
	else
		r = 100;
	RETURNS("protected_call", r);
	return r;
}

/* Nothing is called after the jump: its return address is the only sign. */
KEEP int quiet_call(int n)
{
	ENTERED("quiet_call", "n=%d", n);
	if (setjmp(back))
		return 7;
	return dive(n) + 1;
}

KEEP int jumps_back(int n)
{
	volatile int left = 2;

	ENTERED("jumps_back", "n=%d", n);
	setjmp(back);
	if (left--)
		dive(n);
	RETURNS("jumps_back", left);
	return left;
}

static void jumps(void)
{
	protected_call(3);
	for (int i = 0; i < 2; i++)
		RETURNS("quiet_call", quiet_call(1));
	jumps_back(2);
}

/* Out of a handler, on its own stack. */

static sigjmp_buf out_of_handler;

KEEP void on_jump(int number)
{
	ENTERED("on_jump", "number=%d", number);
	ENDS("on_jump", "longjmp");
	siglongjmp(out_of_handler, 1);
}

KEEP int raises(int number)
{
	ENTERED("raises", "number=%d", number);
	ENDS("raises", "longjmp");
	raise(number);
	return 0;
}

KEEP int survives(int number)
{
	ENTERED("survives", "number=%d", number);
	if (!sigsetjmp(out_of_handler, 1))
		raises(number);
	RETURNS("survives", 1);
	return 1;
}

static void handler_jumps(void)
{
	static char stack[1 << 16];
	stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction a = { .sa_handler = on_jump, .sa_flags = SA_ONSTACK };

	sigaltstack(&alternate, NULL);
	sigaction(SIGUSR1, &a, NULL);
	survives(SIGUSR1);
	survives(SIGUSR1);
}

/* Coroutines: two stacks beside the thread's own, taking turns. */

static ucontext_t scheduler, left, right;

KEEP int left_step(int n)
{
	ENTERED("left_step", "n=%d", n);
	swapcontext(&left, &scheduler);
	RETURNS("left_step", n + 10);
	return n + 10;
}

KEEP void left_body(int n)
{
	ENTERED("left_body", "n=%d", n);
	for (int i = 0; i < n; i++)
		left_step(i);
	RETURNS_NOTHING("left_body");
}

KEEP int right_step(int n)
{
	ENTERED("right_step", "n=%d", n);
	swapcontext(&right, &scheduler);
	RETURNS("right_step", n + 20);
	return n + 20;
}

KEEP void right_body(int n)
{
	ENTERED("right_body", "n=%d", n);
	for (int i = 0; i < n; i++)
		right_step(i);
	RETURNS_NOTHING("right_body");
}

static void prepare(ucontext_t *co, void (*body)(int), int n)
{
	getcontext(co);
	co->uc_stack.ss_sp = malloc(1 << 16);
	co->uc_stack.ss_size = 1 << 16;
	co->uc_link = &scheduler;
	makecontext(co, (void (*)(void))(void *)body, 1, n);
}

static void coroutines(void)
{
	prepare(&left, left_body, 3);
	prepare(&right, right_body, 3);
	for (int round = 0; round < 4; round++) {
		swapcontext(&scheduler, &left);
		swapcontext(&scheduler, &right);
	}
}

/* exit() inside: its handlers are called back. */

KEEP void at_end(void)
{
	ENTERED("at_end", "");
	RETURNS_NOTHING("at_end");
}

KEEP void quits(int code)
{
	ENTERED("quits", "code=%d", code);
	ENDS("quits", "process_exit");
	exit(code);
}

static void quit(void)
{
	atexit(at_end);
	quits(3);
}

/* Parameters and results of every kind. */

enum colour { RED, GREEN = 5, BLUE };

struct point {
	int x, y;
};

struct wide {
	double a, b;
	long c;
};

KEEP long kinds(char c, short s, unsigned int u, long l, bool yes, enum colour colour, unsigned char byte,
		long eighth)
{
	ENTERED("kinds", "c=%d s=%d u=%u l=%ld yes=%d colour=%d byte=%d eighth=%ld", c, s, u, l, yes,
		(int)colour, byte, eighth);
	RETURNS("kinds", l - eighth);
	return l - eighth;
}

KEEP double floats(float f, double d, long double x)
{
	ENTERED("floats", "f=%.9g d=%.17g", (double)f, d);
	return (double)f + d + (double)x;
}

KEEP struct point structs(struct point p, struct wide w, const struct point *q)
{
	ENTERED("structs", "p.x=%d p.y=%d w.c=%ld q->x=%d q->y=%d", p.x, p.y, w.c, q->x, q->y);
	return (struct point){ p.x + q->x, p.y + q->y };
}

static void values(void)
{
	struct point q = { 30, -40 };

	kinds('x', -2, 4000000000u, -5000000000, true, GREEN, 200, 88);
	floats(1.5f, -2.25, 1000.0L);
	structs((struct point){ 1, 2 }, (struct wide){ 0.5, 0.25, 99 }, &q);
	structs((struct point){ -1, -2 }, (struct wide){ 0, 0, -1 }, &(struct point){ 7, 8 });
}

struct shape {
	const char *name;
	void (*run)(void);
};

static const struct shape shapes[] = {
	{ "tail", tail },
	{ "recursion", recursion },
	{ "signals", signals },
	{ "timer", timer },
	{ "library", library },
	{ "callbacks", callbacks },
	{ "threads", threads },
	{ "forks", forks },
	{ "jumps", jumps },
	{ "handler_jumps", handler_jumps },
	{ "coroutines", coroutines },
	{ "quit", quit },
	{ "values", values },
};

int main(int argc, char **argv)
{
	if (argc == 3) {
		plugin(argv[2]);
		return 0;
	}
	for (size_t i = 0; argc == 2 && i < sizeof(shapes) / sizeof(shapes[0]); i++)
		if (strcmp(shapes[i].name, argv[1]) == 0) {
			shapes[i].run();
			return 0;
		}
	dprintf(2, "usage: step_shapes SHAPE [LIBRARY]\n");
	return 2;
}
