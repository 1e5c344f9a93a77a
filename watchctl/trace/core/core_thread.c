#include "watchctl/trace/core/core_thread.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "calltrace/runtime/open_memory.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/code/elf/core_file.h"
#include "watchctl/base/vec.h"

#define RING_CHUNKS_MAX (1u << 20)
#define MORE_WORDS_MAX (1 + CALL_BYTES_MAX / 8) /* that the runtime puts behind one event at once */

struct core_thread {
	struct core_rings *rings;
	const struct thread *dead; /* addresses in it are the core's */
	struct open_calls calls;
	struct open_memory memory;
	struct call_output out;
	struct event_pairs events;
	struct core_table *table; /* of the last event; NULL */
	uint64_t holes;		  /* slots that were not written, since the last one that was */
	bool is_damaged;
	struct core_thread_sums *sums;
};

static void mark_used(struct core_thread *c, uint32_t id)
{
	uint32_t index;
	struct core_table *t = core_rings_table(c->rings, id, &index);

	if (t)
		t->is_used[index] = true;
}

/* Before the slots: open calls, a packet */

/* The calls that were open behind the last event that was read. False: no memory. */
static bool load_open_calls(struct core_thread *c)
{
	const struct open_calls *dead = &c->dead->calls;

	if (!dead->depth)
		return true;
	if (dead->depth > OPEN_CALLS_MAX) {
		c->is_damaged = true;
		return true;
	}
	if (!open_calls_reserve(&c->calls, dead->depth))
		return false;
	if (!core_file_read(c->rings->core, (uintptr_t)dead->call, c->calls.call,
			    dead->depth * sizeof(*dead->call))) {
		c->is_damaged = true;
		return true;
	}
	for (uint32_t i = 0; i < dead->depth; i++) {
		if (c->calls.call[i].function > CALL_FUNCTION_MAX) {
			c->is_damaged = true;
			return true;
		}
	}
	c->calls.depth = dead->depth;
	c->calls.beyond = dead->beyond;
	c->calls.is_leaving = core_flag(&dead->is_leaving);
	c->calls.left_ns = dead->left_ns;
	return true;
}

/* The program's own events of which the first slot was read, and the second one was not. */
static void load_events(struct core_thread *c)
{
	if (c->dead->events.n > EVENT_PAIRS_MAX)
		c->is_damaged = true;
	else
		c->events = c->dead->events;
}

/* Events that were in the packet, and not in a file. */
struct pending {
	uint64_t *word;
	size_t nwords;
	uint64_t *event; /* those of them that are entries and exits */
	size_t n;
};

static void pending_deinit(struct pending *p)
{
	free(p->word);
	free(p->event);
}

static enum call_what what_of(uint64_t event)
{
	return event & 3;
}

static uint32_t function_of(uint64_t event)
{
	return (uint32_t)(event >> CALL_FUNCTION_SHIFT);
}

/* False: no memory. */
static bool load_packet(struct core_thread *c, struct pending *ret)
{
	const struct call_output *dead = &c->dead->out;

	if (!dead->n)
		return true;
	ret->word = malloc(CALL_PACKET_BYTES);
	ret->event = malloc(CALL_PACKET_BYTES);
	if (!ret->word || !ret->event)
		return false;
	if (dead->n > CALL_PACKET_EVENTS ||
	    !core_file_read(c->rings->core, (uintptr_t)dead->packet + sizeof(struct call_packet), ret->word,
			    dead->n * sizeof(*ret->word))) {
		c->is_damaged = true;
		return true;
	}
	ret->nwords = dead->n;
	for (size_t i = 0; i < ret->nwords; i++) {
		if (what_of(ret->word[i]) == CALL_MORE)
			i += function_of(ret->word[i]);
		else
			ret->event[ret->n++] = ret->word[i];
	}
	return true;
}

/*
 * The functions that were open before the packet's events, outermost first: those that are open behind them, and the
 * events taken back, the last one first.
 */
struct stack {
	uint32_t *function;
	size_t n, cap;
};

static bool stack_before(struct core_thread *c, const struct pending *p, struct stack *s)
{
	for (uint32_t i = 0; i < c->calls.depth; i++)
		if (!vec_push(s->function, s->n, s->cap, c->calls.call[i].function))
			return false;
	for (size_t i = p->n; i--;) {
		if (what_of(p->event[i]) != CALL_ENTRY) {
			if (!vec_push(s->function, s->n, s->cap, function_of(p->event[i])))
				return false;
		} else if (s->n && s->function[s->n - 1] == function_of(p->event[i])) {
			s->n--;
		} else {
			/* The two do not fit: the runtime was between them, or the core is damaged. */
			c->is_damaged = true;
			s->n = 0;
			return true;
		}
	}
	return true;
}

/* The @n words at @word, which are behind a `more`. */
static void put_words(struct core_thread *c, const uint64_t *word, uint32_t n, uint64_t time_ns)
{
	if (n == CALL_EVENT_WORDS && call_word_kind(word[0]) == CALL_WORD_EVENT)
		output_put_event(&c->out, call_word_function(word[0]), time_ns, word[1], word[2]);
	else if (n && n <= MORE_WORDS_MAX)
		output_put_words(&c->out, word, n);
}

static void put_pending(struct core_thread *c, const struct pending *p)
{
	uint64_t time_ns = c->dead->out.begin_ns;

	for (size_t i = 0; i < p->nwords; i++) {
		const uint64_t e = p->word[i];

		time_ns += (uint32_t)((uint32_t)(e >> CALL_TIME_SHIFT) - (uint32_t)time_ns);
		if (what_of(e) != CALL_MORE) {
			mark_used(c, function_of(e));
			output_put(&c->out, what_of(e), time_ns, function_of(e));
		} else {
			if (i + function_of(e) < p->nwords)
				put_words(c, &p->word[i + 1], function_of(e), time_ns);
			i += function_of(e);
		}
	}
}

static bool put_before(struct core_thread *c, const struct pending *p)
{
	const uint64_t time_ns = p->n ? c->dead->out.begin_ns : c->dead->point.ns;
	scoped(freep) uint32_t *function = NULL;
	struct stack s = { 0 };
	const bool had_memory = stack_before(c, p, &s);

	function = s.function;
	if (!had_memory)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		mark_used(c, s.function[i]);
		output_put(&c->out, CALL_ENTRY, time_ns, s.function[i]);
	}
	c->sums->given += s.n;
	put_pending(c, p);
	return true;
}

/* Writes all that the runtime had read already. False: no memory. */
static bool write_before(struct core_thread *c)
{
	const struct thread *dead = c->dead;
	const bool is_torn =
		c->rings->memory.ring_chunks && core_flag(&dead->was_read) && dead->ring.overwritten;
	scoped(pending_deinit) struct pending p = { 0 };
	const bool had_memory = load_open_calls(c) && load_packet(c, &p);

	if (!had_memory || ((!is_torn || p.n) && !put_before(c, &p)))
		return false;
	c->out.discarded =
		dead->out.discarded > dead->out.reported ? dead->out.discarded - dead->out.reported : 0;
	load_events(c);
	if (is_torn) {
		output_flush(&c->out);
		c->out.discarded += dead->ring.overwritten;
		open_calls_forget(&c->calls);
		event_pairs_lose(&c->events, &c->out);
	}
	/* Mends a state that open_calls never has, and a damaged core may have. */
	c->calls.is_leaving &= c->calls.depth != 0;
	return true;
}

/* Slots */

static struct core_table *find_table(struct core_thread *c, uint32_t record)
{
	if (c->table && record - c->table->low < c->table->size)
		return c->table;
	for (size_t i = 0; i < c->rings->ntables; i++)
		if (record - c->rings->table[i].low < c->rings->table[i].size)
			return c->table = &c->rings->table[i];
	return NULL;
}

static uint64_t time_of(struct core_thread *c, const struct calltrace_slot *slot)
{
	const uint64_t time_ns = core_rings_time(c->rings, slot->tsc);

	if (c->sums->last_tsc < slot->tsc)
		c->sums->last_tsc = slot->tsc;
	return time_ns < c->dead->point.ns ? c->dead->point.ns : time_ns;
}

/* A slot of an event of the program's own. Of the second one, tsc is no time. */
static void take_event(struct core_thread *c, const struct calltrace_slot *slot)
{
	const bool is_first = (slot->what & CALLTRACE_KIND_MASK) == CALLTRACE_EVENT;

	open_calls_finish(&c->calls, &c->out);
	event_pairs_take(&c->events, slot, slot->what, is_first ? time_of(c, slot) : 0, &c->out);
}

static void take_slot(struct core_thread *c, const struct calltrace_slot *slot)
{
	struct call_fact f = call_fact_of(slot->what, slot->frame);
	struct core_table *t = find_table(c, slot->what & ~CALLTRACE_KIND_MASK);
	uint32_t index;

	if (c->holes)
		event_pairs_lose(&c->events, &c->out);
	c->out.discarded += c->holes;
	c->holes = 0;
	if (event_pairs_have(slot->what)) {
		take_event(c, slot);
		return;
	}
	if (!t) {
		c->out.discarded++;
		return;
	}
	index = ((slot->what & ~CALLTRACE_KIND_MASK) - t->low) / (uint32_t)sizeof(struct calltrace_function);
	t->is_used[index] = true;
	f.function = t->base + index;
	if (call_fact_is_memory(&f)) {
		open_memory_take(&c->memory, &c->calls, &f, slot->tsc, &c->out);
		return;
	}
	if (call_fact_is_value(&f)) {
		open_calls_value(&c->calls, f.kind, f.function, slot->frame, slot->tsc, &c->out);
		return;
	}
	f.time_ns = time_of(c, slot);
	open_calls_take(&c->calls, &f, &c->out);
}

/*
 * Slots at [@address, @end). One that is not written, while a later one is, was left out by the thread as well: a signal
 * has interrupted it, and the program died in the handler. @counts: such slots are known to have been given.
 * One of no function at all, which lies at no address, is one that the runtime has dropped.
 */
static void take_slots(struct core_thread *c, uint64_t address, uint64_t end, bool counts)
{
	struct calltrace_slot slot[4096];

	while (address < end && !c->is_damaged) {
		const uint64_t left = (end - address) / sizeof(slot[0]);
		const size_t n = left < 4096 ? left : 4096;

		if (!core_file_read(c->rings->core, address, slot, n * sizeof(slot[0]))) {
			c->is_damaged = true;
			return;
		}
		for (size_t i = 0; i < n; i++) {
			if (slot[i].what > CALLTRACE_KIND_MASK || event_pairs_have(slot[i].what))
				take_slot(c, &slot[i]);
			else if (!slot[i].what && counts)
				c->holes++;
		}
		address += n * sizeof(slot[0]);
	}
}

/* The chunks of a flight recorder, the oldest one first, and behind the last one what is in the slack. */
static void take_ring(struct core_thread *c)
{
	const uint64_t begin = (uintptr_t)c->dead->chunk, chunks = c->rings->memory.ring_chunks;
	const uint64_t newest = begin + (c->dead->ring.current + 1ull) * CALLTRACE_CHUNK;
	const uint64_t end = begin + chunks * CALLTRACE_CHUNK;

	if (c->dead->ring.current >= chunks || chunks > RING_CHUNKS_MAX) {
		c->is_damaged = true;
		return;
	}
	take_slots(c, newest, end, false);
	take_slots(c, begin, newest, false);
	if (newest == end)
		take_slots(c, end, end + SLACK_CHUNKS * CALLTRACE_CHUNK, false);
}

static void take_area(struct core_thread *c)
{
	const uint64_t begin = (uintptr_t)c->dead->chunk, from = (uintptr_t)c->dead->from;
	const uint64_t bytes = (1 + SLACK_CHUNKS) * CALLTRACE_CHUNK;

	if (from - begin > bytes || (from - begin) % sizeof(struct calltrace_slot))
		c->is_damaged = true;
	else
		take_slots(c, from, begin + bytes, true);
}

static struct wc_error *write_thread(struct core_thread *c)
{
	bool was_damaged;

	if (!write_before(c))
		return &wc_enomem;
	/* Events without what was before them are worth having. */
	was_damaged = c->is_damaged;
	c->is_damaged = false;
	if (c->rings->memory.ring_chunks)
		take_ring(c);
	else
		take_area(c);
	c->sums->unreadable += was_damaged || c->is_damaged;
	open_calls_finish(&c->calls, &c->out);
	event_pairs_lose(&c->events, &c->out);
	output_finish(&c->out);
	if (c->out.error || c->out.is_stopped)
		return wc_error_errno(WC_ELOG, (int)-c->out.error, "cannot write %s", c->out.place->path);
	return NULL;
}

struct wc_error *core_thread_write(struct core_rings *r, const struct thread *t, struct output_place *place,
				   struct core_thread_sums *sums)
{
	struct core_thread c = { .rings = r, .dead = t, .sums = sums };
	scoped(freep) struct call_packet *packet = NULL;
	struct wc_error *err;

	if (!t->chunk)
		return NULL;
	packet = malloc(CALL_PACKET_BYTES);
	if (!packet)
		return &wc_enomem;
	sums->in_turn += t->lock != 0;
	output_begin(&c.out, place, packet, t->tid);
	c.out.last_ns = r->begin_ns;
	err = write_thread(&c);
	open_calls_deinit(&c.calls);
	return err;
}
