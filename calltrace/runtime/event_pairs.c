#include "calltrace/runtime/event_pairs.h"

static void remove_at(struct event_pairs *p, uint32_t i)
{
	for (p->n--; i < p->n; i++)
		p->begun[i] = p->begun[i + 1];
}

/* The index of the one with @key, p->n: there is none. */
static uint32_t find(const struct event_pairs *p, uint32_t key)
{
	uint32_t i = 0;

	while (i < p->n && p->begun[i].key != key)
		i++;
	return i;
}

static void begin(struct event_pairs *p, const struct begun_event *e, struct call_output *out)
{
	const uint32_t same = find(p, e->key);

	/* One that was recorded at the same place of the stack is over: its handler has jumped away. */
	if (same < p->n || p->n == EVENT_PAIRS_MAX) {
		remove_at(p, same < p->n ? same : 0);
		out->discarded++;
	}
	p->begun[p->n++] = *e;
}

void event_pairs_take(struct event_pairs *p, const struct calltrace_slot *slot, uint32_t what,
		      uint64_t time_ns, struct call_output *out)
{
	const uint32_t key = what >> CALLTRACE_EVENT_KEY_SHIFT, i = find(p, key);
	struct begun_event e = { .time_ns = time_ns, .key = key, .low = slot->frame };

	if ((what & CALLTRACE_KIND_MASK) == CALLTRACE_EVENT) {
		begin(p, &e, out);
		return;
	}
	if (i == p->n)
		return;
	e = p->begun[i];
	remove_at(p, i);
	output_put_event(out, key % CALLTRACE_EVENT_TYPES, e.time_ns, (uint64_t)slot->frame << 32 | e.low,
			 slot->tsc);
}

void event_pairs_lose(struct event_pairs *p, struct call_output *out)
{
	out->discarded += p->n;
	p->n = 0;
}

void event_pairs_forget(struct event_pairs *p)
{
	p->n = 0;
}
