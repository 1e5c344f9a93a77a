/*
 * wait_events - waits for the first of many descriptors: the union of those who can end the wait for one of them.
 * Each fills in *ret but for has_limit, which it reads.
 */
#ifndef WATCHCTL_FLOW_EXPLAIN_WAIT_EVENTS_H
#define WATCHCTL_FLOW_EXPLAIN_WAIT_EVENTS_H

#include <stdint.h>

#include "watchctl/flow/explain/wait_object.h"

/* @fds: address of @n struct pollfd. */
void wait_poll(const struct waiter *by, uint64_t fds, uint64_t n, struct wait *ret);

/* @read, @write: addresses of fd_sets of @n bits, or 0. */
void wait_select(const struct waiter *by, int n, uint64_t read, uint64_t write, struct wait *ret);

void wait_epoll(const struct waiter *by, int epoll, struct wait *ret);

/* A call that moves bytes from @in to @out: it waits for one of the two. */
void wait_move(const struct waiter *by, int in, int out, struct wait *ret);

#endif
