/*
 * Positions are the numbers of events in the order in which they are passed on, so that they order the events of all
 * threads. Events of one packet that follow each other are a run, and only the runs are kept (call_runs.h).
 *
 * A result may be in the packet before its exit: reading again begins there.
 */
#include "watchctl/trace/calls/call_merge_impl.h"

#include "watchctl/base/bisect.h"
#include "watchctl/base/error.h"
#include "watchctl/base/vec.h"

void call_merge_keep_positions(struct call_merge *m)
{
	m->keeps_positions = true;
}

uint64_t call_merge_position(const struct call_merge *m)
{
	return m->position;
}

static bool is_begin_of_packet(const struct merge_thread *t, uint64_t event)
{
	return event == t->before;
}

bool call_merge_keep_position(struct call_merge *m, const struct merge_thread *t, uint64_t event,
			      enum return_how ending)
{
	const uint32_t thread = (uint32_t)(t - m->thread);
	const struct call_run *last = &m->runs.last;
	const bool is_call = m->sums.calls != m->calls_kept;
	struct call_run run = { .event = event, .thread = thread, .ending = (uint8_t)ending };

	m->position++;
	if (!m->keeps_positions)
		return true;
	m->calls_kept = m->sums.calls;
	if (m->runs.any && last->thread == thread && last->ending == (uint8_t)ending &&
	    (ending ? last->event == event
		    : last->event + (m->position - last->position) == event && !is_begin_of_packet(t, event)))
		return true;
	run.position = m->position;
	run.calls = m->sums.calls - is_call;
	return call_runs_begin(&m->runs, &run);
}

bool call_merge_keep_packet(const struct call_merge *m, struct merge_thread *t, size_t packet)
{
	return !m->keeps_positions ||
	       vec_push(t->packet, t->npackets, t->packets_cap, (struct merge_packet){ t->before, packet });
}

/* The batch of @t is that of the packet. *@ok is false: it is not what was read before. */
static struct wc_error *load_again(struct call_merge *m, size_t thread, size_t packet, bool *ok)
{
	struct merge_thread *t = &m->again;
	const struct merge_packet *p = &m->thread[thread].packet[packet];
	struct call_batch b;

	if (!call_merge_take_values(t))
		return &wc_enomem;
	call_reader_seek_packet(m->reader, thread, p->packet);
	*ok = call_reader_next(m->reader, thread, &b) && b.packet == p->packet;
	if (!*ok)
		return NULL;
	t->before = p->event;
	m->again_packet = p;
	return call_merge_keep_batch(t, &b) ? NULL : &wc_enomem;
}

/* Passes what is before @event, with all that belongs to it. */
static bool skip_to(struct merge_thread *t, uint64_t event)
{
	while (t->at < t->n && t->before + t->at < event) {
		if (!call_merge_take_values(t))
			return false;
		if (t->event[t->at++].what != CALL_MORE)
			call_merge_forget_result(t);
	}
	return true;
}

/* A call or an exit that is before @event in the batch of @t: no result of another packet can be that of @event. */
static bool has_call_before(const struct merge_thread *t, uint64_t event)
{
	for (size_t i = 0; t->before + i < event && i < t->n; i++)
		if (t->event[i].what != CALL_MORE)
			return true;
	return false;
}

/* The packet was read last, and need not be read again: as when many calls are looked at, one after the other. */
static bool is_at_hand(struct call_merge *m, const struct merge_packet *packet, uint64_t event)
{
	struct merge_thread *t = &m->again;

	if (m->again_packet != packet || !has_call_before(t, event))
		return false;
	if (event < t->before + t->at) {
		t->at = t->value_at = 0;
		call_merge_forget_result(t);
	}
	return true;
}

/* The next event of m->again is @event of the file; or it is at its end, if that is behind the last one. */
static struct wc_error *go_to(struct call_merge *m, size_t thread, uint64_t event, bool *ok)
{
	const struct merge_thread *of = &m->thread[thread];
	struct merge_thread *t = &m->again;
	const size_t behind = BISECT(of->npackets, i, of->packet[i].event <= event);
	struct wc_error *err = NULL;

	*ok = true;
	if (behind && is_at_hand(m, &of->packet[behind - 1], event))
		return skip_to(t, event) ? NULL : &wc_enomem;
	m->again_packet = NULL;
	t->is = of->is;
	t->at = t->n = t->value_at = t->nvalues = 0;
	call_merge_forget_result(t);
	*ok = behind > 0;
	for (size_t i = behind > 1 ? behind - 2 : 0; !err && *ok && i < behind; i++) {
		err = load_again(m, thread, i, ok);
		if (!err && *ok && !skip_to(t, event))
			err = &wc_enomem;
	}
	return err;
}

/* The end of a call that no exit has ended: it is over when the next event comes, or with the last one. */
static const struct trace_event *make_end(struct call_merge *m, const struct merge_thread *t,
					  enum return_how how, uint32_t function)
{
	m->ret.time_ns = t->event[t->at < t->n ? t->at : t->n - 1].time_ns;
	m->ret.ret =
		(struct return_event){ .pid = t->is.pid, .tid = t->is.tid, .function = function, .how = how };
	return &m->ret;
}

static uint64_t count_entries(const struct merge_thread *t, uint64_t from, size_t to)
{
	uint64_t n = 0;

	for (size_t i = from > t->before ? (size_t)(from - t->before) : 0; i < to; i++)
		n += t->event[i].what == CALL_ENTRY;
	return n;
}

static const struct trace_event *make_event(struct call_merge *m, struct merge_thread *t,
					    const struct call_run *run, uint32_t function)
{
	const struct merge_event e = t->event[t->at++];
	struct call_event *c = &m->call.call;

	if (e.what == CALL_MORE)
		return NULL;
	if (e.what == CALL_ENTRY) {
		m->call.time_ns = e.time_ns;
		*c = (struct call_event){ .call = run->calls + count_entries(t, run->event, t->at),
					  .pid = t->is.pid,
					  .tid = t->is.tid,
					  .function = call_merge_shown_id(m, e.function),
					  .flags = call_merge_mark(t, e.function) };
		call_merge_put_parameters(m, t, c);
		call_merge_forget_result(t);
		return &m->call;
	}
	m->ret.time_ns = e.time_ns;
	m->ret.ret = (struct return_event){
		.pid = t->is.pid, .tid = t->is.tid, .function = function, .how = call_merge_how(t, &e)
	};
	call_merge_put_result(m, t, &m->ret.ret);
	call_merge_forget_result(t);
	return &m->ret;
}

struct wc_error *call_merge_read_again(struct call_merge *m, uint64_t position, uint32_t function,
				       const struct trace_event **ret)
{
	struct merge_thread *t = &m->again;
	struct call_run run;
	struct wc_error *err;
	uint64_t event;
	bool ok;

	*ret = NULL;
	if (position > m->position || !call_runs_find(&m->runs, position, &run))
		return NULL;
	event = run.event + (run.ending ? 0 : position - run.position);
	err = go_to(m, run.thread, event, &ok);
	if (err || !ok)
		return err;
	if (run.ending) {
		*ret = make_end(m, t, (enum return_how)run.ending, function);
		return NULL;
	}
	if (t->at == t->n)
		return NULL;
	if (!call_merge_take_values(t))
		return &wc_enomem;
	*ret = make_event(m, t, &run, function);
	return NULL;
}
