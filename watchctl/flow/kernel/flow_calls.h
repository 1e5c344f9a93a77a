/* flow_calls - which system calls connect threads, and by what: what flow.bpf.c records of their returns. */
#ifndef WATCHCTL_FLOW_KERNEL_FLOW_CALLS_H
#define WATCHCTL_FLOW_KERNEL_FLOW_CALLS_H

#include <stdint.h>

#include "watchctl/flow/kernel/flow_wire.h"

void flow_calls_fill(uint8_t class[FLOW_CALLS]);

#endif
