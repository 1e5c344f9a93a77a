/* call_probes - the probes of `watchctl trace`, which are a part of watchctl: no compiler is needed for them. */
#ifndef WATCHCTL_PATCH_PROBE_CALL_PROBES_H
#define WATCHCTL_PATCH_PROBE_CALL_PROBES_H

#include <stdbool.h>

#include "watchctl/base/error.h"
#include "watchctl/patch/probe/probe_image.h"

/* Each records a PROBE_RECORD_CALL in a ring: without the registers that arguments are passed in, and with them. */
#define CALL_PROBE_PASSED "call_passed"
#define CALL_PROBE_ENTERED "call_entered"

enum call_probes_way {
	CALL_PROBES_RINGS, /* trampolines call them */
	CALL_PROBES_BUFFERS, /* threads have buffers (probe/calls/call_wire.h); no probe is called, whichever is asked for */
};

/* *@ret: probe_image_deinit(). */
struct wc_error *call_probes_image(enum call_probes_way way, struct probe_image *ret);

#endif
