/*
 * out_queue - output that never makes its writer wait. What is written is queued in bounded memory, and a
 * thread writes it out. Where the queue is full, because nobody reads (a pager, Ctrl-S, a slow disk), whole
 * records are left out, and their lines counted, until half of it has been read.
 *
 *	file --> queue, at most @most bytes --> thread --> write(2)
 *
 * A record is a line and those after it that begin with a space or a tab.
 */
#ifndef WATCHCTL_BASE_OUT_QUEUE_H
#define WATCHCTL_BASE_OUT_QUEUE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define OUT_QUEUE_BYTES (32u << 20)

struct out_queue;

struct out_queue_options {
	int fd;	     /* stays the caller's, and open */
	size_t most; /* bytes; what is being written counts; the end of a record may exceed it */
	/* The line that stands for @lines that were left out, with its newline. */
	void (*gap)(uint64_t lines, char *buf, size_t len);
};

/* NULL: no memory, or no thread may be made. */
struct out_queue *out_queue_new(const struct out_queue_options *o);

/* What is written to it is queued when it is flushed; an error of the real file shows later. The queue's. */
FILE *out_queue_file(struct out_queue *q);

/* @text, complete lines, goes to another file, @fd: after all that was queued before. */
void out_queue_put(struct out_queue *q, int fd, const char *text, size_t len);

/* The errno of the first failed write to the real file, after which nothing more is written; 0: none. */
int out_queue_error(struct out_queue *q);

/*
 * From now on nothing is left out: who writes waits for the reader, but for no longer than *@stop is 0 (NULL:
 * always).
 */
void out_queue_wait_for_reader(struct out_queue *q, const volatile sig_atomic_t *stop);

/* Returns when all is written, or cannot be; or when *@stop is set. How many lines were left out in all. */
uint64_t out_queue_finish(struct out_queue *q);

/* After out_queue_finish(). A thread that still waits for a reader is left alone. Accepts NULL. */
void out_queue_free(struct out_queue *q);

#endif
