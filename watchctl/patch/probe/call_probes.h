/* call_probes - the probes of `watchctl trace`, which are a part of watchctl: no compiler is needed for them. */
#ifndef WATCHCTL_PATCH_PROBE_CALL_PROBES_H
#define WATCHCTL_PATCH_PROBE_CALL_PROBES_H

#include "watchctl/base/error.h"
#include "watchctl/patch/probe/probe_image.h"

/* Threads have buffers (probe/calls/call_wire.h): the image's entry is what trampolines leave to it, and no probe is called but this. */
#define CALL_PROBE "call_buffered"

/* *@ret: probe_image_deinit(). */
struct wc_error *call_probes_image(struct probe_image *ret);

#endif
