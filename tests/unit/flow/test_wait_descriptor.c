/* Processes that wait for each other through descriptors, and are explained: this program made them, so it knows the answer. */
#include <fcntl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/wait.h"
#include "watchctl/flow/explain/wait_descriptor.h"
#include "watchctl/flow/explain/wait_file_lock.h"
#include "watchctl/target/proc/proc.h"

#define CHILDREN 8

/* One test: the children it made, and the last explanation. */
struct scene {
	pid_t child[CHILDREN];
	size_t n;
	struct descriptors *d;
	struct wait w;
	char dir[32];
};

static int set_up(void **state)
{
	struct scene *s = calloc(1, sizeof(*s));

	strcpy(s->dir, "/tmp/wait_descriptor.XXXXXX");
	*state = s;
	return mkdtemp(s->dir) ? 0 : -1;
}

static int tear_down(void **state)
{
	struct scene *s = *state;
	char command[64];

	for (size_t i = 0; i < s->n; i++) {
		kill(s->child[i], SIGKILL);
		waitpid(s->child[i], NULL, 0);
	}
	wait_deinit(&s->w);
	descriptors_free(s->d);
	snprintf(command, sizeof(command), "rm -rf %s", s->dir);
	free(s);
	return system(command);
}

/* 0 in the child, which ends with this program. */
static pid_t forked(struct scene *s)
{
	const pid_t pid = fork();

	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	else
		s->child[s->n++] = pid;
	return pid;
}

/* A child that only holds what it has inherited. */
static pid_t holder(struct scene *s)
{
	const pid_t pid = forked(s);

	while (!pid)
		pause();
	return pid;
}

static bool in_call(pid_t pid, long number, uint64_t arg[6])
{
	char path[32], line[256] = "";
	long now = -1;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/syscall", pid);
	FILE *f = fopen(path, "r");
	n = f ? fread(line, 1, sizeof(line) - 1, f) : 0;
	if (f)
		fclose(f);
	line[n] = '\0';
	return sscanf(line, "%ld %lx %lx %lx %lx %lx %lx", &now, &arg[0], &arg[1], &arg[2], &arg[3], &arg[4],
		      &arg[5]) == 7 &&
	       now == number;
}

/* Explains @pid as soon as it waits in system call @number. */
static const struct wait *explain(struct scene *s, pid_t pid, long number)
{
	const struct memory_view mem = proc_memory(&pid);
	uint64_t arg[6];

	WAIT_UNTIL(in_call(pid, number, arg));
	wait_deinit(&s->w);
	descriptors_free(s->d);
	s->d = descriptors_new();
	assert_true(wait_descriptor(s->d, pid, pid, &mem, number, arg, &s->w));
	if (getenv("WAIT_SHOW"))
		fprintf(stderr, "  kind %d ender %d%s: %s\n    (%s)\n", s->w.kind, s->w.ender,
			s->w.has_limit ? " limit" : "", s->w.what, s->w.evidence);
	return &s->w;
}

static void check_whom(const struct wait *w, enum wait_ender ender, pid_t pid)
{
	assert_int_equal(w->ender, ender);
	assert_int_equal(w->n, 1);
	assert_int_equal(w->whom[0].pid, pid);
}

static void check_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" is not in \"%s\"", part, text);
}

static void read_byte(int fd)
{
	char c;

	_exit(read(fd, &c, 1) != 1);
}

static void a_pipe_is_waited_for_with_its_writer(void **state)
{
	struct scene *s = *state;
	pid_t reader, writer;
	char name[32];
	struct stat st;
	int p[2];

	assert_int_equal(pipe(p), 0);
	reader = forked(s);
	if (!reader) {
		close(p[1]);
		read_byte(p[0]);
	}
	writer = holder(s);
	fstat(p[0], &st);
	close(p[0]);
	close(p[1]);
	check_whom(explain(s, reader, SYS_read), ENDER_THREADS, writer);
	assert_int_equal(s->w.kind, WAIT_PEER);
	assert_int_equal(s->w.object, st.st_ino);
	snprintf(name, sizeof(name), "a byte from the pipe [%lu]", st.st_ino);
	check_has(s->w.what, name);
	check_has(s->w.evidence, "its write end is descriptor");
}

static void who_forgot_to_close_its_write_end_waits_for_itself(void **state)
{
	struct scene *s = *state;
	pid_t reader;
	int p[2];

	assert_int_equal(pipe(p), 0);
	reader = forked(s);
	if (!reader)
		read_byte(p[0]);
	close(p[0]);
	close(p[1]);
	check_whom(explain(s, reader, SYS_read), ENDER_THREADS, reader);
	check_has(s->w.evidence, "waits for itself");
}

static void a_full_pipe_is_waited_for_with_its_reader(void **state)
{
	struct scene *s = *state;
	pid_t reader, writer;
	int p[2];

	assert_int_equal(pipe(p), 0);
	writer = forked(s);
	if (!writer) {
		close(p[0]);
		while (write(p[1], s, sizeof(*s)) > 0)
			;
	}
	close(p[1]);
	reader = holder(s);
	close(p[0]);
	WAIT_UNTIL(({
		const struct wait *w = explain(s, writer, SYS_write);

		w->n == 1 && w->whom[0].pid == reader;
	}));
	check_has(s->w.what, "room in the pipe");
}

static void a_fifo_is_waited_for_at_its_opening_and_with_its_writer(void **state)
{
	struct scene *s = *state;
	pid_t reader, writer;
	char path[64];

	snprintf(path, sizeof(path), "%s/fi\nfo", s->dir); /* told as "fi?fo" */
	assert_int_equal(mkfifo(path, 0600), 0);
	reader = forked(s);
	if (!reader)
		read_byte(open(path, O_RDONLY));
	explain(s, reader, SYS_openat);
	assert_int_equal(s->w.ender, ENDER_UNKNOWN);
	check_has(s->w.what, "a writer of the FIFO");
	*strchr(path, '\n') = '?';
	check_has(s->w.what, path);
	*strrchr(path, '?') = '\n';
	writer = forked(s);
	if (!writer) {
		open(path, O_WRONLY);
		pause();
	}
	check_whom(explain(s, reader, SYS_read), ENDER_THREADS, writer);
	*strchr(path, '\n') = '?';
	check_has(s->w.what, path);
}

static void splice_waits_for_one_of_two_pipes(void **state)
{
	struct scene *s = *state;
	pid_t mover, writer;
	int in[2], out[2];

	assert_int_equal(pipe(in), 0);
	writer = holder(s);
	assert_int_equal(pipe(out), 0);
	mover = forked(s);
	if (!mover) {
		close(in[1]);
		splice(in[0], NULL, out[1], NULL, 1, 0);
	}
	close(in[0]);
	close(in[1]);
	close(out[0]);
	explain(s, mover, SYS_splice);
	assert_true(s->w.n >= 1);
	assert_int_equal(s->w.whom[0].pid, writer);
	check_has(s->w.what, "or room in the pipe");
	close(out[1]);
}

/* A child that reads @mine, and one that holds @theirs, which are two ends of a connection. */
static void check_connection(struct scene *s, int mine, int theirs, const char *what)
{
	pid_t reader, peer;

	reader = forked(s);
	if (!reader) {
		close(theirs);
		read_byte(mine);
	}
	close(mine);
	peer = holder(s);
	close(theirs);
	check_whom(explain(s, reader, SYS_read), ENDER_THREADS, peer);
	check_has(s->w.what, what);
	check_has(s->w.evidence, "its other end is descriptor");
}

static void a_socketpair_is_waited_for_with_its_other_end(void **state)
{
	int v[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, v), 0);
	check_connection(*state, v[0], v[1], "a byte from the unix socket [");
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, v), 0);
	check_connection(*state, v[0], v[1], "a byte from the unix socket [");
}

static void a_datagram_socket_whose_peer_is_closed_waits_for_ever(void **state)
{
	struct scene *s = *state;
	pid_t reader;
	int v[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, v), 0);
	close(v[1]);
	reader = forked(s);
	if (!reader)
		read_byte(v[0]);
	close(v[0]);
	explain(s, reader, SYS_read);
	assert_int_equal(s->w.ender, ENDER_NOBODY);
}

static int listener(int family, struct sockaddr_storage *ret, socklen_t *len)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT };
	const int l = socket(family, SOCK_STREAM, 0);

	if (l < 0)
		return -1;
	assert_int_equal(
		family == AF_INET ? bind(l, (void *)&v4, sizeof(v4)) : bind(l, (void *)&v6, sizeof(v6)), 0);
	assert_int_equal(listen(l, 1), 0);
	*len = sizeof(*ret);
	assert_int_equal(getsockname(l, (void *)ret, len), 0);
	return l;
}

static void a_tcp_connection_is_waited_for_with_its_other_end(void **state)
{
	struct sockaddr_storage to;
	socklen_t len;
	const int l = listener(AF_INET, &to, &len), client = socket(AF_INET, SOCK_STREAM, 0);
	int server;

	assert_int_equal(connect(client, (void *)&to, len), 0);
	server = accept(l, NULL, NULL);
	close(l);
	check_connection(*state, client, server, "the TCP connection 127.0.0.1:");
}

static void a_client_of_ipv4_meets_a_server_of_ipv6(void **state)
{
	struct sockaddr_storage at;
	socklen_t len;
	const int l = listener(AF_INET6, &at, &len), client = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int server;

	if (l < 0)
		skip();
	to.sin_port = ((struct sockaddr_in6 *)&at)->sin6_port;
	assert_int_equal(connect(client, (void *)&to, sizeof(to)), 0);
	server = accept(l, NULL, NULL);
	close(l);
	check_connection(*state, server, client, "the TCP connection 127.0.0.1:");
}

static void a_connection_that_was_not_accepted_waits_for_the_listener(void **state)
{
	struct scene *s = *state;
	struct sockaddr_storage to;
	socklen_t len;
	const int l = listener(AF_INET, &to, &len);
	const pid_t server = holder(s);
	pid_t client;

	client = forked(s);
	if (!client) {
		close(l);
		const int c = socket(AF_INET, SOCK_STREAM, 0);
		connect(c, (void *)&to, len);
		read_byte(c);
	}
	close(l);
	check_whom(explain(s, client, SYS_read), ENDER_THREADS, server);
	check_has(s->w.evidence, "not accepted yet");
}

/* The queue of a listener is full: the kernel drops what the client sends, and the client tries again. */
static void a_tcp_connect_waits_for_the_listener(void **state)
{
	struct scene *s = *state;
	struct sockaddr_storage to;
	socklen_t len;
	const int l = listener(AF_INET, &to, &len);
	int full[2];
	pid_t server = holder(s), pid;

	for (size_t i = 0; i < 2; i++) {
		full[i] = socket(AF_INET, SOCK_STREAM, 0);
		assert_int_equal(connect(full[i], (void *)&to, len), 0);
	}
	pid = forked(s);
	if (!pid) {
		close(l);
		connect(socket(AF_INET, SOCK_STREAM, 0), (void *)&to, len);
	}
	close(l);
	check_whom(explain(s, pid, SYS_connect), ENDER_THREADS, server);
	close(full[0]);
	close(full[1]);
}

static void a_message_queue_is_waited_for_with_its_sender(void **state)
{
	struct scene *s = *state;
	struct mq_attr attr = { .mq_maxmsg = 1, .mq_msgsize = 8 };
	const char *name = strrchr(s->dir, '/');
	const mqd_t reads = mq_open(name, O_RDONLY | O_CREAT, 0600, &attr), writes = mq_open(name, O_WRONLY);
	pid_t reader, writer;
	char message[8];

	if (reads < 0 || writes < 0)
		skip();
	mq_unlink(name);
	reader = forked(s);
	if (!reader) {
		mq_close(writes);
		mq_receive(reads, message, sizeof(message), NULL);
	}
	writer = holder(s);
	mq_close(reads);
	mq_close(writes);
	check_whom(explain(s, reader, SYS_mq_timedreceive), ENDER_SOME, writer);
	check_has(s->w.what, "a message from the message queue /wait_descriptor.");
}

static void accept_waits_for_anybody(void **state)
{
	struct scene *s = *state;
	struct sockaddr_storage to;
	socklen_t len;
	const int l = listener(AF_INET, &to, &len);
	pid_t server = forked(s);

	if (!server)
		accept(l, NULL, NULL);
	close(l);
	explain(s, server, SYS_accept);
	assert_int_equal(s->w.ender, ENDER_OUTSIDE);
	check_has(s->w.what, "a connection to the TCP socket 127.0.0.1:");
}

static int unix_listener(const char *path, struct sockaddr_un *ret)
{
	const int l = socket(AF_UNIX, SOCK_STREAM, 0);

	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(ret->sun_path, sizeof(ret->sun_path), "%s", path);
	assert_int_equal(bind(l, (void *)ret, sizeof(*ret)), 0);
	assert_int_equal(listen(l, 0), 0);
	return l;
}

static void connect_waits_for_the_owner_of_a_unix_socket(void **state)
{
	struct scene *s = *state;
	struct sockaddr_un to;
	pid_t server, client[2];
	char path[64];
	int l;

	snprintf(path, sizeof(path), "%s/socket", s->dir);
	l = unix_listener(path, &to);
	server = holder(s);
	for (size_t i = 0; i < 2; i++) {
		client[i] = forked(s);
		if (!client[i]) {
			const int c = socket(AF_UNIX, SOCK_STREAM, 0);

			close(l);
			connect(c, (void *)&to, sizeof(to));
			read_byte(c);
		}
		explain(s, client[i],
			i ? SYS_connect : SYS_read); /* the first one is in the queue then, which is full */
	}
	close(l);
	check_whom(explain(s, client[0], SYS_read), ENDER_THREADS, server);
	check_has(s->w.evidence, "not accepted yet");
	check_whom(explain(s, client[1], SYS_connect), ENDER_THREADS, server);
	check_has(s->w.what, "a connection to the socket /tmp/");
}

static void an_eventfd_is_waited_for_with_all_who_have_it(void **state)
{
	struct scene *s = *state;
	const int e = eventfd(0, 0), other = eventfd(0, 0);
	pid_t reader = forked(s), writer;
	uint64_t v;

	if (!reader)
		_exit(read(e, &v, sizeof(v)) < 0);
	writer = holder(s);
	close(e);
	close(other);
	check_whom(explain(s, reader, SYS_read), ENDER_THREADS, writer);
	check_has(s->w.what, "the eventfd");
}

static void signals_of_a_signalfd_have_no_owner(void **state)
{
	struct scene *s = *state;
	struct signalfd_siginfo i;
	sigset_t all;
	pid_t pid = forked(s);

	if (!pid) {
		sigfillset(&all);
		_exit(read(signalfd(-1, &all, 0), &i, sizeof(i)) < 0);
	}
	explain(s, pid, SYS_read);
	assert_int_equal(s->w.kind, WAIT_SIGNAL);
	assert_int_equal(s->w.ender, ENDER_UNKNOWN);
}

/* One that is not set does not end by itself. */
static void a_timer_that_is_not_set_is_said(void **state)
{
	struct scene *s = *state;
	uint64_t times;
	pid_t pid = forked(s);

	if (!pid)
		_exit(read(timerfd_create(CLOCK_MONOTONIC, 0), &times, sizeof(times)) < 0);
	explain(s, pid, SYS_read);
	assert_int_equal(s->w.ender, ENDER_UNKNOWN);
	check_has(s->w.evidence, "the timer is not set");
}

static void poll_of_a_timer_ends_by_itself(void **state)
{
	struct scene *s = *state;
	const struct itimerspec set = { .it_value.tv_sec = 3600 };
	pid_t pid = forked(s);

	if (!pid) {
		struct pollfd p = { timerfd_create(CLOCK_MONOTONIC, 0), POLLIN, 0 };

		timerfd_settime(p.fd, 0, &set, NULL);
		poll(&p, 1, -1);
	}
	explain(s, pid, SYS_poll);
	assert_int_equal(s->w.ender, ENDER_TIME);
	assert_true(s->w.has_limit);
}

static void a_pidfd_is_of_a_process(void **state)
{
	struct scene *s = *state;
	const pid_t whom = holder(s);
	pid_t pid = forked(s);

	if (!pid) {
		struct pollfd p = { (int)syscall(SYS_pidfd_open, whom, 0), POLLIN, 0 };

		poll(&p, 1, -1);
	}
	check_whom(explain(s, pid, SYS_poll), ENDER_THREADS, whom);
	assert_false(s->w.has_limit);
}

/* A pipe whose write end another child has, in each of @n children of its own. */
static void make_pipes(struct scene *s, int *read_end, pid_t *writer, size_t n)
{
	int p[2];

	for (size_t i = 0; i < n; i++) {
		assert_int_equal(pipe(p), 0);
		writer[i] = holder(s);
		close(p[1]);
		read_end[i] = p[0];
	}
}

static void check_two(const struct wait *w, const pid_t writer[2])
{
	assert_int_equal(w->kind, WAIT_EVENTS);
	assert_int_equal(w->ender, ENDER_THREADS);
	assert_int_equal(w->n, 2);
	assert_int_equal(w->whom[0].pid, writer[0]);
	assert_int_equal(w->whom[1].pid, writer[1]);
	check_has(w->what, "2 descriptors: the pipe [");
}

static void poll_select_and_epoll_wait_for_the_union(void **state)
{
	struct scene *s = *state;
	int fd[2];
	pid_t writer[2], pid;

	make_pipes(s, fd, writer, 2);
	pid = forked(s);
	if (!pid) {
		struct pollfd p[3] = { { fd[0], POLLIN, 0 }, { -1, POLLIN, 0 }, { fd[1], POLLIN, 0 } };

		poll(p, 3, 3600000);
	}
	check_two(explain(s, pid, SYS_poll), writer);
	assert_true(s->w.has_limit);

	pid = forked(s);
	if (!pid) {
		fd_set reads;

		FD_ZERO(&reads);
		FD_SET(fd[0], &reads);
		FD_SET(fd[1], &reads);
		syscall(SYS_select, fd[1] + 1, &reads, NULL, NULL, NULL);
	}
	check_two(explain(s, pid, SYS_select), writer);
	assert_false(s->w.has_limit);

	pid = forked(s);
	if (!pid) {
		const int e = epoll_create1(0), inner = epoll_create1(0);
		struct epoll_event out, in = { .events = EPOLLIN };

		epoll_ctl(e, EPOLL_CTL_ADD, fd[0], &in);
		epoll_ctl(inner, EPOLL_CTL_ADD, fd[1], &in);
		epoll_ctl(e, EPOLL_CTL_ADD, inner, &in);
		syscall(SYS_epoll_wait, e, &out, 1, -1);
	}
	explain(s, pid, SYS_epoll_wait);
	assert_int_equal(s->w.n, 2);
	assert_int_equal(s->w.ender, ENDER_THREADS);
	close(fd[0]);
	close(fd[1]);
}

/* An event loop that could wake itself, and that listens, is idle: it does not wait for itself. */
static void a_self_pipe_beside_a_listener_says_nothing(void **state)
{
	struct scene *s = *state;
	struct sockaddr_storage to;
	socklen_t len;
	const int l = listener(AF_INET, &to, &len);
	pid_t pid = forked(s);

	if (!pid) {
		struct pollfd v[2] = { { eventfd(0, 0), POLLIN, 0 }, { l, POLLIN, 0 } };

		poll(v, 2, -1);
	}
	close(l);
	explain(s, pid, SYS_poll);
	assert_int_equal(s->w.ender, ENDER_OUTSIDE);
	assert_int_equal(s->w.n, 0);
}

static void ignore(int signo)
{
	(void)signo;
}

/* Of a self-pipe alone, a signal handler is what usually writes to it. */
static void a_self_pipe_alone_may_be_of_a_signal_handler(void **state)
{
	struct scene *s = *state;

	for (int handler = 0; handler < 2; handler++) {
		pid_t pid = forked(s);

		if (!pid) {
			struct pollfd p = { eventfd(0, 0), POLLIN, 0 };

			if (handler)
				signal(SIGHUP, ignore);
			poll(&p, 1, -1);
		}
		check_whom(explain(s, pid, SYS_poll), handler ? ENDER_SOME : ENDER_THREADS, pid);
	}
	check_has(s->w.evidence, "a signal handler of it may write");
}

static void poll_of_nothing_is_a_sleep(void **state)
{
	struct scene *s = *state;
	pid_t pid = forked(s);

	if (!pid)
		poll(NULL, 0, 3600000);
	explain(s, pid, SYS_poll);
	assert_int_equal(s->w.kind, WAIT_TIME);
	assert_int_equal(s->w.ender, ENDER_TIME);
}

static void a_pollfd_array_that_is_not_there_is_said(void **state)
{
	struct scene *s = *state;
	const pid_t self = getpid();
	const struct memory_view mem = proc_memory(&self);

	s->d = descriptors_new();
	assert_true(
		wait_descriptor(s->d, self, self, &mem, SYS_poll, (uint64_t[6]){ 8, UINT32_MAX, 0 }, &s->w));
	assert_int_equal(s->w.ender, ENDER_UNKNOWN);
	check_has(s->w.evidence, "cannot be read");
}

static int lock_file(const struct scene *s)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/index.lock", s->dir);
	return open(path, O_RDWR | O_CREAT, 0600);
}

/* A child that has done @lock to the file and stays. */
static pid_t locker(struct scene *s, void (*lock)(int fd), int ready[2])
{
	char c;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = forked(s);
	if (!pid) {
		lock(lock_file(s));
		if (write(ready[1], "", 1) == 1)
			pause();
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static void take_flock(int fd)
{
	flock(fd, LOCK_EX);
}

static void take_posix(int fd)
{
	fcntl(fd, F_SETLKW, &(struct flock){ .l_type = F_WRLCK, .l_start = 100, .l_len = 10 });
}

static void take_ofd(int fd)
{
	fcntl(fd, F_OFD_SETLKW, &(struct flock){ .l_type = F_WRLCK, .l_start = 100, .l_len = 10 });
}

static void check_lock(struct scene *s, void (*lock)(int fd), long number)
{
	int ready[2];
	const pid_t owner = locker(s, lock, ready);
	const pid_t waiting = forked(s);

	if (!waiting)
		lock(lock_file(s));
	check_whom(explain(s, waiting, number), ENDER_THREADS, owner);
	assert_int_equal(s->w.kind, WAIT_FILE_LOCK);
	check_has(s->w.what, "index.lock (descriptor");
}

static void flock_waits_for_the_holder(void **state)
{
	check_lock(*state, take_flock, SYS_flock);
}

static void fcntl_waits_for_the_owner_of_the_range(void **state)
{
	check_lock(*state, take_posix, SYS_fcntl);
	check_has(((struct scene *)*state)->w.evidence, "bytes 100 to 109");
}

static void a_lock_of_an_open_file_has_its_holders(void **state)
{
	check_lock(*state, take_ofd, SYS_fcntl);
}

static bool tries_again(struct scene *s, pid_t pid)
{
	struct waiter by = { .d = s->d ? s->d : (s->d = descriptors_new()), .pid = pid, .tid = pid };

	return wait_lock_retry(&by, 0.1, &s->w);
}

/* sqlite3 tries a lock, sleeps, and tries again: between two tries nothing but the open file tells what it wants. */
static void who_sleeps_may_wait_for_a_lock_on_a_file_it_has_open(void **state)
{
	struct scene *s = *state;
	int ready[2];
	const pid_t owner = locker(s, take_posix, ready);
	const int fd = lock_file(s);

	assert_true(tries_again(s, getpid()));
	check_whom(&s->w, ENDER_SOME, owner);
	assert_true(s->w.whom[0].guessed && s->w.has_limit);
	assert_int_equal(s->w.kind, WAIT_FILE_LOCK);
	check_has(s->w.what, "index.lock (descriptor");
	check_has(s->w.evidence, "sleeps for 0.1 s");
	close(fd);
}

static void who_only_reads_a_file_or_has_locked_it_itself_does_not_wait_for_its_lock(void **state)
{
	struct scene *s = *state;
	const int fd = lock_file(s);
	char path[64];
	int ready[2], reads;

	take_posix(fd);
	assert_false(tries_again(s, getpid()));
	close(fd);
	locker(s, take_flock, ready);
	snprintf(path, sizeof(path), "%s/index.lock", s->dir);
	reads = open(path, O_RDONLY);
	assert_false(tries_again(s, getpid()));
	close(reads);
}

static void an_inherited_flock_is_not_waited_for(void **state)
{
	struct scene *s = *state;
	const int fd = lock_file(s);
	pid_t heir;

	take_flock(fd);
	heir = holder(s);
	assert_false(tries_again(s, heir));
	close(fd);
}

/* PostgreSQL waits so for the locks of its tables: a signal comes, and the pipe tells only that its parent ended. */
static void a_signalfd_and_a_pipe_are_a_wait_for_a_signal(void **state)
{
	struct scene *s = *state;
	int p[2];
	pid_t pid;
	sigset_t urgent;

	sigemptyset(&urgent);
	sigaddset(&urgent, SIGURG);
	assert_int_equal(pipe(p), 0);
	pid = forked(s);
	if (!pid) {
		struct pollfd fds[] = { { p[0], POLLIN, 0 }, { signalfd(-1, &urgent, 0), POLLIN, 0 } };

		close(p[1]);
		poll(fds, 2, -1);
	}
	explain(s, pid, SYS_poll);
	assert_int_equal(s->w.kind, WAIT_SIGNAL);
	check_has(s->w.what, "a signal, or another event, of 2 descriptors");
	check_has(s->w.whom[0].why, "of the pipe");
	close(p[0]);
	close(p[1]);
}

/* Of the ranges 0-9 and 100-109 only one is in the way. */
static void a_range_that_does_not_overlap_is_not_waited_for(void **state)
{
	struct scene *s = *state;
	int ready[2];
	const pid_t owner = locker(s, take_posix, ready);
	int fd = lock_file(s);
	pid_t waiting;

	fcntl(fd, F_SETLK, &(struct flock){ .l_type = F_WRLCK, .l_start = 0, .l_len = 10 });
	waiting = forked(s);
	if (!waiting)
		fcntl(fd, F_SETLKW, &(struct flock){ .l_type = F_RDLCK, .l_start = 109 });
	check_whom(explain(s, waiting, SYS_fcntl), ENDER_THREADS, owner);
	close(fd);
}

static void a_flock_outlives_the_process_that_took_it(void **state)
{
	struct scene *s = *state;
	int p[2];
	pid_t heir, waiting;

	assert_int_equal(pipe(p), 0);
	if (!forked(s)) {
		take_flock(lock_file(s));
		heir = fork();
		if (!heir) {
			prctl(PR_SET_PDEATHSIG, 0);
			pause();
		}
		_exit(write(p[1], &heir, sizeof(heir)) < 0);
	}
	assert_int_equal(read(p[0], &heir, sizeof(heir)), sizeof(heir));
	close(p[0]);
	close(p[1]);
	waitpid(s->child[--s->n], NULL, 0);
	waiting = forked(s);
	if (!waiting)
		take_flock(lock_file(s));
	explain(s, waiting, SYS_flock);
	kill(heir, SIGKILL);
	check_whom(&s->w, ENDER_THREADS, heir);
	check_has(s->w.evidence, "which took it, has ended");
}

/* Threads of one process may write to what another of them reads. */
static void *read_in_thread(void *fd)
{
	read_byte(*(int *)fd);
	return NULL;
}

static void a_process_with_threads_may_end_its_own_wait(void **state)
{
	struct scene *s = *state;
	pid_t reader, writer;
	pthread_t t;
	int p[2];

	assert_int_equal(pipe(p), 0);
	reader = forked(s);
	if (!reader) {
		pthread_create(&t, NULL, read_in_thread, &p[0]);
		read_byte(p[0]);
	}
	writer = holder(s);
	close(p[0]);
	close(p[1]);
	WAIT_UNTIL(explain(s, reader, SYS_read)->n == 2);
	assert_int_equal(s->w.ender, ENDER_THREADS);
	assert_int_equal(s->w.whom[0].pid, reader);
	assert_int_equal(s->w.whom[1].pid, writer);
}

static void a_socket_that_was_inherited_has_all_its_holders(void **state)
{
	struct scene *s = *state;
	pid_t reader, first, second;
	int v[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, v), 0);
	reader = forked(s);
	if (!reader) {
		close(v[1]);
		read_byte(v[0]);
	}
	first = holder(s);
	second = holder(s); /* both have the reader's end, too */
	close(v[0]);
	close(v[1]);
	explain(s, reader, SYS_read);
	assert_int_equal(s->w.n, 2);
	assert_int_equal(s->w.whom[0].pid, first);
	assert_int_equal(s->w.whom[1].pid, second);
	check_has(s->w.evidence, "(2 descriptors in all)");
}

/* The other end is in no process, but in a message that was not received: it is no proof that nobody will write. */
static void an_end_that_is_in_flight_is_not_nobody(void **state)
{
	struct scene *s = *state;
	char control[CMSG_SPACE(sizeof(int))] = { 0 }, byte = 0;
	struct iovec bytes = { &byte, 1 };
	struct msghdr m = {
		.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
	};
	int v[2], carrier[2];
	pid_t reader;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, v), 0);
	reader = forked(s);
	if (!reader) {
		close(v[1]);
		read_byte(v[0]);
	}
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, carrier), 0);
	*CMSG_FIRSTHDR(&m) = (struct cmsghdr){ CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
	memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &v[1], sizeof(int));
	assert_int_equal(sendmsg(carrier[0], &m, 0), 1);
	close(v[0]);
	close(v[1]);
	explain(s, reader, SYS_read);
	assert_int_equal(s->w.ender, ENDER_UNKNOWN);
	assert_int_equal(s->w.n, 0);
	close(carrier[0]);
	close(carrier[1]);
}

static struct sockaddr_un abstract(const struct scene *s)
{
	struct sockaddr_un ret = { .sun_family = AF_UNIX };

	memcpy(ret.sun_path + 1, s->dir, sizeof(s->dir));
	return ret;
}

static void sendto_a_full_socket_waits_for_its_receiver(void **state)
{
	struct scene *s = *state;
	const struct sockaddr_un to = abstract(s);
	const int l = socket(AF_UNIX, SOCK_DGRAM, 0);
	pid_t receiver, sender;

	assert_int_equal(bind(l, (const void *)&to, sizeof(to)), 0);
	receiver = holder(s);
	close(l);
	sender = forked(s);
	if (!sender) {
		const int c = socket(AF_UNIX, SOCK_DGRAM, 0);

		while (sendto(c, "", 1, 0, (const void *)&to, sizeof(to)) == 1)
			;
	}
	WAIT_UNTIL(({
		const struct wait *w = explain(s, sender, SYS_sendto);

		w->n == 1 && w->whom[0].pid == receiver;
	}));
	check_has(s->w.what, "room in the socket @/tmp/");
}

static void a_udp_socket_waits_for_its_sender(void **state)
{
	struct scene *s = *state;
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	const int u = socket(AF_INET, SOCK_DGRAM, 0), c = socket(AF_INET, SOCK_DGRAM, 0);
	pid_t free_reader, reader, sender;

	assert_int_equal(bind(u, (void *)&at, len), 0);
	assert_int_equal(getsockname(u, (void *)&at, &len), 0);
	assert_int_equal(connect(c, (void *)&at, len), 0);
	free_reader = forked(s);
	if (!free_reader) {
		close(c);
		recv(u, &len, 1, 0);
	}
	reader = forked(s);
	if (!reader) {
		close(u);
		recv(c, &len, 1, 0);
	}
	close(c);
	sender = holder(s);
	close(u);
	explain(s, free_reader, SYS_recvfrom);
	assert_int_equal(s->w.ender, ENDER_OUTSIDE);
	explain(s, reader, SYS_recvfrom);
	assert_int_equal(s->w.ender, ENDER_THREADS);
	assert_int_equal(s->w.n, 2);
	assert_int_equal(s->w.whom[1].pid, sender);
}

/* An address of TEST-NET-3, which is for documentation only (RFC 5737). Of UDP: no packet is sent. */
static void another_machine_is_outside(void **state)
{
	struct scene *s = *state;
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(5432),
				  .sin_addr.s_addr = htonl(0xcb007105) };
	const int c = socket(AF_INET, SOCK_DGRAM, 0);
	pid_t pid;

	if (connect(c, (void *)&to, sizeof(to)) != 0)
		skip(); /* there is no route to other machines */
	pid = forked(s);
	if (!pid) {
		struct pollfd p = { c, POLLIN, 0 };

		poll(&p, 1, 3600000);
	}
	close(c);
	explain(s, pid, SYS_poll);
	assert_int_equal(s->w.ender, ENDER_OUTSIDE);
	check_has(s->w.what, "-> 203.0.113.5:5432 (");
	check_has(s->w.evidence, "203.0.113.5:5432 is no address");
}

static void another_network_namespace_is_said(void **state)
{
	struct scene *s = *state;
	pid_t pid = forked(s);
	int v[2];

	if (!pid) {
		if (unshare(CLONE_NEWNET) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, v) != 0)
			_exit(77);
		read_byte(v[0]);
	}
	if (geteuid() != 0)
		skip();
	explain(s, pid, SYS_read);
	assert_int_equal(s->w.ender, ENDER_UNKNOWN);
	check_has(s->w.evidence, "another network namespace");
}

/* Root made the other end's holder: one of its own children is all that another user sees. */
static void a_user_is_told_that_not_all_can_be_seen(void **state)
{
	struct scene *s = *state;
	pid_t reader, looker;
	int p[2], status;

	if (geteuid() != 0)
		skip();
	assert_int_equal(pipe(p), 0);
	holder(s);
	close(p[1]);
	looker = fork();
	if (!looker) {
		if (setgid(65534) || setuid(65534) || prctl(PR_SET_DUMPABLE, 1))
			_exit(2);
		s->n = 0;
		reader = forked(s);
		if (!reader)
			read_byte(p[0]);
		prctl(PR_SET_DUMPABLE, 1);
		explain(s, reader, SYS_read);
		kill(reader, SIGKILL);
		_exit(s->w.ender != ENDER_UNKNOWN || !strstr(s->w.evidence, "may not be read"));
	}
	close(p[0]);
	assert_int_equal(waitpid(looker, &status, 0), looker);
	assert_int_equal(status, 0);
}

static void a_process_may_lock_itself_out(void **state)
{
	struct scene *s = *state;
	pid_t pid = forked(s);

	if (!pid) {
		take_flock(lock_file(s));
		take_flock(lock_file(s));
	}
	check_whom(explain(s, pid, SYS_flock), ENDER_THREADS, pid);
	check_has(s->w.evidence, "the waiting process itself");
}

/* A copy keeps the entry of an epoll when its number is closed and used again. */
static void an_epoll_may_watch_what_has_no_number(void **state)
{
	struct scene *s = *state;
	pid_t pid = forked(s);

	if (!pid) {
		const int e = epoll_create1(0);
		struct epoll_event out, in = { .events = EPOLLIN };
		int p[2], other[2];

		if (pipe(p) || epoll_ctl(e, EPOLL_CTL_ADD, p[0], &in) || dup(p[0]) < 0 || pipe(other))
			_exit(2);
		dup2(other[0], p[0]);
		syscall(SYS_epoll_wait, e, &out, 1, -1);
	}
	explain(s, pid, SYS_epoll_wait);
	assert_int_equal(s->w.ender, ENDER_UNKNOWN);
	check_has(s->w.what, "a descriptor that was closed");
}

static void a_terminal_is_waited_for_with_its_master(void **state)
{
	struct scene *s = *state;
	const int m = posix_openpt(O_RDWR | O_NOCTTY);
	pid_t shell, emulator;

	if (m < 0 || grantpt(m) || unlockpt(m))
		skip();
	shell = forked(s);
	if (!shell) {
		const int slave = open(ptsname(m), O_RDWR | O_NOCTTY);

		close(m);
		read_byte(slave);
	}
	WAIT_UNTIL(explain(s, shell, SYS_read)->kind == WAIT_PEER);
	emulator = forked(s);
	if (!emulator)
		read_byte(m);
	close(m);
	check_whom(explain(s, shell, SYS_read), ENDER_SOME, emulator);
	check_has(s->w.what, "the terminal /dev/pts/");
	check_whom(explain(s, emulator, SYS_read), ENDER_SOME, shell);
}

static void another_call_is_not_of_descriptors(void **state)
{
	struct scene *s = *state;
	const pid_t self = getpid();
	const struct memory_view mem = proc_memory(&self);

	s->d = descriptors_new();
	assert_false(wait_descriptor(s->d, self, self, &mem, SYS_futex, (uint64_t[6]){ 0 }, &s->w));
	assert_false(wait_descriptor(s->d, self, self, &mem, SYS_fcntl, (uint64_t[6]){ 0, F_GETFD }, &s->w));
}

/* 200 processes with 50 pipes each, which is a busy machine. */
static void all_descriptors_are_read_in_a_moment(void **state)
{
	struct scene *s = *state;
	int fd[50][2];
	pid_t pid[200], reader = forked(s);
	uint64_t before;

	if (!reader) {
		if (pipe(fd[0]) == 0)
			read_byte(fd[0][0]);
	}
	for (size_t i = 0; i < 25; i++)
		assert_int_equal(pipe(fd[i]), 0);
	for (size_t i = 0; i < 200; i++)
		if (!(pid[i] = fork())) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			pause();
		}
	WAIT_UNTIL(explain(s, reader, SYS_read)->n == 1);
	before = cpu_ns();
	explain(s, reader, SYS_read);
	before = cpu_ns() - before;
	if (getenv("WAIT_SHOW"))
		fprintf(stderr, "  %.1f ms\n", (double)before / 1e6);
	for (size_t i = 0; i < 200; i++) {
		kill(pid[i], SIGKILL);
		waitpid(pid[i], NULL, 0);
	}
	assert_true(before < wait_ns() / 100);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_pipe_is_waited_for_with_its_writer),
		TEST(who_forgot_to_close_its_write_end_waits_for_itself),
		TEST(a_full_pipe_is_waited_for_with_its_reader),
		TEST(a_fifo_is_waited_for_at_its_opening_and_with_its_writer),
		TEST(splice_waits_for_one_of_two_pipes),
		TEST(a_socketpair_is_waited_for_with_its_other_end),
		TEST(a_datagram_socket_whose_peer_is_closed_waits_for_ever),
		TEST(a_tcp_connection_is_waited_for_with_its_other_end),
		TEST(a_client_of_ipv4_meets_a_server_of_ipv6),
		TEST(a_connection_that_was_not_accepted_waits_for_the_listener),
		TEST(a_self_pipe_alone_may_be_of_a_signal_handler),
		TEST(a_tcp_connect_waits_for_the_listener),
		TEST(a_message_queue_is_waited_for_with_its_sender),
		TEST(accept_waits_for_anybody),
		TEST(connect_waits_for_the_owner_of_a_unix_socket),
		TEST(an_eventfd_is_waited_for_with_all_who_have_it),
		TEST(signals_of_a_signalfd_have_no_owner),
		TEST(a_timer_that_is_not_set_is_said),
		TEST(poll_of_a_timer_ends_by_itself),
		TEST(a_pidfd_is_of_a_process),
		TEST(poll_select_and_epoll_wait_for_the_union),
		TEST(a_self_pipe_beside_a_listener_says_nothing),
		TEST(poll_of_nothing_is_a_sleep),
		TEST(a_pollfd_array_that_is_not_there_is_said),
		TEST(flock_waits_for_the_holder),
		TEST(fcntl_waits_for_the_owner_of_the_range),
		TEST(a_lock_of_an_open_file_has_its_holders),
		TEST(who_sleeps_may_wait_for_a_lock_on_a_file_it_has_open),
		TEST(who_only_reads_a_file_or_has_locked_it_itself_does_not_wait_for_its_lock),
		TEST(an_inherited_flock_is_not_waited_for),
		TEST(a_signalfd_and_a_pipe_are_a_wait_for_a_signal),
		TEST(a_range_that_does_not_overlap_is_not_waited_for),
		TEST(a_flock_outlives_the_process_that_took_it),
		TEST(a_process_with_threads_may_end_its_own_wait),
		TEST(a_socket_that_was_inherited_has_all_its_holders),
		TEST(an_end_that_is_in_flight_is_not_nobody),
		TEST(sendto_a_full_socket_waits_for_its_receiver),
		TEST(a_udp_socket_waits_for_its_sender),
		TEST(another_machine_is_outside),
		TEST(another_network_namespace_is_said),
		TEST(a_user_is_told_that_not_all_can_be_seen),
		TEST(a_process_may_lock_itself_out),
		TEST(an_epoll_may_watch_what_has_no_number),
		TEST(a_terminal_is_waited_for_with_its_master),
		TEST(another_call_is_not_of_descriptors),
		TEST(all_descriptors_are_read_in_a_moment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
