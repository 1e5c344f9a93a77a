#include <errno.h>
#include <sys/ptrace.h>

#include "watchctl/engine/ptrace/ptrace_tracer.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/debugreg.h"
#include "watchctl/target/stop/held.h"

bool arm_wanted(const struct tracer *k, const struct traced *t, unsigned int i)
{
	return (k->want >> i & 1) && k->box->watch[i].program == t->process->program &&
	       !(t->without >> i & 1);
}

static int register_of(const struct traced *t, unsigned int watch)
{
	int slot;

	for (slot = 0; slot < DREGS; slot++)
		if (t->carries[slot] == watch + 1 && !(t->stale >> slot & 1))
			return slot;
	return -1;
}

bool arm_carries(const struct traced *t, unsigned int i)
{
	return register_of(t, i) >= 0;
}

bool arm_is_done(const struct tracer *k, const struct traced *t)
{
	unsigned int i;

	if (t->stale)
		return false;
	for (i = 0; i < WIRE_WATCHES; i++)
		if (arm_wanted(k, t, i) != arm_carries(t, i))
			return false;
	return true;
}

void arm_forget(struct traced *t)
{
	unsigned int slot;

	for (slot = 0; slot < DREGS; slot++)
		t->carries[slot] = 0;
	t->dr7 = 0;
	t->foreign = t->stale = 0;
	t->without = t->has_shadow = 0;
	t->met = true;
}

/* What was armed before we came is not ours: neither to use, nor to clear. */
static struct wc_error *meet(struct tracer *k, struct traced *t)
{
	struct ptrace_box *box = k->box;
	unsigned int slot;

	if (!debugreg_read(t->tid, DEBUGREG_CONTROL, &t->dr7))
		return wc_error_errno(WC_ENOTSUP, errno, "cannot read the debug registers of thread %d",
				      t->tid);
	t->met = true;
	for (slot = 0; slot < DREGS; slot++) {
		if (!dregs_enabled(t->dr7, slot))
			continue;
		t->foreign |= (uint8_t)(1u << slot);
		if (box->nforeign < BOX_FOREIGN)
			box->foreign[box->nforeign++] = (struct box_foreign){ t->tid, slot };
	}
	trap_meet(k, t);
	return NULL;
}

static struct wc_error *no_register(const struct traced *t, const struct box_watch *w)
{
	if (w->slot >= 0)
		return wc_error_new(
			WC_ESLOTS,
			"debug register %d is in use in thread %d: a killed debugger or watchctl left it armed "
			"(watchctl list -p %d shows it); choose another with -i, or omit -i",
			w->slot, t->tid, t->process->pid);
	return wc_error_new(WC_ESLOTS,
			    "no free debug register in thread %d: all %d are armed, by this command or by a "
			    "debugger that was killed (watchctl list -p %d shows them)",
			    t->tid, DREGS, t->process->pid);
}

static struct wc_error *refused(const struct traced *t, const struct box_watch *w, uint64_t addr, int error)
{
	if (error == ENOSPC || error == EBUSY)
		return wc_error_new(
			WC_ESLOTS,
			"no free debug register in thread %d of process %d: perf events of another watchctl, of perf "
			"or of the program itself hold them (watchctl list -p %d shows which)",
			t->tid, t->process->pid, t->process->pid);
	if (error == ESRCH)
		return wc_error_new(WC_ETARGET, "thread %d ended while it was being armed", t->tid);
	return wc_error_errno(WC_ENOTSUP, error, "cannot arm %u bytes at 0x%llx in thread %d", w->size,
			      (unsigned long long)addr, t->tid);
}

static int choose(const struct traced *t, const struct box_watch *w)
{
	int slot;

	for (slot = 0; slot < DREGS; slot++) {
		bool taken = t->carries[slot] || (t->foreign >> slot & 1);

		if (!taken && (w->slot < 0 || w->slot == slot))
			return slot;
	}
	return -1;
}

static void clear(struct traced *t, unsigned int slot)
{
	t->dr7 &= ~dregs_dr7_mask(slot);
	debugreg_write(t->tid, DEBUGREG_CONTROL, t->dr7);
	debugreg_write(t->tid, slot, 0);
	t->carries[slot] = 0;
	t->stale &= (uint8_t) ~(1u << slot);
	t->has_shadow &= ~(1u << slot);
}

/* What is there before the first hit. */
static void see_value(struct tracer *k, struct traced *t, unsigned int i, unsigned int slot)
{
	const struct wire_watch *w = &k->ctl->watch[i];
	struct traced_memory *m = t->process->memory;
	bool own = w->flags & WIRE_WATCH_PER_THREAD;
	uint64_t value = 0;

	t->has_shadow &= ~(1u << slot);
	if (!own && (m->known >> i & 1))
		return;
	/* Who would fill the page may be a thread that waits for us. */
	if (proc_page_waits(t->process->pid, t->at[slot] + w->want_offset) ||
	    proc_read_some(t->process->pid, t->at[slot] + w->want_offset, &value, w->want_size) !=
		    w->want_size)
		return;
	if (own) {
		t->shadow[slot] = value;
		t->has_shadow |= 1u << slot;
	} else {
		m->shadow[i] = value;
		m->known |= 1u << i;
	}
}

static struct wc_error *set(struct tracer *k, struct traced *t, unsigned int i, uint64_t addr)
{
	const struct box_watch *w = &k->box->watch[i];
	int slot = choose(t, w);
	uint64_t dr7;

	if (slot < 0)
		return no_register(t, w);
	/* An address must fit the length that the register had before, unless that is gone. */
	if (t->dr7 & dregs_dr7_mask((unsigned int)slot)) {
		t->dr7 &= ~dregs_dr7_mask((unsigned int)slot);
		debugreg_write(t->tid, DEBUGREG_CONTROL, t->dr7);
	}
	dr7 = t->dr7 | dregs_dr7((unsigned int)slot, w->size, (enum access_kind)w->access);
	if (!debugreg_write(t->tid, (unsigned int)slot, addr) ||
	    !debugreg_write(t->tid, DEBUGREG_CONTROL, dr7)) {
		int error = errno;

		debugreg_write(t->tid, DEBUGREG_CONTROL, t->dr7);
		return refused(t, w, addr, error);
	}
	t->dr7 = dr7;
	t->carries[slot] = (uint8_t)(i + 1);
	t->at[slot] = addr;
	see_value(k, t, i, (unsigned int)slot);
	return NULL;
}

/* The first failure of a command is its answer; later, in threads that are born, the user is informed. */
static void failed(struct tracer *k, struct traced *t, unsigned int i, struct wc_error *err)
{
	t->without |= 1u << i;
	if (err->kind == WC_ETARGET) {
		wc_error_free(err);
	} else if (k->working && !k->error && k->command == BOX_ARM && k->argument == i) {
		k->error = err;
	} else {
		tracer_note(k, "not armed: %s", err->text);
		wc_error_free(err);
	}
}

/* The owner sees to it later (extend()). */
static void lack(struct traced *t, unsigned int i)
{
	t->without |= 1u << i;
	if (t->reported)
		t->reported->lacks |= 1u << i;
}

/* False: the owner must be asked first. */
static bool address_of(struct tracer *k, struct traced *t, unsigned int i, uint64_t *ret)
{
	struct user_regs_struct regs;

	*ret = k->box->watch[i].addr;
	if (*ret)
		return true;
	t->asking = i + 1;
	t->query = -1;
	k->queries++;
	for (int q = 0; q < (int)BOX_QUERIES; q++) {
		struct box_query *query = &k->box->query[q];
		uint32_t state = __atomic_load_n(&query->state, __ATOMIC_ACQUIRE);

		if (QUERY_STATE(state) != QUERY_FREE)
			continue;
		if (held_ptrace(PTRACE_GETREGS, t->tid, 0, &regs))
			regs.fs_base = 0;
		query->watch = i;
		query->tid = t->tid;
		query->thread_pointer = regs.fs_base;
		if (t->reported)
			t->reported->thread_pointer = regs.fs_base;
		query->found = false;
		__atomic_store_n(&query->state, state + QUERY_NEXT + QUERY_ASKED, __ATOMIC_RELEASE);
		t->query = q;
		tracer_wake(k);
		break;
	}
	return false;
}

void arm_thread(struct tracer *k, struct traced *t)
{
	struct wc_error *err = t->met ? NULL : meet(k, t);
	unsigned int i, slot;
	uint64_t addr;

	for (slot = 0; slot < DREGS; slot++)
		if (t->carries[slot] && ((t->stale >> slot & 1) || !arm_wanted(k, t, t->carries[slot] - 1u)))
			clear(t, slot);
	for (i = 0; i < WIRE_WATCHES; i++) {
		if (!arm_wanted(k, t, i) || arm_carries(t, i))
			continue;
		if (!err && !k->box->watch[i].addr && !tracer_hold(k, t, HOLD_QUERY)) {
			k->ctl->unheld++;
			lack(t, i);
			continue;
		}
		if (!err && !address_of(k, t, i, &addr))
			return;
		if (!err)
			err = set(k, t, i, addr);
		if (err)
			failed(k, t, i, err);
		err = NULL;
	}
	t->generation = k->generation;
}

void arm_drop_query(struct tracer *k, struct traced *t)
{
	struct box_query *q = t->query < 0 ? NULL : &k->box->query[t->query];

	if (!(t->holds & HOLD_QUERY))
		return;
	t->holds &= ~(unsigned int)HOLD_QUERY;
	t->asking = 0;
	k->queries--;
	if (q)
		__atomic_store_n(&q->state, q->state & ~3u, __ATOMIC_RELEASE);
}

void arm_give_up_query(struct tracer *k, struct traced *t)
{
	lack(t, t->asking - 1);
	arm_drop_query(k, t);
}

static void take_answer(struct tracer *k, struct traced *t)
{
	const struct box_query *q = t->query < 0 ? NULL : &k->box->query[t->query];
	unsigned int i = t->asking - 1;
	struct wc_error *err = NULL;

	if (!(t->holds & HOLD_QUERY))
		return;
	if (q && QUERY_STATE(__atomic_load_n(&q->state, __ATOMIC_ACQUIRE)) != QUERY_ANSWERED)
		return;
	if (q && !q->found) {
		lack(t, i);
	} else if (q && arm_wanted(k, t, i)) {
		err = set(k, t, i, q->addr);
	}
	if (err)
		failed(k, t, i, err);
	arm_drop_query(k, t);
	threads_settle(k, t); /* which asks again where no place was free */
}

void arm_take_answers(struct tracer *k)
{
	if (k->queries)
		threads_each(k, take_answer);
}
