#include "watchctl/flow/explain/wait_events.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/text_buf.h"
#include "watchctl/target/proc/proc.h"

#define FDS_MAX 4096u /* of one call: more are not looked at */
#define FDS_NAMED 3u
#define LIST_TEXT 260

/* The union so far. */
struct gathered {
	const struct waiter *by;
	struct wait *ret;
	size_t n, ended_by[ENDER_TIME + 1];
	size_t own;		/* those that only the waiter, which has one thread, could write to */
	size_t signals, inward; /* signalfds; others that nobody from outside can write to */
	char list[LIST_TEXT];
	uint64_t of; /* how many there are, of which FDS_MAX were looked at; 0: all were */
};

static bool only_own(const struct waiter *by, const struct wait *part)
{
	return !by->has_threads && part->n == 1 && part->whom[0].pid == by->pid && part->kind == WAIT_PEER;
}

static void list(struct gathered *g, int fd, const char *name, const struct wait *part)
{
	if (g->n > FDS_NAMED) {
		if (g->n == FDS_NAMED + 1)
			wait_say(g->list, sizeof(g->list), ", ...");
		return;
	}
	wait_say(g->list, sizeof(g->list), "%s%.80s (%d)", *g->list ? ", " : "", name, fd);
	if (*part->evidence)
		wait_evidence(g->ret, "%s%d: %.100s", *g->ret->evidence ? "; " : "", fd, part->evidence);
}

static void add_whom(struct gathered *g, int fd, const char *name, const struct waited *who)
{
	char why[sizeof(who->why)];

	snprintf(why, sizeof(why), "of %.80s (%d) %.70s", name, fd, who->why);
	if (!wait_add(g->ret, who->pid, who->tid, who->guessed, why))
		g->ended_by[ENDER_UNKNOWN]++;
}

/* A pipe of pipe(2) is its makers' own, often only to notice that one of them ends. */
static void classify(struct gathered *g, int fd)
{
	struct descriptor it;

	if (!descriptor_read(g->by->d, g->by->pid, g->by->tid, fd, &it))
		return;
	g->signals += it.kind == DESCRIPTOR_SIGNALFD;
	g->inward += it.kind == DESCRIPTOR_PIPE && !it.device;
}

static void gather_named(struct gathered *g, int fd, enum wanted wanted, char name[OBJECT_NAME])
{
	scoped(wait_deinit) struct wait part = { 0 };
	wait_object(g->by, fd, wanted, &part, name);
	g->n++;
	list(g, fd, name, &part);
	classify(g, fd);
	g->ret->object = g->n == 1 ? part.object : 0;
	/* A self-pipe is how an event loop wakes itself: it says nothing as long as there is anything else. */
	if (only_own(g->by, &part)) {
		g->own++;
		return;
	}
	g->ended_by[part.ender]++;
	for (size_t i = 0; i < part.n; i++)
		add_whom(g, fd, name, &part.whom[i]);
}

static void gather(struct gathered *g, int fd, enum wanted wanted)
{
	char name[OBJECT_NAME];

	gather_named(g, fd, wanted, name);
}

static void nothing_gathered(struct wait *ret)
{
	if (ret->has_limit) {
		ret->kind = WAIT_TIME;
		ret->ender = ENDER_TIME;
		wait_what(ret, "the end of its time limit");
		wait_evidence(ret, "the call is about no descriptors");
		return;
	}
	ret->kind = WAIT_SIGNAL;
	wait_what(ret, "a signal");
	wait_evidence(ret, "the call is about no descriptors and has no time limit");
}

static enum wait_ender ender_of(const struct gathered *g)
{
	const size_t *by = g->ended_by;

	if (g->ret->n)
		return by[ENDER_SOME] || by[ENDER_OUTSIDE] || by[ENDER_UNKNOWN] || g->of ? ENDER_SOME
											 : ENDER_THREADS;
	if (by[ENDER_OUTSIDE])
		return ENDER_OUTSIDE;
	if (by[ENDER_UNKNOWN] || by[ENDER_SOME] || g->of)
		return ENDER_UNKNOWN;
	return by[ENDER_TIME] ? ENDER_TIME : ENDER_NOBODY;
}

#define SIGNAL_BIT(signo) (1ull << ((signo)-1))

/* Handlers of faults, and of libpthread's own signals (32 and 33), do not wake an event loop. */
#define QUIET_SIGNALS                                                                         \
	(SIGNAL_BIT(SIGSEGV) | SIGNAL_BIT(SIGBUS) | SIGNAL_BIT(SIGILL) | SIGNAL_BIT(SIGFPE) | \
	 SIGNAL_BIT(SIGTRAP) | SIGNAL_BIT(SIGABRT) | SIGNAL_BIT(SIGSYS) | SIGNAL_BIT(32) | SIGNAL_BIT(33))

static bool catches_signals(pid_t pid)
{
	struct proc_status s;

	return !proc_status_read(pid, pid, &s) || s.caught & ~QUIET_SIGNALS;
}

/* A self-pipe alone: either a signal handler writes to it, or the process waits for itself. */
static void judge_own(struct gathered *g)
{
	const bool handlers = catches_signals(g->by->pid);

	g->ret->ender = handlers ? ENDER_SOME : ENDER_THREADS;
	if (handlers)
		wait_evidence(g->ret, "; a signal handler of it may write to it");
}

static void judge(struct gathered *g)
{
	struct wait *ret = g->ret;

	ret->kind = WAIT_EVENTS;
	if (g->ended_by[ENDER_TIME])
		ret->has_limit = true; /* a timer among them */
	if (g->n && g->own == g->n && wait_add(ret, g->by->pid, 0, false, "it alone holds the other ends")) {
		judge_own(g);
		return;
	}
	ret->ender = ender_of(g);
}

static void finish(struct gathered *g)
{
	struct wait *ret = g->ret;

	if (!g->n && !g->of) {
		nothing_gathered(ret);
		return;
	}
	judge(g);
	/* No work comes so, but the word of another process: PostgreSQL waits for its locks with a signalfd. */
	if (g->signals && g->signals + g->inward == g->n && !g->of) {
		ret->kind = WAIT_SIGNAL;
		wait_what(ret, "a signal%s of ", g->n > 1 ? ", or another event," : "");
	}
	wait_what(ret, "%zu descriptor%s: %s", g->n, g->n == 1 ? "" : "s", g->list);
	if (g->of)
		wait_evidence(ret, "; %u of its %" PRIu64 " descriptors were looked at", FDS_MAX, g->of);
}

static void unreadable(struct wait *ret, const char *what)
{
	ret->kind = WAIT_EVENTS;
	ret->ender = ENDER_UNKNOWN;
	wait_what(ret, "the first of some descriptors");
	wait_evidence(ret, "%s cannot be read", what);
}

/* Events of poll and epoll have the same bits. To wait for an error is to wait for the other end, too. */
static enum wanted wanted_of(uint32_t events)
{
	return events & POLLOUT && !(events & (POLLIN | POLLPRI | POLLRDHUP | POLLRDNORM)) ? WANTED_WRITE
											   : WANTED_READ;
}

void wait_poll(const struct waiter *by, uint64_t fds, uint64_t n, struct wait *ret)
{
	struct gathered g = { .by = by, .ret = ret, .of = n > FDS_MAX ? n : 0 };
	const size_t count = n > FDS_MAX ? FDS_MAX : (size_t)n;

	scoped(freep) struct pollfd *v = calloc(count + 1, sizeof(*v));
	if (!v || (count && !memory_read(by->mem, fds, v, count * sizeof(*v)))) {
		unreadable(ret, "their array");
		return;
	}
	for (size_t i = 0; i < count; i++)
		if (v[i].fd >= 0)
			gather(&g, v[i].fd, wanted_of((uint16_t)v[i].events));
	finish(&g);
}

struct bits {
	uint64_t word[FDS_MAX / 64];
};

static bool read_bits(const struct waiter *by, uint64_t addr, size_t n, struct bits *ret)
{
	*ret = (struct bits){ 0 };
	return !addr || !n || memory_read(by->mem, addr, ret->word, (n + 63) / 64 * 8);
}

static bool has_bit(const struct bits *b, size_t i)
{
	return b->word[i / 64] >> i % 64 & 1;
}

void wait_select(const struct waiter *by, int n, uint64_t read, uint64_t write, struct wait *ret)
{
	struct gathered g = { .by = by, .ret = ret, .of = n > (int)FDS_MAX ? (uint64_t)n : 0 };
	const size_t count = n < 0 ? 0 : n > (int)FDS_MAX ? FDS_MAX : (size_t)n;
	struct bits reads, writes;

	if (!read_bits(by, read, count, &reads) || !read_bits(by, write, count, &writes)) {
		unreadable(ret, "their sets");
		return;
	}
	for (size_t i = 0; i < count; i++)
		if (has_bit(&reads, i) || has_bit(&writes, i))
			gather(&g, (int)i, has_bit(&reads, i) ? WANTED_READ : WANTED_WRITE);
	finish(&g);
}

/* A line of an epoll's fdinfo. */
struct epoll_entry {
	int fd; /* as it was numbered when it was added */
	uint32_t events;
	uint64_t inode; /* 0: an old kernel */
};

static bool parse_entry(const char *line, struct epoll_entry *ret)
{
	const char *inode;

	if (sscanf(line, "tfd: %d events: %" SCNx32, &ret->fd, &ret->events) != 2)
		return false;
	inode = strstr(line, " ino:");
	ret->inode = inode && inode < line + strcspn(line, "\n") ? strtoull(inode + 5, NULL, 16) : 0;
	return true;
}

/* An entry stays when its number is closed, as long as a copy of the descriptor is open: the number may be another's now. */
static bool is_other_file(const struct descriptor *now, const struct epoll_entry *e)
{
	return (now->kind == DESCRIPTOR_PIPE || now->kind == DESCRIPTOR_SOCKET) && e->inode &&
	       now->id != e->inode;
}

static void gather_epoll(struct gathered *g, int epoll, unsigned int depth);

static void gather_entry(struct gathered *g, const struct epoll_entry *e, unsigned int depth)
{
	struct descriptor now;

	/* After EPOLLONESHOT, or before it is armed: nothing of it is reported. */
	if (!(e->events & ~(uint32_t)(EPOLLONESHOT | EPOLLET | EPOLLWAKEUP | EPOLLEXCLUSIVE)))
		return;
	if (descriptor_read(g->by->d, g->by->pid, g->by->tid, e->fd, &now)) {
		if (now.kind == DESCRIPTOR_EPOLL && !depth) {
			gather_epoll(g, e->fd, depth + 1);
			return;
		}
		if (!is_other_file(&now, e)) {
			gather(g, e->fd, wanted_of(e->events));
			return;
		}
	}
	g->n++;
	g->ended_by[ENDER_UNKNOWN]++;
	list(g, e->fd, "a descriptor that was closed",
	     &(struct wait){ .evidence = "a copy of it is still watched" });
}

static void gather_epoll(struct gathered *g, int epoll, unsigned int depth)
{
	scoped(text_buf_deinit) struct text_buf info = { 0 };
	struct epoll_entry e;
	uint64_t n = 0;

	if (!descriptor_info(g->by->pid, g->by->tid, epoll, &info)) {
		g->ended_by[ENDER_UNKNOWN]++;
		wait_evidence(g->ret, "the list of the epoll (%d) cannot be read", epoll);
		return;
	}
	for (const char *line = text_buf_text(&info); line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (parse_entry(line, &e) && n++ < FDS_MAX)
			gather_entry(g, &e, depth);
	}
	if (n > FDS_MAX)
		g->of = n;
}

void wait_epoll(const struct waiter *by, int epoll, struct wait *ret)
{
	struct gathered g = { .by = by, .ret = ret };

	gather_epoll(&g, epoll, 0);
	if (!g.n && g.ended_by[ENDER_UNKNOWN]) {
		ret->kind = WAIT_EVENTS;
		wait_what(ret, "the epoll (descriptor %d)", epoll);
		return;
	}
	finish(&g);
}

static bool is_file(const struct waiter *by, int fd)
{
	struct descriptor it;

	return descriptor_read(by->d, by->pid, by->tid, fd, &it) && it.kind == DESCRIPTOR_FILE;
}

void wait_move(const struct waiter *by, int in, int out, struct wait *ret)
{
	struct gathered g = { .by = by, .ret = ret };
	char from[OBJECT_NAME], to[OBJECT_NAME];

	if (is_file(by, in) || is_file(by, out)) {
		wait_object(by, is_file(by, in) ? out : in, is_file(by, in) ? WANTED_WRITE : WANTED_READ, ret,
			    NULL);
		return;
	}
	gather_named(&g, in, WANTED_READ, from);
	gather_named(&g, out, WANTED_WRITE, to);
	judge(&g);
	ret->kind = WAIT_PEER;
	ret->object = 0;
	wait_what(ret, "a byte from %.100s (descriptor %d), or room in %.100s (descriptor %d)", from, in, to,
		  out);
}
