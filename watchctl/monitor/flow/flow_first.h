/* flow_first - what is there when a recording of the system's events begins: the threads' names, and the sockets' other ends. */
#ifndef WATCHCTL_MONITOR_FLOW_FLOW_FIRST_H
#define WATCHCTL_MONITOR_FLOW_FLOW_FIRST_H

#include "watchctl/flow/kernel/kernel_flow.h"

/*
 * Hands them to @take as events `name` and `socket` of FLOW_CPU_NAMES (trace/flow/flow_format.h). @salt: kernel_flow_salt(). Call it once
 * the recording has begun, so that no thread is missed. Sockets of other network namespaces are not told. WC_EFAIL.
 */
struct wc_error *flow_first_tell(uint64_t salt, kernel_flow_take take, void *ctx);

#endif
