/*
 * slots_clear - the order is that of every session's end: sessions that shall end do it themselves; then the
 * registers that a killed one left armed are cleared; then every hit has been delivered; only then its
 * handler is taken out. Where a step fails, those behind it are not taken: a handler without use does no
 * harm.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/task.h"
#include "watchctl/engine/plan/dregs.h"
#include "watchctl/monitor/slots/slots.h"
#include "watchctl/monitor/slots/slots_children.h"
#include "watchctl/target/inject/inject.h"
#include "watchctl/target/stop/debugreg.h"
#include "watchctl/target/stop/tracee.h"

#define STOP_MS 500u
#define FLUSH_MS 100u
#define END_MS 15000
#define ROUNDS 3u /* of ending sessions, where new ones begin meanwhile */

struct clearing {
	const struct slots_clear *request;
	struct wc_error *first;
};

static void slots_clear_report(const struct clearing *c, const struct slots_freed *f)
{
	if (c->request->report)
		c->request->report(c->request->ctx, f);
}

/* Something stays, because of @err, which is taken. @owner: whose it is; 0: nobody's, or nobody knows. */
static void slots_clear_leave(struct clearing *c, pid_t owner, struct wc_error *err)
{
	struct slots_freed f = { .kind = SLOTS_LEFT, .owner = owner, .why = err->text };

	slots_clear_report(c, &f);
	c->first = wc_error_first(c->first, err);
}

/* Sessions that live */

static const char *who(const struct slot_session *one, char buf[64])
{
	if (one->owner)
		snprintf(buf, 64, "watchctl (process %d)", one->owner);
	else
		snprintf(buf, 64, "a watchctl in another PID namespace");
	return buf;
}

static bool wait_for_end(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return poll(&p, 1, END_MS) > 0;
}

/* As Ctrl-C does: it disarms, prints its summary, and leaves the process as it was. */
static struct wc_error *end_session(const struct slots *s, const struct slot_session *one)
{
	struct proc_status status;
	char name[64];

	if (!one->owner)
		return wc_error_new(WC_EPERM, "%s watches process %d: end it where it runs", who(one, name),
				    s->pid);
	scoped(closep) int fd = (int)syscall(SYS_pidfd_open, one->owner, 0);
	if ((fd < 0 && errno == ESRCH) || !proc_lives(one->owner, one->owner_start))
		return NULL;
	if (fd < 0 || syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0)) {
		if (errno == ESRCH)
			return NULL;
		return wc_error_errno(errno == EPERM ? WC_EPERM : WC_EFAIL, errno, "cannot end %s",
				      who(one, name));
	}
	if (proc_status_read(one->owner, one->owner, &status) && status.state == 'T')
		syscall(SYS_pidfd_send_signal, fd, SIGCONT, NULL, 0);
	if (!wait_for_end(fd))
		return wc_error_new(WC_EFAIL,
				    "%s was requested to end (SIGTERM), but has not ended within %d seconds",
				    who(one, name), END_MS / 1000);
	return NULL;
}

static bool is_reported_before(const struct slots *s, size_t i)
{
	size_t k;

	for (k = 0; k < i; k++)
		if (s->session[k].lives && s->session[k].owner == s->session[i].owner)
			return true;
	return false;
}

/* Returns whether any was ended. */
static bool end_sessions(struct clearing *c, const struct slots *s)
{
	bool any = false;
	size_t i;

	for (i = 0; i < s->nsessions; i++) {
		const struct slot_session *one = &s->session[i];
		struct slots_freed f = { .kind = SLOTS_ENDED, .owner = one->owner };
		struct wc_error *err;

		if (!one->lives || is_reported_before(s, i))
			continue;
		err = end_session(s, one);
		if (err) {
			slots_clear_leave(c, one->owner, err);
			continue;
		}
		slots_clear_report(c, &f);
		any = true;
	}
	return any;
}

static void name_sessions(struct clearing *c, const struct slots *s)
{
	char name[64];
	size_t i;

	for (i = 0; i < s->nsessions; i++)
		if (s->session[i].lives && !is_reported_before(s, i))
			slots_clear_leave(
				c, s->session[i].owner,
				wc_error_new(
					WC_EFAIL,
					"%s is watching process %d (%s) and was not changed: watchctl clear "
					"--all ends it",
					who(&s->session[i], name), s->pid, s->name));
}

/* Registers */

/* A thread of which it is not known that nothing armed by ptrace is in it. */
static bool any_unseen(const struct slots *s)
{
	size_t i;

	for (i = 0; i < s->nthreads; i++)
		if (s->thread[i].sight != SLOT_SEEN && s->thread[i].sight != SLOT_NONE)
			return true;
	return false;
}

static bool is_left_over(const struct slots *s, const struct slot_register *r)
{
	return r->session >= 0 && !s->session[r->session].lives;
}

static bool is_live(const struct slots *s, const struct slot_register *r)
{
	return r->session >= 0 && s->session[r->session].lives;
}

/* Bit n: DRn of thread @t is to be cleared. */
static unsigned int to_clear(const struct clearing *c, const struct slots *s, const struct slot_thread *t)
{
	unsigned int n, mask = 0;

	for (n = 0; n < SLOTS; n++) {
		const struct slot_register *r = &t->reg[n];

		if (r->armed && (is_left_over(s, r) || ((c->request->registers >> n & 1) && !is_live(s, r))))
			mask |= 1u << n;
	}
	return mask;
}

/* The registers of @mask that still hold what was seen there. False: not permitted, or it does not stand
 * still. */
static bool clear_in_stopped(const struct slot_thread *t, unsigned int mask)
{
	unsigned int n;
	uint64_t dr7;

	if (!debugreg_read(t->tid, DEBUGREG_CONTROL, &dr7))
		return false;
	for (n = 0; n < SLOTS; n++) {
		enum access_kind access;
		uint64_t addr;
		uint32_t size;

		if (!(mask >> n & 1) || !dregs_decode(dr7, n, &size, &access) ||
		    !debugreg_read(t->tid, n, &addr) || addr != t->reg[n].addr || size != t->reg[n].size ||
		    access != t->reg[n].access)
			continue;
		dr7 &= ~dregs_dr7_mask(n);
		if (!debugreg_write(t->tid, DEBUGREG_CONTROL, dr7))
			return false;
		debugreg_write(t->tid, n, 0); /* disarmed already: a stale address is no trouble */
	}
	return true;
}

static struct wc_error *clear_in_thread(const struct slots *s, const struct slot_thread *t, unsigned int mask)
{
	enum tracee_stop_result r;
	struct tracee tracee;
	bool ok;

	r = tracee_stop(s->pid, t->tid, STOP_MS, &tracee);
	if (r == TRACEE_GONE)
		return NULL;
	if (r != TRACEE_STOPPED)
		return wc_error_new(
			r == TRACEE_BUSY ? WC_ENOTSUP : WC_EPERM,
			"thread %d of process %d (%s) could not be stopped to clear its debug registers%s",
			t->tid, s->pid, s->name,
			r == TRACEE_BUSY ? ": it is in an uninterruptible system call; try again" : "");
	ok = clear_in_stopped(t, mask);
	tracee_release(&tracee);
	return ok ? NULL
		  : wc_error_new(WC_EFAIL, "cannot clear the debug registers of thread %d of process %d",
				 t->tid, s->pid);
}

/* Each register once, with the number of threads that had the same in it. */
static void report_register(const struct clearing *c, const struct slots *s, const struct slot_thread *t,
			    unsigned int n, const bool *done)
{
	const struct slot_register *r = &t->reg[n];
	struct slots_freed f = { .kind = SLOTS_FREED_REGISTER,
				 .slot = n,
				 .addr = r->addr,
				 .size = r->size,
				 .access = r->access,
				 .owner = r->session >= 0 ? s->session[r->session].owner : 0 };
	size_t i;

	for (i = 0; i < s->nthreads; i++) {
		const struct slot_register *other = &s->thread[i].reg[n];

		if (!done[i] || !other->armed || other->addr != r->addr || other->size != r->size ||
		    other->access != r->access)
			continue;
		if (&s->thread[i] < t)
			return;
		f.threads++;
	}
	if (!slots_name(s, r->addr, f.name))
		f.name[0] = '\0';
	slots_clear_report(c, &f);
}

static void report_registers(const struct clearing *c, const struct slots *s, const bool *done)
{
	unsigned int n;
	size_t i;

	for (n = 0; n < SLOTS; n++)
		for (i = 0; i < s->nthreads; i++)
			if (done[i] && (to_clear(c, s, &s->thread[i]) >> n & 1))
				report_register(c, s, &s->thread[i], n, done);
}

/* Asked for, but in no thread. What a session that lives has there, it was named for. */
static void report_untouched(struct clearing *c, const struct slots *s)
{
	unsigned int n;
	size_t i;

	for (n = 0; n < SLOTS; n++) {
		struct slots_freed f = { .kind = SLOTS_REGISTER_CLEAR, .slot = n };
		bool armed = false;

		if (!(c->request->registers >> n & 1))
			continue;
		for (i = 0; i < s->nthreads; i++)
			armed |= s->thread[i].reg[n].armed;
		if (!armed)
			slots_clear_report(c, &f);
	}
}

/* False: some thread keeps what a killed session left in it. */
static bool clear_registers(struct clearing *c, const struct slots *s)
{
	scoped(freep) bool *done = calloc(s->nthreads, sizeof(*done));
	bool all = true;
	size_t i;

	if (c->request->registers && any_unseen(s))
		slots_clear_leave(
			c, 0,
			wc_error_new(
				WC_ENOTSUP,
				"not all threads of process %d (%s) could be examined: their debug registers are "
				"left as they are",
				s->pid, s->name));
	if (!done) {
		slots_clear_leave(c, 0, &wc_enomem);
		return false;
	}
	for (i = 0; i < s->nthreads; i++) {
		unsigned int mask = to_clear(c, s, &s->thread[i]);
		struct wc_error *err = mask ? clear_in_thread(s, &s->thread[i], mask) : NULL;

		done[i] = mask && !err;
		all &= !err;
		if (err)
			slots_clear_leave(c, 0, err);
	}
	report_registers(c, s, done);
	report_untouched(c, s);
	return all;
}

/* Handlers */

static bool has_registers(const struct slot_session *one)
{
	unsigned int k;

	for (k = 0; k < one->nwatches; k++)
		if (one->watch[k].by_ptrace)
			return true;
	return false;
}

static bool any_traced(const struct slots *s)
{
	size_t i;

	for (i = 0; i < s->nthreads; i++)
		if (s->thread[i].sight == SLOT_TRACED)
			return true;
	return false;
}

static bool any_live_handler(const struct slots *s)
{
	size_t i;

	for (i = 0; i < s->nsessions; i++)
		if (s->session[i].lives && s->session[i].engine == SLOT_HANDLER)
			return true;
	return false;
}

/* Why the handler must stay for now; NULL: it need not. */
static struct wc_error *slots_clear_refuse(const struct slots *s, const struct slot_session *one)
{
	if (one->other_version)
		return wc_error_new(
			WC_ENOTSUP,
			"process %d contains a handler of a different version of watchctl: only that version knows "
			"whether it is in use, and can remove it",
			s->pid);
	if (s->tracer)
		return wc_error_new(
			WC_EPERM,
			"what a killed watchctl has left in process %d (%s) cannot be removed while %s (process %d) "
			"traces it: detach that tracer briefly",
			s->pid, s->name, s->tracer_name, s->tracer);
	if (any_traced(s))
		return wc_error_new(
			WC_EPERM,
			"what a killed watchctl has left in process %d (%s) cannot be removed while another watchctl "
			"traces it: end that first (--all does)",
			s->pid, s->name);
	if (one->inherited_from && any_live_handler(s))
		return wc_error_new(
			WC_ENOTSUP,
			"the handler in process %d (%s) is shared with process %d, from which it was forked and which "
			"a watchctl is watching: try again when that has ended",
			s->pid, s->name, one->inherited_from);
	if (has_registers(one) && any_unseen(s))
		return wc_error_new(
			WC_ENOTSUP,
			"not all threads of process %d (%s) could be examined, and a debug register may still be "
			"armed in one: the handler is left in place for it",
			s->pid, s->name);
	return NULL;
}

static struct wc_error *slots_clear_flush(struct injection *inj)
{
	bool all = inject_flush(inj);
	unsigned int ms;

	for (ms = 0; all && ms < FLUSH_MS && inject_has_pending(inj->pid); ms++)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	if (all && !inject_has_pending(inj->pid))
		return NULL;
	return wc_error_new(
		WC_ENOTSUP,
		"a SIGTRAP may still be pending in a thread of process %d: the handler is left in place for it; try "
		"again",
		inj->pid);
}

static struct wc_error *take_out(const struct slots *s, const struct slot_session *one)
{
	bool taken_over = one->placed->control->flags & WIRE_TAKEN_OVER, replaced = false;
	struct injection inj;
	struct wc_error *err;

	if (one->inherited_from)
		return slots_clear_child(s->pid, one->placed);
	inject_adopt(s->pid, one->placed, &inj);
	err = slots_clear_flush(&inj);
	if (!err)
		err = inject_uninstall(&inj, &replaced);
	if (err)
		err = wc_error_context(
			err, "the handler is left in process %d, where it only passes signals on", s->pid);
	if (!err && replaced && !taken_over)
		err = wc_error_new(
			WC_EFAIL,
			"process %d (%s) has replaced watchctl's SIGTRAP handler with its own, and may restore "
			"watchctl's: watchctl's is left mapped, where it only passes signals on",
			s->pid, s->name);
	if (!err)
		err = inject_remove(&inj);
	injection_deinit(&inj);
	return err;
}

static void clear_handlers(struct clearing *c, const struct slots *s, bool registers_cleared)
{
	size_t i;

	for (i = 0; i < s->nsessions; i++) {
		const struct slot_session *one = &s->session[i];
		struct slots_freed f = { .kind = SLOTS_FREED_HANDLER, .owner = one->owner };
		struct wc_error *err;

		if (one->lives || one->engine != SLOT_HANDLER || (has_registers(one) && !registers_cleared))
			continue;
		err = slots_clear_refuse(s, one);
		if (!err)
			err = take_out(s, one);
		if (err) {
			slots_clear_leave(c, one->owner, err);
			continue;
		}
		f.addr = one->placed->control->code_start;
		f.size = one->placed->control->mapping_size;
		slots_clear_report(c, &f);
	}
}

/* The whole */

static struct wc_error *refuse_registers(const struct slots *s, unsigned int registers)
{
	if (registers && s->tracer)
		return wc_error_new(
			WC_EPERM,
			"the debug registers of process %d (%s) belong to %s (process %d), which traces it: registers "
			"of a debugger are never cleared",
			s->pid, s->name, s->tracer_name, s->tracer);
	return NULL;
}

static struct wc_error *read_slots(pid_t pid, struct holder_list *holders, struct slots *ret)
{
	struct wc_error *err;

	holders_deinit(holders);
	err = holders_read(holders);
	return err ? err : slots_read(pid, holders, ret);
}

/* Ends what lives, where that is asked for, until nothing does; *ret is then up to date. */
static struct wc_error *settle_sessions(struct clearing *c, struct holder_list *holders, struct slots *ret)
{
	struct wc_error *err = read_slots(c->request->pid, holders, ret);
	unsigned int round;

	for (round = 0; !err && c->request->all && round < ROUNDS && end_sessions(c, ret); round++) {
		slots_deinit(ret);
		err = read_slots(c->request->pid, holders, ret);
	}
	if (!err && (!c->request->all || round == ROUNDS))
		name_sessions(c, ret);
	return err;
}

/* Nor is there anything to be cleared in a zombie. */
static bool is_there(pid_t pid)
{
	struct proc_status s;

	return proc_status_read(pid, task_with_memory(pid), &s) && s.state != 'Z' && s.state != 'X';
}

struct wc_error *slots_clear(const struct slots_clear *request)
{
	scoped(holders_deinitp) struct holder_list holders = { 0 };
	scoped(slots_deinitp) struct slots s = { 0 };
	struct clearing c = { .request = request };
	struct wc_error *err = NULL;
	bool cleared = true;

	if (!request->children || is_there(request->pid)) {
		err = settle_sessions(&c, &holders, &s);
		if (!err)
			err = refuse_registers(&s, request->registers);
		if (err) {
			wc_error_free(c.first);
			return err;
		}
		if (!s.tracer)
			cleared = clear_registers(&c, &s);
		clear_handlers(&c, &s, cleared);
	}
	if (request->children)
		err = slots_clear_children(request->pid, request->report, request->ctx);
	if (err)
		slots_clear_leave(&c, 0, err);
	return c.first;
}
