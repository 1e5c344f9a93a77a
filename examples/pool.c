/*
 * pool - three workers share two connections, and now and then one of them gets the answer to somebody else's
 * question. docs/tutorial.md finds out why.
 *
 *	cc -g -O1 -o pool pool.c -pthread
 *	./pool 3		runs for three seconds and prints how many answers were wrong
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS 2
#define WORKERS 3
#define TIMEOUT_MS 500 /* a worker that died with a connection must not keep it */
#define LIFETIME 40    /* questions, then the server wants a new connection */

struct timer {
	struct conn *conn;
	long expires_ms;
	struct timer *next;
};

struct conn {
	int busy;
	int asked;
	long question;
	struct timer *timer;
};

static struct conn pool[CONNECTIONS];
static struct timer *timers;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long wrong, right, deadline_ms;

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void timer_start(struct conn *c)
{
	struct timer *t = malloc(sizeof(*t));

	*t = (struct timer){ c, now_ms() + TIMEOUT_MS, timers };
	timers = t;
	c->timer = t;
}

static void timer_cancel(struct timer *t)
{
	struct timer **at;

	for (at = &timers; *at; at = &(*at)->next)
		if (*at == t) {
			*at = t->next;
			free(t);
			return;
		}
}

static __attribute__((noinline)) struct conn *pool_take(void)
{
	struct conn *c;

	pthread_mutex_lock(&lock);
	for (c = pool; c < pool + CONNECTIONS; c++)
		if (!c->busy) {
			c->busy = 1;
			timer_start(c);
			break;
		}
	pthread_mutex_unlock(&lock);
	return c < pool + CONNECTIONS ? c : NULL;
}

static __attribute__((noinline)) void pool_put(struct conn *c)
{
	pthread_mutex_lock(&lock);
	timer_cancel(c->timer);
	c->timer = NULL;
	c->busy = 0;
	pthread_mutex_unlock(&lock);
}

/* Whoever had the connection has not given it back in time. */
static __attribute__((noinline)) void expire(struct timer *t)
{
	t->conn->busy = 0;
	timer_cancel(t);
}

static void *run_timers(void *arg)
{
	struct timer *t, *next;

	for (; now_ms() < deadline_ms; usleep(1000)) {
		pthread_mutex_lock(&lock);
		for (t = timers; t; t = next) {
			next = t->next;
			if (t->expires_ms <= now_ms())
				expire(t);
		}
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static __attribute__((noinline)) void reconnect(struct conn *c)
{
	*c = (struct conn){ .busy = 1 };
}

static long ask(struct conn *c, long question)
{
	if (++c->asked > LIFETIME)
		reconnect(c);
	c->question = question;
	usleep(500);
	return 2 * c->question;
}

static void *work(void *arg)
{
	long question = (long)arg * 1000000;
	struct conn *c;

	while (now_ms() < deadline_ms) {
		c = pool_take();
		if (!c) {
			usleep(50);
			continue;
		}
		question++;
		if (ask(c, question) == 2 * question)
			__atomic_add_fetch(&right, 1, __ATOMIC_RELAXED);
		else
			__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
		pool_put(c);
		usleep(1000);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t worker[WORKERS], clock;
	long i;

	deadline_ms = now_ms() + 1000 * (argc > 1 ? atoi(argv[1]) : 3);
	pthread_create(&clock, NULL, run_timers, NULL);
	for (i = 0; i < WORKERS; i++)
		pthread_create(&worker[i], NULL, work, (void *)i);
	for (i = 0; i < WORKERS; i++)
		pthread_join(worker[i], NULL);
	pthread_join(clock, NULL);
	printf("%ld answers, %ld of them to another question\n", right + wrong, wrong);
	return wrong > 0;
}
