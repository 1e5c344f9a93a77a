/* build: gcc -O1 -g -pthread -fno-optimize-sibling-calls */
/* build lldb_calls_agree: gcc -O2 -g -pthread */
/*
 * Calls its functions in a way that the first argument chooses, and writes each call and each return to the
 * file named by the second: "call NAME ARG", "return NAME RESULT", "left NAME" (otherwise than by returning).
 * That is what a recorder should have seen.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FUNCTION __attribute__((noinline, noclone)) long

static FILE *account;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void write_down(const char *what, const char *name, long value)
{
	if (account) {
		pthread_mutex_lock(&lock);
		fprintf(account, "%s %s %ld\n", what, name, value);
		pthread_mutex_unlock(&lock);
	}
}

FUNCTION leaf(long x)
{
	write_down("call", "leaf", x);
	x = 3 * x + 1;
	write_down("return", "leaf", x);
	return x;
}

FUNCTION middle(long x)
{
	write_down("call", "middle", x);
	x = leaf(x) + leaf(x + 1);
	write_down("return", "middle", x);
	return x;
}

FUNCTION recurse(long n)
{
	write_down("call", "recurse", n);
	if (n)
		n += recurse(n - 1);
	write_down("return", "recurse", n);
	return n;
}

FUNCTION begin(long n)
{
	long sum = 0;

	write_down("call", "begin", n);
	for (long i = 0; i < n; i++)
		sum += middle(i);
	write_down("return", "begin", sum);
	return sum;
}

FUNCTION finish(long n)
{
	write_down("call", "finish", n);
	write_down("return", "finish", n);
	return n;
}

static jmp_buf env;

FUNCTION jumps(long x)
{
	write_down("call", "jumps", x);
	write_down("left", "jumps", 0);
	longjmp(env, (int)x);
	return 0;
}

FUNCTION inner(long x)
{
	write_down("call", "inner", x);
	write_down("left", "inner", 0);
	return jumps(x) + 1;
}

FUNCTION lands(long x)
{
	long got;

	write_down("call", "lands", x);
	got = setjmp(env);
	if (!got)
		inner(x);
	write_down("return", "lands", got);
	return got;
}

FUNCTION handle(long sig)
{
	write_down("call", "handle", sig);
	leaf(sig);
	write_down("return", "handle", 0);
	return 0;
}

static void on_signal(int sig)
{
	handle(sig);
}

FUNCTION compare(const void *a, const void *b)
{
	write_down("call", "compare", 0);
	write_down("return", "compare", *(const int *)a - *(const int *)b);
	return *(const int *)a - *(const int *)b;
}

static int compare_int(const void *a, const void *b)
{
	return (int)compare(a, b);
}

FUNCTION sorts(long n)
{
	int v[8];

	write_down("call", "sorts", n);
	for (int i = 0; i < n; i++)
		v[i] = (i * 5) % 7;
	qsort(v, (size_t)n, sizeof(v[0]), compare_int);
	write_down("return", "sorts", v[0]);
	return v[0];
}

static void *worker(void *arg)
{
	begin((long)arg);
	return NULL;
}

FUNCTION threads(long n)
{
	pthread_t t[8];

	write_down("call", "threads", n);
	for (long i = 0; i < n; i++)
		pthread_create(&t[i], NULL, worker, (void *)(i + 1));
	for (long i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	write_down("return", "threads", n);
	return n;
}

FUNCTION sleeps(long x)
{
	write_down("call", "sleeps", x);
	fflush(account);
	pause();
	return x;
}

FUNCTION forks(long x)
{
	pid_t child;

	write_down("call", "forks", x);
	fflush(account);
	child = fork();
	if (!child) {
		account = NULL;
		_exit((int)leaf(x) & 0x7f);
	}
	waitpid(child, NULL, 0);
	middle(x);
	write_down("return", "forks", x);
	return x;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	account = argc > 2 ? fopen(argv[2], "w") : NULL;
	if (!strcmp(what, "begin")) {
		for (long i = 1; i <= 3; i++) {
			begin(i);
			finish(i);
		}
	} else if (!strcmp(what, "recurse")) {
		recurse(5);
	} else if (!strcmp(what, "longjmp")) {
		lands(4);
		begin(1);
	} else if (!strcmp(what, "signal")) {
		signal(SIGUSR1, on_signal);
		leaf(1);
		raise(SIGUSR1);
		leaf(2);
	} else if (!strcmp(what, "qsort")) {
		sorts(6);
	} else if (!strcmp(what, "threads")) {
		threads(4);
	} else if (!strcmp(what, "sleep")) {
		begin(1);
		sleeps(1);
	} else if (!strcmp(what, "fork")) {
		forks(2);
	} else if (!strcmp(what, "exec")) {
		begin(1);
		fflush(account);
		execlp("true", "true", (char *)NULL);
	} else if (!strcmp(what, "killed")) {
		begin(1);
		fflush(account);
		raise(SIGKILL);
	} else if (!strcmp(what, "loop")) {
		printf("pid %d\n", getpid());
		fflush(stdout);
		for (long i = 0;; i++) {
			begin(i % 4);
			finish(i);
			fflush(account);
			usleep(20000);
		}
	}
	fflush(account);
	return 7;
}
