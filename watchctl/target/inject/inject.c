#include "watchctl/target/inject/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include "handler_image.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/task.h"
#include "watchctl/target/inject/far_map.h"
#include "watchctl/target/inject/forked.h"
#include "watchctl/target/inject/inject_impl.h"
#include "watchctl/target/inject/remote.h"
#include "watchctl/target/inject/shared_area.h"
#include "watchctl/target/inject/trap_action.h"
#include "watchctl/target/proc/proc.h"

#define NR_MMAP 9
#define NR_MUNMAP 11
#define NR_PRCTL 157

#define SA_FLAGS_OURS 0x0c000004ull /* SA_SIGINFO | SA_RESTORER | SA_ONSTACK */
#define SA_FLAG_RESTART 0x10000000ull
#define CATCHES(action) ((action)->handler > 1) /* neither SIG_DFL nor SIG_IGN */
#define PR_GET_TSC_NR 25
#define PR_TSC_ENABLED 1
#define HWCAP2_HAS_FSGSBASE 2

#define SELF_TEST_TRIES 20u

_Static_assert(WIRE_BOOT_SIZE >= TRACEE_FRAME_MAX + 0xc000u,
	       "the boot area holds a frame and a signal stack");

extern const uint8_t handler_image[], handler_image_end[];

/* Memory that the target may attach to; map NULL: none. */
struct offer {
	void *map;
	int id;
	bool force_private;
};

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
			err,
			"its address space or locked memory is limited: try --engine ring, which maps nothing "
			"into it, or a smaller --buffer");
	if (result == -EACCES || result == -EPERM)
		return wc_error_hint(
			err,
			"a security policy forbids new code in it: the handler cannot be used there (choose "
			"--engine ring or ptrace)");
	return err;
}

/* The memory that is ours already, where that was offered and is taken; else memory of the target's own. */
static struct wc_error *map_area(struct injection *inj, struct remote *r, const struct offer *offer)
{
	int flags = offer->force_private ? MAP_PRIVATE : MAP_SHARED;
	struct wc_error *err = NULL;
	long result = -1;

	if (offer->map)
		err = remote_syscall(r, SHARED_AREA_ATTACH, (uint64_t)offer->id, inj->control,
				     SHARED_AREA_OVER, 0, 0, 0, &result);
	if (!err && offer->map && result == (long)inj->control) {
		inj->shared = offer->map;
		return NULL;
	}
	if (!err)
		err = remote_syscall(r, NR_MMAP, inj->control, inj->shared_size, PROT_READ | PROT_WRITE,
				     (uint64_t)(flags | MAP_ANONYMOUS | MAP_FIXED), (uint64_t)-1, 0, &result);
	if (err)
		return err;
	return result < 0 && result > -4096 ? map_failed(inj, result, "the event buffer") : NULL;
}

/* One mapping, made first readable and executable, so that nothing is ever writable and executable. */
static struct wc_error *map_region(struct injection *inj, struct remote *r, const struct offer *offer)
{
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
	return map_area(inj, r, offer);
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
	c->test_start = inj->base + IMAGE_REMOTE_READ;
	c->test_end = inj->base + IMAGE_REMOTE_SYSCALL;
	c->owner_pid = getpid();
	c->owner_start = proc_own_start_time();
	c->heartbeat = monotonic_ns();
	c->placed = task_ticks_now();
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
	inj->stale_handler = c.ours.handler;
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
				      "cannot read the SIGTRAP action of process %d", inj->pid);
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

struct wc_error *inject_unmap(struct injection *inj, struct remote *r)
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
			      const struct offer *offer)
{
	size_t image_size = (size_t)(handler_image_end - handler_image);
	struct wc_error *err = map_region(inj, r, offer);

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

static struct wc_error *place_offered(struct injection *inj, struct wire_control *control,
				      const struct offer *offer)
{
	scoped(remote_closep) struct remote r = { 0 };
	struct gadgets g;
	struct wc_error *err = gadgets_find(inj->pid, &g);

	if (!err)
		err = remote_open_prepared(inj->pid, 0, inj->held, &r);
	if (!err)
		err = far_map_prepare(&r, &g, inj->size);
	if (err)
		return err;
	inj->stop_tid = r.thread.tid;
	err = place(inj, &r, control, offer);
	if (err) {
		const struct injection tried = *inj;

		inj->stale_base = 0; /* it may still be installed */
		wc_error_free(inject_unmap(inj, &r));
		remote_close(&r);
		forked_undo(&tried, control->cookie);
		return err;
	}
	inj->stop_ns = remote_close(&r);
	return NULL;
}

struct wc_error *inject_place(pid_t pid, struct wire_control *control, uint64_t shared_size,
			      bool force_private, struct tracee *held, struct injection *ret)
{
	struct injection inj = {
		.pid = pid, .size = WIRE_CODE_SIZE + shared_size, .shared_size = shared_size, .held = held
	};
	struct offer offer = { .force_private = force_private };
	struct wc_error *err;

	if (!force_private)
		offer.map = shared_area_offer(pid, shared_size, &offer.id);
	err = place_offered(&inj, control, &offer);
	if (offer.map)
		shared_area_close(offer.id);
	if (offer.map && (err || !inj.shared))
		munmap(offer.map, shared_size);
	if (err)
		return err;
	if (!force_private && !inj.shared)
		inj.shared = shared_area_map(pid, inj.control, inj.shared_size);
	*ret = inj;
	return NULL;
}

struct wc_error *inject_open_stub(const struct injection *inj, pid_t tid, struct remote *r)
{
	struct wc_error *err;
	struct gadgets g;

	if (!inj->adopted) {
		err = remote_open(inj->pid, tid, inj->held, r);
		if (err)
			return err;
		if (inject_is_mapped(inj))
			return remote_use_stub(r, inj->base + IMAGE_REMOTE_SYSCALL,
					       inj->control + BOOT_FRAME);
		remote_close(r);
	}
	err = gadgets_find(inj->pid, &g);
	if (!err)
		err = remote_open_prepared(inj->pid, tid, inj->held, r);
	return err ? err : remote_use_gadgets(r, &g);
}

/* A thread with no hit of its own on the way: that one's registers must not be mistaken for the test's. */
static struct wc_error *open_without_pending(const struct injection *inj, struct remote *r, bool *ret)
{
	struct proc_status s;
	unsigned int i;

	*ret = false;
	for (i = 0; i < SELF_TEST_TRIES && !*ret; i++) {
		struct wc_error *err = inject_open_stub(inj, 0, r);

		if (err)
			return err;
		*ret = proc_status_read(inj->pid, r->thread.tid, &s) && !(s.pending & PROC_SIGTRAP);
		if (!*ret)
			remote_close(r);
	}
	return NULL;
}

/* The kernel forgets that it ignores these signals as soon as an instruction raises one (see tracee.h). */
static bool faults_end_it(pid_t pid)
{
	const uint64_t faults = 1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1);
	struct proc_status s;

	return !proc_status_read(pid, pid, &s) || (s.ignored & faults);
}

struct wc_error *inject_self_test(struct injection *inj, unsigned int n, const uint64_t *addr,
				  const bool *write, int si_code, bool *ret)
{
	scoped(remote_closep) struct remote r = { 0 };
	struct memory_view mem = proc_memory(&inj->pid);
	bool clear = false;
	struct wc_error *err = NULL;
	unsigned int i;
	uint8_t byte;

	if (!faults_end_it(inj->pid))
		err = open_without_pending(inj, &r, &clear);
	for (i = 0; !err && clear && i < n; i++)
		/* Not where it is known to fault; what the program gives back just now is another matter. */
		if (memory_read(&mem, addr[i], &byte, sizeof(byte)))
			err = tracee_expect_trap(
				&r.thread, inj->base + (write[i] ? IMAGE_REMOTE_REWRITE : IMAGE_REMOTE_READ),
				r.rsp, addr[i], si_code, 100, &ret[i]);
	return err;
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
