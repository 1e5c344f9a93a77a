/*
 * kernel_access - what the kernel did to a watched variable: which of its functions, and whether it read or
 * wrote. The answer is in the kernel's own instruction, read as it is now (code is patched while it runs),
 * and in its registers at the trap: access_resolve(), as for any other code.
 */
#ifndef WATCHCTL_ENGINE_INTAKE_KERNEL_ACCESS_H
#define WATCHCTL_ENGINE_INTAKE_KERNEL_ACCESS_H

#include "handler/wire.h"
#include "watchctl/code/memory_view.h"
#include "watchctl/engine/plan/engine.h"
#include "watchctl/trace/event.h"

struct kernel_access;

/* @kernel: reads the kernel's memory. NULL: no memory. */
struct kernel_access *kernel_access_new(struct memory_view kernel);
void kernel_access_free(struct kernel_access *k); /* accepts NULL */

/*
 * Fills in what *@a says of the kernel, which is record @r, with WIRE_KERNEL, of watch @w; its values are in
 * *@a already. Where the instruction does not tell: a register that fires on writes only, or a value that
 * changed, means a write. @k may be NULL: then that is all. *ret: what is known of the instruction itself.
 * The function's name lives as long as @k.
 */
void kernel_access_fill(struct kernel_access *k, const struct watchpoint *w, const struct wire_record *r,
			struct access_event *a, struct access_verdict *ret);

/*
 * The access is a step of a repeated string instruction, which will touch the same register's bytes again in
 * its next step: a copy of four bytes is one access, though the CPU may trap at each byte.
 */
bool kernel_access_goes_on(struct kernel_access *k, const struct watchpoint *w, const struct wire_record *r);

#endif
