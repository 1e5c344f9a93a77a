/*
 * causeless - reports debug exceptions that the processor gave no cause for (wire_code_raises_trap()): when the first has
 * come, and at the end how many there were.
 */
#ifndef WATCHCTL_ENGINE_INTAKE_CAUSELESS_H
#define WATCHCTL_ENGINE_INTAKE_CAUSELESS_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/trace/event.h"

/* *reported: 0 at first. @n in all so far; @last: at the end. */
struct wc_error *causeless_report(uint64_t *reported, uint64_t n, bool last, struct event_sink sink);

#endif
