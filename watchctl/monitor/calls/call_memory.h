/* call_memory - shows a program that values are fetched in (probe/calls/call_fetch.h) where it need not ask the kernel. */
#ifndef WATCHCTL_MONITOR_CALLS_CALL_MEMORY_H
#define WATCHCTL_MONITOR_CALLS_CALL_MEMORY_H

#include "watchctl/monitor/patch/patch_session.h"

/* Where errno is, and what of its own file it only reads. What cannot be found is not shown: errno is not recorded then. */
void call_memory_show(struct patch_session *s);

#endif
