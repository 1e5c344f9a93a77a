#include "watchctl/engine/ring/ring_samples.h"

#include <stdlib.h>
#include <string.h>

#include "handler/walk.h"
#include "watchctl/base/map64.h"
#include "watchctl/engine/intake/access_fact.h"
#include "watchctl/target/proc/proc.h"

struct last_value {
	bool known;
	uint64_t value;
};

struct ring_samples {
	struct perf_rings *rings;
	struct intake *in;
	struct last_value last[WIRE_WATCHES];
	struct map64 inner; /* an id of ours -> the target's, where that is another one */
	bool *any;	    /* while samples are taken */
	struct wc_error *err;
	struct wire_record rec;
	uint8_t tail[8 * WIRE_FRAMES + sizeof(struct regs) + WIRE_RAW_MAX + sizeof(struct wire_kernel)];
	struct wire_memory memory;
	struct wire_area area;
};

_Static_assert(offsetof(struct ring_samples, tail) ==
		       offsetof(struct ring_samples, rec) + sizeof(struct wire_record),
	       "what follows a record");

struct ring_samples *ring_samples_new(struct perf_rings *rings, struct intake *in)
{
	struct ring_samples *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->rings = rings;
	s->in = in;
	s->memory = (struct wire_memory){ calloc(1, WIRE_RING_OFFSET), WIRE_RING_OFFSET };
	if (!s->memory.base) {
		free(s);
		return NULL;
	}
	s->area = wire_area_in(&s->memory);
	return s;
}

const struct wire_area *ring_samples_area(const struct ring_samples *s)
{
	return &s->area;
}

void ring_samples_free(struct ring_samples *s)
{
	if (!s)
		return;
	map64_deinit(&s->inner);
	free(s->memory.base);
	free(s);
}

void ring_samples_arm(struct ring_samples *s, unsigned int i, bool has_value, uint64_t value)
{
	s->last[i] = (struct last_value){ has_value, value };
}

/* As the target's pid namespace numbers thread @tid of process @pid. */
static pid_t inner_id(struct ring_samples *s, pid_t pid, pid_t tid)
{
	struct proc_status st;
	pid_t known;

	if (!s->in->who.ns.depth)
		return tid;
	known = (pid_t)(uintptr_t)map64_get(&s->inner, (uint64_t)tid);
	if (known)
		return known;
	if (!proc_status_read(pid, tid, &st) || !st.ns_id)
		return tid;
	known = proc_id_at(&st, s->in->who.ns.depth);
	map64_put(&s->inner, (uint64_t)tid, (void *)(uintptr_t)known);
	return known;
}

/* Where the instruction itself shows which value it moved. */
static bool moved_value(struct ring_samples *s, const struct perf_sample *p, const struct watchpoint *w,
			uint64_t want, uint64_t *ret)
{
	const struct wire_access_fact *fact;
	const struct code_fact *code;
	struct wire_access_fact made;

	if (p->kernel || w->access == ACCESS_EXECUTE)
		return false;
	fact = wire_find_fact((const void *)(s->memory.base + WIRE_FACTS_OFFSET), p->regs.r[WREG_RIP]);
	if (!fact) {
		s->err = code_facts_at(s->in->facts, p->regs.r[WREG_RIP], p->time_ns, &code);
		if (s->err || !access_fact_make(code, &made))
			return false;
		fact = &made;
	}
	if (!wire_value_from_fact(fact, &p->regs, want, w->want_size, ret))
		return false;
	*ret = wire_truncate(*ret, w->want_size);
	return true;
}

static void fill_values(struct ring_samples *s, const struct perf_sample *p, const struct watchpoint *w)
{
	struct wire_record *r = &s->rec;
	struct last_value *last = &s->last[r->watch], none = { 0 };

	/* Each thread, or each process, has its own: not followed here. */
	if (w->address || r->pid)
		last = &none;
	r->old_value = last->value;
	r->flags |= last->known ? WIRE_HAS_OLD : 0;
	last->known = moved_value(s, p, w, p->addr + (w->want_addr - w->addr), &last->value);
	if (!last->known)
		return;
	r->new_value = last->value;
	r->flags |= WIRE_HAS_NEW;
}

static bool read_sample(void *ctx, uint64_t addr, uint64_t *ret)
{
	const struct perf_sample *p = ctx;
	uint64_t at = addr - p->regs.r[WREG_RSP];

	if (p->stack_len < 8 || at > p->stack_len - 8)
		return false;
	memcpy(ret, (const uint8_t *)p->stack + at, 8);
	return true;
}

/* As far as the tables go; where they end, the stack from there on, for the intake. Returns the record's end.
 */
static uint8_t *fill_stack(struct ring_samples *s, const struct perf_sample *p)
{
	uint32_t max = s->in->frames < WIRE_FRAMES ? s->in->frames : WIRE_FRAMES;
	const void *rules = s->memory.base + WIRE_RULES_OFFSET;
	struct wire_record *r = &s->rec;
	struct regs outer = p->regs;
	uint64_t frame[WIRE_FRAMES], from;
	uint8_t *at = s->tail;
	bool exact;

	r->walk_end = (uint8_t)wire_walk(rules, max, read_sample, (void *)(uintptr_t)p, &outer, frame,
					 &r->nframes, &exact);
	memcpy(at, frame, 8 * (size_t)r->nframes);
	at += 8 * (size_t)r->nframes;
	r->flags |= exact ? WIRE_EXACT_PC : 0;
	if (r->walk_end != WALK_END_UNKNOWN_PC)
		return at;
	memcpy(at, &outer, sizeof(outer));
	at += sizeof(outer);
	r->raw_addr = outer.r[WREG_RSP];
	from = r->raw_addr - p->regs.r[WREG_RSP];
	r->raw_len = from < p->stack_len ? (uint32_t)(p->stack_len - from) & ~7u : 0;
	if (r->raw_len > WIRE_RAW_MAX)
		r->raw_len = WIRE_RAW_MAX;
	if (r->raw_len)
		memcpy(at, (const uint8_t *)p->stack + from, r->raw_len);
	return at + r->raw_len;
}

/* What follows the record: frames, the stack; the kernel's registers. */
static void fill_tail(struct ring_samples *s, const struct perf_sample *p)
{
	struct wire_record *r = &s->rec;
	uint8_t *at = s->tail;

	if (p->has_regs) {
		at = fill_stack(s, p);
	} else {
		memset(at, 0, 8);
		at += 8;
		r->nframes = 1;
		r->walk_end = WALK_END_COMPLETE;
	}
	if (p->kernel) {
		struct wire_kernel kernel = { .regs = p->interrupted, .nframes = 1 };

		kernel.frame[0] = p->interrupted.r[WREG_RIP];
		memcpy(at, &kernel, sizeof(kernel));
		at += sizeof(kernel);
	}
	r->size = (uint32_t)(at - (const uint8_t *)r);
}

static bool take_one(void *ctx, const struct perf_sample *p)
{
	struct ring_samples *s = ctx;
	const struct watchpoint *w;
	struct wire_record *r = &s->rec;

	*s->any = true;
	*r = (struct wire_record){
		.flags = WIRE_TIME_NS | (p->kernel ? WIRE_KERNEL : 0),
		.watch = (uint8_t)(p->tag & (WIRE_WATCHES - 1)),
		.time = p->time_ns,
		.tid = (uint32_t)inner_id(s, p->pid, p->tid),
		.pid = p->pid == s->in->pid ? 0 : inner_id(s, p->pid, p->pid),
		.syscall = -1,
		.addr = p->addr,
		.regs = p->regs,
	};
	s->err = intake_catch_up(s->in, p->time_ns);
	if (s->err)
		return false;
	w = &s->in->watch[r->watch].w;
	if (w->filter)
		r->flags |= WIRE_UNDECIDED;
	fill_values(s, p, w);
	fill_tail(s, p);
	if (!s->err)
		s->err = intake_take(s->in, r);
	return !s->err && !s->in->hook_hit && intake_has_room(s->in);
}

struct wc_error *ring_samples_take(struct ring_samples *s, uint64_t until_ns, bool *any)
{
	if (s->in->hook_hit || !intake_has_room(s->in))
		return NULL;
	s->any = any;
	s->err = NULL;
	perf_rings_read(s->rings, until_ns, take_one, s);
	return s->err;
}
