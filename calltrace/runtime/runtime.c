/*
 * The life of the runtime: modules come and go, logs begin and end, the program turns recording on and off, forks, and
 * ends.
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
#include <time.h>
#include <unistd.h>

#include "calltrace/abi.h"
#include "calltrace/calltrace.h"
#include "calltrace/runtime/closed_logs.h"
#include "calltrace/runtime/modules.h"
#include "calltrace/runtime/own_events.h"
#include "calltrace/runtime/own_log.h"
#include "calltrace/runtime/raw_call.h"
#include "calltrace/runtime/thread.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/trace/calls/call_format.h"

#define RING_MAX (1ull << 36) /* bytes for each thread */

#define PUBLIC __attribute__((visibility("default")))

static struct {
	pthread_mutex_t lock;
	bool was_begun; /* or is not to begin by itself */
	bool has_ended; /* the process */
	bool has_flags;
	uint32_t flags;	  /* enum calltrace_module_flags, of the module that came first */
	bool has_untimed; /* one of the modules has CALLTRACE_NO_TIME */
	bool is_enabled;
	uint32_t ring_chunks;	/* 0: not a flight recorder. Of the first log, and of all others */
	uint32_t logs;		/* that were made in this process */
	uint32_t refused;	/* modules */
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
	const int number = !err			     ? 0
			   : err == &wc_enomem	     ? ENOMEM
			   : err->sys_errno	     ? err->sys_errno
			   : err->kind == WC_EUSAGE  ? EINVAL
			   : err->kind == WC_ENOTSUP ? ENOTSUP
						     : EIO;

	wc_error_free(err);
	return -number;
}

/* Takes @err; -errno. */
static int say_error(struct wc_error *err)
{
	say(err->text, "; the program goes on untraced");
	return error_number(err);
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
	threads_finish();
	own_log_give_up(take_ptr(runtime.log));
	say_error(err);
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

/* In a fork's child: the log is its parent's. What is in memory is kept for one of its own. */
static void after_fork(void)
{
	modules_switch(false);
	threads_after_fork();
	own_log_forget(runtime.log);
	runtime.log = NULL;
	runtime.error = NULL;
	runtime.logs = 0;
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
	/* Its calls have a file of their own: they are not lost with its name, which the end reports. */
	if (is_tracing())
		keep_error(put_new_threads());
	thread_finish(t);
	runtime_unlock(&g);
}

static struct wc_error *begin_threads(void)
{
	const char *why;

	if (threads_have_begun())
		return NULL;
	if (pthread_atfork(NULL, NULL, after_fork))
		return &wc_enomem;
	why = threads_begin(&runtime.place, runtime.ring_chunks, on_thread_end);
	return why ? wc_error_new(WC_ENOTSUP, "%s", why) : NULL;
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

	snprintf(text, sizeof(text), CALL_RING_NOTE " of each thread, its last %u entries and exits are kept",
		 (runtime.ring_chunks - 1) * (CALLTRACE_CHUNK / (uint32_t)sizeof(struct calltrace_slot)));
	return own_log_put_note(runtime.log, text);
}

static struct wc_error *put_untimed_note(void)
{
	return own_log_put_note(
		runtime.log, "calls are recorded without times, in their order: the time of many is that at "
			     "which a thread's chunk of 4096 entries and exits began");
}

static struct wc_error *put_refused_note(void)
{
	char text[120];

	snprintf(text, sizeof(text),
		 "modules that were refused when they were loaded, and whose calls are not recorded: %u",
		 runtime.refused);
	return own_log_put_note(runtime.log, text);
}

/* Those that were there before the log. */
static struct wc_error *put_modules(void)
{
	const struct calltrace_function *begin, *end;
	struct wc_error *err = NULL;
	unsigned int i = 0;
	uint32_t base;

	while (!err && (begin = modules_next(&i, &end, &base)))
		err = own_log_put_functions(runtime.log, begin, end, base);
	return err;
}

static struct wc_error *put_event_types(void)
{
	const char *name, *format;
	struct wc_error *err = NULL;

	for (unsigned int i = 0; !err && own_events_get(i, &name, &format); i++)
		err = own_log_put_event_type(runtime.log, i, name, format);
	return err;
}

/* Fills the place and makes the log in it. */
static struct wc_error *open_log(const char *output)
{
	const char *ring = secure_getenv("CALLTRACE_RING");
	struct wc_error *err =
		own_log_path(output, runtime.logs, runtime.place.path, sizeof(runtime.place.path));

	/* Threads have their memory from the first log on. */
	if (!threads_have_begun())
		runtime.ring_chunks = 0;
	if (!err && ring && *ring && !threads_have_begun())
		err = ring_chunks(ring, &runtime.ring_chunks);
	atomic_store(&runtime.place.next_file, 0);
	if (!err)
		err = own_log_open(&runtime.place, &runtime.log);
	if (!err && runtime.ring_chunks)
		err = put_ring_note();
	if (!err && runtime.has_untimed)
		err = put_untimed_note();
	if (!err && runtime.refused)
		err = put_refused_note();
	if (!err)
		err = put_modules();
	if (!err)
		err = put_event_types();
	if (!err)
		err = own_log_flush(runtime.log);
	if (!err)
		err = begin_threads();
	if (err && runtime.log)
		own_log_discard(take_ptr(runtime.log));
	return err;
}

static bool starts_enabled(void)
{
	const char *enable = secure_getenv("CALLTRACE_ENABLE");

	return enable && *enable ? strcmp(enable, "0") != 0 : !(runtime.flags & CALLTRACE_STARTS_OFF);
}

/* 0; -ENOENT: none is wanted; another -errno: it was said why there is none. */
static int begin_log(void)
{
	const char *output = secure_getenv("CALLTRACE_OUTPUT");
	struct wc_error *err;
	int ret;

	if (!output || !*output)
		return -ENOENT;
	err = open_log(output);
	if (err) {
		ret = say_error(err);
		return ret == -EIO && access(runtime.place.path, F_OK) == 0 ? -EEXIST : ret;
	}
	runtime.logs++;
	runtime.is_enabled = starts_enabled();
	threads_record();
	modules_switch(runtime.is_enabled);
	return 0;
}

/* Under the lock: makes the log that is made without being asked for. */
static void runtime_begin(void)
{
	if (runtime.was_begun || runtime.has_ended)
		return;
	runtime.was_begun = true;
	if (!(runtime.flags & CALLTRACE_WAITS))
		begin_log();
}

/* Modules */

static void refuse_module(const struct calltrace_function *begin, const char *why)
{
	char text[PATH_MAX + 160], name[PATH_MAX];

	runtime.refused++;
	if (!is_tracing())
		return;
	own_log_module_name(begin, name, sizeof(name));
	snprintf(text, sizeof(text), "calls in %s are not recorded: %s", *name ? name : "a module", why);
	say(text, "");
	error_number(own_log_put_note(runtime.log, text));
}

/* The module is in the table: puts it into the log, and turns it on. */
static void put_module(const struct calltrace_function *begin, const struct calltrace_function *end,
		       uint8_t *on, uint32_t base)
{
	struct wc_error *err = own_log_put_functions(runtime.log, begin, end, base);

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
	const char *why;
	struct guard g;
	uint32_t base;

	runtime_lock(&g);
	if (!runtime.has_flags)
		runtime.flags = flags;
	runtime.has_flags = true;
	if (flags & CALLTRACE_NO_TIME && !runtime.has_untimed) {
		runtime.has_untimed = true;
		if (is_tracing())
			keep_error(put_untimed_note());
	}
	runtime_begin();
	if (begin < end) {
		why = modules_add(begin, end, on, &base);
		if (why)
			refuse_module(begin, why);
		else if (is_tracing())
			put_module(begin, end, on, base);
	}
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

/* 0, or the -errno of what could not be written. */
static int end_log(void)
{
	uint64_t discarded;
	int ret;

	modules_switch(false);
	ret = (int)threads_finish();
	keep_error(put_new_threads());
	discarded = threads_discarded();
	if (discarded)
		keep_error(own_log_put_lost(runtime.log, discarded));
	keep_error(own_log_close(take_ptr(runtime.log)));
	return ret;
}

PUBLIC int calltrace_initialize(void)
{
	struct guard g;
	int ret = 0;

	/* A copy that no handler of fork() has seen: our lock may be held in it for ever. */
	if (threads_have_begun() && !threads_are_ours())
		return -ENOTSUP;
	runtime_lock(&g);
	runtime.was_begun = true;
	if (runtime.has_ended)
		ret = -ENOENT;
	else if (!is_tracing())
		ret = begin_log();
	runtime_unlock(&g);
	return ret;
}

PUBLIC int calltrace_deinitialize(void)
{
	int ret = -ENOENT, failed;
	struct guard g;

	runtime_lock(&g);
	runtime.was_begun = true;
	if (is_tracing()) {
		ret = end_log();
		failed = error_number(take_ptr(runtime.error));
		ret = failed ? failed : ret;
	}
	runtime_unlock(&g);
	return ret;
}

PUBLIC int calltrace_clear(void)
{
	struct guard g;
	int ret = -ENOENT;

	runtime_lock(&g);
	if (is_tracing()) {
		pause_ring();
		threads_clear();
		resume_ring();
		ret = error_number(own_log_put_note(
			runtime.log,
			"the program has cleared what was recorded up to here and not written yet: "
			"earlier calls may be missing, and are not counted as lost"));
	}
	runtime_unlock(&g);
	return ret;
}

/* The program's own events */

/* Puts it before any event of it is recorded: nobody knows it yet. */
static void put_event_type(unsigned int type, const char *name, const char *format)
{
	struct wc_error *err = own_log_put_event_type(runtime.log, type, name, format);

	if (!err)
		err = own_log_flush(runtime.log);
	if (err)
		give_up(err);
}

PUBLIC int calltrace_event_type(const char *name, const char *format)
{
	struct guard g;
	bool is_new;
	int ret;

	runtime_lock(&g);
	runtime_begin();
	ret = own_events_add(name, format, &is_new);
	if (is_new && is_tracing() && own_events_get((unsigned int)ret, &name, &format))
		put_event_type((unsigned int)ret, name, format);
	runtime_unlock(&g);
	return ret;
}

/* Closed logs */

struct listing {
	int (*each)(const char *path, uint64_t bytes, int64_t modified_s, void *ctx);
	void *ctx;
	int64_t before_s; /* for deleting */
	int deleted, error;
};

/* Without the lock: @each may call us. A log that is begun meanwhile is known by its mark. */
static int each_closed_log(int (*each)(const struct closed_log *l, void *ctx), struct listing *l)
{
	const char *output = secure_getenv("CALLTRACE_OUTPUT");
	struct output_place own;
	bool has_own;
	struct guard g;

	if (!output || !*output)
		return -ENOENT;
	runtime_lock(&g);
	has_own = is_tracing();
	own.device = runtime.place.device;
	own.inode = runtime.place.inode;
	runtime_unlock(&g);
	return closed_logs_each(output, has_own ? &own : NULL, each, l);
}

static int list_log(const struct closed_log *l, void *ctx)
{
	const struct listing *to = ctx;

	return to->each(l->path, l->bytes, l->modified_s, to->ctx);
}

PUBLIC int calltrace_logs(int (*each)(const char *path, uint64_t bytes, int64_t modified_s, void *ctx),
			  void *ctx)
{
	struct listing l = { .each = each, .ctx = ctx };

	return each_closed_log(list_log, &l);
}

static int delete_log(const struct closed_log *l, void *ctx)
{
	struct listing *from = ctx;
	int err;

	if (l->modified_s >= from->before_s || l->has_others)
		return 0;
	err = closed_log_delete(l);
	if (!err)
		from->deleted++;
	else if (!from->error)
		from->error = err;
	return 0;
}

PUBLIC int calltrace_delete_logs_older_than(int64_t seconds)
{
	struct listing l = { 0 };
	int ret;

	if (seconds < 0)
		return -EINVAL;
	l.before_s = (int64_t)time(NULL) - seconds;
	ret = each_closed_log(delete_log, &l);
	ret = ret ? ret : l.error;
	return ret ? ret : l.deleted;
}

/* The end of the process */

/* After the program's exit handlers and destructors. */
__attribute__((destructor(101))) static void on_exit_of_process(void)
{
	struct guard g;

	runtime_lock(&g);
	runtime.has_ended = true;
	if (is_tracing()) {
		end_log();
		if (runtime.error)
			say(runtime.error->text, "");
		wc_error_free(take_ptr(runtime.error));
	}
	runtime_unlock(&g);
}
