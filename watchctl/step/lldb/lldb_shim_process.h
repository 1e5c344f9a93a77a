/*
 * lldb_shim_process - a process controlled by LLDB, in plain C: run, stop, reasons of stops, registers, memory,
 * breakpoints by address.
 *
 * LLDB waits in a thread of the shim, so that lldb_process_wait() can time out. Functions that need a stopped
 * process say so; calling them while the process runs is a mistake. One thread at a time, except for
 * lldb_process_interrupt().
 *
 * Signals: each one stops the process and is reported; when it goes on, the program gets it, but for those that
 * LLDB keeps to itself: SIGTRAP, SIGSTOP, and in somebody else's debugger those that its user has chosen.
 */
#ifndef WATCHCTL_STEP_LLDB_LLDB_SHIM_PROCESS_H
#define WATCHCTL_STEP_LLDB_LLDB_SHIM_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/code/memory_view.h"
#include "watchctl/code/regs.h"

#ifdef __cplusplus
extern "C" {
#endif

struct lldb_process;
struct tracee;

/*
 * Attaches; the process stands still afterwards. LLDB's helper is found by itself: LLDB_DEBUGSERVER_PATH, or
 * where packages have it. WC_EPERM, WC_ETARGET with LLDB's reason, WC_ENOTSUP: there is no lldb-server.
 */
struct wc_error *lldb_process_attach(pid_t pid, struct lldb_process **ret);

/*
 * The same with a process that this thread traces and holds (launch_start(), run_to_entry()): it does not run
 * in between. On success @held is released, its tid 0; else it still holds.
 */
struct wc_error *lldb_process_take_over(struct tracee *held, struct lldb_process **ret);

/*
 * Starts @argv, found by PATH, as a child of ours, with our terminal, files and environment. It stands at its
 * entry point: its libraries are loaded. The caller waits for it in the end.
 */
struct wc_error *lldb_process_launch(char *const argv[], struct lldb_process **ret);

/* Of one that was attached or launched: it runs on, without us. Accepts NULL. The process stands still, or
 * has ended. */
struct wc_error *lldb_process_close(struct lldb_process *p);

pid_t lldb_process_pid(const struct lldb_process *p);

/* It belongs to an interactive LLDB (lldb_process_of()), whose user may have breakpoints of his own. */
bool lldb_process_is_shared(const struct lldb_process *p);

/*
 * Of a shared process: between the two it is ours to move, and LLDB shows its user nothing of it; then
 * signals are handled again as he has chosen. Without effect on one that is not shared. The process stands
 * still.
 */
void lldb_process_borrow(struct lldb_process *p);
void lldb_process_give_back(struct lldb_process *p);

enum lldb_state { LLDB_RUNNING, LLDB_STOPPED, LLDB_ENDED };

/* All threads go on, but for the @n that are listed. Returns at once. */
struct wc_error *lldb_process_go(struct lldb_process *p, const pid_t *held, size_t n);

/* Thread @tid executes one instruction, while the others stand. Returns at once. */
struct wc_error *lldb_process_step(struct lldb_process *p, pid_t tid);

/* Until the process has stopped or ended, at most @timeout_ms. Fails where LLDB could not move it. */
struct wc_error *lldb_process_wait(struct lldb_process *p, int timeout_ms, enum lldb_state *ret);

/* Makes a running process stop soon; by any thread. */
void lldb_process_interrupt(struct lldb_process *p);

/*
 * The user of a shared process wants it to stand still: it is interrupted, and whoever moves it is informed,
 * once. By any thread.
 */
void lldb_process_ask_pause(struct lldb_process *p);
bool lldb_process_take_pause(struct lldb_process *p);

/* After LLDB_ENDED: as waitpid(2) would tell. */
int lldb_process_status(const struct lldb_process *p);

enum lldb_why {
	LLDB_WHY_NONE,	     /* others stopped */
	LLDB_WHY_BREAKPOINT, /* one of lldb_process_break() */
	LLDB_WHY_STEP,	     /* it was stepped */
	LLDB_WHY_SIGNAL,
	LLDB_WHY_INTERRUPT, /* lldb_process_interrupt() */
	LLDB_WHY_EXEC,	    /* another program, before its first instruction */
	LLDB_WHY_USER, /* of a shared one: its user wants it to stop here (breakpoint, watchpoint, signal) */
	LLDB_WHY_OTHER,
};

struct lldb_thread {
	pid_t tid;
	enum lldb_why why;
	bool user;	      /* whatever it is besides: the user wants the stop too */
	int32_t signal, code; /* siginfo_t; LLDB_WHY_SIGNAL, and LLDB_WHY_USER if that is one: else 0 */
	uint64_t pc, sp;
};

/* Those of the stopped process, valid until it runs. */
const struct lldb_thread *lldb_process_threads(struct lldb_process *p, size_t *n);

/* Of a thread of the stopped process. False: it is gone, or has no such register. */
bool lldb_process_regs(struct lldb_process *p, pid_t tid, struct regs *ret);
bool lldb_process_vector(struct lldb_process *p, pid_t tid, unsigned int reg, uint8_t ret[64]);
bool lldb_process_x87(struct lldb_process *p, pid_t tid, unsigned int reg, uint8_t ret[10]);

/* The program's own bytes, without breakpoints. Lives as long as @p; for a stopped process. */
struct memory_view lldb_process_memory(struct lldb_process *p);

/* One of ours at @address; set twice is set once. The process stands still. */
struct wc_error *lldb_process_break(struct lldb_process *p, uint64_t address);
void lldb_process_unbreak(struct lldb_process *p, uint64_t address);

#ifdef __cplusplus
}
#endif

#endif
