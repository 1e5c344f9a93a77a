/*
 * main - what the kernel calls: tells our traps from the program's own, and passes the latter on
 * exactly as the kernel would have delivered them.
 */
#include "handler/handler.h"
#include "handler/sys.h"

#define UC_SIGMASK 296 /* offset of uc_sigmask in struct ucontext, x86-64 Linux */
#define SIGTRAP_NR 5
#define SIGTRAP_BIT (1ull << (SIGTRAP_NR - 1))
#define SIG_SETMASK_NR 2
#define HANDLER_DEFAULT 0
#define HANDLER_IGNORE 1
#define FLAG_NODEFER 0x40000000ull
#define FLAG_RESETHAND 0x80000000ull

extern char wire_control_page[] __attribute__((visibility("hidden")));

uint64_t handler_main(const struct trap_info *info, char *ucontext, uint64_t *return_address);

/* The program has no handler: let the kernel do to it, when we return, what it would have done. */
static void die_by_default(const struct trap_info *info)
{
	struct wire_sigaction action = { HANDLER_DEFAULT, 0, 0, 0 };

	sys4(NR_RT_SIGACTION, SIGTRAP_NR, &action, 0, 8);
	sys4(NR_RT_TGSIGQUEUEINFO, sys0(NR_GETPID), sys0(NR_GETTID), SIGTRAP_NR, info);
}

/* Prepares a jump into the program's handler; returns its address, 0 when there is nothing to call. */
static uint64_t chain(struct wire_control *ctl, const struct trap_info *info, const char *ucontext,
		      uint64_t *return_address)
{
	struct wire_sigaction old = ctl->old;
	uint64_t mask;

	if (old.handler == HANDLER_IGNORE && info->code <= 0)
		return 0;
	if (old.handler == HANDLER_DEFAULT || old.handler == HANDLER_IGNORE) {
		die_by_default(info);
		return 0;
	}
	if (old.flags & FLAG_RESETHAND)
		__atomic_store_n(&ctl->old.handler, HANDLER_DEFAULT, __ATOMIC_RELAXED);
	mask = *(const uint64_t *)(ucontext + UC_SIGMASK) | old.mask;
	if (!(old.flags & FLAG_NODEFER))
		mask |= SIGTRAP_BIT;
	/* Its own way back: nothing of us stays on the stack while it runs, however long that is. */
	*return_address = old.restorer;
	sys4(NR_RT_SIGPROCMASK, SIG_SETMASK_NR, &mask, 0, 8);
	return old.handler;
}

uint64_t handler_main(const struct trap_info *info, char *ucontext, uint64_t *return_address)
{
	struct wire_control *ctl = (struct wire_control *)wire_control_page;
	int watch = handler_watch_of(ctl, info);

	if (watch < 0)
		return chain(ctl, info, ucontext, return_address);
	handler_record(ctl, (unsigned int)watch, info, (const uint64_t *)(ucontext + UCONTEXT_GREGS));
	return 0;
}
