#include "calltrace/runtime/open_calls.h"

#include <sys/mman.h>

#include "calltrace/runtime/raw_call.h"

#define FIRST_CAP 8192u
#define OTHER_STACK (1 << 20) /* bytes above the outermost call: a stack of its own */

static int32_t frame_distance(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b);
}

/* Of the memory: the open calls, and one place before them (plain_slots.h). */
static size_t bytes_for(uint32_t cap)
{
	return (1 + (size_t)cap) * sizeof(struct open_call);
}

bool open_calls_reserve(struct open_calls *s, uint32_t n)
{
	uint32_t cap = s->cap ? s->cap : FIRST_CAP;
	long p;

	while (cap < n && cap < OPEN_CALLS_MAX)
		cap *= 2;
	if (n <= s->cap || cap < n)
		return n <= s->cap;
	if (s->cap)
		p = raw_call(SYS_mremap, (long)(s->call - 1), (long)bytes_for(s->cap), (long)bytes_for(cap),
			     MREMAP_MAYMOVE);
	else
		p = raw_call6(SYS_mmap, 0, (long)bytes_for(cap), PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p < 0 && p > -4096)
		return false;
	s->call = (struct open_call *)(p + (long)sizeof(*s->call));
	s->cap = cap;
	return true;
}

static bool calls_grow(struct open_calls *s)
{
	return s->depth < s->cap || open_calls_reserve(s, s->depth + 1);
}

static const struct open_call *innermost(const struct open_calls *s)
{
	return &s->call[s->depth - 1];
}

/* Ends the innermost call, and those that have jumped to it. */
static void end_innermost(struct open_calls *s, enum call_what how, uint64_t time_ns, struct call_output *out)
{
	do {
		output_put(out, how, time_ns, innermost(s)->function);
		s->depth--;
	} while (s->depth && innermost(s)->is_replaced);
	s->beyond = 0;
}

void open_calls_finish(struct open_calls *s, struct call_output *out)
{
	if (!s->is_leaving)
		return;
	s->is_leaving = false;
	end_innermost(s, CALL_EXIT, s->left_ns, out);
}

/* Ends those whose place on the stack is taken. A function that is inlined shares that of the one it is in. */
static void end_overgrown(struct open_calls *s, const struct call_fact *f, struct call_output *out)
{
	const int32_t shared = f->is_inlined ? 1 : 0;

	if (s->depth && frame_distance(f->frame, s->call[0].frame) > OTHER_STACK)
		return;
	while (s->depth && frame_distance(f->frame, innermost(s)->frame) >= shared)
		end_innermost(s, CALL_EXIT_UNSEEN, f->time_ns, out);
}

static void take_entry(struct open_calls *s, const struct call_fact *f, struct call_output *out)
{
	if (s->is_leaving && innermost(s)->frame == f->frame && calls_grow(s)) {
		s->is_leaving = false;
		s->call[s->depth - 1].is_replaced = 1;
	} else {
		open_calls_finish(s, out);
		end_overgrown(s, f, out);
		if (!calls_grow(s)) {
			s->beyond++;
			out->discarded++;
			return;
		}
	}
	output_put(out, CALL_ENTRY, f->time_ns, f->function);
	s->call[s->depth++] = (struct open_call){ .function = f->function, .frame = f->frame };
}

/* How many calls are open with that of @f as the innermost one; 0: it is none of them. */
static uint32_t depth_of(struct open_calls *s, const struct call_fact *f)
{
	uint32_t n = s->depth;

	/* It is one of those that found no room: not to be looked for among a million. */
	if (s->beyond && frame_distance(f->frame, innermost(s)->frame) < 0) {
		s->beyond--;
		return 0;
	}
	while (n && (s->call[n - 1].function != f->function || s->call[n - 1].frame != f->frame))
		n--;
	return n;
}

static void take_exit(struct open_calls *s, const struct call_fact *f, struct call_output *out)
{
	uint32_t n;

	open_calls_finish(s, out);
	if (!s->depth) { /* it was entered before recording began */
		output_put(out, CALL_EXIT, f->time_ns, f->function);
		return;
	}
	n = depth_of(s, f);
	if (!n) {
		out->discarded++;
		return;
	}
	while (s->depth > n)
		end_innermost(s, CALL_EXIT_UNSEEN, f->time_ns, out);
	if (s->depth < n) /* it had jumped to one of them, and has ended with it */
		return;
	if (f->kind == CALLTRACE_TAIL) {
		s->is_leaving = true;
		s->left_ns = f->time_ns;
	} else {
		end_innermost(s, CALL_EXIT, f->time_ns, out);
	}
}

void open_calls_take(struct open_calls *s, const struct call_fact *f, struct call_output *out)
{
	if (f->kind == CALLTRACE_ENTRY)
		take_entry(s, f, out);
	else
		take_exit(s, f, out);
}

bool open_calls_is_innermost(struct open_calls *s, uint32_t function, struct call_output *out)
{
	open_calls_finish(s, out);
	return s->depth && !s->beyond && innermost(s)->function == function;
}

void open_calls_value(struct open_calls *s, enum calltrace_kind kind, uint32_t function, uint32_t number,
		      uint64_t value, struct call_output *out)
{
	const enum call_word what = kind == CALLTRACE_VALUE ? CALL_WORD_VALUE : CALL_WORD_RESULT;

	if (open_calls_is_innermost(s, function, out))
		output_put_value(out, call_word(what, number, function), value);
}

void open_calls_forget(struct open_calls *s)
{
	s->depth = s->beyond = 0;
	s->is_leaving = false;
}

void open_calls_clear(struct open_calls *s, uint64_t time_ns, struct call_output *out)
{
	uint32_t entered = output_clear(out);

	/* Above these is what it calls now, in slots that were forgotten. */
	s->depth = s->depth > entered ? s->depth - entered : 0;
	s->is_leaving = false;
	while (s->depth)
		end_innermost(s, CALL_EXIT_UNSEEN, time_ns, out);
	open_calls_forget(s);
}

void open_calls_deinit(struct open_calls *s)
{
	if (s->cap)
		raw_call(SYS_munmap, (long)(s->call - 1), (long)bytes_for(s->cap), 0, 0);
	*s = (struct open_calls){ 0 };
}
