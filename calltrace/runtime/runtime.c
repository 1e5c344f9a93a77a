/*
 * The life of the runtime: modules come and go, the program turns recording on and off, forks, and ends.
 *
 * Everything here runs at a place where the program called it, or at its beginning and end, and may allocate. It holds
 * the one lock with all signals blocked, and may not be cancelled meanwhile. Turns never take that lock.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calltrace/abi.h"
#include "calltrace/calltrace.h"
#include "calltrace/runtime/modules.h"
#include "calltrace/runtime/own_log.h"
#include "calltrace/runtime/raw_call.h"
#include "calltrace/runtime/thread.h"
#include "watchctl/base/cleanup.h"

#define RING_MAX (1ull << 36) /* bytes for each thread */

#define PUBLIC __attribute__((visibility("default")))

static struct {
	pthread_mutex_t lock;
	bool was_begun;
	bool is_enabled;
	uint32_t ring_chunks;	/* 0: not a flight recorder */
	struct own_log *log;	/* NULL: nothing is recorded */
	struct wc_error *error; /* the first one of the log, to be reported at the end; NULL */
	struct output_place place;
} runtime = { .lock = PTHREAD_MUTEX_INITIALIZER };

struct guard {
	int error, cancel;
	uint64_t signals, pending;
};

static void runtime_lock(struct guard *g)
{
	g->error = errno;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &g->cancel);
	g->signals = raw_signals_block(RAW_ALL_SIGNALS);
	g->pending = raw_signals_pending();
	pthread_mutex_lock(&runtime.lock);
}

static void runtime_unlock(struct guard *g)
{
	pthread_mutex_unlock(&runtime.lock);
	raw_sigxfsz_take_back(g->pending); /* of the log */
	raw_signals_block(g->signals);
	pthread_setcancelstate(g->cancel, NULL);
	errno = g->error;
}

/* Not in a copy of the process that opened it. */
static bool is_tracing(void)
{
	return runtime.log && threads_are_recording();
}

static void say(const char *text, const char *and_then)
{
	fprintf(stderr, "calltrace: %s%s\n", text, and_then);
}

/* Takes @err; -errno, or 0. */
static int error_number(struct wc_error *err)
{
	int number = !err ? 0 : err == &wc_enomem ? ENOMEM : err->sys_errno ? err->sys_errno : EIO;

	wc_error_free(err);
	return -number;
}

/* Takes @err. */
static void keep_error(struct wc_error *err)
{
	runtime.error = wc_error_first(runtime.error, err);
}

/* The log cannot be written to: what is in it stays. */
static void give_up(struct wc_error *err)
{
	modules_switch(false);
	threads_forget();
	own_log_forget(runtime.log);
	runtime.log = NULL;
	say(err->text, "; the program goes on untraced");
	wc_error_free(err);
}

/* A ring that is read must not be used again meanwhile: calls that happen then are not recorded. */
static void pause_ring(void)
{
	if (runtime.ring_chunks)
		modules_switch(false);
}

static void resume_ring(void)
{
	if (runtime.ring_chunks)
		modules_switch(runtime.is_enabled);
}

/* Beginning */

/* In a fork's child: the log is its parent's, and so is what is in memory. */
static void after_fork(void)
{
	modules_switch(false);
	threads_forget();
	own_log_forget(runtime.log);
	runtime.log = NULL;
	pthread_mutex_init(&runtime.lock, NULL);
}

static struct wc_error *put_new_threads(void)
{
	struct wc_error *err = NULL;
	struct thread *t = NULL;
	char comm[COMM_LEN];

	while (!err && (t = threads_next_new(t))) {
		pid_t tid = thread_introduce(t, comm);

		err = own_log_put_thread(runtime.log, tid, comm);
	}
	return err;
}

/* In the thread that ends. */
static void on_thread_end(struct thread *t)
{
	struct guard g;

	runtime_lock(&g);
	if (is_tracing()) {
		/* Its calls have a file of their own: they are not lost with its name, which the end reports. */
		keep_error(put_new_threads());
		thread_finish(t);
	}
	runtime_unlock(&g);
}

static void begin_threads(void)
{
	const char *why = threads_begin(&runtime.place, runtime.ring_chunks, on_thread_end);

	if (!why && pthread_atfork(NULL, NULL, after_fork))
		why = "no memory";
	if (!why)
		return;
	threads_forget();
	own_log_discard(runtime.log);
	runtime.log = NULL;
	say(why, "; the program goes on untraced");
}

/* "64K", "16M", "1G": chunks for so many bytes. WC_EUSAGE. */
static struct wc_error *ring_chunks(const char *text, uint32_t *ret)
{
	static const char units[] = "KMG";
	const char *unit;
	char *end;
	uint64_t size;

	errno = 0;
	size = strtoull(text, &end, 10);
	unit = *end ? strchr(units, *end) : NULL;
	if (errno || end == text || *text == '-' || !unit || end[1] ||
	    size > RING_MAX >> 10 * (unit - units + 1))
		return wc_error_new(
			WC_EUSAGE,
			"CALLTRACE_RING=%s is no size for each thread's events: 16M, 512K and 1G are", text);
	size = (size << 10 * (unit - units + 1)) / CALLTRACE_CHUNK;
	*ret = size < 2 ? 2 : (uint32_t)size;
	return NULL;
}

static struct wc_error *put_ring_note(void)
{
	char text[160];

	snprintf(text, sizeof(text),
		 "a flight recorder: of each thread, its last %u entries and exits are kept",
		 (runtime.ring_chunks - 1) * (CALLTRACE_CHUNK / (uint32_t)sizeof(struct calltrace_slot)));
	return own_log_put_note(runtime.log, text);
}

/* Once, under the lock. */
static void runtime_begin(void)
{
	const char *output = secure_getenv("CALLTRACE_OUTPUT"), *enable = secure_getenv("CALLTRACE_ENABLE");
	const char *ring = secure_getenv("CALLTRACE_RING");
	struct wc_error *err;

	if (runtime.was_begun)
		return;
	runtime.was_begun = true;
	if (!output || !*output)
		return;
	runtime.is_enabled = !enable || strcmp(enable, "0") != 0;
	err = own_log_path(output, runtime.place.path, sizeof(runtime.place.path));
	if (!err && ring && *ring)
		err = ring_chunks(ring, &runtime.ring_chunks);
	if (!err)
		err = own_log_open(&runtime.place, &runtime.log);
	if (!err && runtime.ring_chunks)
		err = put_ring_note();
	if (!err) {
		begin_threads();
		return;
	}
	if (runtime.log)
		own_log_discard(take_ptr(runtime.log));
	say(err->text, "; the program goes on untraced");
	wc_error_free(err);
}

__attribute__((constructor(101))) static void on_load(void)
{
	struct guard g;

	runtime_lock(&g);
	runtime_begin();
	runtime_unlock(&g);
}

/* Modules */

static void refuse_module(const struct calltrace_function *begin, const char *why)
{
	char text[PATH_MAX + 160], name[PATH_MAX];

	own_log_module_name(begin, name, sizeof(name));
	snprintf(text, sizeof(text), "calls in %s are not recorded: %s", *name ? name : "a module", why);
	say(text, "");
	error_number(own_log_put_note(runtime.log, text));
}

static void add_module(const struct calltrace_function *begin, const struct calltrace_function *end,
		       uint8_t *on)
{
	struct wc_error *err;
	uint32_t base;
	const char *why = modules_add(begin, end, on, &base);

	if (why) {
		refuse_module(begin, why);
		return;
	}
	err = own_log_put_functions(runtime.log, begin, end, base);
	if (!err)
		err = put_new_threads();
	if (!err)
		err = own_log_flush(runtime.log);
	if (err)
		give_up(err);
	else
		__atomic_store_n(on, runtime.is_enabled, __ATOMIC_SEQ_CST);
}

PUBLIC void __calltrace_register(const struct calltrace_function *begin, const struct calltrace_function *end,
				 uint8_t *on, uint32_t flags)
{
	struct guard g;

	(void)flags;
	runtime_lock(&g);
	runtime_begin();
	if (is_tracing() && begin < end)
		add_module(begin, end, on);
	runtime_unlock(&g);
}

PUBLIC void __calltrace_unregister(const struct calltrace_function *begin)
{
	struct guard g;

	runtime_lock(&g);
	if (modules_stop(begin)) {
		if (is_tracing()) {
			pause_ring();
			threads_drain();
			modules_remove(begin);
			resume_ring();
		} else {
			modules_remove(begin);
		}
	}
	runtime_unlock(&g);
}

/* The program's own words */

static int switch_to(bool on)
{
	struct guard g;
	bool can;

	runtime_lock(&g);
	runtime_begin();
	can = is_tracing();
	if (can) {
		runtime.is_enabled = on;
		modules_switch(on);
	}
	runtime_unlock(&g);
	return can ? 0 : -ENOENT;
}

PUBLIC int calltrace_enable(void)
{
	return switch_to(true);
}

PUBLIC void calltrace_disable(void)
{
	switch_to(false);
}

PUBLIC int calltrace_enabled(void)
{
	struct guard g;
	bool is;

	runtime_lock(&g);
	is = is_tracing() && runtime.is_enabled;
	runtime_unlock(&g);
	return is;
}

PUBLIC int calltrace_flush(void)
{
	struct guard g;
	int ret = -ENOENT;

	runtime_lock(&g);
	if (is_tracing()) {
		struct wc_error *err = put_new_threads();

		pause_ring();
		ret = (int)threads_flush();
		resume_ring();
		err = wc_error_first(err, own_log_flush(runtime.log));
		if (err)
			ret = error_number(err);
	}
	runtime_unlock(&g);
	return ret;
}

/* The end */

static void end_log(void)
{
	uint64_t discarded;

	keep_error(put_new_threads());
	threads_finish();
	discarded = threads_discarded();
	threads_forget();
	if (discarded)
		keep_error(own_log_put_lost(runtime.log, discarded));
	keep_error(own_log_close(take_ptr(runtime.log)));
}

/* After the program's exit handlers and destructors. */
__attribute__((destructor(101))) static void on_exit_of_process(void)
{
	struct guard g;

	runtime_lock(&g);
	if (is_tracing()) {
		modules_switch(false);
		end_log();
		if (runtime.error)
			say(runtime.error->text, "");
		wc_error_free(take_ptr(runtime.error));
	}
	runtime_unlock(&g);
}
