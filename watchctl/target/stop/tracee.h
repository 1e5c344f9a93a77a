/*
 * tracee - one thread, stopped for a moment, made to run system calls, and put back as it was.
 *
 * The rule that shapes this file: the controller may die at any instant, and the kernel then lets
 * the thread run with whatever registers were last set. So a thread is always left in a state
 * from which it finds home alone: either its own, or inside a stub whose next step is
 * rt_sigreturn(2) through a signal frame that holds its own state, vector registers and signal
 * mask included. All signals are blocked meanwhile; the frame unblocks them.
 *
 * With the controller alive the way home is exact: registers and signal mask are put back by
 * ptrace inside the kernel's signal path, so that an interrupted system call restarts as if
 * nothing had been.
 */
#ifndef WATCHCTL_TARGET_STOP_TRACEE_H
#define WATCHCTL_TARGET_STOP_TRACEE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "watchctl/base/error.h"

#define TRACEE_DETOUR_FRAME 0x140u /* of a frame that shares the extended state of another */
#define TRACEE_FRAME_MAX 0x3000u   /* bytes a signal frame may take, extended state included */

struct tracee {
	pid_t pid, tid;
	struct user_regs_struct home; /* as found, already adjusted for an exact return */
	uint64_t sigmask;
	uint8_t *frame; /* ucontext and extended state that bring the thread home */
	size_t frame_len;
	bool away;	    /* registers are not `home` */
	int pending_signal; /* to be delivered when it goes on; 0: none */
	uint64_t stopped_at_ns;
};

enum tracee_stop_result {
	TRACEE_STOPPED,
	TRACEE_GONE,   /* it ended meanwhile */
	TRACEE_BUSY,   /* did not stop in time: uninterruptible in the kernel */
	TRACEE_TRACED, /* another tracer holds it */
	TRACEE_DENIED, /* no permission */
};

/*
 * Seizes and stops @tid of @pid. *ret is written only for TRACEE_STOPPED; then call tracee_release().
 * @timeout_ms is for a thread that cannot stop; one that only waits for a CPU is waited for.
 */
enum tracee_stop_result tracee_stop(pid_t pid, pid_t tid, unsigned int timeout_ms, struct tracee *ret);

/*
 * A thread that we trace already, as remote_open() takes it: it must stand in a stop of its own tracing
 * (PTRACE_EVENT_STOP), else false. To be let go of afterwards: its ptrace options are others then.
 */
bool tracee_hold(pid_t pid, pid_t tid, struct tracee *ret);

#define TRACEE_QUEUED 8 /* so many are looked at */

/*
 * Signals that wait for a thread that we trace and that stands still: its own, or those of its process
 * (PTRACE_PEEKSIGINFO_SHARED). How many of them *ret has; negative: it is gone.
 */
long tracee_queued(pid_t tid, uint32_t flags, siginfo_t ret[TRACEE_QUEUED]);

/* The same, without the first @from of them. */
long tracee_queued_from(pid_t tid, uint32_t flags, uint64_t from, siginfo_t ret[TRACEE_QUEUED]);

/* May we trace it at all, whoever does at the moment? */
bool tracee_is_permitted(pid_t pid, pid_t tid);

/*
 * Some system calls (epoll_wait, sigtimedwait, semop, sockets with a timeout) answer a tracer's stop with
 * EINTR, which the program would not have had. Where no signal of its own waits, @regs are changed so that
 * the call starts again, with its whole timeout, once they are set. True: they were changed.
 */
bool tracee_undo_false_eintr(pid_t pid, pid_t tid, struct user_regs_struct *regs);

/*
 * A call with a time limit (poll, nanosleep, futex) that a stop has interrupted is resumed by restart_syscall(2),
 * which a seccomp filter may answer with the death of the program. Of a thread under seccomp @regs are changed so
 * that the call begins again, with its whole time limit, once they are set; a signal that has a handler ends it with
 * EINTR as ever. Where it cannot be known which call it was (a stop before it was under seccomp has had it resumed,
 * and the code does not show the number), it ends with EINTR. True: they were changed.
 */
bool tracee_begin_call_again(pid_t pid, pid_t tid, struct user_regs_struct *regs);

/*
 * Writes the bytes of the way home, for a frame that will lie at @addr (64-byte aligned): the stub must
 * run rt_sigreturn with rsp == @addr. Returns false when the extended state does not fit.
 */
bool tracee_build_frame(struct tracee *t, uint64_t addr);

/*
 * After tracee_build_frame(): another frame, TRACEE_DETOUR_FRAME bytes in @ret, for memory next to it. What
 * returns through it makes system call @nr at @rip, with the stack at @rsp, before it goes home.
 */
void tracee_build_detour(const struct tracee *t, uint64_t rip, uint64_t rsp, long nr, uint64_t a, uint64_t b,
			 uint8_t ret[TRACEE_DETOUR_FRAME]);

/*
 * Runs one system call in the stopped thread, by the stub at @rip, whose first instruction is syscall,
 * with @rsp. The frame must be in place. WC_ETARGET when the thread dies. *ret: the kernel's result.
 */
struct wc_error *tracee_syscall(struct tracee *t, uint64_t rip, uint64_t rsp, long nr, const uint64_t arg[6],
				long *ret);

/*
 * Runs code at @rip, whose first instruction makes an access that must raise SIGTRAP of code @si_code within
 * @timeout_ms; the signal is swallowed. *ret: whether it came. @rdi is its argument. A fault of that access
 * is swallowed as well; but not for a program that ignores SIGSEGV or SIGBUS, for which a fault is the end.
 */
struct wc_error *tracee_expect_trap(struct tracee *t, uint64_t rip, uint64_t rsp, uint64_t rdi, int si_code,
				    unsigned int timeout_ms, bool *ret);

/* Brings the thread home, runs @at_home (may be NULL) while it is still stopped there. */
struct wc_error *tracee_go_home(struct tracee *t, void (*at_home)(void *ctx), void *ctx);

/* Detaches. Returns how long it was stopped, in ns. The tracee is zeroed: its tid is 0. */
uint64_t tracee_release(struct tracee *t);

#endif
