/* Threads that wait at a hook for what we arm: see handler/hold.c for their side. */
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "watchctl/engine/handler/handler_engine.h"

void handler_ask_behind(struct engine *e)
{
	if (e->hooks)
		injection_read(&e->inj, offsetof(struct wire_control, behind), &e->intake.behind,
			       sizeof(e->intake.behind));
}

void handler_report_done(struct engine *e)
{
	if (!e->hooks || e->intake.hook_hit || e->done == e->intake.ring.tail)
		return;
	e->done = e->intake.ring.tail;
	injection_write(&e->inj, offsetof(struct wire_control, done), &e->done, sizeof(e->done));
}

void handler_let_go(struct engine *e)
{
	if (!e->intake.hook_hit)
		return;
	e->intake.hook_hit = false;
	handler_report_done(e);
	if (e->inj.shared)
		syscall(SYS_futex, (char *)e->inj.shared + offsetof(struct wire_control, done), FUTEX_WAKE,
			INT32_MAX, NULL, NULL, 0);
}

void handler_begun(struct engine *e)
{
	const uint64_t patience = HOLD_NS;

	injection_write(&e->inj, offsetof(struct wire_control, patience_ns), &patience, sizeof(patience));
}

struct wc_error *handler_report_unheld(struct engine *e)
{
	uint32_t unheld = 0;

	injection_read(&e->inj, offsetof(struct wire_control, unheld), &unheld, sizeof(unheld));
	return unheld_report(&e->unheld, unheld, unheld_in_time, e->intake.sink);
}

/* The first, and at the end how many there were. */
struct wc_error *handler_report_roomless(struct engine *e, bool last)
{
	uint32_t n = (uint32_t)kernel_recorder_unheld(e->guard);

	if (e->roomless.reported && !last)
		return NULL;
	return unheld_report(
		&e->roomless, n,
		"no signal could be sent to it, because its stack may have no room for one (a coroutine's or an "
		"alternate stack) or because it was in a restartable sequence; --engine ptrace makes it wait there, "
		"too",
		e->intake.sink);
}
