/*
 * probe_cpu - what of the processor probes make use of (probe/probe.h).
 */
#ifndef WATCHCTL_PATCH_PROBE_PROBE_CPU_H
#define WATCHCTL_PATCH_PROBE_PROBE_CPU_H

#include "probe/wire.h"

/* Of the processor that this runs on: the flags PROBE_FSGSBASE and PROBE_RDPID, and how it keeps its vector registers. */
void probe_cpu_describe(struct probe_shared *ret);

#endif
