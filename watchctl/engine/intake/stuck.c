#include "watchctl/engine/intake/stuck.h"

#include <string.h>

#include "watchctl/target/proc/proc.h"

#define RSEQ_SIGNATURE 0x53053053u /* as libc registers it: in front of where such code is started again */
#define RSEQ_EVERY 1024u	   /* so often it is looked for, in a thread that does nothing but hit */
#define RSEQ_FIRST 64u
#define STANDING_FIRST 64u
#define SYSCALL 0x050fu

/*
 * A signal inside a restartable sequence makes the kernel start that again, at the place that the signal's
 * frame then shows. Where the access is one of the sequence's own, it is made again, and again.
 */
static bool is_restart(pid_t pid, uint64_t pc)
{
	struct memory_view mem = proc_memory(&pid);
	uint32_t word = 0;

	return memory_read(&mem, pc - sizeof(word), &word, sizeof(word)) && word == RSEQ_SIGNATURE;
}

/* A thread that has just unblocked a signal, and does so again and again, is interrupted there each time. */
static bool is_after_call(pid_t pid, uint64_t pc)
{
	struct memory_view mem = proc_memory(&pid);
	uint16_t insn = 0;

	return memory_read(&mem, pc - sizeof(insn), &insn, sizeof(insn)) && insn == SYSCALL;
}

void stuck_look(struct stuck *s, pid_t pid, const struct wire_record *r)
{
	bool same_thread = r->tid == s->tid;
	bool same_place = same_thread && r->regs.r[WREG_RIP] == s->regs.r[WREG_RIP];
	bool same = same_place && !memcmp(&r->regs, &s->regs, sizeof(r->regs));

	s->in_a_row = same_place ? s->in_a_row + 1 : 0;
	/* It was raised inside of the handler, and comes as soon as that returns. */
	s->late_in_a_row = same && (r->flags & WIRE_ASYNC) ? s->late_in_a_row + 1 : 0;
	s->tid = r->tid;
	s->regs = r->regs;
	if (s->late_in_a_row % STANDING_FIRST == STANDING_FIRST - 1)
		s->standing |= !is_after_call(pid, r->regs.r[WREG_RIP]);
	if (s->in_a_row % RSEQ_EVERY == RSEQ_FIRST)
		s->restarting |= is_restart(pid, r->regs.r[WREG_RIP]);
}

const char *stuck_why(const struct stuck *s)
{
	if (s->restarting)
		return "makes the access inside a restartable sequence (rseq), which watchctl's signal restarts each "
		       "time, for ever";
	if (s->standing)
		return "has the watched bytes where the kernel writes signal frames for a thread, so that each signal "
		       "is the next hit, for ever";
	return NULL;
}
