/* log_symbols - what the events of a log report a symbolizer, beside the modules. */
#ifndef WATCHCTL_VIEW_EVENT_LOG_SYMBOLS_H
#define WATCHCTL_VIEW_EVENT_LOG_SYMBOLS_H

#include "watchctl/code/symbols/symbolizer.h"
#include "watchctl/trace/event.h"

/* A name that `watchctl symbolize` added. False: no memory. */
bool log_symbols_report(struct symbolizer *s, const struct symbol_event *e);

/*
 * A process, whose perf map may name JIT code, unless it ran on another machine. @until_ns: when the
 * recording ended (CLOCK_REALTIME), to use the map of a process that has ended since; 0: it may still go on.
 * False: no memory.
 */
bool log_symbols_process(struct symbolizer *s, const struct process_event *p, uint64_t until_ns);

bool log_is_from_here(const struct process_event *p);

#endif
