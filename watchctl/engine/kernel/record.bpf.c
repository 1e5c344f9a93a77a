/*
 * record - runs in the kernel at each hit of a breakpoint event, and records it there: registers, values,
 * and the stack, from the tables of handler/wire.h, which lie here in memory of the kernel's own.
 *
 * Two programs of it are put on events, and both return 0 where the hit has been dealt with, which makes the
 * kernel drop the sample and the signal it would be (kernel/events/core.c, __perf_event_overflow(), since
 * Linux 6.11): `record` for the ring engine, on every hit; and `guard` for the handler engine, before the
 * SIGTRAP is made.
 *
 * The guard lets the signal pass only while the process still has our handler installed. A program that
 * installs its own would otherwise receive signals that are not for it, or, with the default action, die.
 * What the kernel itself does to a watched variable raises its trap in the kernel, where no handler can look;
 * a thread that has put itself under seccomp could be killed for a system call of the handler's; and there
 * are places where a thread must not be sent a signal (record_guard.bpf.h). From the first such hit on, all
 * hits are recorded here. The last value seen goes over from the handler's table to ours that one time; it
 * never goes back, so the two cannot disagree. Only signals that were under way at that moment are still the
 * handler's.
 *
 * A hit in user mode is dealt with while the debug registers are armed (arch/x86/kernel/traps.c,
 * exc_debug_user()): a load from a variable that is watched for reads would raise the next trap, which is
 * counted, and not recorded, because programs do not nest. So what the program's memory holds is read at
 * another address then, that of the kernel's own mapping of all memory: see translate().
 */
#include "watchctl/engine/kernel/record_guard.bpf.h"

static __always_inline void load_user_regs(struct regs *to, const bpf_user_pt_regs_t *from)
{
	to->r[WREG_RAX] = from->rax;
	to->r[WREG_RDX] = from->rdx;
	to->r[WREG_RCX] = from->rcx;
	to->r[WREG_RBX] = from->rbx;
	to->r[WREG_RSI] = from->rsi;
	to->r[WREG_RDI] = from->rdi;
	to->r[WREG_RBP] = from->rbp;
	to->r[WREG_RSP] = from->rsp;
	to->r[WREG_R8] = from->r8;
	to->r[WREG_R9] = from->r9;
	to->r[WREG_R10] = from->r10;
	to->r[WREG_R11] = from->r11;
	to->r[WREG_R12] = from->r12;
	to->r[WREG_R13] = from->r13;
	to->r[WREG_R14] = from->r14;
	to->r[WREG_R15] = from->r15;
	to->r[WREG_RIP] = from->rip;
	to->r[WREG_RFLAGS] = from->eflags;
}

/* What the program had when it entered the kernel. */
static __always_inline void load_saved_regs(struct regs *to, const struct pt_regs___kernel *from)
{
	to->r[WREG_RAX] = from->ax;
	to->r[WREG_RDX] = from->dx;
	to->r[WREG_RCX] = from->cx;
	to->r[WREG_RBX] = from->bx;
	to->r[WREG_RSI] = from->si;
	to->r[WREG_RDI] = from->di;
	to->r[WREG_RBP] = from->bp;
	to->r[WREG_RSP] = from->sp;
	to->r[WREG_R8] = from->r8;
	to->r[WREG_R9] = from->r9;
	to->r[WREG_R10] = from->r10;
	to->r[WREG_R11] = from->r11;
	to->r[WREG_R12] = from->r12;
	to->r[WREG_R13] = from->r13;
	to->r[WREG_R14] = from->r14;
	to->r[WREG_R15] = from->r15;
	to->r[WREG_RIP] = from->ip;
	to->r[WREG_RFLAGS] = from->flags;
}

/* As the pid namespace at `id_level` numbers it, or the innermost one if that is above. */
static __always_inline int inner_id(const struct task_struct *task, int outer)
{
	const struct pid *p = task->thread_pid;
	uint64_t level = p->level < id_level ? p->level : id_level;
	int nr = outer;

	if (level)
		bpf_probe_read_kernel(&nr, sizeof(nr),
				      (const char *)p + bpf_core_field_offset(struct pid, numbers) +
					      level * bpf_core_type_size(struct upid) +
					      bpf_core_field_offset(struct upid, nr));
	return nr;
}

/* A hit, while it is judged. */
struct hit {
	struct scratch *s;
	struct wire_watch *w;
	const struct wire_access_fact *fact; /* NULL: nothing is published, or the operand not to be had */
	uint64_t operand;		     /* its address */
	uint64_t addr, want;		     /* of the debug register; of the bytes asked for */
	uint32_t index;
	bool kernel;
	bool known; /* what is published about the code, or, in the kernel, read, is all there is to know */
};

static __always_inline bool operand_overlaps(const struct hit *h, uint64_t addr, uint64_t len)
{
	return addr < h->operand + h->fact->size && h->operand < addr + len;
}

/* As in handler.c: known not to be what the watch asked for. */
static __always_inline bool unwanted(const struct hit *h)
{
	if (!h->fact || !operand_overlaps(h, h->addr, h->w->size))
		return false;
	return ((h->w->flags & WIRE_WATCH_READS_ONLY) && h->fact->kind == ACCESS_KIND_WRITE) ||
	       !operand_overlaps(h, h->want, h->w->want_size);
}

/*
 * Where the last value is kept of a variable that each thread, or each process, has its own of, by a key as
 * handler.c makes it: at the place returned, with SHADOW_FRESH: none yet. -1: no room near it.
 */
__noinline int find_shadow(uint32_t watch, uint64_t key)
{
	uint64_t i = wire_hash(key);
	unsigned int n;

	for (n = 0; n < WIRE_PROBES; n++, i++) {
		struct wire_shadow *s = shadows(watch) + (i & (WIRE_SHADOWS - 1));
		uint64_t found = __sync_val_compare_and_swap(&s->addr, 0, key);

		if (!found)
			return (int)(i & (WIRE_SHADOWS - 1)) | SHADOW_FRESH;
		if (found == key)
			return (int)(i & (WIRE_SHADOWS - 1));
	}
	return -1;
}

/* The last value that the handler saw becomes the last that we saw. False: not known. */
static __always_inline bool take_over(struct hit *h)
{
	struct wire_watch *theirs = &h->s->theirs;
	uint64_t at = their_control + offsetof(struct wire_control, watch) + h->index * sizeof(*theirs);
	uint32_t *taken = &watch_taken[h->index & (WIRE_WATCHES - 1)];

	if (!guarding || *taken == TAKEN)
		return true;
	if (__sync_val_compare_and_swap(taken, 0, TAKING))
		return *taken == TAKEN;
	if (!bpf_probe_read_user(theirs, sizeof(*theirs), (const void *)at)) {
		h->w->shadow = theirs->shadow;
		h->w->passed = theirs->passed;
		h->w->recorded_ns = theirs->recorded_ns;
		*taken = TAKEN;
		return true;
	}
	*taken = TAKEN; /* from this hit on it is known */
	return false;
}

static __always_inline void take_values(struct hit *h)
{
	uint64_t *shadow = &h->w->shadow, value = 0;
	struct wire_record *r = &h->s->rec;
	uint32_t size = h->w->want_size;
	bool has_old = true;

	if ((h->w->flags & WIRE_WATCH_EXECUTE) || size < 1 || size > 8)
		return;
	if (!(h->fact && wire_value_from_fact(h->fact, &r->regs, h->want, size, &value)) &&
	    !read_user(&value, size, h->want))
		return;
	value = wire_truncate(value, size);
	r->new_value = value;
	r->flags |= WIRE_HAS_NEW;
	if ((h->w->flags & WIRE_WATCH_PER_THREAD) || r->pid) {
		uint64_t key = h->addr ^ (uint64_t)(uint32_t)r->pid << 32 ^ (uint64_t)(r->pid != 0) << 63;
		int at = find_shadow(h->index, key);

		if (at < 0)
			return;
		has_old = !(at & SHADOW_FRESH);
		shadow = &shadows(h->index)[at & (WIRE_SHADOWS - 1)].value;
	} else {
		has_old = take_over(h);
	}
	r->old_value = __sync_lock_test_and_set(shadow, value);
	if (has_old)
		r->flags |= WIRE_HAS_OLD;
}

static long run_op(uint64_t i, struct hit **ctx)
{
	struct scratch *s = (*ctx)->s;
	const struct wire_filter *f = filter_of((*ctx)->index);
	const struct filter_op *op = &f->op[i & (FILTER_OPS - 1)];

	s->result[i & (FILTER_OPS - 1)] = filter_apply(f, op, &s->input, s->result[op->a & (FILTER_OPS - 1)],
						       s->result[op->b & (FILTER_OPS - 1)]);
	return 0;
}

static __always_inline void fill_input(struct hit *h, uint32_t needs)
{
	struct filter_input *in = &h->s->input;
	const struct wire_record *r = &h->s->rec;

	in->known = FILTER_NEEDS_TID;
	in->tid = r->tid;
	in->old_value = r->old_value;
	in->new_value = r->new_value;
	/* What memory holds may be another thread's value by now: the controller will know from the
	 * registers. */
	if ((r->flags & WIRE_HAS_OLD) && h->known && !(h->w->flags & WIRE_WATCH_SHARED))
		in->known |= FILTER_NEEDS_OLD;
	if ((r->flags & WIRE_HAS_NEW) && h->known)
		in->known |= FILTER_NEEDS_NEW;
	if (h->fact && h->fact->certain) {
		in->size = h->fact->size;
		in->known |= FILTER_NEEDS_SIZE;
	}
	if ((needs & FILTER_NEEDS_NAME) && !bpf_get_current_comm(in->name, sizeof(in->name)))
		in->known |= FILTER_NEEDS_NAME;
	if (needs & FILTER_NEEDS_REGS) {
		__builtin_memcpy(in->reg, r->regs.r, sizeof(r->regs.r));
		in->known |= FILTER_NEEDS_REGS;
	}
}

/* As filter_condition(). */
static __always_inline enum filter_answer condition(struct hit *h, const struct wire_filter *f)
{
	uint32_t n = f->n;

	if (!n)
		return FILTER_PASS;
	fill_input(h, f->needs);
	if (f->needs & ~h->s->input.known)
		return FILTER_UNDECIDED;
	if (n > FILTER_OPS)
		n = FILTER_OPS;
	bpf_loop(n, run_op, &h, 0);
	return h->s->result[(n - 1) & (FILTER_OPS - 1)] ? FILTER_PASS : FILTER_DROP;
}

/* As filter_caller_bits(): one range, one frame. */
static long look_at_caller(uint64_t i, struct hit **ctx)
{
	struct scratch *s = (*ctx)->s;
	const struct wire_filter *f = filter_of((*ctx)->index);
	uint64_t frame = i >> (s->range_shift & 63), range = i & ((1ull << (s->range_shift & 63)) - 1), pc;

	if (range >= FILTER_RANGES || range >= f->ncallers + f->nnot_callers || frame >= WIRE_FRAMES)
		return 0;
	pc = *(const uint64_t *)(s->tail + 8 * frame);
	pc -= frame != 0;
	if (pc >= f->callers[range].start && pc < f->callers[range].end)
		s->caller_bits |= range < f->ncallers ? 1 : 2;
	return 0;
}

static __always_inline enum filter_answer through_callers(struct hit *h, const struct wire_filter *f)
{
	uint32_t shift = 0;

	if (!f->ncallers && !f->nnot_callers)
		return FILTER_PASS;
	while (shift < 5 && 1u << shift < f->ncallers + f->nnot_callers)
		shift++;
	h->s->caller_bits = 0;
	h->s->range_shift = shift;
	bpf_loop((uint32_t)h->s->frame_count << shift, look_at_caller, &h, 0);
	return filter_callers(f, (unsigned int)h->s->caller_bits, walk_end_hides_callers(h->s->walk_end));
}

/* One in `sample`, and not too soon after the last one. */
static __always_inline bool is_due(struct wire_watch *w, const struct wire_filter *f)
{
	uint64_t sample = f->sample, last, now;

	if (sample > 1 && __sync_fetch_and_add(&w->passed, 1) % sample)
		return false;
	if (!f->interval_ns)
		return true;
	now = bpf_ktime_get_ns();
	last = w->recorded_ns;
	return (!last || now - last >= f->interval_ns) &&
	       __sync_val_compare_and_swap(&w->recorded_ns, last, now) == last;
}

/* The controller sleeps, and should not. */
static __always_inline uint64_t wake_up(bool urgent)
{
	uint32_t *wake = &control()->wake;

	if (!urgent || *wake || __sync_lock_test_and_set(wake, 1))
		return BPF_RB_NO_WAKEUP;
	return BPF_RB_FORCE_WAKEUP;
}

static __always_inline void write_record(struct bpf_perf_event_data *ctx, struct hit *h)
{
	uint64_t waiting = bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA);
	struct scratch *s = h->s;
	struct wire_record *r = &s->rec;
	uint32_t len = 8 * (uint32_t)s->frame_count;

	r->time = bpf_ktime_get_ns();
	r->walk_end = (uint8_t)s->walk_end;
	r->nframes = (uint32_t)s->frame_count;
	if (s->exact)
		r->flags |= WIRE_EXACT_PC;
	if (s->walk_end == WALK_END_UNKNOWN_PC)
		len = put_raw_stack(s, len, waiting);
	if (h->kernel && len <= TAIL_MAX - sizeof(struct wire_kernel)) {
		struct wire_kernel *k = (struct wire_kernel *)(s->tail + len);
		long got;

		load_user_regs(&k->regs, &ctx->regs);
		k->regs.r[WREG_FS_BASE] = 0;
		got = bpf_get_stack(ctx, k->frame, sizeof(k->frame), 0);
		k->nframes = got > 0 ? (uint32_t)got / 8 : 0;
		k->pad = 0;
		len += sizeof(*k);
	}
	if (len > TAIL_MAX)
		return;
	r->size = (uint32_t)sizeof(*r) + len;
	if (bpf_ringbuf_output(&records, r, sizeof(*r) + len,
			       wake_up(r->raw_len || (h->w->flags & WIRE_WATCH_HOLD) ||
				       waiting > control()->ring_size / 2)))
		__sync_fetch_and_add(&h->w->lost, 1);
}

static __always_inline void filtered(struct wire_watch *w)
{
	__sync_fetch_and_add(&w->filtered, 1);
}

static __always_inline void take_hit(struct bpf_perf_event_data *ctx, struct hit *h)
{
	const struct wire_filter *f = filter_of(h->index);
	bool filter = h->w->flags & WIRE_WATCH_FILTER;
	enum filter_answer answer = FILTER_PASS, callers;

	take_values(h);
	if (filter)
		answer = condition(h, f);
	if (answer == FILTER_DROP) {
		filtered(h->w);
		return;
	}
	walk(h->s);
	if (filter) {
		callers = through_callers(h, f);
		if (callers == FILTER_DROP ||
		    (answer == FILTER_PASS && callers == FILTER_PASS && !is_due(h->w, f))) {
			filtered(h->w);
			return;
		}
		if (answer == FILTER_UNDECIDED || callers == FILTER_UNDECIDED)
			h->s->rec.flags |= WIRE_UNDECIDED;
	}
	write_record(ctx, h);
}

static __always_inline bool start_record(struct bpf_perf_event_data *ctx, struct hit *h)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct wire_record *r = &h->s->rec;

	r->commit = 0;
	r->flags = WIRE_TIME_NS | (h->kernel ? WIRE_KERNEL : 0);
	r->watch = (uint8_t)h->index;
	r->tid = (uint32_t)inner_id(task, task->pid);
	r->pid = control()->flags & WIRE_CHILDREN ? inner_id(task->group_leader, task->tgid) : 0;
	if (r->pid == control()->target_pid)
		r->pid = 0;
	r->old_value = r->new_value = r->raw_addr = 0;
	r->raw_len = 0;
	r->syscall = -1;
	r->pad = 0;
	r->addr = h->addr;
	r->regs.r[WREG_FS_BASE] = task->thread.fsbase;
	if (h->kernel) {
		const struct pt_regs___kernel *saved = (void *)bpf_task_pt_regs((void *)task);

		load_saved_regs(&r->regs, saved);
		if (r->regs.r[WREG_RIP] || r->regs.r[WREG_RSP])
			r->syscall = (int32_t)saved->orig_ax;
	} else {
		load_user_regs(&r->regs, &ctx->regs);
	}
	return true;
}

static __always_inline uint32_t watch_of(void *ctx)
{
	const struct perf_event *event;
	uint64_t data = 0;

	if (places <= 1) /* as mostly; to look takes longer than all else that is asked here */
		return 0;
	bpf_probe_read_kernel(&event, sizeof(event),
			      ctx + bpf_core_field_offset(struct bpf_perf_event_data_kern, event));
	bpf_core_read(&data, sizeof(data), &event->attr.sig_data);
	return data & (WIRE_WATCHES - 1);
}

static __always_inline bool in_kernel(const struct bpf_perf_event_data *ctx)
{
	return !(ctx->regs.cs & 3);
}

__noinline int find_fact(uint64_t pc)
{
	uint64_t i = wire_hash(pc);
	unsigned int n;

	for (n = 0; n < WIRE_PROBES; n++, i++) {
		const volatile struct wire_access_fact *f = facts() + (i & (WIRE_ACCESS_FACTS - 1));
		uint64_t found = f->key;

		if (found == pc)
			return (int)(i & (WIRE_ACCESS_FACTS - 1));
		if (!found)
			break;
	}
	return -1;
}

static __always_inline void look_up(struct hit *h)
{
	int at;

	h->known = true;
	if (h->kernel || (h->w->flags & WIRE_WATCH_EXECUTE))
		return;
	at = find_fact(h->s->rec.regs.r[WREG_RIP]);
	if (at < 0) {
		h->known = false;
		h->s->rec.flags |= WIRE_NO_FACT;
		return;
	}
	h->fact = facts() + (at & (WIRE_ACCESS_FACTS - 1));
	if (!h->fact->size || !wire_operand(h->fact, &h->s->rec.regs, &h->operand))
		h->fact = NULL;
}

static __always_inline void record_hit(struct bpf_perf_event_data *ctx, uint32_t index)
{
	uint32_t cpu = bpf_get_smp_processor_id();
	struct hit h = { .index = index, .kernel = in_kernel(ctx), .addr = ctx->addr };

	h.s = bpf_map_lookup_elem(&scratches, &cpu);
	if (!h.s)
		return;
	h.w = &control()->watch[index];
	h.want = h.addr + h.w->want_offset;
	start_record(ctx, &h);
	look_up(&h);
	if (unwanted(&h))
		filtered(h.w);
	else
		take_hit(ctx, &h);
}

/* Of ring_verify.c: hardly ever asked for, so the first question is the cheap one. */
static __always_inline bool is_expected(const struct bpf_perf_event_data *ctx)
{
	const struct pt_regs___kernel *saved;

	if (!expected_sp || !in_kernel(ctx))
		return false;
	saved = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	return saved->sp == expected_sp && saved->ip == expected_pc;
}

SEC("perf_event")
int record(struct bpf_perf_event_data *ctx)
{
	uint32_t watch = watch_of(ctx);

	if (is_expected(ctx))
		__sync_fetch_and_add(&own_hits[watch], 1);
	else
		record_hit(ctx, watch);
	return 0;
}

static __always_inline bool is_at(uint64_t pc, uint64_t start, uint64_t end)
{
	return pc >= start && pc < end;
}

/* The code that tries the watch out, on a stack of its own: its signal is waited for. */
static __always_inline bool is_test(const struct bpf_perf_event_data *ctx)
{
	return !in_kernel(ctx) && is_at(ctx->regs.rip, control()->test_start, control()->test_end);
}

/* The handler's own, or what the kernel does in a system call of its, such as the way back from it. */
static __always_inline bool is_own(const struct bpf_perf_event_data *ctx, struct task_struct *task)
{
	uint64_t pc = ctx->regs.rip;

	barrier_var(pc); /* else the two loads become one, of two kinds of pointers */
	if (in_kernel(ctx))
		pc = ((const struct pt_regs___kernel *)bpf_task_pt_regs(task))->ip;
	return is_at(pc, control()->code_start, control()->code_end);
}

/* Where the handler would be called: as a system call that is under way returns. */
static __always_inline bool is_safe(const struct bpf_perf_event_data *ctx, struct task_struct *task)
{
	const struct pt_regs___kernel *saved;

	if (!in_kernel(ctx))
		return can_take_signal(task, ctx->regs.rip, ctx->regs.rsp);
	saved = (void *)bpf_task_pt_regs(task);
	return can_take_signal(task, saved->ip, saved->sp);
}

/* The handler need not see it: unless it is a hook, at which the thread is to wait. */
static __always_inline bool is_recorded_here(uint32_t watch)
{
	return taken_over && !(control()->watch[watch].flags & (WIRE_WATCH_HOLD | WIRE_WATCH_EXECUTE));
}

static __always_inline bool is_sandboxed(const struct task_struct *task)
{
	return bpf_core_field_exists(task->seccomp.mode) && task->seccomp.mode;
}

/* Syscall user dispatch: any system call of the handler could end the program by SIGSYS. */
static __always_inline bool is_dispatched(const struct task_struct *task)
{
	const unsigned int at =
		bpf_core_enum_value(enum syscall_work_bit, SYSCALL_WORK_BIT_SYSCALL_USER_DISPATCH);

	if (!bpf_core_field_exists(task->thread_info.syscall_work) ||
	    !bpf_core_enum_value_exists(enum syscall_work_bit, SYSCALL_WORK_BIT_SYSCALL_USER_DISPATCH))
		return false;
	return task->thread_info.syscall_work >> at & 1;
}

/* The handler's system calls could kill a thread of this process: says why, and holds for good. */
static __always_inline bool is_barred(const struct task_struct *task)
{
	bool in_sandbox = is_sandboxed(task), dispatched = is_dispatched(task);

	if (in_sandbox)
		sandboxed = 1;
	if (dispatched)
		dispatching = 1;
	return in_sandbox || dispatched;
}

SEC("perf_event")
int guard(struct bpf_perf_event_data *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	uint64_t handler = (uint64_t)task->sighand->action[SIGTRAP - 1].sa.sa_handler;
	/* Another watchctl's handler in front of ours passes our signals on to us. */
	bool ours = handler == our_handler || is_watchctl(handler);
	bool barred = ours && is_barred(task);
	uint32_t watch = watch_of(ctx);
	bool test = is_test(ctx);

	if (!test && is_own(ctx, task)) {
		__sync_fetch_and_add(&own_hits[watch], 1);
		return 0;
	}
	if (barred || in_kernel(ctx))
		taken_over = 1;
	if (!barred && (test || !is_recorded_here(watch))) {
		if (!ours) {
			__sync_fetch_and_add(&suppressed, 1);
			return 0;
		}
		if (test || is_safe(ctx, task))
			return 1;
		taken_over = 1;
	}
	if (control()->watch[watch].flags & WIRE_WATCH_HOLD)
		__sync_fetch_and_add(&unheld, 1);
	record_hit(ctx, watch);
	return 0;
}

/* For the controller: @asked_len bytes of the kernel's memory; and what it does not know of itself. */
SEC("syscall")
int read_kernel(void *ctx)
{
	const struct task_struct *task = bpf_get_current_task_btf();
	uint64_t len = asked_len;

	own_page_table = (uint64_t)task->mm->pgd;
	own_level = task->thread_pid->level;
	if (len < 1 || len > PAGE)
		return 1;
	return bpf_probe_read_kernel(answer, (uint32_t)len, (const void *)asked_addr) != 0;
}

char licence[] SEC("license") = "GPL";
