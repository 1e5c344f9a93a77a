/*
 * event_access - which instruction made an access, and of what kind it was, from the event and the code facts
 * reported before it. Where the registers were withheld, what they had said is in the event.
 */
#ifndef WATCHCTL_TRACE_EVENT_ACCESS_H
#define WATCHCTL_TRACE_EVENT_ACCESS_H

#include "watchctl/trace/event.h"

/*
 * @w: its watch; NULL: not reported. @pc: about the rip of @e, @caller: about its frame[1]; NULL: not reported.
 */
void event_access_resolve(const struct access_event *e, const struct watch_event *w,
			  const struct code_fact *pc, const struct code_fact *caller,
			  struct access_verdict *ret);

#endif
