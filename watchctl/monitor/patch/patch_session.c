#include "watchctl/monitor/patch/patch_session.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "watchctl/base/clock.h"
#include "watchctl/monitor/patch/patch_session_impl.h"
#include "watchctl/session/process_event.h"
#include "watchctl/session/session.h"
#include "watchctl/target/proc/end_signal.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/proc/process_fd.h"
#include "watchctl/target/proc/translated.h"
#include "watchctl/target/stop/launch.h"
#include "watchctl/target/stop/run_to_entry.h"

#define PUMP_NS 20000000
#define CALLS_NS \
	4000000 /* ... where threads have buffers: of these the first ones are there already, and take less */
#define BUSY_NS 1000000
#define MODULES_NS 100000000ull
#define LIST_NS 1000000000ull /* what comes and goes between two looks may look as if nothing had */
#define BESIDE_NS 5000000     /* between two looks while another source does the waiting */
#define COUNTERS_LEAST \
	4096u /* sites that there can be: so many more may come with libraries than there are at first */

struct wc_error *session_put(struct patch_session *s, struct trace_event *e)
{
	if (!e->time_ns)
		e->time_ns = monotonic_ns();
	return s->sink.put(s->sink.ctx, e);
}

struct wc_error *session_note(struct patch_session *s, const char *fmt, ...)
{
	struct trace_event e = { .type = EVENT_NOTE };
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	e.note.text = text;
	return session_put(s, &e);
}

/* Opening */

/* What a program may have that makes it unsafe to be patched, and cheap to ask. */
static struct wc_error *check_program(const struct patch_session *s)
{
	struct proc_status status;
	char who[64];

	if (!proc_status_read(s->pid, s->pid, &status))
		return NULL;
	if (status.tracer && !s->launched) {
		proc_describe(status.tracer, who, sizeof(who));
		return wc_error_new(
			WC_EPERM,
			"process %d is traced by %s, so that its threads cannot be stopped for a moment: "
			"detach that tracer first",
			s->pid, who);
	}
	if (status.shadow_stack)
		return wc_error_new(
			WC_ENOTSUP,
			"process %d runs with a shadow stack: returns through patches would end it, so that "
			"nothing is patched",
			s->pid);
	return proc_check_translated(s->pid, "nothing is patched");
}

static struct wc_error *start_program(struct patch_session *s)
{
	enum same_addresses *same = s->options.addresses;
	struct wc_error *err;

	if (!s->launched)
		return proc_check(s->pid);
	err = launch_start(s->options.argv, same ? LAUNCH_SAME : LAUNCH_RANDOM, &s->held);
	if (err)
		return err;
	s->pid = s->held.pid;
	/* One that is linked statically is all there. */
	if (run_to_entry_has_loader(s->pid))
		err = run_to_entry(&s->held);
	if (!err && same)
		*same = same_addresses_take_back(&s->held);
	return err;
}

static struct wc_error *look_after(struct patch_session *s)
{
	struct wc_error *err = process_fd_open(s->pid, &s->pidfd);

	if (err)
		return err;
	s->stack_start = proc_stack_start(s->pid);
	exec_watch_open(&s->exec,
			s->pid); /* not permitted: then an exec shows by what becomes of its memory */
	s->facts = code_facts_new(s->pid, NULL, s->sink);
	if (!s->facts)
		return &wc_enomem;
	followed_init(&s->who, s->pid, s->sink);
	s->who.alone = true;
	tsc_clock_sample(&s->clock);
	return NULL;
}

struct wc_error *session_place(struct patch_session *s, size_t sites)
{
	const struct probe_place_request q = { .pid = s->pid,
					       .held = s->launched ? &s->held : NULL,
					       .image = s->options.image,
					       .counters = 2 * sites + COUNTERS_LEAST,
					       .tallied = !s->options.taker, /* who limits by counts */
					       .slots = s->options.slots,
					       .stack_bytes = s->options.stack_bytes,
					       .call_bytes = s->options.call_bytes,
					       .call_plans = s->options.call_plans };
	struct wc_error *err = probe_place(&q, &s->place);

	if (err)
		return err;
	s->rings = probe_rings_new(&s->place);
	if (s->place.calls)
		s->buffers = call_buffers_new(&s->place);
	return s->rings && (s->buffers || !s->place.calls) ? NULL : &wc_enomem;
}

static size_t applied(const struct patch_session *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->nsites; i++)
		n += s->site[i].applied;
	return n;
}

static struct wc_error *nothing_applied(const struct patch_session *s)
{
	if (s->options.pending && (!s->nsites || s->options.taker))
		return NULL;
	if (!s->nsites && s->options.taker)
		return wc_error_new(WC_ENAME, "%s in process %d%s%s", s->options.taker->nothing, s->pid,
				    s->options.in ? ", in " : "", s->options.in ? s->options.in : "");
	if (!s->nsites)
		return wc_error_new(WC_ENAME,
				    "%s in process %d%s%s%s%s; where it may come with a library that is "
				    "loaded later, --pending waits for that",
				    s->options.query->npatterns == 1 ? "the pattern fits nowhere"
								     : "none of the patterns fits anywhere",
				    s->pid,
				    s->options.query->function ? ", in functions that are called " : "",
				    s->options.query->function ? s->options.query->function : "",
				    s->options.in ? ", in " : "", s->options.in ? s->options.in : "");
	return wc_error_new(WC_ENOTSUP, "none of the %zu site%s can be patched: %s", s->nsites,
			    s->nsites == 1 ? "" : "s", s->site[0].why);
}

/* What is patched is what the log has been told of: both are of one look. */
static struct wc_error *look_at_modules(struct patch_session *s, bool first)
{
	bool changed;
	struct wc_error *err = code_facts_refresh(s->facts, s->modules_ns, &changed);

	if (err)
		return err;
	s->modules_ns = s->listed_ns = monotonic_ns();
	return session_patch_modules(s, first);
}

static struct wc_error *tell_taker_opened(const struct patch_session *s)
{
	const struct patch_taker *taker = s->options.taker;

	return taker && taker->opened ? taker->opened(taker->ctx, s->pid) : NULL;
}

static struct wc_error *open_all(struct patch_session *s)
{
	struct wc_error *err = start_program(s);

	if (!err)
		err = check_program(s);
	if (!err)
		err = look_after(s);
	if (!err)
		err = process_event_put(s->pid, s->sink);
	if (!err)
		err = tell_taker_opened(s);
	if (!err)
		err = patch_session_clear(s->pid, false, NULL, NULL);
	if (!err)
		err = look_at_modules(s, true);
	if (!err && !applied(s))
		err = nothing_applied(s);
	return err;
}

void patch_session_so_far(const struct patch_session *s, struct patch_session_counts *ret)
{
	const size_t n = applied(s);

	*ret = (struct patch_session_counts){
		.sites = s->nsites, .applied = n, .refused = s->nsites - n, .modules = s->modules_with_sites
	};
}

static void free_session(struct patch_session *s)
{
	probe_rings_free(s->rings);
	call_buffers_free(s->buffers);
	probe_place_deinit(&s->place);
	code_facts_free(s->facts);
	followed_deinit(&s->who);
	exec_watch_close(&s->exec);
	if (s->pidfd >= 0)
		close(s->pidfd);
	session_forget_known(s);
	free(s->site);
	free(s);
}

static void drop_child(struct patch_session *s)
{
	if (!s->launched || s->pid <= 0)
		return;
	kill(s->pid, SIGKILL); /* while it stands: it never runs */
	if (s->held.tid)
		tracee_release(&s->held);
	while (waitpid(s->pid, &s->wait_status, __WALL) == s->pid && WIFSTOPPED(s->wait_status))
		;
}

/* Whatever is there goes; what has to stay is said. */
static struct wc_error *withdraw(struct patch_session *s)
{
	struct patch_undone u = { 0 };
	struct wc_error *err;

	if (!s->place.home || s->over)
		return NULL;
	err = patch_undo(&s->place, &u, &s->holds);
	if (err)
		return err->kind == WC_ETARGET ? (wc_error_free(err), NULL) : err;
	if (u.foreign)
		return wc_error_new(
			WC_EFAIL,
			"%zu patched place%s of process %d has been changed by somebody else since, and stays: "
			"so does the memory of the probes, which do nothing now; \"watchctl clear -p %d\" tries "
			"again",
			u.foreign, u.foreign == 1 ? "" : "s", s->pid, s->pid);
	if (u.occupied)
		return wc_error_new(
			WC_EFAIL,
			"process %d is as it was, but a thread is still on its way through a probe, or waits in "
			"a moved system call: the memory of the probes stays; \"watchctl clear -p %d\" takes it "
			"out later",
			s->pid, s->pid);
	err = probe_place_remove(&s->place);
	return err && err->kind == WC_ETARGET ? (wc_error_free(err), NULL) : err;
}

struct wc_error *patch_session_open(const struct patch_session_options *o, struct event_sink sink,
				    struct patch_session **ret)
{
	struct patch_session *s = calloc(1, sizeof(*s));
	struct wc_error *err;

	if (!s)
		return &wc_enomem;
	*s = (struct patch_session){ .options = *o,
				     .sink = sink,
				     .pid = o->pid,
				     .launched = !o->pid,
				     .wait_status = -1,
				     .pidfd = -1,
				     .exec = { .fd = -1 },
				     .began_ns = monotonic_ns(),
				     .end = SESSION_STOPPED };
	err = open_all(s);
	if (err) {
		if (s->launched)
			drop_child(s);
		else
			err = wc_error_first(err, withdraw(s));
		free_session(s);
		return err;
	}
	if (s->held.tid && !o->hold)
		tracee_release(&s->held);
	s->stands = s->held.tid && o->hold;
	*ret = s;
	return NULL;
}

struct tracee *patch_session_held(struct patch_session *s)
{
	return s->held.tid ? &s->held : NULL;
}

pid_t patch_session_pid(const struct patch_session *s)
{
	return s->pid;
}

void patch_session_switch(struct patch_session *s, uint32_t site, enum call_off to)
{
	call_buffers_switch(s->buffers, site, to);
}

void patch_session_wait(struct patch_session *s)
{
	call_buffers_wait(s->buffers, true);
}

bool patch_session_plan(struct patch_session *s, uint32_t site, const struct call_plan *plan)
{
	return call_buffers_plan(s->buffers, site, plan);
}

void patch_session_errno(struct patch_session *s, int32_t at)
{
	call_buffers_errno(s->buffers, at);
}

bool patch_session_fixed(struct patch_session *s, uint64_t start, uint64_t end)
{
	return call_buffers_fixed(s->buffers, start, end);
}

void patch_session_stack(struct patch_session *s, uint32_t tid, uint64_t start, uint64_t end, bool is_main)
{
	call_buffers_stack(s->buffers, tid, start, end, is_main);
}

uint64_t patch_session_thread_pointer(const struct patch_session *s)
{
	return s->place.thread_pointer;
}

/* Running */

static bool any_reached(const struct patch_session *s)
{
	for (size_t i = 0; i < s->nsites && s->place.counter; i++)
		if (s->place.counter[i].count)
			return true;
	return false;
}

static void note_end_signal(struct patch_session *s)
{
	const char *faults = "";

	s->end_signal = end_signal(s->pid, s->pidfd);
	if ((s->end_signal == SIGSEGV || s->end_signal == SIGBUS || s->end_signal == SIGFPE ||
	     s->end_signal == SIGILL) &&
	    any_reached(s))
		faults = "; a probe that faults does that: probe_read() reads what may not be there";
	if (s->end_signal)
		wc_error_free(session_note(s, "the process was ended by signal %d, %s%s", s->end_signal,
					   strsignal(s->end_signal), faults));
}

static void look_for_end(struct patch_session *s)
{
	s->over = exec_watch_is_over(&s->exec, s->pidfd, &s->end);
	if (s->over && s->end == SESSION_EXITED)
		note_end_signal(s);
}

/* Where something has come, more will. A program that executes another may end soon: it is looked at at once. */
static void wait_a_little(struct patch_session *s, bool busy)
{
	struct pollfd p[] = { { .fd = s->pidfd, .events = POLLIN },
			      { .fd = s->exec.leader_ended ? -1 : s->exec.fd } };

	const long idle = s->buffers ? CALLS_NS : PUMP_NS;

	ppoll(p, sizeof(p) / sizeof(p[0]), &(struct timespec){ .tv_nsec = busy ? BUSY_NS : idle }, NULL);
}

/* What comes later and cannot be patched is no reason to end: the rest goes on. */
static struct wc_error *note_if_not_patched(struct patch_session *s, struct wc_error *err)
{
	struct wc_error *note;

	if (!err || (err->kind != WC_ENOTSUP && err->kind != WC_EPERM))
		return err;
	note = session_note(s, "a module that was loaded later is not patched: %s", err->text);
	wc_error_free(err);
	return note;
}

static struct wc_error *follow_modules(struct patch_session *s)
{
	const uint64_t now = monotonic_ns();

	if (now - s->modules_ns < MODULES_NS)
		return NULL;
	if (code_facts_moved(s->facts) || session_has_displaced(s) || now - s->listed_ns >= LIST_NS)
		return note_if_not_patched(s, look_at_modules(s, false));
	s->modules_ns = now;
	return NULL;
}

/* An error about a program that has gone meanwhile is its end. */
static struct wc_error *gone_is_over(struct patch_session *s, struct wc_error *err)
{
	if (!err || err->kind != WC_ETARGET)
		return err;
	look_for_end(s);
	if (!s->over && proc_has_execed(s->pid, s->stack_start)) {
		s->over = true;
		s->end = SESSION_EXECED;
	}
	if (!s->over)
		return err;
	wc_error_free(err);
	return NULL;
}

struct wc_error *patch_session_begin(struct patch_session *s)
{
	s->options.hold = false;
	s->stands = false;
	return gone_is_over(s, patch_switch(&s->place, probe_place_on(&s->place)));
}

static struct wc_error *take(struct patch_session *s, bool may_wait)
{
	const uint64_t before = s->recorded;
	bool more = false;
	struct wc_error *err = session_take_records(s, false, &more);

	if (!err)
		err = gone_is_over(s, follow_modules(s));
	if (!err && !s->over && !more && may_wait)
		wait_a_little(s, s->recorded != before);
	if (!s->over)
		look_for_end(s);
	return err;
}

static struct wc_error *patch_pump(void *self, bool may_wait, enum source_state *state, enum session_end *end)
{
	struct patch_session *s = self;
	const uint64_t now = monotonic_ns();
	struct wc_error *err = NULL;

	if (!s->over && (may_wait || now - s->taken_ns >= BESIDE_NS)) {
		s->taken_ns = now;
		err = take(s, may_wait);
	}
	if (s->over || s->enough) {
		*state = SOURCE_ENDED;
		*end = s->over ? s->end : SESSION_COUNT;
	}
	return err;
}

static uint64_t patch_count(const void *self)
{
	return ((const struct patch_session *)self)->recorded;
}

struct source patch_session_source(struct patch_session *s, uint64_t count)
{
	static const struct source_ops ops = { .pump = patch_pump, .count = patch_count };

	s->limit = count;
	return (struct source){ &ops, s };
}

struct wc_error *patch_session_run(struct patch_session *s, const struct session_limits *l,
				   enum session_end *ret)
{
	const struct source source = patch_session_source(s, l->count);
	struct wc_error *err;

	s->began_ns = monotonic_ns();
	err = session_run(&source, 1, l, ret);
	if (err)
		*ret = s->end;
	return err;
}

/* Closing */

static struct wc_error *report_total(struct patch_session *s, size_t i, struct patch_session_counts *c)
{
	const struct probe_counter *n = &s->place.counter[i];
	struct trace_event e = { .type = EVENT_PROBE_TOTAL,
				 .probe_total = { (uint32_t)i, probe_place_count(&s->place, i), n->lost } };

	c->reached += e.probe_total.count;
	c->lost += e.probe_total.lost;
	return s->options.taker ? NULL : session_put(s, &e);
}

static struct wc_error *report_totals(struct patch_session *s, struct patch_session_counts *c)
{
	struct wc_error *err = NULL;

	for (size_t i = 0; i < s->nsites && !err; i++) {
		c->sites++;
		c->applied += s->site[i].applied;
		c->refused += !s->site[i].applied;
		if (s->site[i].applied && s->place.counter)
			err = report_total(s, i, c);
	}
	return err;
}

static struct wc_error *report_lost(struct patch_session *s, uint64_t count, const char *why)
{
	struct trace_event e = { .type = EVENT_LOST,
				 .lost = { .watch = WATCH_PROBES, .count = count, .why = why } };

	if (s->options.taker)
		return NULL; /* who knows which of its calls they are of */

	return count ? session_put(s, &e) : NULL;
}

static struct wc_error *report_summary(struct patch_session *s, struct patch_session_counts *c)
{
	struct trace_event e = { .type = EVENT_SUMMARY };
	struct wc_error *err = report_totals(s, c);

	c->modules = s->modules_with_sites;
	c->recorded = s->recorded;
	c->unfinished = s->buffers ? call_buffers_unfinished(s->buffers)
			: s->rings ? probe_rings_unfinished(s->rings)
				   : 0;
	c->longest_stop_ns = s->holds.longest_ns;
	c->stops = s->holds.stops;
	if (!err)
		err = report_lost(s, c->lost, "the buffer was full");
	if (!err)
		err = report_lost(s, c->unfinished,
				  "never completed: the thread left the probe by a jump, or ended in it");
	if (!err && s->buffers && c->unfinished)
		err = session_note(
			s,
			"%llu entries or ends of calls are missing: a thread was interrupted there by a "
			"signal's handler that has not come back, or ended",
			(unsigned long long)c->unfinished);
	if (err || s->options.taker)
		return err;
	e.summary = (struct summary_event){
		.watch = WATCH_PROBES,
		.has_counted = true,
		.counted = c->reached,
		.recorded = c->recorded,
		.lost = c->lost + c->unfinished,
		.duration_ns = monotonic_ns() - s->began_ns,
	};
	return session_put(s, &e);
}

static struct wc_error *report_end(struct patch_session *s)
{
	if (s->end == SESSION_EXECED)
		return session_note(
			s, "the process has executed another program: its probes ended with the one before");
	return s->end == SESSION_EXITED ? session_report_heirs(s) : NULL;
}

#define LAST_READS 8u

/* Threads that wait for room are in the way of what takes the probes out: they get some, or lose what they have. */
static struct wc_error *end_waiting(struct patch_session *s)
{
	struct wc_error *err = NULL;
	bool more = s->buffers && !s->over;

	for (unsigned int i = 0; more && !err && i < LAST_READS; i++)
		err = session_take_records(s, false, &more);
	if (s->buffers)
		call_buffers_wait(s->buffers, false);
	return err;
}

struct wc_error *patch_session_close(struct patch_session *s, struct patch_session_counts *counts)
{
	struct patch_session_counts c = { 0 };
	struct wc_error *err, *left, *early;
	bool more;

	if (!s)
		return NULL;
	if (s->stands) {
		drop_child(s);
		s->over = true;
	}
	early = end_waiting(s);
	left = withdraw(s);
	do
		err = session_take_records(s, true, &more);
	while (!err && more);
	if (!err)
		err = report_end(s);
	if (!err)
		err = report_summary(s, &c);
	if (counts)
		*counts = c;
	if (s->launched && s->over)
		waitpid(s->pid, &s->wait_status, WNOHANG);
	free_session(s);
	return wc_error_first(wc_error_first(early, err), left);
}
