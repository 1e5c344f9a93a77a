/*
 * watchpoint - what every engine asks of a watchpoint before it arms it.
 */
#ifndef WATCHCTL_ENGINE_PLAN_WATCHPOINT_H
#define WATCHCTL_ENGINE_PLAN_WATCHPOINT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "handler/wire.h"
#include "watchctl/engine/plan/engine.h"

/*
 * WC_EUSAGE: no register covers it; WC_ENOTSUP: an execution, where the CPU executes a translation instead; WC_ENAME:
 * nothing is mapped there; else why that cannot be known. A watch with an `address` has no one place: NULL.
 */
struct wc_error *watchpoint_check_place(const struct watchpoint *w, pid_t pid);

/* Of the process, too: first proc_check(), then its place. */
struct wc_error *watchpoint_check(const struct watchpoint *w, pid_t pid);

/* What whoever records its hits must know. @w->want_* are filled in; @value: the last one seen. */
struct wire_watch watchpoint_wire(const struct watchpoint *w, uint64_t value);

/* Why no access of ours may test the watch: the program or others could notice it. NULL: one may. */
const char *watchpoint_untestable(const struct watchpoint *w, pid_t pid);

/* The value of the bytes asked for, now. False: it has no one address, or cannot be read. */
bool watchpoint_value(const struct watchpoint *w, pid_t pid, uint64_t *ret);

/*
 * The value of a thread's own copy at @addr, into the table of last values (WIRE_SHADOWS) that recorders look into:
 * its next access shows it as old.
 */
void watchpoint_remember(const struct watchpoint *w, pid_t pid, uint64_t addr, struct wire_shadow *table);

void counts_add(struct engine_counts *sum, const struct engine_counts *c);

#endif
