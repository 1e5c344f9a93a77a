/*
 * engine_ptrace - works wherever ptrace does: nothing is put into the program, no perf event is opened. Two
 * helper processes do the work and look after its safety (ptrace_box.h); this side asks them, and reads the
 * ring that one of them writes.
 *
 * Not to be seen this way: accesses that the kernel makes on the program's behalf. The debug exception comes
 * there as well, but the kernel raises no signal for it.
 */
#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/engine/plan/watchpoint.h"
#include "watchctl/engine/ptrace/ptrace_engine.h"
#include "watchctl/target/inject/trap_known.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/tracee.h"

#define PASS_NS 5000000ull	 /* how long we sleep between looks at the ring */
#define CHECK_NS 50000000ull	 /* how often we look whether our helpers live */
#define MODULES_NS 1000000000ull /* how often at the modules, unasked */
#define END_NS 2000000000ull	 /* so long a thread that cannot be stopped is waited for at the end */
#define BUSY_NS 15000000000ull	 /* ... and so long all of them, on a machine that is busy */

/* Opening */

static void fill_control(struct engine *e)
{
	struct wire_control *c = e->ctl;
	const struct engine_options *o = &e->options;
	struct proc_status s;

	c->magic = WIRE_MAGIC;
	c->version = WIRE_VERSION;
	if (getrandom(&c->commit_key, sizeof(c->commit_key), 0) < 0)
		c->commit_key = monotonic_ns() * 0x9e3779b97f4a7c15u;
	c->max_frames = o->frames;
	c->raw_size = (uint32_t)(o->buffer_size / 8 < WIRE_RAW_MAX ? o->buffer_size / 8 : WIRE_RAW_MAX);
	c->facts_offset = WIRE_FACTS_OFFSET;
	c->rules_offset = WIRE_RULES_OFFSET;
	c->ring_offset = WIRE_RING_OFFSET;
	c->ring_size = o->buffer_size;
	c->owner_pid = getpid();
	c->owner_start = proc_start_time(getpid());
	c->target_pid = proc_status_read(e->pid, e->pid, &s) ? s.ns_id : e->pid;
	c->wake = 1;
	c->heartbeat = monotonic_ns();
	c->patience_ns = o->held && o->held->tid ? HOLD_START_NS : HOLD_NS;
	e->box->magic = PTRACE_BOX_MAGIC;
	e->box->version = PTRACE_BOX_VERSION;
	e->box->target_pid = e->pid;
	e->box->target_start = proc_start_time(e->pid);
	e->box->follow_fork = o->follow_fork;
	e->box->follow_exec = o->follow_exec;
	e->box->held = o->held && o->held->tid;
	e->box->starts_anew = e->box->held && o->follow_exec;
}

static struct wc_error *make_memory(struct engine *e, int *ret_fd)
{
	size_t size = WIRE_RING_OFFSET + e->options.buffer_size;
	scoped(closep) int fd = memfd_create(PTRACE_BOX_FILE, MFD_CLOEXEC);
	void *map = MAP_FAILED;

	if (fd >= 0 && !ftruncate(fd, (off_t)size))
		map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return wc_error_errno(WC_EFAIL, errno, "cannot make the event buffer");
	e->memory = (struct wire_memory){ map, size };
	e->area = wire_area_in(&e->memory);
	e->ctl = map;
	e->box = ptrace_box_of(e->ctl);
	fill_control(e);
	if (!e->box->held)
		trap_known_ask(e->pid, &e->box->trap);
	*ret_fd = take_fd(fd);
	return NULL;
}

static struct wc_error *close_engine(struct engine *e);

static void beat(void *ctx)
{
	struct engine *e = ctx;

	__atomic_store_n(&e->ctl->heartbeat, monotonic_ns(), __ATOMIC_RELAXED);
}

static struct wc_error *open_engine(pid_t pid, const struct engine_options *o, struct event_sink sink,
				    struct engine **ret)
{
	scoped(closep) int memory_fd = -1;
	struct wc_error *err = proc_check(pid);
	struct engine *e;

	if (err)
		return err;
	e = calloc(1, sizeof(*e));
	if (!e)
		return &wc_enomem;
	e->pid = pid;
	e->options = *o;
	e->sink = sink;
	e->tracer_fd = -1;
	err = make_memory(e, &memory_fd);
	if (!err)
		err = ptrace_helpers_start(e, memory_fd);
	if (!err) {
		if (o->held && o->held->tid)
			heartbeat_start(&e->heartbeat, beat, e);
		ptrace_helpers_hand_over(e, o->held);
		err = ptrace_helpers_ask(e, BOX_SEIZE, 0);
	}
	if (!err)
		err = intake_init(&e->intake, pid, o, sink, &e->area, e->ctl);
	if (err) {
		wc_error_free(close_engine(e));
		return err;
	}
	e->box->unreported = !intake_is_reported(&e->intake);
	*ret = e;
	return NULL;
}

/* Arming */

static struct wc_error *engine_ptrace_refuse(const struct engine *e, const struct watchpoint *w)
{
	unsigned int i, n = 0;

	for (i = 0; i < WIRE_WATCHES; i++)
		n += e->watch[i].armed && !e->watch[i].disarmed;
	if (n == ENGINE_WATCHES)
		return wc_error_new(
			WC_ESLOTS,
			"no debug register is left: a CPU has %u, and this command uses all of them",
			ENGINE_WATCHES);
	return watchpoint_check_place(w, e->pid);
}

static void counts_of(const struct engine *e, unsigned int i, struct engine_counts *ret)
{
	*ret = (struct engine_counts){
		.has_counted = true,
		.counted = __atomic_load_n(&e->box->watch[i].counted, __ATOMIC_RELAXED),
		.recorded = e->intake.watch[i].recorded,
		.filtered = e->intake.watch[i].filtered + e->ctl->watch[i].filtered,
		.lost_full = e->ctl->watch[i].lost,
	};
}

static void add_counts(struct engine_counts *sum, const struct engine_counts *c)
{
	sum->has_counted |= c->has_counted;
	sum->counted += c->counted;
	sum->recorded += c->recorded;
	sum->filtered += c->filtered;
	sum->lost_full += c->lost_full;
}

/* How many hits of what is, or was, in place @i have been counted and have not come yet. */
static uint64_t outstanding_at(const struct engine *e, unsigned int i)
{
	struct engine_counts c;
	uint64_t known;

	counts_of(e, i, &c);
	known = c.recorded + c.filtered + c.lost_full;
	return c.counted > known ? c.counted - known : 0;
}

/* What has not come by now will be taken for nobody's. */
static void give_up_rest(struct engine_counts *c)
{
	uint64_t known = c->recorded + c->filtered + c->lost_full;

	c->lost_full += c->counted > known ? c->counted - known : 0;
}

static uint32_t wire_flags(const struct watchpoint *w)
{
	uint32_t flags = 0;

	if (w->access == ACCESS_READ || w->access == ACCESS_READWRITE)
		flags |= WIRE_WATCH_READS;
	if (w->access == ACCESS_READ)
		flags |= WIRE_WATCH_READS_ONLY;
	if (w->access == ACCESS_EXECUTE)
		flags |= WIRE_WATCH_EXECUTE;
	if (w->hook)
		flags |= WIRE_WATCH_HOLD;
	if (w->filter)
		flags |= WIRE_WATCH_FILTER;
	if (w->address)
		flags |= WIRE_WATCH_PER_THREAD;
	return flags;
}

/* What the tracer must know of watch @i. */
static void engine_ptrace_publish(struct engine *e, unsigned int i, uint64_t value)
{
	const struct watchpoint *w = &e->watch[i].w;

	if (w->filter)
		memcpy((char *)e->ctl + WIRE_FILTERS_OFFSET + i * sizeof(*w->filter), w->filter,
		       sizeof(*w->filter));
	e->ctl->watch[i] = (struct wire_watch){
		.addr = w->addr,
		.size = w->size,
		.flags = wire_flags(w),
		.shadow = value,
		.want_offset = (uint32_t)(w->want_addr - w->addr),
		.want_size = w->want_size,
	};
	if (e->ctl->nwatches <= i)
		e->ctl->nwatches = i + 1;
	e->box->watch[i] = (struct box_watch){
		.addr = w->address ? 0 : w->addr,
		.size = w->size,
		.access = w->access,
		.slot = w->slot,
	};
}

/* The kernel makes a process that is hit forget that it ignores SIGTRAP. The tracer puts that back, if it
 * may. */
static struct wc_error *report_ignored(struct engine *e)
{
	struct trace_event event = { .type = EVENT_NOTE, .time_ns = monotonic_ns() };
	struct proc_status s;
	char text[200];

	if (e->reported_ignored || !proc_status_read(e->pid, e->pid, &s) || !(s.ignored & PROC_SIGTRAP) ||
	    !s.seccomp)
		return NULL;
	e->reported_ignored = true;
	snprintf(
		text, sizeof(text),
		"process %d ignores SIGTRAP: the first hit would make the kernel reset this to the default action, "
		"which cannot be undone under seccomp",
		e->pid);
	event.note.text = text;
	return e->sink.put(e->sink.ctx, &event);
}

/* Not before the caller has reported the program, to which the modules belong. */
static struct wc_error *look_at_other_program(struct engine *e)
{
	if (!e->other_program)
		return NULL;
	e->other_program = false;
	return intake_other_program(&e->intake);
}

static bool is_better_place(const struct engine *e, int i, int than)
{
	bool waits = outstanding_at(e, (unsigned int)i), other_waits = outstanding_at(e, (unsigned int)than);

	return waits == other_waits ? e->watch[i].disarmed_ns < e->watch[than].disarmed_ns : other_waits;
}

static struct wc_error *drain(struct engine *e, bool is_watched);

/* What the ring holds now, and what waits for room in it. Hits of hooks are kept for later. */
static struct wc_error *drain_for_place(struct engine *e)
{
	bool was_hit = e->intake.hook_hit;
	struct wc_error *err;

	e->intake.hook_hit = false; /* it would take nothing */
	e->intake.hooks_wait = true;
	err = drain(e, true);
	e->intake.hooks_wait = false;
	e->intake.hook_hit = was_hit;
	return err;
}

/*
 * A place for one more watch: one never used, else of the one that was disarmed first, with no hits of it under way any
 * more, and whose counts are kept. A hit that came later would be taken for one of the new watch.
 */
static struct wc_error *find_place(struct engine *e, int *ret)
{
	struct wc_error *err = NULL;
	struct engine_counts c;
	int i, old = -1;

	for (i = 0; i < (int)WIRE_WATCHES && e->watch[i].armed; i++)
		if (e->watch[i].disarmed && (old < 0 || is_better_place(e, i, old)))
			old = i;
	*ret = i < (int)WIRE_WATCHES ? i : old;
	if (i < (int)WIRE_WATCHES)
		return NULL;
	if (old < 0)
		return wc_error_new(WC_EFAIL, "no place is left for one more watch");
	if (outstanding_at(e, (unsigned int)old))
		err = drain_for_place(e);
	if (!err && !e->watch[old].w.hook && !e->watch[old].finished) {
		counts_of(e, (unsigned int)old, &c);
		give_up_rest(&c);
		if (!past_counts_add(&e->past, e->watch[old].w.id, &c))
			err = &wc_enomem;
	}
	e->watch[old].armed = false;
	return err;
}

static struct wc_error *arm(struct engine *e, const struct watchpoint *w, struct arm_report *ret)
{
	struct arm_report report = { 0 };
	struct wc_error *err = engine_ptrace_refuse(e, w);
	struct ptraced_watch *a;
	int i;

	if (!err)
		err = look_at_other_program(e);
	if (err)
		return err;
	err = find_place(e, &i);
	if (err)
		return err;
	intake_arm(&e->intake, (unsigned int)i, w);
	a = &e->watch[i];
	*a = (struct ptraced_watch){ .w = e->intake.watch[i].w };
	report.has_value = watchpoint_value(&a->w, e->pid, &report.value);
	engine_ptrace_publish(e, (unsigned int)i, report.value);
	err = ptrace_helpers_ask(e, BOX_ARM, (uint32_t)i);
	if (!err && !e->box->threads)
		err = wc_error_new(WC_ETARGET, "process %d ended while it was being armed", e->pid);
	if (err) {
		a->w = (struct watchpoint){ .slot = -1 }; /* nobody answers for its address */
		return err;
	}
	a->armed = true;
	report.kernel_refusal = "the ptrace engine gets no signal for them";
	report.threads = e->box->threads;
	report.threads_armed = e->box->threads_armed;
	*ret = report;
	return report_ignored(e);
}

static void disarm(struct engine *e, uint32_t id)
{
	uint32_t mask = 0;
	unsigned int i;

	for (i = 0; i < WIRE_WATCHES; i++) {
		struct ptraced_watch *a = &e->watch[i];

		if (!a->armed || a->disarmed || a->w.id != id)
			continue;
		a->disarmed = true;
		a->disarmed_ns = monotonic_ns();
		mask |= 1u << i;
	}
	if (mask)
		wc_error_free(ptrace_helpers_ask(e, BOX_DISARM, mask)); /* pump() shows why nobody answers */
}

/* Whether some thread may have got its copy by now: then it is worth to be stopped. */
static bool may_extend(const struct engine *e, unsigned int i)
{
	const struct watchpoint *w = &e->watch[i].w;
	unsigned int k;
	uint64_t addr;

	if (e->box->nthreads > BOX_THREADS)
		return true;
	for (k = 0; k < e->box->nthreads; k++) {
		const struct box_thread *t = &e->box->thread[k];

		if (__atomic_load_n(&t->tid, __ATOMIC_ACQUIRE) && (t->lacks >> i & 1) &&
		    (!t->thread_pointer || w->address(w->address_ctx, t->thread_pointer, &addr)))
			return true;
	}
	return false;
}

static struct wc_error *extend(struct engine *e, uint32_t id, uint32_t *ret)
{
	struct wc_error *err = NULL;
	uint32_t armed = 0;
	unsigned int i;

	for (i = 0; i < WIRE_WATCHES && !err; i++) {
		const struct ptraced_watch *a = &e->watch[i];

		if (!a->armed || a->disarmed || a->w.id != id || !a->w.address || !may_extend(e, i))
			continue;
		err = ptrace_helpers_ask(e, BOX_EXTEND, i);
		armed += e->box->threads_armed;
	}
	if (ret)
		*ret = armed;
	return err;
}

/* Pumping */

static struct wc_error *engine_ptrace_take(struct engine *e, bool *any)
{
	struct wc_error *err;

	e->intake.behind = __atomic_load_n(&e->ctl->behind, __ATOMIC_ACQUIRE);
	err = intake_pass(&e->intake, any);
	__atomic_fetch_add(&e->box->looks, 1, __ATOMIC_RELEASE);
	if (!e->intake.hook_hit)
		__atomic_store_n(&e->ctl->done, e->intake.ring.tail, __ATOMIC_RELEASE);
	unheld_lags(&e->unheld, e->ctl->done < e->intake.behind);
	return err;
}

static void begun(struct engine *e)
{
	if (!e->box->starts_anew)
		heartbeat_stop(&e->heartbeat);
	__atomic_store_n(&e->ctl->patience_ns, HOLD_NS, __ATOMIC_RELAXED);
}

static void let_go(struct engine *e)
{
	if (e->intake.hook_hit) {
		e->intake.hook_hit = false;
		wc_error_free(ptrace_helpers_ask(e, BOX_GO, (uint32_t)e->intake.hook.tid));
	}
	if (!e->held && !e->execed)
		return;
	e->held = e->execed = false;
	wc_error_free(ptrace_helpers_ask(e, BOX_GO, 0));
}

static void wait_for_records(const struct engine *e, uint64_t ns)
{
	uint32_t *wake = &e->ctl->wake;
	struct timespec t = { .tv_nsec = (long)ns };

	__atomic_store_n(wake, 0, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, wake, FUTEX_WAIT, 0, &t, NULL, 0);
	__atomic_store_n(wake, 1, __ATOMIC_SEQ_CST);
}

static struct wc_error *take_note(struct engine *e)
{
	struct trace_event event = { .type = EVENT_NOTE, .time_ns = monotonic_ns() };
	struct ptrace_box *box = e->box;
	char text[BOX_TEXT];

	if (__atomic_load_n(&box->noted, __ATOMIC_ACQUIRE) == box->notes_read)
		return NULL;
	memcpy(text, box->note, sizeof(text));
	__atomic_store_n(&box->notes_read, box->noted, __ATOMIC_RELEASE);
	event.note.text = text;
	return e->sink.put(e->sink.ctx, &event);
}

/*
 * The ring to its end, whatever the sink says to it. A program that is still watched may fill it as fast as
 * it is emptied: then what it holds now, and that is all.
 */
static struct wc_error *drain(struct engine *e, bool is_watched)
{
	uint64_t most = e->intake.ring.tail + e->intake.ring.size;
	struct wc_error *err = NULL;
	bool any;

	do {
		err = wc_error_first(err, engine_ptrace_take(e, &any));
		e->intake.hook_hit = false; /* whoever waits there is let go of with all others */
		if (!any && e->box->late)
			nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
	} while ((any || (e->box->late && !ptrace_helpers_lost(e))) &&
		 !(is_watched && e->intake.ring.tail >= most));
	return err;
}

static struct wc_error *engine_ptrace_check(struct engine *e, uint64_t now)
{
	struct wc_error *err;

	ptrace_helpers_answer(e);
	if (now - e->checked_ns < CHECK_NS)
		return take_note(e);
	e->checked_ns = now;
	ptrace_helpers_lost(e);
	err = unheld_is_reported(&e->unheld)
		      ? NULL
		      : unheld_report(&e->unheld, e->ctl->unheld, unheld_in_time, e->sink);
	if (!err)
		err = causeless_report(&e->causeless, e->ctl->causeless, false, e->sink);
	if (err)
		return err;
	if (e->intake.corrupt && !e->why[0])
		snprintf(e->why, sizeof(e->why),
			 "the event buffer holds data that the tracer cannot have written");
	if (e->box->restarting && !e->why[0])
		snprintf(
			e->why, sizeof(e->why),
			"thread %d makes the access inside a restartable sequence (rseq), which every stop restarts, "
			"for ever: choose --engine ring",
			e->box->restarting);
	return intake_refresh_modules(&e->intake, now, MODULES_NS);
}

/*
 * True: the target has come to an end or to another program, and everything was delivered; or the watch is to
 * be given up, which does not wait for that.
 */
static bool has_ended(struct engine *e, enum pump_result *ret, struct wc_error **ret_err)
{
	enum box_state state = __atomic_load_n(&e->box->state, __ATOMIC_ACQUIRE);

	if (state == BOX_TRACING && !e->why[0])
		return false;
	if (state != BOX_TRACING)
		*ret_err = drain(e, false);
	if (state == BOX_EXITED)
		*ret = PUMP_EXITED;
	else if (state == BOX_EXECED)
		*ret = PUMP_EXECED;
	else
		*ret = PUMP_ENDED;
	return true;
}

static struct wc_error *pump(struct engine *e, int timeout_ms, enum pump_result *ret)
{
	uint64_t now = monotonic_ns(), end = now + (uint64_t)timeout_ms * 1000000u;
	struct wc_error *err;
	bool any;

	err = look_at_other_program(e);
	if (err)
		return err;
	let_go(e);
	for (;;) {
		err = engine_ptrace_take(e, &any);
		if (!err)
			err = engine_ptrace_check(e, monotonic_ns());
		if (err)
			return err;
		now = monotonic_ns();
		if (e->intake.hook_hit) {
			*ret = PUMP_HOOK;
			return intake_refresh_modules(&e->intake, now, 0);
		}
		if (has_ended(e, ret, &err)) {
			if (*ret == PUMP_EXECED && e->options.follow_exec)
				e->execed = e->other_program = true;
			return err;
		}
		if (now >= end)
			break;
		if (!any)
			wait_for_records(e, end - now < PASS_NS ? end - now : PASS_NS);
	}
	*ret = PUMP_IDLE;
	return NULL;
}

static const char *why(const struct engine *e)
{
	return e->why;
}

static void hooked(const struct engine *e, struct engine_hook *ret)
{
	*ret = e->intake.hook;
}

static void engine_ptrace_counts(const struct engine *e, uint32_t id, struct engine_counts *ret)
{
	struct engine_counts sum = past_counts_of(&e->past, id), one;
	unsigned int i;

	for (i = 0; i < WIRE_WATCHES; i++) {
		if (!e->watch[i].armed || e->watch[i].w.id != id || e->watch[i].w.hook)
			continue;
		counts_of(e, i, &one);
		add_counts(&sum, &one);
	}
	if (e->stopped)
		give_up_rest(&sum);
	*ret = sum;
}

static uint64_t outstanding(const struct engine *e, uint32_t id)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < WIRE_WATCHES; i++)
		if (e->watch[i].armed && e->watch[i].w.id == id)
			sum += outstanding_at(e, i);
	return sum;
}

static struct wc_error *engine_ptrace_finish(struct engine *e, uint32_t id, struct engine_counts *ret)
{
	struct wc_error *err = intake_hand_out(&e->intake);
	unsigned int i;

	engine_ptrace_counts(e, id, ret);
	give_up_rest(ret);
	past_counts_drop(&e->past, id);
	for (i = 0; i < WIRE_WATCHES; i++) {
		struct ptraced_watch *a = &e->watch[i];

		if (!a->armed || a->w.id != id)
			continue;
		a->finished = true;
		a->w.address = NULL; /* whoever could answer goes */
		intake_forget(&e->intake, i);
	}
	return err;
}

static struct wc_error *stop(struct engine *e)
{
	struct wc_error *err = NULL;

	e->held = false;
	for (unsigned int i = 0; i < WIRE_WATCHES; i++)
		e->watch[i].disarmed = true;
	/* It cannot finish while records wait for room that only we can make. */
	err = wc_error_first(err, drain(e, true));
	if (!e->lost)
		wc_error_free(ptrace_helpers_ask(e, BOX_STOP, 0));
	err = wc_error_first(err, drain(e, false));
	e->stopped = true;
	err = wc_error_first(err, intake_report_departures(&e->intake, e->box->departures));
	err = wc_error_first(err, unheld_report(&e->unheld, e->ctl->unheld, unheld_in_time, e->sink));
	err = wc_error_first(err, causeless_report(&e->causeless, e->ctl->causeless, true, e->sink));
	err = wc_error_first(err, take_note(e));
	return err;
}

/* A thread that is still traced, because a call that nothing interrupts keeps it from stopping; 0: none is.
 */
static pid_t find_unstoppable(const struct engine *e)
{
	struct proc_status s;
	unsigned int i;

	for (i = 0; i < e->box->nthreads && i < BOX_THREADS; i++) {
		pid_t tid = __atomic_load_n(&e->box->thread[i].tid, __ATOMIC_ACQUIRE);

		if (tid && proc_status_read(tid, tid, &s) && s.state == 'D')
			return tid;
	}
	return 0;
}

static struct wc_error *not_cleared(const struct engine *e, pid_t unstoppable)
{
	if (unstoppable)
		return wc_error_new(
			WC_EFAIL,
			"thread %d of process %d is in an uninterruptible system call, or frozen (cgroup "
			"freezer), so that its debug registers are still armed: process %d stays until it "
			"has cleared them",
			unstoppable, e->pid, e->box->helper.tracer_pid);
	return wc_error_new(
		WC_EFAIL,
		"not all threads of process %d could be released within %u seconds: process %d continues "
		"to release them",
		e->pid, (unsigned int)(BUSY_NS / 1000000000u), e->box->helper.tracer_pid);
}

static struct wc_error *withdraw(struct engine *e)
{
	uint64_t start = monotonic_ns(), end = start + END_NS;
	pid_t unstoppable = 0;

	if (!e->box || e->tracer_fd < 0)
		return NULL;
	wc_error_free(ptrace_helpers_ask(e, BOX_LEAVE, 0));
	/* The guard ends last: when it has cleared what a killed tracer has left, if it comes to that. */
	while (!ptrace_helpers_ended(e) && monotonic_ns() - start < BUSY_NS) {
		if (monotonic_ns() > end) {
			unstoppable = find_unstoppable(e);
			if (unstoppable)
				break;
			end = monotonic_ns() + CHECK_NS;
		}
		nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
	}
	if (e->box->helper.finished || ptrace_helpers_lost(e))
		return NULL;
	return not_cleared(e, unstoppable);
}

static struct wc_error *close_engine(struct engine *e)
{
	struct wc_error *err;

	if (!e)
		return NULL;
	heartbeat_stop(&e->heartbeat);
	err = withdraw(e);
	past_counts_deinit(&e->past);
	intake_deinit(&e->intake);
	closep(&e->tracer_fd);
	if (e->memory.base)
		munmap(e->memory.base, e->memory.size);
	free(e);
	return err;
}

const struct engine_ops engine_ptrace = {
	.name = "ptrace",
	.follows_fork = true,
	.follows_exec = true,
	.sees_births = true,
	.open = open_engine,
	.arm = arm,
	.disarm = disarm,
	.extend = extend,
	.begun = begun,
	.hooked = hooked,
	.pump = pump,
	.why = why,
	.outstanding = outstanding,
	.finish = engine_ptrace_finish,
	.stop = stop,
	.counts = engine_ptrace_counts,
	.close = close_engine,
};
