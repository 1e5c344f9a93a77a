/*
 * call_target - the function that was called where a return address lies. It may have jumped on to another one, which the
 * stack shows in its place: glibc's sem_wait() does, to one that has no name without debug symbols.
 */
#ifndef WATCHCTL_FLOW_EXPLAIN_CALL_TARGET_H
#define WATCHCTL_FLOW_EXPLAIN_CALL_TARGET_H

#include <stdint.h>

#include "watchctl/code/memory_view.h"

/* Follows a PLT entry. 0: no direct call and none by the GOT lies there, or it cannot be read. */
uint64_t call_target(const struct memory_view *mem, uint64_t return_address);

#endif
