/* What probes record, as events. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "probe/probe.h"
#include "watchctl/base/clock.h"
#include "watchctl/monitor/patch/patch_session_impl.h"
#include "watchctl/patch/probe/probe_image.h"

#define SWEEP_NS 1000000000ull /* between two looks for threads that have ended */
#define LAG_NS 2000000ull      /* a record may be that old before it is complete */

static uint64_t tsc_now(void)
{
	return __builtin_ia32_rdtsc();
}

/* The program's word: a time from the future, or from before we began, is not believed. */
static uint64_t record_time(struct patch_session *s, uint64_t tsc)
{
	uint64_t t;

	if (tsc > s->clock.tsc)
		tsc_clock_sample(&s->clock);
	t = tsc_clock_ns(&s->clock, tsc);
	if (t > s->clock.ns)
		t = s->clock.ns;
	return t < s->clock.ns0 ? s->clock.ns0 : t;
}

/* Strings of a log record: where each begins. False: there is not room for them. */
static bool find_strings(const struct probe_record *r, struct probe_event *e)
{
	size_t at = 1 + e->nargs, words = PROBE_STRING_MAX / 8;

	for (unsigned int i = 0; i < e->nargs; i++) {
		char *text = (char *)&r->word[at];

		if (!(e->strings >> i & 1))
			continue;
		if (at + words > r->nwords)
			return false;
		text[PROBE_STRING_MAX - 1] = '\0';
		if (!text[0] && text[1] == 1)
			e->unread |= (uint8_t)(1u << i);
		else
			e->string[i] = text;
		at += words;
	}
	return true;
}

static bool fill_log(const struct patch_session *s, const struct probe_record *r, struct probe_event *e)
{
	struct probe_image_format f;

	if (r->nwords < 1 || !probe_image_format(s->options.image, r->word[0] - s->place.code, &f) ||
	    1 + f.nargs > r->nwords)
		return false;
	e->kind = PROBE_KIND_LOG;
	e->format = f.text;
	e->nargs = (uint8_t)f.nargs;
	e->strings = (uint8_t)f.strings;
	memcpy(e->arg, r->word + 1, f.nargs * sizeof(*e->arg));
	return find_strings(r, e);
}

/* A piece of stack that was recorded. */
struct recorded_stack {
	uint64_t at, len;
	const uint8_t *bytes;
};

static bool read_recorded(void *ctx, uint64_t addr, void *buf, size_t len)
{
	const struct recorded_stack *s = ctx;

	if (addr < s->at || len > s->len || addr - s->at > s->len - len)
		return false;
	memcpy(buf, s->bytes + (addr - s->at), len);
	return true;
}

static void read_regs(const struct probe_regs *p, struct regs *ret)
{
	*ret = (struct regs){ .r = { [WREG_RAX] = p->rax,
				     [WREG_RDX] = p->rdx,
				     [WREG_RCX] = p->rcx,
				     [WREG_RBX] = p->rbx,
				     [WREG_RSI] = p->rsi,
				     [WREG_RDI] = p->rdi,
				     [WREG_RBP] = p->rbp,
				     [WREG_RSP] = p->rsp,
				     [WREG_R8] = p->r8,
				     [WREG_R9] = p->r9,
				     [WREG_R10] = p->r10,
				     [WREG_R11] = p->r11,
				     [WREG_R12] = p->r12,
				     [WREG_R13] = p->r13,
				     [WREG_R14] = p->r14,
				     [WREG_R15] = p->r15,
				     [WREG_RIP] = p->rip,
				     [WREG_RFLAGS] = p->flags } };
}

/* The stack from the instruction outwards, walked here and now over what was copied. */
static bool fill_stack(struct patch_session *s, const struct probe_record *r, uint64_t *frame,
		       struct probe_event *e)
{
	const size_t regs_at = 3, stack_at = regs_at + sizeof(struct probe_regs) / 8;
	struct probe_image_format f;
	struct recorded_stack stack;
	const struct memory_view mem = { read_recorded, &stack };
	struct probe_regs p;
	struct regs regs;
	unsigned int n = 1;

	if (r->nwords < stack_at || !probe_image_format(s->options.image, r->word[0] - s->place.code, &f))
		return false;
	memcpy(&p, r->word + regs_at, sizeof(p));
	read_regs(&p, &regs);
	stack = (struct recorded_stack){ p.rsp & ~7ull, r->word[2], (const uint8_t *)(r->word + stack_at) };
	if (stack.len > (r->nwords - stack_at) * 8)
		return false;
	frame[0] = p.rip;
	e->kind = PROBE_KIND_STACK;
	e->format = f.text;
	e->nargs = 1;
	e->arg[0] = r->word[1];
	e->walk_end =
		(uint8_t)code_facts_walk(s->facts, regs, true, &mem, false, frame, &n, s->options.frames);
	e->nframes = n;
	e->frame = frame;
	return true;
}

static bool fill(struct patch_session *s, const struct probe_record *r, uint64_t *frame,
		 struct probe_event *e)
{
	switch (r->kind) {
	case PROBE_RECORD_VALUE:
		e->kind = PROBE_KIND_VALUE;
		e->nargs = 1;
		e->arg[0] = r->word[0];
		return true;
	case PROBE_RECORD_LOG:
		return fill_log(s, r, e);
	case PROBE_RECORD_STACK:
		return fill_stack(s, r, frame, e);
	}
	return false;
}

/* What does not make sense, the program has written over: it is none of ours. */
static struct wc_error *take_record(void *ctx, const struct probe_record *r)
{
	struct patch_session *s = ctx;
	struct trace_event e = { .type = EVENT_PROBE, .time_ns = record_time(s, r->tsc) };
	struct followed_process *process;
	uint64_t frame[STACK_MAX];
	struct wc_error *err;

	if (r->site >= s->nsites || (s->limit && s->recorded >= s->limit))
		return NULL;
	e.probe.site = r->site;
	e.probe.pid = s->pid;
	process = followed_process(&s->who, 0, e.time_ns, &err);
	if (process)
		err = followed_thread(&s->who, process, (pid_t)r->tid, e.time_ns, &e.probe.tid);
	if (err)
		return err;
	if (!fill(s, r, frame, &e.probe))
		return NULL;
	s->recorded++;
	return session_put(s, &e);
}

static struct wc_error *report_jump(struct patch_session *s)
{
	char text[250];
	struct trace_event e = { .type = EVENT_NOTE, .time_ns = s->clock.ns, .note.text = text };

	return tsc_clock_tell_jump(&s->clock, text, sizeof(text)) ? session_put(s, &e) : NULL;
}

/* Of threads' buffers: */

static struct wc_error *meet_caller(struct patch_session *s, uint32_t tid, uint64_t time_ns)
{
	struct wc_error *err;
	struct followed_process *process = followed_process(&s->who, 0, time_ns, &err);

	s->call_tid = 0;
	if (process)
		err = followed_thread(&s->who, process, (pid_t)tid, time_ns, &s->call_thread);
	if (!err)
		s->call_tid = tid;
	return err;
}

static struct wc_error *take_call(void *ctx, const struct call_passed *c)
{
	struct patch_session *s = ctx;
	const uint64_t time_ns = record_time(s, c->tsc);
	struct wc_error *err = c->tid == s->call_tid ? NULL : meet_caller(s, c->tid, time_ns);

	if (err || c->site >= s->nsites)
		return err;
	s->recorded++;
	return s->options.taker->call(s->options.taker->ctx, c, time_ns, s->call_thread);
}

static bool is_gone(void *ctx, uint32_t tid)
{
	struct patch_session *s = ctx;
	char path[64];

	if (meet_caller(s, tid, s->clock.ns))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/task/%d", s->pid, s->call_thread);
	return access(path, F_OK);
}

static struct wc_error *take_calls(struct patch_session *s, bool last, bool *more)
{
	const struct patch_taker *taker = s->options.taker;

	if (s->clock.ns - s->swept_ns >= SWEEP_NS) {
		s->swept_ns = s->clock.ns;
		s->call_tid = 0; /* its name may be another by now */
		call_buffers_sweep(s->buffers, is_gone, s);
	}
	s->place.shared->heartbeat = s->clock.ns;
	return call_buffers_read(s->buffers, taker->order, last, take_call, s, more);
}

struct wc_error *session_take_records(struct patch_session *s, bool last, bool *more)
{
	const struct patch_taker *taker = s->options.taker;
	struct wc_error *err;
	uint64_t until;

	*more = false;
	if (!s->rings)
		return NULL; /* nothing fits anywhere yet */
	tsc_clock_sample(&s->clock);
	until = tsc_now();
	if (s->clock.tsc > s->clock.tsc0)
		until -= (uint64_t)((double)LAG_NS * (double)(s->clock.tsc - s->clock.tsc0) /
				    (double)(s->clock.ns - s->clock.ns0));
	err = report_jump(s);
	if (err)
		return err;
	err = s->buffers ? take_calls(s, last, more)
			 : probe_rings_read(s->rings, last ? UINT64_MAX : until, take_record, s, more);
	return err || !taker ? err : taker->pumped(taker->ctx, last && !*more, &s->enough);
}
