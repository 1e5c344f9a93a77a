/*
 * captures - captures at every strange moment of a program's life, into a log of its own.
 *
 *	captures LOG MODE
 *
 * Prints "NAME COUNT" for every tag it captured under while its log was open: what the log must hold. Modes
 * are the functions below. Exit status 0, or 1 with a sentence when something in this process is not as it
 * was.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <stackwalk.h>

#define NOINLINE __attribute__((noinline, noclone))

static const char *log_path;

static void complain(const char *what)
{
	fprintf(stderr, "captures: %s\n", what);
	_exit(1);
}

static void open_log(unsigned int frames, size_t buffer)
{
	int err = stackwalk_log_open(log_path, frames, buffer);

	if (err < 0) {
		fprintf(stderr, "captures: %d: %s\n", err, stackwalk_log_error());
		_exit(1);
	}
}

static void close_log(void)
{
	int err = stackwalk_log_close();

	if (err < 0) {
		fprintf(stderr, "captures: %d: %s\n", err, stackwalk_log_error());
		_exit(1);
	}
}

/* Nobody collects here: it must do nothing, and not crash. */
static __attribute__((constructor)) void before_main(void)
{
	STACKWALK_TAG("before-main");
}

static NOINLINE void at_exit(void)
{
	STACKWALK_TAG("at-exit");
}

static NOINLINE void in_destructor(void *arg)
{
	STACKWALK_TAG("thread-end");
}

static NOINLINE void *in_thread(void *key)
{
	pthread_setspecific(*(pthread_key_t *)key, key);
	STACKWALK_TAG("thread");
	return NULL;
}

/* A thread's first and last moments; exit handlers, with the log still open. */
static void life(void)
{
	pthread_key_t key;
	pthread_t t;
	int i;

	pthread_key_create(&key, in_destructor);
	atexit(at_exit);
	open_log(0, 0);
	for (i = 0; i < 50; i++) {
		pthread_create(&t, NULL, in_thread, &key);
		pthread_join(t, NULL);
	}
	STACKWALK_TAG("main");
	printf("thread 50\nthread-end 50\nmain 1\nat-exit 1\n");
	fflush(stdout);
	exit(0); /* the log is closed by itself */
}

/* Numbers, values, names: also the same name at two places, a name that is cut, none. */
static NOINLINE void number(uint64_t tag)
{
	stackwalk_capture(tag);
}

static void tags(void)
{
	static char long_name[300];
	struct stackwalk_tag cut = { long_name, 0 }, empty = { "", 0 }, none = { NULL, 0 };
	int i;

	memset(long_name, 'x', sizeof(long_name) - 1);
	open_log(0, 0);
	number(0);
	number(UINT64_MAX);
	number(17);
	number(17);
	stackwalk_capture_value(18, UINT64_MAX);
	for (i = 0; i < 3; i++)
		STACKWALK_TAG("twice");
	STACKWALK_TAG("twice");
	STACKWALK_TAG_VALUE("valued", 42);
	stackwalk_capture_tag(&cut);
	stackwalk_capture_tag(&empty);
	stackwalk_capture_tag_value(&none, 5);
	close_log();
	number(99);
	printf("0 1\n%llu 1\n17 2\n18 1\ntwice 4\nvalued 1\n%.119s 1\n 2\n", (unsigned long long)UINT64_MAX,
	       long_name);
}

/* More names than there is room for: none is lost, but for its name. */
static void names(void)
{
	static struct stackwalk_tag tag[1500];
	static char name[1500][16];
	int i;

	open_log(0, 0);
	for (i = 0; i < 1500; i++) {
		sprintf(name[i], "name-%d", i);
		tag[i].name = name[i];
		stackwalk_capture_tag(&tag[i]);
	}
	close_log();
	printf("captures 1500\n");
}

/* Of signal handlers, of the mask, and of the names of the open files. */
static unsigned long fingerprint(void)
{
	unsigned long sum = 0;
	struct dirent *d;
	sigset_t mask;
	DIR *dir = opendir("/proc/self/fd");
	int i;

	while ((d = readdir(dir)))
		sum = sum * 31 + strlen(d->d_name) + (unsigned char)d->d_name[0];
	closedir(dir);
	sigprocmask(SIG_BLOCK, NULL, &mask);
	for (i = 1; i < 65; i++) {
		struct sigaction a;

		if (i == 32 || i == 33) /* libc's own, set with the first thread */
			continue;
		if (syscall(SYS_rt_sigaction, i, NULL, &a, 8) == 0)
			sum = sum * 31 + (a.sa_handler != SIG_DFL);
		sum = sum * 31 + (i < 32 && sigismember(&mask, i) == 1);
	}
	return sum;
}

/* Collected from outside or not, nothing of ours shows: signals, files, errno. */
static void unchanged(void)
{
	unsigned long before = fingerprint();
	int i;

	errno = 4711;
	for (i = 0; i < 1000; i++)
		STACKWALK_TAG("closed");
	if (fingerprint() != before)
		complain("captures changed the process before the log was open");
	open_log(0, 1 << 20);
	errno = 4711;
	for (i = 0; i < 1000; i++) {
		STACKWALK_TAG("open");
		if (errno != 4711)
			complain("errno was changed");
	}
	close_log();
	if (fingerprint() != before)
		complain("the log left something behind");
	printf("open 1000\n");
}

static volatile sig_atomic_t ticks;

static NOINLINE void handler(int sig)
{
	STACKWALK_TAG_VALUE("handler", (uint64_t)ticks);
	ticks++;
}

static NOINLINE void work(unsigned long n)
{
	STACKWALK_TAG_VALUE("work", n);
}

/* Signals every 100 us on an alternate stack, into captures that are under way. */
static void signals(void)
{
	struct itimerval every = { .it_interval.tv_usec = 100, .it_value.tv_usec = 100 }, never = { 0 };
	stack_t alt = { .ss_sp = malloc(65536), .ss_size = 65536 };
	struct sigaction a = { .sa_handler = handler, .sa_flags = SA_ONSTACK | SA_RESTART };
	unsigned long n;

	sigaltstack(&alt, NULL);
	sigaction(SIGALRM, &a, NULL);
	open_log(0, 64 << 20);
	setitimer(ITIMER_REAL, &every, NULL);
	for (n = 0; ticks < 2000 || n < 20000; n++) {
		work(n);
		if (n % 20 == 0)
			usleep(100);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	close_log();
	printf("work %lu\nhandler %d\n", n, (int)ticks);
}

static sigjmp_buf out;

static NOINLINE void jump(int sig)
{
	STACKWALK_TAG("jump");
	ticks++;
	siglongjmp(out, 1);
}

/* A handler that never returns: captures that it interrupted are lost and counted, all others are there. */
static void longjmps(void)
{
	struct itimerval once = { .it_value.tv_usec = 50 }, never = { 0 };
	struct sigaction a = { .sa_handler = jump, .sa_flags = SA_NODEFER };
	volatile unsigned long done = 0;
	volatile int i;

	sigaction(SIGALRM, &a, NULL);
	open_log(0, 64 << 20);
	for (i = 0; i < 200; i++) {
		usleep(2000); /* the collector keeps up */
		if (sigsetjmp(out, 1) == 0) {
			setitimer(ITIMER_REAL, &once, NULL);
			for (;;) {
				work(done);
				done++;
			}
		}
	}
	setitimer(ITIMER_REAL, &never, NULL);
	close_log();
	printf("work %lu\njump %d\n", (unsigned long)done, (int)ticks);
}

/* A child is not collected from, whatever it does; it may open a log of its own. */
static void forks(void)
{
	char own[4096];
	int status;
	pid_t pid;

	open_log(0, 0);
	STACKWALK_TAG("parent");
	pid = fork();
	if (!pid) {
		int i;

		for (i = 0; i < 100; i++)
			STACKWALK_TAG("child");
		if (stackwalk_collecting)
			complain("the child is still on");
		snprintf(own, sizeof(own), "%s.child", log_path);
		log_path = own;
		open_log(0, 0);
		STACKWALK_TAG("own");
		exit(0); /* closes its own log, and leaves its parent's alone */
	}
	waitpid(pid, &status, 0);
	if (status)
		complain("the child failed");
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); /* no fork handlers */
	if (!pid) {
		STACKWALK_TAG("cloned");
		_exit(stackwalk_collecting != 0);
	}
	waitpid(pid, &status, 0);
	if (status)
		complain("the clone is still on");
	STACKWALK_TAG("parent");
	close_log();
	printf("parent 2\n");
}

/* No memory for a ring: captures are lost and counted, and nothing else happens. */
static NOINLINE void *starved(void *arg)
{
	int i;

	for (i = 0; i < 100; i++)
		STACKWALK_TAG("starved");
	return NULL;
}

static void no_memory(void)
{
	pthread_attr_t attr;
	pthread_t t;
	size_t size = 1 << 20;
	void *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, stack, size);
	open_log(0, 256 << 20);
	STACKWALK_TAG("fed"); /* has a ring from now on */
	{
		FILE *f = fopen("/proc/self/statm", "r");
		unsigned long pages = 0;
		struct rlimit_like {
			unsigned long soft, hard;
		} limit;

		if (!f || fscanf(f, "%lu", &pages) != 1)
			complain("statm");
		fclose(f);
		limit.soft = limit.hard = pages * 4096 + (4 << 20);
		if (syscall(SYS_setrlimit, 9 /* RLIMIT_AS */, &limit))
			complain("setrlimit");
	}
	if (pthread_create(&t, &attr, starved, NULL))
		complain("no thread");
	pthread_join(t, NULL);
	STACKWALK_TAG("fed");
	close_log();
	printf("fed 2\nlost 100\n");
}

/* The walk behind the captures, against glibc's, here and from a signal handler on another stack. */
static volatile int agreed;

static void compare(const uint64_t *ours, unsigned int n, void *const *theirs, int m, const char *where)
{
	int i, k;

	/* Ours begins somewhere in theirs, behind the functions that called backtrace(). */
	for (k = 0; k < m && (uint64_t)theirs[k] != ours[0]; k++)
		;
	for (i = 0; k + i < m && i < (int)n && (uint64_t)theirs[k + i] == ours[i]; i++)
		;
	if (k == m || k + i != m || i != (int)n) {
		fprintf(stderr, "%s: ours has %u frames, glibc's %d; %d agree\n", where, n, m - k, i);
		complain("frames");
	}
	agreed++;
}

static NOINLINE void frames_here(void)
{
	enum stackwalk_end why;
	uint64_t ours[64];
	void *theirs[64];
	unsigned int n = stackwalk_frames(ours, 64, &why);
	int m = backtrace(theirs, 64);

	if (why != STACKWALK_COMPLETE)
		complain("the walk did not reach the end");
	/* Two calls of one function: the first frame is a little further on in theirs. */
	if (theirs[0] <= (void *)ours[0] || (uint64_t)theirs[0] - ours[0] > 64)
		complain("the first frame is not the place of the call");
	compare(ours + 1, n - 1, theirs, m, "here");
}

static NOINLINE void interrupted(int sig, siginfo_t *info, void *ucontext)
{
	enum stackwalk_end why;
	uint64_t ours[64];
	void *theirs[64];
	unsigned int n = stackwalk_frames_from(ucontext, ours, 64, &why);

	if (why != STACKWALK_COMPLETE)
		complain("the walk did not reach the end");
	if (ours[0] != (uint64_t)((ucontext_t *)ucontext)->uc_mcontext.gregs[REG_RIP])
		complain("the first frame is not what was interrupted");
	compare(ours, n, theirs, backtrace(theirs, 64), "in the handler");
	ticks++;
}

static int by_callback(const void *a, const void *b)
{
	frames_here();
	return 0;
}

static void frames(void)
{
	struct itimerval every = { .it_interval.tv_usec = 200, .it_value.tv_usec = 200 }, never = { 0 };
	stack_t alt = { .ss_sp = malloc(65536), .ss_size = 65536 };
	struct sigaction a = { .sa_sigaction = interrupted,
			       .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART };
	char text[256], two[2] = { 0 };
	void *warm[4];
	uint64_t one;

	backtrace(warm, 4); /* loads libgcc_s */
	frames_here();
	qsort(two, 2, 1, by_callback);
	if (stackwalk_frames(&one, 1, NULL) != 1 || stackwalk_frames(&one, 0, NULL) != 0)
		complain("one frame, and none");
	sigaltstack(&alt, NULL);
	sigaction(SIGALRM, &a, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	while (ticks < 2000)
		snprintf(text, sizeof(text), "%d %s %f", (int)ticks, "text", (double)ticks / 3);
	setitimer(ITIMER_REAL, &never, NULL);
	printf("frames %d\n", agreed);
}

/* Until it is killed. */
static void forever(void)
{
	unsigned long n;

	open_log(0, 0);
	for (n = 0;; n++) {
		work(n);
		usleep(100);
		if (n == 10000)
			printf("work 10000\n"), fflush(stdout);
	}
}

/* What stackwalk_log_open() and _close() refuse. */
static void errors(void)
{
	int err;

	err = stackwalk_log_close();
	printf("close %d %s\n", err, stackwalk_log_error());
	err = stackwalk_log_open(NULL, 0, 0);
	printf("null %d %s\n", err, stackwalk_log_error());
	err = stackwalk_log_open(log_path, 129, 0);
	printf("frames %d %s\n", err, stackwalk_log_error());
	err = stackwalk_log_open(log_path, 0, 1ul << 40);
	printf("buffer %d %s\n", err, stackwalk_log_error());
	err = stackwalk_log_open("/nonexistent/dir/log", 0, 0);
	printf("enoent %d %s\n", err, stackwalk_log_error());
	err = stackwalk_log_open("/tmp", 0, 0);
	printf("eexist %d %s\n", err, stackwalk_log_error());
	open_log(0, 0);
	err = stackwalk_log_open("/tmp/another-log", 0, 0);
	printf("ebusy %d %s\n", err, stackwalk_log_error());
	close_log();
	err = stackwalk_log_close();
	printf("again %d %s\n", err, stackwalk_log_error());
}

/* The log's file system fills up: the program goes on, and is told when it closes the log. */
static void full_disk(void)
{
	unsigned long n;
	int err;

	open_log(0, 0);
	for (n = 0; n < 200000; n++) {
		work(n);
		if (n % 500 == 0)
			usleep(1000);
	}
	err = stackwalk_log_close();
	printf("close %d %s\n", err, stackwalk_log_error());
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} mode[] = {
		{ "life", life },	    { "tags", tags },		{ "names", names },
		{ "unchanged", unchanged }, { "signals", signals },	{ "longjmps", longjmps },
		{ "forks", forks },	    { "no_memory", no_memory }, { "forever", forever },
		{ "frames", frames },	    { "errors", errors },	{ "full_disk", full_disk },
	};
	size_t i;

	if (argc != 3)
		return 2;
	log_path = argv[1];
	for (i = 0; i < sizeof(mode) / sizeof(*mode); i++) {
		if (!strcmp(mode[i].name, argv[2])) {
			mode[i].run();
			return 0;
		}
	}
	return 2;
}
