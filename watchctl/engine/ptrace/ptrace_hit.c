#include <asm/processor-flags.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include "handler/walk.h"
#include "watchctl/base/clock.h"
#include "watchctl/engine/ptrace/ptrace_tracer.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/debugreg.h"
#include "watchctl/target/stop/held.h"
#include "watchctl/target/stop/tracee.h"
#include "watchctl/target/stop/tracing.h"
#include "watchctl/target/stop/user_regs.h"

#define DR6_STEP (1ull << 14)
#define PTRACE_GET_RSEQ_CONFIGURATION_NR 0x420f
#define RSEQ_EVERY 1024u /* so often it is looked for, in a thread that does nothing but hit */
#define RSEQ_FIRST 64u

/* One stop of one thread, whichever watches it hit. */
struct trap {
	struct tracer *k;
	struct traced *t;
	struct regs regs;
	const struct wire_access_fact *fact; /* NULL: nothing is published about this place */
	bool has_operand;		     /* the fact's operand is [operand, operand + fact->size) */
	uint64_t operand;
	uint64_t time_ns;
};

/* One watch that it hit. */
struct hit {
	unsigned int watch, slot;
	struct wire_watch *w;
	uint64_t addr; /* of the debug register in this thread */
	uint64_t want; /* of the bytes asked for */
	uint64_t old_value, new_value;
	uint16_t flags;
};

struct walked {
	uint64_t frame[WIRE_FRAMES];
	uint32_t n; /* 0: not walked yet */
	enum walk_end end;
	bool exact;
	struct regs outer;
};

/* Values */

static bool operand_overlaps(const struct trap *trap, uint64_t addr, uint64_t len)
{
	return addr < trap->operand + trap->fact->size && trap->operand < addr + len;
}

/*
 * Not what the watch asked for: a pure write where only reads are wanted, or an access to bytes of the
 * register beside those wanted. Only what is known to be so.
 */
static bool is_unwanted(const struct trap *trap, const struct hit *h)
{
	if ((h->w->flags & WIRE_WATCH_EXECUTE) || !trap->has_operand ||
	    !operand_overlaps(trap, h->addr, h->w->size))
		return false;
	return ((h->w->flags & WIRE_WATCH_READS_ONLY) && trap->fact->kind == ACCESS_WRITE) ||
	       !operand_overlaps(trap, h->want, h->w->want_size);
}

/* Each process has memory of its own; of a variable that each thread has of its own, so has each thread. */
static uint64_t *shadow_of(const struct trap *trap, const struct hit *h, uint32_t **known, uint32_t *bit)
{
	struct traced_memory *m = trap->t->process->memory;

	if (h->w->flags & WIRE_WATCH_PER_THREAD) {
		*known = &trap->t->has_shadow;
		*bit = 1u << h->slot;
		return &trap->t->shadow[h->slot];
	}
	*known = &m->known;
	*bit = 1u << h->watch;
	return &m->shadow[h->watch];
}

/* Where the instruction does not say what the value is, it is read; with it comes the stack. */
static bool read_value(const struct trap *trap, const struct hit *h, uint64_t *ret)
{
	struct gulps *g = &trap->k->gulps;

	if (trap->has_operand && wire_value_from_fact(trap->fact, &trap->regs, h->want, h->w->want_size, ret))
		return true;
	*ret = 0;
	if (!g->n)
		return gulps_first(g, trap->regs.r[WREG_RSP], h->want, h->w->want_size, ret);
	return proc_read_some(g->tid, h->want, ret, h->w->want_size) == h->w->want_size;
}

/* The value after the access; and the last one seen, which it replaces as such. */
static void take_values(const struct trap *trap, struct hit *h)
{
	uint32_t *known, bit;
	uint64_t *shadow;

	if ((h->w->flags & WIRE_WATCH_EXECUTE) || !read_value(trap, h, &h->new_value))
		return;
	h->new_value = wire_truncate(h->new_value, h->w->want_size);
	h->flags |= WIRE_HAS_NEW | (trap->fact ? 0 : WIRE_NO_FACT);
	shadow = shadow_of(trap, h, &known, &bit);
	if (*known & bit) {
		h->old_value = *shadow;
		h->flags |= WIRE_HAS_OLD;
	}
	h->old_value = wire_truncate(h->old_value, h->w->want_size);
	*shadow = h->new_value;
	*known |= bit;
}

/* The filter */

static bool read_name(struct traced *t, char name[FILTER_NAME_LEN])
{
	char path[64];
	int fd = t->name_fd, spare;
	ssize_t n;

	if (fd < 0) {
		snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", t->process->pid, t->tid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return false;
		spare = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (spare >= 0) { /* one is left for what is looked up while threads stand still */
			close(spare);
			t->name_fd = fd;
		}
	}
	n = pread(fd, name, FILTER_NAME_LEN, 0);
	if (fd != t->name_fd)
		close(fd);
	if (n <= 0)
		return false;
	name[n - 1] = '\0'; /* the final newline */
	return true;
}

static enum filter_answer ask_condition(const struct trap *trap, const struct hit *h,
					const struct wire_filter *f)
{
	struct filter_input in = { .known = FILTER_NEEDS_TID, .tid = trap->t->inner };
	int64_t scratch[FILTER_OPS];

	if (!f->n)
		return FILTER_PASS;
	in.old_value = h->old_value;
	in.new_value = h->new_value;
	/* What memory holds may be another thread's value by now: the owner will know from the registers. */
	if (!(h->flags & WIRE_NO_FACT))
		in.known |=
			((h->flags & WIRE_HAS_OLD) && !(h->w->flags & WIRE_WATCH_SHARED) ? FILTER_NEEDS_OLD
											 : 0) |
			(h->flags & WIRE_HAS_NEW ? FILTER_NEEDS_NEW : 0);
	if (trap->has_operand && trap->fact->certain) {
		in.size = trap->fact->size;
		in.known |= FILTER_NEEDS_SIZE;
	}
	if ((f->needs & FILTER_NEEDS_NAME) && read_name(trap->t, in.name))
		in.known |= FILTER_NEEDS_NAME;
	if (f->needs & FILTER_NEEDS_REGS) {
		memcpy(in.reg, trap->regs.r, sizeof(trap->regs.r));
		in.known |= FILTER_NEEDS_REGS;
	}
	return filter_condition(f, &in, scratch);
}

static enum filter_answer ask_callers(const struct wire_filter *f, const struct walked *s)
{
	unsigned int bits = 0;
	uint32_t i;

	if (!f->ncallers && !f->nnot_callers)
		return FILTER_PASS;
	for (i = 0; i < s->n; i++)
		bits |= filter_caller_bits(f, i ? s->frame[i] - 1 : s->frame[i]);
	return filter_callers(f, bits, walk_end_hides_callers(s->end));
}

/* One in `sample`, and not too soon after the last one. */
static bool is_due(struct wire_watch *w, const struct wire_filter *f, uint64_t now)
{
	if (f->sample > 1 && w->passed++ % f->sample)
		return false;
	if (f->interval_ns && w->recorded_ns && now - w->recorded_ns < f->interval_ns)
		return false;
	w->recorded_ns = now;
	return true;
}

/* The record */

static void walk(const struct trap *trap, struct walked *s)
{
	const struct tracer *k = trap->k;
	const struct wire_control *ctl = k->ctl;
	uint32_t max = ctl->max_frames < WIRE_FRAMES ? ctl->max_frames : WIRE_FRAMES;
	uint64_t none;

	if (!k->gulps.n)
		gulps_first(&trap->k->gulps, trap->regs.r[WREG_RSP], 0, 0, &none);
	s->outer = trap->regs;
	if (trap->t->process->program == k->box->execs) {
		s->end = wire_walk((const void *)((const char *)ctl + ctl->rules_offset), max, gulps_read,
				   &trap->k->gulps, &s->outer, s->frame, &s->n, &s->exact);
		return;
	}
	/* A child of a program that the target runs no more: the tables are about another one. */
	s->frame[0] = trap->regs.r[WREG_RIP];
	s->n = 1;
	s->exact = true;
	s->end = WALK_END_NO_RULE;
}

static uint32_t raw_wanted(const struct wire_control *ctl, const struct walked *s)
{
	if (s->end != WALK_END_UNKNOWN_PC)
		return 0;
	return (ctl->raw_size < WIRE_RAW_MAX ? ctl->raw_size : WIRE_RAW_MAX) & ~7u;
}

/* Room in the ring, a multiple of 16 bytes; NULL: there is none now. Only we write there. */
static struct wire_record *room(const struct wire_control *ctl, uint32_t size, uint64_t *ret_at)
{
	char *ring = (char *)(uintptr_t)ctl + ctl->ring_offset;
	uint64_t mask = ctl->ring_size - 1, head = ctl->head;
	uint64_t left = ctl->ring_size - (head & mask);
	uint64_t pad = left < size ? left : 0;
	uint64_t tail = __atomic_load_n(&ctl->tail, __ATOMIC_ACQUIRE);

	if (head + pad + size - tail > ctl->ring_size)
		return NULL;
	if (pad) {
		struct wire_record *filler = (void *)(ring + (head & mask));

		filler->size = (uint32_t)pad;
		filler->flags = WIRE_PADDING;
		filler->commit = head ^ ctl->commit_key;
		head += pad;
	}
	*ret_at = head;
	return (void *)(ring + (head & mask));
}

static void commit(struct wire_control *ctl, struct wire_record *r, uint64_t at)
{
	r->commit = at ^ ctl->commit_key;
	__atomic_store_n(&ctl->head, at + r->size, __ATOMIC_RELEASE);
}

/* The thread waits, and with it its record, as long as anybody waits for the owner. NULL: the record is lost.
 */
static struct wire_record *wait_for_room(struct tracer *k, struct traced *t, uint32_t size)
{
	struct late_record *late = tracer_is_ahead(k) ? NULL : malloc(sizeof(*late) + size);

	if (!late)
		return NULL;
	tracer_hold(k, t, HOLD_RING);
	late->next = NULL;
	late->tid = t->tid;
	late->size = size;
	*k->late_end = late;
	k->late_end = &late->next;
	__atomic_fetch_add(&k->box->late, 1, __ATOMIC_ACQ_REL);
	return (struct wire_record *)late->bytes;
}

void hit_flush_late(struct tracer *k)
{
	while (k->late) {
		struct late_record *late = k->late;
		uint64_t at;
		struct wire_record *r = room(k->ctl, late->size, &at);
		struct traced *t;

		if (!r)
			return;
		memcpy(r, late->bytes, late->size);
		commit(k->ctl, r, at);
		__atomic_fetch_sub(&k->box->late, 1, __ATOMIC_ACQ_REL);
		k->late = late->next;
		if (!k->late)
			k->late_end = &k->late;
		t = threads_find(k, late->tid);
		free(late);
		if (!t)
			continue;
		t->holds &= ~(unsigned int)HOLD_RING;
		threads_settle(k, t);
	}
}

static void fill_record(const struct trap *trap, const struct hit *h, const struct walked *s, uint32_t raw,
			struct wire_record *r)
{
	uint64_t *frame = (uint64_t *)(r + 1);

	r->flags = (uint16_t)(h->flags | WIRE_TIME_NS | (s->exact ? WIRE_EXACT_PC : 0));
	r->watch = (uint8_t)h->watch;
	r->walk_end = (uint8_t)s->end;
	r->time = trap->time_ns;
	r->tid = (uint32_t)trap->t->inner;
	r->pid = trap->t->process->pid == trap->k->pid ? 0 : trap->t->process->inner;
	r->nframes = s->n;
	r->old_value = h->old_value;
	r->new_value = h->new_value;
	r->raw_addr = s->outer.r[WREG_RSP];
	r->raw_len = 0;
	r->syscall = -1;
	r->pad = 0;
	r->addr = h->addr;
	r->regs = trap->regs;
	memcpy(frame, s->frame, 8ull * s->n);
	if (s->end != WALK_END_UNKNOWN_PC)
		return;
	memcpy(frame + s->n, &s->outer, sizeof(s->outer));
	r->raw_len = proc_read_some(trap->k->gulps.tid, r->raw_addr, frame + s->n + WREG_COUNT, raw) & ~7ull;
}

static void wait_for_look(struct tracer *k, struct traced *t, uint64_t end)
{
	t->look_end = end;
	k->looks |= tracer_hold(k, t, HOLD_LOOK);
}

static void let_looked(struct tracer *k, struct traced *t)
{
	if (!(t->holds & HOLD_LOOK))
		return;
	if (__atomic_load_n(&k->ctl->tail, __ATOMIC_ACQUIRE) < t->look_end) {
		k->looks = true;
		return;
	}
	t->holds &= ~(unsigned int)HOLD_LOOK;
	threads_settle(k, t);
}

void hit_let_looked(struct tracer *k)
{
	if (!k->looks)
		return;
	k->looks = false;
	threads_each(k, let_looked);
}

static void put_record(const struct trap *trap, struct hit *h, const struct walked *s)
{
	struct tracer *k = trap->k;
	uint32_t raw = raw_wanted(k->ctl, s);
	uint64_t bytes = sizeof(struct wire_record) + 8ull * s->n, at = 0;
	uint32_t size;
	bool late = k->late != NULL; /* in the order of the hits */
	struct wire_record *r = NULL;

	if (s->end == WALK_END_UNKNOWN_PC)
		bytes += sizeof(struct regs) + raw;
	size = (uint32_t)((bytes + 15) & ~15ull);
	if (!late)
		r = room(k->ctl, size, &at);
	late = !r;
	if (late)
		r = wait_for_room(k, trap->t, size);
	if (!r) {
		h->w->lost++;
		return;
	}
	r->size = size;
	fill_record(trap, h, s, raw, r);
	if (!late)
		commit(k->ctl, r, at);
	if (!late && k->box->unreported && s->end == WALK_END_UNKNOWN_PC)
		wait_for_look(k, trap->t, at + size);
	if ((h->w->flags & WIRE_WATCH_HOLD) && !tracer_hold(k, trap->t, HOLD_HOOK))
		k->ctl->unheld++;
	if (late || s->end == WALK_END_UNKNOWN_PC || (h->w->flags & WIRE_WATCH_HOLD))
		tracer_wake(k);
}

static void take_hit(const struct trap *trap, struct hit *h, struct walked *s)
{
	const struct wire_filter *f =
		(const struct wire_filter *)((const char *)trap->k->ctl + WIRE_FILTERS_OFFSET) + h->watch;
	bool filter = h->w->flags & WIRE_WATCH_FILTER;
	enum filter_answer answer = FILTER_PASS, callers;

	take_values(trap, h);
	if (filter)
		answer = ask_condition(trap, h, f);
	if (answer == FILTER_DROP) {
		h->w->filtered++;
		return;
	}
	if (!s->n)
		walk(trap, s);
	if (filter) {
		callers = ask_callers(f, s);
		if (answer == FILTER_UNDECIDED || callers == FILTER_UNDECIDED)
			h->flags |= WIRE_UNDECIDED;
		if (callers == FILTER_DROP ||
		    (!(h->flags & WIRE_UNDECIDED) && !is_due(h->w, f, trap->time_ns))) {
			h->w->filtered++;
			return;
		}
	}
	put_record(trap, h, s);
}

static void look_up(struct trap *trap)
{
	const struct wire_control *ctl = trap->k->ctl;

	if (trap->t->process->program != trap->k->box->execs)
		return;
	trap->fact =
		wire_find_fact((const void *)((const char *)ctl + ctl->facts_offset), trap->regs.r[WREG_RIP]);
	trap->has_operand = trap->fact && wire_operand(trap->fact, &trap->regs, &trap->operand);
}

static void take_all(struct tracer *k, struct traced *t, const struct user_regs_struct *regs, uint64_t dr6)
{
	struct trap trap = { .k = k, .t = t, .time_ns = monotonic_ns() };
	struct walked stack;
	unsigned int slot;

	stack.n = 0;
	user_regs_read(regs, &trap.regs);
	gulps_begin(&k->gulps, t->tid);
	for (slot = 0; slot < DREGS; slot++) {
		struct hit h = { .slot = slot };

		if (!t->carries[slot] || (t->stale >> slot & 1) || !dregs_fired(dr6, slot))
			continue;
		h.watch = t->carries[slot] - 1u;
		h.w = &k->ctl->watch[h.watch];
		h.addr = t->at[slot];
		h.want = h.addr + h.w->want_offset;
		k->box->watch[h.watch].counted++;
		if (!trap.fact && !(h.w->flags & WIRE_WATCH_EXECUTE))
			look_up(&trap);
		if (is_unwanted(&trap, &h))
			h.w->filtered++;
		else
			take_hit(&trap, &h, &stack);
	}
}

/*
 * The kernel starts a restartable sequence again when its thread goes on after a stop. Where the access is
 * one of the sequence's own, it is made again, and again: that is looked for in threads that do nothing else.
 */
static void look_for_restarts(struct tracer *k, struct traced *t, uint64_t pc)
{
	struct {
		uint64_t area;
		uint32_t size, signature, flags, pad;
	} rseq = { 0 };
	uint64_t at = 0, cs[4];

	t->in_a_row = pc == t->hit_pc ? t->in_a_row + 1 : 0;
	t->hit_pc = pc;
	if (t->in_a_row % RSEQ_EVERY != RSEQ_FIRST ||
	    held_ptrace(PTRACE_GET_RSEQ_CONFIGURATION_NR, t->tid, sizeof(rseq), &rseq) < 0 || !rseq.area ||
	    proc_read_some(t->tid, rseq.area + 8, &at, sizeof(at)) != sizeof(at) || !at ||
	    proc_read_some(t->tid, at, cs, sizeof(cs)) != sizeof(cs))
		return;
	if (pc - cs[1] < cs[2])
		__atomic_store_n(&k->box->restarting, t->tid, __ATOMIC_RELEASE);
}

/* How many registers of ours are set in a thread; *ret: their bits, as in DR6. */
static unsigned int count_ours(const struct traced *t, uint64_t *ret)
{
	unsigned int slot, n = 0;

	*ret = 0;
	for (slot = 0; slot < DREGS; slot++)
		if (t->carries[slot]) {
			n++;
			*ret |= 1u << slot;
		}
	return n;
}

/* Registers of ours that have fired, by DR6; which need not be asked where there is but one. */
static bool which_fired(const struct traced *t, uint64_t *ret, bool *ret_others)
{
	unsigned int slot, ours = count_ours(t, ret);

	*ret_others = false;
	if (ours == 1 && !t->foreign)
		return true;
	if (!debugreg_read(t->tid, DEBUGREG_STATUS, ret))
		return false;
	for (slot = 0; slot < DREGS; slot++)
		*ret_others |= !t->carries[slot] && dregs_fired(*ret, slot);
	return true;
}

static bool take_merged(struct tracer *k, struct traced *t, const struct user_regs_struct *regs)
{
	bool others;
	uint64_t dr6;

	if (!which_fired(t, &dr6, &others))
		return false;
	take_all(k, t, regs, dr6);
	trap_requeue(t);
	return t->requeued;
}

/* See wire_code_raises_trap(): a hit of ours all the same. */
static bool is_without_cause(const struct traced *t, const siginfo_t *info,
			     const struct user_regs_struct *regs)
{
	uint8_t around[WIRE_TRAP_CODE];

	return info->si_code == TRAP_BRKPT && (uint64_t)(uintptr_t)info->si_addr == regs->rip &&
	       !(regs->eflags & X86_EFLAGS_TF) &&
	       proc_read_some(t->tid, regs->rip - 2, around, sizeof(around)) == sizeof(around) &&
	       !wire_code_raises_trap(around);
}

/* Of the only register that is set; of several, nobody can say which. False: none is. */
static bool take_without_cause(struct tracer *k, struct traced *t, const struct user_regs_struct *regs)
{
	uint64_t dr6;
	unsigned int ours = count_ours(t, &dr6);

	if (ours == 1 && !t->foreign) {
		take_all(k, t, regs, dr6);
		trap_keep(k, t);
	} else {
		k->ctl->causeless += ours > 0;
	}
	return ours > 0;
}

/*
 * Ours are those that the debug exception has made, at the very place where the thread stands: DR6 alone
 * says nothing, because the kernel leaves it as the last exception found it, and because an access by the
 * kernel itself shows in it and raises no signal. A single step that the program has asked for itself
 * (TRAP_TRACE) may be a hit as well; then both are reported.
 */
bool hit_take(struct tracer *k, struct traced *t)
{
	struct user_regs_struct regs;
	bool others = false;
	uint64_t dr6 = 0;
	siginfo_t info;

	if (held_ptrace(PTRACE_GETSIGINFO, t->tid, 0, &info) || held_ptrace(PTRACE_GETREGS, t->tid, 0, &regs))
		return false;
	tracing_begin_call_again(t->process->pid, t->tid, &regs); /* it may have been the kernel's access */
	if (trap_is_merged(k, t, &info))
		return take_merged(k, t, &regs);
	if (is_without_cause(t, &info, &regs))
		return take_without_cause(k, t, &regs);
	if ((info.si_code != TRAP_HWBKPT && info.si_code != TRAP_TRACE) ||
	    (uint64_t)(uintptr_t)info.si_addr != regs.rip)
		return false;
	if (info.si_code == TRAP_TRACE) {
		if (!debugreg_read(t->tid, DEBUGREG_STATUS, &dr6))
			return false;
		take_all(k, t, &regs, dr6);
		return false;
	}
	if (!which_fired(t, &dr6, &others))
		return false;
	take_all(k, t, &regs, dr6);
	look_for_restarts(k, t, regs.rip);
	trap_keep(k, t);
	return !others;
}

bool hit_is_pending(const struct traced *t)
{
	siginfo_t info[TRACEE_QUEUED];
	long n = tracee_queued(t->tid, 0, info), i;

	for (i = 0; i < n; i++)
		if (info[i].si_signo == SIGTRAP && info[i].si_code == TRAP_HWBKPT)
			return true;
	return false;
}
