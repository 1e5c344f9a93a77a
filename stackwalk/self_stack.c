/*
 * A walk must not fault, whatever it finds in a smashed stack, and a guard page, a stack's end or a hole may
 * lie anywhere. So it only reads where it knows that something is mapped.
 *
 * Asking costs a system call for each page: rt_sigprocmask with a `how` that does not exist copies the new
 * set first, so that EFAULT says that the address cannot be read, EINVAL that it can. Nothing is changed, and
 * every sandbox allows it. (An answer of any other kind counts as unreadable.)
 *
 * For the stack that the thread was given this is done once. Such a stack ends at a place that is known: the
 * C libraries put the thread's control block, where %fs:0 points, at the upper end of what they map for its
 * stack, and below it comes nothing but the stack, down to a guard page; the kernel puts the random bytes of
 * AT_RANDOM above the main thread's stack, and keeps a gap below. When every page from the thread's rsp up to
 * there can be read, this is the stack, and as long as the thread lives nobody unmaps what lies between its
 * rsp and its start. Walks rely on no more than that: they begin at their own rsp and read upwards. When a
 * later walk begins further down, the pages in between are asked for.
 *
 * Which of the two ends a thread has: the main thread is the one whose thread id is the process's. A thread
 * that forked is the main thread of the child, on a stack of the other kind: what it knew it still knows (the
 * thread's variables are copied); what it did not, it will not learn, and its stack is treated as the next.
 *
 * Any other stack - sigaltstack, coroutines, fibers - may be unmapped by its owner at any time; its pages are
 * asked for anew in each walk. Where it begins nobody says, and pages that follow each other without a gap
 * may reach from it up to the thread's end by chance. A guard page below the thread's stack, or the kernel's
 * gap, prevents that. Without either (pthread_attr_setguardsize(0), or a stack that the program supplied) it
 * takes three more things to go wrong: a coroutine's stack directly below the thread's, pages between the two
 * that are unmapped afterwards, and a walk of that coroutine which runs past its stack's end.
 *
 * Between a question and the read another thread may unmap the page: not one that is in use as a stack, but
 * one that a smashed pointer happens to name.
 */
#include "stackwalk/self_stack.h"

#include <errno.h>
#include <sys/auxv.h>

#include "watchctl/base/raw_call.h"

/* Stacks that are larger than this at their first walk, or grow by more between two, count as foreign. */
#define OWN_MAX (64ull << 20)
/* How far a foreign stack is followed upwards in one step. */
#define STEP_MAX (64u << 10)

_Thread_local struct self_own_stack self_own_stack;

static uint64_t main_anchor; /* 0: not known */

void self_stack_setup(void)
{
	__atomic_store_n(&main_anchor, getauxval(AT_RANDOM), __ATOMIC_RELAXED);
}

bool self_readable(uint64_t addr)
{
	return raw_call6(SYS_rt_sigprocmask, -1, (long)addr, 0, 8, 0, 0) == -EINVAL;
}

static uint64_t page_of(uint64_t addr)
{
	return addr & ~(uint64_t)(SELF_PAGE - 1);
}

/* Where the stack that the thread was given must end, for the thread that runs here; 0: not known. */
static uint64_t own_anchor(void)
{
	uint64_t thread;

	if (raw_call6(SYS_gettid, 0, 0, 0, 0, 0, 0) == raw_call6(SYS_getpid, 0, 0, 0, 0, 0, 0))
		return __atomic_load_n(&main_anchor, __ATOMIC_RELAXED);
	__asm__("mov %%fs:0, %0" : "=r"(thread));
	return thread;
}

/* True when all pages from that of @from to that before @to can be read; *@failed is the first that cannot.
 */
static bool pages_readable(uint64_t from, uint64_t to, uint64_t *failed)
{
	uint64_t page;

	for (page = page_of(from); page < to; page += SELF_PAGE) {
		if (!self_readable(page)) {
			*failed = page;
			return false;
		}
	}
	return true;
}

/*
 * Makes @sp a part of the thread's own stack, if it is. A signal handler may come in between and do the same:
 * what is known must be true after each store, and `end` is what shows whether anything is.
 */
static bool extend_own(uint64_t sp)
{
	struct self_own_stack *own = &self_own_stack;
	bool known = own->end != 0;
	uint64_t to, failed;

	if (sp >= own->other_start && sp < own->other_end)
		return false;
	to = known ? own->start : own_anchor();
	if (sp >= to || to - sp > OWN_MAX)
		return false;
	to = known ? to : page_of(to) + SELF_PAGE;
	if (!pages_readable(sp, to, &failed)) {
		own->other_end = 0;
		__asm__ volatile("" ::: "memory");
		own->other_start = page_of(sp);
		__asm__ volatile("" ::: "memory");
		own->other_end = failed;
		return false;
	}
	own->start = page_of(sp);
	__asm__ volatile("" ::: "memory");
	if (!known)
		own->end = to;
	return true;
}

void self_stack_at(uint64_t sp, struct self_stack *ret)
{
	struct self_own_stack *own = &self_own_stack;

	*ret = (struct self_stack){ sp, sp, false };
	if ((sp >= own->start && sp < own->end) || extend_own(sp)) {
		ret->end = own->end;
		ret->own = true;
	} else if (self_readable(page_of(sp))) {
		ret->end = page_of(sp) + SELF_PAGE;
	}
}

bool self_stack_reaches(struct self_stack *s, uint64_t end)
{
	if (end <= s->end)
		return true;
	if (s->own || s->start == s->end || end - s->end > STEP_MAX)
		return false;
	while (s->end < end) {
		if (!self_readable(s->end))
			return false;
		s->end += SELF_PAGE;
	}
	return true;
}
