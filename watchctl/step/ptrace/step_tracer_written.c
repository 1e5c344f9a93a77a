/*
 * Finds what calls change in memory. Objects of modules are compared with what they were at the stop before: with one
 * thread, whatever has changed was written by the call that was the innermost one in between. What parameters point
 * to is compared at a call's return with what it was at its entry, whoever has written it.
 */
#include <string.h>

#include "watchctl/step/ptrace/step_tracer.h"
#include "watchctl/trace/call_values.h"

struct written {
	struct step_tracer *k;
	struct step_thread *t;
	const struct track_call *call;
};

static void report_data(void *ctx, const struct shadow_change *c)
{
	const struct written *w = ctx;
	struct step_record r = { .kind = STEP_WRITTEN };
	uint8_t bytes[2 * (SHADOW_RUN_MAX + 2 * SHADOW_AROUND)];

	if (!w->call || !step_hit_is_reported(w->k, w->call))
		return;
	r.inside = w->call->call;
	r.point = w->call->point;
	r.written = (struct step_written){ .is_data = true, .address = c->address, .len = c->len };
	memcpy(bytes, c->bytes, c->len);
	for (uint32_t i = 0; i < c->len; i++)
		bytes[c->len + i] = c->bytes[i] ^ c->before[i];
	r.stack = bytes;
	r.stack_len = 2 * c->len;
	step_report_of(w->k, w->t, &r);
}

void step_written_copy(struct step_tracer *k)
{
	const struct memory_view memory = step_state_memory(k);
	struct written nobody = { .k = k };

	step_shadow_forget(&k->shadow);
	if (!k->shadow_off)
		step_shadow_look(&k->shadow, &memory, report_data, &nobody);
}

void step_written_begin(struct step_tracer *k)
{
	step_pointees_forget(&k->pointees);
	step_written_copy(k);
}

static void find_other(struct step_tracer *k, struct step_thread *t)
{
	/* Of vfork, one that runs while its parent waits. */
	k->others |= !t->guest && t != k->looking;
}

static bool is_alone(struct step_tracer *k, struct step_thread *t)
{
	k->others = false;
	k->looking = t;
	if (k->nthreads > 1)
		step_threads_each(k, find_other);
	return !k->others;
}

void step_written_look(struct step_tracer *k, struct step_thread *t)
{
	const struct memory_view memory = step_state_memory(k);
	struct written w = { k, t, track_innermost(k->track, t->tid) };

	if (!k->shadow.nspans || k->shadow_off)
		return;
	if (!is_alone(k, t)) {
		k->shadow_off = true;
		step_report_note(k,
				 "the process has more than one thread: from now on, which call changes the "
				 "data of modules is not recorded");
		return;
	}
	step_shadow_look(&k->shadow, &memory, report_data, &w);
}

void step_written_keep(struct step_tracer *k, uint32_t point, uint64_t call)
{
	const struct memory_view memory = step_state_memory(k);

	if (!step_pointees_keep(&k->pointees, call, &k->plan[point]->entry, &k->fetched, &memory))
		step_report_failed(k, &wc_enomem);
}

static void report_pointee(void *ctx, const struct changed_pointee *c)
{
	const struct written *w = ctx;
	struct step_record r = { .kind = STEP_WRITTEN, .inside = w->call->call, .point = w->call->point };
	uint8_t bytes[CALL_POINTEE_MAX + RETURN_CHANGED_BYTES(CALL_POINTEE_MAX)];

	r.written = (struct step_written){ .fetch = c->fetch, .state = c->state, .len = c->len };
	memcpy(bytes, c->bytes, c->len);
	memcpy(bytes + c->len, c->changed, RETURN_CHANGED_BYTES(c->len));
	r.stack = bytes;
	r.stack_len = c->len + RETURN_CHANGED_BYTES(c->len);
	step_report_of(w->k, w->t, &r);
}

void step_written_end(struct step_tracer *k, struct step_thread *t, const struct track_call *call,
		      bool returned)
{
	const struct fetch_source source = { .memory = step_state_memory(k) };
	struct written w = { k, t, call };

	step_pointees_end(&k->pointees, call->call, returned ? &source : NULL, report_pointee, &w);
}
