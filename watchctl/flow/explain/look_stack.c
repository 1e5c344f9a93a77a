/*
 * The stack of a thread that sleeps is walked over its memory as it lies there: it changes nothing while it sleeps. Registers
 * come from the kernel (kernel_tasks); where they cannot, and of a thread that runs, by a stop of some microseconds.
 */
#include <stdlib.h>
#include <string.h>

#include "watchctl/code/symbols/bare_name.h"
#include "watchctl/code/unwind/cfi.h"
#include "watchctl/flow/explain/look.h"
#include "watchctl/flow/explain/look_impl.h"
#include "watchctl/target/stop/tracee.h"
#include "watchctl/target/stop/user_regs.h"

#define STOP_MS 50
#define NAME_MAX_LEN 512

void look_forget_stack(struct look_thread *t)
{
	for (unsigned int i = 0; i < t->nframes; i++)
		free(t->frame[i].function);
	free(t->frame);
	t->frame = NULL;
	t->nframes = 0;
}

/* A call with a time limit would be resumed by restart_syscall: such a thread, and one that another tracer has, is left alone. */
static bool stop_for_regs(struct look_thread *t)
{
	struct tracee v;

	if (t->state == 'T' || t->state == 't' || t->state == 'Z' || t->state == 'D')
		return false;
	if (tracee_stop(t->pid, t->tid, STOP_MS, &v) != TRACEE_STOPPED)
		return false;
	t->stopped = true;
	user_regs_read(&v.home, &t->regs);
	t->has_regs = true;
	tracee_release(&v);
	return true;
}

static bool is_signal_frame(struct look_process *p, uint64_t pc)
{
	struct unwind_rule rule;

	cfi_rule(p->cfi, pc, &rule);
	return rule.kind == UNWIND_SIGFRAME;
}

static void name_frame(struct look_process *p, struct look_frame *f, uint64_t looked_up)
{
	char bare[NAME_MAX_LEN];
	const char *name;

	f->at = symbolizer_lookup(p->symbolizer, looked_up);
	name = f->at->frame[f->at->nframes - 1].function;
	if (name)
		f->function = strdup(bare_name(name, bare, sizeof(bare)));
}

/* A return address is named by the byte before it, but not where a signal handler returns to, nor where it interrupted. */
static void name_frames(struct look_process *p, struct look_thread *t, const uint64_t *frame, unsigned int n)
{
	bool exact = true;

	t->frame = calloc(n, sizeof(*t->frame));
	if (!t->frame)
		return;
	t->nframes = n;
	for (unsigned int i = 0; i < n; i++) {
		struct look_frame *f = &t->frame[i];

		f->ip = frame[i];
		f->signal = is_signal_frame(p, frame[i]);
		name_frame(p, f, exact || f->signal ? frame[i] : frame[i] - 1);
		exact = f->signal;
	}
}

void look_stack(struct look *l, struct look_process *p, struct look_thread *t)
{
	uint64_t frame[LOOK_FRAMES];

	if (t->walked)
		return;
	t->walked = true;
	t->end = WALK_END_UNREADABLE;
	if (t->state == 'Z' || t->state == 'X' || t->is_32bit || !look_open(l, p))
		return;
	if (!t->has_regs && !stop_for_regs(t))
		return;
	name_frames(p, t, frame, cfi_walk(p->cfi, &t->regs, &p->mem, frame, LOOK_FRAMES, &t->end));
}

const char *look_function(const struct look_thread *t, unsigned int i)
{
	return i < t->nframes ? t->frame[i].function : NULL;
}

const char *look_module(const struct look_thread *t, unsigned int i)
{
	const char *path = i < t->nframes ? t->frame[i].at->module : NULL;
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path;
}
