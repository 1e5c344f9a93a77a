/*
 * Records events of its own, as its first argument says, and prints of each thread and type how many: "TID NAME COUNT".
 * Event number i has payloads that follow from i, so that a wrong pair is known. argv[2]: how many.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

int calltrace_initialize(void);
int calltrace_deinitialize(void);
int calltrace_enable(void);
void calltrace_disable(void);
int calltrace_event_type(const char *name, const char *format);
void calltrace_event(int type, uint64_t first, uint64_t second);

#define FORMAT "number %lu, mixed %#lx"
#define SIGNALS 100

static int count, type;
static sigjmp_buf before;
static volatile sig_atomic_t signals, jumps;

static uint64_t mixed(uint64_t first)
{
	return ~first * 0x9e3779b97f4a7c15;
}

/* Uses both halves of each payload. */
static void record(int of, uint64_t i)
{
	calltrace_event(of, i << 20, mixed(i << 20));
}

static void record_all(int of, int n)
{
	int i;

	for (i = 0; i < n; i++)
		record(of, (uint64_t)i);
}

static void say(const char *name, int n)
{
	printf("%d %s %d\n", (int)syscall(SYS_gettid), name, n);
	fflush(stdout);
}

static int named(const char *name)
{
	int of = calltrace_event_type(name, FORMAT);

	if (of < 0 || of != calltrace_event_type(name, FORMAT)) {
		fprintf(stderr, "type %s: %d\n", name, of);
		exit(2);
	}
	return of;
}

static void *body(void *name)
{
	record_all(named(name), count);
	say(name, count);
	return name;
}

static void two_threads(void)
{
	static char name[2][8] = { "first", "second" };
	pthread_t t[2];
	int i;

	for (i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, body, name[i]);
	for (i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	calltrace_event(-1, 1, 2); /* of no type: nothing */
	calltrace_event(1000000, 1, 2);
}

/* Its events have the type of those that it interrupts. */
static void on_signal(int number)
{
	int i;

	(void)number;
	for (i = 0; i < 3; i++)
		record(type, (1ull << 32) + (uint64_t)(signals * 3 + i));
	signals++;
}

static void on_signal_jump(int number)
{
	on_signal(number);
	if (signals % 2)
		return;
	jumps++;
	siglongjmp(before, 1);
}

static void begin_timer(void (*handler)(int))
{
	const struct itimerval each = { { 0, 200 }, { 0, 200 } };
	struct sigaction a;

	memset(&a, 0, sizeof(a));
	a.sa_handler = handler;
	sigaction(SIGALRM, &a, NULL);
	setitimer(ITIMER_REAL, &each, NULL);
}

static void end_timer(void)
{
	const struct itimerval never = { { 0, 0 }, { 0, 0 } };

	setitimer(ITIMER_REAL, &never, NULL);
}

static void interrupted(void)
{
	int i = 0;

	type = named("interrupted");
	begin_timer(on_signal);
	while (i < count || signals < SIGNALS)
		record(type, (uint64_t)i++);
	end_timer();
	say("interrupted", i);
	say("handler", signals * 3);
}

/* Those that it has jumped away from are recorded, or not. */
static void jumped_from(void)
{
	volatile int i = 0;

	type = named("interrupted");
	begin_timer(on_signal_jump);
	sigsetjmp(before, 1);
	while (i < count || signals < SIGNALS) {
		i++;
		record(type, (uint64_t)i - 1);
	}
	end_timer();
	say("interrupted", i);
	say("handler", signals * 3);
	say("jumps", jumps);
}

static void in_child(void)
{
	record_all(named("parent"), count);
	if (calltrace_initialize())
		_exit(1);
	record_all(named("child"), count);
	say("child", count);
	_exit(calltrace_deinitialize() ? 2 : 0);
}

static void forks(void)
{
	pid_t child;
	int status = 0;

	record_all(named("parent"), count);
	child = fork();
	if (!child)
		in_child();
	waitpid(child, &status, 0);
	record_all(named("after"), count);
	say("parent", count);
	say("after", count);
	if (status)
		exit(3);
}

static void switched(void)
{
	record_all(named("on"), count);
	calltrace_disable();
	record_all(named("off"), count);
	calltrace_enable();
	record_all(named("again"), count);
	say("on", count);
	say("again", count);
}

/* No type has begun the log. */
static void initializes(void)
{
	if (calltrace_initialize())
		exit(4);
	record_all(named("alone"), count);
	say("alone", count);
}

static void dies(void)
{
	record_all(named("last"), count);
	say("last", count);
	abort();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} all[] = {
		{ "threads", two_threads }, { "signals", interrupted }, { "jumps", jumped_from },
		{ "forks", forks },	    { "switched", switched },	{ "initializes", initializes },
		{ "dies", dies },
	};
	size_t i;

	if (argc != 3)
		return 100;
	count = atoi(argv[2]);
	for (i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (!strcmp(all[i].name, argv[1]))
			all[i].run();
	return 0;
}
