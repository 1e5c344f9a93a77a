/*
 * scratch - memory of the target that is certainly unused, for the time before we have mapped any.
 *
 * The first signal frame in a process needs memory that stays valid if we are killed. Only a stack is
 * suitable, because bytes left there have no meaning. But memory below a stack pointer is not always free:
 * the small stack of a goroutine or a coroutine is inside the program's heap.
 *
 *	scratch +0		a mark: who uses it, what was written
 *		+SCRATCH_DATA	32 bytes for what a system call takes
 *		+SCRATCH_FRAME	a signal frame, with the words that lead to it directly below
 *		behind it	a detour on the way there, if one is wanted: the same for another frame
 */
#ifndef WATCHCTL_TARGET_INJECT_SCRATCH_H
#define WATCHCTL_TARGET_INJECT_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/target/proc/layout.h"
#include "watchctl/target/stop/tracee.h"

#define SCRATCH_SIZE 0x4000u
#define SCRATCH_DATA 0x40u
#define SCRATCH_FRAME 0x80u

/*
 * Finds a piece for the stopped thread @t: SCRATCH_SIZE bytes from *ret (64-byte aligned) on. @l: of its
 * process, and current. False: none is certainly free at this moment. Then *ret_away, if not 0, is a thread
 * that a watchctl had led away when it was killed, and that is not home yet, or cannot be seen to be: what it
 * comes through must stay as it is, and what it does may still be to come. Stopped, that thread itself shows.
 */
bool scratch_find(const struct tracee *t, const struct layout *l, uint64_t *ret, pid_t *ret_away);

/*
 * Writes the thread's frame, which was built for @at + SCRATCH_FRAME, and the @n words below it (at most 4).
 * And @detour (NULL: none), TRACEE_DETOUR_FRAME bytes, to scratch_detour(), with the same words below it.
 * From here on the piece is taken: give it back. False: it cannot be written to, or another watchctl has just
 * taken it.
 */
bool scratch_write(const struct tracee *t, uint64_t at, const uint64_t *word, unsigned int n,
		   const uint8_t *detour);

static inline uint64_t scratch_detour(const struct tracee *t, uint64_t at)
{
	return at + SCRATCH_FRAME + ((t->frame_len + 63) & ~63ull) + 64;
}

/* Clears it. The thread must be home. */
void scratch_give_back(const struct tracee *t, uint64_t at);

/* The end of the pieces that bear our mark, of those at the lowest end of the main stack, which begins at
 * @start. */
uint64_t scratch_end(pid_t pid, uint64_t start);

#endif
