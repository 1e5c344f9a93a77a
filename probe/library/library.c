/*
 * library - what a drop-in library does in the program: it has itself patched before anything of the program runs.
 *
 * The dynamic loader calls library_resolve() while it relocates the drop-in (R_X86_64_IRELATIVE): at the start of a program all
 * libraries are mapped then, and no constructor, of any of them, has run. Where the environment names a log, a process is made
 * that executes watchctl, which patches this one as it would any other, and reads the rings to the end. Until all is in place
 * the thread waits here, for PATIENCE_MS at most. Whatever fails: one sentence on standard error, and the program runs as it is.
 *
 * The process is nobody's child: made by one that is gone, so that the program has no child to wait for and gets no SIGCHLD; in a
 * session of its own; without the program's open files. It may trace the program, where that has to be permitted (Yama).
 *
 * There is no libc: it may not be relocated yet. Nothing but memory that goes again, and one descriptor until then.
 */
#include <stdbool.h>

#include "probe/library/calls.h"
#include "probe/library/library.h"

#define PATIENCE_MS 30000
#define ENVIRONMENT_MAX (4l << 20)
#define WORDS_MAX 8192 /* of the environment, for the collector */

#define POLLIN 1
#define O_RDWR 2
#define F_DUPFD 0
#define F_GETFD 1
#define AF_UNIX 1
#define SOCK_STREAM_CLOEXEC (1 | 02000000)
#define MSG_NOSIGNAL 0x4000
#define PROT_RW 3
#define MAP_PRIVATE_ANONYMOUS_NORESERVE (2 | 0x20 | 0x4000)
#define SIG_SETMASK 2
#define PR_SET_PTRACER 0x59616d61
#define WAIT_ALL 0x40000000 /* __WALL: children that send no SIGCHLD, too */
#define CLOCK_MONOTONIC 1
#define EINTR 4
#define AT_SECURE 23
#define ENV_START 50 /* proc(5), /proc/PID/stat: env_end is the next */

extern const struct library_settings library_settings __attribute__((visibility("hidden")));

struct start {
	char *environment; /* ENVIRONMENT_MAX bytes, with a 0 behind the last word; mapped */
	long size;	   /* of what is in it */
	const char *output;
	long pid;
};

void *library_resolve(void) __attribute__((section(".text.first"), visibility("hidden")));

static long length(const char *s)
{
	long n = 0;

	while (s[n])
		n++;
	return n;
}

/* What stands behind @prefix, if @text begins so; else NULL. */
static const char *behind(const char *text, const char *prefix)
{
	while (*prefix)
		if (*text++ != *prefix++)
			return NULL;
	return text;
}

static void put(const char *text)
{
	call3(NR_WRITE, 2, (long)text, length(text));
}

static void say(const char *why)
{
	char line[512];
	const char *const part[] = { "watchctl: ", library_settings.name, " runs as it is, unpatched: ", why,
				     "\n" };
	long n = 0;

	for (int i = 0; i < 5; i++)
		for (const char *s = part[i]; *s && n < (long)sizeof(line) - 1; s++)
			line[n++] = *s;
	line[n] = '\0';
	put(line);
}

/* The beginning of a file, with a 0 behind it; how long it is. */
static long read_file(const char *path, char *to, long cap)
{
	long fd = call3(NR_OPEN, (long)path, 02000000, 0), n = 0, got = 1;

	to[0] = '\0';
	if (fd < 0)
		return 0;
	while (n < cap - 1 && got > 0) {
		got = call3(NR_READ, fd, (long)(to + n), cap - 1 - n);
		n += got > 0 ? got : 0;
	}
	call3(NR_CLOSE, fd, 0, 0);
	to[n] = '\0';
	return n;
}

/*
 * Valgrind executes a translation of the program, in which patches would be neither seen nor safe. This is how a program asks it
 * (valgrind.h, RUNNING_ON_VALGRIND): rotations that come to nothing, and an exchange of a register with itself. A processor leaves
 * @answer as it is.
 */
static bool is_translated(void)
{
	const uint64_t question[6] = { 0x1001 };
	uint64_t answer = 0;

	__asm__ volatile(
		"rolq $3, %%rdi\n\trolq $13, %%rdi\n\trolq $61, %%rdi\n\trolq $51, %%rdi\n\txchgq %%rbx, %%rbx"
		: "+d"(answer)
		: "a"(question)
		: "cc", "memory");
	return answer;
}

/* The value of a line of /proc/self/status; NULL: there is none. */
static const char *value_of(const char *status, const char *name)
{
	for (const char *s = status; *s; s++) {
		const char *value = s == status || s[-1] == '\n' ? behind(s, name) : NULL;

		if (value)
			return value;
	}
	return NULL;
}

/*
 * With a right that who started it has not (set-user-ID), nothing is executed, or written, that the environment names. Where a program
 * lets nobody look at it, a watchctl could not either. NULL: neither.
 */
static const char *protection(void)
{
	uint64_t word[128];
	long n = read_file("/proc/self/auxv", (char *)word, sizeof(word)) / (long)sizeof(*word);

	for (long i = 0; i + 1 < n; i += 2)
		if (word[i] == AT_SECURE)
			return word[i + 1] ? "it has more rights than who started it" : NULL;
	return "it lets nobody look at it (prctl(2): PR_SET_DUMPABLE), or has more rights than who started it";
}

/*
 * What of the program forbids it; NULL: nothing. A filter for system calls may end a program that makes a new one. A tracer would
 * have to be asked before another stops the program, and takes the process that is made here for a thread.
 */
static const char *hindrance(void)
{
	const char *tracer, *filter, *protects;
	char status[4096];

	read_file("/proc/self/status", status, sizeof(status));
	tracer = value_of(status, "TracerPid:\t");
	filter = value_of(status, "Seccomp:\t");
	protects = protection();
	return !tracer || !filter ? "/proc/self/status cannot be read"
	       : *tracer != '0'	  ? "it is traced (by a debugger, or strace)"
	       : *filter != '0'	  ? "its system calls are filtered (seccomp)"
	       : protects	  ? protects
	       : is_translated()  ? "it runs in Valgrind"
				  : NULL;
}

static uint64_t read_number(const char **s)
{
	uint64_t n = 0;

	for (; **s >= '0' && **s <= '9'; ++*s)
		n = 10 * n + (uint64_t)(**s - '0');
	return n;
}

/* As it lies in memory, where the file may not be read by the program itself; how long it is. */
static long copy_environment(char *to, long cap)
{
	char stat[2048];
	long len = read_file("/proc/self/stat", stat, sizeof(stat)), n = 0;
	const char *s = stat + len;
	struct {
		uint64_t at, size;
	} mine = { (uint64_t)(uintptr_t)to, 0 }, theirs;

	while (s > stat && *s != ')')
		s--;
	for (int field = 2; *s && field < ENV_START; s++)
		field += *s == ' ';
	theirs.at = read_number(&s);
	s += *s == ' ';
	theirs.size = read_number(&s) - theirs.at;
	if (!theirs.at || theirs.size >= (uint64_t)cap)
		return 0;
	mine.size = theirs.size;
	n = call6(NR_PROCESS_VM_READV, call3(NR_GETPID, 0, 0, 0), (long)&mine, 1, (long)&theirs, 1, 0);
	return n > 0 ? n : 0;
}

static bool read_environment(struct start *s)
{
	long at = call6(NR_MMAP, 0, ENVIRONMENT_MAX, PROT_RW, MAP_PRIVATE_ANONYMOUS_NORESERVE, -1, 0);

	if (at < 0 && at > -4096)
		return false;
	s->environment = (char *)at;
	s->size = read_file("/proc/self/environ", s->environment, ENVIRONMENT_MAX);
	if (!s->size)
		s->size = copy_environment(s->environment, ENVIRONMENT_MAX);
	for (const char *e = s->environment; e < s->environment + s->size; e += length(e) + 1)
		if (behind(e, LIBRARY_OUTPUT "=")) {
			s->output = behind(e, LIBRARY_OUTPUT "=");
			break;
		}
	return s->output && *s->output;
}

/* The collector */

/* All but what would load drop-ins into watchctl. @word: WORDS_MAX of them. */
static void keep_environment(const struct start *s, char **word)
{
	long n = 0;

	for (char *e = s->environment; e < s->environment + s->size; e += length(e) + 1)
		if (n < WORDS_MAX - 1 && !behind(e, "LD_") && !behind(e, LIBRARY_OUTPUT "="))
			word[n++] = e;
	word[n] = NULL;
}

static void write_number(uint64_t v, unsigned int base, char *to)
{
	char digit[24];
	int n = 0;

	do
		digit[n++] = "0123456789abcdef"[v % base];
	while (v /= base);
	while (n)
		*to++ = digit[--n];
	*to = '\0';
}

static void arrange_files(long fd)
{
	long null;

	fd = call3(NR_FCNTL, fd, F_DUPFD, 16);
	null = call3(NR_OPEN, (long)"/dev/null", O_RDWR, 0);
	if (null > 2 || null < 0)
		call3(NR_DUP2, null, 0, 0);
	call3(NR_DUP2, null, 1, 0);
	if (call3(NR_FCNTL, 2, F_GETFD, 0) < 0)
		call3(NR_DUP2, null, 2, 0);
	call3(NR_DUP2, fd, LIBRARY_READY_FD, 0);
	if (call3(NR_CLOSE_RANGE, LIBRARY_READY_FD + 1, ~0u, 0) < 0)
		for (long i = LIBRARY_READY_FD + 1; i < 65536; i++)
			call3(NR_CLOSE, i, 0, 0);
}

static void execute(const struct start *s)
{
	char pid[24], at[24];
	char *output = (char *)s->output;
	char *argv[] = { "watchctl", "patch", "drop-in", pid, at, NULL, NULL };
	uint64_t none = 0;
	long words = call6(NR_MMAP, 0, WORDS_MAX * sizeof(char *), PROT_RW, MAP_PRIVATE_ANONYMOUS_NORESERVE,
			   -1, 0);

	if (words < 0 && words > -4096)
		return;
	keep_environment(s, (char **)words);
	/* A name must not be taken for an option: over the end of the variable's, which is not needed any more. */
	if (*output == '-') {
		*--output = '/';
		*--output = '.';
	}
	argv[5] = output;
	write_number((uint64_t)s->pid, 10, pid);
	write_number((uint64_t)(uintptr_t)library_resolve, 16, at);
	call6(NR_SIGPROCMASK, SIG_SETMASK, (long)&none, 0, sizeof(none), 0, 0);
	call3(NR_EXECVE, (long)library_settings.watchctl, (long)argv, words);
}

/* In a process of its own: tells its number, waits until it may trace. */
static void become_collector(const struct start *s, long fd)
{
	int32_t pid = (int32_t)call3(NR_GETPID, 0, 0, 0);
	char go;

	call3(NR_SETSID, 0, 0, 0);
	if (call6(NR_SENDTO, fd, (long)&pid, sizeof(pid), MSG_NOSIGNAL, 0, 0) != sizeof(pid) ||
	    call3(NR_READ, fd, (long)&go, 1) != 1)
		return;
	arrange_files(fd);
	execute(s);
	say("watchctl cannot be executed; where was it when the library was made?");
}

/* In the program's child, which goes at once. */
static void make_collector(const struct start *s, long fd)
{
	if (!call6(NR_CLONE, 0, 0, 0, 0, 0, 0))
		become_collector(s, fd);
	call3(NR_EXIT_GROUP, 0, 0, 0);
}

/* In the program */

static long now_ms(void)
{
	struct {
		int64_t s, ns;
	} t = { 0, 0 };

	call3(NR_CLOCK_GETTIME, CLOCK_MONOTONIC, (long)&t, 0);
	return t.s * 1000 + t.ns / 1000000;
}

/* 1: so many bytes have come; 0: the other side is gone; -1: the patience is over. */
static int await(long fd, void *to, long size, long until)
{
	struct {
		int fd;
		short events, got;
	} p = { (int)fd, POLLIN, 0 };

	for (;;) {
		long left = until - now_ms(), n;

		n = left > 0 ? call3(NR_POLL, (long)&p, 1, left) : 0;
		if (n == -EINTR)
			continue;
		if (n <= 0)
			return -1;
		n = call3(NR_READ, fd, (long)to, size);
		if (n != -EINTR)
			return n == size;
	}
}

static void follow(long fd)
{
	const long until = now_ms() + PATIENCE_MS;
	int32_t collector = 0;
	char byte = 0;

	if (await(fd, &collector, sizeof(collector), until) <= 0) {
		say("no process can be made that executes watchctl");
		return;
	}
	call6(NR_PRCTL, PR_SET_PTRACER, collector, 0, 0, 0, 0); /* there may be no Yama: then it needs none */
	call6(NR_SENDTO, fd, (long)&byte, 1, MSG_NOSIGNAL, 0, 0);
	/* If it is gone, it has said why. */
	if (await(fd, &byte, 1, until) < 0)
		say("watchctl has not done it in 30 seconds; it may still come to that");
}

static void have_it_patched(const struct start *s)
{
	int fd[2] = { -1, -1 };
	long child;

	if (call6(NR_SOCKETPAIR, AF_UNIX, SOCK_STREAM_CLOEXEC, 0, (long)fd, 0, 0) < 0) {
		say("it has no descriptor left");
		return;
	}
	child = call6(NR_CLONE, 0, 0, 0, 0, 0, 0);
	if (!child) {
		call3(NR_CLOSE, fd[0], 0, 0);
		make_collector(s, fd[1]);
	}
	call3(NR_CLOSE, fd[1], 0, 0);
	if (child > 0)
		while (call6(NR_WAIT4, child, 0, WAIT_ALL, 0, 0, 0) == -EINTR)
			;
	follow(fd[0]);
	call3(NR_CLOSE, fd[0], 0, 0);
}

void *library_resolve(void)
{
	struct start s = { .pid = call3(NR_GETPID, 0, 0, 0) };
	const char *why;

	if (read_environment(&s)) {
		why = hindrance();
		if (why)
			say(why);
		else
			have_it_patched(&s);
	}
	if (s.environment)
		call3(NR_MUNMAP, (long)s.environment, ENVIRONMENT_MAX, 0);
	return library_resolve;
}
