/*
 * The session's side of live.h. It has nothing of its display but a socket, a pidfd by which it sees that
 * one's end, and the order: it is another run of the same program, in a session of its own. So no terminal's
 * signals come here, and nothing that the display has begun (a terminal, buffers, threads, locks, exit
 * handlers) is ever touched from here.
 */
#include "watchctl/monitor/live/live_session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/monitor/live/live_directory.h"
#include "watchctl/monitor/live/live_wire.h"
#include "watchctl/trace/log/tracelog.h"
#include "watchctl/trace/redact.h"

#define TICK_NS 40000000ull
#define FLUSH_NS 70000000ull /* with the tick before it, and its own time, less than 100 ms */
#define ORDER_MAX (64u << 20)
#define ENDING_TRIES 300 /* with 10 ms between them */

struct session {
	struct live_order order;
	struct tracelog_writer *log;
	struct redact *redact; /* in front of it: a watch that comes later may be withheld */
	struct monitor *monitor;
	uint64_t flushed_ns;
	bool orphaned; /* the display has gone, or has closed its end */
	uint8_t message[LIVE_MESSAGE_MAX];
};

static volatile sig_atomic_t stop;

static void on_stop(int sig)
{
	(void)sig;
	stop = 1;
}

static void do_nothing(int sig)
{
	(void)sig;
}

/* Handlers, nothing ignored: a program that we start begins with the default of each. */
static void set_signals(void)
{
	static const int ending[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP }, failing[] = { SIGPIPE, SIGXFSZ };
	struct sigaction end = { .sa_handler = on_stop, .sa_flags = SA_RESTART };
	struct sigaction fail = { .sa_handler = do_nothing, .sa_flags = SA_RESTART };
	size_t i;

	for (i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
		sigaction(ending[i], &end, NULL);
	for (i = 0; i < sizeof(failing) / sizeof(failing[0]); i++)
		sigaction(failing[i], &fail, NULL);
}

/* Talking */

static void live_session_answer(uint32_t number, const struct wc_error *err, uint32_t id)
{
	scoped(live_pack_deinit) struct live_pack p = { 0 };

	live_put_head(&p, LIVE_ANSWER, number);
	live_put_error(&p, err);
	live_put_u64(&p, id);
	if (!live_send(LIVE_CONTROL_FD, &p)) /* who has gone sees nothing of it; who waits for it does */
		shutdown(LIVE_CONTROL_FD, SHUT_RDWR);
}

static bool report_started(pid_t pid)
{
	scoped(live_pack_deinit) struct live_pack p = { 0 };

	live_put_head(&p, LIVE_STARTED, 0);
	live_put_u64(&p, (uint64_t)pid);
	return live_send(LIVE_CONTROL_FD, &p);
}

static bool owner_has_ended(void)
{
	struct pollfd p = { .fd = LIVE_OWNER_FD, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

static bool send_ending(const struct live_ending *e)
{
	scoped(live_pack_deinit) struct live_pack p = { 0 };

	live_put_head(&p, LIVE_FINISHED, 0);
	live_put_ending(&p, e);
	return live_send(LIVE_CONTROL_FD, &p);
}

/* The display waits for this word: where it cannot be said, or nobody takes it, the socket's end says it. */
static void report_ending(const struct live_ending *e)
{
	const struct timespec pause = { .tv_nsec = 10000000 };
	int tries;

	for (tries = 0; tries < ENDING_TRIES && !owner_has_ended(); tries++) {
		if (send_ending(e))
			return;
		if (errno == EPIPE || errno == ECONNRESET)
			break;
		nanosleep(&pause, NULL);
	}
	shutdown(LIVE_CONTROL_FD, SHUT_RDWR);
}

static struct wc_error *live_session_flush(struct session *s)
{
	s->flushed_ns = monotonic_ns();
	return tracelog_writer_flush(s->log);
}

/* What the display asked for; whatever became of it, it is in the log before the answer goes. */
static struct wc_error *obey(struct session *s, const struct live_head *head, struct live_unpack *u)
{
	struct wc_error *err = NULL, *failed;
	struct watch_request w;
	uint32_t id = 0;

	switch (head->type) {
	case LIVE_STOP:
		stop = 1;
		return NULL;
	case LIVE_ADD:
		live_get_watch(u, &w);
		if (!u->bad)
			err = monitor_add(s->monitor, &w, &id);
		break;
	case LIVE_REMOVE:
		id = (uint32_t)live_get_u64(u);
		if (!u->bad)
			err = monitor_remove(s->monitor, id);
		break;
	case LIVE_ENABLE:
		id = (uint32_t)live_get_u64(u);
		err = monitor_enable(s->monitor, id, live_get_u64(u));
		break;
	default:
		u->bad = true;
	}
	if (u->bad)
		err = wc_error_first(err,
				     wc_error_new(WC_EFAIL, "the session does not understand this request"));
	failed = live_session_flush(s);
	live_session_answer(head->number, err ? err : failed, id);
	wc_error_free(err);
	return failed;
}

static struct wc_error *listen_to_display(struct session *s)
{
	struct wc_error *err = NULL;
	struct live_unpack u;
	struct live_head head;

	while (!err && !stop) {
		switch (live_receive(LIVE_CONTROL_FD, s->message, &head, &u)) {
		case LIVE_MESSAGE:
			err = obey(s, &head, &u);
			break;
		case LIVE_CLOSED:
			s->orphaned = true;
			stop = 1;
			break;
		case LIVE_NOTHING:
			s->orphaned = owner_has_ended();
			stop = stop || s->orphaned;
			return NULL;
		}
	}
	return err;
}

static struct wc_error *live_session_tick(void *ctx)
{
	struct session *s = ctx;
	struct wc_error *err = listen_to_display(s);

	if (!err && monotonic_ns() - s->flushed_ns >= FLUSH_NS)
		err = live_session_flush(s);
	return err;
}

/* Its life */

static struct wc_error *read_order(struct session *s, uint8_t **bytes)
{
	struct live_unpack u = { 0 };
	struct stat st;
	ssize_t n;

	if (fstat(LIVE_ORDER_FD, &st) || st.st_size <= 0 || st.st_size > ORDER_MAX)
		return wc_error_new(WC_EFAIL, "the session got no request");
	*bytes = malloc((size_t)st.st_size);
	if (!*bytes)
		return &wc_enomem;
	n = pread(LIVE_ORDER_FD, *bytes, (size_t)st.st_size, 0);
	close(LIVE_ORDER_FD);
	u.at = *bytes;
	u.left = n > 0 ? (size_t)n : 0;
	if (!live_get_order(&u, &s->order))
		return wc_error_new(WC_EFAIL, "the request to the session is incomplete");
	return NULL;
}

/*
 * A log of its own lies in a directory that nobody but us makes: a display that is killed before it has
 * started us leaves none behind.
 */
static struct wc_error *open_log(struct session *s)
{
	const struct tracelog_bounds *b = &s->order.options.bounds;
	struct wc_error *err = s->order.own_directory ? live_directory_make(s->order.own_directory) : NULL;

	if (err)
		return err;
	return b->bytes || b->keep_ns ? tracelog_writer_open_ring(s->order.log, b, &s->log)
				      : tracelog_writer_open(s->order.log, &s->log);
}

/* The program has them now; what it prints ends for its reader when the program ends, not when we do. */
static void leave_files_to_program(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), fd;

	for (fd = 0; null >= 0 && fd < 3; fd++)
		dup2(null, fd);
	closep(&null);
}

static struct wc_error *live_session_start(struct session *s)
{
	struct monitor_options *o = &s->order.options.monitor;
	struct wc_error *err = open_log(s);

	if (err)
		return err;
	o->may_add = true;
	o->stop = &stop;
	err = redact_new(&s->order.options.redact, tracelog_writer_sink(s->log), &s->redact);
	if (!err)
		err = monitor_open(o, redact_sink(s->redact), &s->monitor);
	if (!err)
		err = live_session_flush(s);
	leave_files_to_program();
	if (!err && !report_started(monitor_pid(s->monitor)))
		err = wc_error_errno(WC_EFAIL, errno, "cannot tell the display that the session has begun");
	if (!err)
		return NULL;
	wc_error_free(monitor_close(s->monitor));
	s->monitor = NULL;
	tracelog_writer_discard(s->log);
	s->log = NULL;
	return err;
}

static void live_session_run(struct session *s)
{
	const struct session_limits limits = {
		.count = s->order.options.count,
		.time_ns = s->order.options.time_ns,
		.stop = &stop,
		.tick = live_session_tick,
		.tick_ctx = s,
		.tick_ns = TICK_NS,
	};
	scoped(freep) char *never_armed = NULL;
	struct live_ending e = { .end = SESSION_STOPPED };
	const char *expr;

	e.err = monitor_run(s->monitor, &limits, &e.end);
	expr = monitor_never_armed(s->monitor);
	e.never_armed = never_armed = expr ? strdup(expr) : NULL;
	e.never_collected = monitor_never_collected(s->monitor);
	e.err = wc_error_first(e.err, monitor_close(s->monitor));
	e.err = wc_error_first(e.err, tracelog_writer_close(s->log));
	report_ending(&e);
	wc_error_free(e.err);
	s->log = NULL;
	s->monitor = NULL;
}

/* A log of its own goes with the display, however that ends: somebody must be left to see to it. */
static void remove_own_log(struct session *s)
{
	struct pollfd p[2] = { { .fd = LIVE_CONTROL_FD, .events = POLLIN },
			       { .fd = LIVE_OWNER_FD, .events = POLLIN } };
	struct live_unpack u;
	struct live_head head;

	while (!s->orphaned) {
		poll(p, 2, -1);
		s->orphaned =
			p[1].revents || live_receive(LIVE_CONTROL_FD, s->message, &head, &u) == LIVE_CLOSED;
	}
	live_directory_remove(s->order.own_directory);
}

/* Its own memory, and a socket of ours: not what somebody has typed. */
static bool was_started_by_us(void)
{
	int type = 0;
	socklen_t len = sizeof(type);

	return !getsockopt(LIVE_CONTROL_FD, SOL_SOCKET, SO_TYPE, &type, &len) && type == SOCK_SEQPACKET &&
	       fcntl(LIVE_ORDER_FD, F_GETFD) >= 0 && fcntl(LIVE_OWNER_FD, F_GETFD) >= 0;
}

bool live_session_asked(int argc, char *const argv[])
{
	return argc > 1 && !strcmp(argv[1], LIVE_SESSION_WORD) && was_started_by_us();
}

int live_session_main(void)
{
	scoped(freep) struct session *s = calloc(1, sizeof(*s));
	scoped(freep) uint8_t *order = NULL;
	struct live_ending e = { 0 };
	int fd;

	for (fd = LIVE_CONTROL_FD; fd < LIVE_FDS; fd++)
		fcntl(fd, F_SETFD, FD_CLOEXEC);
	prctl(PR_SET_NAME, "watchctl");
	set_signals();
	e.err = s ? read_order(s, &order) : &wc_enomem;
	if (!e.err)
		e.err = live_session_start(s);
	if (e.err)
		report_ending(&e);
	else
		live_session_run(s);
	wc_error_free(e.err);
	if (!s)
		return 1;
	if (s->order.own_directory)
		remove_own_log(s);
	redact_free(s->redact);
	free(s->order.argv);
	return 0;
}
