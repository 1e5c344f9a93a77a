#include "watchctl/target/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <time.h>
#include <unistd.h>

#include "handler_image.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/task.h"
#include "watchctl/target/far_map.h"
#include "watchctl/target/proc.h"
#include "watchctl/target/remote.h"
#include "watchctl/target/shared_area.h"
#include "watchctl/target/trap_action.h"

#define NR_MMAP 9
#define NR_MUNMAP 11
#define NR_SIGACTION 13
#define NR_SIGTIMEDWAIT 128
#define NR_PRCTL 157
#define NR_TGSIGQUEUEINFO 297

#define SIGTRAP_NR 5
#define SA_FLAGS_OURS 0x0c000004ull /* SA_SIGINFO | SA_RESTORER | SA_ONSTACK */
#define SA_FLAG_RESTART 0x10000000ull
#define CATCHES(action) ((action)->handler > 1) /* neither SIG_DFL nor SIG_IGN */
#define PR_GET_TSC_NR 25
#define PR_TSC_ENABLED 1
#define TRAP_PERF_CODE 6
#define HWCAP2_HAS_FSGSBASE 2

#define SIGINFO_SIZE 128
#define QUIESCE_MS 2000u
#define FLUSH_STOP_MS 200u
#define FLUSH_PATIENCE_NS 3000000000ull
#define CHAIN_MAX 64u
#define SELF_TEST_TRIES 20u

/*
 * Inside the shared area, behind the control block: small change for remote calls, and at the end the
 * frame that leads home. A signal that comes while a thread is in the stub is handled on the stack
 * below that frame, so there is room for a handler of the program's own.
 */
#define BOOT_DATA WIRE_CONTROL_SIZE
#define BOOT_FRAME (WIRE_CONTROL_SIZE + WIRE_BOOT_SIZE - TRACEE_FRAME_MAX)

_Static_assert(WIRE_BOOT_SIZE >= TRACEE_FRAME_MAX + 0xc000u,
	       "the boot area holds a frame and a signal stack");

extern const uint8_t handler_image[], handler_image_end[];

bool injection_read(const struct injection *inj, uint64_t offset, void *buf, size_t len)
{
	struct memory_view mem = proc_memory(&inj->pid);

	if (!inj->shared)
		return memory_read(&mem, inj->control + offset, buf, len);
	memcpy(buf, (const char *)inj->shared + offset, len);
	return true;
}

bool injection_write(const struct injection *inj, uint64_t offset, const void *buf, size_t len)
{
	if (!inj->shared)
		return proc_write(inj->pid, inj->control + offset, buf, len);
	memcpy((char *)inj->shared + offset, buf, len);
	return true;
}

static struct wc_error *map_failed(const struct injection *inj, long result, const char *what)
{
	struct wc_error *err =
		wc_error_errno(WC_ENOTSUP, (int)-result, "process %d may not map %s", inj->pid, what);

	if (result == -ENOMEM || result == -EAGAIN)
		return wc_error_hint(
			err, "its address space or locked memory is limited: try --engine ring, which "
			     "maps nothing in it, or a smaller --buffer");
	if (result == -EACCES || result == -EPERM)
		return wc_error_hint(
			err, "a security policy forbids new code in it: the handler cannot be used there");
	return err;
}

/* One mapping, made first readable and executable, so that nothing is ever writable and executable. */
static struct wc_error *map_region(struct injection *inj, struct remote *r, bool force_private)
{
	int flags = force_private ? MAP_PRIVATE : MAP_SHARED;
	struct wc_error *err;
	long result;

	err = far_map(r, inj->size, PROT_READ | PROT_EXEC, &result);
	if (err)
		return err;
	if (result < 0 && result > -4096)
		return map_failed(inj, result, "the handler's code");
	inj->base = (uint64_t)result;
	inj->control = inj->base + WIRE_CODE_SIZE;
	inj->handler = inj->base + IMAGE_HANDLER_ENTRY;
	err = remote_syscall(r, NR_MMAP, inj->control, inj->shared_size, PROT_READ | PROT_WRITE,
			     (uint64_t)(flags | MAP_ANONYMOUS | MAP_FIXED), (uint64_t)-1, 0, &result);
	if (err)
		return err;
	if (result < 0 && result > -4096)
		return map_failed(inj, result, "the event buffer");
	return NULL;
}

static void fill_control(const struct injection *inj, struct wire_control *c)
{
	struct proc_status s;

	c->target_pid = proc_status_read(inj->pid, inj->pid, &s) ? s.ns_id : inj->pid;
	c->magic = WIRE_MAGIC;
	c->version = WIRE_VERSION;
	c->code_start = inj->base;
	c->code_end = inj->control;
	c->mapping_size = inj->size;
	c->owner_pid = getpid();
	c->owner_start = proc_start_time(getpid());
	c->heartbeat = monotonic_ns();
	c->ours = (struct wire_sigaction){
		.handler = inj->handler,
		.flags = SA_FLAGS_OURS | SA_FLAG_RESTART,
		.restorer = inj->base + IMAGE_HANDLER_RESTORER,
		.mask = ~0ull,
	};
	if (getauxval(AT_HWCAP2) & HWCAP2_HAS_FSGSBASE)
		c->flags |= WIRE_HAVE_FSGSBASE;
}

/* A program may have forbidden itself rdtsc (PR_SET_TSC): then the handler asks the kernel for the time. */
static struct wc_error *check_tsc(struct injection *inj, struct remote *r, struct wire_control *c)
{
	struct memory_view mem = proc_memory(&inj->pid);
	uint64_t at = inj->control + BOOT_DATA;
	struct wc_error *err;
	uint32_t mode = 0;
	long result;

	if (!(c->flags & WIRE_USE_TSC))
		return NULL;
	err = remote_syscall(r, NR_PRCTL, PR_GET_TSC_NR, at, 0, 0, 0, 0, &result);
	if (err)
		return err;
	if (result || !memory_read(&mem, at, &mode, sizeof(mode)) || mode != PR_TSC_ENABLED)
		c->flags &= ~(uint32_t)WIRE_USE_TSC;
	return NULL;
}

/*
 * The action that ours goes in front of may be a handler that a killed watchctl left behind: then what
 * counts is the action that it went in front of, and its memory can be given back. Not where it had named its
 * register: that one is armed until somebody clears it, and its traps must find that handler.
 */
static void skip_orphan(struct injection *inj, uint64_t old_at, const struct wire_control *heir)
{
	struct memory_view mem = proc_memory(&inj->pid);
	struct wire_sigaction old;
	struct wire_control c;
	uint64_t at;

	if (!memory_read(&mem, old_at, &old, sizeof(old)) ||
	    !placed_control_of(inj->pid, old.handler, &c, &at) || c.hwbkpt_watch ||
	    !placed_looks_orphaned(&c) || !proc_write(inj->pid, old_at, &c.old, sizeof(c.old)))
		return;
	inj->stale_base = c.code_start;
	inj->stale_size = c.mapping_size;
	/* It is ours now: nobody else must unmap it as well. */
	c.flags |= WIRE_TAKEN_OVER;
	c.owner_pid = heir->owner_pid;
	c.owner_start = heir->owner_start;
	proc_write(inj->pid, at + offsetof(struct wire_control, flags), &c.flags, sizeof(c.flags));
	proc_write(inj->pid, at + offsetof(struct wire_control, owner_start), &c.owner_start,
		   sizeof(c.owner_start));
	proc_write(inj->pid, at + offsetof(struct wire_control, owner_pid), &c.owner_pid,
		   sizeof(c.owner_pid));
}

/* A system call that a SIGTRAP of the program's own interrupts ends, or starts again, as its handler asks
 * for. */
static bool restart_as(const struct injection *inj, const struct wire_sigaction *program)
{
	uint64_t flags = SA_FLAGS_OURS | (program->flags & SA_FLAG_RESTART);

	return !CATCHES(program) || proc_write(inj->pid,
					       inj->control + offsetof(struct wire_control, ours) +
						       offsetof(struct wire_sigaction, flags),
					       &flags, sizeof(flags));
}

/*
 * Asks for the old action first: from its first instant on, our handler must know where to pass signals on.
 * The program may set another one meanwhile, in which case that is the one that ours has replaced.
 */
static struct wc_error *set_action(struct injection *inj, struct remote *r, const struct wire_control *c)
{
	uint64_t ours = inj->control + offsetof(struct wire_control, ours);
	uint64_t old_at = inj->control + offsetof(struct wire_control, old);
	struct memory_view mem = proc_memory(&inj->pid);
	struct wire_sigaction asked = { 0 }, old = { 0 }, was = { 0 };
	struct wc_error *err;
	long result;

	err = remote_syscall(r, NR_SIGACTION, SIGTRAP_NR, 0, old_at, 8, 0, 0, &result);
	if (err)
		return err;
	if (result || !memory_read(&mem, old_at, &asked, sizeof(asked)))
		return wc_error_errno(WC_ENOTSUP, (int)-result,
				      "cannot ask process %d for its SIGTRAP action", inj->pid);
	skip_orphan(inj, old_at, c);
	if (!memory_read(&mem, old_at, &old, sizeof(old)) || !restart_as(inj, &old))
		return wc_error_errno(WC_EPERM, errno, "cannot write into process %d", inj->pid);
	remote_keep(r); /* from this call on, who looks for handlers finds it in use */
	err = trap_action_exchange(r, ours, inj->control + BOOT_DATA, &was);
	if (err)
		return err;
	inj->installed = true;
	if (memcmp(&was, &asked, sizeof(was)) != 0 && !proc_write(inj->pid, old_at, &was, sizeof(was)))
		return wc_error_errno(WC_EPERM, errno, "cannot write into process %d", inj->pid);
	return NULL;
}

static struct wc_error *unmap_now(struct injection *inj, struct remote *r)
{
	struct wc_error *err = NULL;
	long result;

	if (inj->base)
		err = remote_syscall(r, NR_MUNMAP, inj->base, inj->size, 0, 0, 0, 0, &result);
	if (!err && inj->stale_base)
		err = remote_syscall(r, NR_MUNMAP, inj->stale_base, inj->stale_size, 0, 0, 0, 0, &result);
	inj->base = inj->stale_base = 0;
	return err;
}

/* Word by word, through the thread that is stopped: CAP_SYS_PTRACE without the right to open its memory. */
static bool poke_image(pid_t tid, uint64_t to)
{
	size_t size = (size_t)(handler_image_end - handler_image), at, n;
	uint64_t word;

	for (at = 0; at < size; at += sizeof(word)) {
		n = size - at < sizeof(word) ? size - at : sizeof(word);
		word = 0;
		memcpy(&word, handler_image + at, n);
		if (ptrace(PTRACE_POKEDATA, tid, to + at, word))
			return false;
	}
	return true;
}

static struct wc_error *place(struct injection *inj, struct remote *r, struct wire_control *c,
			      bool force_private)
{
	size_t image_size = (size_t)(handler_image_end - handler_image);
	struct wc_error *err = map_region(inj, r, force_private);

	if (err)
		return err;
	if (!proc_write_force(inj->pid, inj->base, handler_image, image_size) &&
	    !poke_image(r->thread.tid, inj->base))
		return wc_error_errno(WC_EPERM, errno, "cannot write the handler into process %d", inj->pid);
	fill_control(inj, c);
	err = check_tsc(inj, r, c);
	if (err)
		return err;
	if (!proc_write(inj->pid, inj->control, c, sizeof(*c)))
		return wc_error_errno(WC_EPERM, errno, "cannot write into process %d", inj->pid);
	return set_action(inj, r, c);
}

struct wc_error *inject_place(pid_t pid, struct wire_control *control, uint64_t shared_size,
			      bool force_private, struct tracee *held, struct injection *ret)
{
	struct injection inj = {
		.pid = pid, .size = WIRE_CODE_SIZE + shared_size, .shared_size = shared_size, .held = held
	};
	scoped(remote_closep) struct remote r = { 0 };
	struct gadgets g;
	struct wc_error *err = gadgets_find(pid, &g);

	if (!err)
		err = remote_open(pid, 0, held, &r);
	if (!err)
		err = far_map_prepare(&r, &g, inj.size);
	if (err)
		return err;
	inj.stop_tid = r.thread.tid;
	err = place(&inj, &r, control, force_private);
	if (err) {
		inj.stale_base = 0; /* it may still be installed */
		wc_error_free(unmap_now(&inj, &r));
		return err;
	}
	inj.stop_ns = remote_close(&r);
	if (!force_private)
		inj.shared = shared_area_map(pid, inj.control, inj.shared_size);
	*ret = inj;
	return NULL;
}

static struct wc_error *open_with_stub(const struct injection *inj, pid_t tid, struct remote *r)
{
	struct wc_error *err = remote_open(inj->pid, tid, inj->held, r);
	struct gadgets g;

	if (!err && (inj->adopted || !inject_is_mapped(inj))) {
		err = gadgets_find(inj->pid, &g);
		return err ? err : remote_use_gadgets(r, &g);
	}
	return err ? err : remote_use_stub(r, inj->base + IMAGE_REMOTE_SYSCALL, inj->control + BOOT_FRAME);
}

/* A thread with no hit of its own on the way: that one's registers must not be mistaken for the test's. */
static struct wc_error *open_without_pending(const struct injection *inj, struct remote *r, bool *ret)
{
	struct proc_status s;
	unsigned int i;

	*ret = false;
	for (i = 0; i < SELF_TEST_TRIES && !*ret; i++) {
		struct wc_error *err = open_with_stub(inj, 0, r);

		if (err)
			return err;
		*ret = proc_status_read(inj->pid, r->thread.tid, &s) && !(s.pending & PROC_SIGTRAP);
		if (!*ret)
			remote_close(r);
	}
	return NULL;
}

struct wc_error *inject_self_test(struct injection *inj, unsigned int n, const uint64_t *addr,
				  const bool *write, int si_code, bool *ret)
{
	scoped(remote_closep) struct remote r = { 0 };
	bool clear;
	struct wc_error *err = open_without_pending(inj, &r, &clear);
	unsigned int i;

	for (i = 0; !err && clear && i < n; i++)
		err = tracee_expect_trap(&r.thread,
					 inj->base + (write[i] ? IMAGE_REMOTE_REWRITE : IMAGE_REMOTE_READ),
					 r.rsp, addr[i], si_code, 100, &ret[i]);
	return err;
}

/* Other watchctls' handlers stand in front of ours: the one directly before us gets our successor. */
static bool unchain(const struct injection *inj, uint64_t handler)
{
	struct memory_view mem = proc_memory(&inj->pid);
	struct wire_sigaction next;
	struct wire_control c;
	uint64_t at;
	unsigned int i;

	if (!memory_read(&mem, inj->control + offsetof(struct wire_control, old), &next, sizeof(next)))
		return false;
	for (i = 0; i < CHAIN_MAX && placed_control_of(inj->pid, handler, &c, &at); i++) {
		if (c.old.handler == inj->handler)
			return proc_write(inj->pid, at + offsetof(struct wire_control, old), &next,
					  sizeof(next));
		handler = c.old.handler;
	}
	return false;
}

static struct wc_error *ask_action(const struct injection *inj, struct remote *r, struct wire_sigaction *ret)
{
	struct memory_view mem = proc_memory(&inj->pid);
	uint64_t at = inj->control + BOOT_DATA;
	long result = 0;
	struct wc_error *err = remote_syscall(r, NR_SIGACTION, SIGTRAP_NR, 0, at, 8, 0, 0, &result);

	if (err)
		return err;
	if (result || !memory_read(&mem, at, ret, sizeof(*ret)))
		return wc_error_new(WC_EFAIL, "cannot ask process %d for its SIGTRAP action", inj->pid);
	return NULL;
}

struct wc_error *inject_is_installed(struct injection *inj, bool *ret)
{
	scoped(remote_closep) struct remote r = { 0 };
	struct wire_sigaction now = { 0 };
	struct wire_control c;
	struct wc_error *err = open_with_stub(inj, 0, &r);
	uint64_t at;
	unsigned int i;

	if (!err)
		err = ask_action(inj, &r, &now);
	if (err)
		return err;
	/* Other watchctls' handlers may stand in front of ours. */
	for (i = 0; i < CHAIN_MAX && now.handler != inj->handler; i++) {
		if (!placed_control_of(inj->pid, now.handler, &c, &at))
			break;
		now.handler = c.old.handler;
	}
	*ret = now.handler == inj->handler;
	return NULL;
}

/* For whoever finds the handler if we end before its memory is given back: nobody holds on to ours. */
static void tell_withdrawn(const struct injection *inj)
{
	injection_write(inj, offsetof(struct wire_control, withdrawn), &inj->handler, sizeof(inj->handler));
}

/* It was taken out by a controller that came no further, whatever has been put in front since. */
static bool was_withdrawn(const struct injection *inj)
{
	uint64_t handler;

	return injection_read(inj, offsetof(struct wire_control, withdrawn), &handler, sizeof(handler)) &&
	       handler == inj->handler;
}

static struct wc_error *uninstall_one(struct injection *inj, bool *replaced)
{
	scoped(remote_closep) struct remote r = { 0 };
	struct wire_sigaction now = { 0 };
	struct wc_error *err = open_with_stub(inj, 0, &r);

	*replaced = false;
	if (!err)
		err = ask_action(inj, &r, &now);
	if (err)
		return err;
	if (now.handler != inj->handler) {
		*replaced = !was_withdrawn(inj) && !unchain(inj, now.handler);
		if (!*replaced)
			tell_withdrawn(inj);
		inj->installed = false;
		return NULL;
	}
	err = trap_action_put_back(&r, inj->control + offsetof(struct wire_control, old),
				   inj->control + offsetof(struct wire_control, withdrawn), inj->handler,
				   replaced);
	if (!err)
		inj->installed = false;
	return err;
}

/* A process that was made with CLONE_VM runs in the same memory, with a copy of the actions. */
static struct wc_error *uninstall_in_sharers(const struct injection *inj)
{
	struct wc_error *err = NULL;
	struct thread_ids ids;
	size_t i;

	proc_sharers(inj->pid, &ids);
	for (i = 0; i < ids.n && !err; i++) {
		struct injection theirs = *inj;
		struct proc_status s;
		bool replaced;

		theirs.pid = ids.v[i];
		theirs.held = NULL;
		if (proc_shares_actions(inj->pid, ids.v[i]) || !proc_status_read(ids.v[i], ids.v[i], &s) ||
		    !(s.caught & PROC_SIGTRAP))
			continue;
		err = uninstall_one(&theirs, &replaced);
		if (err && err->kind == WC_ETARGET) { /* it has ended meanwhile */
			wc_error_free(err);
			err = NULL;
		}
	}
	thread_ids_deinit(&ids);
	return err;
}

struct wc_error *inject_uninstall(struct injection *inj, bool *replaced)
{
	struct wc_error *err = uninstall_one(inj, replaced);

	/* After the target's own: from now on none is made that has our action. */
	return err || *replaced ? err : uninstall_in_sharers(inj);
}

struct wc_error *inject_take_pending(struct injection *inj, pid_t tid, bool *taken)
{
	struct memory_view mem = proc_memory(&inj->pid);
	const uint64_t set = PROC_SIGTRAP, zero_time[2] = { 0, 0 };
	uint64_t at = inj->control + BOOT_DATA;
	scoped(remote_closep) struct remote r = { 0 };
	struct wc_error *err = open_with_stub(inj, tid, &r);
	int32_t info[SIGINFO_SIZE / 4] = { 0 };
	long result = 0;

	*taken = false;
	if (err)
		return err;
	if (!proc_write(inj->pid, at, &set, 8) || !proc_write(inj->pid, at + 8, zero_time, 16))
		return wc_error_errno(WC_EPERM, errno, "cannot write into process %d", inj->pid);
	err = remote_syscall(&r, NR_SIGTIMEDWAIT, at, at + 64, at + 8, 8, 0, 0, &result);
	if (err || result != SIGTRAP_NR)
		return err;
	if (memory_read(&mem, at + 64, info, sizeof(info)) && info[2] != TRAP_PERF_CODE)
		return remote_syscall(&r, NR_TGSIGQUEUEINFO, (uint64_t)inj->pid, (uint64_t)tid, SIGTRAP_NR,
				      at + 64, 0, 0, &result);
	*taken = true;
	return NULL;
}

/*
 * A thread that blocks SIGTRAP holds ours back; it would die of it once our handler is gone. False: one of
 * ours may still be there.
 */
static bool take_blocked(struct injection *inj, pid_t tid)
{
	struct wc_error *err = NULL;
	struct proc_status s;
	bool taken;

	if (proc_status_read(inj->pid, tid, &s) && (s.pending & s.blocked & PROC_SIGTRAP))
		err = inject_take_pending(inj, tid, &taken);
	wc_error_free(err);
	return !err || !proc_status_read(inj->pid, tid, &s);
}

/* One that waits for a child it has made by vfork cannot stop: on a busy machine that takes a while. */
static enum tracee_stop_result stop_patiently(pid_t pid, pid_t tid, uint64_t end, struct tracee *ret)
{
	enum tracee_stop_result r;

	do
		r = tracee_stop(pid, tid, FLUSH_STOP_MS, ret);
	while (r == TRACEE_BUSY && monotonic_ns() < end);
	return r;
}

bool inject_flush(struct injection *inj)
{
	uint64_t end = monotonic_ns() + FLUSH_PATIENCE_NS;
	struct thread_ids ids;
	bool all = true;
	size_t i;

	if (!proc_threads(inj->pid, &ids))
		return true;
	for (i = 0; i < ids.n; i++) {
		struct tracee t;
		enum tracee_stop_result r = stop_patiently(inj->pid, ids.v[i], end, &t);

		if (r == TRACEE_STOPPED)
			tracee_release(&t);
		else if (r != TRACEE_GONE)
			all = false;
		all &= take_blocked(inj, ids.v[i]);
	}
	thread_ids_deinit(&ids);
	return all;
}

bool inject_has_pending(pid_t pid)
{
	struct thread_ids ids;
	struct proc_status s;
	bool pending = false;
	size_t i;

	if (!proc_threads(pid, &ids))
		return false;
	for (i = 0; i < ids.n && !pending; i++)
		pending = proc_status_read(pid, ids.v[i], &s) && (s.pending & ~s.blocked & PROC_SIGTRAP);
	thread_ids_deinit(&ids);
	return pending;
}

static bool in_our_code(const struct injection *inj, uint64_t pc)
{
	return (pc >= inj->base && pc < inj->control) ||
	       (pc >= inj->stale_base && pc < inj->stale_base + inj->stale_size);
}

static bool inside(const struct injection *inj, pid_t pid, pid_t tid)
{
	struct tracee t;
	bool is_inside;
	uint64_t sp, pc;

	if (proc_resting(pid, tid, &sp, &pc))
		return in_our_code(inj, pc);
	switch (tracee_stop(pid, tid, 200, &t)) {
	case TRACEE_STOPPED:
		is_inside = in_our_code(inj, t.home.rip);
		tracee_release(&t);
		return is_inside;
	case TRACEE_GONE:
		return false;
	default:
		return true;
	}
}

static bool any_inside(const struct injection *inj, pid_t pid)
{
	struct thread_ids ids;
	bool busy = false;
	size_t i;

	if (!proc_threads(pid, &ids))
		return false;
	for (i = 0; i < ids.n && !busy; i++)
		busy = inside(inj, pid, ids.v[i]);
	thread_ids_deinit(&ids);
	return busy;
}

/* No thread is in the handler, nor can come into it any more: of whoever runs in that memory. */
static bool quiescent(const struct injection *inj)
{
	bool busy = any_inside(inj, inj->pid);
	struct thread_ids ids;
	size_t i;

	proc_sharers(inj->pid, &ids);
	for (i = 0; i < ids.n && !busy; i++)
		busy = any_inside(inj, ids.v[i]);
	thread_ids_deinit(&ids);
	return !busy;
}

struct wc_error *inject_remove(struct injection *inj)
{
	scoped(remote_closep) struct remote r = { 0 };
	struct wc_error *err;
	struct gadgets g;
	unsigned int ms;

	for (ms = 0; !quiescent(inj); ms++) {
		if (ms == QUIESCE_MS)
			return wc_error_new(
				WC_EFAIL,
				"a thread of process %d stays inside the handler (stopped, or starved): the "
				"handler is left mapped, and passes signals on",
				inj->pid);
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	err = gadgets_find(inj->pid, &g);
	if (!err)
		err = remote_open(inj->pid, 0, inj->held, &r);
	if (!err)
		err = remote_use_gadgets(&r, &g);
	if (!err)
		err = unmap_now(inj, &r);
	return err ? wc_error_context(err, "the handler's memory is left mapped in process %d", inj->pid)
		   : NULL;
}

void inject_adopt(pid_t pid, const struct placed *p, struct injection *ret)
{
	const struct wire_control *c = p->control;

	*ret = (struct injection){
		.pid = pid,
		.base = c->code_start,
		.size = c->mapping_size,
		.control = p->control_at,
		.handler = c->ours.handler,
		.shared_size = c->mapping_size - WIRE_CODE_SIZE,
		.installed = true,
		.adopted = true,
	};
}

void injection_deinit(struct injection *inj)
{
	if (inj->shared)
		munmap(inj->shared, inj->shared_size);
	*inj = (struct injection){ 0 };
}
