/* Fields are put in the order of LOG_PROBE, in which tracelog_decode_probe.c takes them. */
#include "watchctl/trace/log/tracelog_encode_probe.h"

#include <assert.h>

#include "watchctl/trace/log/tracelog_put.h"

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
	put_name(c, e->format);
	put_u8(c, e->nargs);
	encode_bytes(c, e->arg, e->nargs * sizeof(*e->arg));
	put_strings(c, e, strings & ~e->unread);
}
