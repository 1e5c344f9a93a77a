/* Fields are put in the order in which tracelog_decode_probe.c takes them; see the metadata for their types. */
#include "watchctl/trace/log/tracelog_encode_probe.h"

#include <assert.h>

#include "watchctl/trace/log/tracelog_put.h"

#define TEXT_MAX_BYTES 4096u /* of a name, a pattern, a format */

static void put_text(struct encoder *c, const char *s)
{
	put_bounded(c, s, TEXT_MAX_BYTES);
}

static void put_site(struct encoder *c, const struct probe_site_event *s)
{
	assert(s->ninsn <= sizeof(s->insn));
	put_u32(c, s->id);
	put_u32(c, s->pid);
	put_u64(c, s->ip);
	put_u8(c, s->when);
	put_u8(c, s->tactic);
	put_text(c, s->probe);
	put_text(c, s->pattern);
	put_text(c, s->why);
	put_u8(c, s->ninsn);
	encode_bytes(c, s->insn, s->ninsn);
}

static void put_total(struct encoder *c, const struct probe_total_event *t)
{
	put_u32(c, t->site);
	put_u64(c, t->count);
	put_u64(c, t->lost);
}

void encode_probe_fields(struct encoder *c, const struct trace_event *e)
{
	if (e->type == EVENT_PROBE_SITE)
		put_site(c, &e->probe_site);
	else
		put_total(c, &e->probe_total);
}

/* An argument without a string has none in the log either: babeltrace2 shows the last one in place of an empty one. */
static void put_strings(struct encoder *c, const struct probe_event *e, uint8_t there)
{
	unsigned int i;

	put_u8(c, (uint8_t)__builtin_popcount(there));
	for (i = 0; i < e->nargs; i++)
		if (there >> i & 1)
			put_bounded(c, e->string[i], PROBE_EVENT_STRING);
}

void encode_probe(struct encoder *c, const struct probe_event *e, uint32_t stack, uint64_t before_ns)
{
	const uint8_t args = (uint8_t)((1u << e->nargs) - 1), strings = e->strings & args;

	assert(e->nargs <= PROBE_EVENT_ARGS && !(e->withheld && e->nargs));
	if (before_ns > TRACELOG_BEFORE_MAX)
		before_ns = TRACELOG_BEFORE_MAX;
	put_u32(c, e->site);
	put_u32(c, e->tid);
	put_u32(c, stack);
	encode_bytes(c, &before_ns, TRACELOG_BEFORE_BYTES);
	put_u8(c, e->kind);
	put_u8(c, e->withheld);
	put_u8(c, strings);
	put_u8(c, e->unread & strings);
	put_text(c, e->format);
	put_u8(c, e->nargs);
	encode_bytes(c, e->arg, e->nargs * sizeof(*e->arg));
	put_strings(c, e, strings & ~e->unread);
}
