/*
 * main - what the kernel calls: distinguishes our traps from the program's own, and passes the latter on
 * exactly as the kernel would have delivered them.
 */
#include <stddef.h>

#include "handler/entry.h"
#include "handler/handler.h"
#include "handler/peek.h"
#include "handler/sys.h"

/* Offsets in struct ucontext, x86-64 Linux, and what a signal frame is made of (arch/x86/kernel/signal.c). */
#define UC_STACK 16
#define UC_RSP 160
#define UC_RIP 168
#define UC_EFLAGS 176
#define UC_FPSTATE 224
#define UC_SIGMASK 296
#define FRAME_UCONTEXT 8u
#define FRAME_SIZE 440u /* the restorer's address, struct ucontext, siginfo_t */
#define FXSAVE_SIZE 512u
#define FXSAVE_SOFTWARE 464u
#define XSAVE_MAGIC 0x46505853u
#define PAGE 4096u
#define SIGSEGV_NR 11
#define SIGTRAP_NR 5
#define SIGNAL_BIT(nr) (1ull << ((nr)-1))
#define SIG_BLOCK_NR 0
#define SIG_SETMASK_NR 2
#define EFLAGS_TF 0x100u
#define FIRST_PID 1 /* of a pid namespace: what is sent does nothing to it unless it has a handler */
#define HANDLER_DEFAULT 0
#define HANDLER_IGNORE 1
#define FLAG_ONSTACK 0x08000000ull
#define FLAG_NODEFER 0x40000000ull
#define FLAG_RESETHAND 0x80000000ull

_Static_assert(offsetof(struct wire_control, nwatches) == ENTRY_NWATCHES &&
		       offsetof(struct wire_control, watch) == ENTRY_WATCH &&
		       sizeof(struct wire_watch) == ENTRY_WATCH_SIZE && WIRE_WATCHES == ENTRY_WATCHES,
	       "what entry.S knows of wire.h");

extern char wire_control_page[] __attribute__((visibility("hidden")));

/* What entry.S has pushed, and takes back. */
struct delivery {
	uint64_t frame; /* the handler's first word of stack: its return address; the ucontext is next */
	char *ucontext;
	const struct trap_info *info;
	uint64_t signo;
};

/* What the kernel has brought: in the signal's frame, or a copy of it. */
struct arrival {
	struct delivery *d;
	const char *ucontext;
	const struct trap_info *info;
};

struct alternate_stack {
	uint64_t start;
	uint32_t flags, pad;
	uint64_t size;
};

/* The kernel's siginfo_t, of a signal that says nothing more. */
struct plain_info {
	int32_t signo, sys_errno, code, pad[29];
};

uint64_t handler_main(struct delivery *d);

static void set_default(uint64_t signo)
{
	struct wire_sigaction action = { HANDLER_DEFAULT, 0, 0, 0 };

	sys4(NR_RT_SIGACTION, signo, &action, 0, 8);
}

static void send_self(uint64_t signo, const void *info)
{
	sys4(NR_RT_TGSIGQUEUEINFO, sys0(NR_GETPID), sys0(NR_GETTID), signo, info);
}

static uint64_t word_at(const char *p)
{
	return *(const uint64_t *)p;
}

/*
 * The instruction that has raised it: int3, int1 (before rip, or at it: see wire_code_raises_trap()). 0: it was another
 * one, or none at all.
 */
static uint64_t raised_at(const struct arrival *a)
{
	uint64_t rip = word_at(a->ucontext + UC_RIP);
	uint8_t code[2] = { 0, 0 }, here = 0;

	if (!peek(sys0(NR_GETPID), rip - 1, &code[1], 1))
		return 0;
	if (a->info->code == TRAP_CODE_KERNEL && code[1] == 0x03 && peek(sys0(NR_GETPID), rip - 2, code, 1) &&
	    code[0] == 0xcd)
		return rip - 2;
	if (a->info->code == TRAP_CODE_BRKPT && code[1] != 0xf1)
		return peek(sys0(NR_GETPID), rip, &here, 1) && here == 0xf1 ? rip : 0;
	return (a->info->code == TRAP_CODE_KERNEL && code[1] == 0xcc) ||
			       (a->info->code == TRAP_CODE_BRKPT && code[1] == 0xf1)
		       ? rip - 1
		       : 0;
}

/*
 * The program has no handler: let the kernel do to it, when we return, what it would have done. What an
 * instruction raises is raised by force, and ends a process that no signal sent to it would: the first one of
 * a pid namespace. So the instruction is executed once more.
 */
static void die_by_default(const struct arrival *a)
{
	uint64_t rip = raised_at(a);

	set_default(SIGTRAP_NR);
	if (!rip || !poke(sys0(NR_GETPID), a->d->frame + FRAME_UCONTEXT + UC_RIP, &rip, sizeof(rip)))
		send_self(SIGTRAP_NR, a->info);
}

/* Sent by somebody, or by an event of perf's: such a signal can be ignored. */
static bool is_sent(const struct trap_info *info)
{
	return info->code <= 0 || info->code == TRAP_CODE_PERF;
}

/*
 * No room for the signal's frame on the program's stack: the kernel would have raised SIGSEGV in place of the
 * signal, by force.
 */
static void raise_segv(const struct arrival *a)
{
	struct plain_info info = { .signo = SIGSEGV_NR, .code = TRAP_CODE_KERNEL };
	uint64_t mask = word_at(a->ucontext + UC_SIGMASK), bit = SIGNAL_BIT(SIGSEGV_NR);
	struct wire_sigaction now = { HANDLER_DEFAULT, 0, 0, 0 };

	sys4(NR_RT_SIGACTION, SIGSEGV_NR, 0, &now, 8);
	if ((mask & bit) || now.handler == HANDLER_IGNORE)
		set_default(SIGSEGV_NR);
	mask &= ~bit;
	poke(sys0(NR_GETPID), a->d->frame + FRAME_UCONTEXT + UC_SIGMASK, &mask, sizeof(mask));
	send_self(SIGSEGV_NR, &info);
}

/* Bytes of extended state at @fpstate, in the program's stack. */
static uint64_t fpstate_size(uint64_t fpstate)
{
	uint32_t software[2];

	return peek(sys0(NR_GETPID), fpstate + FXSAVE_SOFTWARE, software, sizeof(software)) &&
			       software[0] == XSAVE_MAGIC
		       ? software[1]
		       : FXSAVE_SIZE;
}

/*
 * There is stack from @from up to @to: where it has to grow for that it does. The kernel writes a word to
 * each page, of what is written there next in any case.
 */
static bool make_room(uint64_t from, uint64_t to)
{
	uint64_t page = (to - 1) & ~(PAGE - 1ull);

	for (;; page -= PAGE) {
		uint64_t at = page > from ? page : from;

		if (sys4(NR_RT_SIGPROCMASK, SIG_BLOCK_NR, 0, at, 8))
			return false;
		if (at == from)
			return true;
	}
}

/*
 * We run on the alternate signal stack, where the thread has one: its own may have no room. A handler that
 * did not ask for that gets its frame where the kernel would have put it, below what the signal interrupted:
 * it may need more than the alternate stack has. False: there is no room.
 */
static bool leave_alternate_stack(const struct arrival *a)
{
	const struct alternate_stack *alternate = (const void *)(a->ucontext + UC_STACK);
	uint64_t sp = word_at(a->ucontext + UC_RSP), fpstate = word_at(a->ucontext + UC_FPSTATE);
	uint64_t to = sp - SIGNAL_RED_ZONE, state = 0, size = 0;
	struct delivery *d = a->d;
	long pid = sys0(NR_GETPID);

	if (d->frame - alternate->start >= alternate->size || sp - alternate->start - 1 < alternate->size)
		return true;
	if (fpstate) {
		size = fpstate_size(fpstate);
		state = to = (to - size) & ~63ull;
	}
	to = ((to - FRAME_SIZE) & ~15ull) - 8;
	if (!make_room(to, sp - SIGNAL_RED_ZONE) ||
	    (state && !poke(pid, state, (const void *)(uintptr_t)fpstate, size)) ||
	    !poke(pid, to, (const void *)(uintptr_t)d->frame, FRAME_SIZE) ||
	    !poke(pid, to + FRAME_UCONTEXT + UC_FPSTATE, &state, sizeof(state)))
		return false;
	d->info = (const void *)(uintptr_t)(to + ((uint64_t)(uintptr_t)d->info - d->frame));
	d->ucontext = (char *)(uintptr_t)(to + FRAME_UCONTEXT);
	d->frame = to;
	return true;
}

static uint64_t handler_of(const struct wire_control *ctl)
{
	return __atomic_load_n(&ctl->old.handler, __ATOMIC_RELAXED);
}

/* As if nobody had caught it. */
static uint64_t deliver_uncaught(const struct arrival *a, bool ignored)
{
	if (!is_sent(a->info) || !(ignored || sys0(NR_GETPID) == FIRST_PID))
		die_by_default(a);
	return 0;
}

/*
 * Prepares a jump into the program's handler; returns its address, 0 when there is nothing to call. That is
 * read last: it may be another watchctl's, of which no copy is to stay on a stack (watchctl/target/inject/kept.h).
 */
static __attribute__((noinline)) uint64_t chain(struct wire_control *ctl, const struct arrival *a)
{
	const uint64_t flags = ctl->old.flags, restorer = ctl->old.restorer;
	uint64_t mask = word_at(a->ucontext + UC_SIGMASK) | ctl->old.mask, handler;

	if (handler_of(ctl) == HANDLER_DEFAULT || handler_of(ctl) == HANDLER_IGNORE)
		return deliver_uncaught(a, handler_of(ctl) == HANDLER_IGNORE);
	if (!(flags & FLAG_NODEFER))
		mask |= SIGNAL_BIT(SIGTRAP_NR);
	if (!(flags & FLAG_ONSTACK) && !leave_alternate_stack(a)) {
		raise_segv(a);
		return 0;
	}
	/* Its own way back: nothing of us stays on the stack while it runs, however long that is. */
	poke(sys0(NR_GETPID), a->d->frame, &restorer, sizeof(restorer));
	sys4(NR_RT_SIGPROCMASK, SIG_SETMASK_NR, &mask, 0, 8);
	handler = flags & FLAG_RESETHAND
			  ? __atomic_exchange_n(&ctl->old.handler, HANDLER_DEFAULT, __ATOMIC_RELAXED)
			  : handler_of(ctl);
	if (handler == HANDLER_DEFAULT || handler == HANDLER_IGNORE) /* just now, by another thread */
		return deliver_uncaught(a, handler == HANDLER_IGNORE);
	return handler;
}

/* A hit of ours, then, of which nobody can say where: no program would survive it by default. */
static bool is_without_cause(const struct arrival *a)
{
	const uint64_t rip = word_at(a->ucontext + UC_RIP);
	uint8_t code[WIRE_TRAP_CODE];

	if (a->info->code != TRAP_CODE_BRKPT || a->info->addr != rip ||
	    (word_at(a->ucontext + UC_EFLAGS) & EFLAGS_TF) ||
	    !peek(sys0(NR_GETPID), rip - 2, code, sizeof(code)))
		return false;
	return !wire_code_raises_trap(code);
}

static uint64_t serve(struct wire_control *ctl, const struct arrival *a)
{
	int watch = handler_watch_of(ctl, a->info);

	if (watch < 0 && is_without_cause(a)) {
		__atomic_fetch_add(&ctl->causeless, 1, __ATOMIC_RELAXED);
		return 0;
	}
	if (watch < 0)
		return chain(ctl, a);
	handler_record(ctl, (unsigned int)watch, a->info, (const uint64_t *)(a->ucontext + UCONTEXT_GREGS),
		       a->d->frame);
	return 0;
}

/* Reads are watched where the kernel has put the signal's frame. */
static __attribute__((noinline)) uint64_t serve_by_copy(struct wire_control *ctl, struct delivery *d)
{
	char copy[FRAME_SIZE] __attribute__((aligned(16)));
	const struct arrival a = { d, copy + FRAME_UCONTEXT,
				   (const void *)(copy + ((uint64_t)(uintptr_t)d->info - d->frame)) };

	if (!peek(sys0(NR_GETPID), d->frame, copy, sizeof(copy)))
		return 0;
	return serve(ctl, &a);
}

uint64_t handler_main(struct delivery *d)
{
	struct wire_control *ctl = (struct wire_control *)wire_control_page;
	const struct arrival a = { d, d->ucontext, d->info };

	return is_read_watched(ctl, d->frame, FRAME_SIZE) ? serve_by_copy(ctl, d) : serve(ctl, &a);
}
