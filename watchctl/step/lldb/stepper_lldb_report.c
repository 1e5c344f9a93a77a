#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/step/lldb/stepper_lldb_impl.h"

void stepper_reported_free(struct reported *t)
{
	if (!t)
		return;
	free(t->stack);
	free(t->why);
	free(t);
}

static bool stepper_lldb_report_keep(struct reported *t, const struct step_record *r)
{
	t->record = *r;
	if (r->call) {
		t->call = *r->call;
		t->record.call = &t->call;
	}
	if (r->fetched) {
		t->fetched = *r->fetched;
		t->record.fetched = &t->fetched;
	}
	if (r->stack) {
		t->stack = malloc(r->stack_len ? r->stack_len : 1);
		if (!t->stack)
			return false;
		memcpy(t->stack, r->stack, r->stack_len);
		t->record.stack = t->stack;
	}
	if (r->why) {
		t->why = strdup(r->why);
		t->record.why = t->why;
	}
	return !r->why || t->why;
}

struct wc_error *stepper_report(struct stepper *m, const struct step_record *r)
{
	struct reported *t = calloc(1, sizeof(*t));

	if (!t || !stepper_lldb_report_keep(t, r)) {
		stepper_reported_free(t);
		return &wc_enomem;
	}
	t->record.time_ns = monotonic_ns();
	if (!t->record.pid)
		t->record.pid = m->o.pid;
	m->last_ns = t->record.time_ns;
	m->counts.entries += r->kind == STEP_ENTRY;
	m->counts.returns += r->kind == STEP_RETURN;
	*m->last = t;
	m->last = &t->next;
	return NULL;
}

struct wc_error *stepper_report_thread(struct stepper *m, struct stepper_thread *t)
{
	struct step_record r = {
		.kind = STEP_THREAD, .tid = t->tid, .creator = t->creator, .creating_call = t->creating_call
	};

	if (t->reported)
		return NULL;
	t->reported = true;
	stepper_thread_bounds(m, t);
	r.stack_start = t->stack_start;
	r.stack_end = t->stack_end;
	r.regs = t->regs;
	if (t->stack_end && !track_set_stack(m->track, t->tid, t->stack_start, t->stack_end))
		return &wc_enomem;
	return stepper_report(m, &r);
}

struct wc_error *stepper_report_of(struct stepper *m, struct stepper_thread *t, struct step_record *r)
{
	struct wc_error *err = stepper_report_thread(m, t);

	r->tid = t->tid;
	return err ? err : stepper_report(m, r);
}

struct wc_error *stepper_note(struct stepper *m, const char *fmt, ...)
{
	struct step_record r = { .kind = STEP_NOTE };
	scoped(freep) char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0) {
		text = NULL;
		return &wc_enomem;
	}
	r.why = text;
	return stepper_report(m, &r);
}
