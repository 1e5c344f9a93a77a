/*
 * main - what the kernel calls: tells our traps from the program's own, and passes the latter on
 * exactly as the kernel would have delivered them.
 */
#include "handler/handler.h"
#include "handler/sys.h"

/* Offsets in struct ucontext, x86-64 Linux, and what a signal frame is made of (arch/x86/kernel/signal.c). */
#define UC_STACK 16
#define UC_RSP 160
#define UC_FPSTATE 224
#define UC_SIGMASK 296
#define FRAME_SIZE 440u /* the restorer's address, struct ucontext, siginfo_t */
#define FXSAVE_SIZE 512u
#define FXSAVE_SOFTWARE 464u
#define XSAVE_MAGIC 0x46505853u
#define RED_ZONE 128u
#define SIGTRAP_NR 5
#define SIGTRAP_BIT (1ull << (SIGTRAP_NR - 1))
#define SIG_SETMASK_NR 2
#define HANDLER_DEFAULT 0
#define HANDLER_IGNORE 1
#define FLAG_ONSTACK 0x08000000ull
#define FLAG_NODEFER 0x40000000ull
#define FLAG_RESETHAND 0x80000000ull

extern char wire_control_page[] __attribute__((visibility("hidden")));

/* What entry.S has pushed, and takes back. */
struct delivery {
	uint64_t *frame; /* the handler's first word of stack: its return address; the ucontext is next */
	char *ucontext;
	const struct trap_info *info;
	uint64_t signo;
};

struct alternate_stack {
	uint64_t start;
	uint32_t flags, pad;
	uint64_t size;
};

uint64_t handler_main(struct delivery *d);

/* The program has no handler: let the kernel do to it, when we return, what it would have done. */
static void die_by_default(const struct trap_info *info)
{
	struct wire_sigaction action = { HANDLER_DEFAULT, 0, 0, 0 };

	sys4(NR_RT_SIGACTION, SIGTRAP_NR, &action, 0, 8);
	sys4(NR_RT_TGSIGQUEUEINFO, sys0(NR_GETPID), sys0(NR_GETTID), SIGTRAP_NR, info);
}

static void copy_bytes(void *to, const void *from, uint64_t n)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

static uint64_t fpstate_size(const char *fpstate)
{
	const uint32_t *software = (const uint32_t *)(fpstate + FXSAVE_SOFTWARE);

	return software[0] == XSAVE_MAGIC ? software[1] : FXSAVE_SIZE;
}

/*
 * We run on the alternate signal stack, where the thread has one: its own may have no room. A handler that
 * did not ask for that gets its frame where the kernel would have put it, below what the signal interrupted:
 * it may need more than the alternate stack has.
 */
static void leave_alternate_stack(struct delivery *d)
{
	const struct alternate_stack *alternate = (const void *)(d->ucontext + UC_STACK);
	uint64_t sp = *(const uint64_t *)(d->ucontext + UC_RSP);
	char **fpstate = (char **)(d->ucontext + UC_FPSTATE), *to;
	uint64_t size;

	if ((uint64_t)(uintptr_t)d->frame - alternate->start >= alternate->size ||
	    sp - alternate->start - 1 < alternate->size)
		return;
	to = (char *)(uintptr_t)(sp - RED_ZONE);
	if (*fpstate) {
		size = fpstate_size(*fpstate);
		to = (char *)(((uintptr_t)to - size) & ~63ul);
		copy_bytes(to, *fpstate, size);
		*fpstate = to;
	}
	to = (char *)(((uintptr_t)to - FRAME_SIZE) & ~15ul) - 8;
	copy_bytes(to, d->frame, FRAME_SIZE);
	d->info = (const void *)(to + ((const char *)d->info - (const char *)d->frame));
	d->ucontext = to + (d->ucontext - (char *)d->frame);
	d->frame = (uint64_t *)to;
}

/* Prepares a jump into the program's handler; returns its address, 0 when there is nothing to call. */
static uint64_t chain(struct wire_control *ctl, struct delivery *d)
{
	struct wire_sigaction old = ctl->old;
	uint64_t mask;

	if (old.handler == HANDLER_IGNORE && d->info->code <= 0)
		return 0;
	if (old.handler == HANDLER_DEFAULT || old.handler == HANDLER_IGNORE) {
		die_by_default(d->info);
		return 0;
	}
	if (old.flags & FLAG_RESETHAND)
		__atomic_store_n(&ctl->old.handler, HANDLER_DEFAULT, __ATOMIC_RELAXED);
	mask = *(const uint64_t *)(d->ucontext + UC_SIGMASK) | old.mask;
	if (!(old.flags & FLAG_NODEFER))
		mask |= SIGTRAP_BIT;
	if (!(old.flags & FLAG_ONSTACK))
		leave_alternate_stack(d);
	/* Its own way back: nothing of us stays on the stack while it runs, however long that is. */
	*d->frame = old.restorer;
	sys4(NR_RT_SIGPROCMASK, SIG_SETMASK_NR, &mask, 0, 8);
	return old.handler;
}

uint64_t handler_main(struct delivery *d)
{
	struct wire_control *ctl = (struct wire_control *)wire_control_page;
	int watch = handler_watch_of(ctl, d->info);

	if (watch < 0)
		return chain(ctl, d);
	handler_record(ctl, (unsigned int)watch, d->info, (const uint64_t *)(d->ucontext + UCONTEXT_GREGS));
	return 0;
}
