#include <string.h>

#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/step/lldb/stepper_lldb_impl.h"

#define TURN_STEPS 500u	   /* of instructions, until threads that are not stepped run for a while */
#define TURN_NS 5000000ull /* so long */

static struct wc_error *leave_home(struct stepper *m, struct stepper_thread *t)
{
	struct place *p = t->home ? stepper_place(m, t->home) : NULL;

	if (!t->home)
		return NULL;
	t->home = t->home_sp = 0;
	if (!p)
		return &wc_enomem;
	p->homes--;
	return stepper_place_sync(m, p);
}

struct wc_error *stepper_insn_run_to(struct stepper *m, struct stepper_thread *t, uint64_t home, uint64_t sp)
{
	struct wc_error *err = leave_home(m, t);
	struct place *p = stepper_place(m, home);

	if (err || !p)
		return err ? err : &wc_enomem;
	t->stepping = false;
	t->home = home;
	t->home_sp = sp;
	p->homes++;
	return stepper_place_sync(m, p);
}

/* It may wait in the kernel for a thread that must run meanwhile. */
static bool is_system_call(struct stepper *m, uint64_t pc)
{
	static const uint8_t syscall[2] = { 0x0f, 0x05 };
	uint8_t code[2];

	return stepper_read(m, pc, code, sizeof(code)) && !memcmp(code, syscall, sizeof(code));
}

/* Recorded code is left: by a call, which comes back, or in another way. */
static struct wc_error *leave_code(struct stepper *m, struct stepper_thread *t)
{
	uint64_t back;

	t->stepping = false;
	if (stepper_read(m, t->sp, &back, sizeof(back)) && stepper_is_code(m, back))
		return stepper_insn_run_to(m, t, back, t->sp + sizeof(back));
	return NULL;
}

/* It is on its way home, and not there yet. */
static bool is_away(const struct stepper_thread *t)
{
	return t->home && !(t->pc == t->home && t->sp >= t->home_sp);
}

struct wc_error *stepper_insn(struct stepper *m, struct stepper_thread *t)
{
	const struct track_call *in = track_innermost(m->track, t->tid);
	struct step_record r = { .kind = STEP_INSN, .inside = in ? in->call : 0 };
	struct wc_error *err = NULL;

	if (!is_away(t))
		err = leave_home(m, t);
	if (err || !m->recording || !t->recorded || !in || in->over) {
		t->stepping = false;
		return err;
	}
	if (!stepper_is_code(m, t->pc))
		return t->stepping ? leave_code(m, t) : NULL;
	if (!stepper_thread_load(m, t))
		return NULL;
	r.regs = t->regs;
	err = stepper_report_of(m, t, &r);
	t->stepping = true;
	if (!err && is_system_call(m, t->pc))
		err = stepper_insn_run_to(m, t, t->pc + 2, t->sp);
	return err;
}

static bool others_wait(const struct stepper *m)
{
	size_t i;

	for (i = 0; i < m->nthreads; i++)
		if (!m->thread[i]->stepping)
			return true;
	return false;
}

struct stepper_thread *stepper_insn_next(struct stepper *m)
{
	size_t i;

	if (m->steps >= TURN_STEPS && others_wait(m)) {
		m->steps = 0;
		m->lending = true;
		m->lend_until = monotonic_ns() + TURN_NS;
		return NULL;
	}
	for (i = 0; i < m->nthreads; i++) {
		size_t k = (m->turn + 1 + i) % m->nthreads;

		if (!m->thread[k]->stepping)
			continue;
		m->turn = k;
		m->steps++;
		return m->thread[k];
	}
	return NULL;
}
