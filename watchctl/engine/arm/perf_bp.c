#include "watchctl/engine/arm/perf_bp.h"

#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/vec.h"
#include "watchctl/engine/kernel/kernel_recorder.h"
#include "watchctl/engine/perf/perf_rings.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/tracee.h"

#define REGISTERS 4
#define MAX_PASSES 200
#define BIRTH_TRIES 16u
#define DISABLE_PASSES 8u
#define BIRTH_NS 10000
#define STOP_MS 200u
#define SAME_NS 1000000000ull /* no thread's number goes to another one sooner */

static int open_event(struct perf_event_attr *attr, pid_t tid, int cpu)
{
	return (int)syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

/* Until the recorder or the rings are on it, and it is known whom it would hit: exec takes away disabled
 * ones, too. */
static bool starts_disabled(const struct perf_bp_spec *s)
{
	return s->recorder || s->rings || s->process.is_meant;
}

static struct perf_event_attr make_attr(const struct perf_bp_spec *s, uint64_t addr, bool kernel)
{
	struct perf_event_attr a = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(a),
		.sample_period = 1,
		.inherit = !s->address,
		.inherit_thread = !s->address && !s->children,
		.remove_on_exec = 1,
		.sigtrap = !s->quiet,
		.disabled = starts_disabled(s),
		.exclude_kernel = !kernel,
		.exclude_hv = 1,
		.bp_addr = addr,
		.bp_len = s->size,
		.sig_data = s->sig_data,
	};

	switch (s->access) {
	case ACCESS_WRITE:
		a.bp_type = HW_BREAKPOINT_W;
		break;
	case ACCESS_EXECUTE:
		a.bp_type = HW_BREAKPOINT_X;
		a.bp_len = sizeof(long); /* the only length the kernel takes for X */
		a.exclude_kernel = 1;
		break;
	default: /* x86 cannot watch reads alone: Intel SDM vol. 3, 18.2.4, R/W field */
		a.bp_type = HW_BREAKPOINT_RW;
		break;
	}
	if (s->rings)
		perf_rings_ask(s->rings, &a);
	return a;
}

/* How many carry it, of those armed one by one. */
static size_t armed_threads(const struct perf_bp *bp, const struct perf_bp_spec *s)
{
	return s->rings ? bp->n / perf_rings_cpus(s->rings) : bp->n;
}

/* A watch for writes on a word of our own. */
static struct perf_event_attr attr_of_ours(const volatile uint64_t *word)
{
	return (struct perf_event_attr){
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(struct perf_event_attr),
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.bp_type = HW_BREAKPOINT_W,
		.bp_addr = (uint64_t)(uintptr_t)word,
		.bp_len = sizeof(*word),
	};
}

/*
 * Tells whether a register that is set does nothing, as in virtual machines that take what is written to it and never put it into the processor:
 * a word of ours is watched and written. What cannot be tried (no perf, no free register) is not silent.
 */
static bool find_silence(void)
{
	static volatile uint64_t word;
	struct perf_event_attr a = attr_of_ours(&word);
	uint64_t count = 0;
	scoped(closep) int fd = open_event(&a, 0, -1);

	if (fd < 0)
		return false;
	word = 1;
	return read(fd, &count, sizeof(count)) == sizeof(count) && !count;
}

static bool registers_are_silent(void)
{
	static enum { NOT_TRIED, FIRE, SILENT } found;

	if (found == NOT_TRIED)
		found = find_silence() ? SILENT : FIRE;
	return found == SILENT;
}

/* Registers in use, found by taking the rest for a moment. The probes are disabled: they never fire. */
int perf_bp_used(pid_t tid)
{
	static uint64_t nowhere;
	struct perf_event_attr a = attr_of_ours(&nowhere);
	int fd[REGISTERS], n, error = 0;

	a.disabled = 1;
	if (registers_are_silent())
		return -1;
	for (n = 0; n < REGISTERS; n++) {
		fd[n] = open_event(&a, tid, -1);
		if (fd[n] < 0) {
			error = errno;
			break;
		}
	}
	for (int i = 0; i < n; i++)
		close(fd[i]);
	return error && error != ENOSPC ? -1 : REGISTERS - n;
}

static int read_number(const char *path, int fallback)
{
	scoped(fclosep) FILE *f = fopen(path, "re");
	int value;

	return f && fscanf(f, "%d", &value) == 1 ? value : fallback;
}

static struct wc_error *explain(pid_t pid, pid_t tid, const struct perf_bp_spec *s, int error)
{
	char who[96];
	struct proc_status st;

	proc_describe(pid, who, sizeof(who));
	switch (error) {
	case ENOSPC:
		if (proc_status_read(pid, tid, &st) && st.tracer) {
			char tracer[96];

			proc_describe(st.tracer, tracer, sizeof(tracer));
			return wc_error_new(
				WC_ESLOTS,
				"no free debug register in thread %d of %s: a CPU has %d; this command uses %u, and "
				"%s, which traces it, may hold others",
				tid, who, REGISTERS, s->others, tracer);
		}
		return wc_error_new(
			WC_ESLOTS,
			"no free debug register in thread %d of %s: a CPU has %d; this command uses %u, and another "
			"watchctl, perf or a debugger holds the others, or the kernel reserves them for ptrace, which "
			"has used them before (gdb, --engine ptrace, -i), until the thread ends: --engine ptrace can "
			"use reserved ones (watchctl list -p %d shows what holds them)",
			tid, who, REGISTERS, s->others, pid);
	case EACCES:
	case EPERM:
		return wc_error_new(
			WC_EPERM,
			"the kernel does not permit perf events on %s: kernel.perf_event_paranoid is %d and "
			"must be at most 2 for your own processes (sysctl kernel.perf_event_paranoid=2), or "
			"run watchctl as root or with CAP_PERFMON; in a container, its seccomp profile must "
			"allow perf_event_open",
			who, read_number("/proc/sys/kernel/perf_event_paranoid", -99));
	case ENOENT:
	case ENODEV:
	case EOPNOTSUPP:
		return wc_error_new(WC_ENOTSUP,
				    "this machine offers no hardware debug registers (perf says: %s): some "
				    "virtual machines do not",
				    strerror(error));
	case EINVAL:
		return wc_error_new(WC_ENOTSUP,
				    "the kernel refuses the breakpoint at 0x%llx: it must be a user address, "
				    "and the kernel 5.13 or newer",
				    (unsigned long long)s->addr);
	case ENOSYS:
		return wc_error_new(WC_ENOTSUP, "this kernel, or a seccomp profile around this shell, has no "
						"perf_event_open: nothing can be armed without it");
	case EMFILE:
	case ENFILE:
		return wc_error_errno(WC_EFAIL, error,
				      "%s has more threads than watchctl may open files: raise ulimit -n",
				      who);
	default:
		return wc_error_errno(WC_EFAIL, error, "cannot arm thread %d of %s", tid, who);
	}
}

static bool known(const struct perf_bp *bp, const struct thread_ids *inherited, pid_t tid)
{
	size_t i;

	for (i = 0; i < bp->n; i++)
		if (bp->event[i].tid == tid)
			return true;
	return thread_ids_have(inherited, tid);
}

/* The number that the last thread born on this machine was given; it shows whether there was a birth. */
static int last_birth(void)
{
	scoped(fclosep) FILE *f = fopen("/proc/loadavg", "re");
	int last = 0;

	return f && fscanf(f, "%*s %*s %*s %*s %d", &last) == 1 ? last : 0;
}

/*
 * Opens an event, disabled, and puts on it what records. A thread that is born in between inherits the event
 * without the recorder, so there must not have been one: else it is done again. The event is inherited before
 * the thread has its number, hence the pause.
 */
static int open_recorded(struct perf_event_attr *a, pid_t tid, int cpu, const struct perf_bp_spec *s)
{
	unsigned int i;
	uint64_t now;
	int fd = -1;

	for (i = 0; i < BIRTH_TRIES; i++) {
		int before = last_birth();

		closep(&fd);
		fd = open_event(a, tid, cpu);
		if (fd < 0 || !s->recorder)
			return fd;
		if (!kernel_recorder_attach(s->recorder, fd, s->sig_data & (WIRE_WATCHES - 1))) {
			closep(&fd);
			return -1;
		}
		for (now = monotonic_ns(); monotonic_ns() - now < BIRTH_NS;)
			;
		if (last_birth() == before)
			break;
	}
	return fd;
}

/* From now on it may fire. False: refused (errno). */
static bool start_event(const struct perf_bp_spec *s, int fd, size_t cpu)
{
	if (s->rings && !perf_rings_add(s->rings, cpu, fd, s->sig_data))
		return false;
	return !starts_disabled(s) || !ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
}

/* @cpu: of the rings' CPUs the @cpu-th; without rings, 0, and the event is for all of them. */
static struct wc_error *arm_cpu(pid_t pid, pid_t tid, size_t cpu, uint64_t addr, const struct perf_bp_spec *s,
				struct perf_bp *bp)
{
	int number = s->rings ? perf_rings_cpu(s->rings, cpu) : -1;
	struct perf_event_attr a = make_attr(s, addr, bp->kernel);
	int fd = open_recorded(&a, tid, number, s);
	struct wc_error *err;

	if (fd < 0 && (errno == EACCES || errno == EPERM) && bp->kernel && !bp->n) {
		bp->kernel = false; /* not permitted to see the kernel's accesses: armed without, and said */
		a = make_attr(s, addr, false);
		fd = open_recorded(&a, tid, number, s);
	}
	if (fd < 0)
		return errno == ESRCH ? NULL : explain(pid, tid, s, errno);
	err = armed_process_check(&s->process, pid);
	if (err) {
		close(fd);
		return err;
	}
	if (!start_event(s, fd, cpu)) {
		int error = errno;

		close(fd);
		return wc_error_errno(WC_EFAIL, error, "cannot record the hits of thread %d", tid);
	}
	if (!vec_push(bp->event, bp->n, bp->cap, (struct perf_bp_event){ fd, tid })) {
		close(fd);
		return &wc_enomem;
	}
	return NULL;
}

/* The fs base of a thread, which is stopped for a moment to be asked. False: it does not answer. */
static bool ask_thread_pointer(pid_t pid, pid_t tid, const struct tracee *held, uint64_t *ret)
{
	struct tracee t;

	if (held && held->tid == tid) {
		*ret = held->home.fs_base;
		return true;
	}
	if (tracee_stop(pid, tid, STOP_MS, &t) != TRACEE_STOPPED)
		return false;
	*ret = t.home.fs_base;
	tracee_release(&t);
	return true;
}

static struct perf_bp_without *find_without(struct perf_bp *bp, pid_t tid)
{
	size_t i;

	for (i = 0; i < bp->nwithout; i++)
		if (bp->without[i].tid == tid)
			return &bp->without[i];
	return NULL;
}

/* The address of a thread's own copy. *err: WC_ENOMEM. False: it has none yet, or does not answer. */
static bool copy_address(pid_t pid, pid_t tid, const struct perf_bp_spec *s, struct perf_bp *bp,
			 uint64_t *ret, struct wc_error **err)
{
	struct perf_bp_without *w = find_without(bp, tid);
	uint64_t pointer;

	if (w)
		pointer = w->thread_pointer;
	else if (!ask_thread_pointer(pid, tid, s->held, &pointer))
		return false;
	if (s->address(s->address_ctx, pointer, ret)) {
		if (w)
			*w = bp->without[--bp->nwithout];
		return true;
	}
	/* 0 is not yet what it will be. */
	if (!w && pointer &&
	    !vec_push(bp->without, bp->nwithout, bp->without_cap, (struct perf_bp_without){ tid, pointer }))
		*err = &wc_enomem;
	return false;
}

static struct wc_error *arm_thread(pid_t pid, pid_t tid, const struct perf_bp_spec *s, struct perf_bp *bp)
{
	size_t i, n = s->rings ? perf_rings_cpus(s->rings) : 1;
	struct wc_error *err = NULL;
	uint64_t addr = s->addr;

	if (s->address && !copy_address(pid, tid, s, bp, &addr, &err))
		return err;
	for (i = 0; i < n && !err; i++)
		err = arm_cpu(pid, tid, i, addr, s, bp);
	return err;
}

static void raise_file_limit(void)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/*
 * One look at the thread list. A thread we have not met was created while we armed: by one that carried
 * the watch already (then it inherited it) or by one that did not. Its debug registers tell: arming it
 * twice would count every access twice.
 */
static struct wc_error *arm_pass(pid_t pid, const struct perf_bp_spec *s, bool first, struct perf_bp *bp,
				 struct thread_ids *inherited, uint32_t *threads, bool *ret_new)
{
	struct wc_error *err = NULL;
	struct thread_ids ids;
	size_t i;

	if (!proc_threads(pid, &ids))
		return proc_unread_error(pid);
	if (!ids.n) {
		thread_ids_deinit(&ids);
		return wc_error_new(WC_ETARGET, "process %d ended while it was being armed", pid);
	}
	*ret_new = false;
	*threads = (uint32_t)ids.n;
	for (i = 0; i < ids.n && !err; i++) {
		size_t had = bp->n;

		if (known(bp, inherited, ids.v[i]))
			continue;
		if (!first && !s->address && perf_bp_used(ids.v[i]) > (int)s->used) {
			if (!vec_push(inherited->v, inherited->n, inherited->cap, ids.v[i]))
				err = &wc_enomem;
			continue;
		}
		err = arm_thread(pid, ids.v[i], s, bp);
		*ret_new |= bp->n > had;
	}
	thread_ids_deinit(&ids);
	return err;
}

struct wc_error *perf_bp_open(pid_t pid, const struct perf_bp_spec *spec, struct perf_bp *ret,
			      uint32_t *threads, uint32_t *armed)
{
	struct perf_bp bp = { .kernel = spec->access != ACCESS_EXECUTE && !spec->user_only,
			      .looked_ns = monotonic_ns() };
	struct thread_ids inherited = { 0 };
	struct wc_error *err = NULL;
	bool more = true;
	unsigned int pass;

	if (registers_are_silent())
		return wc_error_new(
			WC_ENOTSUP,
			"this machine offers no hardware debug registers (one that was set did not fire): "
			"some virtual machines do not");
	raise_file_limit();
	for (pass = 0; more && !err && pass < MAX_PASSES; pass++)
		err = arm_pass(pid, spec, pass == 0, &bp, &inherited, threads, &more);
	*armed = (uint32_t)(more || spec->address ? armed_threads(&bp, spec) + inherited.n : *threads);
	thread_ids_deinit(&inherited);
	if (!err && !bp.n && !spec->address)
		err = wc_error_new(WC_ETARGET, "process %d ended while it was being armed", pid);
	if (err) {
		perf_bp_close(&bp);
		return err;
	}
	*ret = bp;
	return NULL;
}

/* Of threads that have ended, what they counted is kept. */
static void drop_ended(pid_t pid, struct perf_bp *bp)
{
	const uint64_t now = monotonic_ns();
	struct thread_ids ids;
	size_t i, n = 0;

	if (!proc_threads(pid, &ids))
		return;
	for (i = 0; i < bp->n; i++) {
		uint64_t one;

		if (thread_ids_have(&ids, bp->event[i].tid)) {
			bp->event[n++] = bp->event[i];
			continue;
		}
		if (read(bp->event[i].fd, &one, sizeof(one)) == sizeof(one))
			bp->past += one;
		close(bp->event[i].fd);
	}
	bp->n = n;
	for (i = n = 0; i < bp->nwithout; i++)
		if (thread_ids_have(&ids, bp->without[i].tid))
			bp->without[n++] = bp->without[i];
	bp->nwithout = now - bp->looked_ns < SAME_NS ? n : 0;
	bp->looked_ns = now;
	thread_ids_deinit(&ids);
}

struct wc_error *perf_bp_extend(pid_t pid, const struct perf_bp_spec *spec, struct perf_bp *bp,
				uint32_t *threads, uint32_t *armed)
{
	struct thread_ids none = { 0 };
	struct wc_error *err;
	bool more;

	drop_ended(pid, bp);
	err = arm_pass(pid, spec, true, bp, &none, threads, &more);
	*armed = (uint32_t)armed_threads(bp, spec);
	return err;
}

const char *perf_bp_kernel_refusal(const struct perf_bp_spec *s, const struct perf_bp *bp)
{
	if (bp->kernel || s->access == ACCESS_EXECUTE)
		return NULL;
	if (!s->user_only)
		return "that needs CAP_PERFMON, or kernel.perf_event_paranoid at most 1";
	return s->recorder
		       ? "a watch of reads needs the address at which the kernel maps memory, which could not be "
			 "determined"
		       : "a watch of reads needs CAP_BPF and CAP_PERFMON for it, and a kernel with BTF";
}

uint64_t perf_bp_count(const struct perf_bp *bp)
{
	uint64_t sum = bp->past, one;
	size_t i;

	for (i = 0; i < bp->n; i++)
		if (read(bp->event[i].fd, &one, sizeof(one)) == sizeof(one))
			sum += one;
	return sum;
}

/*
 * A thread that is made at this moment, by one that has inherited the event, can get one that is still
 * enabled: the kernel looks at its maker's before that of the new one can be found. So it is done again,
 * until nothing was counted meanwhile.
 */
void perf_bp_disable(struct perf_bp *bp)
{
	uint64_t before, now = perf_bp_count(bp);
	unsigned int pass = 0;
	size_t i;

	do {
		before = now;
		for (i = 0; i < bp->n; i++)
			ioctl(bp->event[i].fd, PERF_EVENT_IOC_DISABLE, 0);
		now = perf_bp_count(bp);
	} while (now != before && ++pass < DISABLE_PASSES);
}

void perf_bp_close(struct perf_bp *bp)
{
	size_t i;

	for (i = 0; i < bp->n; i++)
		close(bp->event[i].fd);
	free(bp->event);
	free(bp->without);
	*bp = (struct perf_bp){ 0 };
}
