/* Fields are taken in the order of LOG_PROBE, in which tracelog_encode_probe.c puts them. */
#include "watchctl/trace/log/tracelog_decode_probe.h"

#include "watchctl/base/map64.h"
#include "watchctl/trace/log/tracelog_format.h"

static void get_args(struct cursor *c, struct probe_event *e)
{
	unsigned int i, nstrings;
	uint8_t there, nargs = get_u8(c);

	if (nargs > PROBE_EVENT_ARGS || e->strings >> nargs || e->unread & ~e->strings ||
	    (e->withheld && nargs) || (e->kind != PROBE_KIND_LOG && (nargs > 1 || e->strings))) {
		c->bad = true;
		return;
	}
	e->nargs = nargs;
	get_bytes(c, e->arg, nargs * sizeof(*e->arg));
	there = e->strings & ~e->unread;
	nstrings = get_u8(c);
	c->bad |= nstrings != (unsigned int)__builtin_popcount(there);
	for (i = 0; i < nargs; i++)
		if (there >> i & 1)
			e->string[i] = get_string(c);
}

/* One without frames has no stack, and is whole without. */
static void get_stack(struct tracelog_decoder *d, struct cursor *c, uint32_t number, struct probe_event *e)
{
	const struct tracelog_stack *stack;
	bool lost;

	if (number >= TRACELOG_NO_STACK) {
		e->walk_end = (uint8_t)(number - TRACELOG_NO_STACK);
		c->bad |= e->walk_end > WALK_END_UNKNOWN_PC;
		return;
	}
	stack = tracelog_stack_of(d, number, &lost);
	c->bad |= !stack && !lost;
	e->walk_end = stack ? stack->walk_end : WALK_END_LOST;
	e->nframes = stack ? stack->nframes : 0;
	e->frame = stack ? stack->frame : NULL;
}

void tracelog_decode_probe(struct tracelog_decoder *d, struct cursor *c, struct trace_event *ret)
{
	struct probe_event *e = &ret->probe;
	uint64_t before_ns = 0;
	uint32_t stack;
	uint8_t kind;

	e->site = get_u32(c);
	e->tid = (int32_t)get_u32(c);
	stack = get_u32(c);
	get_bytes(c, &before_ns, TRACELOG_BEFORE_BYTES);
	kind = get_u8(c);
	e->withheld = get_u8(c) != 0;
	e->strings = get_u8(c);
	e->unread = get_u8(c);
	e->format = get_string(c);
	if (kind < PROBE_KIND_LOG || kind > PROBE_KIND_STACK || before_ns > ret->time_ns) {
		c->bad = true;
		return;
	}
	e->kind = kind;
	if (kind == PROBE_KIND_VALUE)
		e->format = NULL;
	ret->time_ns -= before_ns;
	e->pid = tracelog_decode_process(d, e->tid);
	tracelog_decode_needs(d, &d->probe_sites, e->site);
	get_args(c, e);
	get_stack(d, c, stack, e);
}
