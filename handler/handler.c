/*
 * handler - records one access, inside the traced program, in SIGTRAP context.
 *
 * Rules of this place: no libc, no allocation, no lock, general registers only, all signals
 * blocked, little stack. It must never load from a watched address that is armed for reads (the
 * load would raise the next trap, for ever), and never fault: memory whose presence is not proved
 * by this very trap is read through the kernel.
 */
#include "handler/handler.h"
#include "handler/sys.h"
#include "stackwalk/unwind_rule.h"

#define PAGE 4096ull
#define ACCESS_KIND_WRITE 2
#define FUTEX_WAIT 0
#define FUTEX_WAKE 1
#define CLOCK_MONOTONIC 1
#define HOLD_WAIT_NS 2000000
#define RAW_WHEN_LAGGING 1024u
#define HOLD_PATIENCE 150 /* waits without a heartbeat before the controller counts as gone */

struct remote_range {
	uint64_t addr, len;
};

struct timespec64 {
	int64_t sec, nsec;
};

static void copy_words(uint64_t *to, const uint64_t *from, uint64_t n)
{
	__asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

bool guarded_copy(const struct wire_control *ctl, uint64_t addr, void *buf, uint64_t len)
{
	struct remote_range local = { (uint64_t)(uintptr_t)buf, len };
	struct remote_range remote = { addr, len };

	return sys6(NR_PROCESS_VM_READV, ctl->target_pid, (long)&local, 1, (long)&remote, 1, 0) == (long)len;
}

/*
 * rt_sigprocmask() copies the new set in before it looks at `how`: with an impossible `how` it is
 * EINVAL where the 8 bytes can be read and EFAULT where they cannot, and changes nothing.
 */
bool guarded_probe(uint64_t addr)
{
	return sys4(NR_RT_SIGPROCMASK, -1, addr, 0, 8) == -22;
}

static bool overlaps_read_watch(const struct wire_control *ctl, uint64_t addr, uint64_t len)
{
	unsigned int i;

	for (i = 0; i < WIRE_WATCHES; i++) {
		const struct wire_watch *w = &ctl->watch[i];

		if ((w->flags & WIRE_WATCH_READS) && addr < w->addr + w->size && w->addr < addr + len)
			return true;
	}
	return false;
}

/* Memory known to be readable: the stack from our own frame up to some page boundary. */
struct reader {
	const struct wire_control *ctl;
	uint64_t lo, hi;
	bool watched; /* some of it is watched for reads: ask before each load */
};

static void reader_extend(struct reader *r, uint64_t lo, uint64_t hi)
{
	r->watched |= overlaps_read_watch(r->ctl, lo, hi - lo);
	if (lo != r->hi)
		r->lo = lo;
	r->hi = hi;
}

static bool is_known(const struct reader *r, uint64_t addr)
{
	return addr >= r->lo && addr + 8 <= r->hi && addr + 8 > addr;
}

static __attribute__((noinline)) bool read_with_care(struct reader *r, uint64_t addr, uint64_t *ret)
{
	uint64_t page = addr & ~(PAGE - 1);

	if (addr + 8 > page + PAGE || overlaps_read_watch(r->ctl, addr, 8))
		return guarded_copy(r->ctl, addr, ret, 8);
	if (!is_known(r, addr)) {
		if (!guarded_probe(addr))
			return false;
		reader_extend(r, page, page + PAGE);
	}
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it has been probed */
	*ret = *(const volatile uint64_t *)(uintptr_t)addr;
	return true;
}

/* Several for each frame: the common case is two comparisons and the load. */
static bool read_stack(void *ctx, uint64_t addr, uint64_t *ret)
{
	struct reader *r = ctx;

	if (r->watched || !is_known(r, addr))
		return read_with_care(r, addr, ret);
	*ret = *(const volatile uint64_t *)(uintptr_t)addr;
	return true;
}

static const struct wire_access_fact *find_fact(const struct wire_control *ctl, uint64_t pc)
{
	const struct wire_access_fact *t = (const void *)((const char *)ctl + ctl->facts_offset);
	uint64_t i = wire_hash(pc);
	unsigned int n;

	for (n = 0; n < WIRE_PROBES; n++, i++) {
		const struct wire_access_fact *f = &t[i & (WIRE_ACCESS_FACTS - 1)];
		uint64_t key = __atomic_load_n(&f->key, __ATOMIC_ACQUIRE);

		if (key == pc)
			return f;
		if (!key)
			break;
	}
	return 0;
}

static bool find_rule(const struct wire_control *ctl, uint64_t key, struct unwind_rule *ret)
{
	const struct wire_rule *t = (const void *)((const char *)ctl + ctl->rules_offset);
	uint64_t i = wire_hash(key);
	unsigned int n;

	for (n = 0; n < WIRE_PROBES; n++, i++) {
		const struct wire_rule *r = &t[i & (WIRE_RULES - 1)];
		uint64_t found = __atomic_load_n(&r->key, __ATOMIC_ACQUIRE);

		if (found == key) {
			*ret = r->rule;
			/* Withdrawn while we copied? Then it is as if it had not been there. */
			return __atomic_load_n(&r->key, __ATOMIC_ACQUIRE) == key;
		}
		if (!found)
			break;
	}
	return false;
}

/*
 * Walks outwards as far as the rules go. On WALK_END_UNKNOWN_PC *regs are those of the last frame, and *exact
 * says whether its address is where it was interrupted, or a return address.
 */
static enum walk_end walk(struct reader *reader, struct regs *regs, uint64_t *frame, uint32_t *ret_n,
			  bool *exact)
{
	const struct wire_control *ctl = reader->ctl;
	uint32_t max = ctl->max_frames < WIRE_FRAMES ? ctl->max_frames : WIRE_FRAMES;
	enum walk_end end = WALK_END_DEPTH;
	struct unwind_rule rule;
	uint32_t n = 1;

	*exact = true;
	frame[0] = regs->r[WREG_RIP];
	while (n < max) {
		uint64_t sp = regs->r[WREG_RSP], pc = regs->r[WREG_RIP];
		enum unwind_step_result step;

		if (!find_rule(ctl, *exact ? pc : pc | WIRE_RETURN_ADDRESS, &rule)) {
			end = WALK_END_UNKNOWN_PC;
			break;
		}
		step = unwind_step(&rule, regs, read_stack, reader);
		if (step != UNWIND_STEP_OK) {
			end = step == UNWIND_STEP_END	       ? WALK_END_COMPLETE
			      : step == UNWIND_STEP_UNREADABLE ? WALK_END_UNREADABLE
							       : WALK_END_NO_RULE;
			break;
		}
		if (!regs->r[WREG_RIP]) {
			end = WALK_END_COMPLETE;
			break;
		}
		if (rule.kind != UNWIND_SIGFRAME && regs->r[WREG_RSP] <= sp) {
			end = WALK_END_NOT_ASCENDING;
			break;
		}
		frame[n++] = regs->r[WREG_RIP];
		*exact = rule.kind == UNWIND_SIGFRAME;
	}
	*ret_n = n;
	return end;
}

/* The address of the fact's memory operand; false where a part of it is not known. */
static bool operand_address(const struct wire_access_fact *f, const struct regs *regs, uint64_t *ret)
{
	uint64_t addr = (uint64_t)f->disp;

	if (f->seg) {
		if (!regs->r[WREG_FS_BASE])
			return false;
		addr += regs->r[WREG_FS_BASE];
	}
	if (f->base >= 0)
		addr += regs->r[(unsigned int)f->base];
	if (f->index >= 0)
		addr += regs->r[(unsigned int)f->index] * f->scale;
	*ret = addr;
	return true;
}

/* The bytes of @w out of what the instruction itself moved: exact even when another thread writes next. */
static bool value_from_fact(const struct wire_watch *w, const struct wire_access_fact *f,
			    const struct regs *regs, uint64_t *ret)
{
	uint64_t addr, value;

	if (!f || f->value_from == WIRE_VALUE_MEMORY || !operand_address(f, regs, &addr))
		return false;
	if (w->addr < addr || w->addr + w->size > addr + f->size)
		return false;
	value = f->value_from == WIRE_VALUE_IMM ? f->imm : regs->r[f->value_reg] >> f->value_shift;
	*ret = value >> (8 * (w->addr - addr));
	return true;
}

static bool read_value(const struct wire_control *ctl, const struct wire_watch *w, uint64_t *ret)
{
	uint64_t word = w->addr & ~7ull;

	*ret = 0;
	if (overlaps_read_watch(ctl, w->addr, w->size) || overlaps_read_watch(ctl, word, 8))
		return guarded_copy(ctl, w->addr, ret, w->size);
	if (!guarded_probe(word))
		return false;
	switch (w->size) {
	case 1:
		*ret = *(const volatile uint8_t *)(uintptr_t)w->addr;
		break;
	case 2:
		*ret = *(const volatile uint16_t *)(uintptr_t)w->addr;
		break;
	case 4:
		*ret = *(const volatile uint32_t *)(uintptr_t)w->addr;
		break;
	default:
		*ret = *(const volatile uint64_t *)(uintptr_t)w->addr;
		break;
	}
	return true;
}

static uint64_t truncate_value(uint64_t value, uint32_t size)
{
	return size < 8 ? value & ((1ull << (8 * size)) - 1) : value;
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

/* As much of the stack from the trap's rsp upwards as can be read, for the controller to unwind. */
static uint32_t copy_raw_stack(const struct wire_control *ctl, uint64_t sp, uint32_t want, void *to)
{
	uint32_t len = 0;

	while (len < want) {
		uint64_t chunk = PAGE - ((sp + len) & (PAGE - 1));

		if (chunk > want - len)
			chunk = want - len;
		if (!guarded_copy(ctl, sp + len, (char *)to + len, chunk))
			break;
		len += (uint32_t)chunk;
	}
	return len;
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

static uint32_t put_raw_stack(const struct wire_control *ctl, struct wire_record *r, uint32_t nframes,
			      const struct regs *outer, uint32_t raw)
{
	uint64_t *at = (uint64_t *)(r + 1) + nframes;

	copy_words(at, outer->r, WREG_COUNT);
	return copy_raw_stack(ctl, outer->r[WREG_RSP], raw - (uint32_t)sizeof(*outer), at + WREG_COUNT);
}

static uint64_t timestamp(const struct wire_control *ctl, uint16_t *flags)
{
	struct timespec64 now = { 0, 0 };

	if (ctl->flags & WIRE_USE_TSC)
		return __builtin_ia32_rdtsc();
	sys4(NR_CLOCK_GETTIME, CLOCK_MONOTONIC, &now, 0, 0);
	*flags |= WIRE_TIME_NS;
	return (uint64_t)now.sec * 1000000000ull + (uint64_t)now.nsec;
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

/* The controller arms what this event makes possible (a library was loaded) before the program goes on. */
static void hold_for_controller(struct wire_control *ctl, uint32_t seen)
{
	struct timespec64 wait = { 0, HOLD_WAIT_NS };
	uint64_t beat = __atomic_load_n(&ctl->heartbeat, __ATOMIC_RELAXED);
	unsigned int silent = 0;

	while (__atomic_load_n(&ctl->hold, __ATOMIC_ACQUIRE) == seen && silent < HOLD_PATIENCE) {
		uint64_t now;

		sys4(NR_FUTEX, &ctl->hold, FUTEX_WAIT, seen, &wait);
		now = __atomic_load_n(&ctl->heartbeat, __ATOMIC_RELAXED);
		silent = now == beat ? silent + 1 : 0;
		beat = now;
	}
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

/* A pure write by the instruction before, which did write there: not what a watch of reads asked for. */
static bool dropped(struct wire_watch *w, const struct wire_access_fact *f, const struct regs *regs)
{
	uint64_t addr;

	if (!(w->flags & WIRE_WATCH_READS_ONLY) || !f || f->kind != ACCESS_KIND_WRITE ||
	    !operand_address(f, regs, &addr) || addr >= w->addr + w->size || w->addr >= addr + f->size)
		return false;
	__atomic_fetch_add(&w->filtered, 1, __ATOMIC_RELAXED);
	return true;
}

static bool current_value(const struct wire_control *ctl, const struct wire_watch *w,
			  const struct wire_access_fact *f, const struct regs *regs, uint64_t *ret)
{
	if (w->flags & WIRE_WATCH_EXECUTE)
		return false;
	if (!value_from_fact(w, f, regs, ret) && !read_value(ctl, w, ret))
		return false;
	*ret = truncate_value(*ret, w->size);
	return true;
}

void handler_record(struct wire_control *ctl, unsigned int watch, const struct trap_info *info,
		    const uint64_t *gregs)
{
	bool async = info->code == TRAP_CODE_PERF && (info->perf_flags & TRAP_ASYNC);
	uint32_t hold = __atomic_load_n(&ctl->hold, __ATOMIC_ACQUIRE);
	struct wire_watch *w = &ctl->watch[watch];
	const struct wire_access_fact *fact;
	uint64_t frame[WIRE_FRAMES];
	uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0);
	uint32_t nframes, raw, size;
	struct wire_record *r;
	struct reader reader = { .ctl = ctl };
	uint64_t pos, value = 0, old = 0;
	enum walk_end end;
	struct regs regs, outer;
	uint16_t flags = 0;
	bool exact;

	load_regs(ctl, gregs, &regs);
	fact = async ? 0 : find_fact(ctl, regs.r[WREG_RIP]);
	if (!async && dropped(w, fact, &regs))
		return;
	if (current_value(ctl, w, fact, &regs, &value)) {
		old = __atomic_exchange_n(&w->shadow, value, __ATOMIC_RELAXED);
		flags |= WIRE_HAS_OLD | WIRE_HAS_NEW;
	}

	/* The signal frame ends just below the interrupted red zone, so that page is mapped. */
	if (regs.r[WREG_RSP] - here < 0x10000)
		reader_extend(&reader, here & ~(PAGE - 1), ((regs.r[WREG_RSP] - 136) & ~(PAGE - 1)) + PAGE);
	outer = regs;
	end = walk(&reader, &outer, frame, &nframes, &exact);

	raw = end == WALK_END_UNKNOWN_PC ? raw_size(ctl) : 0;
	size = (uint32_t)((sizeof(*r) + 8 * nframes + raw + 15) & ~15ull);
	r = reserve(ctl, size, &pos);
	if (!r) {
		__atomic_fetch_add(&w->lost, 1, __ATOMIC_RELAXED);
		return;
	}
	if (async)
		flags |= WIRE_ASYNC;
	if (regs.r[WREG_RIP] >= ctl->code_start && regs.r[WREG_RIP] < ctl->code_end)
		flags |= WIRE_SELF_TEST;
	r->time = timestamp(ctl, &flags);
	r->size = size;
	r->watch = (uint8_t)watch;
	r->walk_end = (uint8_t)end;
	r->tid = (uint32_t)sys0(NR_GETTID);
	r->nframes = nframes;
	r->old_value = old;
	r->new_value = value;
	r->regs = regs;
	copy_words((uint64_t *)(r + 1), frame, nframes);
	r->raw_addr = outer.r[WREG_RSP];
	r->raw_len = raw ? put_raw_stack(ctl, r, nframes, &outer, raw) : 0;
	if (exact)
		flags |= WIRE_EXACT_PC;
	r->flags = flags;
	__atomic_store_n(&r->commit, pos ^ ctl->commit_key, __ATOMIC_RELEASE);

	if ((raw || (w->flags & WIRE_WATCH_HOLD)) && !__atomic_exchange_n(&ctl->wake, 1, __ATOMIC_ACQ_REL))
		futex_wake(&ctl->wake);
	if (w->flags & WIRE_WATCH_HOLD)
		hold_for_controller(ctl, hold);
}
