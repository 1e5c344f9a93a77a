/*
 * chaos_calls - system calls that nothing but their time-out ends: not a stop, nor a trap elsewhere. And a
 * pipe's bytes.
 */
#include "tests/chaos/chaos.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MS 15
#define WAIT_NS (WAIT_MS * 1000000l)
#define TICK_NS 4000000
#define CHUNK 3000

static int silent[2], stream[2], echo[2], epoll, timer, sockets[2], listener;
static const struct timespec some_ms = { 0, WAIT_NS };

/* Each: true if it ended by its time-out, errno set otherwise. */

static bool by_nanosleep(void)
{
	return !nanosleep(&some_ms, NULL);
}

static bool by_clock_nanosleep(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_nsec += WAIT_NS;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	errno = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
	return !errno;
}

static bool by_poll(void)
{
	struct pollfd p = { .fd = silent[0], .events = POLLIN };

	return poll(&p, 1, WAIT_MS) == 0;
}

static bool by_ppoll(void)
{
	struct pollfd p = { .fd = silent[0], .events = POLLIN };
	sigset_t mask;

	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	return ppoll(&p, 1, &some_ms, &mask) == 0;
}

static bool by_select(void)
{
	struct timeval t = { 0, WAIT_MS * 1000 };
	fd_set set;

	FD_ZERO(&set);
	FD_SET(silent[0], &set);
	return select(silent[0] + 1, &set, NULL, NULL, &t) == 0;
}

static bool by_futex(void)
{
	static uint32_t word;

	return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &some_ms, NULL, 0) < 0 && errno == ETIMEDOUT;
}

static bool by_timerfd(void)
{
	struct itimerspec once = { .it_value = some_ms };
	uint64_t n = 0;

	return !timerfd_settime(timer, 0, &once, NULL) && read(timer, &n, sizeof(n)) == sizeof(n) && n == 1;
}

static bool by_epoll(void)
{
	struct epoll_event e;

	return epoll_wait(epoll, &e, 1, WAIT_MS) == 0;
}

static bool by_recv(void)
{
	char c;

	return recv(sockets[0], &c, 1, 0) < 0 && errno == EAGAIN;
}

static bool by_accept(void)
{
	return accept(listener, NULL, NULL) < 0 && errno == EAGAIN;
}

/* Blocks until the other end answers. */
static bool by_read(void)
{
	char c = 0;

	if (write(echo[0], "x", 1) != 1 || read(echo[0], &c, 1) != 1)
		return shared->over;
	return c == 'x';
}

/* Answers by_read(), after a while. */
static bool by_answer(void)
{
	char c = 0;

	if (read(echo[1], &c, 1) != 1)
		return shared->over;
	return !nanosleep(&some_ms, NULL) && (write(echo[1], &c, 1) == 1 || shared->over);
}

/* interrupted: a stop by SIGSTOP or a debugger ends it with EINTR, says signal(7). */
static const struct {
	const char *name;
	bool (*call)(void);
	bool interrupted;
} calls[] = {
	{ "nanosleep", by_nanosleep, false },
	{ "clock_nanosleep", by_clock_nanosleep, false },
	{ "poll", by_poll, false },
	{ "ppoll", by_ppoll, false },
	{ "select", by_select, false },
	{ "futex", by_futex, false },
	{ "timerfd", by_timerfd, false },
	{ "epoll", by_epoll, true },
	{ "recv", by_recv, true },
	{ "accept", by_accept, true },
	{ "read", by_read, false },
	{ "answer", by_answer, false },
};

unsigned int calls_number(void)
{
	return sizeof(calls) / sizeof(calls[0]);
}

const char *call_name(unsigned int call)
{
	return calls[call].name;
}

void sleep_and_check(unsigned int call)
{
	uint64_t begun, took;
	uint32_t stops;

	while (turn()) {
		stops = __atomic_load_n(&shared->stops, __ATOMIC_SEQ_CST);
		begun = now_ns();
		if (!calls[call].call()) {
			if (errno == EINTR && calls[call].interrupted && stopped_since(stops))
				continue;
			fail("%s ended before its time", calls[call].name);
		}
		took = now_ns() - begun;
		/* The kernel's clocks of time-outs are a tick apart from the one that is read here; sockets
		 * count in ticks, and a virtual machine some of those late. */
		if (took + (calls[call].interrupted ? 2 * TICK_NS : 1000000) < WAIT_NS &&
		    calls[call].call != by_answer && !shared->over)
			fail("%s took %lu us instead of %d ms", calls[call].name, took / 1000, WAIT_MS);
	}
	/* The other end may have begun its last turn: nobody would answer it. */
	if (calls[call].call == by_read || calls[call].call == by_answer)
		shutdown(echo[0], SHUT_RDWR);
}

/* The same bytes on both sides, in chunks that differ. */
void feed_stream(unsigned int unused)
{
	uint64_t bytes = 7, lengths = 8;
	uint8_t chunk[CHUNK];
	size_t n, i;

	while (turn()) {
		n = 1 + next_random(&lengths) % CHUNK;
		for (i = 0; i < n; i++)
			chunk[i] = (uint8_t)next_random(&bytes);
		if (write(stream[1], chunk, n) != (ssize_t)n)
			fail("a write to a pipe did not write all");
		if (next_random(&lengths) % 4 == 0 && usleep(1000))
			fail("usleep() was interrupted");
	}
	close(stream[1]);
}

void read_stream(unsigned int unused)
{
	uint64_t bytes = 7, lengths = 9;
	uint8_t chunk[CHUNK];
	ssize_t n, i;

	for (;;) {
		turn();
		n = read(stream[0], chunk, 1 + next_random(&lengths) % CHUNK);
		if (n < 0)
			fail("a read from a pipe failed");
		if (n == 0 && shared->over)
			return;
		for (i = 0; i < n; i++)
			if (chunk[i] != (uint8_t)next_random(&bytes))
				fail("a byte from a pipe is not what was written");
	}
}

void calls_init(void)
{
	struct timeval t = { 0, WAIT_MS * 1000 };
	struct epoll_event e = { .events = EPOLLIN };
	struct sockaddr_un any = { .sun_family = AF_UNIX }; /* the kernel finds a name */

	epoll = epoll_create1(EPOLL_CLOEXEC);
	timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (pipe(silent) || pipe(stream) || epoll < 0 || timer < 0 || listener < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) || socketpair(AF_UNIX, SOCK_STREAM, 0, echo) ||
	    setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)) ||
	    bind(listener, (const struct sockaddr *)&any, sizeof(any.sun_family)) || listen(listener, 1) ||
	    setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)) ||
	    epoll_ctl(epoll, EPOLL_CTL_ADD, silent[0], &e))
		fail("what the threads wait for could not be made");
}
