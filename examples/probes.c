/*
 * probes - example probes for `watchctl patch`: what a program asks malloc for, what its hash table compares, and from
 * where it frees.
 *
 *	watchctl patch -p PID --at 'entry malloc' --call on_malloc probes.c
 *
 * watchctl-patch(1) says how the places are named. Nothing of this is linked with the program: watchctl compiles it, with
 * cc, when it is used.
 */
#include <watchctl/probe.h>

/* One number for each time: rdi holds the first argument of a function where it begins. */
PROBE(on_malloc)
{
	probe_value(p->regs->rdi);
}

/* A line: the address and the values of an instruction's operands, as at `lock cmpxchg *, *`. */
PROBE(on_cas)
{
	probe_log("cas at %p: %lx -> %lx", probe_address(p, 0), p->regs->rax, probe_operand(p, 1));
}

/* The stack of the thread, and a variable of the probes' own, which threads may change at the same time. */
PROBE(on_free)
{
	static uint64_t frees;

	if (!p->regs->rdi)
		return;
	probe_stack("free", __atomic_add_fetch(&frees, 1, __ATOMIC_RELAXED));
}
