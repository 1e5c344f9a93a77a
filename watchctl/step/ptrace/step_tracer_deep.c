/*
 * Calls below the limit of --depth. They are not reported, and a function that is called again and again down there
 * need not stop the thread: after some hits within one call at the limit its breakpoint is parked, which is to say taken
 * out until the thread comes back up.
 *
 * That must be seen, or calls further up would be missed. So nothing is parked unless the program has a single thread, and
 * all are put back with the first hit of another kind: the return of the call at the limit, which always has a
 * breakpoint, an end of the range, a library's announcement, a function that jumps out or to another stack; or with the
 * birth of a thread. Of those that jump nothing is known until they have landed, so that nothing is parked from there on
 * within that call. Exceptions may begin in code that is not recorded, and clean up further up before anything shows
 * them: of a program that refers to a function that unwinds, nothing is parked at all.
 */
#include "watchctl/base/vec.h"
#include "watchctl/step/ptrace/step_tracer.h"

#define HITS_MAX 64u /* of a breakpoint, within one call at the limit */

bool step_deep_unwinds(enum track_leaves leaves)
{
	return leaves == TRACK_THROWS || leaves == TRACK_FORCES || leaves == TRACK_RESUMES ||
	       leaves == TRACK_CATCHES;
}

static bool may_park(const struct step_tracer *k, const struct step_break *b, const struct track_call *in)
{
	return k->nthreads == 1 && !k->unwinds && !k->box->instructions && k->jumped_in != in->call &&
	       b->use == BREAK_FUNCTION && k->point[b->function].leaves == TRACK_NORMAL;
}

/* It goes anywhere: setjmp() alone does not. */
static bool leaves(const struct step_tracer *k, const struct step_break *b)
{
	return b->function != NO_POINT && k->point[b->function].leaves != TRACK_NORMAL &&
	       k->point[b->function].leaves != TRACK_SETS_JUMP;
}

bool step_deep_hit(struct step_tracer *k, const struct step_thread *t, uint32_t number)
{
	const struct track_call *in = track_innermost(k->track, t->tid);
	struct step_break *b = &k->brk[number];

	if (!k->box->depth || !in || in->depth + 1 < k->box->depth || t->user.rsp >= in->sp)
		return false;
	if (leaves(k, b)) {
		step_deep_restore(k);
		k->jumped_in = in->call;
		return true;
	}
	b->deep = b->deep_in == in->call ? b->deep + 1 : 1;
	b->deep_in = in->call;
	if (b->deep < HITS_MAX || !may_park(k, b, in) ||
	    !vec_push(k->parked, k->nparked, k->parked_cap, number))
		return true;
	b->deep = 0;
	b->parked = true;
	step_breaks_clear(k, number);
	return true;
}

void step_deep_restore(struct step_tracer *k)
{
	while (k->nparked) {
		uint32_t number = k->parked[--k->nparked];

		k->brk[number].parked = false;
		step_breaks_set(k, number);
	}
}
