/* flow_places - one address space for the modules of many processes: see trace/flow/flow_stack_tag.h. */
#ifndef WATCHCTL_MONITOR_FLOW_FLOW_PLACES_H
#define WATCHCTL_MONITOR_FLOW_FLOW_PLACES_H

#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/trace/event.h"

struct flow_places;

struct flow_places *flow_places_new(struct event_sink sink); /* NULL: no memory */
void flow_places_free(struct flow_places *p);		     /* accepts NULL */

/* *@address, of a process that has @modules, becomes one of the log's. The sink gets a module that is new, at @now_ns. */
struct wc_error *flow_places_translate(struct flow_places *p, const struct module_list *modules,
				       uint64_t now_ns, uint64_t *address);

#endif
