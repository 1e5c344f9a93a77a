#include "calltrace/runtime/open_memory.h"

#include "watchctl/trace/call_values.h"

_Static_assert((int)CALLTRACE_MEMORY_WHOLE == (int)VALUE_OK &&
		       (int)CALLTRACE_MEMORY_UNREADABLE == (int)VALUE_UNREADABLE &&
		       (int)CALLTRACE_MEMORY_CUT == (int)VALUE_CUT,
	       "states are passed on as they are");

#define COUNT_MASK 0xffffu
#define STATE_SHIFT 16

/* Whether a head makes sense. The first slot of a thread, which has a time in the place of one, does not. */
static bool is_head(uint64_t tsc, uint32_t number)
{
	const uint64_t bytes = tsc & COUNT_MASK, state = tsc >> STATE_SHIFT;

	if (bytes > CALLTRACE_MEMORY_MAX || number > CALLTRACE_NUMBER_RESULT)
		return false;
	return state == CALLTRACE_MEMORY_WHOLE || state == CALLTRACE_MEMORY_CUT ||
	       (state == CALLTRACE_MEMORY_UNREADABLE && !bytes);
}

static void put(struct open_memory *m, uint32_t bytes, struct call_output *out)
{
	const uint32_t words = (bytes + 7) / 8;

	if (bytes % 8)
		m->word[words] &= (1ull << 8 * (bytes % 8)) - 1;
	m->bytes = 0;
	output_put_words(out, m->word, 1 + words);
}

static void take_head(struct open_memory *m, struct open_calls *s, const struct call_fact *f, uint64_t tsc,
		      struct call_output *out)
{
	const uint32_t bytes = tsc & COUNT_MASK;

	m->bytes = 0;
	if (!is_head(tsc, f->frame) || !open_calls_is_innermost(s, f->function, out))
		return;
	m->head = call_bytes_word(f->frame, (uint32_t)(tsc >> STATE_SHIFT), bytes, f->function);
	if (!bytes) {
		put(m, 0, out);
		return;
	}
	m->function = f->function;
	m->bytes = bytes;
	m->npieces = 0;
	m->packets = out->packets;
	m->n = out->n;
}

void open_memory_take(struct open_memory *m, struct open_calls *s, const struct call_fact *f, uint64_t tsc,
		      struct call_output *out)
{
	if (f->kind == CALLTRACE_MEMORY) {
		take_head(m, s, f, tsc, out);
		return;
	}
	if (!m->bytes || m->function != f->function)
		return;
	/* Another event or a flush has come between: the words would be those of another call. */
	if (m->packets != out->packets || m->n != out->n) {
		m->bytes = 0;
		return;
	}
	m->piece[m->npieces++] = (struct memory_piece){ tsc, f->frame };
	if (m->npieces * CALLTRACE_PIECE >= m->bytes)
		put(m, m->bytes, out);
}
