/* inject_impl - what the files of inject.h share. */
#ifndef WATCHCTL_TARGET_INJECT_INJECT_IMPL_H
#define WATCHCTL_TARGET_INJECT_INJECT_IMPL_H

#include "watchctl/target/inject/inject.h"
#include "watchctl/target/inject/remote.h"

#define NR_SIGACTION 13
#define SIGTRAP_NR 5

/*
 * Inside the shared area, behind the control block: small change for remote calls, and at the end the
 * frame that leads home. A signal that comes while a thread is in the stub is handled on the stack
 * below that frame, so there is room for a handler of the program's own.
 */
#define BOOT_DATA WIRE_CONTROL_SIZE
#define BOOT_FRAME (WIRE_CONTROL_SIZE + WIRE_BOOT_SIZE - TRACEE_FRAME_MAX)

/* A thread at our disposal, @tid or any (0), in our stub where that can be used; else by the program's own
 * code. */
struct wc_error *inject_open_stub(const struct injection *inj, pid_t tid, struct remote *r);

/* NULL: the program does not hold the address of a handler of ours, and it may be unmapped. */
struct wc_error *inject_not_kept(const struct injection *inj);

/* What is mapped, and what a killed controller had. */
struct wc_error *inject_unmap(struct injection *inj, struct remote *r);

#endif
