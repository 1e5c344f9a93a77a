/*
 * heartbeat - reports a thread that waits for us that we live, while we are busy.
 *
 * A thread of the target that waits goes on by itself when nothing has been heard of us for some time,
 * because we may have been killed. What it waits for can take longer than that: names to be looked up, on a
 * busy machine. A thread of our own speaks for us; it ends, and stands still, with us.
 */
#ifndef WATCHCTL_ENGINE_INTAKE_HEARTBEAT_H
#define WATCHCTL_ENGINE_INTAKE_HEARTBEAT_H

#include <pthread.h>
#include <stdbool.h>

/* Zero-initialised: none. */
struct heartbeat {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	void (*beat)(void *ctx);
	void *ctx;
	bool runs, stop;
};

/*
 * Calls @beat from another thread, which gets no signals, some twenty times a second. Does nothing if it does
 * so already, or if there can be no other thread.
 */
void heartbeat_start(struct heartbeat *h, void (*beat)(void *ctx), void *ctx);

/* When it returns, @beat is not called any more. */
void heartbeat_stop(struct heartbeat *h);

#endif
