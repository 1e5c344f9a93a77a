/* build: gcc -O2 -g -pthread -ldl */
/* build puppet_fp: gcc -O0 -g -fno-omit-frame-pointer -pthread -ldl */
/* build puppet_nopie: gcc -O2 -g -no-pie -fno-pie -pthread -ldl */
/* build puppet_static: gcc -O2 -g -static -pthread */
/* build puppet_static_pie: gcc -O2 -g -static-pie -pthread */
/* build puppet_musl: musl-gcc -O2 -g -static -pthread */
/* build puppet_stripped: gcc -O2 -s -rdynamic -pthread -ldl */
/*
 * puppet - does what it is told, a line at a time on standard input, and accounts for it: the
 * independent oracle of the end-to-end tests. Prints "pid N" first and "ok [TEXT]" after each line.
 *
 *	write N | read N | inc N | same N | memcpy N	so many accesses to `flag`, each by its own function
 *	wide N			writes of 8 bytes that cover flag
 *	thread N		a new thread writes N times and ends; tells its id
 *	storm THREADS N		so many threads, one after the other, N writes each
 *	types			one write to each variable of the types below
 *	kernel N		read(2) into flag, N times
 *	raise | int3 | handler own|default|ignore | block | unblock | got
 *	lead			the first thread ends; another one obeys from now on
 *	fork | leave | reap | exec [SECONDS] | exit N | dlopen LIB | plugin N | dlclose
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum colour { RED, GREEN, BLUE = 7 };
struct node {
	struct node *next;
	int len;
};
struct stats {
	int requests;
	struct {
		int hits, misses;
	} cache;
	enum colour colour;
	struct node *head;
	short table[4];
};

volatile int flag __attribute__((aligned(64))); /* alone in its cache line: wide writes spill over */
static volatile char other_line __attribute__((aligned(64), used));
volatile int untouched;
volatile char v_char = 'a';
volatile uint16_t v_short = 5;
volatile unsigned int v_uint = 4000000000u;
volatile long long v_ll = -5;
volatile float v_float = 1.5f;
volatile double v_double = -2.25;
volatile bool v_bool;
volatile enum colour v_colour = RED;
struct node second = { NULL, 3 };
struct node first = { &second, 2 };
struct node *volatile v_pointer;
struct stats stats = { .head = &first };
static volatile int hidden;
volatile long big[5];

static volatile sig_atomic_t got;
static void *lib;

__attribute__((noinline)) static void write_flag(int i)
{
	flag = i;
}

__attribute__((noinline)) static int read_flag(void)
{
	return flag;
}

__attribute__((noinline)) static void inc_flag(void)
{
	__asm__ volatile("incl %0" : "+m"(flag)::"cc");
}

__attribute__((noinline)) static void copy_flag(int *from, size_t n)
{
	memcpy((void *)(uintptr_t)&flag, from, n);
	__asm__ volatile(""); /* not a tail call */
}

__attribute__((noinline)) static void wide_flag(long v)
{
	__asm__ volatile("movq %1, (%0)" : : "r"(&flag), "r"(v) : "memory");
}

static void *thread_main(void *arg)
{
	long i, n = (long)arg;

	for (i = 0; i < n; i++)
		write_flag((int)i);
	return (void *)syscall(SYS_gettid);
}

static void run_thread(long n)
{
	pthread_t t;
	void *tid;

	pthread_create(&t, NULL, thread_main, (void *)n);
	pthread_join(t, &tid);
	printf("ok %ld\n", (long)tid);
}

static void storm(long threads, long n)
{
	pthread_t t[8];
	long i;
	int k;

	for (i = 0; i < threads; i += 8) {
		for (k = 0; k < 8; k++)
			pthread_create(&t[k], NULL, thread_main, (void *)n);
		for (k = 0; k < 8; k++)
			pthread_join(t[k], NULL);
	}
	printf("ok %ld\n", i * n);
}

__attribute__((noinline)) static void set_types(void)
{
	v_char = 'b';
	v_short = 65535;
	v_uint = 4000000001u;
	v_ll = -6;
	v_float = 2.5f;
	v_double = 1e10;
	v_bool = true;
	v_colour = BLUE;
	v_pointer = &first;
	stats.cache.hits = 42;
	stats.colour = GREEN;
	stats.head->next->len = 99;
	stats.table[2] = -3;
	hidden = 1;
	big[3] = 33;
}

static void kernel_writes(long n)
{
	int p[2], value;
	long i, done = 0;

	if (pipe(p))
		return;
	for (i = 0; i < n; i++) {
		value = (int)(1000 + i);
		done += write(p[1], &value, 4) == 4 && read(p[0], (void *)&flag, 4) == 4;
	}
	close(p[0]);
	close(p[1]);
	printf("ok %ld\n", done);
}

static void on_trap(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)info;
	(void)context;
	got++;
}

static void set_handler(const char *what)
{
	struct sigaction sa = { .sa_flags = SA_SIGINFO, .sa_sigaction = on_trap };

	if (!strcmp(what, "default"))
		signal(SIGTRAP, SIG_DFL);
	else if (!strcmp(what, "ignore"))
		signal(SIGTRAP, SIG_IGN);
	else
		sigaction(SIGTRAP, &sa, NULL);
}

static void block(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTRAP);
	pthread_sigmask(how, &set, NULL);
}

static void do_fork(void)
{
	int status = -1;
	pid_t child = fork();

	if (!child) {
		write_flag(1234);
		_exit(flag == 1234 ? 0 : 1);
	}
	waitpid(child, &status, 0);
	printf("ok %d\n", status);
}

static pid_t left[2];

/* Children that write before they end, nobody waiting for them yet, or before they execute a program. */
static void leave_children(void)
{
	siginfo_t info;
	char path[64], name[64];
	ssize_t n;
	int i;

	for (i = 0; i < 2; i++) {
		left[i] = fork();
		if (!left[i]) {
			write_flag(1234);
			if (i)
				execl("/bin/sleep", "sleep", "60", (char *)NULL);
			_exit(0);
		}
	}
	waitid(P_PID, (id_t)left[0], &info, WEXITED | WNOWAIT);
	snprintf(path, sizeof(path), "/proc/%d/exe", left[1]);
	do
		n = readlink(path, name, sizeof(name) - 1);
	while (n < 5 || memcmp(name + n - 5, "sleep", 5) != 0);
	printf("ok %d %d\n", left[0], left[1]);
}

static void reap_children(void)
{
	kill(left[1], SIGKILL);
	waitpid(left[0], NULL, 0);
	waitpid(left[1], NULL, 0);
	printf("ok\n");
}

static void plugin(long n)
{
	void (*touch)(int) = (void (*)(int))dlsym(lib, "plugin_touch");
	long i;

	for (i = 0; touch && i < n; i++)
		touch((int)i);
}

static bool obey(const char *cmd, long a, long b, const char *word)
{
	long i;
	int from = 7;

	if (!strcmp(cmd, "write"))
		for (i = 0; i < a; i++)
			write_flag((int)i);
	else if (!strcmp(cmd, "read"))
		for (i = 0; i < a; i++)
			read_flag();
	else if (!strcmp(cmd, "inc"))
		for (i = 0; i < a; i++)
			inc_flag();
	else if (!strcmp(cmd, "same"))
		for (i = 0; i < a; i++)
			write_flag(5);
	else if (!strcmp(cmd, "wide"))
		for (i = 0; i < a; i++)
			wide_flag(i);
	else if (!strcmp(cmd, "memcpy"))
		for (i = 0; i < a; i++)
			copy_flag(&from, strlen(cmd) - 2);
	else if (!strcmp(cmd, "types"))
		set_types();
	else if (!strcmp(cmd, "raise"))
		raise(SIGTRAP);
	else if (!strcmp(cmd, "int3"))
		__asm__ volatile("int3");
	else if (!strcmp(cmd, "handler"))
		set_handler(word);
	else if (!strcmp(cmd, "block"))
		block(SIG_BLOCK);
	else if (!strcmp(cmd, "unblock"))
		block(SIG_UNBLOCK);
	else if (!strcmp(cmd, "exit"))
		exit((int)a);
	else if (!strcmp(cmd, "dlopen"))
		lib = dlopen(word, RTLD_NOW);
	else if (!strcmp(cmd, "dlclose"))
		dlclose(lib);
	else if (!strcmp(cmd, "plugin"))
		plugin(a);
	else
		return false;
	(void)b;
	printf("ok\n");
	return true;
}

static void *obey_all(void *unused);

/* The first thread's end is waited for, by the state that the kernel shows of it. */
static void *lead(void *unused)
{
	char path[64], state = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", getpid());
	while (state != 'Z') {
		FILE *f = fopen(path, "r");

		if (!f || fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
			abort();
		fclose(f);
		usleep(1000);
	}
	printf("ok\n");
	return obey_all(unused);
}

static void hand_over(void)
{
	pthread_t t;

	if (pthread_create(&t, NULL, lead, NULL))
		abort();
	pthread_exit(NULL);
}

static void sleep_anew(long seconds)
{
	char text[32];

	snprintf(text, sizeof(text), "%ld", seconds);
	execl("/bin/sleep", "sleep", text, (char *)NULL);
}

static void obey_with_answer(const char *cmd, long a, long b)
{
	if (!strcmp(cmd, "thread"))
		run_thread(a);
	else if (!strcmp(cmd, "storm"))
		storm(a, b);
	else if (!strcmp(cmd, "kernel"))
		kernel_writes(a);
	else if (!strcmp(cmd, "fork"))
		do_fork();
	else if (!strcmp(cmd, "leave"))
		leave_children();
	else if (!strcmp(cmd, "reap"))
		reap_children();
	else if (!strcmp(cmd, "got"))
		printf("ok %d\n", (int)got);
	else if (!strcmp(cmd, "lead"))
		hand_over();
	else if (!strcmp(cmd, "exec"))
		sleep_anew(a ? a : 3);
	else
		printf("what?\n");
}

static void *obey_all(void *unused)
{
	char line[4096], cmd[64], word[4000];

	(void)unused;
	while (fgets(line, sizeof(line), stdin)) {
		long a = 0, b = 0;

		*cmd = *word = '\0';
		sscanf(line, "%63s %ld %ld", cmd, &a, &b);
		sscanf(line, "%*s %3999s", word);
		if (!obey(cmd, a, b, word))
			obey_with_answer(cmd, a, b);
		if (errno == EINTR)
			printf("EINTR\n");
	}
	exit(0);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("pid %d\n", getpid());
	obey_all(NULL);
}
