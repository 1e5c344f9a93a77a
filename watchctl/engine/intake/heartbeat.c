#include "watchctl/engine/intake/heartbeat.h"

#include <signal.h>
#include <stdint.h>
#include <time.h>

#include "watchctl/base/clock.h"
#include "watchctl/base/privilege.h"

#define EVERY_NS 50000000ull

static struct timespec next(void)
{
	uint64_t ns = monotonic_ns() + EVERY_NS;

	return (struct timespec){ (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };
}

static void *beat_on(void *arg)
{
	struct heartbeat *h = arg;

	privilege_keep_for_tracing(); /* each thread has its own */
	pthread_mutex_lock(&h->lock);
	while (!h->stop) {
		struct timespec until = next();

		h->beat(h->ctx);
		pthread_cond_timedwait(&h->changed, &h->lock, &until);
	}
	pthread_mutex_unlock(&h->lock);
	return NULL;
}

void heartbeat_start(struct heartbeat *h, void (*beat)(void *ctx), void *ctx)
{
	pthread_condattr_t by_our_clock;
	sigset_t all, before;

	if (h->runs)
		return;
	*h = (struct heartbeat){ .beat = beat, .ctx = ctx };
	pthread_condattr_init(&by_our_clock);
	pthread_condattr_setclock(&by_our_clock, CLOCK_MONOTONIC);
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->changed, &by_our_clock);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	h->runs = !pthread_create(&h->thread, NULL, beat_on, h);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void heartbeat_stop(struct heartbeat *h)
{
	if (!h->runs)
		return;
	pthread_mutex_lock(&h->lock);
	h->stop = true;
	pthread_cond_signal(&h->changed);
	pthread_mutex_unlock(&h->lock);
	pthread_join(h->thread, NULL);
	pthread_cond_destroy(&h->changed);
	pthread_mutex_destroy(&h->lock);
	*h = (struct heartbeat){ 0 };
}
