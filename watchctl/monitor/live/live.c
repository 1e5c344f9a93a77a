/* The display's side of live.h; the other side is live_session.c. */
#include "watchctl/monitor/live/live.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/write_all.h"
#include "watchctl/monitor/live/live_directory.h"
#include "watchctl/monitor/live/live_session.h"
#include "watchctl/monitor/live/live_wire.h"

#define OWN_LOG_BYTES (256ull << 20)
#define ANSWER_MS 20000 /* finding a name in a large program may take seconds */
#define STOP_MS 20000
#define LOOK_MS 100 /* how often stop is looked at while it starts */
#define FIRST_FD 32 /* of what is made ready for the session: out of the way of where it will be */

struct live {
	pid_t session;	 /* our child; 0: waited for */
	pid_t program;	 /* that is watched */
	int fd;		 /* to the session */
	char *directory; /* of a log of its own, which the session makes; NULL */
	char *log;
	uint32_t asked; /* number of the last question */
	bool started, ended;
	struct live_ending ending;
	char *never_armed;
	uint8_t message[LIVE_MESSAGE_MAX];
};

/* Starting */

static struct wc_error *failed(int error)
{
	return wc_error_errno(WC_EFAIL, error, "cannot start the session's process");
}

static struct wc_error *name_log(const struct live_options *o, struct live_order *order, struct live *l)
{
	struct wc_error *err;

	order->options = *o;
	if (!o->log) {
		if (!order->options.bounds.bytes && !order->options.bounds.keep_ns)
			order->options.bounds.bytes = OWN_LOG_BYTES;
		err = live_directory_choose(order->options.bounds.bytes, &l->directory);
		if (err)
			return err;
		if (asprintf(&l->log, "%s/log", l->directory) < 0)
			l->log = NULL;
	} else {
		l->log = strdup(o->log);
	}
	if (!l->log)
		return &wc_enomem;
	order->log = l->log;
	order->own_directory = l->directory;
	return NULL;
}

static struct wc_error *write_order(const struct live_order *order, int *ret_fd)
{
	scoped(closep) int fd = memfd_create("watchctl-session", MFD_CLOEXEC);
	scoped(live_pack_deinit) struct live_pack p = { 0 };
	int error;

	live_put_order(&p, order);
	if (p.failed)
		return &wc_enomem;
	if (fd < 0)
		return failed(errno);
	error = write_all(fd, p.v, p.n);
	if (error)
		return failed(error);
	*ret_fd = take_fd(fd);
	return NULL;
}

/* What the session's process gets as file @i; moved where putting one in its place hurts no other. */
static int file_for(const struct live_options *o, int i, int control, int owner, int order)
{
	const int own[] = { [LIVE_CONTROL_FD] = control, [LIVE_OWNER_FD] = owner, [LIVE_ORDER_FD] = order };

	if (i >= LIVE_CONTROL_FD)
		return fcntl(own[i], F_DUPFD_CLOEXEC, FIRST_FD);
	if (o->program_fd[i] >= 0)
		return fcntl(o->program_fd[i], F_DUPFD_CLOEXEC, FIRST_FD);
	return open("/dev/null", O_RDWR | O_CLOEXEC);
}

/* As the kernel takes it: the C library does not let go of two signals that it uses itself, and which may
 * have come to us ignored. */
static void forget_signals(void)
{
	const uint64_t usual[4] = { 0 }; /* struct kernel_sigaction: SIG_DFL, no flags, no mask */
	long sig;

	for (sig = 1; sig < NSIG; sig++)
		syscall(SYS_rt_sigaction, sig, usual, NULL, sizeof(uint64_t));
}

/* Between fork and exec: nothing but system calls. All that the display has is left behind. */
static void become_session(const int file[LIVE_FDS], char *const argv[], int failed_fd)
{
	bool ready = true;
	sigset_t none;
	int i, error;

	forget_signals();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	for (i = 0; i < LIVE_FDS && ready; i++)
		ready = dup2(file[i], i) == i;
	if (ready && dup3(failed_fd, LIVE_FDS, O_CLOEXEC) == LIVE_FDS) {
		close_range(LIVE_FDS + 1, ~0u, 0);
		failed_fd = LIVE_FDS;
		execv("/proc/self/exe", argv);
	}
	error = errno;
	if (write(failed_fd, &error, sizeof(error)) < 0)
		_exit(126);
	_exit(127);
}

static void close_files(int file[LIVE_FDS])
{
	for (int i = 0; i < LIVE_FDS; i++)
		closep(&file[i]);
}

/* Its command line is for people, and for `watchctl list`, which shows what a session asked for. */
static struct wc_error *spawn(const struct live_options *o, const int file[LIVE_FDS], pid_t *ret)
{
	char pid[16], word[] = LIVE_SESSION_WORD, name[] = "watchctl", p[] = "-p", f[] = "--fork",
		      w[] = "follow";
	char *argv[8] = { name, word };
	scoped(closep) int reported = -1, report = -1;
	int fds[2], n = 2, error = 0;
	pid_t child;

	if (!o->monitor.argv) {
		snprintf(pid, sizeof(pid), "%d", o->monitor.pid);
		argv[n++] = p;
		argv[n++] = pid;
	}
	if (o->monitor.follow_fork) {
		argv[n++] = f;
		argv[n++] = w;
	}
	if (pipe2(fds, O_CLOEXEC))
		return failed(errno);
	reported = fds[0];
	report = fcntl(fds[1], F_DUPFD_CLOEXEC, FIRST_FD);
	close(fds[1]);
	child = report < 0 ? -1 : fork();
	if (!child)
		become_session(file, argv, report);
	if (child < 0)
		return failed(errno);
	close(take_fd(report));
	if (read(reported, &error, sizeof(error)) == sizeof(error)) {
		waitpid(child, NULL, 0);
		return failed(error);
	}
	*ret = child;
	return NULL;
}

static struct wc_error *start_process(const struct live_options *o, const struct live_order *order,
				      struct live *l)
{
	scoped(closep) int theirs = -1, memory = -1, owner = (int)syscall(SYS_pidfd_open, getpid(), 0);
	int file[LIVE_FDS], pair[2], i;
	struct wc_error *err;
	bool all = true;

	if (owner < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return failed(errno);
	l->fd = pair[0];
	theirs = pair[1];
	err = write_order(order, &memory);
	if (err)
		return err;
	for (i = 0; i < LIVE_FDS; i++) {
		file[i] = file_for(o, i, theirs, owner, memory);
		all &= file[i] >= 0;
	}
	err = all ? spawn(o, file, &l->session) : failed(errno);
	close_files(file);
	return err;
}

/* Listening */

static void forget_process(struct live *l, bool wait)
{
	int status = 0;
	pid_t got;

	if (!l->session)
		return;
	do
		got = waitpid(l->session, &status, wait ? 0 : WNOHANG);
	while (got < 0 && errno == EINTR);
	if (!got)
		return;
	if (got == l->session && !l->ended)
		l->ending.err =
			WIFSIGNALED(status)
				? wc_error_new(WC_EFAIL,
					       "the session's process %d was killed by signal %d (%s): its "
					       "watches are disarmed, and the log ends there",
					       l->session, WTERMSIG(status), strsignal(WTERMSIG(status)))
				: wc_error_new(WC_EFAIL,
					       "the session's process %d ended unexpectedly, with status %d",
					       l->session, WEXITSTATUS(status));
	l->session = 0;
}

/* Its process has gone, or goes, without a word. */
static void on_closed(struct live *l)
{
	if (l->ended)
		return;
	closep(&l->fd); /* if it runs on, it sees that, and ends */
	forget_process(l, true);
	if (!l->ending.err)
		l->ending.err = wc_error_new(WC_EFAIL, "the session's process ended unexpectedly");
	l->ended = true;
}

static void on_finished(struct live *l, struct live_unpack *u)
{
	if (!live_get_ending(u, &l->ending) && !l->ending.err)
		l->ending.err = wc_error_new(WC_EFAIL, "the session's last message is incomplete");
	if (l->ending.never_armed)
		l->never_armed = strdup(l->ending.never_armed);
	l->ended = true;
}

/* The next message, if there is one. True: it is an answer, in @head and @u. */
static bool take_message(struct live *l, bool *ret_any, struct live_head *head, struct live_unpack *u)
{
	*ret_any = true;
	switch (live_receive(l->fd, l->message, head, u)) {
	case LIVE_NOTHING:
		*ret_any = false;
		return false;
	case LIVE_CLOSED:
		*ret_any = false;
		on_closed(l);
		return false;
	case LIVE_MESSAGE:
		break;
	}
	if (head->type == LIVE_STARTED) {
		l->program = (pid_t)live_get_u64(u);
		l->started = true;
	} else if (head->type == LIVE_FINISHED) {
		on_finished(l, u);
	}
	return head->type == LIVE_ANSWER;
}

static void take_all(struct live *l)
{
	struct live_unpack u;
	struct live_head head;
	bool any = true;

	while (any && !l->ended)
		take_message(l, &any, &head, &u); /* an answer that comes too late is dropped */
}

static void wait_for_message(const struct live *l, int timeout_ms)
{
	struct pollfd p = { .fd = l->fd, .events = POLLIN };

	poll(&p, 1, timeout_ms);
}

static struct wc_error *take_ending_error(struct live *l)
{
	struct wc_error *err = l->ending.err;

	l->ending.err = NULL;
	return err;
}

/* Until it runs, or has failed. Who is stopped meanwhile has changed his mind. */
static struct wc_error *wait_for_start(struct live *l, const volatile sig_atomic_t *stop)
{
	struct wc_error *err;

	while (!l->started && !l->ended) {
		if (stop && *stop && l->session)
			kill(l->session, SIGTERM);
		wait_for_message(l, LOOK_MS);
		take_all(l);
	}
	if (l->started)
		return NULL;
	err = take_ending_error(l);
	return err ? err : wc_error_new(WC_EFAIL, "the session ended before it began");
}

struct wc_error *live_start(const struct live_options *o, struct live **ret)
{
	struct live *l = calloc(1, sizeof(*l));
	struct live_order order = { 0 };
	struct wc_error *err;

	if (!l)
		return &wc_enomem;
	l->fd = -1;
	err = name_log(o, &order, l);
	if (!err)
		err = start_process(o, &order, l);
	if (!err)
		err = wait_for_start(l, o->monitor.stop);
	if (err) {
		live_close(l);
		return err;
	}
	*ret = l;
	return NULL;
}

/* While it runs */

const char *live_log(const struct live *l)
{
	return l->log;
}

pid_t live_program(const struct live *l)
{
	return l->program;
}

int live_fd(const struct live *l)
{
	return l->fd;
}

enum live_state live_state(struct live *l)
{
	take_all(l);
	return l->ended ? LIVE_ENDED : LIVE_RUNS;
}

struct wc_error *live_end(struct live *l, enum session_end *ret)
{
	*ret = l->ending.end;
	return take_ending_error(l);
}

const char *live_never_armed(const struct live *l)
{
	return l->never_armed;
}

bool live_never_collected(const struct live *l)
{
	return l->ending.never_collected;
}

/* NULL: it was asked to, or its error has been handed out by live_end(). */
static const char *why_ended(const struct live *l)
{
	static const char *const why[SESSION_GAVE_UP + 1] = {
		[SESSION_COUNT] = "it has recorded as many accesses as were asked for",
		[SESSION_TIME] = "its time is over",
		[SESSION_EXITED] = "the program has ended",
		[SESSION_EXECED] = "the program has executed another",
		[SESSION_SUPPLANTED] = "another collector has taken over",
		[SESSION_GAVE_UP] = "it gave up for the program's sake, as a note in its log says",
	};

	return l->ending.err ? l->ending.err->text : why[l->ending.end];
}

static struct wc_error *has_ended(const struct live *l)
{
	const char *why = why_ended(l);

	return wc_error_new(WC_ETARGET, "the session has ended%s%s", why ? ": " : "", why ? why : "");
}

static struct wc_error *wait_for_answer(struct live *l, uint32_t *ret)
{
	uint64_t end = monotonic_ns() + ANSWER_MS * 1000000ull;
	struct live_unpack u;
	struct live_head head;
	struct wc_error *err;
	bool any;

	while (!l->ended) {
		if (take_message(l, &any, &head, &u)) {
			if (head.number != l->asked)
				continue;
			err = live_get_error(&u);
			*ret = (uint32_t)live_get_u64(&u);
			return err;
		}
		if (any || l->ended)
			continue;
		if (monotonic_ns() >= end)
			return wc_error_new(WC_EFAIL,
					    "the session's process %d has not responded within %d seconds",
					    l->session, ANSWER_MS / 1000);
		wait_for_message(l, LOOK_MS);
	}
	return has_ended(l);
}

/* @p: the question, whose number is l->asked. */
static struct wc_error *live_ask(struct live *l, const struct live_pack *p, uint32_t *ret)
{
	take_all(l);
	if (l->ended)
		return has_ended(l);
	if (p->failed)
		return &wc_enomem;
	if (p->n > LIVE_MESSAGE_MAX)
		return wc_error_new(WC_EUSAGE, "that is too long: a watch is described in at most %u bytes",
				    LIVE_MESSAGE_MAX);
	if (!live_send(l->fd, p)) {
		int error = errno;

		take_all(l);
		return l->ended ? has_ended(l)
				: wc_error_errno(WC_EFAIL, error, "cannot reach the session's process %d",
						 l->session);
	}
	return wait_for_answer(l, ret);
}

struct wc_error *live_add(struct live *l, const struct watch_request *w, uint32_t *ret)
{
	scoped(live_pack_deinit) struct live_pack p = { 0 };
	struct wc_error *err;
	uint32_t id;

	live_put_head(&p, LIVE_ADD, ++l->asked);
	live_put_watch(&p, w);
	err = live_ask(l, &p, &id);
	if (!err)
		*ret = id;
	return err;
}

struct wc_error *live_remove(struct live *l, uint32_t id)
{
	scoped(live_pack_deinit) struct live_pack p = { 0 };
	uint32_t unused;

	live_put_head(&p, LIVE_REMOVE, ++l->asked);
	live_put_u64(&p, id);
	return live_ask(l, &p, &unused);
}

struct wc_error *live_enable(struct live *l, uint32_t id, bool on)
{
	scoped(live_pack_deinit) struct live_pack p = { 0 };
	uint32_t unused;

	live_put_head(&p, LIVE_ENABLE, ++l->asked);
	live_put_u64(&p, id);
	live_put_u64(&p, on);
	return live_ask(l, &p, &unused);
}

/* Ending */

struct wc_error *live_stop(struct live *l)
{
	scoped(live_pack_deinit) struct live_pack p = { 0 };
	uint64_t end = monotonic_ns() + STOP_MS * 1000000ull;

	take_all(l);
	live_put_head(&p, LIVE_STOP, 0);
	if (!l->ended && !live_send(l->fd, &p) && l->session)
		kill(l->session, SIGTERM);
	while (!l->ended && monotonic_ns() < end) {
		wait_for_message(l, LOOK_MS);
		take_all(l);
	}
	if (l->ended)
		return NULL;
	return wc_error_new(WC_EFAIL, "the session's process %d does not end", l->session);
}

/* It has said its last word, or the end of the socket says so: then it has nothing left to do. */
static void end_process(struct live *l)
{
	uint64_t end = monotonic_ns() + STOP_MS * 1000000ull;

	closep(&l->fd);
	l->ended = true;
	while (l->session && monotonic_ns() < end) {
		forget_process(l, false);
		if (l->session)
			nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	if (!l->session)
		return;
	kill(l->session, SIGKILL); /* which disarms as well */
	forget_process(l, true);
}

void live_close(struct live *l)
{
	if (!l)
		return;
	if (l->session && l->started)
		wc_error_free(live_stop(l));
	end_process(l);
	if (l->directory)
		live_directory_remove(l->directory);
	wc_error_free(l->ending.err);
	free(l->never_armed);
	free(l->directory);
	free(l->log);
	free(l);
}
