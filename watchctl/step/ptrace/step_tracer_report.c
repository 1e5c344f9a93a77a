#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "watchctl/base/clock.h"
#include "watchctl/step/ptrace/step_tracer.h"
#include "watchctl/step/ptrace/step_ring.h"

#define FULL_ENOUGH \
	(STEP_RING_SIZE / 8) /* the owner is woken up then; else it looks by itself, often enough */

void step_report_wake(const struct step_tracer *k)
{
	uint32_t *wake = &k->box->wake;

	if (!__atomic_exchange_n(wake, 1, __ATOMIC_ACQ_REL))
		syscall(SYS_futex, wake, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/*
 * The owner makes room, but not while it waits for us to carry out a command: what is to be reported then is kept
 * aside. It is little.
 */
static struct wire_step *keep_aside(struct step_tracer *k, uint32_t size)
{
	struct late_record *late = malloc(sizeof(*late) + size);

	if (!late)
		return NULL;
	late->next = NULL;
	*k->late_end = late;
	k->late_end = &late->next;
	return (struct wire_step *)late->bytes;
}

static bool owner_waits(const struct step_tracer *k)
{
	return k->working || __atomic_load_n(&k->box->asked, __ATOMIC_ACQUIRE) != k->taken;
}

static struct wire_step *wait_for_room(struct step_tracer *k, uint32_t size, uint64_t *at)
{
	struct wire_step *w;

	while (!(w = step_ring_room(k->box, size, at))) {
		if (owner_waits(k) || step_tracer_is_orphan(k))
			return NULL;
		step_report_wake(k);
		step_tracer_nap();
	}
	return w;
}

void step_report_late(struct step_tracer *k)
{
	while (k->late) {
		struct late_record *late = k->late;
		uint32_t size = ((const struct wire_step *)late->bytes)->size;
		uint64_t at;
		struct wire_step *w = step_ring_room(k->box, size, &at);

		if (!w)
			return;
		memcpy(w, late->bytes, size);
		step_ring_commit(k->box, at, size);
		k->late = late->next;
		if (!k->late)
			k->late_end = &k->late;
		free(late);
		step_report_wake(k);
	}
}

static bool is_urgent(enum step_kind kind)
{
	switch (kind) {
	case STEP_NEED_PLAN:
	case STEP_MODULES:
	case STEP_EXEC:
	case STEP_EXIT:
	case STEP_DONE:
		return true;
	default:
		return false;
	}
}

bool step_report_failed(struct step_tracer *k, struct wc_error *err)
{
	if (!err)
		return false;
	step_report_note(k, "%s: calls were not recorded", err->text);
	wc_error_free(err);
	k->box->counts.lost++;
	return true;
}

static void step_tracer_report_count(struct step_tracer *k, const struct step_record *r)
{
	k->box->counts.entries += r->kind == STEP_ENTRY;
	k->box->counts.returns += r->kind == STEP_RETURN;
}

void step_report(struct step_tracer *k, struct step_record *r)
{
	uint32_t size = step_wire_size(r);
	struct wire_step *w = NULL;
	uint64_t at = 0;

	if (!r->time_ns)
		r->time_ns = monotonic_ns();
	if (!r->pid)
		r->pid = k->pid;
	k->last_ns = r->time_ns;
	if (k->late && !owner_waits(k))
		step_report_late(k);
	if (!k->late)
		w = wait_for_room(k, size, &at);
	if (w) {
		step_wire_put(w, r);
		step_ring_commit(k->box, at, size);
	} else {
		w = step_tracer_is_orphan(k) ? NULL : keep_aside(k, size);
		if (!w) {
			k->box->counts.lost++;
			return;
		}
		step_wire_put(w, r);
	}
	step_tracer_report_count(k, r);
	if (is_urgent(r->kind) || k->box->head - k->box->tail > FULL_ENOUGH)
		step_report_wake(k);
}

void step_report_note(struct step_tracer *k, const char *fmt, ...)
{
	struct step_record r = { .kind = STEP_NOTE };
	char text[STEP_BOX_TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	r.why = text;
	step_report(k, &r);
}

void step_report_thread(struct step_tracer *k, struct step_thread *t)
{
	struct step_record r = { .kind = STEP_THREAD, .pid = t->pid, .tid = t->tid, .creator = t->creator };

	t->reported = true;
	r.creating_call = t->creating_call;
	if (t->has_regs) {
		step_state_stack(k, t->user.rsp, &r.stack_start, &r.stack_end);
		step_state_regs(t, &r.regs);
	}
	if (r.stack_end)
		track_set_stack(k->track, t->tid, r.stack_start, r.stack_end);
	step_report(k, &r);
}

void step_report_of(struct step_tracer *k, struct step_thread *t, struct step_record *r)
{
	if (!t->reported)
		step_report_thread(k, t);
	r->pid = t->pid;
	r->tid = t->tid;
	step_report(k, r);
}
