#include "watchctl/base/out_queue.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/clock.h"
#include "watchctl/base/privilege.h"
#include "watchctl/base/vec.h"

#define LOOK_NS 50000000ull /* how often stop is looked at */
#define THREAD_STACK (256u << 10)

struct chunk {
	struct chunk *next;
	int fd;
	bool is_gap;
	size_t len;
	char bytes[];
};

struct out_queue {
	struct out_queue_options options;
	FILE *file;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t filled, emptied;
	struct chunk *head, **tail; /* the first is being written */
	size_t held;
	int error;
	bool ends; /* the thread shall */

	/* Of the stream that is written to @file. */
	char *part; /* of a line that has begun */
	size_t part_len, part_cap;
	bool part_is_lost;
	bool leaves_out;
	uint64_t left_out, gap; /* lines: in all, and since the last one that was queued */

	bool waits;
	const volatile sig_atomic_t *stop;
	struct out_queue *next_abandoned;
};

/* The thread */

/* 0, or an errno. The real file may be set to not block, by whoever has it too. */
static int write_out(const struct chunk *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLOUT };
	size_t at = 0;

	while (at < c->len) {
		ssize_t n = write(c->fd, c->bytes + at, c->len - at);

		if (n > 0)
			at += (size_t)n;
		else if (n < 0 && errno == EAGAIN)
			poll(&p, 1, -1);
		else if (n == 0 || errno != EINTR)
			return n ? errno : ENOSPC;
	}
	return 0;
}

static void take_head(struct out_queue *q)
{
	struct chunk *c = q->head;

	q->head = c->next;
	if (!q->head)
		q->tail = &q->head;
	q->held -= sizeof(*c) + c->len;
	free(c);
}

static void *write_on(void *arg)
{
	struct out_queue *q = arg;
	const struct chunk *c;
	int error;

	privilege_keep_for_tracing(); /* each thread has its own */
	pthread_mutex_lock(&q->lock);
	while (!q->ends) {
		if (!q->head) {
			pthread_cond_wait(&q->filled, &q->lock);
			continue;
		}
		c = q->head;
		if (c->fd != q->options.fd || !q->error) {
			pthread_mutex_unlock(&q->lock);
			error = write_out(c); /* nobody else takes it out */
			pthread_mutex_lock(&q->lock);
			if (c->fd == q->options.fd)
				q->error = error;
		}
		take_head(q);
		pthread_cond_signal(&q->emptied);
	}
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

/* Queueing, under the lock */

static size_t lines_in(const char *at, size_t len)
{
	const char *end = at + len;
	size_t n = 0;

	while ((at = memchr(at, '\n', (size_t)(end - at)))) {
		n++;
		at++;
	}
	return n;
}

static bool append_to(struct out_queue *q, int fd, const char *bytes, size_t len, bool is_gap)
{
	struct chunk *c = len ? malloc(sizeof(*c) + len) : NULL;

	if (!c)
		return !len;
	*c = (struct chunk){ .fd = fd, .is_gap = is_gap, .len = len };
	memcpy(c->bytes, bytes, len);
	*q->tail = c;
	q->tail = &c->next;
	q->held += sizeof(*c) + len;
	pthread_cond_signal(&q->filled);
	return true;
}

static bool out_queue_append(struct out_queue *q, int fd, const char *bytes, size_t len)
{
	return append_to(q, fd, bytes, len, false);
}

static bool has_room(const struct out_queue *q, size_t len)
{
	return q->held + sizeof(struct chunk) + len <= q->options.most;
}

static void leave_out(struct out_queue *q, size_t lines)
{
	q->left_out += lines;
	q->gap += lines;
}

/* How much of @bytes, whole lines, belongs to the record before: up to the next line that does not begin with a blank. */
static size_t rest_of_record(const char *bytes, size_t len)
{
	const char *at = bytes, *end = bytes + len;

	while (at < end && (*at == ' ' || *at == '\t'))
		at = (const char *)memchr(at, '\n', (size_t)(end - at)) + 1;
	return (size_t)(at - bytes);
}

/* The line is reported in place of those that are missing. */
static bool append_gap(struct out_queue *q)
{
	char line[256];

	if (!q->gap)
		return true;
	q->options.gap(q->gap, line, sizeof(line));
	if (!append_to(q, q->options.fd, line, strlen(line), true))
		return false;
	q->gap = 0;
	return true;
}

/* There is room again: from the next record on. */
static size_t begin_again(struct out_queue *q, const char *bytes, size_t len)
{
	size_t n = rest_of_record(bytes, len);

	leave_out(q, lines_in(bytes, n));
	q->leaves_out = n == len || !append_gap(q);
	return n;
}

/* There is no room: only the record that has begun is completed. */
static size_t complete(struct out_queue *q, const char *bytes, size_t len)
{
	size_t n = rest_of_record(bytes, len);

	if (!out_queue_append(q, q->options.fd, bytes, n))
		n = 0;
	q->leaves_out = n < len;
	return n;
}

/* Whole lines. */
static void queue_lines(struct out_queue *q, const char *bytes, size_t len)
{
	size_t n = 0;

	if (q->leaves_out && (q->waits || q->held <= q->options.most / 2))
		n = begin_again(q, bytes, len);
	if (!q->leaves_out && !q->waits && !has_room(q, len - n))
		n += complete(q, bytes + n, len - n);
	if (!q->leaves_out && !out_queue_append(q, q->options.fd, bytes + n, len - n))
		q->leaves_out = true;
	if (q->leaves_out)
		leave_out(q, lines_in(bytes + n, len - n));
}

/* Keeps the beginning of a line until its end comes. No memory: the whole line is left out. */
static void keep_part(struct out_queue *q, const char *bytes, size_t len)
{
	if (!len || q->part_is_lost)
		return;
	if (!vec_reserve((void **)&q->part, &q->part_cap, q->part_len + len, 1)) {
		q->part_len = 0;
		q->part_is_lost = true;
		return;
	}
	memcpy(q->part + q->part_len, bytes, len);
	q->part_len += len;
}

/* The line that has begun is whole. */
static void queue_part(struct out_queue *q)
{
	if (q->part_is_lost) {
		leave_out(q, 1);
		q->leaves_out = true; /* so that the gap is reported before the next record */
	} else {
		queue_lines(q, q->part, q->part_len);
	}
	q->part_len = 0;
	q->part_is_lost = false;
}

/*
 * A stream writes when its buffer is full, within a line or not. Only whole lines are queued: of one whose rest finds no memory
 * nothing must have been written, or the next line would seem to be its end.
 */
static void queue_bytes(struct out_queue *q, const char *bytes, size_t len)
{
	const char *first = memchr(bytes, '\n', len), *last = memrchr(bytes, '\n', len), *end = bytes + len;

	if (!first) {
		keep_part(q, bytes, len);
		return;
	}
	if (q->part_len || q->part_is_lost) {
		keep_part(q, bytes, (size_t)(first + 1 - bytes));
		queue_part(q);
		bytes = first + 1;
	}
	if (bytes <= last)
		queue_lines(q, bytes, (size_t)(last + 1 - bytes));
	keep_part(q, last + 1, (size_t)(end - last - 1));
}

static bool has_had_enough(const struct out_queue *q)
{
	return q->error || (q->stop && *q->stop);
}

static void wait_a_while(struct out_queue *q)
{
	uint64_t ns = monotonic_ns() + LOOK_NS;
	struct timespec until = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };

	pthread_cond_timedwait(&q->emptied, &q->lock, &until);
}

static ssize_t on_write(void *cookie, const char *bytes, size_t len)
{
	struct out_queue *q = cookie;
	int error;

	pthread_mutex_lock(&q->lock);
	while (q->waits && q->held && !has_room(q, len) && !has_had_enough(q))
		wait_a_while(q);
	error = q->error;
	if (!error && q->waits && has_had_enough(q))
		leave_out(q, lines_in(bytes, len));
	else if (!error)
		queue_bytes(q, bytes, len);
	pthread_mutex_unlock(&q->lock);
	if (!error)
		return (ssize_t)len;
	errno = error;
	return 0;
}

/* Its life */

static bool start_thread(struct out_queue *q)
{
	pthread_attr_t attr;
	sigset_t all, before;
	bool started;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, THREAD_STACK);
	sigfillset(&all);
	sigdelset(&all, SIGTTOU); /* a terminal set so stops who writes from the background: all of us */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	started = !pthread_create(&q->thread, &attr, write_on, q);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return started;
}

struct out_queue *out_queue_new(const struct out_queue_options *o)
{
	const cookie_io_functions_t io = { .write = on_write };
	struct out_queue *q = calloc(1, sizeof(*q));
	pthread_condattr_t by_our_clock;

	if (!q)
		return NULL;
	q->options = *o;
	q->tail = &q->head;
	pthread_condattr_init(&by_our_clock);
	pthread_condattr_setclock(&by_our_clock, CLOCK_MONOTONIC);
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->filled, NULL);
	pthread_cond_init(&q->emptied, &by_our_clock);
	q->file = fopencookie(q, "w", io);
	if (q->file && start_thread(q))
		return q;
	if (q->file)
		fclose(q->file);
	free(q);
	return NULL;
}

FILE *out_queue_file(struct out_queue *q)
{
	return q->file;
}

void out_queue_put(struct out_queue *q, int fd, const char *text, size_t len)
{
	pthread_mutex_lock(&q->lock);
	if ((!q->waits && !has_room(q, len)) || !out_queue_append(q, fd, text, len))
		q->left_out += lines_in(text, len);
	pthread_mutex_unlock(&q->lock);
}

int out_queue_error(struct out_queue *q)
{
	int error;

	pthread_mutex_lock(&q->lock);
	error = q->error;
	pthread_mutex_unlock(&q->lock);
	return error;
}

void out_queue_wait_for_reader(struct out_queue *q, const volatile sig_atomic_t *stop)
{
	pthread_mutex_lock(&q->lock);
	q->waits = true;
	q->stop = stop;
	pthread_mutex_unlock(&q->lock);
}

uint64_t out_queue_finish(struct out_queue *q)
{
	int error = fflush(q->file) ? errno : 0;
	const struct chunk *c;
	uint64_t lines;

	pthread_mutex_lock(&q->lock);
	if (!q->error)
		q->error = error;
	if (!q->error && (q->part_len || q->part_is_lost))
		queue_part(q); /* a last line without its end */
	if (!q->error)
		append_gap(q);			  /* at the very end */
	while (q->head && !(q->stop && *q->stop)) /* after an error, the thread throws the rest away */
		wait_a_while(q);
	lines = q->left_out;
	for (c = q->head; c; c = c->next)
		lines += c->is_gap ? 0 : lines_in(c->bytes, c->len);
	pthread_mutex_unlock(&q->lock);
	return lines;
}

/* Of those whose thread waits for a reader for as long as we live: they are in use, and no leak. */
static struct out_queue *abandoned;

void out_queue_free(struct out_queue *q)
{
	bool busy;

	if (!q)
		return;
	fclose(q->file);
	q->file = NULL;
	pthread_mutex_lock(&q->lock);
	q->ends = true;
	busy = q->head;
	pthread_cond_signal(&q->filled);
	pthread_mutex_unlock(&q->lock);
	if (busy) {
		pthread_detach(q->thread); /* it ends with us: nobody takes its lines */
		q->next_abandoned = abandoned;
		abandoned = q;
		return;
	}
	pthread_join(q->thread, NULL);
	pthread_mutex_destroy(&q->lock);
	pthread_cond_destroy(&q->filled);
	pthread_cond_destroy(&q->emptied);
	free(q->part);
	free(q);
}
