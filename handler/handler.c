/*
 * handler - records one access, inside the traced program, in SIGTRAP context.
 *
 * Rules of this place: no libc, no allocation, no lock, general registers only, all signals
 * blocked, little stack. The program's memory is touched by peek.h alone.
 */
#include "handler/handler.h"
#include "handler/peek.h"
#include "handler/sys.h"
#include "handler/walk.h"

#define ACCESS_KIND_WRITE 2
#define FUTEX_WAKE 1
#define PR_GET_NAME 16
#define NEARBY 64ull /* the widest plain operand */
#define RAW_WHEN_LAGGING 1024u

static void copy_words(uint64_t *to, const uint64_t *from, uint64_t n)
{
	__asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

static void futex_wake(uint32_t *word)
{
	sys4(NR_FUTEX, word, FUTEX_WAKE, 1, 0);
}

/* Room for @size bytes, a multiple of 16; NULL when the controller has not kept up. */
static struct wire_record *reserve(struct wire_control *ctl, uint32_t size, uint64_t *ret_pos)
{
	char *ring = (char *)ctl + ctl->ring_offset;
	uint64_t mask = ctl->ring_size - 1;
	uint64_t head = __atomic_load_n(&ctl->head, __ATOMIC_RELAXED);

	for (;;) {
		uint64_t left = ctl->ring_size - (head & mask);
		uint64_t pad = left < size ? left : 0;
		uint64_t tail = __atomic_load_n(&ctl->tail, __ATOMIC_ACQUIRE);

		/* Full; unless we were held up since we read head, and tail is past what it was then. */
		if (head + pad + size - tail > ctl->ring_size) {
			uint64_t now = __atomic_load_n(&ctl->head, __ATOMIC_RELAXED);

			if (now == head)
				return 0;
			head = now;
			continue;
		}
		if (!__atomic_compare_exchange_n(&ctl->head, &head, head + pad + size, true, __ATOMIC_RELAXED,
						 __ATOMIC_RELAXED))
			continue;
		if (pad) {
			struct wire_record *filler = (void *)(ring + (head & mask));

			filler->size = (uint32_t)pad;
			filler->flags = WIRE_PADDING;
			__atomic_store_n(&filler->commit, head ^ ctl->commit_key, __ATOMIC_RELEASE);
			head += pad;
		}
		*ret_pos = head;
		return (void *)(ring + (head & mask));
	}
}

/*
 * Bytes behind the frames of a record whose walk stopped short: registers and stack. Less stack where the
 * controller lags behind: a shorter walk, said to be one, is better than a lost event.
 */
static uint32_t raw_size(const struct wire_control *ctl)
{
	uint32_t raw = ctl->raw_size < WIRE_RAW_MAX ? ctl->raw_size : WIRE_RAW_MAX;
	uint64_t tail = __atomic_load_n(&ctl->tail, __ATOMIC_ACQUIRE); /* first: so it is never past head */

	if (__atomic_load_n(&ctl->head, __ATOMIC_RELAXED) - tail > ctl->ring_size / 2)
		raw = raw < RAW_WHEN_LAGGING ? raw : RAW_WHEN_LAGGING;

	return (uint32_t)sizeof(struct regs) + (raw & ~7u);
}

/* As much of the stack from the last frame's rsp upwards as can be read, for the controller to unwind. */
static uint32_t put_raw_stack(const struct wire_control *ctl, struct wire_record *r, uint32_t nframes,
			      const struct regs *outer, uint32_t raw)
{
	uint64_t *at = (uint64_t *)(r + 1) + nframes;

	copy_words(at, outer->r, WREG_COUNT);
	return (uint32_t)peek_some(peek_pid(ctl), outer->r[WREG_RSP], at + WREG_COUNT, raw - sizeof(*outer)) &
	       ~7u;
}

static uint64_t timestamp(const struct wire_control *ctl, uint16_t *flags)
{
	if (ctl->flags & WIRE_USE_TSC)
		return __builtin_ia32_rdtsc();
	*flags |= WIRE_TIME_NS;
	return monotonic_ns();
}

static void load_regs(const struct wire_control *ctl, const uint64_t *gregs, struct regs *ret)
{
	unsigned int i;

	for (i = 0; i < 17; i++)
		ret->r[ucontext_order[i]] = gregs[i];
	ret->r[WREG_RFLAGS] = gregs[17];
	ret->r[WREG_FS_BASE] = 0;
	if (ctl->flags & WIRE_HAVE_FSGSBASE)
		__asm__ volatile("rdfsbase %0" : "=r"(ret->r[WREG_FS_BASE]));
}

int handler_watch_of(const struct wire_control *ctl, const struct trap_info *info)
{
	if (info->code == TRAP_CODE_PERF && (info->perf_data & ~0xffull) == ctl->cookie &&
	    (info->perf_data & 0xff) < WIRE_WATCHES)
		return (int)(info->perf_data & 0xff);
	if (info->code == TRAP_CODE_HWBKPT && ctl->hwbkpt_watch)
		return (int)(ctl->hwbkpt_watch - 1) & (int)(WIRE_WATCHES - 1);
	return -1;
}

/* A trap, whichever watches it is of. */
struct trap {
	struct wire_control *ctl;
	struct regs regs;
	const struct wire_access_fact *fact; /* NULL: nothing is published about this place */
	bool has_operand;		     /* the fact's operand is [operand, operand + fact->size) */
	uint64_t operand;
	bool async;
	uint32_t child; /* its process id; 0: the target itself */
	uint64_t frame; /* where the kernel has put the signal's */
};

/* One watch that it hit. */
struct hit {
	unsigned int watch;
	struct wire_watch *w;
	uint64_t addr; /* of the debug register in this thread */
	uint64_t want; /* of the bytes asked for */
	uint64_t old_value, new_value;
	uint16_t flags;
};

static bool operand_overlaps(const struct trap *t, uint64_t addr, uint64_t len)
{
	return addr < t->operand + t->fact->size && t->operand < addr + len;
}

/*
 * Not what the watch asked for: a pure write by the instruction before, which did write there, where only
 * reads are wanted; or an access to bytes beside those wanted.
 */
static bool unwanted(const struct trap *t, const struct hit *h)
{
	if (!t->has_operand || !operand_overlaps(t, h->addr, h->w->size))
		return false;
	return ((h->w->flags & WIRE_WATCH_READS_ONLY) && t->fact->kind == ACCESS_KIND_WRITE) ||
	       !operand_overlaps(t, h->want, h->w->want_size);
}

/*
 * Where the last value is kept of a variable that each thread, or each process, has its own of; NULL: no room
 * near its place. Addresses of user memory are less than 2^56.
 */
static uint64_t *own_shadow(const struct trap *t, const struct hit *h, bool *fresh)
{
	struct wire_shadow *table = (void *)((char *)t->ctl + WIRE_SHADOWS_OFFSET);
	uint64_t key = h->addr ^ (uint64_t)t->child << 32 ^ (uint64_t)(t->child != 0) << 63;
	uint64_t i = wire_hash(key);
	unsigned int n;

	table += (uint64_t)h->watch * WIRE_SHADOWS;
	for (n = 0; n < WIRE_PROBES; n++, i++) {
		struct wire_shadow *s = &table[i & (WIRE_SHADOWS - 1)];
		uint64_t found = 0;

		*fresh = __atomic_compare_exchange_n(&s->addr, &found, key, false, __ATOMIC_RELAXED,
						     __ATOMIC_RELAXED);
		if (*fresh || found == key)
			return &s->value;
	}
	return 0;
}

/* The value after the access; and the last one seen, which it replaces as such. */
static void take_values(const struct trap *t, struct hit *h)
{
	uint64_t *shadow = &h->w->shadow;
	uint32_t size = h->w->want_size;
	bool fresh = false;

	if (h->w->flags & WIRE_WATCH_EXECUTE)
		return;
	if (size > sizeof(h->new_value) ||
	    (!(t->has_operand && wire_value_from_fact(t->fact, &t->regs, h->want, size, &h->new_value)) &&
	     !peek(peek_pid(t->ctl), h->want, &h->new_value, size)))
		return;
	h->new_value = wire_truncate(h->new_value, size);
	h->flags |= WIRE_HAS_NEW;
	if ((h->w->flags & WIRE_WATCH_PER_THREAD) || t->child)
		shadow = own_shadow(t, h, &fresh);
	if (!shadow)
		return;
	h->old_value = __atomic_exchange_n(shadow, h->new_value, __ATOMIC_RELAXED);
	if (!fresh)
		h->flags |= WIRE_HAS_OLD;
}

static void fill_input(const struct trap *t, const struct hit *h, uint32_t needs, struct filter_input *ret)
{
	ret->old_value = h->old_value;
	ret->new_value = h->new_value;
	/* What memory holds may be another thread's value by now: the controller will know from the
	 * registers. */
	if ((h->flags & WIRE_HAS_OLD) && t->fact && !(h->w->flags & WIRE_WATCH_SHARED))
		ret->known |= FILTER_NEEDS_OLD;
	if ((h->flags & WIRE_HAS_NEW) && t->fact)
		ret->known |= FILTER_NEEDS_NEW;
	if (t->fact && t->has_operand && t->fact->certain) {
		ret->size = t->fact->size;
		ret->known |= FILTER_NEEDS_SIZE;
	}
	if (needs & FILTER_NEEDS_TID) {
		ret->tid = sys0(NR_GETTID);
		ret->known |= FILTER_NEEDS_TID;
	}
	if ((needs & FILTER_NEEDS_NAME) && !sys4(NR_PRCTL, PR_GET_NAME, ret->name, 0, 0))
		ret->known |= FILTER_NEEDS_NAME;
	if (needs & FILTER_NEEDS_REGS) {
		copy_words(ret->reg, t->regs.r, WREG_COUNT);
		ret->known |= FILTER_NEEDS_REGS;
	}
}

static enum filter_answer handler_condition(const struct trap *t, const struct hit *h,
					    const struct wire_filter *f)
{
	int64_t scratch[FILTER_OPS];
	struct filter_input in = { 0 };

	if (!f->n)
		return FILTER_PASS;
	fill_input(t, h, f->needs, &in);
	return filter_condition(f, &in, scratch);
}

/* A stack walk, and the record's size that follows from it. */
struct walked {
	uint64_t frame[WIRE_FRAMES];
	uint32_t n;
	enum walk_end end;
	bool exact;
	struct regs outer;
	uint32_t raw;
};

/* Within the frames that were found. Where there may be others, the controller decides. */
static enum filter_answer through_callers(const struct wire_filter *f, const struct walked *s)
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
static bool is_due(struct wire_watch *w, const struct wire_filter *f)
{
	uint64_t last, ns;

	if (f->sample > 1 && __atomic_fetch_add(&w->passed, 1, __ATOMIC_RELAXED) % f->sample)
		return false;
	if (!f->interval_ns)
		return true;
	ns = monotonic_ns();
	last = __atomic_load_n(&w->recorded_ns, __ATOMIC_RELAXED);
	return (!last || ns - last >= f->interval_ns) &&
	       __atomic_compare_exchange_n(&w->recorded_ns, &last, ns, false, __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED);
}

static void walk(const struct trap *t, struct walked *ret)
{
	const struct wire_control *ctl = t->ctl;
	uint32_t max = ctl->max_frames < WIRE_FRAMES ? ctl->max_frames : WIRE_FRAMES;
	struct stack_reader reader;

	stack_reader_init(ctl, t->frame, t->regs.r[WREG_RSP], &reader);
	ret->outer = t->regs;
	ret->end = wire_walk((const void *)((const char *)ctl + ctl->rules_offset), max, stack_reader_read,
			     &reader, &ret->outer, ret->frame, &ret->n, &ret->exact);
	ret->raw = ret->end == WALK_END_UNKNOWN_PC ? raw_size(ctl) : 0;
}

/* Returns where it ends in the ring; 0: there was no room. */
static uint64_t write_record(const struct trap *t, const struct hit *h, const struct walked *s)
{
	struct wire_control *ctl = t->ctl;
	uint32_t size = (uint32_t)((sizeof(struct wire_record) + 8 * s->n + s->raw + 15) & ~15ull);
	uint16_t flags = h->flags;
	struct wire_record *r;
	uint64_t pos, rip = t->regs.r[WREG_RIP];

	r = reserve(ctl, size, &pos);
	if (!r) {
		if (!(flags & WIRE_TENTATIVE))
			__atomic_fetch_add(&h->w->lost, 1, __ATOMIC_RELAXED);
		return 0;
	}
	if (t->async)
		flags |= WIRE_ASYNC;
	else if (!t->fact && !(h->w->flags & WIRE_WATCH_EXECUTE))
		flags |= WIRE_NO_FACT;
	if (rip >= ctl->code_start && rip < ctl->code_end)
		flags |= WIRE_SELF_TEST;
	if (s->exact)
		flags |= WIRE_EXACT_PC;
	r->time = timestamp(ctl, &flags);
	r->size = size;
	r->watch = (uint8_t)h->watch;
	r->walk_end = (uint8_t)s->end;
	r->tid = (uint32_t)sys0(NR_GETTID);
	r->pid = (int32_t)t->child;
	r->syscall = -1;
	r->addr = h->addr;
	r->nframes = s->n;
	r->old_value = h->old_value;
	r->new_value = h->new_value;
	r->regs = t->regs;
	copy_words((uint64_t *)(r + 1), s->frame, s->n);
	r->raw_addr = s->outer.r[WREG_RSP];
	r->raw_len = s->raw ? put_raw_stack(ctl, r, s->n, &s->outer, s->raw) : 0;
	r->flags = flags;
	__atomic_store_n(&r->commit, pos ^ ctl->commit_key, __ATOMIC_RELEASE);
	return pos + size;
}

static void filtered(struct wire_watch *w)
{
	__atomic_fetch_add(&w->filtered, 1, __ATOMIC_RELAXED);
}

/* @s: walked already if s->n; else it is, if the hit is to be recorded. Returns the record's end, 0: none. */
static uint64_t take_hit(const struct trap *t, struct hit *h, struct walked *s)
{
	const struct wire_filter *f = (const void *)((const char *)t->ctl + WIRE_FILTERS_OFFSET);
	enum filter_answer answer = FILTER_PASS;
	bool filter = (h->w->flags & WIRE_WATCH_FILTER) && !t->async;

	f += h->watch;
	take_values(t, h);
	if (h->flags & WIRE_TENTATIVE)
		filter = false;
	if (filter)
		answer = handler_condition(t, h, f);
	if (answer == FILTER_DROP) {
		filtered(h->w);
		return 0;
	}
	if (!s->n)
		walk(t, s);
	if (filter) {
		enum filter_answer callers = through_callers(f, s);

		if (callers == FILTER_DROP ||
		    (answer == FILTER_PASS && callers == FILTER_PASS && !is_due(h->w, f))) {
			filtered(h->w);
			return 0;
		}
		if (answer == FILTER_UNDECIDED || callers == FILTER_UNDECIDED)
			h->flags |= WIRE_UNDECIDED;
	}
	return write_record(t, h, s);
}

static void start_hit(struct wire_control *ctl, unsigned int watch, uint64_t addr, struct hit *ret)
{
	*ret = (struct hit){ .watch = watch, .w = &ctl->watch[watch], .addr = addr };
	ret->want = addr + ret->w->want_offset;
}

/*
 * An instruction that hits several watches raises one signal: the kernel merges the others into it. What it
 * accessed shows which they are. At an instruction not known yet, those nearby are recorded for the
 * controller to judge.
 */
static void take_others(const struct trap *t, const struct hit *first, struct walked *s)
{
	unsigned int i;

	for (i = 0; i < WIRE_WATCHES && i < t->ctl->nwatches; i++) {
		struct wire_watch *w = &t->ctl->watch[i];
		struct hit h;

		if (i == first->watch || !w->size ||
		    (w->flags & (WIRE_WATCH_OFF | WIRE_WATCH_PARTIAL | WIRE_WATCH_EXECUTE |
				 WIRE_WATCH_PER_THREAD | WIRE_WATCH_HOLD)))
			continue;
		start_hit(t->ctl, i, w->addr, &h);
		if (t->fact && t->fact->size) {
			if (!t->has_operand || !t->fact->certain || !operand_overlaps(t, w->addr, w->size) ||
			    !((w->flags & WIRE_WATCH_READS) || (t->fact->kind & ACCESS_KIND_WRITE)))
				continue;
			if (unwanted(t, &h)) {
				filtered(w);
				continue;
			}
		} else if (w->addr - first->addr + NEARBY >= 2 * NEARBY) {
			continue;
		} else {
			h.flags |= WIRE_TENTATIVE;
		}
		take_hit(t, &h, s);
	}
}

/* In a forked child that is followed. Others never get here: their events were not inherited. */
static uint32_t child_pid(const struct wire_control *ctl)
{
	long pid = peek_pid(ctl);

	return pid == ctl->target_pid ? 0 : (uint32_t)pid;
}

void handler_record(struct wire_control *ctl, unsigned int watch, const struct trap_info *info,
		    const uint64_t *gregs, uint64_t frame)
{
	struct wire_watch *w = &ctl->watch[watch];
	uint64_t end = 0;
	struct trap t = { .ctl = ctl, .frame = frame };
	struct walked stack;
	struct hit h;

	stack.n = 0;
	stack.raw = 0;
	t.async = info->code == TRAP_CODE_PERF && (info->perf_flags & TRAP_ASYNC);
	load_regs(ctl, gregs, &t.regs);
	t.child = child_pid(ctl);
	if (!t.async && !(w->flags & WIRE_WATCH_EXECUTE))
		t.fact = wire_find_fact((const void *)((const char *)ctl + ctl->facts_offset),
					t.regs.r[WREG_RIP]);
	t.has_operand = t.fact && wire_operand(t.fact, &t.regs, &t.operand);
	start_hit(ctl, watch, w->flags & WIRE_WATCH_PER_THREAD ? info->addr : w->addr, &h);
	if (unwanted(&t, &h))
		filtered(w);
	else
		end = take_hit(&t, &h, &stack);
	if (!t.async && !(w->flags & WIRE_WATCH_EXECUTE))
		take_others(&t, &h, &stack);

	if ((stack.raw || (w->flags & WIRE_WATCH_HOLD)) &&
	    !__atomic_exchange_n(&ctl->wake, 1, __ATOMIC_ACQ_REL))
		futex_wake(&ctl->wake);
	if ((w->flags & WIRE_WATCH_HOLD) && end)
		handler_hold(ctl, end);
}
