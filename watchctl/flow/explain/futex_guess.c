#include "watchctl/flow/explain/futex_guess.h"

#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/code/symbols/symbolizer.h"
#include "watchctl/flow/explain/futex_owner.h"
#include "watchctl/flow/explain/live_stack.h"

#define SAVED_REGISTERS 6u /* rbx, rbp, r12 to r15 */
#define PYTHON_FRAMES \
	8u /* outside the C library, between it and the code that asks for the interpreter lock */

/* glibc up to 2.40, and since: where the words that are waited at lie in a pthread_cond_t. */
static const uint64_t signals_offset[] = { 40, 32 };

void futex_guess_by_address(struct futex_call *f, uint64_t addr, uint64_t len)
{
	for (size_t i = 0; i < f->p->nthreads; i++) {
		struct look_thread *q = f->p->thread[i];

		if (q != f->t && !futex_waits_in(q, addr, len) && live_stack_holds(f->p, q, addr, 0))
			wait_add(f->ret, f->p->pid, q->tid, true, "its stack holds the lock's address");
	}
}

static bool other_waits_to_write(struct futex_call *f, uint64_t base, uint64_t len)
{
	for (size_t i = 0; i < f->p->nthreads; i++) {
		struct look_thread *q = f->p->thread[i];
		struct futex_site site;

		if (q == f->t || !futex_waits_in(q, base, len))
			continue;
		futex_site_find(f->l, f->p, q, &site);
		if (site.role == FUTEX_WRLOCK)
			return true;
	}
	return false;
}

/*
 * The frame of the caller may hold the argument of this call. At its outer end are the registers that it saved: those are
 * the functions' further out, but without optimisation a local variable lies there.
 */
static const char *why_itself(struct futex_call *f, uint64_t base)
{
	scoped(live_stack_freep) struct live_stack *s = live_stack_read(f->p, f->t);
	size_t inner = s ? live_stack_frame(s, f->t, f->site.end) : 0;
	size_t outer = s ? live_stack_frame(s, f->t, f->site.end + 1) : 0;
	size_t saved = outer > inner + SAVED_REGISTERS ? outer - SAVED_REGISTERS : inner;

	if (!s || outer == s->n)
		return NULL;
	if (live_stack_find(s, outer, base) < s->n)
		return "its stack outside this call holds the lock's address, too";
	if (!f->ret->n && live_stack_find(s, saved, base) < s->n)
		return "its caller saved the lock's address, and no other thread's stack holds it";
	return NULL;
}

void futex_guess_itself_reads(struct futex_call *f, uint64_t base, uint64_t len)
{
	const char *why;

	if (f->site.role == FUTEX_RDLOCK && !other_waits_to_write(f, base, len))
		return;
	why = why_itself(f, base);
	if (why)
		wait_add(f->ret, f->p->pid, f->t->tid, true, why);
}

/* Frames @i of @a and @j of @b are of one function. */
static bool same_function(const struct look_thread *a, unsigned int i, const struct look_thread *b,
			  unsigned int j)
{
	const char *x = i < a->nframes ? look_function(a, i) : NULL;
	const char *y = j < b->nframes ? look_function(b, j) : NULL;

	return x && y && !strcmp(x, y);
}

/* A frame of @q from @from on is pthread_once(), or the function in frame @of of @f that has the static variable. */
static bool is_initialising(struct futex_call *f, const struct look_thread *q, unsigned int from,
			    unsigned int of)
{
	for (unsigned int i = from; i < q->nframes; i++)
		if (f->site.role == FUTEX_ONCE ? futex_frame_has_role(q, i, FUTEX_ONCE)
					       : same_function(q, i, f->t, of))
			return true;
	return false;
}

static void guess_itself_initialises(struct futex_call *f, uint64_t addr, unsigned int of)
{
	if (f->site.role != FUTEX_ONCE) {
		if (is_initialising(f, f->t, of + 1, of))
			wait_add(f->ret, f->p->pid, f->t->tid, true,
				 "it is in the function that initialises it already");
	} else if (is_initialising(f, f->t, f->site.end, of) &&
		   live_stack_holds(f->p, f->t, addr, f->site.end + 1)) {
		wait_add(f->ret, f->p->pid, f->t->tid, true, "it is in pthread_once for it already");
	}
}

void futex_guess_initialiser(struct futex_call *f, uint64_t addr)
{
	static const char *const guard[] = { "__cxa_guard_acquire", NULL };
	unsigned int of = futex_frame_find(f->t, 0, f->t->nframes, guard) + 1;

	guess_itself_initialises(f, addr, of);
	for (size_t i = 0; i < f->p->nthreads; i++) {
		struct look_thread *q = f->p->thread[i];

		if (q == f->t || futex_waits_in(q, addr, 4))
			continue;
		look_stack(f->l, f->p, q);
		if (is_initialising(f, q, 0, of))
			wait_add(f->ret, f->p->pid, q->tid, true,
				 "it is in the function that initialises it");
		else if (live_stack_holds(f->p, q, addr, 0))
			wait_add(f->ret, f->p->pid, q->tid, true, "its stack holds the address");
	}
}

size_t futex_guess_in_malloc(struct futex_call *f)
{
	size_t n = 0;

	for (size_t i = 0; i < f->p->nthreads; i++) {
		struct look_thread *q = f->p->thread[i];

		if (q == f->t || futex_waits_in(q, f->uaddr, 4))
			continue;
		look_stack(f->l, f->p, q);
		for (unsigned int k = 0; k < q->nframes; k++)
			if (futex_frame_has_role(q, k, FUTEX_MALLOC)) {
				n++;
				wait_add(f->ret, f->p->pid, q->tid, true, "it is in malloc, or in free");
				break;
			}
	}
	return n;
}

bool futex_waits_for_python(const struct look_process *p, const struct look_thread *t,
			    const struct futex_site *site)
{
	static const char *const parts[] = {
		"take_gil",	      "PyEval_RestoreThread", "PyEval_AcquireThread",
		"PyEval_AcquireLock", "PyGILState_Ensure",    NULL
	};
	char name[64];

	if (futex_frame_find(t, site->end, site->end + PYTHON_FRAMES, parts) < t->nframes)
		return true;
	return site->role == FUTEX_CONDITION && t->arg[3] && p->symbolizer &&
	       symbolizer_data_name(p->symbolizer, t->arg[0], name, sizeof(name)) &&
	       !strncmp(name, "_PyRuntime", strlen("_PyRuntime"));
}

static bool runs_python(struct futex_call *f, struct look_thread *q)
{
	static const char *const parts[] = { "_PyEval_EvalFrame", NULL };
	struct futex_site site;

	if (q == f->t)
		return false;
	futex_site_find(f->l, f->p, q, &site);
	return !(q->in_syscall && futex_waits_for_python(f->p, q, &site)) &&
	       futex_frame_find(q, 0, q->nframes, parts) < q->nframes;
}

/* Threads in a blocking call have given the lock up: one that runs goes before all that sleep. */
void futex_guess_python(struct futex_call *f)
{
	struct look_thread *any = NULL, *running = NULL;
	size_t nany = 0, nrunning = 0;

	for (size_t i = 0; i < f->p->nthreads; i++) {
		struct look_thread *q = f->p->thread[i];

		if (!runs_python(f, q))
			continue;
		any = q;
		nany++;
		if (q->state == 'R') {
			running = q;
			nrunning++;
		}
	}
	if (nany == 1)
		wait_add(f->ret, f->p->pid, any->tid, true,
			 "it alone is in Python code and does not wait for that lock");
	else if (nrunning == 1)
		wait_add(f->ret, f->p->pid, running->tid, true, "it alone runs, in Python code");
}

static bool is_condition_at(struct futex_call *f, uint64_t cond)
{
	uint64_t signals = f->uaddr & ~7ull;

	for (size_t i = 0; i < sizeof(signals_offset) / sizeof(*signals_offset); i++)
		if (cond == signals - signals_offset[i])
			return true;
	return false;
}

/*
 * glibc's struct _condvar_cleanup_buffer { uint64_t wseq; pthread_cond_t *cond; pthread_mutex_t *mutex; int private; } lies in
 * the frame of pthread_cond_wait(): two words one after the other, of which the first is a known distance from uaddr and the
 * second points to a mutex.
 */
bool futex_guess_condition(struct futex_call *f, uint64_t *cond, uint64_t *mutex)
{
	scoped(live_stack_freep) struct live_stack *s = live_stack_read(f->p, f->t);
	size_t end = s ? live_stack_frame(s, f->t, f->site.end) : 0;
	struct glibc_mutex m;

	for (size_t i = 0; i + 1 < end; i++) {
		if (!is_condition_at(f, s->word[i]) || s->word[i + 1] == s->word[i])
			continue;
		if (s->word[i + 1] % 8 || !glibc_mutex_read(&f->p->mem, s->word[i + 1], &m))
			continue;
		*cond = s->word[i];
		*mutex = s->word[i + 1];
		return true;
	}
	return false;
}
